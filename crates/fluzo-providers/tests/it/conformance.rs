//! What every dialect must do, the same text for each. The simulator judges what is sent.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use fluzo_llm::{
    AbortSignal, Content, Message, Model, ModelRequest, Provider, StopReason, StreamErrorKind,
    StreamEvent, ThinkingLevel, Transcript, Usage,
};
use fluzo_providers::{HttpClient, LimitPolicy, provider_for};
use fluzo_sim::{
    Completion, Delivery, Endpoint, FinishReason, Milestone, Pieces, Point, Reply, Scenario,
    Simulator, Step, ToolCall, Transfer, Usage as SimUsage, Writes,
};
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::support::{PATIENCE, ask, collect, finish, message, result, shown};

/// A dialect, the endpoint of the simulator that judges it, and the base URL there.
#[derive(Clone, Copy)]
pub struct Dialect {
    api: &'static str,
    endpoint: Endpoint,
    base: &'static str,
}

/// Each check is a test of its own for each dialect.
macro_rules! suite {
    ($($name:ident $api:literal $endpoint:ident $base:literal;)*) => {
        const ALL: &[&str] = &[$($api),*];
        $(mod $name {
            use super::*;
            const DIALECT: Dialect = Dialect {
                api: $api,
                endpoint: Endpoint::$endpoint,
                base: $base,
            };
            suite!(@checks text thinking_and_one_call three_parallel_calls images
                cut_off_anywhere errors_before_the_stream errors_in_the_stream cancel usage_and_cost
                an_answer_that_is_not_streamed a_limit_on_the_output);
        })*
    };
    (@checks $($check:ident)*) => {
        $(#[tokio::test]
        async fn $check() {
            super::$check(DIALECT).await;
        })*
    };
}

suite! {
    completions "openai-completions" Chat "/v1";
    anthropic "anthropic-messages" Messages "";
    anthropic_on_vertex "anthropic-vertex" Messages "/v1/projects/p/locations/l/publishers/anthropic";
    responses "openai-responses" Responses "/v1";
    responses_on_azure "azure-openai-responses" Responses "/openai/v1";
    gemini "google-generative-ai" Gemini "/v1beta";
    gemini_on_vertex "google-vertex" Gemini "/v1/projects/p/locations/l/publishers/google";
}

/// One of each form of stream.
const FIRST: [&str; 4] = [
    "openai-completions",
    "anthropic-messages",
    "openai-responses",
    "google-generative-ai",
];

#[test]
fn every_dialect_is_in_the_suite() {
    let mut spoken: Vec<_> = fluzo_providers::dialects().collect();
    let mut tested = ALL.to_vec();
    spoken.sort_unstable();
    tested.sort_unstable();
    assert_eq!(spoken, tested);
}

impl Dialect {
    fn start(self, replies: impl IntoIterator<Item = Reply>) -> Simulator {
        let scenario = Scenario::new(self.api)
            .reasoning_model("m1")
            .max_connections(1);
        let step = |scenario: Scenario, reply| scenario.step(Step::at(self.endpoint, reply));
        Simulator::start(replies.into_iter().fold(scenario, step)).unwrap()
    }

    fn provider(self) -> Arc<dyn Provider> {
        let http = Arc::new(HttpClient::new("fluzo-test"));
        provider_for(self.api, http, LimitPolicy::open(), Arc::new(|| 0)).unwrap()
    }

    fn model(self, simulator: &Simulator) -> Model {
        serde_json::from_value(json!({
            "id": "m1", "name": "m1", "api": self.api, "provider": "sim",
            "baseUrl": format!("{}{}", simulator.origin(), self.base),
            "input": ["text", "image"], "contextWindow": 100_000, "maxTokens": 32_000, "reasoning": true,
            "cost": {"input": 1, "output": 2, "cacheRead": 0.5, "cacheWrite": 4},
        }))
        .unwrap()
    }

    fn request(self, simulator: &Simulator, messages: Vec<Message>) -> ModelRequest {
        let messages = messages.into_iter().map(Arc::new).collect();
        let mut request = ask("http://unused");
        request.model = Arc::new(self.model(simulator));
        request.transcript = Transcript::new(messages).unwrap();
        request
    }

    /// The events of the answer to one question.
    async fn answer(self, reply: Reply) -> Vec<StreamEvent> {
        let simulator = self.start([reply]);
        let request = self.request(&simulator, vec![Message::user("go", 1)]);
        let events = collect(&*self.provider(), request).await;
        let verdict = simulator.finish();
        assert!(verdict.violations.is_empty(), "{}: {verdict}", self.api);
        events
    }
}

/// The answer as it is after a session file: what is not in its JSON is lost.
fn stored(request: &ModelRequest, events: &[StreamEvent]) -> Message {
    let message = Message::Assistant(message(request, events));
    serde_json::from_str(&serde_json::to_string(&message).unwrap()).unwrap()
}

fn image() -> Value {
    // One black pixel.
    let data = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    json!({"type": "image", "data": data, "mimeType": "image/png"})
}

fn blocks(message: &Message) -> Vec<String> {
    let block = |block: &Content| match block {
        Content::Text(text) => format!("text:{}", text.text),
        Content::Thinking(thinking) => format!("thinking:{}", thinking.thinking),
        Content::ToolCall(call) => format!("call {}", call.name),
        other => format!("{other:?}"),
    };
    let assistant = message.as_assistant().unwrap();
    assistant.content.iter().map(block).collect()
}

fn calls(message: &Message) -> Vec<(String, String)> {
    let calls = message.as_assistant().unwrap().tool_calls();
    calls
        .map(|call| {
            assert!(call.raw_arguments.is_none(), "{call:?}");
            let arguments = serde_json::to_string(&call.arguments).unwrap();
            (call.id.clone(), arguments)
        })
        .collect()
}

async fn text(dialect: Dialect) {
    for pieces in [Pieces::Whole, Pieces::Chars(1)] {
        for writes in [Writes::Events, Writes::Together, Writes::Bytes(1)] {
            let completion = Completion {
                text: Some("you 🌍 é".into()),
                pieces,
                ..Completion::default()
            };
            let delivery = Delivery {
                writes,
                comments: vec![" ping".into()],
                ..Delivery::default()
            };
            let reply = Reply::completion(completion).delivered(delivery);
            let events = dialect.answer(reply).await;
            assert_eq!(shown(&events), "text:you 🌍 é ; stop 12/7");
        }
    }
}

async fn thinking_and_one_call(dialect: Dialect) {
    let first = Completion {
        thinking: Some("let me look".into()),
        text: Some("I look".into()),
        pieces: Pieces::Chars(3),
        tool_calls: vec![ToolCall::new(
            "",
            "read",
            json!({"path": "ü.txt", "n": [1, {}]}),
        )],
        ..Completion::default()
    };
    let simulator = dialect.start([Reply::completion(first), Reply::text("it says so")]);
    let provider = dialect.provider();
    let mut history = vec![Message::user("go", 1)];
    let mut request = dialect.request(&simulator, history.clone());
    request.options.thinking = ThinkingLevel::High;
    let events = collect(&*provider, request.clone()).await;
    assert_eq!(
        finish(&events).stop_reason,
        StopReason::ToolUse,
        "{}",
        shown(&events)
    );
    let answer = stored(&request, &events);
    assert_eq!(
        blocks(&answer),
        ["thinking:let me look", "text:I look", "call read"]
    );
    let (id, arguments) = calls(&answer).remove(0);
    assert_eq!(arguments, r#"{"path":"ü.txt","n":[1,{}]}"#);
    history.extend([answer, result(&id, "buy milk")]);
    let mut request = dialect.request(&simulator, history);
    request.options.thinking = ThinkingLevel::High;
    let events = collect(&*provider, request).await;
    assert_eq!(shown(&events), "text:it says so ; stop 12/7");
    let verdict = simulator.finish();
    assert!(verdict.passed, "{verdict}");
}

async fn three_parallel_calls(dialect: Dialect) {
    let call = |n: u32| ToolCall::new("", "bash", json!({"command": format!("echo {n}")}));
    let first = Completion {
        tool_calls: (1..=3).map(call).collect(),
        ..Completion::default()
    };
    let simulator = dialect.start([Reply::completion(first), Reply::text("done")]);
    let provider = dialect.provider();
    let mut history = vec![Message::user("go", 1)];
    let request = dialect.request(&simulator, history.clone());
    let events = collect(&*provider, request.clone()).await;
    let answer = stored(&request, &events);
    let calls = calls(&answer);
    let arguments: Vec<_> = calls.iter().map(|(_, text)| text.as_str()).collect();
    let expected = [1, 2, 3].map(|n| format!(r#"{{"command":"echo {n}"}}"#));
    assert_eq!(arguments, expected);
    history.push(answer);
    let results = calls.iter().map(|(id, _)| {
        let mut result = result(id, "r");
        if let Message::ToolResult(result) = &mut result {
            result.tool_name = "bash".into();
        }
        result
    });
    history.extend(results);
    let events = collect(&*provider, dialect.request(&simulator, history)).await;
    assert_eq!(shown(&events), "text:done ; stop 12/7");
    let verdict = simulator.finish();
    assert!(verdict.passed, "{verdict}");
}

async fn images(dialect: Dialect) {
    let first = Completion {
        tool_calls: vec![ToolCall::new("", "read", json!({"path": "a.png"}))],
        ..Completion::default()
    };
    let simulator = dialect.start([Reply::completion(first), Reply::text("a pixel")]);
    let provider = dialect.provider();
    let user = json!({"role": "user", "timestamp": 1, "content": [{"type": "text", "text": "look"}, image()]});
    let mut history: Vec<Message> = vec![serde_json::from_value(user).unwrap()];
    let request = dialect.request(&simulator, history.clone());
    let events = collect(&*provider, request.clone()).await;
    let answer = stored(&request, &events);
    let (id, _) = calls(&answer).remove(0);
    let shown_image = json!({"role": "toolResult", "toolCallId": id, "toolName": "read", "isError": false, "timestamp": 1,
        "content": [{"type": "text", "text": "Read image file"}, image()]});
    history.extend([answer, serde_json::from_value(shown_image).unwrap()]);
    let events = collect(&*provider, dialect.request(&simulator, history)).await;
    assert_eq!(shown(&events), "text:a pixel ; stop 12/7");
    let requests = simulator.requests();
    let sent = |index: usize| {
        requests[index]
            .body
            .to_string()
            .matches("iVBORw0KGgo")
            .count()
    };
    assert_eq!((sent(0), sent(1)), (1, 2));
    let verdict = simulator.finish();
    assert!(verdict.passed, "{verdict}");
}

/// The length of the stream that answers a question with `completion`, in bytes.
async fn recorded(dialect: Dialect, completion: Completion) -> usize {
    let until_close = Delivery {
        transfer: Some(Transfer::UntilClose),
        ..Delivery::default()
    };
    let reply = || Reply::completion(completion.clone()).delivered(until_close.clone());
    let simulator = dialect.start([reply(), reply()]);
    let request = dialect.request(&simulator, vec![Message::user("go", 1)]);
    collect(&*dialect.provider(), request).await;
    let sent = simulator.requests().remove(0);
    let mut head = format!("POST {} HTTP/1.1\r\n", sent.path);
    for (name, value) in &sent.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let mut connection = TcpStream::connect(simulator.address()).unwrap();
    connection.write_all(head.as_bytes()).unwrap();
    connection.write_all(b"\r\n").unwrap();
    connection.write_all(&sent.raw).unwrap();
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).unwrap();
    let head = answer.windows(4).position(|four| four == b"\r\n\r\n");
    answer.len() - head.unwrap() - 4
}

/// A recorded stream, cut in many places: either the answer is whole, or it failed.
async fn cut_off_anywhere(dialect: Dialect) {
    let completion = || Completion {
        text: Some("ok".into()),
        tool_calls: vec![ToolCall::new("", "bash", json!({"command": "rm -r build"}))],
        ..Completion::default()
    };
    // Usage may follow the last word of the model.
    let without_counts = |shown: &str| shown.rsplit_once(' ').unwrap().0.to_owned();
    let whole = without_counts(&shown(
        &dialect.answer(Reply::completion(completion())).await,
    ));
    let length = recorded(dialect, completion()).await;
    let reply = |at: usize| {
        let delivery = Delivery {
            end_early: at.is_multiple_of(2).then_some(Point::Bytes(at)),
            cut_off: (at % 2 == 1).then_some(Point::Bytes(at)),
            ..Delivery::default()
        };
        Reply::completion(completion()).delivered(delivery)
    };
    // The other servers of a dialect send the same stream. Every byte is cut in
    // `fuzzing::tests::streams_cut_after_every_byte`, without a connection for each.
    let step = if FIRST.contains(&dialect.api) { 7 } else { 37 };
    let simulator = dialect.start((0..length).step_by(step).map(reply));
    let provider = dialect.provider();
    let mut complete = 0;
    for at in (0..length).step_by(step) {
        let request = dialect.request(&simulator, vec![Message::user("go", 1)]);
        let events = collect(&*provider, request.clone()).await;
        let lasts = events.iter().filter(|event| event.is_last()).count();
        assert_eq!(lasts, 1, "cut after {at} bytes");
        match &finish(&events).error {
            None => {
                complete += 1;
                assert_eq!(
                    without_counts(&shown(&events)),
                    whole,
                    "cut after {at} bytes"
                );
            }
            Some(error) => {
                // Without a byte the form of the request may have been too much for the server.
                let silent = at == 0 && error.kind == StreamErrorKind::FormRefused;
                let cut = error.kind == StreamErrorKind::Incomplete;
                assert!(cut || silent, "{at}: {:?} {error}", error.kind);
            }
        }
    }
    // Only what follows the last word of the model may be missing.
    assert!(complete * step * 4 < length, "{complete} of {length}");
}

async fn errors_before_the_stream(dialect: Dialect) {
    use StreamErrorKind::{
        Authentication, InvalidRequest, Overflow, RateLimit, Redirect, Transient,
    };
    let endpoint = dialect.endpoint;
    let rows = [
        (400, "this field is not allowed", InvalidRequest),
        (400, "prompt is too long: 9 tokens > 8 maximum", Overflow),
        (401, "invalid x-api-key", Authentication),
        (403, "no permission", Authentication),
        (429, "slow down", RateLimit),
        (500, "internal error", Transient),
        (503, "overloaded", Transient),
        (529, "overloaded", Transient),
    ];
    for (status, text, kind) in rows {
        let reply = Reply::error_from(endpoint, status, text).header("retry-after", "7");
        let events = dialect.answer(reply).await;
        let error = finish(&events).error.clone().unwrap();
        assert_eq!((error.kind, error.status), (kind, Some(status)), "{error}");
        assert!(error.message.contains(text), "{error}");
        assert_eq!(error.retry_after_ms, Some(7000), "{error}");
    }
    let events = dialect
        .answer(Reply::redirect(307, "https://elsewhere.test/x?key=1"))
        .await;
    let error = finish(&events).error.clone().unwrap();
    assert_eq!(error.kind, Redirect);
    assert!(!error.message.contains("key"), "{error}");
}

async fn errors_in_the_stream(dialect: Dialect) {
    let google = dialect.endpoint == Endpoint::Gemini;
    let rows = [
        (
            "overloaded_error",
            "UNAVAILABLE",
            503,
            "the model is overloaded",
            StreamErrorKind::Transient,
        ),
        (
            "rate_limit_error",
            "RESOURCE_EXHAUSTED",
            429,
            "too many requests",
            StreamErrorKind::RateLimit,
        ),
        (
            "invalid_request_error",
            "INVALID_ARGUMENT",
            400,
            "prompt is too long",
            StreamErrorKind::Overflow,
        ),
    ];
    for (kind, status, code, text, expected) in rows {
        let error = if google {
            json!({"code": code, "message": text, "status": status})
        } else {
            json!({"type": kind, "code": kind, "message": text})
        };
        let completion = Completion {
            text: Some("half".into()),
            error: Some(error),
            ..Completion::default()
        };
        let events = dialect.answer(Reply::completion(completion)).await;
        let error = finish(&events).error.clone().unwrap();
        assert_eq!(error.kind, expected, "{error}");
        assert!(error.message.contains(text), "{error}");
        assert!(
            shown(&events).starts_with("text:half ; "),
            "{}",
            shown(&events)
        );
    }
}

async fn cancel(dialect: Dialect) {
    let completion = Completion {
        text: Some("hello there".into()),
        pieces: Pieces::Chars(5),
        ..Completion::default()
    };
    let delivery = Delivery {
        stall: Some(Point::After("hello".into())),
        ..Delivery::default()
    };
    let simulator = dialect.start([Reply::completion(completion).delivered(delivery)]);
    let request = dialect.request(&simulator, vec![Message::user("go", 1)]);
    let abort = AbortSignal::new();
    let mut stream = dialect.provider().stream(request, abort.clone());
    let mut events = Vec::new();
    // The event that the stall is in may arrive whole only later, so what has come is enough.
    let waited = tokio::task::spawn_blocking({
        let abort = abort.clone();
        move || {
            let reached = simulator.wait_for(Milestone::Stalled(1), PATIENCE);
            abort.cancel();
            (reached, simulator)
        }
    });
    while let Some(event) = stream.next().await {
        events.push(event);
    }
    let (reached, simulator) = waited.await.unwrap();
    assert!(reached);
    let end = finish(&events);
    assert_eq!(end.stop_reason, StopReason::Aborted);
    assert_eq!(end.error.as_ref().unwrap().message, "Request was aborted");
    drop(stream);
    let gone = move || simulator.wait_for(Milestone::NoConnection, PATIENCE);
    assert!(tokio::task::spawn_blocking(gone).await.unwrap());
}

async fn usage_and_cost(dialect: Dialect) {
    let writes = dialect.endpoint == Endpoint::Messages;
    let completion = Completion {
        text: Some("ok".into()),
        usage: SimUsage {
            prompt_tokens: 1000,
            completion_tokens: 50,
            cached_tokens: Some(600),
            cache_write_tokens: writes.then_some(100),
            ..SimUsage::default()
        },
        ..Completion::default()
    };
    let events = dialect.answer(Reply::completion(completion)).await;
    let usage = &finish(&events).usage;
    let written = if writes { 100 } else { 0 };
    let expected = Usage {
        input: 400 - written,
        output: 50,
        cache_read: 600,
        cache_write: written,
        total_tokens: 1050,
        ..Usage::default()
    };
    let tokens = |usage: &Usage| {
        let Usage {
            input,
            output,
            cache_read,
            cache_write,
            total_tokens,
            ..
        } = *usage;
        [input, output, cache_read, cache_write, total_tokens]
    };
    assert_eq!(tokens(usage), tokens(&expected));
    let cost = (400 - written) as f64 + 50.0 * 2.0 + 600.0 * 0.5 + written as f64 * 4.0;
    assert!(
        (usage.cost.total * 1e6 - cost).abs() < 1e-6,
        "{:?}",
        usage.cost
    );
}

/// A server, or a proxy before it, that ignores the wish for a stream.
async fn an_answer_that_is_not_streamed(dialect: Dialect) {
    let body = match dialect.endpoint {
        Endpoint::Chat => {
            json!({"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 12, "completion_tokens": 7}})
        }
        Endpoint::Messages => {
            json!({"type": "message", "role": "assistant", "content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn", "usage": {"input_tokens": 12, "output_tokens": 7}})
        }
        Endpoint::Responses => {
            json!({"object": "response", "status": "completed", "output": [{"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "ok"}]}], "usage": {"input_tokens": 12, "output_tokens": 7, "total_tokens": 19}})
        }
        _ => {
            json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "ok"}]}, "finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 12, "candidatesTokenCount": 7, "totalTokenCount": 19}})
        }
    };
    let events = dialect
        .answer(Reply::with_body(200, fluzo_sim::Body::Json(body)))
        .await;
    assert_eq!(shown(&events), "text:ok ; stop 12/7");
}

async fn a_limit_on_the_output(dialect: Dialect) {
    let word = match dialect.endpoint {
        Endpoint::Chat => "length",
        Endpoint::Messages => "max_tokens",
        Endpoint::Responses => "max_output_tokens",
        _ => "MAX_TOKENS",
    };
    let completion = Completion {
        text: Some("and then".into()),
        finish_reason: FinishReason::Named(word.into()),
        ..Completion::default()
    };
    let events = dialect.answer(Reply::completion(completion)).await;
    assert_eq!(shown(&events), "text:and then ; length 12/7");
}
