//! Errors that servers report: in the body of a refused request, or inside a stream.

use fluzo_llm::{
    Finish, RedirectBlocked, RedirectDestination, StreamError, StreamErrorKind, StreamEvent,
};
use fluzo_stdx::sanitize::terminal_text;
use reqwest::header::HeaderMap;
use serde_json::Value;

use crate::redact::Redactor;
use crate::report::Report;
use crate::waits;

/// The most that is read of the body of a refused request, in bytes.
pub(crate) const ERROR_BODY_LIMIT: usize = 64 * 1024;

/// The most that is kept of an error's text, in characters.
const TEXT_LIMIT: usize = 4000;

/// Waits from here on, in milliseconds, are told to the user; shorter ones are soon over.
const LONG_WAIT_MS: u64 = 60_000;

/// Headers that carry the server's id of a request.
const REQUEST_ID_HEADERS: &[&str] = &[
    "x-request-id",
    "request-id",
    "x-goog-request-id",
    "apim-request-id",
    "x-amzn-requestid",
    "x-ms-request-id",
    "x-github-request-id",
    "x-trace-id",
    "x-vercel-id",
    "cf-ray",
];

/// Unix milliseconds.
pub type Clock = std::sync::Arc<dyn Fn() -> i64 + Send + Sync>;

/// What is known of the response around an error.
#[derive(Clone)]
pub(crate) struct Context {
    pub redactor: Redactor,
    pub clock: Clock,
}

impl Context {
    /// The error of a response with `status` that is neither a success nor a redirect.
    pub(crate) fn http(&self, status: u16, headers: &HeaderMap, body: &[u8]) -> StreamError {
        let now = (self.clock)();
        let raw = String::from_utf8_lossy(body);
        let json = serde_json::from_str::<Value>(&raw).ok().map(first_of_array);
        let report = json
            .as_ref()
            .map_or_else(|| Report::plain(&raw), |json| Report::of_body(json, now));
        let message = match report.message.is_empty() {
            true => format!("{status} status code (no body)"),
            false => format!("{status} {}", report.message),
        };
        let kind = report.kind(Some(status), &message);
        let limits = || {
            let limited = status == 429;
            limited.then(|| waits::of_limits(headers, now)).flatten()
        };
        let wait = waits::of_headers(headers, now)
            .or(report.retry_after_ms)
            .or_else(limits)
            .or_else(|| report.wait_ms(kind));
        let id = request_id(headers).or_else(|| report.request_id.clone());
        let facts = Facts {
            kind,
            status,
            place: report.place.as_deref(),
            id: id.as_deref(),
            wait_ms: wait,
            now,
        };
        StreamError {
            kind,
            message: self.clean(message) + &self.clean(facts.text()),
            status: Some(status),
            retry_after_ms: wait,
            request_id: id,
            redirect: None,
            alternative: None,
        }
    }

    /// The error that the object `error` reports inside a response that began well.
    pub(crate) fn in_stream(&self, error: &Value) -> StreamError {
        let report = Report::of_error(error, (self.clock)());
        let message = if report.message.is_empty() {
            "(no status code or body)".into()
        } else {
            report.message.clone()
        };
        let kind = report.kind(report.status, &message);
        StreamError {
            kind,
            message: self.clean(message),
            status: report.status,
            retry_after_ms: report.wait_ms(kind),
            request_id: report.request_id,
            redirect: None,
            alternative: None,
        }
    }

    /// `event` as it may leave the provider: what a server says of itself and of the request is
    /// cleaned, names and ids of calls hold no secret. What the model says is not touched.
    pub(crate) fn scrub(&self, event: StreamEvent) -> StreamEvent {
        match event {
            StreamEvent::Done(finish) => StreamEvent::Done(Box::new(self.scrub_finish(*finish))),
            StreamEvent::Failed(finish) => {
                StreamEvent::Failed(Box::new(self.scrub_finish(*finish)))
            }
            StreamEvent::ToolCallStart { index, id, name } => StreamEvent::ToolCallStart {
                index,
                id: self.redactor.clean(id),
                name: self.redactor.clean(name),
            },
            StreamEvent::ToolCallEnd { index, mut call } => {
                call.id = self.redactor.clean(std::mem::take(&mut call.id));
                call.name = self.redactor.clean(std::mem::take(&mut call.name));
                StreamEvent::ToolCallEnd { index, call }
            }
            other => other,
        }
    }

    fn scrub_finish(&self, finish: Finish) -> Finish {
        Finish {
            response_id: finish.response_id.map(|id| self.clean(id)),
            response_model: finish.response_model.map(|model| self.clean(model)),
            error: finish.error.map(|error| StreamError {
                message: self.clean(error.message),
                request_id: error.request_id.map(|id| self.clean(id)),
                redirect: error.redirect.map(|redirect| self.clean_redirect(redirect)),
                ..error
            }),
            ..finish
        }
    }

    fn clean_redirect(&self, mut redirect: Box<RedirectBlocked>) -> Box<RedirectBlocked> {
        redirect.correlation_id = redirect.correlation_id.take().map(|id| self.clean(id));
        if let Some(destination) = &mut redirect.destination {
            destination.host = self.clean(std::mem::take(&mut destination.host));
        }
        redirect
    }

    /// `text` without secrets, escape sequences and endless length.
    pub(crate) fn clean(&self, text: String) -> String {
        let text = terminal_text(&self.redactor.clean(text));
        match text.char_indices().nth(TEXT_LIMIT) {
            Some((at, _)) => format!("{}…", &text[..at]),
            None => text,
        }
    }
}

/// The server's id of the request.
pub(crate) fn request_id(headers: &HeaderMap) -> Option<String> {
    let values = REQUEST_ID_HEADERS
        .iter()
        .filter_map(|name| headers.get(*name)?.to_str().ok());
    values.map(|value| value.chars().take(200).collect()).next()
}

/// What the user needs beside the server's words, where nothing but the user can act: where in
/// the request the fault is, the id to ask the provider about, and a wait that is longer than
/// anybody watches.
struct Facts<'a> {
    kind: StreamErrorKind,
    status: u16,
    place: Option<&'a str>,
    id: Option<&'a str>,
    wait_ms: Option<u64>,
    now: i64,
}

impl Facts<'_> {
    fn text(&self) -> String {
        use StreamErrorKind::{Overflow, Quota, RateLimit};
        let mut text = String::new();
        if let Some(place) = self.place {
            text.push_str(&format!(" (at `{place}`)"));
        }
        let handled =
            matches!(self.kind, Overflow | RateLimit) || !(400..500).contains(&self.status);
        if let Some(id) = self.id.filter(|_| !handled) {
            text.push_str(&format!(" (request id {id})"));
        }
        let limited = matches!(self.kind, RateLimit | Quota);
        if let Some(ms) = self.wait_ms.filter(|ms| limited && *ms >= LONG_WAIT_MS) {
            let wait = wait_text(ms);
            let until = i64::try_from(ms)
                .ok()
                .and_then(|ms| self.now.checked_add(ms));
            let until = until.map(minute).unwrap_or_default();
            text.push_str(&format!(" (the server asks to wait {wait}{until})"));
        }
        text
    }
}

/// `, until 1994-11-06 08:49 UTC`.
fn minute(at_ms: i64) -> String {
    let iso = fluzo_stdx::time::iso_utc(at_ms);
    match (iso.get(..10), iso.get(11..16)) {
        (Some(date), Some(time)) => format!(", until {date} {time} UTC"),
        _ => String::new(),
    }
}

/// A wait in its largest unit of which there are two or more, rounded up.
fn wait_text(ms: u64) -> String {
    let seconds = ms.div_ceil(1000);
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds.div_ceil(60)),
        7200..172_800 => format!("{} hours", seconds.div_ceil(3600)),
        _ => format!("{} days", seconds.div_ceil(86_400)),
    }
}

/// The error of an answer that wants the client elsewhere. Only scheme, host and port of the
/// destination are told: the rest of the address may hold secrets.
pub(crate) fn redirect(status: u16, headers: &HeaderMap, from: &reqwest::Url) -> StreamError {
    let location = headers
        .get("location")
        .and_then(|value| value.to_str().ok());
    let target = location.and_then(|text| from.join(text).ok());
    let to = target.as_ref().and_then(crate::http::origin).map_or_else(
        || "an unreadable address".to_owned(),
        |origin| format!("`{origin}`"),
    );
    let id = request_id(headers);
    let blocked = RedirectBlocked {
        status,
        operation_id: None,
        correlation_id: id.clone(),
        destination: target.as_ref().and_then(destination),
    };
    StreamError {
        status: Some(status),
        request_id: id,
        redirect: Some(Box::new(blocked)),
        ..StreamError::new(
            StreamErrorKind::Redirect,
            format!(
                "the server answered {status}, a redirect to {to}, and redirects are never followed"
            ),
        )
    }
}

fn destination(url: &reqwest::Url) -> Option<RedirectDestination> {
    Some(RedirectDestination {
        scheme: url.scheme().to_owned(),
        host: url.host_str()?.to_owned(),
        port: url.port_or_known_default(),
    })
}

fn first_of_array(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().next().unwrap_or(Value::Null),
        other => other,
    }
}

#[cfg(test)]
#[path = "failure_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "failure_rows.rs"]
mod rows;
