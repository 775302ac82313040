//! Events of a session, in the order front ends see them.

use std::sync::Arc;

use fluzo_llm::{
    AgentEvent, Extra, FormSwitch, GivenUp, Message, StreamEvent, ThinkingLevel, ToolOutput,
};
use serde::Serialize;
use serde_json::Value;

/// An event of a session: what the agent does, and what happens around it.
#[derive(Debug, Clone)]
pub enum Event {
    /// A run begins.
    AgentStart,
    /// A turn begins.
    TurnStart,
    /// A message begins.
    MessageStart {
        /// The message; of a response, its empty partial.
        message: Arc<Message>,
    },
    /// A response has grown.
    MessageUpdate {
        /// By what.
        delta: StreamEvent,
    },
    /// A message is complete and stored.
    MessageEnd {
        /// The message.
        message: Arc<Message>,
    },
    /// A tool call is taken up.
    ToolExecutionStart {
        /// Id of the call.
        call_id: String,
        /// Name of the tool.
        tool_name: String,
        /// Arguments as the model gave them.
        args: Extra,
    },
    /// A running tool has something to show.
    ToolExecutionUpdate {
        /// Id of the call.
        call_id: String,
        /// Name of the tool.
        tool_name: String,
        /// Arguments as the model gave them.
        args: Extra,
        /// What there is so far.
        partial: ToolOutput,
    },
    /// A tool call has ended.
    ToolExecutionEnd {
        /// Id of the call.
        call_id: String,
        /// Name of the tool.
        tool_name: String,
        /// What it returned.
        result: ToolOutput,
        /// Whether it failed.
        is_error: bool,
    },
    /// A turn ends.
    TurnEnd {
        /// The response.
        message: Arc<Message>,
        /// Results of its calls.
        tool_results: Vec<Arc<Message>>,
    },
    /// A run ends.
    AgentEnd {
        /// Messages that it added.
        messages: Vec<Arc<Message>>,
        /// Whether the run is entered again after a wait.
        will_retry: bool,
    },
    /// What waits in the queues has changed.
    QueueUpdate {
        /// Texts of the steering queue.
        steering: Vec<String>,
        /// Texts of the follow-up queue.
        follow_up: Vec<String>,
    },
    /// A failed response will be tried again after a wait.
    AutoRetryStart {
        /// Number of the attempt, from 1.
        attempt: u32,
        /// Most attempts.
        max_attempts: u32,
        /// The wait in milliseconds.
        delay_ms: u64,
        /// What went wrong.
        error_message: String,
    },
    /// Trying again is over.
    AutoRetryEnd {
        /// Whether a response came.
        success: bool,
        /// Number of the last attempt.
        attempt: u32,
        /// What went wrong at last.
        final_error: Option<String>,
        /// What is told of a series whose last attempt failed as well.
        given_up: Option<Box<GivenUp>>,
    },
    /// A form of the request was refused, and the request is made again at once in another.
    FormSwitched {
        /// The form that is sent from now on.
        switch: FormSwitch,
        /// What the server said of the refused one.
        error_message: String,
    },
    /// A compaction begins.
    CompactionStart {
        /// Why.
        reason: CompactionReason,
    },
    /// A compaction has ended.
    CompactionEnd {
        /// Why it began.
        reason: CompactionReason,
        /// What came of it.
        result: Option<CompactionResult>,
        /// Whether it was ended before its time.
        aborted: bool,
        /// Whether the request that did not fit is made again.
        will_retry: bool,
        /// What went wrong.
        error_message: Option<String>,
    },
    /// The session has another name.
    SessionInfoChanged {
        /// The name; none when it was taken away.
        name: Option<String>,
    },
    /// The model thinks more or less from here on.
    ThinkingLevelChanged {
        /// The level.
        level: ThinkingLevel,
    },
    /// A hook has failed; the session goes on without it.
    ExtensionError {
        /// Whose it is.
        path: String,
        /// During which event or command.
        event: String,
        /// What went wrong.
        error: String,
    },
}

/// Why a session is compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CompactionReason {
    /// The user asked for it.
    Manual,
    /// The context is about to fill the model's window.
    Threshold,
    /// A request did not fit.
    Overflow,
}

/// What a compaction has made.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CompactionResult {
    /// The summary.
    pub summary: String,
    /// First entry that is kept as it is.
    pub first_kept_entry_id: String,
    /// Estimated tokens of the context before.
    pub tokens_before: u64,
    /// Facts about it, such as files that were read and changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

impl Event {
    /// The event of a session for one of its agent. `will_retry` counts for the end of a run.
    pub fn from_agent(event: &AgentEvent, will_retry: bool) -> Self {
        match event.clone() {
            AgentEvent::AgentStart => Self::AgentStart,
            AgentEvent::TurnStart => Self::TurnStart,
            AgentEvent::MessageStart { message } => Self::MessageStart { message },
            AgentEvent::MessageUpdate { delta } => Self::MessageUpdate { delta },
            AgentEvent::MessageEnd { message } => Self::MessageEnd { message },
            AgentEvent::ToolExecutionStart {
                call_id,
                tool_name,
                args,
            } => Self::ToolExecutionStart {
                call_id,
                tool_name,
                args,
            },
            AgentEvent::ToolExecutionUpdate {
                call_id,
                tool_name,
                args,
                partial,
            } => Self::ToolExecutionUpdate {
                call_id,
                tool_name,
                args,
                partial,
            },
            AgentEvent::ToolExecutionEnd {
                call_id,
                tool_name,
                result,
                is_error,
            } => Self::ToolExecutionEnd {
                call_id,
                tool_name,
                result,
                is_error,
            },
            AgentEvent::TurnEnd {
                message,
                tool_results,
            } => Self::TurnEnd {
                message,
                tool_results,
            },
            AgentEvent::AgentEnd { messages } => Self::AgentEnd {
                messages,
                will_retry,
            },
        }
    }

    /// The name of the event in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::AgentStart => "agent_start",
            Self::TurnStart => "turn_start",
            Self::MessageStart { .. } => "message_start",
            Self::MessageUpdate { .. } => "message_update",
            Self::MessageEnd { .. } => "message_end",
            Self::ToolExecutionStart { .. } => "tool_execution_start",
            Self::ToolExecutionUpdate { .. } => "tool_execution_update",
            Self::ToolExecutionEnd { .. } => "tool_execution_end",
            Self::TurnEnd { .. } => "turn_end",
            Self::AgentEnd { .. } => "agent_end",
            Self::QueueUpdate { .. } => "queue_update",
            Self::AutoRetryStart { .. } => "auto_retry_start",
            Self::AutoRetryEnd { .. } => "auto_retry_end",
            Self::FormSwitched { .. } => "form_switched",
            Self::CompactionStart { .. } => "compaction_start",
            Self::CompactionEnd { .. } => "compaction_end",
            Self::SessionInfoChanged { .. } => "session_info_changed",
            Self::ThinkingLevelChanged { .. } => "thinking_level_changed",
            Self::ExtensionError { .. } => "extension_error",
        }
    }
}
