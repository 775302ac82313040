//! What models answer, in every shape a server gives it.

use fluzo_llm::{AbortSignal, Message, StreamEvent};
use fluzo_sim::{
    Body, Completion, Delivery, FinishReason, FragmentOrder, Fragmenting, HeaderCheck, IdPlacement,
    LineEnd, Pieces, Point, Reply, RequestExpectation, Scenario, Simulator, Step, ToolCall,
    UsagePlacement, Writes,
};
use futures_util::StreamExt;
use serde_json::json;

use crate::support::{
    KEY, answer_to, ask, collect, kinds, message, provider, request, result, shown, simulator,
};

fn chunk(delta: serde_json::Value) -> String {
    json!({"choices": [{"index": 0, "delta": delta}]}).to_string()
}

#[tokio::test]
async fn events_of_one_tool_call_come_in_the_order_of_the_reference() {
    let call = |function: serde_json::Value| json!({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]});
    let events = vec![
        chunk(json!({"role": "assistant", "content": ""})),
        chunk(json!({"content": "ok"})),
        chunk(call(json!({"name": "read", "arguments": ""}))),
        chunk(
            json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"path\":\"a.txt\"}"}}]}),
        ),
        json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}).to_string(),
        "[DONE]".to_owned(),
    ];
    let simulator = simulator([Reply::with_body(200, Body::Events(events))]);
    let events = collect(&*provider(), ask(&simulator.base_url())).await;
    assert_eq!(
        kinds(&events),
        "start text_start text_delta toolcall_start toolcall_delta toolcall_delta text_end toolcall_end done"
    );
    assert_eq!(
        shown(&events),
        r#"text:ok ; call c1 read {"path":"a.txt"} ; toolUse 0/0"#
    );
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
    let comments = || {
        vec![
            " OPENROUTER PROCESSING".to_owned(),
            String::new(),
            " ping".to_owned(),
        ]
    };
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
            writes: Writes::Bytes(3),
            line_end: LineEnd::Cr,
            comments: comments(),
            ..Delivery::default()
        },
        Delivery {
            writes: Writes::Together,
            comments: comments(),
            ..Delivery::default()
        },
    ];
    for delivery in deliveries {
        let reply = Reply::completion(completion.clone()).delivered(delivery.clone());
        assert_eq!(answer_to(reply).await, expected, "{delivery:?}");
    }
}

#[tokio::test]
async fn tool_call_fragments_in_every_shape() {
    let calls = vec![
        ToolCall::new("a", "read", json!({"path": "one", "n": 1})),
        ToolCall::new("b", "bash", json!({"command": "two {\"x\"}"})),
    ];
    let all = [
        FragmentOrder::Sequential,
        FragmentOrder::Interleaved,
        FragmentOrder::Together,
    ];
    for order in all {
        for (index, id) in [
            (true, IdPlacement::First),
            (true, IdPlacement::Every),
            (true, IdPlacement::EmptyLater),
            (true, IdPlacement::Never),
            (false, IdPlacement::Every),
        ] {
            for (bytes, name_repeated) in [(None, false), (Some(1), false), (Some(5), true)] {
                let fragmenting = Fragmenting {
                    bytes,
                    order,
                    index,
                    id,
                    name_repeated,
                    ..Fragmenting::default()
                };
                let completion = Completion {
                    tool_calls: calls.clone(),
                    fragmenting: fragmenting.clone(),
                    ..Completion::default()
                };
                let shown = answer_to(Reply::completion(completion)).await;
                let (a, b) = if id == IdPlacement::Never {
                    ("call_1", "call_2")
                } else {
                    ("a", "b")
                };
                let expected = format!(
                    r#"call {a} read {{"path":"one","n":1}} ; call {b} bash {{"command":"two {{\"x\"}}"}} ; toolUse 12/7"#
                );
                assert_eq!(shown, expected, "{fragmenting:?}");
            }
        }
    }
}

#[tokio::test]
async fn calls_without_index_in_one_chunk_stay_apart() {
    for id in [IdPlacement::First, IdPlacement::Never] {
        let fragmenting = Fragmenting {
            order: FragmentOrder::Together,
            index: false,
            id,
            ..Fragmenting::default()
        };
        let calls = vec![
            ToolCall::new("a", "read", json!({"p": 1})),
            ToolCall::new("b", "read", json!({"p": 2})),
        ];
        let completion = Completion {
            tool_calls: calls,
            fragmenting,
            ..Completion::default()
        };
        let shown = answer_to(Reply::completion(completion)).await;
        let (a, b) = if id == IdPlacement::Never {
            ("call_1", "call_2")
        } else {
            ("a", "b")
        };
        assert_eq!(
            shown,
            format!(r#"call {a} read {{"p":1}} ; call {b} read {{"p":2}} ; toolUse 12/7"#)
        );
    }
}

#[tokio::test]
async fn usage_wherever_it_is_placed() {
    let rows = [
        (UsagePlacement::FinalChunk, false, "12/7"),
        (UsagePlacement::WithFinish, true, "12/7"),
        (UsagePlacement::EveryChunk, true, "12/7"),
        (UsagePlacement::None, false, "0/0"),
    ];
    for (usage_at, finish_has_role, expected) in rows {
        let completion = Completion {
            text: Some("hello".into()),
            pieces: Pieces::Chars(2),
            usage_at,
            finish_has_role,
            ..Completion::default()
        };
        assert_eq!(
            answer_to(Reply::completion(completion)).await,
            format!("text:hello ; stop {expected}")
        );
    }
}

#[tokio::test]
async fn the_end_is_judged_from_several_signals() {
    let text = |finish_reason, done, usage_at| Completion {
        text: Some("mid-word".into()),
        finish_reason,
        done,
        usage_at,
        ..Completion::default()
    };
    let whole = text(FinishReason::Absent, true, UsagePlacement::FinalChunk);
    assert_eq!(
        answer_to(Reply::completion(whole)).await,
        "text:mid-word ; stop 12/7"
    );
    let cut = text(FinishReason::Absent, false, UsagePlacement::None);
    assert_eq!(
        answer_to(Reply::completion(cut)).await,
        "text:mid-word ; Incomplete: Stream ended without finish_reason"
    );
    let no_marker = text(FinishReason::Auto, false, UsagePlacement::None);
    assert_eq!(
        answer_to(Reply::completion(no_marker)).await,
        "text:mid-word ; stop 0/0"
    );
    let filtered = text(
        FinishReason::Named("content_filter".into()),
        true,
        UsagePlacement::None,
    );
    assert_eq!(
        answer_to(Reply::completion(filtered)).await,
        "text:mid-word ; Refused: Provider finish_reason: content_filter"
    );
}

#[tokio::test]
async fn an_answer_in_one_json_object_with_null_content_and_a_call() {
    let answer = json!({
        "id": "r1", "object": "chat.completion", "model": "m1",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": null, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{\"path\":\"a\"}"}}
        ]}, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 12, "completion_tokens": 7, "total_tokens": 19},
    });
    let reply = Reply::with_body(200, Body::Json(answer));
    assert_eq!(
        answer_to(reply).await,
        r#"call c1 read {"path":"a"} ; toolUse 12/7"#
    );
}

#[tokio::test]
async fn deltas_arrive_while_the_server_is_still_answering() {
    let completion = Completion {
        text: Some("hello".into()),
        pieces: Pieces::Chars(1),
        ..Completion::default()
    };
    let stall = Delivery {
        stall: Some(Point::Events(3)),
        ..Delivery::default()
    };
    let simulator = simulator([Reply::completion(completion).delivered(stall)]);
    let mut events = provider().stream(ask(&simulator.base_url()), AbortSignal::new());
    let mut first = Vec::new();
    while !first
        .iter()
        .any(|event| matches!(event, StreamEvent::TextDelta { .. }))
    {
        first.push(events.next().await.unwrap());
    }
    simulator.release_stall();
    first.extend(events.collect::<Vec<_>>().await);
    assert_eq!(shown(&first), "text:hello ; stop 12/7");
}

#[tokio::test]
async fn thinking_goes_back_to_a_server_that_requires_it() {
    let thinking = Completion {
        thinking: Some("hm".into()),
        tool_calls: vec![ToolCall::new("c1", "read", json!({}))],
        ..Completion::default()
    };
    let expect = RequestExpectation {
        body: [("/messages/2/reasoning_content".to_owned(), json!("hm"))].into(),
        tool_result_contains: vec!["A".into()],
        ..RequestExpectation::default()
    };
    let scenario = Scenario::new("thinking")
        .model("m1")
        .step(Step::new(Reply::completion(thinking)))
        .step(Step::new(Reply::text("done")).expecting(expect))
        .max_connections(1);
    let simulator = Simulator::start(scenario).unwrap();
    let provider = provider();
    let first = ask(&simulator.base_url());
    let events = collect(&*provider, first.clone()).await;
    let answer = message(&first, &events);
    let history = vec![
        Message::user("go", 1),
        Message::Assistant(answer),
        result("c1", "A"),
    ];
    let events = collect(&*provider, request(&simulator.base_url(), history)).await;
    assert_eq!(shown(&events), "text:done ; stop 12/7");
    let verdict = simulator.finish();
    assert!(verdict.passed, "{:?}", verdict.violations);
}

#[tokio::test]
async fn malformed_arguments_never_poison_the_history() {
    for raw in ["{\"command\":\"x", "\"\"", "[1]", "\"str\""] {
        let simulator = simulator([
            Reply::calls([ToolCall::new("c1", "bash", raw)]),
            Reply::text("done"),
        ]);
        let provider = provider();
        let first = ask(&simulator.base_url());
        let answer = message(&first, &collect(&*provider, first.clone()).await);
        let call = answer.tool_calls().next().unwrap();
        assert_eq!(call.raw_arguments.as_deref(), Some(raw));
        let history = vec![
            Message::user("go", 1),
            Message::Assistant(answer),
            result("c1", "bad arguments"),
        ];
        let events = collect(&*provider, request(&simulator.base_url(), history)).await;
        assert_eq!(shown(&events), "text:done ; stop 12/7");
        assert!(simulator.finish().passed);
    }
}

#[tokio::test]
async fn what_is_sent() {
    let header = |name: &str, check: HeaderCheck| (name.to_owned(), check);
    let expect = RequestExpectation {
        stream: Some(true),
        system_contains: Some("Be brief.".into()),
        last_user_contains: Some("go".into()),
        exact_tools: Some(vec!["read".into(), "bash".into()]),
        headers: [
            header(
                "authorization",
                HeaderCheck::Equals(format!("Bearer {KEY}")),
            ),
            header(
                "content-type",
                HeaderCheck::Equals("application/json".into()),
            ),
            header("user-agent", HeaderCheck::Equals("fluzo-test".into())),
            header("x-own", HeaderCheck::Equals("of request".into())),
            header("x-model", HeaderCheck::Equals("of model".into())),
            header("cookie", HeaderCheck::Absent),
            header("referer", HeaderCheck::Absent),
        ]
        .into(),
        body: [
            ("/stream_options/include_usage".to_owned(), json!(true)),
            ("/store".to_owned(), json!(false)),
        ]
        .into(),
        body_lacks: vec![
            "/max_completion_tokens".into(),
            "/max_tokens".into(),
            "/reasoning_effort".into(),
        ],
        ..RequestExpectation::default()
    };
    let scenario = Scenario::new("sent")
        .model("m1")
        .step(Step::new(Reply::text("ok")).expecting(expect));
    let simulator = Simulator::start(scenario).unwrap();
    let mut request = ask(&simulator.base_url());
    let mut model = (*request.model).clone();
    model.headers = [("X-Own", "of model"), ("X-Model", "of model")]
        .map(|(n, v)| (n.to_owned(), v.to_owned()))
        .into();
    request.model = model.into();
    request.auth.headers = vec![("x-own".into(), fluzo_llm::Secret::new("of request"))];
    let events = collect(&*provider(), request).await;
    assert_eq!(shown(&events), "text:ok ; stop 12/7");
    let verdict = simulator.finish();
    assert!(verdict.passed, "{:?}", verdict.violations);
}
