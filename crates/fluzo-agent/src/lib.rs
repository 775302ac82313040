//! The agent: the loop, the effects it needs, tools and the gate in front of them.
//!
//! The loop knows no session, settings, file, socket, clock or executor. What it
//! needs enters as [`Effects`]; what it does is seen through [`AgentEvent`]s
//! and the [`StateCell`] they are reduced into.
//!
//! [`AgentEvent`]: fluzo_llm::AgentEvent
//! [`StateCell`]: fluzo_llm::StateCell

mod agent;
pub mod compaction;
mod effects;
pub mod gate;
mod hooks;
mod loop_guard;
mod native;
mod queue;
pub mod schema;
mod tool;
mod updates;

pub use agent::{
    Agent, Input, Listener, Listeners, Run, RunContext, RunEnd, RunOutcome, RunSpec, StartError,
    Subscription,
};
pub use effects::{
    Answer, AppendError, Effects, Halt, HumanEffect, Intent, JournalEffect, ModelEffect,
    NobodyToAsk, Outcome, Question, Record, TimeEffect, ToolEffect, ToolFailure,
};
pub use gate::{DirectTools, Gate, Judgement, Pending, Permit};
pub use hooks::{AfterToolCall, BeforeToolCall, Hooks, NextTurn, NoHooks, ToolCallInfo, TurnInfo};
pub use loop_guard::{Looping, Repetition};
pub use native::{AgentOptions, NativeAgent};
pub use queue::{QueueMode, QueueSnapshot};
pub use tool::{ExecutionMode, Tool, ToolContext, ToolError, ToolSet};
pub use updates::UpdateSink;
