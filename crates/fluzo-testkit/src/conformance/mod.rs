//! Suites that every implementation of a trait passes.

mod agent;

pub use agent::{AgentCheck, Script, agent, agent_checks};
