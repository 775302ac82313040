//! Errors as they are told.

use std::sync::Arc;

use fluzo_llm::{RequestAuth, Secret};
use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};
use serde_json::json;

use super::*;

pub(super) fn context() -> Context {
    let auth = RequestAuth {
        api_key: Some(Secret::new("sk-planted-key")),
        ..RequestAuth::default()
    };
    Context {
        redactor: Redactor::new(&auth),
        clock: Arc::new(|| 784_111_777_000),
    }
}

pub(super) fn headers(rows: &[(&'static str, &str)]) -> HeaderMap {
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
    let exceeded = "You exceeded your current quota, please check your plan and billing details.";
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
            "429 x (the server asks to wait 60 s, until 1994-11-06 08:50 UTC)",
        ),
        (
            429,
            &[("retry-after", "121")],
            "429 x (the server asks to wait 3 min, until 1994-11-06 08:51 UTC)",
        ),
        (
            429,
            &[("retry-after", "7201")],
            "429 x (the server asks to wait 3 hours, until 1994-11-06 10:49 UTC)",
        ),
        (
            429,
            &[("retry-after", "1382400")],
            "429 x (the server asks to wait 16 days, until 1994-11-22 08:49 UTC)",
        ),
        (
            429,
            &[("retry-after-ms", "90500")],
            "429 x (the server asks to wait 91 s, until 1994-11-06 08:51 UTC)",
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

#[test]
fn the_place_of_the_fault_is_told() {
    let rows = [
        (
            r#"{"error":{"message":"invalid message content","param":"messages.[2].content"}}"#,
            "400 invalid message content (at `messages.[2].content`) (request id req-7)",
        ),
        (
            r#"{"error":{"message":"messages.2: bad","param":"messages.2"}}"#,
            "400 messages.2: bad (request id req-7)",
        ),
        (
            r#"{"error":{"message":"bad model","param":"model"}}"#,
            "400 bad model (request id req-7)",
        ),
    ];
    for (body, message) in rows {
        let error = context().http(400, &headers(&[("x-request-id", "req-7")]), body.as_bytes());
        assert_eq!(error.message, message);
    }
}
