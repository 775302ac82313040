//! What happens during a run, in the order it happens.

use std::sync::Arc;

use crate::{Extra, Message, StreamEvent, ToolOutput};

/// A lifecycle event of the agent.
///
/// The partial message of a streaming response is not part of an event: it is lent
/// through [`StateCell`](crate::StateCell), so that a delta costs its own length.
#[derive(Debug, Clone)]
pub enum AgentEvent {
    /// A run begins.
    AgentStart,
    /// A turn begins: one response and its tool calls.
    TurnStart,
    /// A message begins; of a streaming response, its empty partial.
    MessageStart {
        /// The message.
        message: Arc<Message>,
    },
    /// A streaming response has grown.
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
        /// Results of its tool calls, in source order.
        tool_results: Vec<Arc<Message>>,
    },
    /// A run ends.
    AgentEnd {
        /// Messages that the run added.
        messages: Vec<Arc<Message>>,
    },
}

impl AgentEvent {
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
        }
    }
}
