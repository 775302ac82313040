//! Small requests: whole responses, limits, redirects.

use std::time::Duration;

use fluzo_llm::{Secret, StreamError, StreamErrorKind};
use fluzo_providers::{CallLimits, HttpClient, Response};
use fluzo_sim::Listener;

use crate::raw::{Play, Raw, response};

fn http() -> HttpClient {
    HttpClient::new("fluzo-test")
}

async fn get(url: &str) -> Result<Response, StreamError> {
    http().get(url, &[], CallLimits::discovery()).await
}

async fn post(url: &str) -> Result<Response, StreamError> {
    let fields = [("refresh_token", Secret::new("planted-refresh-token"))];
    http()
        .post_form(url, &[], &fields, CallLimits::sign_in())
        .await
}

#[tokio::test]
async fn a_whole_response_has_status_headers_and_body() {
    for status in [200, 404, 500] {
        let answer = response(status, "x-request-id: r-1\r\n", b"{}");
        let server = Raw::start(vec![Play::Bytes(answer)]);
        let headers = [("authorization", Secret::new("Bearer k"))];
        let url = server.url("/v1/models");
        let got = http().get(&url, &headers, CallLimits::discovery()).await;
        let got = got.unwrap();
        assert_eq!((got.status(), got.body()), (status, &b"{}"[..]));
        assert_eq!(got.request_id().as_deref(), Some("r-1"));
        let seen = server.seen();
        assert!(seen[0].starts_with("get /v1/models http/1.1\n"), "{seen:?}");
        assert!(seen[0].contains("\nauthorization: bearer k\n"), "{seen:?}");
    }
}

#[tokio::test]
async fn a_form_is_posted_and_never_shown() {
    let server = Raw::start(vec![Play::Bytes(response(200, "", b"planted"))]);
    let got = post(&server.url("/token")).await.unwrap();
    assert!(!format!("{got:?}").contains("planted"), "{got:?}");
    let seen = server.seen();
    assert!(seen[0].starts_with("post /token http/1.1\n"), "{seen:?}");
    assert!(seen[0].contains("\ncontent-type: application/x-www-form-urlencoded\n"));
    assert!(seen[0].ends_with("\nrefresh_token=planted-refresh-token"));
}

#[tokio::test]
async fn limits_name_themselves_and_their_setting() {
    let limits = CallLimits {
        total: Duration::from_millis(50),
        max_bytes: 10,
        ..CallLimits::discovery()
    };
    let rows = [
        (
            Play::Hold(Vec::new()),
            StreamErrorKind::Timeout,
            "timed out: the response was not complete within 50 ms (setting `discovery.totalTimeoutMs`)",
        ),
        (
            Play::Hold(b"HTTP/1.1 500 X\r\ncontent-length: 9\r\n\r\n123".to_vec()),
            StreamErrorKind::Timeout,
            "timed out: the response was not complete within 50 ms (setting `discovery.totalTimeoutMs`)",
        ),
        (
            Play::Bytes(response(200, "", b"12345678901")),
            StreamErrorKind::TooLarge,
            "the response is larger than 10 bytes",
        ),
        (
            Play::Bytes(b"HTTP/1.1 200 X\r\ncontent-length: 9\r\n\r\n123".to_vec()),
            StreamErrorKind::Incomplete,
            "connection lost: the response was cut off: ",
        ),
    ];
    for (play, kind, text) in rows {
        let server = Raw::start(vec![play]);
        let error = http().get(&server.url("/"), &[], limits).await.unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.starts_with(text), "{error}");
    }
}

/// Where a redirect may point, and what is told of it. `T` is the target, `S` the server itself.
const LOCATIONS: &[(&str, Option<&str>)] = &[
    ("http://T/token", Some("http://T")),
    ("http://S/token2", Some("http://S")),
    ("/token2?x=planted", Some("http://S")),
    ("token2", Some("http://S")),
    ("//T/x", Some("http://T")),
    (
        "http://u:planted@T/planted?planted=planted#planted",
        Some("http://T"),
    ),
    ("http://[planted", None),
    ("http://T:planted/", None),
    ("javascript:planted()", None),
    ("", Some("http://S")),
];

#[tokio::test]
async fn no_redirect_of_a_get_or_a_token_post_is_followed() {
    for status in [301, 302, 303, 307, 308] {
        for (location, told) in LOCATIONS {
            let target = Listener::poisoned().unwrap();
            let at = target.address().to_string();
            let to = location.to_owned().replace('T', &at);
            let server = Raw::answering(move |_, request| {
                let host = request.lines().find_map(|line| line.strip_prefix("host: "));
                let to = to.replace('S', host.unwrap());
                let header = format!("location: {to}\r\nx-request-id: r-1\r\n");
                Play::Bytes(response(status, &header, b"planted"))
            });
            for sent in [get(&server.url("/a")).await, post(&server.url("/a")).await] {
                let error = sent.unwrap_err();
                assert_eq!(error.kind, StreamErrorKind::Redirect);
                let blocked = error.redirect.clone().unwrap();
                assert_eq!(blocked.status, status);
                assert_eq!(blocked.correlation_id.as_deref(), Some("r-1"));
                let own = server.address().to_string();
                let told = told.map(|told| told.replace('T', &at).replace('S', &own));
                assert_eq!(blocked.destination.map(|to| to.to_string()), told);
                assert!(
                    !format!("{error:?} {error}").contains("planted"),
                    "{error:?}"
                );
            }
            assert_eq!(server.seen().len(), 2, "{location}");
            assert!(target.finish().unwrap().is_empty());
        }
    }
}
