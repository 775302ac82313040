//! Replies: the content of an answer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::delivery::{Delivery, Point};
use crate::dialect;
use crate::scenario::Endpoint;

/// An answer to one request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reply {
    /// HTTP status.
    #[serde(default = "ok")]
    pub status: u16,
    /// Additional header fields; they replace the simulator's own of the same name.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// What is said.
    pub body: Body,
    /// How its bytes travel.
    #[serde(default)]
    pub delivery: Delivery,
}

/// The content of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Body {
    /// A proper completion: an event stream or one JSON object, as the request asks.
    Completion(Box<Completion>),
    /// This JSON value as `application/json`, whatever the request asks.
    Json(Value),
    /// An event stream with exactly these data payloads, and no `[DONE]` of its own. Where the dialect names its events,
    /// the name is the payload's `type`.
    Events(Vec<String>),
    /// This text, byte for byte.
    Raw {
        /// The `content-type`.
        content_type: String,
        /// The body.
        text: String,
    },
    /// An event stream whose first line has this many bytes after `data: ` and never ends.
    EndlessLine {
        /// Bytes that are offered before the connection is closed.
        bytes: u64,
    },
}

/// A model's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Completion {
    /// Reasoning text, sent before everything else.
    pub thinking: Option<String>,
    /// The field that carries the reasoning. Chat Completions only.
    pub thinking_field: String,
    /// Reasoning that the client cannot read, after the readable one. Messages only.
    pub redacted_thinking: Option<String>,
    /// The signature of the reasoning, or of the first tool call where the dialect signs calls.
    pub signature: Signature,
    /// Answer text.
    pub text: Option<String>,
    /// How reasoning and text are cut into deltas.
    pub pieces: Pieces,
    /// Tool calls, after the text.
    pub tool_calls: Vec<ToolCall>,
    /// How tool calls are cut into deltas.
    pub fragmenting: Fragmenting,
    /// An error object (the value of `error`) that ends the stream in place of finish reason, usage and end mark.
    pub error: Option<Value>,
    /// Why the answer ends.
    pub finish_reason: FinishReason,
    /// Whether the finish chunk repeats `role` and a null `content`. Chat Completions only.
    pub finish_has_role: bool,
    /// Token counts.
    pub usage: Usage,
    /// Where a stream carries them.
    pub usage_at: UsagePlacement,
    /// Whether the stream has its end mark: `[DONE]`, or the dialect's last event.
    pub done: bool,
}

impl Default for Completion {
    fn default() -> Self {
        Self {
            thinking: None,
            thinking_field: "reasoning_content".to_owned(),
            redacted_thinking: None,
            signature: Signature::Auto,
            text: None,
            pieces: Pieces::Whole,
            tool_calls: Vec::new(),
            fragmenting: Fragmenting::default(),
            error: None,
            finish_reason: FinishReason::Auto,
            finish_has_role: false,
            usage: Usage::default(),
            usage_at: UsagePlacement::FinalChunk,
            done: true,
        }
    }
}

/// How text is cut.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pieces {
    /// One delta for all.
    #[default]
    Whole,
    /// Deltas of this many characters.
    Chars(usize),
}

/// One call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// The call's id.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments: a string is sent as it is, valid or not; any other value is sent as its JSON text.
    #[serde(default = "empty_object")]
    pub arguments: Value,
}

/// The shape of tool-call deltas. The default is one delta for each call with everything in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Fragmenting {
    /// Cut the arguments into fragments of about this many bytes (never inside a character); none sends them whole.
    pub bytes: Option<usize>,
    /// Order of the fragments of several calls.
    pub order: FragmentOrder,
    /// Whether deltas carry `index`.
    pub index: bool,
    /// Which deltas of a call carry its id.
    pub id: IdPlacement,
    /// Whether each delta repeats the name.
    pub name_repeated: bool,
    /// Send the name in deltas of its own, before the arguments, in pieces of about this many bytes.
    pub name_bytes: Option<usize>,
}

impl Default for Fragmenting {
    fn default() -> Self {
        Self {
            bytes: None,
            order: FragmentOrder::Sequential,
            index: true,
            id: IdPlacement::First,
            name_repeated: false,
            name_bytes: None,
        }
    }
}

/// Order of the fragments of several calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FragmentOrder {
    /// Call after call.
    #[default]
    Sequential,
    /// The first fragment of each call, then the second of each, in chunks of their own.
    Interleaved,
    /// As interleaved, with the fragments of one round in one chunk.
    Together,
}

/// Which deltas of a call carry its id.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdPlacement {
    /// Only the first.
    #[default]
    First,
    /// All of them.
    Every,
    /// The first; later ones have an empty id.
    EmptyLater,
    /// None.
    Never,
}

/// The signature of a completion's reasoning.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signature {
    /// One that the simulator makes from the content, wherever a server of the dialect would sign.
    #[default]
    Auto,
    /// None, as of servers that imitate the dialect without signing.
    Absent,
    /// This text.
    Named(String),
}

/// Why an answer ends, as the dialect's stop or finish reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The dialect's word for tool calls when there are calls, else its word for a natural end.
    #[default]
    Auto,
    /// There is none: the stream lacks the chunk or event that says it (and without streaming it is null).
    Absent,
    /// This word, in the dialect or not.
    Named(String),
}

/// Token counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Usage {
    /// Tokens of the request, cached ones included.
    pub prompt_tokens: u64,
    /// Tokens of the answer, reasoning included.
    pub completion_tokens: u64,
    /// Request tokens that came from a cache; left out when none.
    pub cached_tokens: Option<u64>,
    /// Request tokens that were written to a cache; left out when none.
    pub cache_write_tokens: Option<u64>,
    /// Answer tokens that were reasoning; left out when none.
    pub reasoning_tokens: Option<u64>,
}

impl Default for Usage {
    fn default() -> Self {
        Self {
            prompt_tokens: 12,
            completion_tokens: 7,
            cached_tokens: None,
            cache_write_tokens: None,
            reasoning_tokens: None,
        }
    }
}

/// Where a stream carries its usage. Without streaming it is in the object unless `None`. The variants speak of Chat
/// Completions; other dialects put it where theirs has it. In Messages `FinalChunk` gives the input at the start and the
/// output at the end, `WithFinish` both at the end, `EveryChunk` both at both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsagePlacement {
    /// A chunk without choices before `[DONE]`, only if the request set `stream_options.include_usage`.
    #[default]
    FinalChunk,
    /// On the chunk with the finish reason.
    WithFinish,
    /// On each chunk, zeros up to the one with the finish reason.
    EveryChunk,
    /// Nowhere.
    None,
}

impl Reply {
    /// A completion.
    #[must_use]
    pub fn completion(completion: Completion) -> Self {
        Self::with_body(200, Body::Completion(Box::new(completion)))
    }

    /// A completion of text only.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::completion(Completion {
            text: Some(text.into()),
            ..Completion::default()
        })
    }

    /// A completion of tool calls only.
    #[must_use]
    pub fn calls(calls: impl IntoIterator<Item = ToolCall>) -> Self {
        Self::completion(Completion {
            tool_calls: calls.into_iter().collect(),
            ..Completion::default()
        })
    }

    /// An error answer in OpenAI's form.
    #[must_use]
    pub fn error(status: u16, message: &str) -> Self {
        Self::with_body(
            status,
            Body::Json(
                serde_json::json!({"error": {"message": message, "type": "server_error", "param": null, "code": null}}),
            ),
        )
    }

    /// An error answer in the form of the endpoint's dialect, with the error type that goes with the status.
    #[must_use]
    pub fn error_from(endpoint: Endpoint, status: u16, message: &str) -> Self {
        let body = dialect::error_body(endpoint, status, message, None, "req_scripted");
        Self::with_body(status, Body::Json(body))
    }

    /// A redirect to `location`.
    #[must_use]
    pub fn redirect(status: u16, location: impl Into<String>) -> Self {
        Self::with_body(status, Body::Json(Value::Null)).header("location", location)
    }

    /// An event stream's head and then nothing.
    #[must_use]
    pub fn head_only() -> Self {
        Self::with_body(200, Body::Events(Vec::new())).delivered(Delivery {
            stall: Some(Point::End),
            ..Delivery::default()
        })
    }

    /// A body under a status.
    #[must_use]
    pub fn with_body(status: u16, body: Body) -> Self {
        Self {
            status,
            headers: BTreeMap::new(),
            body,
            delivery: Delivery::default(),
        }
    }

    /// Adds a header field.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Replaces the delivery.
    #[must_use]
    pub fn delivered(mut self, delivery: Delivery) -> Self {
        self.delivery = delivery;
        self
    }
}

impl ToolCall {
    /// A call; see [`ToolCall::arguments`] for what a string means.
    #[must_use]
    pub fn new(
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: impl Into<Value>,
    ) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            arguments: arguments.into(),
        }
    }

    /// The arguments as they are sent.
    #[must_use]
    pub fn arguments_text(&self) -> String {
        match &self.arguments {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }
}

impl ToolCall {
    /// What a signature of the call stands for: its name and its arguments as compact JSON.
    pub(crate) fn signed_text(&self) -> String {
        call_text(&self.name, &self.arguments_value())
    }

    /// The arguments as a value; text that is no JSON stays text.
    pub(crate) fn arguments_value(&self) -> Value {
        let text = self.arguments_text();
        serde_json::from_str(&text).unwrap_or(Value::String(text))
    }
}

/// A call as one text, the same whatever the spelling of its arguments was.
pub(crate) fn call_text(name: &str, arguments: &Value) -> String {
    format!("{name} {}", sorted(arguments))
}

/// The value with the keys of its objects in order.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let in_order: BTreeMap<&String, Value> = map
                .iter()
                .map(|(key, value)| (key, sorted(value)))
                .collect();
            in_order
                .into_iter()
                .map(|(key, value)| (key.clone(), value))
                .collect()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

impl Signature {
    /// The signature that is given; empty for none.
    pub(crate) fn given(&self, make: impl FnOnce() -> String) -> String {
        match self {
            Self::Auto => make(),
            Self::Absent => String::new(),
            Self::Named(text) => text.clone(),
        }
    }
}

impl Completion {
    pub(crate) fn validate(&self) -> Result<(), String> {
        if self.pieces == Pieces::Chars(0)
            || [self.fragmenting.bytes, self.fragmenting.name_bytes].contains(&Some(0))
        {
            return Err("pieces of size 0 never end".to_owned());
        }
        Ok(())
    }
}

fn ok() -> u16 {
    200
}

fn empty_object() -> Value {
    Value::Object(serde_json::Map::new())
}
