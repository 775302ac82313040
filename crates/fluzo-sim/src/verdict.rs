//! What the simulator saw and what it thinks of it.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

/// What kind of rule a client broke. The `code` form appears in the error body that the client gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ViolationKind {
    /// The request head is no HTTP/1.1, or lacks what HTTP/1.1 demands.
    MalformedHttp,
    /// The body's length is missing, contradictory, or not what was promised.
    BodyFraming,
    /// The body, or its declared type, is not JSON.
    BodyNotJson,
    /// A JSON object of the body names a key twice.
    DuplicateKey,
    /// Path or method is none that the simulator serves.
    UnknownEndpoint,
    /// No step of the scenario is left for this request.
    UnexpectedRequest,
    /// The next step expects something else than this request.
    ExpectationNotMet,
    /// The scenario has no such model.
    UnknownModel,
    /// A request field has a value, or a combination of values, that strict servers refuse.
    InvalidParameter,
    /// `tools` is not a list of well-formed, differently named functions.
    InvalidTools,
    /// `messages` is no list of objects with a known role.
    InvalidMessages,
    /// Messages in an order that strict servers refuse.
    RoleOrder,
    /// A message without content and without tool calls.
    EmptyMessage,
    /// Content of a form that its role does not allow.
    InvalidContent,
    /// An image for a model that takes none.
    ImageNotSupported,
    /// A tool call without id, name or type, or an empty list of calls.
    InvalidToolCall,
    /// Two calls of one assistant turn share an id.
    DuplicateCallId,
    /// Tool call arguments that are no JSON object in a string.
    ArgumentsNotObject,
    /// A call of a tool that the request does not offer.
    UnknownTool,
    /// A tool result that answers no call of the turn before it.
    ToolResultWithoutCall,
    /// A second result for one call.
    DuplicateToolResult,
    /// A tool call that got no result before the next message, or before the end.
    CallWithoutResult,
    /// The request names no key in a header of its dialect.
    MissingCredentials,
    /// A header that the dialect demands is missing or has another value than the known one.
    MissingHeader,
    /// Thinking, or a tool call, without the signature that the model gave it, or with another one.
    InvalidSignature,
    /// Thinking is asked for, but the turn that it belongs to comes back without it, or not at its place.
    ThinkingMissing,
    /// More requests were refused for a quirk than the scenario allows.
    QuirkRefused,
    /// More connections than the scenario allows.
    TooManyConnections,
    /// More requests at once than the scenario allows.
    TooMuchOverlap,
    /// The client ended before all steps were played.
    StepsLeft,
    /// The scenario asks for something that its own reply does not contain.
    ScenarioFault,
}

impl ViolationKind {
    /// The stable name of this kind, as in JSON.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::MalformedHttp => "malformed_http",
            Self::BodyFraming => "body_framing",
            Self::BodyNotJson => "body_not_json",
            Self::DuplicateKey => "duplicate_key",
            Self::UnknownEndpoint => "unknown_endpoint",
            Self::UnexpectedRequest => "unexpected_request",
            Self::ExpectationNotMet => "expectation_not_met",
            Self::UnknownModel => "unknown_model",
            Self::InvalidParameter => "invalid_parameter",
            Self::InvalidTools => "invalid_tools",
            Self::InvalidMessages => "invalid_messages",
            Self::RoleOrder => "role_order",
            Self::EmptyMessage => "empty_message",
            Self::InvalidContent => "invalid_content",
            Self::ImageNotSupported => "image_not_supported",
            Self::InvalidToolCall => "invalid_tool_call",
            Self::DuplicateCallId => "duplicate_call_id",
            Self::ArgumentsNotObject => "arguments_not_object",
            Self::UnknownTool => "unknown_tool",
            Self::ToolResultWithoutCall => "tool_result_without_call",
            Self::DuplicateToolResult => "duplicate_tool_result",
            Self::CallWithoutResult => "call_without_result",
            Self::MissingCredentials => "missing_credentials",
            Self::MissingHeader => "missing_header",
            Self::InvalidSignature => "invalid_signature",
            Self::ThinkingMissing => "thinking_missing",
            Self::QuirkRefused => "quirk_refused",
            Self::TooManyConnections => "too_many_connections",
            Self::TooMuchOverlap => "too_much_overlap",
            Self::StepsLeft => "steps_left",
            Self::ScenarioFault => "scenario_fault",
        }
    }
}

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Which rule.
    pub kind: ViolationKind,
    /// Number of the request that broke it, from 0, as in [`RecordedRequest::index`]; `None` when no single request did.
    pub request: Option<usize>,
    /// What exactly was wrong, naming the place in the request.
    pub message: String,
}

impl Violation {
    pub(crate) fn new(kind: ViolationKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            request: None,
            message: message.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.request {
            Some(request) => write!(
                f,
                "request {request}: {}: {}",
                self.kind.code(),
                self.message
            ),
            None => write!(f, "{}: {}", self.kind.code(), self.message),
        }
    }
}

/// How the exchange of one request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The reply is still being written.
    Pending,
    /// The reply is held back until it is released or the client goes away.
    Stalled,
    /// The whole reply was written, as the scenario has it.
    Answered,
    /// The request broke a rule and got an error instead of the step's reply.
    Refused,
    /// The scenario made the server close the connection in the middle of the reply.
    CutOff,
    /// The client closed the connection before the reply was complete.
    ClientGone,
}

/// One request as it arrived.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecordedRequest {
    /// Position among all requests, from 0.
    pub index: usize,
    /// Number of the connection that carried it, from 0 in order of acceptance.
    pub connection: usize,
    /// HTTP method.
    pub method: String,
    /// Request target, query included.
    pub path: String,
    /// Header fields in order; names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body as JSON; null when there is none or it is not JSON.
    pub body: Value,
    /// The body's bytes, transfer coding removed.
    #[serde(skip)]
    pub raw: Vec<u8>,
    /// The step that answered it, from 0; `None` when it was refused or needs no step.
    pub step: Option<usize>,
    /// How it ended.
    pub outcome: Outcome,
}

impl RecordedRequest {
    /// The first value of header `name`, in any case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

/// The simulator's judgement over everything so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// No rule was broken and every step was played (unless the scenario lets steps be left over).
    pub passed: bool,
    /// Broken rules in the order in which they were seen.
    pub violations: Vec<Violation>,
    /// Requests that arrived, refused ones included.
    pub requests: usize,
    /// Connections that were accepted.
    pub connections: usize,
    /// The highest number of requests that were in flight at once.
    pub peak_overlap: usize,
    /// Requests that were refused for a quirk of the scenario's server.
    pub quirk_refusals: usize,
    /// Steps that were answered.
    pub steps_played: usize,
    /// Steps of the scenario.
    pub steps_total: usize,
}

impl Verdict {
    /// Whether a rule of this kind was broken.
    #[must_use]
    pub fn has(&self, kind: ViolationKind) -> bool {
        self.violations
            .iter()
            .any(|violation| violation.kind == kind)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} of {} steps, {} requests on {} connections",
            if self.passed { "passed" } else { "failed" },
            self.steps_played,
            self.steps_total,
            self.requests,
            self.connections,
        )?;
        self.violations
            .iter()
            .try_for_each(|violation| write!(f, "\n  {violation}"))
    }
}
