//! Errors that servers report: in the body of a refused request, or inside a stream.

use fluzo_llm::{
    Finish, RedirectBlocked, RedirectDestination, StreamError, StreamErrorKind, StreamEvent,
};
use fluzo_stdx::sanitize::terminal_text;
use reqwest::header::HeaderMap;
use serde_json::Value;

use crate::classify::classify;
use crate::details;
use crate::redact::Redactor;

/// The most that is read of the body of a refused request, in bytes.
pub(crate) const ERROR_BODY_LIMIT: usize = 64 * 1024;

/// The most that is kept of an error's text, in characters.
const TEXT_LIMIT: usize = 4000;

/// The most that is looked at of it, in characters: secrets and patterns are found in more
/// than is kept.
const READ_LIMIT: usize = 8000;

/// Waits from here on, in milliseconds, are told to the user; shorter ones are soon over.
const LONG_WAIT_MS: u64 = 60_000;

/// Headers that carry the server's id of a request.
const REQUEST_ID_HEADERS: &[&str] = &[
    "x-request-id",
    "request-id",
    "x-goog-request-id",
    "apim-request-id",
    "x-amzn-requestid",
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
        let raw = String::from_utf8_lossy(body);
        let json = serde_json::from_str::<Value>(&raw).ok().map(first_of_array);
        let report = json
            .as_ref()
            .map_or_else(|| Report::plain(&raw), Report::of_body);
        let message = match report.message.is_empty() {
            true => format!("{status} status code (no body)"),
            false => format!("{status} {}", report.message),
        };
        let kind = report.kind(Some(status), &message);
        let wait = self.retry_after_header(headers).or(report.retry_after_ms);
        let id = request_id(headers);
        let facts = self.clean(facts(kind, status, id.as_deref(), wait));
        StreamError {
            kind,
            message: self.clean(message) + &facts,
            status: Some(status),
            retry_after_ms: wait,
            request_id: id,
            redirect: None,
            alternative: None,
        }
    }

    /// The error that the object `error` reports inside a response that began well.
    pub(crate) fn in_stream(&self, error: &Value) -> StreamError {
        let report = Report::of_error(error);
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
            retry_after_ms: report.retry_after_ms,
            request_id: None,
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

    fn retry_after_header(&self, headers: &HeaderMap) -> Option<u64> {
        let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
        if let Some(ms) = text("retry-after-ms").and_then(positive) {
            return Some(to_ms(ms / 1000.0));
        }
        let value = text("retry-after")?;
        if let Some(seconds) = positive(value) {
            return Some(to_ms(seconds));
        }
        let until = parse_http_date(value)?;
        // The server's own clock, when it says what it reads.
        let now = text("date")
            .and_then(parse_http_date)
            .unwrap_or_else(|| (self.clock)());
        Some(u64::try_from(until - now).unwrap_or(0))
    }
}

/// The server's id of the request.
pub(crate) fn request_id(headers: &HeaderMap) -> Option<String> {
    let values = REQUEST_ID_HEADERS
        .iter()
        .filter_map(|name| headers.get(*name)?.to_str().ok());
    values.map(|value| value.chars().take(200).collect()).next()
}

/// What the user needs beside the server's words, where nothing but the user can act: the id
/// to ask the provider about, and a wait that is longer than anybody watches.
fn facts(kind: StreamErrorKind, status: u16, id: Option<&str>, wait_ms: Option<u64>) -> String {
    use StreamErrorKind::{Overflow, Quota, RateLimit};
    let mut text = String::new();
    let handled = matches!(kind, Overflow | RateLimit) || !(400..500).contains(&status);
    if let Some(id) = id.filter(|_| !handled) {
        text.push_str(&format!(" (request id {id})"));
    }
    let limited = matches!(kind, RateLimit | Quota);
    if let Some(ms) = wait_ms.filter(|ms| limited && *ms >= LONG_WAIT_MS) {
        text.push_str(&format!(" (the server asks to wait {})", wait_text(ms)));
    }
    text
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

/// What an error object says.
#[derive(Debug, Default)]
struct Report {
    message: String,
    codes: String,
    status: Option<u16>,
    retry_after_ms: Option<u64>,
    /// What a used-up allowance is, when the server names its limit.
    allowance: Option<StreamErrorKind>,
}

impl Report {
    fn kind(&self, status: Option<u16>, message: &str) -> StreamErrorKind {
        use StreamErrorKind::{Quota, RateLimit};
        match classify(status, &format!("{message}\n{}", self.codes)) {
            kind @ (Quota | RateLimit) => self.allowance.unwrap_or(kind),
            kind => kind,
        }
    }

    fn plain(text: &str) -> Self {
        Self {
            message: head(text.trim()),
            ..Self::default()
        }
    }

    fn of_body(body: &Value) -> Self {
        let mut report = match body.get("error") {
            None | Some(Value::Null) => Self::of_error(body),
            Some(error) => Self::of_error(error),
        };
        report.retry_after_ms = report.retry_after_ms.or_else(|| retry_after(body));
        report
    }

    fn of_error(error: &Value) -> Self {
        let fields = ["message", "detail", "error_description", "msg"];
        let mut message = match fields
            .iter()
            .find_map(|field| error.get(*field).filter(|v| !v.is_null()))
        {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => match error {
                Value::String(text) => text.clone(),
                Value::Null => String::new(),
                Value::Object(map) if map.is_empty() => String::new(),
                other => other.to_string(),
            },
        };
        // Routers put what the server behind them said here.
        if let Some(raw) = error.pointer("/metadata/raw").and_then(Value::as_str) {
            message = format!("{message}\n{raw}");
        }
        let codes = ["code", "type", "status"]
            .iter()
            .filter_map(|field| error.get(*field)?.as_str())
            .chain(details::reason(error));
        let number = |field: &str| {
            error
                .get(field)?
                .as_u64()
                .and_then(|n| u16::try_from(n).ok())
        };
        let status = number("code")
            .or_else(|| number("status"))
            .filter(|n| (400..600).contains(n));
        Self {
            message: head(&message),
            codes: head(&codes.collect::<Vec<_>>().join("\n")),
            status,
            retry_after_ms: retry_after(error),
            allowance: details::allowance(error),
        }
    }
}

fn head(text: &str) -> String {
    text.chars().take(READ_LIMIT).collect()
}

fn first_of_array(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().next().unwrap_or(Value::Null),
        other => other,
    }
}

fn retry_after(object: &Value) -> Option<u64> {
    let places = [
        "/retry_after_seconds",
        "/retry_after",
        "/metadata/retry_after_seconds",
    ];
    let seconds = places
        .iter()
        .find_map(|place| match object.pointer(place)? {
            Value::Number(number) => number.as_f64().filter(|s| *s >= 0.0),
            Value::String(text) => positive(text),
            _ => None,
        });
    let delay = || details::retry_delay(object).filter(|s| s.is_finite() && *s >= 0.0);
    seconds.or_else(delay).map(to_ms)
}

fn positive(text: &str) -> Option<f64> {
    text.parse::<f64>()
        .ok()
        .filter(|n| n.is_finite() && *n >= 0.0)
}

fn to_ms(seconds: f64) -> u64 {
    // Saturates; fractions of a millisecond do not matter.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let ms = (seconds * 1000.0).ceil() as u64;
    ms
}

/// Reads `Sun, 06 Nov 1994 08:49:37 GMT` as Unix milliseconds.
fn parse_http_date(text: &str) -> Option<i64> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let mut words = text.split_once(", ")?.1.split(' ');
    let (day, month, year, time) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    if words.next()? != "GMT" {
        return None;
    }
    fluzo_stdx::time::parse_iso(&format!("{year}-{month:02}-{day}T{time}Z"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fluzo_llm::{RequestAuth, Secret};
    use reqwest::Url;
    use reqwest::header::{HeaderName, HeaderValue};
    use serde_json::json;

    use super::*;

    fn context() -> Context {
        let auth = RequestAuth {
            api_key: Some(Secret::new("sk-planted-key")),
            ..RequestAuth::default()
        };
        Context {
            redactor: Redactor::new(&auth),
            clock: Arc::new(|| 784_111_777_000),
        }
    }

    fn headers(rows: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_str(value).unwrap(),
            )
        };
        rows.iter().map(pair).collect()
    }

    #[test]
    fn error_bodies() {
        use StreamErrorKind::{InvalidRequest, Overflow, Quota, Transient};
        let rows = [
            (
                400,
                r#"{"error":{"message":"bad thing"}}"#,
                "400 bad thing",
                InvalidRequest,
            ),
            (
                503,
                r#"{"error":{"message":"overloaded"}}"#,
                "503 overloaded",
                Transient,
            ),
            (
                400,
                r#"{"error":"bad thing"}"#,
                "400 bad thing",
                InvalidRequest,
            ),
            (
                400,
                r#"{"message":"bad thing"}"#,
                "400 bad thing",
                InvalidRequest,
            ),
            (
                400,
                r#"{"detail":[{"loc":"x"}]}"#,
                r#"400 [{"loc":"x"}]"#,
                InvalidRequest,
            ),
            (
                400,
                r#"[{"error":{"message":"bad thing"}}]"#,
                "400 bad thing",
                InvalidRequest,
            ),
            (
                502,
                "<h1>Bad\u{1b}[31m Gateway</h1>\n",
                "502 <h1>Bad Gateway</h1>",
                Transient,
            ),
            (400, "", "400 status code (no body)", Overflow),
            (500, "", "500 status code (no body)", Transient),
            (
                429,
                r#"{"error":{"message":"no","code":"insufficient_quota"}}"#,
                "429 no",
                Quota,
            ),
            (
                400,
                r#"{"error":{"message":"no","code":"context_length_exceeded"}}"#,
                "400 no",
                Overflow,
            ),
            (
                502,
                r#"{"error":{"message":"Provider returned error","metadata":{"raw":"boom"}}}"#,
                "502 Provider returned error\nboom",
                Transient,
            ),
            (
                401,
                r#"{"error":{"message":"wrong key sk-planted-key"}}"#,
                "401 wrong key [redacted]",
                StreamErrorKind::Authentication,
            ),
        ];
        for (status, body, message, kind) in rows {
            let error = context().http(status, &HeaderMap::new(), body.as_bytes());
            assert_eq!(
                (error.message.as_str(), error.kind, error.status),
                (message, kind, Some(status))
            );
        }
    }

    #[test]
    fn a_named_limit_decides_between_quota_and_rate_limit() {
        let exceeded =
            "You exceeded your current quota, please check your plan and billing details.";
        let rows = [
            (429, "RequestsPerDayPerModel", StreamErrorKind::Quota),
            (429, "RequestsPerMinutePerModel", StreamErrorKind::RateLimit),
            (503, "RequestsPerMinutePerModel", StreamErrorKind::RateLimit),
        ];
        for (status, id, kind) in rows {
            let error = json!({"code": status, "message": exceeded, "status": "RESOURCE_EXHAUSTED", "details": [
                {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": id}]},
            ]});
            assert_eq!(context().in_stream(&error).kind, kind, "{id}");
            let body = json!([{"error": error}]).to_string();
            let error = context().http(status, &HeaderMap::new(), body.as_bytes());
            assert_eq!(error.kind, kind, "{id}");
        }
    }

    #[test]
    fn errors_inside_a_stream() {
        let rows = [
            (
                json!({"message": "overloaded"}),
                "overloaded",
                StreamErrorKind::Transient,
            ),
            (
                json!({"message": "no", "code": 502}),
                "no",
                StreamErrorKind::Transient,
            ),
            (
                json!({"message": "no", "code": 429}),
                "no",
                StreamErrorKind::RateLimit,
            ),
            (
                json!("boom: internal error"),
                "boom: internal error",
                StreamErrorKind::Transient,
            ),
            (
                json!({"type": "server_error", "message": "x"}),
                "x",
                StreamErrorKind::Transient,
            ),
            (
                json!({"message": "odd"}),
                "odd",
                StreamErrorKind::InvalidRequest,
            ),
        ];
        for (error, message, kind) in rows {
            let error = context().in_stream(&error);
            assert_eq!((error.message.as_str(), error.kind), (message, kind));
        }
    }

    #[test]
    fn waits_that_servers_ask_for() {
        type Given = &'static [(&'static str, &'static str)];
        let rows: &[(Given, &str, Option<u64>)] = &[
            (&[("retry-after", "3")], "", Some(3000)),
            (&[("retry-after", "1382400")], "", Some(1_382_400_000)),
            (
                &[("retry-after-ms", "250"), ("retry-after", "3")],
                "",
                Some(250),
            ),
            (
                &[("retry-after", "Sun, 06 Nov 1994 08:49:47 GMT")],
                "",
                Some(10_000),
            ),
            (
                &[
                    ("retry-after", "Sun, 06 Nov 1994 08:49:47 GMT"),
                    ("date", "Sun, 06 Nov 1994 08:49:42 GMT"),
                ],
                "",
                Some(5000),
            ),
            (
                &[("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")],
                "",
                Some(0),
            ),
            (&[("retry-after", "soon")], "", None),
            (&[], r#"{"error":{"retry_after_seconds":3}}"#, Some(3000)),
            (&[], r#"{"retry_after_seconds":0.5,"error":{}}"#, Some(500)),
            (
                &[],
                r#"[{"error":{"code":429,"message":"x","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"29.5s"}]}}]"#,
                Some(29_500),
            ),
            (&[], r#"{"error":{"message":"x"}}"#, None),
        ];
        for (given, body, expected) in rows {
            let error = context().http(429, &headers(given), body.as_bytes());
            assert_eq!(error.retry_after_ms, *expected, "{given:?} {body}");
        }
    }

    #[test]
    fn the_user_is_told_what_only_the_user_can_act_on() {
        type Given = &'static [(&'static str, &'static str)];
        const ID: (&str, &str) = ("x-request-id", "req-7");
        let rows: [(u16, Given, &str); 12] = [
            (400, &[ID], "400 x (request id req-7)"),
            (
                400,
                &[("x-request-id", "a-sk-planted-key")],
                "400 x (request id a-[redacted])",
            ),
            (400, &[("retry-after", "999")], "400 x"),
            (401, &[ID], "401 x (request id req-7)"),
            (503, &[ID, ("retry-after", "999")], "503 x"),
            (429, &[ID], "429 x"),
            (429, &[("retry-after", "59")], "429 x"),
            (
                429,
                &[("retry-after", "60")],
                "429 x (the server asks to wait 60 s)",
            ),
            (
                429,
                &[("retry-after", "121")],
                "429 x (the server asks to wait 3 min)",
            ),
            (
                429,
                &[("retry-after", "7201")],
                "429 x (the server asks to wait 3 hours)",
            ),
            (
                429,
                &[("retry-after", "1382400")],
                "429 x (the server asks to wait 16 days)",
            ),
            (
                429,
                &[("retry-after-ms", "90500")],
                "429 x (the server asks to wait 91 s)",
            ),
        ];
        for (status, given, message) in rows {
            let error = context().http(status, &headers(given), b"x");
            assert_eq!(error.message, message);
        }
    }

    #[test]
    fn the_id_of_the_request() {
        let error = context().http(400, &headers(&[("x-request-id", "req-7")]), b"");
        assert_eq!(error.request_id.as_deref(), Some("req-7"));
    }

    #[test]
    fn redirects_tell_no_more_than_an_origin() {
        let from = Url::parse("http://127.0.0.1:9/v1/chat/completions").unwrap();
        let rows = [
            (
                "https://u:pw@evil.example/x?key=s#f",
                "`https://evil.example`",
            ),
            ("https://evil.example:8443/x", "`https://evil.example:8443`"),
            ("/elsewhere?token=s", "`http://127.0.0.1:9`"),
            ("//other:1/x", "`http://other:1`"),
            ("http://[bad", "an unreadable address"),
            ("javascript:alert(1)", "an unreadable address"),
        ];
        for (location, shown) in rows {
            let error = redirect(307, &headers(&[("location", location)]), &from);
            let text = format!(
                "the server answered 307, a redirect to {shown}, and redirects are never followed"
            );
            assert_eq!(
                (error.message, error.kind),
                (text, StreamErrorKind::Redirect)
            );
            let told = error.redirect.unwrap().destination.map(|to| to.to_string());
            let readable = shown.strip_prefix('`').and_then(|s| s.strip_suffix('`'));
            match (told, readable) {
                // The usual port of a scheme is told as well.
                (Some(told), Some(shown)) => assert!(told.starts_with(shown), "{told}"),
                (None, None) => {}
                other => panic!("{location}: {other:?}"),
            }
        }
        assert!(
            redirect(301, &HeaderMap::new(), &from)
                .message
                .contains("unreadable")
        );
    }
}
