//! What an error body says, in whatever form the server has chosen.

use fluzo_llm::StreamErrorKind;
use serde_json::Value;

use crate::classify::classify;
use crate::{details, waits};

/// The most that is looked at of a text, in characters: secrets and patterns are found in more
/// than is kept.
const READ_LIMIT: usize = 8000;

/// Fields that hold the words for people.
const MESSAGES: &[&str] = &[
    "message",
    "detail",
    "error_description",
    "msg",
    "status_msg",
    "Message",
    "errorMessage",
    "title",
];

/// Fields that hold the server's id of the request.
const REQUEST_IDS: &[&str] = &["request_id", "requestId", "RequestId", "requestID"];

/// What an error object says.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub message: String,
    pub codes: String,
    pub status: Option<u16>,
    pub retry_after_ms: Option<u64>,
    pub request_id: Option<String>,
    /// Where in the request the server saw the fault.
    pub place: Option<String>,
    /// What a used-up allowance is, when the server names its limit.
    allowance: Option<StreamErrorKind>,
}

impl Report {
    /// What a body says that is no JSON.
    pub(crate) fn plain(text: &str) -> Self {
        Self {
            message: head(text.trim()),
            ..Self::default()
        }
    }

    /// What the body of a refused request says. `now` is Unix milliseconds.
    pub(crate) fn of_body(body: &Value, now: i64) -> Self {
        let mut report = match inner(body) {
            Some(error) => Self::of_error(error, now),
            None => Self::of_error(body, now),
        };
        report.retry_after_ms = report.retry_after_ms.or_else(|| waits::of_error(body, now));
        report.request_id = report.request_id.or_else(|| request_id(body));
        if report.codes.is_empty() {
            report.codes = codes(body);
        }
        report
    }

    /// What an error object says.
    pub(crate) fn of_error(error: &Value, now: i64) -> Self {
        let mut message = words(error);
        // Routers put what the server behind them said here.
        if let Some(raw) = error.pointer("/metadata/raw").and_then(Value::as_str) {
            message = format!("{message}\n{raw}");
        }
        let number = |field: &str| {
            let number = match error.get(field)? {
                Value::String(text) => text.parse().ok()?,
                other => other.as_u64()?,
            };
            u16::try_from(number).ok()
        };
        let status = ["code", "status", "status_code"]
            .iter()
            .filter_map(|field| number(field))
            .find(|n| (400..600).contains(n));
        let place = error.get("param").and_then(Value::as_str);
        let place = place.filter(|place| place.starts_with("messages") && !message.contains(place));
        Self {
            place: place.map(|place| place.chars().take(100).collect()),
            message: head(&message),
            codes: codes(error),
            status,
            retry_after_ms: waits::of_error(error, now),
            request_id: request_id(error),
            allowance: details::allowance(error),
        }
    }

    /// The sort of failure of a response with `status`, with `message` as it is shown.
    pub(crate) fn kind(&self, status: Option<u16>, message: &str) -> StreamErrorKind {
        use StreamErrorKind::{Quota, RateLimit};
        match classify(status, &format!("{message}\n{}", self.codes)) {
            kind @ (Quota | RateLimit) => self.allowance.unwrap_or(kind),
            kind => kind,
        }
    }

    /// The wait that the server asks for after a failure of `kind`, its words included where
    /// they can mean nothing else.
    pub(crate) fn wait_ms(&self, kind: StreamErrorKind) -> Option<u64> {
        use StreamErrorKind::{Capacity, Quota, RateLimit, Transient};
        let passing = matches!(kind, Capacity | Quota | RateLimit | Transient);
        let prose = || passing.then(|| waits::of_prose(&self.message)).flatten();
        self.retry_after_ms.or_else(prose)
    }
}

/// The error object in a body.
fn inner(body: &Value) -> Option<&Value> {
    let named = ["error", "base_resp", "fault"]
        .iter()
        .find_map(|field| body.get(*field))
        .filter(|error| !error.is_null());
    let listed = || body.get("errors")?.as_array()?.first();
    let has_words = MESSAGES.iter().any(|field| body.get(*field).is_some());
    match named {
        // A name of the error beside its words.
        Some(Value::String(_)) if has_words => None,
        Some(error) => Some(error),
        None => listed(),
    }
}

fn words(error: &Value) -> String {
    let found = MESSAGES
        .iter()
        .find_map(|field| error.get(*field).filter(|value| !value.is_null()));
    match found {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => match error {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            Value::Object(map) if map.is_empty() => String::new(),
            other => other.to_string(),
        },
    }
}

fn codes(error: &Value) -> String {
    let fields = ["code", "type", "status", "error", "reason", "__type"];
    let codes = fields
        .iter()
        .filter_map(|field| error.get(*field)?.as_str());
    let codes: Vec<&str> = codes.chain(details::reason(error)).collect();
    head(&codes.join("\n"))
}

fn request_id(object: &Value) -> Option<String> {
    let id = REQUEST_IDS
        .iter()
        .find_map(|field| object.get(*field)?.as_str())?;
    Some(id.chars().take(200).collect())
}

fn head(text: &str) -> String {
    text.chars().take(READ_LIMIT).collect()
}
