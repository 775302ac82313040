//! Connections: when they are made, kept and closed, and where they never go.

use std::sync::Arc;

use fluzo_llm::{AbortSignal, Message, StreamErrorKind, StreamEvent};
use fluzo_sim::{Body, Delivery, Listener, Milestone, Point, Reply, Simulator, ToolCall};
use futures_util::StreamExt;
use serde_json::json;

use crate::support::{
    PATIENCE, answer_to, ask, collect, finish, kinds, message, provider, request, result, shown,
    simulator,
};

#[tokio::test]
async fn twenty_one_requests_use_one_connection() {
    let call = |n: usize| {
        Reply::calls([ToolCall::new(
            format!("c{n}"),
            "bash",
            json!({"command": "true"}),
        )])
    };
    let simulator = simulator((0..20).map(call).chain([Reply::text("done")]));
    let provider = provider();
    let mut history = vec![Message::user("go", 1)];
    for n in 0..21 {
        let request = request(&simulator.base_url(), history.clone());
        let answer = message(&request, &collect(&*provider, request.clone()).await);
        assert!(!answer.failed(), "{answer:?}");
        history.push(Message::Assistant(answer));
        if n < 20 {
            history.push(result(&format!("c{n}"), "ok"));
        }
    }
    let verdict = simulator.finish();
    assert!(verdict.passed, "{:?}", verdict.violations);
    assert_eq!((verdict.requests, verdict.connections), (21, 1));
}

#[tokio::test]
async fn errors_and_json_answers_keep_the_connection_too() {
    let answer = json!({"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]});
    let simulator = simulator([
        Reply::error(503, "overloaded"),
        Reply::error(400, "bad thing"),
        Reply::with_body(200, Body::Json(answer)),
        Reply::text("done"),
    ]);
    let provider = provider();
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(shown(
            &collect(&*provider, ask(&simulator.base_url())).await,
        ));
    }
    let expected = [
        "Transient: 503 overloaded",
        "InvalidRequest: 400 bad thing (request id sim-1)",
        "text:x ; stop 0/0",
        "text:done ; stop 12/7",
    ];
    assert_eq!(seen, expected);
    assert_eq!(simulator.finish().connections, 1);
}

#[tokio::test]
async fn nothing_is_contacted_before_the_first_poll() {
    let listener = Listener::poisoned().unwrap();
    let provider = provider();
    drop(provider.stream(ask(&listener.base_url()), AbortSignal::new()));
    let abort = AbortSignal::new();
    abort.cancel();
    let events: Vec<StreamEvent> = provider
        .stream(ask(&listener.base_url()), abort)
        .collect()
        .await;
    assert_eq!(shown(&events), "Aborted: Request was aborted");
    assert!(listener.finish().unwrap().is_empty());
}

#[tokio::test]
async fn redirects_are_never_followed() {
    for status in [301, 302, 303, 307, 308] {
        let target = Listener::poisoned().unwrap();
        let origin = format!("http://{}", target.address());
        let locations = [
            (
                format!("{origin}/v1/chat/completions"),
                format!("`{origin}`"),
            ),
            (
                format!(
                    "http://user:secret-pw@{}/p?token=secret-query#secret",
                    target.address()
                ),
                format!("`{origin}`"),
            ),
            (
                "http://[malformed".to_owned(),
                "an unreadable address".to_owned(),
            ),
        ];
        for (location, named) in locations {
            let simulator = simulator([Reply::redirect(status, location)]);
            let events = collect(&*provider(), ask(&simulator.base_url())).await;
            let error = finish(&events).error.clone().unwrap();
            assert_eq!(
                (error.kind, error.status),
                (StreamErrorKind::Redirect, Some(status))
            );
            assert_eq!(
                error.message,
                format!(
                    "the server answered {status}, a redirect to {named}, and redirects are never followed"
                )
            );
            assert_eq!(simulator.finish().requests, 1);
        }
        assert!(target.finish().unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_redirect_to_the_same_server_is_not_followed_either() {
    let simulator = simulator([Reply::redirect(307, "/v1/chat/completions?token=secret")]);
    let events = collect(&*provider(), ask(&simulator.base_url())).await;
    let message = finish(&events).error.clone().unwrap().message;
    assert!(
        message.contains(&format!("`http://{}`", simulator.address())),
        "{message}"
    );
    assert_eq!(simulator.finish().requests, 1);
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    let delivery = Delivery {
        stall: Some(Point::Events(2)),
        ..Delivery::default()
    };
    let simulator = Arc::new(simulator([Reply::text("hello").delivered(delivery)]));
    let mut events = provider().stream(ask(&simulator.base_url()), AbortSignal::new());
    while !matches!(events.next().await.unwrap(), StreamEvent::TextDelta { .. }) {}
    drop(events);
    wait(&simulator, Milestone::NoConnection).await;
}

#[tokio::test]
async fn abort_while_the_server_thinks_and_while_it_answers() {
    let stalls = [
        (
            Delivery {
                stall_before_head: true,
                ..Delivery::default()
            },
            "error",
            "Aborted: Request was aborted",
        ),
        (
            Delivery {
                stall: Some(Point::Events(2)),
                ..Delivery::default()
            },
            "start text_start text_delta text_end error",
            "text:hello ; Aborted: Request was aborted",
        ),
    ];
    for (delivery, expected_kinds, expected) in stalls {
        let simulator = Arc::new(simulator([Reply::text("hello").delivered(delivery)]));
        let abort = AbortSignal::new();
        let mut stream = provider().stream(ask(&simulator.base_url()), abort.clone());
        // Until the abort, the stream is polled only as far as it is known to go.
        let mut events: Vec<StreamEvent> = Vec::new();
        let before = expected_kinds.split(' ').count().saturating_sub(2);
        while events.len() < before {
            events.push(stream.next().await.unwrap());
        }
        let trigger = async {
            wait(&simulator, Milestone::Stalled(1)).await;
            abort.cancel();
        };
        let (rest, ()) = tokio::join!(stream.by_ref().collect::<Vec<_>>(), trigger);
        events.extend(rest);
        assert_eq!(
            (kinds(&events).as_str(), shown(&events).as_str()),
            (expected_kinds, expected)
        );
        drop(stream);
        wait(&simulator, Milestone::NoConnection).await;
    }
}

/// Waits for the simulator while the runtime goes on.
async fn wait(simulator: &Arc<Simulator>, milestone: Milestone) {
    let simulator = Arc::clone(simulator);
    let waited = tokio::task::spawn_blocking(move || simulator.wait_for(milestone, PATIENCE));
    assert!(waited.await.unwrap(), "{milestone:?}");
}

#[tokio::test]
async fn a_server_that_is_not_there() {
    // Nobody may listen on port 1 of loopback without being root and asked to.
    let events = collect(&*provider(), ask("http://127.0.0.1:1/v1")).await;
    let error = finish(&events).error.clone().unwrap();
    assert_eq!(error.kind, StreamErrorKind::Connect);
    assert!(
        error
            .message
            .starts_with("connection error: `http://127.0.0.1:1` cannot be reached: "),
        "{}",
        error.message
    );
    assert_eq!(kinds(&events), "error");
}

#[tokio::test]
async fn a_connection_that_breaks_off() {
    let cut = |point| Delivery {
        cut_off: Some(point),
        ..Delivery::default()
    };
    let shown = answer_to(Reply::text("hello").delivered(cut(Point::Events(2)))).await;
    assert!(
        shown.starts_with("text:hello ; Incomplete: connection lost: the response was cut off"),
        "{shown}"
    );
    // After the finish reason nothing is missing.
    let shown =
        answer_to(Reply::text("hello").delivered(cut(Point::After("\"stop\"".into())))).await;
    assert!(shown.starts_with("text:hello ; "), "{shown}");
    let shown = answer_to(Reply::text("hello").delivered(cut(Point::End))).await;
    assert_eq!(shown, "text:hello ; stop 12/7");
}
