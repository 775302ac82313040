//! The agent's state, derived from its events by one reducer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{AgentEvent, AssistantMessage, Message, StreamError, StreamEvent};

/// What the agent is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Phase {
    /// No run.
    #[default]
    Idle,
    /// A run is active and nothing has arrived yet.
    Thinking,
    /// A response is arriving.
    Streaming,
    /// At least one tool is running.
    ExecutingTool,
}

impl Phase {
    /// The name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Thinking => "thinking",
            Self::Streaming => "streaming",
            Self::ExecutingTool => "executing_tool",
        }
    }
}

/// Everything about a run that can be derived from its events.
#[derive(Debug, Clone, Default)]
pub struct AgentState {
    /// The transcript, internal roles included.
    pub messages: Vec<Arc<Message>>,
    /// True exactly while a run is active.
    pub is_streaming: bool,
    /// The response that is arriving.
    pub streaming_message: Option<AssistantMessage>,
    /// Ids of the calls that have started and not ended, in start order.
    pub pending_tool_calls: Vec<String>,
    /// What went wrong in the last run.
    pub error_message: Option<String>,
    /// The typed form of it, when a response failed.
    pub error: Option<StreamError>,
}

impl AgentState {
    /// What the agent is doing.
    pub fn phase(&self) -> Phase {
        match (
            self.is_streaming,
            self.pending_tool_calls.is_empty(),
            &self.streaming_message,
        ) {
            (false, ..) => Phase::Idle,
            (true, false, _) => Phase::ExecutingTool,
            (true, true, Some(partial)) if !partial.content.is_empty() => Phase::Streaming,
            _ => Phase::Thinking,
        }
    }

    /// Applies one event. Costs the length of the event.
    pub fn reduce(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::AgentStart => {
                self.is_streaming = true;
                self.error_message = None;
                self.error = None;
            }
            AgentEvent::MessageStart { message } => {
                self.streaming_message = message.as_assistant().cloned();
            }
            AgentEvent::MessageUpdate { delta } => self.apply_delta(delta),
            AgentEvent::MessageEnd { message } => {
                self.streaming_message = None;
                self.messages.push(Arc::clone(message));
            }
            AgentEvent::ToolExecutionStart { call_id, .. } => {
                self.pending_tool_calls.push(call_id.clone())
            }
            AgentEvent::ToolExecutionEnd { call_id, .. } => {
                self.pending_tool_calls.retain(|id| id != call_id)
            }
            AgentEvent::TurnEnd { message, .. } => {
                if let Some(error) = message.as_assistant().and_then(|m| m.error_message.clone()) {
                    self.error_message = Some(error);
                }
            }
            AgentEvent::AgentEnd { .. } => self.streaming_message = None,
            AgentEvent::TurnStart | AgentEvent::ToolExecutionUpdate { .. } => {}
        }
    }

    /// Applies a part of a response to the partial message.
    pub fn apply_delta(&mut self, delta: &StreamEvent) {
        if let Some(partial) = &mut self.streaming_message {
            partial.apply(delta);
        }
    }

    /// The run is over, however it ended: nothing of it stays behind.
    pub fn settle(&mut self) {
        self.is_streaming = false;
        self.streaming_message = None;
        self.pending_tool_calls.clear();
    }
}

/// Shared, readable state. Reading is a short lock; nothing may wait inside it.
#[derive(Debug, Clone, Default)]
pub struct StateCell(Arc<Mutex<AgentState>>);

impl StateCell {
    /// Lends the state to `look` for as long as it runs.
    pub fn read<R>(&self, look: impl FnOnce(&AgentState) -> R) -> R {
        look(&self.lock())
    }

    /// What the agent is doing.
    pub fn phase(&self) -> Phase {
        self.read(AgentState::phase)
    }

    /// Lends the state for a change. For owners of a run only.
    pub fn change<R>(&self, change: impl FnOnce(&mut AgentState) -> R) -> R {
        change(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, AgentState> {
        // Reductions do not panic half-way; a poisoned state is still a whole one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Extra, ToolOutput};

    fn partial() -> Arc<Message> {
        let json = r#"{"id":"m","name":"m","api":"a","provider":"p","baseUrl":"","input":["text"],"contextWindow":1,"maxTokens":1}"#;
        Arc::new(Message::Assistant(AssistantMessage::begin(
            &serde_json::from_str(json).unwrap(),
            1,
        )))
    }

    fn failed() -> Arc<Message> {
        let Message::Assistant(mut message) = (*partial()).clone() else {
            panic!("assistant")
        };
        message.error_message = Some("boom".into());
        Arc::new(Message::Assistant(message))
    }

    fn start(id: &str) -> AgentEvent {
        AgentEvent::ToolExecutionStart {
            call_id: id.into(),
            tool_name: "t".into(),
            args: Extra::new(),
        }
    }

    fn end(id: &str) -> AgentEvent {
        AgentEvent::ToolExecutionEnd {
            call_id: id.into(),
            tool_name: "t".into(),
            result: ToolOutput::default(),
            is_error: false,
        }
    }

    #[test]
    fn every_event_reduces_as_listed() {
        let mut state = AgentState {
            error_message: Some("old".into()),
            ..AgentState::default()
        };
        type Check = fn(&AgentState) -> bool;
        let rows: Vec<(AgentEvent, Phase, Check)> = vec![
            (AgentEvent::AgentStart, Phase::Thinking, |s| {
                s.is_streaming && s.error_message.is_none()
            }),
            (AgentEvent::TurnStart, Phase::Thinking, |s| {
                s.messages.is_empty()
            }),
            (
                AgentEvent::MessageStart { message: partial() },
                Phase::Thinking,
                |s| s.streaming_message.is_some(),
            ),
            (
                AgentEvent::MessageUpdate {
                    delta: StreamEvent::TextStart { index: 0 },
                },
                Phase::Streaming,
                |s| s.streaming_message.is_some(),
            ),
            (
                AgentEvent::MessageEnd { message: partial() },
                Phase::Thinking,
                |s| s.streaming_message.is_none() && s.messages.len() == 1,
            ),
            (start("a"), Phase::ExecutingTool, |s| {
                s.pending_tool_calls == ["a"]
            }),
            (start("b"), Phase::ExecutingTool, |s| {
                s.pending_tool_calls == ["a", "b"]
            }),
            (end("a"), Phase::ExecutingTool, |s| {
                s.pending_tool_calls == ["b"]
            }),
            (end("b"), Phase::Thinking, |s| {
                s.pending_tool_calls.is_empty()
            }),
            (
                AgentEvent::TurnEnd {
                    message: failed(),
                    tool_results: vec![],
                },
                Phase::Thinking,
                |s| s.error_message.as_deref() == Some("boom"),
            ),
            (
                AgentEvent::MessageStart { message: partial() },
                Phase::Thinking,
                |s| s.streaming_message.is_some(),
            ),
            (
                AgentEvent::AgentEnd { messages: vec![] },
                Phase::Thinking,
                |s| s.streaming_message.is_none(),
            ),
        ];
        for (event, phase, check) in rows {
            state.reduce(&event);
            assert_eq!(state.phase(), phase, "{}", event.name());
            assert!(check(&state), "{}", event.name());
        }
        state.settle();
        assert_eq!(state.phase(), Phase::Idle);
    }
}
