//! Anthropic Messages, against the simulator: what the strict server takes, and what comes back.

use std::sync::Arc;

use fluzo_llm::{
    AbortSignal, CacheRetention, Content, Message, ModelRequest, Provider, Secret, StreamErrorKind,
    StreamEvent, ThinkingLevel,
};
use fluzo_sim::{
    Body, Completion, Delivery, Endpoint, FinishReason, HeaderCheck, LineEnd, Pieces, Point, Reply,
    RequestExpectation, Scenario, Signature, Simulator, Step, ToolCall, Usage, UsagePlacement,
    Writes,
};
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::support::{KEY, collect, finish, kinds, message, request_to, shown, speaker};

/// Thinks within a budget.
const BUDGET: &str = "claude-opus-4-5";

/// Thinks as much as it sees fit.
const ADAPTIVE: &str = "claude-opus-4-7";

const API: &str = "anthropic-messages";

fn scenario(model: &str, steps: impl IntoIterator<Item = Step>) -> Scenario {
    let scenario = Scenario::new("anthropic")
        .reasoning_model(model)
        .max_connections(1);
    steps.into_iter().fold(scenario, Scenario::step)
}

fn step(reply: Reply) -> Step {
    Step::at(Endpoint::Messages, reply)
}

fn request(simulator: &Simulator, model: &str, messages: Vec<Message>) -> ModelRequest {
    let model = json!({
        "id": model, "name": model, "api": API, "provider": "sim", "baseUrl": simulator.origin(),
        "input": ["text", "image"], "contextWindow": 200_000, "maxTokens": 32_000, "reasoning": true,
        "cost": {"input": 5.0, "output": 25.0, "cacheRead": 0.5, "cacheWrite": 6.25},
    });
    request_to(model, messages)
}

fn go() -> Message {
    Message::user("go", 1)
}

fn result(id: &str, content: Value, is_error: bool) -> Message {
    let result = json!({
        "role": "toolResult", "toolCallId": id, "toolName": "read", "content": content,
        "isError": is_error, "timestamp": 1,
    });
    serde_json::from_value(result).unwrap()
}

fn words(id: &str, text: &str) -> Message {
    result(id, json!([{"type": "text", "text": text}]), false)
}

fn image() -> Content {
    Content::image("aGk=", "image/png")
}

/// A conversation with one model over as many requests as are asked.
struct Talk {
    simulator: Simulator,
    provider: Arc<dyn Provider>,
    model: &'static str,
    level: ThinkingLevel,
    messages: Vec<Message>,
}

impl Talk {
    fn with(model: &'static str, steps: impl IntoIterator<Item = Step>) -> Self {
        Self {
            simulator: Simulator::start(scenario(model, steps)).unwrap(),
            provider: speaker(API),
            model,
            level: ThinkingLevel::Low,
            messages: Vec::new(),
        }
    }

    /// Sends what has been said so far and `messages`; keeps the answer as a session file does.
    async fn say(&mut self, messages: impl IntoIterator<Item = Message>) -> String {
        self.messages.extend(messages);
        let mut request = request(&self.simulator, self.model, self.messages.clone());
        request.options.thinking = self.level;
        let events = collect(&*self.provider, request.clone()).await;
        let answer = Message::Assistant(message(&request, &events));
        let line = serde_json::to_string(&answer).unwrap();
        self.messages.push(serde_json::from_str(&line).unwrap());
        shown(&events)
    }

    fn end(self) {
        let verdict = self.simulator.finish();
        assert!(verdict.passed, "{verdict}");
    }
}

/// Sends one request to a simulator with one `reply` and shows what came.
async fn answer_to(reply: Reply) -> String {
    let mut talk = Talk::with(ADAPTIVE, [step(reply)]);
    let shown = talk.say([go()]).await;
    talk.end();
    shown
}

#[tokio::test]
async fn what_is_sent() {
    let body = [
        (
            "/thinking",
            json!({"type": "enabled", "budget_tokens": 2048, "display": "summarized"}),
        ),
        ("/max_tokens", json!(32_000)),
        (
            "/system/0/cache_control",
            json!({"type": "ephemeral", "ttl": "1h"}),
        ),
        (
            "/tools/1/cache_control",
            json!({"type": "ephemeral", "ttl": "1h"}),
        ),
        (
            "/messages/0/content/0/cache_control",
            json!({"type": "ephemeral", "ttl": "1h"}),
        ),
    ];
    let expect = RequestExpectation {
        target: Some("/v1/messages".into()),
        stream: Some(true),
        system_contains: Some("Be brief.".into()),
        last_user_contains: Some("go".into()),
        exact_tools: Some(vec!["read".into(), "bash".into()]),
        headers: [
            ("x-api-key".into(), HeaderCheck::Equals(KEY.into())),
            ("authorization".into(), HeaderCheck::Absent),
            (
                "anthropic-version".into(),
                HeaderCheck::Equals("2023-06-01".into()),
            ),
            (
                "accept".into(),
                HeaderCheck::Equals("application/json".into()),
            ),
            (
                "anthropic-beta".into(),
                HeaderCheck::Equals("interleaved-thinking-2025-05-14".into()),
            ),
        ]
        .into(),
        body: body.map(|(place, value)| (place.to_owned(), value)).into(),
        ..RequestExpectation::default()
    };
    let steps = [(); 2].map(|()| step(Reply::text("ok")).expecting(expect.clone()));
    let simulator = Simulator::start(scenario(BUDGET, steps)).unwrap();
    let provider = speaker(API);
    // A base URL may name the version itself.
    for base in [simulator.origin(), simulator.base_url()] {
        let mut request = request(&simulator, BUDGET, vec![go()]);
        request.auth.base_url = Some(base);
        request.options.cache = CacheRetention::Long;
        assert_eq!(
            shown(&collect(&*provider, request).await),
            "text:ok ; stop 12/7"
        );
    }
    let verdict = simulator.finish();
    assert!(verdict.passed, "{verdict}");
}

#[tokio::test]
async fn vertex_has_the_model_in_the_url_and_takes_a_token() {
    let model = "claude-opus-4-7@default";
    let below = "/projects/p/locations/l/publishers/anthropic";
    let expect = RequestExpectation {
        target: Some(format!("/v1{below}/models/{model}:streamRawPredict")),
        headers: [
            (
                "authorization".into(),
                HeaderCheck::Equals(format!("Bearer {KEY}")),
            ),
            ("x-api-key".into(), HeaderCheck::Absent),
        ]
        .into(),
        body: [("/anthropic_version".to_owned(), json!("vertex-2023-10-16"))].into(),
        body_lacks: vec!["/model".into()],
        ..RequestExpectation::default()
    };
    let steps = [step(Reply::text("ok")).expecting(expect)];
    let simulator = Simulator::start(scenario(model, steps)).unwrap();
    let mut request = request(&simulator, model, vec![go()]);
    request.auth.base_url = Some(simulator.base_url() + below);
    let events = collect(&*speaker("anthropic-vertex"), request).await;
    assert_eq!(shown(&events), "text:ok ; stop 12/7");
    let verdict = simulator.finish();
    assert!(verdict.passed, "{verdict}");
}

#[tokio::test]
async fn signed_thinking_comes_back_unaltered_in_every_later_turn() {
    let calls = Completion {
        thinking: Some("hm 你".into()),
        text: Some("look".into()),
        pieces: Pieces::Chars(1),
        tool_calls: ["a", "b", "c"]
            .map(|path| ToolCall::new(path, "read", json!({ "path": path })))
            .into(),
        ..Completion::default()
    };
    let again = Completion {
        redacted_thinking: Some("secret".into()),
        tool_calls: vec![ToolCall::new("d", "bash", json!({}))],
        ..Completion::default()
    };
    let plain = Reply::calls([ToolCall::new("e", "read", json!({"path": "e"}))]);
    let expect = RequestExpectation {
        tool_result_contains: vec!["A".into(), "B".into(), "C".into()],
        ..RequestExpectation::default()
    };
    for model in [BUDGET, ADAPTIVE] {
        let steps = [
            step(Reply::completion(calls.clone())),
            step(Reply::completion(again.clone())).expecting(expect.clone()),
            step(plain.clone()),
            step(Reply::text("done")),
            step(Reply::text("more")),
        ];
        let mut talk = Talk::with(model, steps);
        assert_eq!(
            talk.say([go()]).await,
            r#"thinking:hm 你 ; text:look ; call a read {"path":"a"} ; call b read {"path":"b"} ; call c read {"path":"c"} ; toolUse 12/7"#
        );
        let results = [words("b", "B"), words("c", "C"), words("a", "A")];
        assert_eq!(
            talk.say(results).await,
            "thinking:[Reasoning redacted] ; call d bash {} ; toolUse 12/7"
        );
        assert_eq!(
            talk.say([words("d", "D")]).await,
            r#"call e read {"path":"e"} ; toolUse 12/7"#
        );
        assert_eq!(talk.say([words("e", "E")]).await, "text:done ; stop 12/7");
        assert_eq!(talk.say([go()]).await, "text:more ; stop 12/7");
        talk.end();
    }
}

#[tokio::test]
async fn a_signature_that_is_altered_is_refused_by_the_server() {
    let calls = Completion {
        thinking: Some("hm".into()),
        tool_calls: vec![ToolCall::new("a", "read", json!({}))],
        ..Completion::default()
    };
    let mut talk = Talk::with(BUDGET, [step(Reply::completion(calls))]);
    talk.say([go()]).await;
    let Some(Message::Assistant(answer)) = talk.messages.last_mut() else {
        panic!("no answer")
    };
    let Some(Content::Thinking(thinking)) = answer.content.first_mut() else {
        panic!("no thinking")
    };
    thinking.thinking_signature = Some("QUJD".into());
    let shown = talk.say([words("a", "A")]).await;
    assert!(shown.starts_with("InvalidRequest: 400"), "{shown}");
    assert!(!talk.simulator.finish().passed);
}

#[tokio::test]
async fn a_turn_that_another_model_or_level_began_goes_on() {
    let other = json!({
        "role": "assistant", "api": "openai-completions", "provider": "x", "model": "y", "usage": {},
        "stopReason": "toolUse", "timestamp": 1, "content": [
            {"type": "thinking", "thinking": "hm", "thinkingSignature": "reasoning_content"},
            {"type": "toolCall", "id": "a|b", "name": "read", "arguments": {"path": "a"}, "thoughtSignature": "{}"},
            {"type": "toolCall", "id": "c", "name": "odd name", "arguments": {}, "rawArguments": "{\"p"},
        ],
    });
    for model in [BUDGET, ADAPTIVE] {
        let call = |id: &str| step(Reply::calls([ToolCall::new(id, "read", json!({}))]));
        let mut talk = Talk::with(model, [call("d"), call("e"), step(Reply::text("done"))]);
        let other = serde_json::from_value(other.clone()).unwrap();
        let results = [words("a|b", "A"), result("c", json!([]), true)];
        let history = [go(), other].into_iter().chain(results);
        assert_eq!(talk.say(history).await, "call d read {} ; toolUse 12/7");
        talk.level = ThinkingLevel::Off;
        assert_eq!(
            talk.say([words("d", "D")]).await,
            "call e read {} ; toolUse 12/7"
        );
        talk.level = ThinkingLevel::High;
        assert_eq!(talk.say([words("e", "E")]).await, "text:done ; stop 12/7");
        talk.end();
    }
}

#[tokio::test]
async fn thinking_that_a_server_does_not_sign_goes_back_as_text() {
    let calls = Completion {
        thinking: Some("hm".into()),
        signature: Signature::Absent,
        tool_calls: vec![ToolCall::new("a", "read", json!({}))],
        ..Completion::default()
    };
    let steps = [step(Reply::completion(calls)), step(Reply::text("done"))];
    let mut talk = Talk::with(ADAPTIVE, steps);
    assert_eq!(
        talk.say([go()]).await,
        "thinking:hm ; call a read {} ; toolUse 12/7"
    );
    assert_eq!(talk.say([words("a", "A")]).await, "text:done ; stop 12/7");
    talk.end();
}

#[tokio::test]
async fn images_of_the_user_and_of_tools() {
    let calls = ["a", "b", "c"].map(|id| ToolCall::new(id, "read", json!({})));
    let steps = [step(Reply::calls(calls)), step(Reply::text("seen"))];
    let mut talk = Talk::with(ADAPTIVE, steps);
    let look = Message::user_blocks(vec![Content::text("look"), image()], 1);
    talk.say([look]).await;
    let image = serde_json::to_value(image()).unwrap();
    let results = [
        result("a", json!([{"type": "text", "text": "A"}, image]), false),
        result("b", json!([image]), true),
        result("c", json!([image]), false),
        Message::user("and?", 1),
    ];
    assert_eq!(talk.say(results).await, "text:seen ; stop 12/7");
    talk.end();
}

#[tokio::test]
async fn every_way_to_cut_the_bytes_gives_the_same_answer() {
    let completion = Completion {
        thinking: Some("hm 你".into()),
        text: Some("you 🌍 é".into()),
        pieces: Pieces::Chars(1),
        tool_calls: vec![ToolCall::new("c1", "read", json!({"path": "ü"}))],
        ..Completion::default()
    };
    let expected = r#"thinking:hm 你 ; text:you 🌍 é ; call c1 read {"path":"ü"} ; toolUse 12/7"#;
    let deliveries = [
        Delivery::default(),
        Delivery {
            writes: Writes::Bytes(1),
            ..Delivery::default()
        },
        Delivery {
            writes: Writes::Bytes(7),
            line_end: LineEnd::CrLf,
            bom: true,
            ..Delivery::default()
        },
        Delivery {
            writes: Writes::Together,
            comments: vec![
                " OPENROUTER PROCESSING".into(),
                " ping".into(),
                String::new(),
            ],
            ..Delivery::default()
        },
    ];
    for delivery in deliveries {
        let reply = Reply::completion(completion.clone()).delivered(delivery);
        assert_eq!(answer_to(reply).await, expected);
    }
}

#[tokio::test]
async fn usage_and_cost_wherever_they_are_reported() {
    for usage_at in [
        UsagePlacement::FinalChunk,
        UsagePlacement::WithFinish,
        UsagePlacement::EveryChunk,
    ] {
        let completion = Completion {
            text: Some("ok".into()),
            usage: Usage {
                prompt_tokens: 100,
                completion_tokens: 12,
                cached_tokens: Some(60),
                cache_write_tokens: Some(8),
                ..Usage::default()
            },
            usage_at,
            ..Completion::default()
        };
        let steps = [step(Reply::completion(completion))];
        let simulator = Simulator::start(scenario(ADAPTIVE, steps)).unwrap();
        let request = request(&simulator, ADAPTIVE, vec![go()]);
        let events = collect(&*speaker(API), request).await;
        let usage = &finish(&events).usage;
        let counts = [
            usage.input,
            usage.output,
            usage.cache_read,
            usage.cache_write,
            usage.total_tokens,
        ];
        assert_eq!(counts, [32, 12, 60, 8, 112], "{usage_at:?}");
        assert!(
            (usage.cost.total - 540e-6).abs() < 1e-12,
            "{}",
            usage.cost.total
        );
        assert!(simulator.finish().passed);
    }
}

#[tokio::test]
async fn how_answers_end() {
    let ending = |finish_reason| {
        let completion = Completion {
            text: Some("a".into()),
            finish_reason,
            ..Completion::default()
        };
        answer_to(Reply::completion(completion))
    };
    let named = |name: &str| FinishReason::Named(name.into());
    let rows = [
        ("max_tokens", "length 12/7"),
        ("pause_turn", "stop 12/7"),
        ("refusal", "Refused: Provider stop_reason: refusal"),
        (
            "model_context_window_exceeded",
            "Overflow: Provider stop_reason: model_context_window_exceeded",
        ),
    ];
    for (reason, expected) in rows {
        assert_eq!(ending(named(reason)).await, format!("text:a ; {expected}"));
    }
    assert_eq!(
        ending(FinishReason::Absent).await,
        "text:a ; Incomplete: stream ended before message_stop"
    );
}

#[tokio::test]
async fn a_cut_off_stream_is_incomplete_wherever_it_is_cut() {
    let completion = || Completion {
        text: Some("hello".into()),
        pieces: Pieces::Chars(1),
        tool_calls: vec![ToolCall::new(
            "c",
            "bash",
            json!({"command": "rm -r build"}),
        )],
        ..Completion::default()
    };
    for cut in [Point::Events(5), Point::After("rm -r bui".into())] {
        for delivery in [
            Delivery {
                cut_off: Some(cut.clone()),
                ..Delivery::default()
            },
            Delivery {
                end_early: Some(cut.clone()),
                ..Delivery::default()
            },
        ] {
            let shown = answer_to(Reply::completion(completion()).delivered(delivery)).await;
            assert!(
                shown.contains("; Incomplete: ") || shown.contains("; Connect: "),
                "{shown}"
            );
            assert!(!shown.contains(r#"bash {"command"#), "{shown}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_not_streamed() {
    let body = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": ADAPTIVE, "stop_reason": "tool_use", "stop_sequence": null,
        "content": [{"type": "text", "text": "a"}, {"type": "tool_use", "id": "c", "name": "read", "input": {"path": "a"}}],
        "usage": {"input_tokens": 12, "output_tokens": 7},
    });
    assert_eq!(
        answer_to(Reply::with_body(200, Body::Json(body))).await,
        r#"text:a ; call c read {"path":"a"} ; toolUse 12/7"#
    );
}

#[tokio::test]
async fn errors_before_and_in_the_stream() {
    let rows = [
        (
            400,
            "prompt is too long: 213462 tokens > 200000 maximum",
            StreamErrorKind::Overflow,
        ),
        (401, "invalid x-api-key", StreamErrorKind::Authentication),
        (
            402,
            "Your credit balance is too low: billing",
            StreamErrorKind::Quota,
        ),
        (403, "Not permitted", StreamErrorKind::Authentication),
        (404, "model: nope", StreamErrorKind::InvalidRequest),
        (
            413,
            "Request exceeds the maximum size",
            StreamErrorKind::Overflow,
        ),
        (
            429,
            "This request would exceed your rate limit",
            StreamErrorKind::RateLimit,
        ),
        (500, "Internal server error", StreamErrorKind::Transient),
        (529, "Overloaded", StreamErrorKind::Transient),
    ];
    for (status, text, kind) in rows {
        let refused =
            Reply::error_from(Endpoint::Messages, status, text).header("retry-after", "3");
        let Body::Json(body) = refused.body.clone() else {
            panic!("no JSON")
        };
        let in_stream = Reply::with_body(200, Body::Events(vec![body.to_string()]));
        for reply in [refused, in_stream] {
            let waits = reply.status != 200;
            let simulator = Simulator::start(scenario(ADAPTIVE, [step(reply)])).unwrap();
            let request = request(&simulator, ADAPTIVE, vec![go()]);
            let events = collect(&*speaker(API), request).await;
            let error = finish(&events).error.clone().unwrap();
            assert_eq!((error.kind, error.status), (kind, Some(status)), "{error}");
            assert_eq!(error.retry_after_ms, waits.then_some(3000), "{error}");
            assert!(error.message.contains(text), "{error}");
            assert!(simulator.finish().violations.is_empty());
        }
    }
    let completion = Completion {
        text: Some("a".into()),
        error: Some(json!({"type": "overloaded_error", "message": "Overloaded"})),
        ..Completion::default()
    };
    let shown = answer_to(Reply::completion(completion)).await;
    assert_eq!(shown, "text:a ; Transient: Overloaded");
    let bare =
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let shown = answer_to(Reply::with_body(200, Body::Json(bare))).await;
    assert_eq!(shown, "Transient: Overloaded");
}

#[tokio::test]
async fn abort_closes_what_is_open() {
    let completion = Completion {
        text: Some("hello".into()),
        pieces: Pieces::Chars(1),
        ..Completion::default()
    };
    let stall = Delivery {
        stall: Some(Point::Events(5)),
        ..Delivery::default()
    };
    let reply = Reply::completion(completion).delivered(stall);
    let simulator = Simulator::start(scenario(ADAPTIVE, [step(reply)])).unwrap();
    let abort = AbortSignal::new();
    let request = request(&simulator, ADAPTIVE, vec![go()]);
    let mut stream = speaker(API).stream(request, abort.clone());
    let mut events = Vec::new();
    while !matches!(events.last(), Some(StreamEvent::TextDelta { .. })) {
        events.push(stream.next().await.unwrap());
    }
    abort.cancel();
    events.extend(stream.collect::<Vec<_>>().await);
    assert!(
        kinds(&events).ends_with("text_delta text_end error"),
        "{}",
        kinds(&events)
    );
    assert_eq!(
        finish(&events).error.clone().unwrap().kind,
        StreamErrorKind::Aborted
    );
}

#[tokio::test]
async fn a_token_of_another_vendors_client_never_leaves() {
    let simulator = Simulator::start(scenario(ADAPTIVE, [step(Reply::text("ok"))])).unwrap();
    let mut request = request(&simulator, ADAPTIVE, vec![go()]);
    request.auth.api_key = Some(Secret::new("sk-ant-oat01-planted"));
    let events = collect(&*speaker(API), request).await;
    let error = finish(&events).error.clone().unwrap();
    assert_eq!(error.kind, StreamErrorKind::Authentication);
    assert!(error.message.contains("ANTHROPIC_API_KEY"), "{error}");
    assert_eq!(simulator.finish().requests, 0);
}
