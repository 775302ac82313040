//! Replies: the content of an answer, and how its bytes get to the client.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    /// An event stream with exactly these data payloads, and no `[DONE]` of its own.
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
    /// The field that carries the reasoning.
    pub thinking_field: String,
    /// Answer text.
    pub text: Option<String>,
    /// How reasoning and text are cut into deltas.
    pub pieces: Pieces,
    /// Tool calls, after the text.
    pub tool_calls: Vec<ToolCall>,
    /// How tool calls are cut into deltas.
    pub fragmenting: Fragmenting,
    /// An error object (the value of `error`) that ends the stream in place of finish reason, usage and `[DONE]`.
    pub error: Option<Value>,
    /// What `finish_reason` says.
    pub finish_reason: FinishReason,
    /// Whether the finish chunk repeats `role` and a null `content`.
    pub finish_has_role: bool,
    /// Token counts.
    pub usage: Usage,
    /// Where a stream carries them.
    pub usage_at: UsagePlacement,
    /// Whether the stream ends in `[DONE]`.
    pub done: bool,
}

impl Default for Completion {
    fn default() -> Self {
        Self {
            thinking: None,
            thinking_field: "reasoning_content".to_owned(),
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
}

impl Default for Fragmenting {
    fn default() -> Self {
        Self {
            bytes: None,
            order: FragmentOrder::Sequential,
            index: true,
            id: IdPlacement::First,
            name_repeated: false,
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

/// What `finish_reason` says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// `tool_calls` when there are calls, else `stop`.
    #[default]
    Auto,
    /// There is no finish chunk (and null without streaming).
    Absent,
    /// This word.
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
    /// Answer tokens that were reasoning; left out when none.
    pub reasoning_tokens: Option<u64>,
}

impl Default for Usage {
    fn default() -> Self {
        Self {
            prompt_tokens: 12,
            completion_tokens: 7,
            cached_tokens: None,
            reasoning_tokens: None,
        }
    }
}

/// Where a stream carries its usage. Without streaming it is in the object unless `None`.
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

/// How the bytes of an answer travel. The default is what a well-behaved server does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Delivery {
    /// How the body is divided into writes.
    pub writes: Writes,
    /// How the body's end is made known; by default chunked for event streams and a length for the rest.
    pub transfer: Option<Transfer>,
    /// Hold everything back, the status line too, until released or the client goes away.
    pub stall_before_head: bool,
    /// Hold the body back from here, until released or the client goes away.
    pub stall: Option<Point>,
    /// End the body here, properly as far as HTTP goes.
    pub end_early: Option<Point>,
    /// Close the connection here, with the body unfinished as far as HTTP goes.
    pub cut_off: Option<Point>,
    /// Say `connection: close` and close after the body.
    pub close: bool,
    /// Line ends of event streams.
    pub line_end: LineEnd,
    /// Start the body with a UTF-8 byte-order mark.
    pub bom: bool,
    /// Comment lines (text after the colon) sent before each event of a stream.
    pub comments: Vec<String>,
}

/// How a body is divided into writes. With chunked transfer each write is a chunk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Writes {
    /// One for each event.
    #[default]
    Events,
    /// One for the whole body.
    Together,
    /// One for each so many bytes.
    Bytes(usize),
    /// One for each part between these offsets; one beyond the body is a fault of the scenario.
    SplitAt(Vec<usize>),
}

/// How the end of a body is made known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transfer {
    /// Chunked coding.
    Chunked,
    /// `content-length`.
    Length,
    /// The connection is closed.
    UntilClose,
}

/// Line ends of event streams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LineEnd {
    /// Line feed.
    #[default]
    Lf,
    /// Carriage return and line feed.
    CrLf,
    /// Carriage return.
    Cr,
}

/// A place in a body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Point {
    /// After this many bytes, or at the end if there are fewer.
    Bytes(usize),
    /// After this many events, or at the end if there are fewer.
    Events(usize),
    /// After the first occurrence of this text; a body without it is a fault of the scenario.
    After(String),
    /// At the end of what is sent, before the end is made known.
    End,
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

impl Completion {
    pub(crate) fn validate(&self) -> Result<(), String> {
        if self.pieces == Pieces::Chars(0) || self.fragmenting.bytes == Some(0) {
            return Err("pieces of size 0 never end".to_owned());
        }
        Ok(())
    }
}

impl Delivery {
    pub(crate) fn validate(&self) -> Result<(), String> {
        if self.writes == Writes::Bytes(0) {
            return Err("writes of size 0 never end".to_owned());
        }
        if self.cut_off.is_some() && self.end_early.is_some() {
            return Err("`cut_off` and `end_early` exclude each other".to_owned());
        }
        if self
            .comments
            .iter()
            .any(|comment| comment.contains(['\r', '\n']))
        {
            return Err("a comment is one line".to_owned());
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
