//! Gemini, against the simulator: what the strict server takes, and what comes back.

use std::sync::Arc;

use fluzo_llm::{
    AbortSignal, Content, Message, ModelRequest, Provider, Secret, StreamErrorKind, StreamEvent,
};
use fluzo_sim::{
    Body, Completion, Delivery, Endpoint, FinishReason, HeaderCheck, LineEnd, Pieces, Point, Reply,
    RequestExpectation, Scenario, Simulator, Step, ToolCall, Usage, Verdict, Writes,
};
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::support::{collect, finish, kinds, message, request_to, shown, speaker};

const KEY: &str = "AIzaPlantedTestKey";
const MODEL: &str = "gemini-3-flash-preview";
const API: &str = "google-generative-ai";

fn scenario(model: &str, steps: impl IntoIterator<Item = Step>) -> Scenario {
    let scenario = Scenario::new("gemini")
        .reasoning_model(model)
        .max_connections(1);
    steps.into_iter().fold(scenario, Scenario::step)
}

fn step(reply: Reply) -> Step {
    Step::at(Endpoint::Gemini, reply)
}

fn request(simulator: &Simulator, model: &str, messages: Vec<Message>) -> ModelRequest {
    let model = json!({
        "id": model, "name": model, "api": API, "provider": "sim", "baseUrl": simulator.base_url(),
        "input": ["text", "image"], "contextWindow": 1000, "maxTokens": 100, "reasoning": true,
        "cost": {"input": 1.0, "output": 1.0, "cacheRead": 0.5, "cacheWrite": 0.0},
    });
    let mut request = request_to(model, messages);
    request.options.max_output_tokens = Some(100);
    request.auth.api_key = Some(Secret::new(KEY));
    request
}

fn go() -> Message {
    Message::user("go", 1)
}

fn result(id: &str, tool: &str, content: Value) -> Message {
    let result = json!({
        "role": "toolResult", "toolCallId": id, "toolName": tool, "content": content,
        "isError": false, "timestamp": 1,
    });
    serde_json::from_value(result).unwrap()
}

fn words(text: &str) -> Value {
    json!([{"type": "text", "text": text}])
}

fn image() -> Content {
    Content::image("aGk=", "image/png")
}

/// What a session file gives back of `message`.
fn stored(message: Message) -> Message {
    serde_json::from_str(&serde_json::to_string(&message).unwrap()).unwrap()
}

/// A conversation with one model over as many requests as are asked.
struct Talk {
    simulator: Simulator,
    provider: Arc<dyn Provider>,
    model: &'static str,
    messages: Vec<Message>,
}

impl Talk {
    fn with(model: &'static str, steps: impl IntoIterator<Item = Step>) -> Self {
        Self {
            simulator: Simulator::start(scenario(model, steps)).unwrap(),
            provider: speaker(API),
            model,
            messages: Vec::new(),
        }
    }

    /// Sends what has been said so far and `messages`; keeps the answer as a session would.
    async fn say(&mut self, messages: impl IntoIterator<Item = Message>) -> String {
        self.messages.extend(messages);
        let request = request(&self.simulator, self.model, self.messages.clone());
        let events = collect(&*self.provider, request.clone()).await;
        let answer = message(&request, &events);
        self.messages.push(stored(Message::Assistant(answer)));
        shown(&events)
    }

    fn end(self) {
        let verdict: Verdict = self.simulator.finish();
        assert!(verdict.passed, "{verdict}");
    }
}

/// Sends one request to a simulator with one `reply` and shows what came.
async fn answer_to(reply: Reply) -> String {
    let mut talk = Talk::with(MODEL, [step(reply)]);
    let shown = talk.say([go()]).await;
    talk.end();
    shown
}

#[tokio::test]
async fn what_is_sent() {
    let expect = RequestExpectation {
        target: Some(format!("/v1/models/{MODEL}:streamGenerateContent?alt=sse")),
        system_contains: Some("Be brief.".into()),
        last_user_contains: Some("go".into()),
        exact_tools: Some(vec!["read".into(), "bash".into()]),
        headers: [
            ("x-goog-api-key".into(), HeaderCheck::Equals(KEY.into())),
            ("authorization".into(), HeaderCheck::Absent),
        ]
        .into(),
        body: [(
            "/generationConfig".into(),
            json!({"maxOutputTokens": 100, "thinkingConfig": {"includeThoughts": true, "thinkingLevel": "LOW"}}),
        )]
        .into(),
        ..RequestExpectation::default()
    };
    let mut talk = Talk::with(MODEL, [step(Reply::text("ok")).expecting(expect)]);
    assert_eq!(talk.say([go()]).await, "text:ok ; stop 12/7");
    talk.end();
}

#[tokio::test]
async fn vertex_takes_access_tokens_and_keys() {
    let rows = [
        (
            "ya29.token",
            "/v1",
            "/projects/p/locations/l/publishers/google",
            ("authorization", "Bearer ya29.token"),
        ),
        (KEY, "/v1/publishers/google", "", ("x-goog-api-key", KEY)),
    ];
    for (key, base, below, (header, value)) in rows {
        let expect = RequestExpectation {
            target: Some(format!(
                "{base}{below}/models/{MODEL}:streamGenerateContent?alt=sse"
            )),
            headers: [(header.into(), HeaderCheck::Equals(value.into()))].into(),
            ..RequestExpectation::default()
        };
        let steps = [step(Reply::text("ok")).expecting(expect)];
        let simulator = Simulator::start(scenario(MODEL, steps).base_path(base)).unwrap();
        let mut request = request(&simulator, MODEL, vec![go()]);
        request.auth.base_url = Some(simulator.base_url() + below);
        request.auth.api_key = Some(Secret::new(key));
        let events = collect(&*speaker("google-vertex"), request).await;
        assert_eq!(shown(&events), "text:ok ; stop 12/7", "{key}");
        assert!(simulator.finish().passed);
    }
}

#[tokio::test]
async fn signed_calls_come_back_unaltered_in_every_later_turn() {
    let calls = Completion {
        thinking: Some("hm".into()),
        text: Some("look".into()),
        tool_calls: vec![
            ToolCall::new("", "read", json!({"path": "a"})),
            ToolCall::new("", "read", json!({"path": "b"})),
            ToolCall::new("", "bash", json!({})),
        ],
        ..Completion::default()
    };
    let expect = RequestExpectation {
        tool_result_contains: vec!["A".into(), "B".into(), "C".into()],
        ..RequestExpectation::default()
    };
    let again = Completion {
        tool_calls: vec![ToolCall::new("", "read", json!({"path": "c"}))],
        ..Completion::default()
    };
    let steps = [
        step(Reply::completion(calls)),
        step(Reply::completion(again)).expecting(expect),
        step(Reply::text("done")),
        step(Reply::text("more")),
    ];
    let mut talk = Talk::with(MODEL, steps);
    assert_eq!(
        talk.say([go()]).await,
        r#"thinking:hm ; text:look ; call read_7_1 read {"path":"a"} ; call read_7_2 read {"path":"b"} ; call bash_7_1 bash {} ; toolUse 12/7"#
    );
    let results = [
        result("read_7_2", "read", words("B")),
        result("bash_7_1", "bash", words("C")),
        result("read_7_1", "read", words("A")),
    ];
    assert_eq!(
        talk.say(results).await,
        r#"call read_7_3 read {"path":"c"} ; toolUse 12/7"#
    );
    let next = result("read_7_3", "read", words("C"));
    assert_eq!(talk.say([next]).await, "text:done ; stop 12/7");
    assert_eq!(talk.say([go()]).await, "text:more ; stop 12/7");
    let Message::Assistant(answer) = &talk.messages[1] else {
        panic!("no answer")
    };
    let signed: Vec<bool> = answer
        .tool_calls()
        .map(|c| c.thought_signature.is_some())
        .collect();
    assert_eq!(signed, [true, false, false]);
    let Some(Content::Text(last)) = talk
        .messages
        .last()
        .and_then(|m| m.as_assistant()?.content.last())
    else {
        panic!("no text")
    };
    assert!(last.text_signature.is_some(), "it came on an empty text");
    talk.end();
}

#[tokio::test]
async fn a_signature_that_is_lost_or_altered_is_refused_by_the_server() {
    for altered in [None, Some("QUJD")] {
        let call = ToolCall::new("", "read", json!({"path": "a"}));
        let mut talk = Talk::with(MODEL, [step(Reply::calls([call]))]);
        talk.say([go()]).await;
        let Some(Message::Assistant(answer)) = talk.messages.last_mut() else {
            panic!("no answer")
        };
        let Some(Content::ToolCall(call)) = answer.content.last_mut() else {
            panic!("no call")
        };
        call.thought_signature = altered.map(str::to_owned);
        let shown = talk.say([result("read_7_1", "read", words("A"))]).await;
        assert!(shown.starts_with("InvalidRequest: 400"), "{shown}");
        assert!(!talk.simulator.finish().passed);
    }
}

#[tokio::test]
async fn calls_of_another_model_are_taken_without_its_signature() {
    let other = json!({
        "role": "assistant", "api": "openai-completions", "provider": "x", "model": "y", "usage": {},
        "stopReason": "toolUse", "timestamp": 1, "content": [
            {"type": "thinking", "thinking": "hm", "thinkingSignature": "reasoning_content"},
            {"type": "toolCall", "id": "a|b", "name": "read", "arguments": {"path": "a"}, "thoughtSignature": "{}"},
            {"type": "toolCall", "id": "c", "name": "odd name", "arguments": {}, "rawArguments": "{\"p"},
        ],
    });
    let history = [
        go(),
        serde_json::from_value(other).unwrap(),
        result("a|b", "read", words("A")),
        result("c", "odd name", words("no such tool")),
    ];
    for model in [MODEL, "gemini-flash-latest"] {
        let mut talk = Talk::with(model, [step(Reply::text("done"))]);
        assert_eq!(talk.say(history.clone()).await, "text:done ; stop 12/7");
        talk.end();
    }
}

#[tokio::test]
async fn a_conversation_may_begin_and_end_with_an_answer() {
    let mut talk = Talk::with(MODEL, [step(Reply::text("a")), step(Reply::text("b"))]);
    talk.say([go()]).await;
    talk.messages.remove(0);
    assert_eq!(talk.say([]).await, "text:b ; stop 12/7");
    talk.end();
}

#[tokio::test]
async fn images_of_the_user_and_of_tools() {
    // Neither server signs calls here, so one text serves both.
    for model in [MODEL, "gemini-2.5-pro"] {
        let calls = ["a", "b"].map(|path| ToolCall::new("", "read", json!({ "path": path })));
        let steps = [step(Reply::calls(calls)), step(Reply::text("seen"))];
        let mut talk = Talk::with(model, steps);
        let look = Message::user_blocks(vec![Content::text("look"), image()], 1);
        talk.say([look]).await;
        let image = serde_json::to_value(image()).unwrap();
        let results = [
            result(
                "read_7_1",
                "read",
                json!([{"type": "text", "text": "A"}, image]),
            ),
            result("read_7_2", "read", json!([image])),
            Message::user("and?", 1),
        ];
        assert_eq!(talk.say(results).await, "text:seen ; stop 12/7", "{model}");
        talk.end();
    }
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
            comments: vec![" ping".into(), String::new()],
            ..Delivery::default()
        },
    ];
    for delivery in deliveries {
        let reply = Reply::completion(completion.clone()).delivered(delivery);
        assert_eq!(answer_to(reply).await, expected);
    }
}

#[tokio::test]
async fn usage_and_cost() {
    let completion = Completion {
        text: Some("ok".into()),
        usage: Usage {
            prompt_tokens: 100,
            completion_tokens: 12,
            cached_tokens: Some(60),
            reasoning_tokens: Some(5),
            ..Usage::default()
        },
        ..Completion::default()
    };
    let steps = [step(Reply::completion(completion))];
    let simulator = Simulator::start(scenario(MODEL, steps)).unwrap();
    let request = request(&simulator, MODEL, vec![go()]);
    let events = collect(&*speaker(API), request).await;
    let usage = &finish(&events).usage;
    let counts = [
        usage.input,
        usage.output,
        usage.cache_read,
        usage.total_tokens,
    ];
    assert_eq!(counts, [40, 12, 60, 112]);
    assert!((usage.cost.total - 82e-6).abs() < 1e-12);
    assert!(simulator.finish().passed);
}

#[tokio::test]
async fn how_answers_end() {
    let ending = |finish_reason, text: Option<&str>| {
        let completion = Completion {
            text: text.map(str::to_owned),
            finish_reason,
            ..Completion::default()
        };
        answer_to(Reply::completion(completion))
    };
    let named = |name: &str| FinishReason::Named(name.into());
    assert_eq!(
        ending(named("MAX_TOKENS"), Some("a")).await,
        "text:a ; length 12/7"
    );
    assert_eq!(
        ending(named("RECITATION"), Some("a")).await,
        "text:a ; Refused: Provider finish_reason: RECITATION"
    );
    assert_eq!(
        ending(named("MALFORMED_FUNCTION_CALL"), None).await,
        "Transient: Provider finish_reason: MALFORMED_FUNCTION_CALL"
    );
    assert_eq!(
        ending(FinishReason::Absent, Some("a")).await,
        "text:a ; Incomplete: Stream ended without finish_reason"
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
    for cut in [Point::Events(3), Point::After("rm -r bui".into())] {
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
            assert!(!shown.contains("rm -r"), "{shown}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_not_streamed() {
    let chunk = |part: Value, finish: Value| {
        json!({"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": finish, "index": 0}],
            "usageMetadata": {"promptTokenCount": 12, "candidatesTokenCount": 7, "totalTokenCount": 19}})
    };
    let call = json!({"functionCall": {"name": "read", "args": {"path": "a"}}});
    let whole = chunk(call.clone(), json!("STOP"));
    let list = json!([chunk(json!({"text": "a"}), json!(null)), whole]);
    let rows = [
        (whole, r#"call read_7_1 read {"path":"a"} ; toolUse 12/7"#),
        (
            list,
            r#"text:a ; call read_7_1 read {"path":"a"} ; toolUse 12/7"#,
        ),
    ];
    for (body, expected) in rows {
        assert_eq!(
            answer_to(Reply::with_body(200, Body::Json(body))).await,
            expected
        );
    }
}

#[tokio::test]
async fn errors_before_and_in_the_stream() {
    let exceeded = |id: &str| {
        json!([{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED",
        "message": "You exceeded your current quota, please check your plan and billing details.",
        "details": [
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": id, "quotaValue": "5"}]},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "29s"},
        ]}}])
    };
    let rows = [
        (
            429,
            exceeded("GenerateRequestsPerMinutePerProjectPerModel"),
            StreamErrorKind::RateLimit,
            Some(29_000),
        ),
        (
            429,
            exceeded("GenerateRequestsPerDayPerProjectPerModel"),
            StreamErrorKind::Quota,
            Some(29_000),
        ),
        (
            400,
            json!({"error": {"code": 400, "message": "API key not valid. Please pass a valid API key.", "status": "INVALID_ARGUMENT"}}),
            StreamErrorKind::Authentication,
            None,
        ),
        (
            503,
            json!({"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}),
            StreamErrorKind::Transient,
            None,
        ),
    ];
    for (status, body, kind, wait) in rows {
        let in_stream = Reply::with_body(200, Body::Events(vec![body.to_string()]));
        for reply in [
            Reply::with_body(status, Body::Json(body.clone())),
            in_stream,
        ] {
            let simulator = Simulator::start(scenario(MODEL, [step(reply)])).unwrap();
            let request = request(&simulator, MODEL, vec![go()]);
            let events = collect(&*speaker(API), request).await;
            let error = finish(&events).error.clone().unwrap();
            assert_eq!((error.kind, error.retry_after_ms), (kind, wait), "{body}");
            assert!(simulator.finish().violations.is_empty());
        }
    }
    let completion = Completion {
        text: Some("a".into()),
        error: Some(json!({"code": 500, "message": "internal error", "status": "INTERNAL"})),
        ..Completion::default()
    };
    assert_eq!(
        answer_to(Reply::completion(completion)).await,
        "text:a ; Transient: internal error"
    );
}

#[tokio::test]
async fn abort_closes_what_is_open() {
    let completion = Completion {
        text: Some("hello".into()),
        pieces: Pieces::Chars(1),
        ..Completion::default()
    };
    let stall = Delivery {
        stall: Some(Point::Events(3)),
        ..Delivery::default()
    };
    let reply = Reply::completion(completion).delivered(stall);
    let simulator = Simulator::start(scenario(MODEL, [step(reply)])).unwrap();
    let abort = AbortSignal::new();
    let request = request(&simulator, MODEL, vec![go()]);
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
    let error = finish(&events).error.clone().unwrap();
    assert_eq!(error.kind, StreamErrorKind::Aborted);
}
