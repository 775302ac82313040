//! Cost of reading responses: server-sent events alone, and whole responses over loopback
//! through the provider. The rows of growing size show that a delta costs its own length.

use std::sync::Arc;

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use fluzo_llm::{
    AbortSignal, Message, ModelRequest, Provider, RequestAuth, RequestOptions, Secret, StreamEvent,
    Transcript,
};
use fluzo_providers::sse::{EventTooLarge, SseParser};
use fluzo_providers::{HttpClient, LimitPolicy, provider_for};
use fluzo_sim::{
    Body, Completion, Delivery, Endpoint, Pieces, Reply, Scenario, Simulator, Step, Writes,
};
use futures_util::StreamExt;

fn main() {
    divan::main();
}

/// Events of a typical chat stream.
fn sse_bytes(events: usize) -> Vec<u8> {
    let event = format!("data: {}\n\n", text_chunk("a few words "));
    event.into_bytes().repeat(events)
}

fn text_chunk(text: &str) -> String {
    serde_json::json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m1",
        "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]})
    .to_string()
}

#[divan::bench(args = [16 * 1024, 1400, 1])]
fn sse_parse(bencher: Bencher<'_, '_>, chunk: usize) {
    let bytes = sse_bytes(20_000);
    bencher
        .counter(BytesCount::new(bytes.len()))
        .bench_local(|| {
            let mut parser = SseParser::new(1 << 20);
            let mut seen = 0;
            for part in bytes.chunks(chunk) {
                let fed: Result<(), EventTooLarge> = parser.feed(part, |event| {
                    seen += black_box(event.data).len();
                    Ok(())
                });
                assert!(fed.is_ok());
            }
            seen
        });
}

#[divan::bench]
fn sse_one_line_of_16_mb(bencher: Bencher<'_, '_>) {
    let mut bytes = b"data: ".to_vec();
    bytes.resize(16 << 20, b'x');
    bytes.extend_from_slice(b"\n\n");
    bencher
        .counter(BytesCount::new(bytes.len()))
        .bench_local(|| {
            let mut parser = SseParser::new(32 << 20);
            for part in bytes.chunks(16 * 1024) {
                let fed: Result<(), EventTooLarge> = parser.feed(part, |event| {
                    black_box(event.data);
                    Ok(())
                });
                assert!(fed.is_ok());
            }
        });
}

/// One tool call whose arguments come in pieces of 20 bytes: the time for each byte must not
/// grow with the size.
#[divan::bench(args = [50_000, 100_000, 200_000, 400_000])]
fn tool_arguments(bencher: Bencher<'_, '_>, size: usize) {
    let piece = |delta: serde_json::Value| {
        serde_json::json!({"choices": [{"index": 0, "delta": {"tool_calls": [delta]}}]}).to_string()
    };
    let mut events = vec![piece(
        serde_json::json!({"index": 0, "id": "c1", "type": "function", "function": {"name": "write", "arguments": "{\"content\":\""}}),
    )];
    let body = piece(serde_json::json!({"index": 0, "function": {"arguments": "x".repeat(20)}}));
    events.extend(std::iter::repeat_n(body, size / 20));
    events.push(piece(
        serde_json::json!({"index": 0, "function": {"arguments": "\"}"}}),
    ));
    events.push(r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#.to_owned());
    whole_response(bencher, events, size);
}

#[divan::bench(args = [1_000_000, 10_000_000])]
fn text_response(bencher: Bencher<'_, '_>, size: usize) {
    let mut events: Vec<String> =
        std::iter::repeat_n(text_chunk(&"word ".repeat(20)), size / 100).collect();
    events.push(r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#.to_owned());
    whole_response(bencher, events, size);
}

/// The same text in every dialect, in pieces of 100 characters: the time for each byte must not
/// grow with the size.
#[divan::bench(sample_count = 20, args = [
    ("openai-completions", 1_000_000), ("openai-completions", 10_000_000),
    ("anthropic-messages", 1_000_000), ("anthropic-messages", 10_000_000),
    ("openai-responses", 1_000_000), ("openai-responses", 10_000_000),
    ("google-generative-ai", 1_000_000), ("google-generative-ai", 10_000_000),
])]
fn text_in(bencher: Bencher<'_, '_>, (api, size): (&str, usize)) {
    let endpoint = match api {
        "anthropic-messages" => Endpoint::Messages,
        "openai-responses" => Endpoint::Responses,
        "google-generative-ai" => Endpoint::Gemini,
        _ => Endpoint::Chat,
    };
    let completion = Completion {
        text: Some("word ".repeat(size / 5)),
        pieces: Pieces::Chars(100),
        ..Completion::default()
    };
    let reply = Reply::completion(completion).delivered(Delivery {
        writes: Writes::Together,
        ..Delivery::default()
    });
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    else {
        return;
    };
    let scenario = Scenario::new("bench")
        .model("m1")
        .step(Step::at(endpoint, reply));
    bencher
        .counter(BytesCount::new(size))
        .with_inputs(|| Served::speaking(api, scenario.clone()))
        .bench_local_refs(|served| runtime.block_on(served.read()));
}

/// A small answer: with the client still to be built, and over the connection of the one before.
#[divan::bench(args = ["first", "next"])]
fn request_and_answer(bencher: Bencher<'_, '_>, which: &str) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    else {
        return;
    };
    let steps = |scenario: Scenario, n| (0..n).fold(scenario, |s, _| s.step(Reply::text("ok")));
    let next = which == "next";
    bencher
        .with_inputs(|| {
            let scenario = steps(Scenario::new("bench").model("m1"), 2);
            let mut served = Served::play(scenario);
            if next {
                let again = served.request.clone();
                runtime.block_on(served.read());
                served.request = again;
            }
            served
        })
        .bench_local_refs(|served| runtime.block_on(served.read()));
}

/// A client that is built for a request which no server takes: for `https` with the roots.
#[divan::bench(args = ["http", "https"])]
fn client(bencher: Bencher<'_, '_>, scheme: &str) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    else {
        return;
    };
    let address = format!("{scheme}://127.0.0.1:1");
    bencher.bench_local(|| {
        let http = Arc::new(HttpClient::new("bench"));
        let provider = provider_for(
            "openai-completions",
            http,
            LimitPolicy::open(),
            Arc::new(|| 0),
        );
        let (Ok(provider), Some(request)) = (provider, request("openai-completions", &address))
        else {
            return 0;
        };
        runtime.block_on(provider.stream(request, AbortSignal::new()).count())
    });
}

fn whole_response(bencher: Bencher<'_, '_>, mut events: Vec<String>, size: usize) {
    events.push("[DONE]".to_owned());
    let reply = Reply::with_body(200, Body::Events(events)).delivered(Delivery {
        writes: Writes::Together,
        ..Delivery::default()
    });
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    else {
        return;
    };
    bencher
        .counter(BytesCount::new(size))
        .with_inputs(|| Served::start(reply.clone()))
        .bench_local_refs(|served| runtime.block_on(served.read()));
}

struct Served {
    _simulator: Option<Simulator>,
    provider: Option<Arc<dyn Provider>>,
    request: Option<ModelRequest>,
}

impl Served {
    fn start(reply: Reply) -> Self {
        Self::play(Scenario::new("bench").model("m1").step(reply))
    }

    fn play(scenario: Scenario) -> Self {
        Self::speaking("openai-completions", scenario)
    }

    fn speaking(api: &str, scenario: Scenario) -> Self {
        let simulator = Simulator::start(scenario).ok();
        let http = Arc::new(HttpClient::new("bench"));
        let provider = provider_for(api, http, LimitPolicy::open(), Arc::new(|| 0)).ok();
        let address = simulator.as_ref().map(Simulator::base_url);
        let address = address.unwrap_or_default();
        let base_url = match api {
            "anthropic-messages" => address.trim_end_matches("/v1"),
            _ => &address,
        };
        Self {
            request: request(api, base_url),
            provider,
            _simulator: simulator,
        }
    }

    async fn read(&mut self) -> usize {
        let (Some(provider), Some(request)) = (&self.provider, self.request.take()) else {
            return 0;
        };
        let mut events = provider.stream(request, AbortSignal::new());
        let mut count = 0;
        while let Some(event) = events.next().await {
            assert!(!matches!(event, StreamEvent::Failed(_)), "{event:?}");
            count += 1;
        }
        count
    }
}

fn request(api: &str, base_url: &str) -> Option<ModelRequest> {
    let model = serde_json::from_value(serde_json::json!({
        "id": "m1", "name": "m1", "api": api, "provider": "sim", "baseUrl": base_url,
        "input": ["text"], "contextWindow": 1000, "maxTokens": 100,
    }));
    Some(ModelRequest {
        model: Arc::new(model.ok()?),
        system_prompt: "".into(),
        transcript: Transcript::new(vec![Arc::new(Message::user("go", 1))]).ok()?,
        tools: Arc::new([]),
        options: RequestOptions::default(),
        auth: RequestAuth {
            api_key: Some(Secret::new("k")),
            ..RequestAuth::default()
        },
    })
}
