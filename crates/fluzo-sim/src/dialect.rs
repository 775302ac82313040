//! The dialects behind one face: each endpoint's rules, reading, rendering and error form.

use serde_json::Value;

use crate::capabilities::ModelCapabilities;
use crate::render::Asked;
use crate::reply::Completion;
use crate::scenario::Endpoint;
use crate::verdict::{Violation, ViolationKind};
use crate::view::View;
use crate::{chat, gemini, messages, responses};

/// Checks a request body as the strictest server of the endpoint's dialect would and lists every broken rule; empty means
/// acceptable. [`Endpoint::Models`] has no body and no rules.
///
/// Headers, the model's existence and the expectations of a scenario are no part of it.
#[must_use]
pub fn check_request(
    endpoint: Endpoint,
    body: &Value,
    model: &ModelCapabilities,
) -> Vec<Violation> {
    match endpoint {
        Endpoint::Chat => chat::check(body, model),
        Endpoint::Messages => messages::check(body, model),
        Endpoint::Gemini => gemini::check(body, model),
        Endpoint::Responses => responses::check(body, model),
        Endpoint::Models => Vec::new(),
    }
}

/// What the request says.
pub(crate) fn view(endpoint: Endpoint, body: &Value) -> View {
    match endpoint {
        Endpoint::Chat => chat::view(body),
        Endpoint::Messages => messages::view(body),
        Endpoint::Gemini => gemini::view(body),
        Endpoint::Responses => responses::view(body),
        Endpoint::Models => View::default(),
    }
}

/// The data payloads of a streamed completion.
pub(crate) fn payloads(completion: &Completion, asked: &Asked<'_>) -> Vec<String> {
    match asked.endpoint {
        Endpoint::Chat | Endpoint::Models => chat::payloads(completion, asked),
        Endpoint::Messages => messages::payloads(completion, asked),
        Endpoint::Gemini => gemini::payloads(completion, asked),
        Endpoint::Responses => responses::payloads(completion, asked),
    }
}

/// A completion without streaming.
pub(crate) fn object(completion: &Completion, asked: &Asked<'_>) -> Value {
    match asked.endpoint {
        Endpoint::Chat | Endpoint::Models => chat::object(completion, asked),
        Endpoint::Messages => messages::object(completion, asked),
        Endpoint::Gemini => gemini::object(completion, asked),
        Endpoint::Responses => responses::object(completion, asked),
    }
}

/// The body of an error answer; `kind` is named where the dialect has room for it.
pub(crate) fn error_body(
    endpoint: Endpoint,
    status: u16,
    message: &str,
    kind: Option<ViolationKind>,
    request_id: &str,
) -> Value {
    match endpoint {
        Endpoint::Chat | Endpoint::Responses | Endpoint::Models => {
            chat::error_body(status, message, kind)
        }
        Endpoint::Messages => messages::error_body(status, message, request_id),
        Endpoint::Gemini => gemini::error_body(status, message),
    }
}

/// Whether the dialect names its stream events; the name is the payload's `type`.
pub(crate) fn names_events(endpoint: Endpoint) -> bool {
    matches!(endpoint, Endpoint::Messages | Endpoint::Responses)
}

/// The header that carries the id of a request.
pub(crate) fn request_id_header(endpoint: Endpoint) -> &'static str {
    match endpoint {
        Endpoint::Messages => "request-id",
        _ => "x-request-id",
    }
}
