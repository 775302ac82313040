//! A listener that writes down what it sees.

use std::sync::{Mutex, MutexGuard, PoisonError};

use fluzo_agent::Listener;
use fluzo_llm::{
    AgentEvent, AgentState, BoxFuture, Message, Phase, StateCell, StreamEvent, content,
};

/// Keeps every event with what the state was at that moment.
#[derive(Debug, Default)]
pub struct EventLog(Mutex<Vec<Seen>>);

/// An event, and the state that it was reduced into.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The event's short name; see [`name`].
    pub name: String,
    /// The event.
    pub event: AgentEvent,
    /// What the agent was doing.
    pub phase: Phase,
    /// Whether a run was active.
    pub is_streaming: bool,
    /// The text of the partial response, if there was one.
    pub partial: Option<String>,
    /// Calls that were running.
    pub pending: Vec<String>,
    /// How many messages the transcript had.
    pub messages: usize,
    /// The error of the run.
    pub error: Option<String>,
}

impl EventLog {
    /// An empty log.
    pub fn new() -> Self {
        Self::default()
    }

    /// Everything so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.list().clone()
    }

    /// The short names so far.
    pub fn names(&self) -> Vec<String> {
        self.list().iter().map(|seen| seen.name.clone()).collect()
    }

    /// The short names so far without updates of messages.
    pub fn frame(&self) -> Vec<String> {
        let mut names = self.names();
        names.retain(|name| !name.starts_with("message_update"));
        names
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.list().clear();
    }

    fn list(&self) -> MutexGuard<'_, Vec<Seen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener for EventLog {
    fn on_event<'a>(&'a self, event: &'a AgentEvent, state: &'a StateCell) -> BoxFuture<'a, ()> {
        let seen = state.read(|state| look(event, state));
        self.list().push(seen);
        Box::pin(std::future::ready(()))
    }
}

fn look(event: &AgentEvent, state: &AgentState) -> Seen {
    let partial = state.streaming_message.as_ref();
    Seen {
        name: name(event),
        event: event.clone(),
        phase: state.phase(),
        is_streaming: state.is_streaming,
        partial: partial.map(|message| content::joined_text(&message.content)),
        pending: state.pending_tool_calls.clone(),
        messages: state.messages.len(),
        error: state.error_message.clone(),
    }
}

/// The event in one word with what it is about, such as `message_start(user)`,
/// `message_update:text_delta`, `tool_execution_end(c1)`, `message_end(toolResult c1)`
/// and `turn_end([c1,c2])`. The end of a failed response names how it failed:
/// `message_end(assistant aborted)`.
pub fn name(event: &AgentEvent) -> String {
    let kind = event.name();
    match event {
        AgentEvent::MessageStart { message } | AgentEvent::MessageEnd { message } => {
            format!("{kind}({})", about(message))
        }
        AgentEvent::MessageUpdate { delta } => format!("{kind}:{}", delta_name(delta)),
        AgentEvent::ToolExecutionStart { call_id, .. }
        | AgentEvent::ToolExecutionUpdate { call_id, .. }
        | AgentEvent::ToolExecutionEnd { call_id, .. } => format!("{kind}({call_id})"),
        AgentEvent::TurnEnd { tool_results, .. } => {
            let ids = tool_results.iter().filter_map(|m| m.as_tool_result());
            let ids: Vec<_> = ids.map(|result| result.tool_call_id.as_str()).collect();
            format!("{kind}([{}])", ids.join(","))
        }
        AgentEvent::AgentStart | AgentEvent::TurnStart | AgentEvent::AgentEnd { .. } => {
            kind.to_owned()
        }
    }
}

fn about(message: &Message) -> String {
    match message {
        Message::Assistant(assistant) if assistant.failed() => {
            format!("assistant {}", assistant.stop_reason.as_str())
        }
        Message::ToolResult(result) => format!("toolResult {}", result.tool_call_id),
        other => other.role().to_owned(),
    }
}

fn delta_name(delta: &StreamEvent) -> &'static str {
    match delta {
        StreamEvent::Start => "start",
        StreamEvent::TextStart { .. } => "text_start",
        StreamEvent::TextDelta { .. } => "text_delta",
        StreamEvent::TextEnd { .. } => "text_end",
        StreamEvent::ThinkingStart { .. } => "thinking_start",
        StreamEvent::ThinkingDelta { .. } => "thinking_delta",
        StreamEvent::ThinkingEnd { .. } => "thinking_end",
        StreamEvent::ToolCallStart { .. } => "toolcall_start",
        StreamEvent::ToolCallDelta { .. } => "toolcall_delta",
        StreamEvent::ToolCallEnd { .. } => "toolcall_end",
        StreamEvent::Done(_) => "done",
        StreamEvent::Failed(_) => "error",
    }
}
