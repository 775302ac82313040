//! The provider stream contract.
//!
//! A stream never fails by other means than its last event: it is
//! `Start`, blocks, then exactly one of `Done` and `Failed`. A stream that just ends
//! is incomplete and the reader treats it as a failure. Deltas carry only what is new;
//! [`AssistantMessage::apply`] folds them into the one partial message.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use futures_core::Stream;
use serde::Serialize;

use crate::{
    AbortSignal, AssistantMessage, Content, Extra, FormSwitch, Model, RedirectBlocked, RequestAuth,
    StopReason, TextContent, ThinkingContent, ThinkingLevel, ToolCall, ToolSpec, Transcript, Usage,
};

/// The events of one response.
pub type EventStream = Pin<Box<dyn Stream<Item = StreamEvent> + Send>>;

/// A server of models.
pub trait Provider: Send + Sync {
    /// Starts one request and returns its events.
    ///
    /// Never resends and never waits on its own account. When `abort` fires the
    /// stream ends soon with [`StreamEvent::Failed`] of kind [`StreamErrorKind::Aborted`].
    /// Dropping the stream closes the request.
    fn stream(&self, request: ModelRequest, abort: AbortSignal) -> EventStream;
}

/// Everything one request needs.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// The model asked.
    pub model: Arc<Model>,
    /// System prompt; empty means none.
    pub system_prompt: Arc<str>,
    /// The conversation, proven to be sendable.
    pub transcript: Transcript,
    /// Tools on offer, in a stable order.
    pub tools: Arc<[ToolSpec]>,
    /// The rest.
    pub options: RequestOptions,
    /// Key and headers.
    pub auth: RequestAuth,
}

/// Options of a request.
#[derive(Debug, Clone, Default)]
pub struct RequestOptions {
    /// How much to think; `Off` leaves the parameter out.
    pub thinking: ThinkingLevel,
    /// Session id for servers that cache by it.
    pub session_id: Option<String>,
    /// Cap on output tokens; `None` leaves it to the server, or is the model's own limit
    /// where the dialect demands one.
    pub max_output_tokens: Option<u64>,
    /// How long servers are asked to keep the beginning of the request.
    pub cache: CacheRetention,
    /// Tokens for thinking by level, where a dialect counts them; levels without an entry
    /// have the dialect's own.
    pub thinking_budgets: BTreeMap<ThinkingLevel, u64>,
    /// Forms that the server is known to demand, at most one for each quirk key. A dialect
    /// that has no such form sends what it would send without.
    pub forms: Vec<FormSwitch>,
}

/// How long servers are asked to keep the beginning of a request for the next one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CacheRetention {
    /// Not at all, where the server lets the request decide.
    None,
    /// As long as the server does without being asked for more, minutes as a rule.
    #[default]
    Short,
    /// As long as the server offers: an hour or a day.
    Long,
}

/// One event of a response. `index` counts content blocks from zero.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamEvent {
    /// The server has begun to answer.
    Start,
    /// A text block begins.
    TextStart {
        /// Block.
        index: usize,
    },
    /// More text.
    TextDelta {
        /// Block.
        index: usize,
        /// What is new.
        delta: String,
    },
    /// A text block is complete.
    TextEnd {
        /// Block.
        index: usize,
        /// Provider data to send back.
        signature: Option<String>,
    },
    /// A thinking block begins.
    ThinkingStart {
        /// Block.
        index: usize,
    },
    /// More thinking.
    ThinkingDelta {
        /// Block.
        index: usize,
        /// What is new.
        delta: String,
    },
    /// A thinking block is complete.
    ThinkingEnd {
        /// Block.
        index: usize,
        /// Provider data to send back.
        signature: Option<String>,
        /// The provider hid the thinking; only the signature counts.
        redacted: bool,
    },
    /// A tool call begins. Name and id may still be empty.
    ToolCallStart {
        /// Block.
        index: usize,
        /// Id, as far as known.
        id: String,
        /// Name, as far as known.
        name: String,
    },
    /// More argument text.
    ToolCallDelta {
        /// Block.
        index: usize,
        /// What is new.
        delta: String,
    },
    /// A tool call is complete.
    ToolCallEnd {
        /// Block.
        index: usize,
        /// The call.
        call: Box<ToolCall>,
    },
    /// The response is complete. Last event.
    Done(Box<Finish>),
    /// The request or the response failed. Last event. Blocks received so far stand.
    Failed(Box<Finish>),
}

/// How a response ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Finish {
    /// Why it ended; `Error` or `Aborted` exactly when `error` is set.
    pub stop_reason: StopReason,
    /// Tokens used, as far as known; the cost is filled in.
    pub usage: Usage,
    /// The provider's id of the response.
    pub response_id: Option<String>,
    /// The model that answered, when it is not the one asked.
    pub response_model: Option<String>,
    /// What went wrong.
    pub error: Option<StreamError>,
    /// The request did not fit the context window although the server did not say so
    /// ([`Usage::overflows`]). Who decides about compaction treats it as
    /// [`StreamErrorKind::Overflow`]; it is no failure by itself.
    pub overflow: bool,
}

/// A failed request or response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct StreamError {
    /// What sort of failure.
    pub kind: StreamErrorKind,
    /// The text stored in the message and shown to the user.
    pub message: String,
    /// HTTP status, when there was one.
    pub status: Option<u16>,
    /// The wait the server asked for, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// The server's id of the request.
    pub request_id: Option<String>,
    /// What is told of the redirect, when the kind is [`StreamErrorKind::Redirect`].
    pub redirect: Option<Box<RedirectBlocked>>,
    /// The form to send instead, exactly when the kind is [`StreamErrorKind::FormRefused`].
    pub alternative: Option<FormSwitch>,
}

/// Sorts of failure, as far as a decision depends on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StreamErrorKind {
    /// The abort signal fired.
    Aborted,
    /// Name, address or connection failed.
    Connect,
    /// A limit in time was reached; the message names it.
    Timeout,
    /// The response was cut off, or was not what the dialect allows.
    Incomplete,
    /// The server failed or is overloaded; the same request may succeed later.
    Transient,
    /// The server has no room for the model or the request at this moment.
    Capacity,
    /// Too many requests.
    RateLimit,
    /// The allowance is used up; waiting does not help.
    Quota,
    /// The request does not fit the context window.
    Overflow,
    /// The key is missing, wrong or not allowed.
    Authentication,
    /// The server refuses the request as it is.
    InvalidRequest,
    /// The server refuses a form of the request that can be said in another one. The provider
    /// sends nothing by itself: whoever counts requests decides about a second one.
    FormRefused,
    /// The server answered with a redirect, which is never followed.
    Redirect,
    /// The response is larger than Fluzo accepts.
    TooLarge,
    /// The model or the server refused the content.
    Refused,
    /// What became of the request could not be recorded; the run must halt.
    Unrecorded,
}

impl StreamError {
    /// The error of a request that was aborted.
    pub fn aborted() -> Self {
        Self::new(StreamErrorKind::Aborted, "Request was aborted")
    }

    /// An error without HTTP facts.
    pub fn new(kind: StreamErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            status: None,
            retry_after_ms: None,
            request_id: None,
            redirect: None,
            alternative: None,
        }
    }
}

impl Finish {
    /// The end of a response that failed with `error` after `usage` tokens.
    pub fn failed(error: StreamError, usage: Usage) -> Self {
        let aborted = error.kind == StreamErrorKind::Aborted;
        let stop_reason = if aborted {
            StopReason::Aborted
        } else {
            StopReason::Error
        };
        Self {
            stop_reason,
            usage,
            response_id: None,
            response_model: None,
            error: Some(error),
            overflow: false,
        }
    }

    /// The end of a response that is complete.
    pub fn done(stop_reason: StopReason, usage: Usage) -> Self {
        Self {
            stop_reason,
            usage,
            response_id: None,
            response_model: None,
            error: None,
            overflow: false,
        }
    }
}

impl StreamEvent {
    /// Shorthand for the failure of a request that used no tokens.
    pub fn failure(error: StreamError) -> Self {
        Self::Failed(Box::new(Finish::failed(error, Usage::default())))
    }

    /// The name of the event in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::TextStart { .. } => "text_start",
            Self::TextDelta { .. } => "text_delta",
            Self::TextEnd { .. } => "text_end",
            Self::ThinkingStart { .. } => "thinking_start",
            Self::ThinkingDelta { .. } => "thinking_delta",
            Self::ThinkingEnd { .. } => "thinking_end",
            Self::ToolCallStart { .. } => "toolcall_start",
            Self::ToolCallDelta { .. } => "toolcall_delta",
            Self::ToolCallEnd { .. } => "toolcall_end",
            Self::Done(_) => "done",
            Self::Failed(_) => "error",
        }
    }

    /// Whether no event may follow.
    pub fn is_last(&self) -> bool {
        matches!(self, Self::Done(_) | Self::Failed(_))
    }
}

impl AssistantMessage {
    /// An empty message from `model`, to which events are applied.
    pub fn begin(model: &Model, timestamp: i64) -> Self {
        Self {
            content: Vec::new(),
            api: model.api.clone(),
            provider: model.provider.clone(),
            model: model.id.clone(),
            usage: Usage::default(),
            stop_reason: StopReason::Stop,
            timestamp,
            error_message: None,
            response_id: None,
            response_model: None,
            extra: Extra::new(),
        }
    }

    /// Folds one event into the message. Costs the length of the event.
    ///
    /// An event for a block that does not exist or is of another type changes nothing.
    pub fn apply(&mut self, event: &StreamEvent) {
        match event {
            StreamEvent::Start => {}
            StreamEvent::TextStart { .. } => {
                self.content.push(Content::Text(TextContent::default()))
            }
            StreamEvent::ThinkingStart { .. } => self
                .content
                .push(Content::Thinking(ThinkingContent::default())),
            StreamEvent::ToolCallStart { id, name, .. } => {
                self.content.push(Content::ToolCall(ToolCall {
                    id: id.clone(),
                    name: name.clone(),
                    open: true,
                    ..ToolCall::default()
                }));
            }
            StreamEvent::TextDelta { index, delta } => self.extend(*index, delta),
            StreamEvent::ThinkingDelta { index, delta } => self.extend(*index, delta),
            StreamEvent::ToolCallDelta { index, delta } => self.extend(*index, delta),
            StreamEvent::TextEnd { index, signature } => {
                if let Some(Content::Text(block)) = self.content.get_mut(*index) {
                    block.text_signature.clone_from(signature);
                }
            }
            StreamEvent::ThinkingEnd {
                index,
                signature,
                redacted,
            } => {
                if let Some(Content::Thinking(block)) = self.content.get_mut(*index) {
                    block.thinking_signature.clone_from(signature);
                    block.redacted = redacted.then_some(true);
                }
            }
            StreamEvent::ToolCallEnd { index, call } => {
                if let Some(Content::ToolCall(block)) = self.content.get_mut(*index) {
                    block.clone_from(call);
                }
            }
            StreamEvent::Done(finish) | StreamEvent::Failed(finish) => self.finish(finish),
        }
    }

    fn extend(&mut self, index: usize, delta: &str) {
        match self.content.get_mut(index) {
            Some(Content::Text(block)) => block.text.push_str(delta),
            Some(Content::Thinking(block)) => block.thinking.push_str(delta),
            Some(Content::ToolCall(block)) => block.partial_arguments.push_str(delta),
            _ => {}
        }
    }

    fn finish(&mut self, finish: &Finish) {
        self.stop_reason = finish.stop_reason.clone();
        self.usage = finish.usage.clone();
        self.response_id.clone_from(&finish.response_id);
        self.response_model.clone_from(&finish.response_model);
        self.error_message = finish.error.as_ref().map(|e| e.message.clone());
        if let Some(redirect) = finish.error.as_ref().and_then(|e| e.redirect.as_deref()) {
            redirect.note_in(self);
        }
        self.close_calls();
    }

    /// Turns calls whose end never came into calls that are never executed.
    fn close_calls(&mut self) {
        for block in &mut self.content {
            if let Content::ToolCall(call) = block {
                let partial = std::mem::take(&mut call.partial_arguments);
                if std::mem::take(&mut call.open) {
                    call.raw_arguments = Some(partial);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> AssistantMessage {
        let json = r#"{"id":"m","name":"m","api":"a","provider":"p","baseUrl":"","input":["text"],"contextWindow":1,"maxTokens":1}"#;
        AssistantMessage::begin(&serde_json::from_str(json).unwrap(), 1)
    }

    fn apply(events: &[StreamEvent]) -> AssistantMessage {
        let mut message = message();
        events.iter().for_each(|event| message.apply(event));
        message
    }

    #[test]
    fn blocks_grow_by_their_deltas() {
        let message = apply(&[
            StreamEvent::Start,
            StreamEvent::ThinkingStart { index: 0 },
            StreamEvent::ThinkingDelta {
                index: 0,
                delta: "hm".into(),
            },
            StreamEvent::ThinkingEnd {
                index: 0,
                signature: Some("sig".into()),
                redacted: false,
            },
            StreamEvent::TextStart { index: 1 },
            StreamEvent::TextDelta {
                index: 1,
                delta: "a".into(),
            },
            StreamEvent::TextDelta {
                index: 1,
                delta: "b".into(),
            },
            StreamEvent::TextEnd {
                index: 1,
                signature: None,
            },
            StreamEvent::Done(Box::new(Finish::done(StopReason::Stop, Usage::default()))),
        ]);
        assert_eq!(crate::content::joined_text(&message.content), "ab");
        let Content::Thinking(thinking) = &message.content[0] else {
            panic!("no thinking")
        };
        assert_eq!(
            (
                thinking.thinking.as_str(),
                thinking.thinking_signature.as_deref()
            ),
            ("hm", Some("sig"))
        );
    }

    #[test]
    fn a_call_cut_off_in_its_arguments_is_marked_as_not_executable() {
        let message = apply(&[
            StreamEvent::ToolCallStart {
                index: 0,
                id: "c".into(),
                name: "bash".into(),
            },
            StreamEvent::ToolCallDelta {
                index: 0,
                delta: r#"{"command":"rm -r bui"#.into(),
            },
            StreamEvent::failure(StreamError::new(StreamErrorKind::Incomplete, "cut")),
        ]);
        let call = message.tool_calls().next().unwrap();
        assert_eq!(
            call.raw_arguments.as_deref(),
            Some(r#"{"command":"rm -r bui"#)
        );
        assert!(call.arguments.is_empty());
        assert!(message.failed());
    }

    #[test]
    fn events_for_blocks_that_do_not_exist_change_nothing() {
        let message = apply(&[
            StreamEvent::TextDelta {
                index: 7,
                delta: "x".into(),
            },
            StreamEvent::ThinkingEnd {
                index: 0,
                signature: None,
                redacted: false,
            },
        ]);
        assert!(message.content.is_empty());
    }
}
