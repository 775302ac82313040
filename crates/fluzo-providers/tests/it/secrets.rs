//! A planted key shows up nowhere but on the wire.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use fluzo_llm::Secret;
use fluzo_sim::{Body, Completion, Reply};
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span;

use crate::support::{KEY, ask, collect, finish, provider, simulator};

/// Writes down everything that is traced.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<String>>);

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

impl tracing::Subscriber for Recorder {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        span.record(&mut Fields(&mut self.0.lock().unwrap()));
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        values.record(&mut Fields(&mut self.0.lock().unwrap()));
    }
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut Fields(&mut self.0.lock().unwrap()));
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[tokio::test]
async fn a_planted_key_is_in_no_error_no_debug_text_and_no_trace() {
    let recorder = Recorder::default();
    // With a single subscriber in the process, threads without one would switch call sites off.
    let _second = tracing::Dispatch::new(recorder.clone());
    let _guard = tracing::subscriber::set_default(recorder.clone());
    let echo = format!("no access for {KEY}, header Bearer {KEY} and planted-header-value");
    let replies = [
        Reply::error(401, &echo),
        Reply::with_body(
            500,
            Body::Raw {
                content_type: "text/plain".into(),
                text: echo.clone(),
            },
        ),
        Reply::completion(Completion {
            error: Some(json!({"message": echo})),
            ..Completion::default()
        }),
        Reply::redirect(302, format!("http://elsewhere/{KEY}")),
    ];
    for reply in replies {
        let simulator = simulator([reply]);
        let mut request = ask(&simulator.base_url());
        request.auth.headers = vec![("x-key".into(), Secret::new("planted-header-value"))];
        let shown = format!("{request:?}");
        let events = collect(&*provider(), request).await;
        let error = finish(&events).error.clone().unwrap();
        for text in [
            shown,
            format!("{events:?}"),
            format!("{error:?}"),
            error.to_string(),
        ] {
            assert!(!text.contains("planted"), "{text}");
        }
    }
    let traced = recorder.0.lock().unwrap().clone();
    assert!(traced.contains("response head"), "{traced}");
    assert!(!traced.contains("planted"), "{traced}");
}

#[tokio::test]
async fn a_planted_key_is_in_nothing_that_a_server_says_about_itself() {
    let chunk = |field: &str| {
        let mut chunk = json!({
            "id": "r", "model": "m1",
            "choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}],
        });
        *chunk.pointer_mut(field).unwrap() = json!(format!("<{KEY}>"));
        chunk
    };
    let delta =
        |delta: serde_json::Value| json!({"choices": [{"delta": delta, "finish_reason": "stop"}]});
    let name = format!("f{KEY}");
    let rows = [
        (
            chunk("/choices/0/finish_reason"),
            "Provider finish_reason: <[redacted]>",
        ),
        (chunk("/id"), "<[redacted]>"),
        (chunk("/model"), "<[redacted]>"),
        (
            delta(json!({"refusal": format!("no, {KEY}")})),
            "no, [redacted]",
        ),
        (
            delta(
                json!({"tool_calls": [{"index": 0, "id": name, "function": {"name": name, "arguments": "{}"}}]}),
            ),
            "f[redacted]",
        ),
    ];
    for (chunk, shown) in rows {
        for body in [
            Body::Json(chunk.clone()),
            Body::Events(vec![chunk.to_string()]),
        ] {
            let simulator = simulator([Reply::with_body(200, body)]);
            let events = collect(&*provider(), ask(&simulator.base_url())).await;
            let text = format!("{events:?}");
            assert!(text.contains(shown), "{shown} in {text}");
            assert!(!text.contains("planted"), "{text}");
        }
    }
    let reply = Reply::error(500, "no").header("x-request-id", format!("id-{KEY}"));
    let simulator = simulator([reply]);
    let events = collect(&*provider(), ask(&simulator.base_url())).await;
    let error = finish(&events).error.clone().unwrap();
    assert_eq!(error.request_id.as_deref(), Some("id-[redacted]"));
}
