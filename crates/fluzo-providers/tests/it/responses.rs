//! OpenAI Responses, and Azure's form of it, against the simulator: what the strict server
//! takes, and what comes back.

use std::sync::Arc;

use fluzo_llm::{
    AbortSignal, CacheRetention, Content, Message, ModelRequest, Provider, StreamErrorKind,
    StreamEvent, ThinkingLevel,
};
use fluzo_sim::{
    Body, Completion, Delivery, Endpoint, FinishReason, HeaderCheck, LineEnd, Pieces, Point, Reply,
    RequestExpectation, Scenario, Simulator, Step, ToolCall, Usage, Writes,
};
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::support::{self, KEY, collect, finish, kinds, message, shown, speaker};

const MODEL: &str = "gpt-5.4";
const API: &str = "openai-responses";
const AZURE_API: &str = "azure-openai-responses";

fn simulator(steps: impl IntoIterator<Item = Step>) -> Simulator {
    let scenario = Scenario::new("responses")
        .reasoning_model(MODEL)
        .max_connections(1);
    let scenario = steps.into_iter().fold(scenario, Scenario::step);
    Simulator::start(scenario).unwrap()
}

fn step(reply: Reply) -> Step {
    Step::at(Endpoint::Responses, reply)
}

/// A request to the model `id` in the dialect `api` at `base_url`.
fn request_to(api: &str, base_url: &str, id: &str, messages: Vec<Message>) -> ModelRequest {
    let model = json!({
        "id": id, "name": id, "api": api, "provider": "sim", "baseUrl": base_url,
        "input": ["text", "image"], "contextWindow": 1000, "maxTokens": 100, "reasoning": true,
        "cost": {"input": 1.0, "output": 1.0, "cacheRead": 0.5, "cacheWrite": 0.0},
    });
    let mut request = support::request_to(model, messages);
    request.options.max_output_tokens = Some(100);
    request.options.session_id = Some("session-1".into());
    request
}

fn go() -> Message {
    Message::user("go", 1)
}

fn result(id: &str, content: Value) -> Message {
    let result = json!({
        "role": "toolResult", "toolCallId": id, "toolName": "read", "content": content,
        "isError": false, "timestamp": 1,
    });
    serde_json::from_value(result).unwrap()
}

fn words(id: &str, text: &str) -> Message {
    result(id, json!([{"type": "text", "text": text}]))
}

fn image() -> Content {
    Content::image("aGk=", "image/png")
}

fn read(id: &str, path: &str) -> ToolCall {
    ToolCall::new(id, "read", json!({ "path": path }))
}

/// A conversation over as many requests as are asked.
struct Talk {
    simulator: Simulator,
    provider: Arc<dyn Provider>,
    /// The name of the model; the server serves one.
    model: &'static str,
    messages: Vec<Message>,
}

impl Talk {
    fn with(steps: impl IntoIterator<Item = Step>) -> Self {
        Self {
            simulator: simulator(steps),
            provider: speaker(API),
            model: MODEL,
            messages: Vec::new(),
        }
    }

    /// Sends what has been said so far and `messages`; keeps the answer as a session file does.
    async fn say(&mut self, messages: impl IntoIterator<Item = Message>) -> String {
        self.messages.extend(messages);
        let base_url = self.simulator.base_url();
        let request = request_to(API, &base_url, self.model, self.messages.clone());
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

/// Sends one request to a simulator with one `reply` and gives what came.
async fn events_of(reply: Reply) -> Vec<StreamEvent> {
    let simulator = simulator([step(reply)]);
    let request = request_to(API, &simulator.base_url(), MODEL, vec![go()]);
    let events = collect(&*speaker(API), request).await;
    let verdict = simulator.finish();
    assert!(verdict.violations.is_empty(), "{verdict}");
    events
}

async fn answer_to(reply: Reply) -> String {
    shown(&events_of(reply).await)
}

#[tokio::test]
async fn what_is_sent() {
    let expect = RequestExpectation {
        target: Some("/v1/responses".into()),
        model: Some(MODEL.into()),
        stream: Some(true),
        system_contains: Some("Be brief.".into()),
        last_user_contains: Some("go".into()),
        exact_tools: Some(vec!["read".into(), "bash".into()]),
        headers: [
            (
                "authorization".into(),
                HeaderCheck::Equals(format!("Bearer {KEY}")),
            ),
            ("session_id".into(), HeaderCheck::Equals("session-1".into())),
            (
                "x-client-request-id".into(),
                HeaderCheck::Equals("session-1".into()),
            ),
            ("api-key".into(), HeaderCheck::Absent),
        ]
        .into(),
        body: [
            ("/store".into(), json!(false)),
            ("/prompt_cache_key".into(), json!("session-1")),
            ("/max_output_tokens".into(), json!(100)),
            (
                "/reasoning".into(),
                json!({"effort": "low", "summary": "auto"}),
            ),
            ("/include".into(), json!(["reasoning.encrypted_content"])),
            ("/input/0/role".into(), json!("developer")),
        ]
        .into(),
        body_lacks: vec!["/prompt_cache_retention".into()],
        ..RequestExpectation::default()
    };
    let mut talk = Talk::with([step(Reply::text("ok")).expecting(expect)]);
    assert_eq!(talk.say([go()]).await, "text:ok ; stop 12/7");
    talk.end();
}

#[tokio::test]
async fn levels_and_retention_reach_the_server() {
    let expect = RequestExpectation {
        body: [
            ("/reasoning".into(), json!({"effort": "none"})),
            ("/prompt_cache_retention".into(), json!("24h")),
        ]
        .into(),
        body_lacks: vec!["/include".into()],
        ..RequestExpectation::default()
    };
    let simulator = simulator([step(Reply::text("ok")).expecting(expect)]);
    let mut request = request_to(API, &simulator.base_url(), MODEL, vec![go()]);
    request.options.thinking = ThinkingLevel::Off;
    request.options.cache = CacheRetention::Long;
    collect(&*speaker(API), request).await;
    let verdict = simulator.finish();
    assert!(verdict.passed, "{verdict}");
}

#[tokio::test]
async fn azure_has_its_own_address_header_and_names() {
    let expect = |target: &str| RequestExpectation {
        target: Some(target.into()),
        model: Some(MODEL.into()),
        headers: [
            ("api-key".into(), HeaderCheck::Equals(KEY.into())),
            ("authorization".into(), HeaderCheck::Absent),
        ]
        .into(),
        ..RequestExpectation::default()
    };
    let rows = [
        ("", "/openai/v1/responses"),
        ("/openai/v1", "/openai/v1/responses"),
        (
            "/openai/v1?api-version=preview",
            "/openai/v1/responses?api-version=preview",
        ),
    ];
    for (base, target) in rows {
        let simulator = simulator([step(Reply::text("ok")).expecting(expect(target))]);
        let base_url = simulator.origin() + base;
        let mut request = request_to(AZURE_API, &base_url, "known-as", vec![go()]);
        let mut model = (*request.model).clone();
        model.compat.insert("deployment".into(), MODEL.into());
        request.model = Arc::new(model);
        let events = collect(&*speaker(AZURE_API), request).await;
        assert_eq!(shown(&events), "text:ok ; stop 12/7", "{base}");
        let verdict = simulator.finish();
        assert!(verdict.passed, "{verdict}");
    }
}

#[tokio::test]
async fn reasoning_comes_back_over_a_tool_round_with_three_calls() {
    let calls = Completion {
        thinking: Some("hm".into()),
        text: Some("look".into()),
        tool_calls: vec![read("a", "1"), read("b", "2"), read("c", "3")],
        ..Completion::default()
    };
    let again = Completion {
        thinking: Some("more".into()),
        tool_calls: vec![read("d", "4")],
        ..Completion::default()
    };
    let expect = RequestExpectation {
        tool_result_contains: vec!["A".into(), "B".into(), "C".into()],
        ..RequestExpectation::default()
    };
    let steps = [
        step(Reply::completion(calls)),
        step(Reply::completion(again)).expecting(expect),
        step(Reply::text("done")),
        step(Reply::text("more")),
    ];
    let mut talk = Talk::with(steps);
    let first = talk.say([go()]).await;
    let ids: Vec<String> = talk.messages[1]
        .as_assistant()
        .unwrap()
        .tool_calls()
        .map(|call| call.id.clone())
        .collect();
    assert_eq!(
        ids.iter().map(|id| &id[..5]).collect::<Vec<_>>(),
        ["a|fc_", "b|fc_", "c|fc_"]
    );
    let call = |n: usize| format!(r#"call {} read {{"path":"{}"}}"#, ids[n], n + 1);
    let expected = format!(
        "thinking:hm ; text:look ; {} ; {} ; {} ; toolUse 12/7",
        call(0),
        call(1),
        call(2)
    );
    assert_eq!(first, expected);
    talk.say([
        words(&ids[1], "B"),
        words(&ids[2], "C"),
        words(&ids[0], "A"),
    ])
    .await;
    let next = talk.messages.last().unwrap().as_assistant().unwrap();
    let id = next.tool_calls().next().unwrap().id.clone();
    assert_eq!(talk.say([words(&id, "D")]).await, "text:done ; stop 12/7");
    assert_eq!(talk.say([go()]).await, "text:more ; stop 12/7");
    talk.end();
}

#[tokio::test]
async fn reasoning_that_is_altered_is_refused_and_reasoning_that_is_lost_is_not_missed() {
    for (signature, accepted) in [(Some("gAAA"), false), (None, true)] {
        let calls = Completion {
            thinking: Some("hm".into()),
            tool_calls: vec![read("a", "1")],
            ..Completion::default()
        };
        let mut talk = Talk::with([step(Reply::completion(calls)), step(Reply::text("ok"))]);
        talk.say([go()]).await;
        let Some(Message::Assistant(answer)) = talk.messages.last_mut() else {
            panic!("no answer")
        };
        let id = answer.tool_calls().next().unwrap().id.clone();
        let Some(Content::Thinking(thinking)) = answer.content.first_mut() else {
            panic!("no thinking")
        };
        thinking.thinking_signature = signature.map(|content| {
            let item = thinking.thinking_signature.as_deref().unwrap();
            let mut item: Value = serde_json::from_str(item).unwrap();
            item["encrypted_content"] = content.into();
            item.to_string()
        });
        let shown = talk.say([words(&id, "A")]).await;
        assert_eq!(shown == "text:ok ; stop 12/7", accepted, "{shown}");
        assert_eq!(
            shown.starts_with("InvalidRequest: 400"),
            !accepted,
            "{shown}"
        );
    }
}

#[tokio::test]
async fn answers_of_other_models_are_taken_without_their_marks() {
    let answer = |api: &str, provider: &str, model: &str| {
        json!({
            "role": "assistant", "api": api, "provider": provider, "model": model, "usage": {},
            "stopReason": "toolUse", "timestamp": 1, "content": [
                {"type": "thinking", "thinking": "hm", "thinkingSignature": "gAAA"},
                {"type": "text", "text": "look", "textSignature": r#"{"v":1,"id":"msg_r9_1"}"#},
                {"type": "toolCall", "id": "a|fc_r9_1", "name": "read", "arguments": {"path": "a"}},
                {"type": "toolCall", "id": "functions.read:0", "name": "read", "arguments": {}, "rawArguments": "{\"p"},
                {"type": "toolCall", "id": "x".repeat(90), "name": "read", "arguments": {}},
            ],
        })
    };
    let others = [
        (API, "sim", "other"),
        (API, "x", MODEL),
        ("anthropic-messages", "sim", MODEL),
    ];
    for (api, of, model) in others {
        let history = [
            go(),
            serde_json::from_value(answer(api, of, model)).unwrap(),
            words("a|fc_r9_1", "A"),
            words("functions.read:0", "bad arguments"),
            words(&"x".repeat(90), "C"),
        ];
        let mut talk = Talk::with([step(Reply::text("done"))]);
        assert_eq!(talk.say(history).await, "text:done ; stop 12/7");
        talk.end();
    }
}

#[tokio::test]
async fn a_text_after_calls_does_not_part_them_from_their_outputs() {
    let answer = json!({
        "role": "assistant", "api": API, "provider": "sim", "model": MODEL, "usage": {},
        "stopReason": "toolUse", "timestamp": 1, "content": [
            {"type": "toolCall", "id": "a|fc_1", "name": "read", "arguments": {}},
            {"type": "text", "text": "now I wait"},
        ],
    });
    let mut talk = Talk::with([step(Reply::text("done"))]);
    let history = [
        go(),
        serde_json::from_value(answer).unwrap(),
        words("a|fc_1", "A"),
    ];
    assert_eq!(talk.say(history).await, "text:done ; stop 12/7");
    talk.end();
}

#[tokio::test]
async fn images_of_the_user_and_of_tools() {
    let steps = [
        step(Reply::calls([read("a", "1"), read("b", "2")])),
        step(Reply::text("seen")),
    ];
    let mut talk = Talk::with(steps);
    let look = Message::user_blocks(vec![Content::text("look"), image()], 1);
    talk.say([look]).await;
    let answer = talk.messages[1].as_assistant().unwrap();
    let ids: Vec<String> = answer.tool_calls().map(|call| call.id.clone()).collect();
    let image = serde_json::to_value(image()).unwrap();
    let results = [
        result(&ids[0], json!([{"type": "text", "text": "A"}, image])),
        result(&ids[1], json!([image])),
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
        tool_calls: vec![read("c1", "ü")],
        ..Completion::default()
    };
    let delivery = |writes, line_end, bom, comments| Delivery {
        writes,
        line_end,
        bom,
        comments,
        ..Delivery::default()
    };
    let pings = vec![" ping".to_owned(), String::new()];
    let deliveries = [
        Delivery::default(),
        delivery(Writes::Bytes(1), LineEnd::default(), false, vec![]),
        delivery(Writes::Bytes(7), LineEnd::CrLf, true, vec![]),
        delivery(Writes::Together, LineEnd::default(), false, pings),
    ];
    for delivery in deliveries {
        let reply = Reply::completion(completion.clone()).delivered(delivery);
        let shown = answer_to(reply).await;
        let (before, call) = shown.split_once("call c1|fc_").unwrap();
        assert_eq!(before, "thinking:hm 你 ; text:you 🌍 é ; ");
        assert!(
            call.ends_with(r#" read {"path":"ü"} ; toolUse 12/7"#),
            "{call}"
        );
    }
}

#[tokio::test]
async fn events_come_in_the_order_of_the_reference() {
    let completion = Completion {
        thinking: Some("hm".into()),
        text: Some("hi".into()),
        tool_calls: vec![read("a", "1")],
        ..Completion::default()
    };
    let expected = "start thinking_start thinking_delta thinking_end text_start text_delta text_end \
                    toolcall_start toolcall_delta toolcall_end done";
    let events = events_of(Reply::completion(completion)).await;
    assert_eq!(kinds(&events), expected);
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
    let events = events_of(Reply::completion(completion)).await;
    let usage = &finish(&events).usage;
    let counts = [
        usage.input,
        usage.output,
        usage.cache_read,
        usage.total_tokens,
    ];
    assert_eq!(counts, [40, 12, 60, 112]);
    assert!((usage.cost.total - 82e-6).abs() < 1e-12);
    assert!(finish(&events).response_id.is_some());
}

#[tokio::test]
async fn how_answers_end() {
    let named = |word: &str| FinishReason::Named(word.into());
    let rows = [
        (named("max_output_tokens"), "text:a ; length 12/7"),
        (
            named("content_filter"),
            "text:a ; Refused: incomplete: content_filter",
        ),
        (
            FinishReason::Absent,
            "text:a ; Incomplete: Stream ended without response.completed",
        ),
    ];
    for (finish_reason, expected) in rows {
        let completion = Completion {
            text: Some("a".into()),
            finish_reason,
            ..Completion::default()
        };
        assert_eq!(answer_to(Reply::completion(completion)).await, expected);
    }
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
    let cut_off = |at: Point| Delivery {
        cut_off: Some(at),
        ..Delivery::default()
    };
    let end_early = |at: Point| Delivery {
        end_early: Some(at),
        ..Delivery::default()
    };
    for at in [Point::Events(6), Point::After("rm -r bui".into())] {
        for delivery in [cut_off(at.clone()), end_early(at.clone())] {
            let shown = answer_to(Reply::completion(completion()).delivered(delivery)).await;
            let failed = ["; Incomplete: ", "; Connect: "];
            assert!(failed.iter().any(|kind| shown.contains(kind)), "{shown}");
            assert!(
                !shown.contains(r#"{"command""#) || shown.contains("RAW"),
                "{shown}"
            );
        }
    }
}

/// The stream has its proper end, the arguments have not.
#[tokio::test]
async fn a_call_that_the_server_left_open_never_runs() {
    let event = |kind: &str, rest: Value| {
        let mut event = json!({"type": kind});
        event
            .as_object_mut()
            .unwrap()
            .extend(rest.as_object().unwrap().clone());
        event.to_string()
    };
    let item = json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "bash", "arguments": ""});
    let events = vec![
        event(
            "response.output_item.added",
            json!({"output_index": 0, "item": item}),
        ),
        event(
            "response.function_call_arguments.delta",
            json!({"output_index": 0, "item_id": "fc_1", "delta": r#"{"command":"rm -r bui"#}),
        ),
        event(
            "response.completed",
            json!({"response": {"status": "completed"}}),
        ),
    ];
    let reply = Reply::with_body(200, Body::Events(events));
    assert_eq!(
        answer_to(reply).await,
        r#"call call_1|fc_1 bash RAW {"command":"rm -r bui ; Incomplete: the response ended inside the arguments of a tool call"#
    );
}

#[tokio::test]
async fn an_answer_that_is_not_streamed() {
    let output = json!([
        {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "a"}]},
        {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "read", "arguments": "{}"},
    ]);
    let usage = json!({"input_tokens": 12, "output_tokens": 7});
    let body = json!({"id": "r", "status": "completed", "output": output, "usage": usage});
    let shown = answer_to(Reply::with_body(200, Body::Json(body))).await;
    assert_eq!(shown, "text:a ; call c|fc_1 read {} ; toolUse 12/7");
}

#[tokio::test]
async fn errors_before_and_in_the_stream() {
    let error = |code: &str, message: &str| json!({"error": {"message": message, "type": "x", "param": null, "code": code}});
    let rows = [
        (
            429,
            error("rate_limit_exceeded", "Rate limit reached"),
            StreamErrorKind::RateLimit,
        ),
        (
            429,
            error("insufficient_quota", "You exceeded your current quota"),
            StreamErrorKind::Quota,
        ),
        (
            401,
            error("invalid_api_key", "Incorrect API key provided"),
            StreamErrorKind::Authentication,
        ),
        (
            400,
            error(
                "context_length_exceeded",
                "Your input exceeds the context window of this model.",
            ),
            StreamErrorKind::Overflow,
        ),
        (
            503,
            error("server_error", "The server is overloaded"),
            StreamErrorKind::Transient,
        ),
        (
            400,
            error("invalid_value", "bad thing"),
            StreamErrorKind::InvalidRequest,
        ),
    ];
    for (status, body, kind) in rows {
        let in_event = json!({"type": "error", "code": body["error"]["code"], "message": body["error"]["message"]});
        let in_failed = json!({"type": "response.failed", "response": {"status": "failed", "error": body["error"]}});
        for reply in [
            Reply::with_body(status, Body::Json(body.clone())),
            Reply::with_body(200, Body::Json(body.clone())),
            Reply::with_body(200, Body::Events(vec![in_event.to_string()])),
            Reply::with_body(200, Body::Events(vec![in_failed.to_string()])),
        ] {
            let events = events_of(reply).await;
            let error = finish(&events).error.clone().unwrap();
            assert_eq!(error.kind, kind, "{error:?}");
        }
    }
    let failing = |error: Value| Completion {
        text: Some("a".into()),
        error: Some(error),
        ..Completion::default()
    };
    let failed = failing(json!({"code": "server_error", "message": "oops"}));
    let shown = answer_to(Reply::completion(failed)).await;
    assert_eq!(shown, "text:a ; Transient: server_error: oops");
    let reported = failing(json!({"type": "error", "code": "server_error", "message": "oops"}));
    let shown = answer_to(Reply::completion(reported)).await;
    assert_eq!(shown, "text:a ; Transient: Error Code server_error: oops");
}

#[tokio::test]
async fn abort_closes_what_is_open() {
    let completion = Completion {
        text: Some("hello".into()),
        pieces: Pieces::Chars(1),
        ..Completion::default()
    };
    let stall = Delivery {
        stall: Some(Point::Events(6)),
        ..Delivery::default()
    };
    let simulator = simulator([step(Reply::completion(completion).delivered(stall))]);
    let abort = AbortSignal::new();
    let request = request_to(API, &simulator.base_url(), MODEL, vec![go()]);
    let mut stream = speaker(API).stream(request, abort.clone());
    let mut events = Vec::new();
    while !matches!(events.last(), Some(StreamEvent::TextDelta { .. })) {
        events.push(stream.next().await.unwrap());
    }
    abort.cancel();
    events.extend(stream.collect::<Vec<_>>().await);
    let kinds = kinds(&events);
    assert!(kinds.ends_with("text_delta text_end error"), "{kinds}");
    let error = finish(&events).error.clone().unwrap();
    assert_eq!(error.kind, StreamErrorKind::Aborted);
}
