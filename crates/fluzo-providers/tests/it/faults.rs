//! Errors, in every form in which servers give them.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use fluzo_llm::{AbortSignal, StreamErrorKind, StreamEvent};
use fluzo_providers::Limits;
use fluzo_sim::{Body, Completion, Delivery, Milestone, Reply};
use futures_util::StreamExt;
use serde_json::json;

use crate::support::{
    PATIENCE, answer_to, ask, collect, finish, kinds, limited, provider, shown, simulator,
};

#[tokio::test]
async fn refused_requests() {
    let rows = [
        (
            Reply::error(400, "bad thing"),
            "InvalidRequest: 400 bad thing (request id sim-0)",
        ),
        (Reply::error(503, "overloaded"), "Transient: 503 overloaded"),
        (Reply::error(429, "slow down"), "RateLimit: 429 slow down"),
        (
            Reply::error(429, "monthly usage limit reached"),
            "Quota: 429 monthly usage limit reached (request id sim-0)",
        ),
        (
            Reply::error(401, "no"),
            "Authentication: 401 no (request id sim-0)",
        ),
        (
            Reply::error(400, "maximum context length is 8 tokens"),
            "Overflow: 400 maximum context length is 8 tokens",
        ),
        (
            Reply::with_body(
                502,
                Body::Raw {
                    content_type: "text/html".into(),
                    text: "<h1>\u{1b}[2JBad</h1>".into(),
                },
            ),
            "Transient: 502 <h1>Bad</h1>",
        ),
        (
            Reply::with_body(
                500,
                Body::Raw {
                    content_type: "text/plain".into(),
                    text: String::new(),
                },
            ),
            "Transient: 500 status code (no body)",
        ),
    ];
    for (reply, expected) in rows {
        assert_eq!(answer_to(reply).await, expected);
    }
}

#[tokio::test]
async fn a_page_instead_of_an_answer_is_named() {
    let rows = [
        (
            "text/html; charset=utf-8",
            "\n<html>\u{1b}[2J<title>Sign in</title>\n<p>sk-planted-test-key",
            "Incomplete: the server's answer is no API response: content type `text/html; charset=utf-8`, \
             it begins `<html><title>Sign in</title> <p>[redacted]`",
        ),
        (
            "text/plain",
            "OK",
            "Incomplete: the server's answer is no API response: content type `text/plain`, it begins `OK`",
        ),
        (
            "text/event-stream",
            ": ping\n\n",
            "Incomplete: Stream ended without finish_reason",
        ),
        (
            "text/html",
            "",
            "FormRefused: Stream ended without finish_reason",
        ),
    ];
    for (content_type, text, expected) in rows {
        let body = Body::Raw {
            content_type: content_type.into(),
            text: text.into(),
        };
        assert_eq!(answer_to(Reply::with_body(200, body)).await, expected);
    }
}

#[tokio::test]
async fn interim_answers_without_end_run_into_a_limit() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let server = tokio::task::spawn_blocking(move || {
        let (mut connection, _) = listener.accept().unwrap();
        // What comes before the request would be refused as such.
        let _ = connection.read(&mut [0; 4096]).unwrap();
        // A steady drip: a flood would only measure how fast a parser is. Ends when the client
        // hangs up.
        let (_open, drip) = std::sync::mpsc::channel::<()>();
        while connection
            .write_all(b"HTTP/1.1 100 Continue\r\n\r\n")
            .is_ok()
        {
            let _ = drip.recv_timeout(Duration::from_millis(1));
        }
    });
    let limits = Limits {
        first_output: Some(Duration::from_millis(200)),
        ..Limits::open(true)
    };
    let provider = limited(limits);
    let events = collect(&*provider, ask(&base_url));
    let events = tokio::time::timeout(PATIENCE, events).await.unwrap();
    let error = finish(&events).error.clone().unwrap();
    assert_eq!(error.kind, StreamErrorKind::Timeout, "{error}");
    let hung_up = tokio::time::timeout(PATIENCE, server).await.unwrap();
    hung_up.unwrap();
}

#[tokio::test]
async fn facts_of_a_refused_request() {
    let body = Body::Json(json!({"error": {"message": "busy", "retry_after_seconds": 3}}));
    let reply = Reply::with_body(429, body).header("x-request-id", "req-9");
    let header = Reply::error(429, "monthly usage limit reached").header("retry-after", "1382400");
    let simulator = simulator([reply, header]);
    let provider = provider();
    let events = collect(&*provider, ask(&simulator.base_url())).await;
    let error = finish(&events).error.clone().unwrap();
    assert_eq!(
        (
            error.status,
            error.retry_after_ms,
            error.request_id.as_deref()
        ),
        (Some(429), Some(3000), Some("req-9"))
    );
    let events = collect(&*provider, ask(&simulator.base_url())).await;
    let error = finish(&events).error.clone().unwrap();
    assert_eq!(
        (error.kind, error.retry_after_ms),
        (StreamErrorKind::Quota, Some(1_382_400_000))
    );
}

#[tokio::test]
async fn a_refused_request_is_sent_once() {
    let simulator = simulator([
        Reply::error(400, "invalid message content"),
        Reply::error(503, "overloaded"),
    ]);
    let provider = provider();
    for _ in 0..2 {
        collect(&*provider, ask(&simulator.base_url())).await;
    }
    assert_eq!(simulator.finish().requests, 2);
}

#[tokio::test]
async fn a_long_error_body_is_bounded() {
    let text = "x".repeat(3 << 20);
    let shown = answer_to(Reply::with_body(
        500,
        Body::Raw {
            content_type: "text/plain".into(),
            text,
        },
    ))
    .await;
    assert!(
        shown.len() < 5000 && shown.starts_with("Transient: 500 xxx"),
        "{}",
        shown.len()
    );
}

#[tokio::test]
async fn an_error_inside_a_stream_and_a_bare_one() {
    let completion = Completion {
        text: Some("half".into()),
        error: Some(json!({"message": "overloaded", "code": 503})),
        ..Completion::default()
    };
    assert_eq!(
        answer_to(Reply::completion(completion)).await,
        "text:half ; Transient: overloaded"
    );
    let bare = Body::Json(json!({"error": {"message": "context length exceeded"}}));
    assert_eq!(
        answer_to(Reply::with_body(200, bare)).await,
        "Overflow: context length exceeded"
    );
}

#[tokio::test]
async fn an_endless_line_is_refused_and_the_connection_closed() {
    let simulator = Arc::new(simulator([Reply::with_body(
        200,
        Body::EndlessLine { bytes: 200 << 20 },
    )]));
    let provider = limited(Limits {
        max_event_bytes: 1 << 20,
        ..Limits::open(true)
    });
    let events = collect(&*provider, ask(&simulator.base_url())).await;
    assert_eq!(
        shown(&events),
        "TooLarge: an event is larger than 1048576 bytes"
    );
    let waiting = Arc::clone(&simulator);
    let closed =
        tokio::task::spawn_blocking(move || waiting.wait_for(Milestone::NoConnection, PATIENCE));
    assert!(closed.await.unwrap());
}

#[tokio::test]
async fn limits_fire_over_a_real_connection_and_name_their_setting() {
    let soon = Some(Duration::from_millis(30));
    let none = Limits {
        connect: None,
        first_output: None,
        idle: None,
        total: None,
        ..Limits::open(true)
    };
    let before_head = || {
        Reply::text("x").delivered(Delivery {
            stall_before_head: true,
            ..Delivery::default()
        })
    };
    let rows = [
        (
            Limits {
                first_output: soon,
                ..none
            },
            before_head(),
            "firstOutputTimeoutMs",
        ),
        (
            Limits {
                first_output: soon,
                ..none
            },
            Reply::head_only(),
            "firstOutputTimeoutMs",
        ),
        (
            Limits {
                total: soon,
                ..none
            },
            Reply::head_only(),
            "totalTimeoutMs",
        ),
    ];
    for (limits, reply, setting) in rows {
        let simulator = simulator([reply]);
        let events = collect(&*limited(limits), ask(&simulator.base_url())).await;
        let error = finish(&events).error.clone().unwrap();
        assert_eq!(error.kind, StreamErrorKind::Timeout);
        assert!(
            error
                .message
                .ends_with(&format!("within 30 ms (setting `provider.{setting}`)")),
            "{}",
            error.message
        );
    }
}

#[tokio::test]
async fn unusable_addresses_and_headers() {
    let provider = provider();
    for base_url in ["", "ftp://h", "no url"] {
        let events = collect(&*provider, ask(base_url)).await;
        assert_eq!(
            shown(&events),
            "InvalidRequest: the base URL of provider `sim` is no http or https address"
        );
    }
    let mut request = ask("http://127.0.0.1:1/v1");
    request.auth.headers = vec![("x-bad".into(), fluzo_llm::Secret::new("a\nb"))];
    let events = collect(&*provider, request).await;
    assert_eq!(
        shown(&events),
        "InvalidRequest: the value of header `x-bad` holds characters that cannot be sent"
    );
}

#[tokio::test]
async fn every_fault_ends_in_exactly_one_last_event() {
    let replies = [
        Reply::error(500, "x"),
        Reply::redirect(302, "/x"),
        Reply::with_body(200, Body::Events(vec!["{".into()])),
        Reply::with_body(200, Body::Events(vec![])),
        Reply::text("x").delivered(Delivery {
            cut_off: Some(fluzo_sim::Point::Bytes(9)),
            ..Delivery::default()
        }),
        Reply::text("x").delivered(Delivery {
            end_early: Some(fluzo_sim::Point::Events(1)),
            ..Delivery::default()
        }),
    ];
    for reply in replies {
        let simulator = simulator([reply.clone()]);
        let mut stream = provider().stream(ask(&simulator.base_url()), AbortSignal::new());
        let mut events: Vec<StreamEvent> = stream.by_ref().collect().await;
        let last = events.pop().unwrap();
        assert!(
            matches!(&last, StreamEvent::Failed(finish) if !finish.error.as_ref().unwrap().message.is_empty()),
            "{reply:?}"
        );
        assert!(
            !events.iter().any(StreamEvent::is_last),
            "{}",
            kinds(&events)
        );
        assert!(stream.next().await.is_none());
    }
}
