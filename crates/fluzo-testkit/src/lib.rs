//! Deterministic doubles for tests of the agent and of what is built on it.
//!
//! Everything here is synchronous inside: it is ready at the first poll unless it was
//! told to wait, so tests need neither an executor nor a clock. What a double cannot
//! do it refuses loudly: a request without a scripted reply or a question without a
//! scripted answer fails the test that made it.
#![allow(
    clippy::panic,
    reason = "a double that is used in a way that was not scripted fails the test"
)]

pub mod conformance;
mod history;
mod hooks;
mod human;
mod journal;
mod log;
mod mock;
mod model;
mod policy;
pub mod polling;
pub mod reply;
mod switch;
mod time;
mod tool;
mod tools;
mod world;

pub use history::{assert_valid_history, check_history};
pub use hooks::ScriptedHooks;
pub use human::ScriptedHuman;
pub use journal::MemoryJournal;
pub use log::{EventLog, Seen, name};
pub use mock::MockAgent;
pub use model::{ScriptedModel, ScriptedProvider};
pub use policy::ScriptedPolicy;
pub use polling::{poll_once, poll_to_end};
pub use reply::Reply;
pub use switch::Switch;
pub use time::FixedTime;
pub use tool::{Ending, FakeTool, ToolRun};
pub use tools::WatchedTools;
pub use world::{World, context, model, spec, tools, user};
