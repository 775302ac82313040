//! Everything the loop asks of the world, as five small traits.
//!
//! A wrapper (journal, admission, budget, redaction, spans, manual drive) replaces
//! only the part it is about.

use std::sync::Arc;
use std::time::Duration;

use fluzo_llm::{AbortSignal, BoxFuture, EventStream, Message, ModelRequest, ToolOutput};
use fluzo_policy::Access;
use serde::Serialize;

use crate::{Permit, ToolContext, ToolError};

/// The five effects of a run.
#[derive(Clone)]
pub struct Effects {
    /// Requests to models.
    pub model: Arc<dyn ModelEffect>,
    /// Tool runs.
    pub tools: Arc<dyn ToolEffect>,
    /// Questions to a person.
    pub human: Arc<dyn HumanEffect>,
    /// Waiting, and the wall clock.
    pub time: Arc<dyn TimeEffect>,
    /// Durable records.
    pub journal: Arc<dyn JournalEffect>,
}

/// Why a run stops at once, without any further effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Halt {
    /// A record could not be stored.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// Whoever owns the run stopped it.
    #[error("{0}")]
    Stopped(String),
}

/// A record could not be stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the session could not be saved: {0}")]
pub struct AppendError(pub String);

/// Requests to models.
pub trait ModelEffect: Send + Sync {
    /// Starts one request. Failures of the provider are events of the stream.
    ///
    /// # Errors
    ///
    /// Halts the run; nothing has been sent then.
    fn request<'a>(
        &'a self,
        request: ModelRequest,
        abort: AbortSignal,
    ) -> BoxFuture<'a, Result<EventStream, Halt>>;
}

/// Tool runs.
pub trait ToolEffect: Send + Sync {
    /// Runs the tool that `permit` is for. Dropping the future ends what it started.
    ///
    /// # Errors
    ///
    /// [`ToolFailure::Tool`] becomes the call's result; [`ToolFailure::Halt`] halts the run.
    fn run<'a>(
        &'a self,
        permit: Permit,
        context: ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>>;
}

/// How a tool run fails.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ToolFailure {
    /// The tool failed; the model is told.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// The run must stop.
    #[error(transparent)]
    Halt(#[from] Halt),
}

/// Questions to a person.
pub trait HumanEffect: Send + Sync {
    /// Waits for an answer. Dropping the future withdraws the question.
    fn ask<'a>(&'a self, question: Question) -> BoxFuture<'a, Answer>;
}

/// A call that needs a person's consent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Id of the call.
    pub call_id: String,
    /// Name of the tool.
    pub tool: String,
    /// What the call touches.
    pub accesses: Vec<Access>,
    /// Why it is asked.
    pub reason: String,
}

/// What the person says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// This call may run, once.
    Allow,
    /// It may not.
    Deny {
        /// Why, for the model.
        reason: String,
    },
}

/// Waiting, and the wall clock.
pub trait TimeEffect: Send + Sync {
    /// The wall clock in Unix milliseconds.
    fn now_ms(&self) -> i64;

    /// Waits. Dropping the future ends the wait.
    fn sleep<'a>(&'a self, duration: Duration) -> BoxFuture<'a, ()>;
}

/// Durable records.
pub trait JournalEffect: Send + Sync {
    /// Stores `record`; when this returns it is as durable as the profile promises.
    ///
    /// # Errors
    ///
    /// When it could not be stored; the run halts.
    fn append<'a>(&'a self, record: Record) -> BoxFuture<'a, Result<(), AppendError>>;
}

/// Something to store.
#[derive(Debug, Clone)]
pub enum Record {
    /// A finished message of the transcript.
    Message(Arc<Message>),
    /// An effect is about to happen.
    Intent(Intent),
    /// An effect has happened.
    Outcome(Outcome),
}

/// An effect that is about to happen.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "effect", rename_all = "snake_case")]
pub enum Intent {
    /// A request to a model.
    RequestModel {
        /// Provider and model.
        model: String,
    },
    /// A tool run.
    RunTool {
        /// Id of the call.
        call_id: String,
        /// Name of the tool.
        tool: String,
        /// What it touches.
        accesses: Vec<Access>,
    },
}

/// An effect that has happened. An intent without an outcome is of unknown outcome:
/// never a success, never safe to repeat.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "effect", rename_all = "snake_case")]
pub enum Outcome {
    /// The model's response ended.
    RequestModel {
        /// Whether it was complete.
        ok: bool,
    },
    /// The tool returned.
    RunTool {
        /// Id of the call.
        call_id: String,
        /// Whether it succeeded.
        ok: bool,
    },
}

/// For runs without a person: every question is answered with a denial.
#[derive(Debug, Default, Clone, Copy)]
pub struct NobodyToAsk;

impl HumanEffect for NobodyToAsk {
    fn ask<'a>(&'a self, question: Question) -> BoxFuture<'a, Answer> {
        let reason = format!(
            "permission required for `{}` and nobody is there to ask",
            question.tool
        );
        Box::pin(std::future::ready(Answer::Deny { reason }))
    }
}
