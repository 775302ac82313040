use fluzo_sim::{
    Completion, FinishReason, FragmentOrder, Fragmenting, IdPlacement, Pieces, Reply, ToolCall,
    Usage, UsagePlacement,
};
use serde_json::{Value, json};

use crate::client::{Client, Response, ask, call, plain, request, scenario, start};

fn play(completion: Completion, body: &Value) -> Response {
    let simulator = start(scenario().step(Reply::completion(completion)));
    let response = Client::new(&simulator).post(body);
    let verdict = simulator.finish();
    assert!(verdict.passed, "{verdict}");
    assert_eq!((response.status, response.complete), (200, true));
    response
}

fn text(text: &str) -> Completion {
    Completion {
        text: Some(text.to_owned()),
        ..Completion::default()
    }
}

fn tool_deltas(fragmenting: Fragmenting) -> Vec<Value> {
    let tool_calls = vec![
        ToolCall::new("a", "read", json!({"x": 1})),
        ToolCall::new("b", "bash", r#"{"y":2}"#),
    ];
    let response = play(
        Completion {
            tool_calls,
            fragmenting,
            ..Completion::default()
        },
        &ask("go"),
    );
    let deltas = response
        .chunks_json()
        .into_iter()
        .filter_map(|chunk| chunk.pointer("/choices/0/delta/tool_calls").cloned());
    deltas.collect()
}

fn fields(deltas: &[Value], pointer: &str) -> Vec<Value> {
    let entries = deltas.iter().flat_map(|delta| delta.as_array().unwrap());
    entries
        .map(|entry| entry.pointer(pointer).cloned().unwrap_or(Value::Null))
        .collect()
}

#[test]
fn streams_text_reasoning_finish_reason_usage_and_done() {
    let completion = Completion {
        thinking: Some("hm".to_owned()),
        pieces: Pieces::Chars(2),
        ..text("h\u{e9}llo")
    };
    let response = play(completion, &ask("go"));
    assert!(
        response.head.contains("content-type: text/event-stream"),
        "{}",
        response.head
    );
    let chunks = response.chunks_json();
    let deltas: Vec<Value> = chunks
        .iter()
        .filter_map(|chunk| chunk.pointer("/choices/0/delta").cloned())
        .collect();
    let expected = json!([
        {"role": "assistant", "content": ""}, {"reasoning_content": "hm"}, {"content": "h\u{e9}"}, {"content": "ll"}, {"content": "o"}, {},
    ]);
    assert_eq!(Value::from(deltas), expected);
    assert_eq!(chunks[5]["choices"][0]["finish_reason"], "stop");
    assert_eq!(chunks[6]["choices"], json!([]));
    assert_eq!(
        chunks[6]["usage"],
        json!({"prompt_tokens": 12, "completion_tokens": 7, "total_tokens": 19})
    );
    assert_eq!(response.events().last().unwrap(), "[DONE]");
    assert!(
        chunks
            .iter()
            .all(|chunk| chunk["model"] == "m" && chunk["object"] == "chat.completion.chunk")
    );
}

#[test]
fn answers_one_object_when_no_stream_is_asked_for() {
    let completion = Completion {
        thinking: Some("hm".to_owned()),
        thinking_field: "reasoning".to_owned(),
        tool_calls: vec![ToolCall::new("a", "read", json!({"x": 1}))],
        usage: Usage {
            cached_tokens: Some(4),
            reasoning_tokens: Some(2),
            ..Usage::default()
        },
        ..Completion::default()
    };
    let response = play(completion, &plain(ask("go")));
    assert!(
        response.head.contains("content-type: application/json"),
        "{}",
        response.head
    );
    let object = response.json();
    assert_eq!(object["object"], "chat.completion");
    let choice = json!({
        "index": 0,
        "message": {"role": "assistant", "content": null, "reasoning": "hm", "tool_calls": [call("a", "read", r#"{"x":1}"#)]},
        "finish_reason": "tool_calls",
    });
    assert_eq!(object["choices"], json!([choice]));
    assert_eq!(object["usage"]["prompt_tokens_details"]["cached_tokens"], 4);
    assert_eq!(
        object["usage"]["completion_tokens_details"]["reasoning_tokens"],
        2
    );
}

#[test]
fn usage_goes_where_the_scenario_wants_it() {
    let usages = |usage_at, body: &Value| {
        let response = play(
            Completion {
                usage_at,
                finish_has_role: true,
                ..text("x")
            },
            body,
        );
        let tokens = |chunk: &Value| chunk["usage"]["prompt_tokens"].as_u64();
        response
            .chunks_json()
            .iter()
            .map(tokens)
            .collect::<Vec<_>>()
    };
    let mut unasked = ask("go");
    unasked
        .as_object_mut()
        .unwrap()
        .shift_remove("stream_options");
    assert_eq!(
        usages(UsagePlacement::FinalChunk, &ask("go")),
        [None, None, None, Some(12)]
    );
    assert_eq!(
        usages(UsagePlacement::FinalChunk, &unasked),
        [None, None, None]
    );
    assert_eq!(
        usages(UsagePlacement::WithFinish, &ask("go")),
        [None, None, Some(12)]
    );
    assert_eq!(
        usages(UsagePlacement::EveryChunk, &unasked),
        [Some(0), Some(0), Some(12)]
    );
    assert_eq!(usages(UsagePlacement::None, &ask("go")), [None, None, None]);
}

#[test]
fn a_stream_may_lack_its_finish_reason_and_its_done() {
    let completion = Completion {
        finish_reason: FinishReason::Absent,
        usage_at: UsagePlacement::None,
        done: false,
        ..text("x")
    };
    let response = play(completion, &ask("go"));
    assert_eq!(response.events().len(), 2);
    let named = Completion {
        finish_reason: FinishReason::Named("length".to_owned()),
        ..text("x")
    };
    assert_eq!(
        play(named, &ask("go")).chunks_json()[2]["choices"][0]["finish_reason"],
        "length"
    );
}

#[test]
fn an_error_object_ends_a_stream_that_began_well() {
    let completion = Completion {
        error: Some(json!({"message": "overloaded"})),
        ..text("x")
    };
    let response = play(completion.clone(), &ask("go"));
    assert_eq!(
        response.events()[2..],
        [json!({"error": {"message": "overloaded"}}).to_string()]
    );
    assert_eq!(
        play(completion, &plain(ask("go"))).json(),
        json!({"error": {"message": "overloaded"}})
    );
}

#[test]
fn whole_tool_calls_come_in_one_delta_each() {
    let deltas = tool_deltas(Fragmenting::default());
    let expected = json!([
        [{"index": 0, "id": "a", "type": "function", "function": {"name": "read", "arguments": r#"{"x":1}"#}}],
        [{"index": 1, "id": "b", "type": "function", "function": {"name": "bash", "arguments": r#"{"y":2}"#}}],
    ]);
    assert_eq!(Value::from(deltas), expected);
}

#[test]
fn fragments_can_be_interleaved_with_the_id_on_the_first_only() {
    let deltas = tool_deltas(Fragmenting {
        bytes: Some(4),
        order: FragmentOrder::Interleaved,
        ..Fragmenting::default()
    });
    assert_eq!(fields(&deltas, "/index"), [0, 1, 0, 1]);
    assert_eq!(
        fields(&deltas, "/id"),
        [json!("a"), json!("b"), Value::Null, Value::Null]
    );
    assert_eq!(
        fields(&deltas, "/function/arguments"),
        [r#"{"x""#, r#"{"y""#, ":1}", ":2}"]
    );
    assert_eq!(
        fields(&deltas, "/function/name"),
        [json!("read"), json!("bash"), Value::Null, Value::Null]
    );
}

#[test]
fn fragments_can_repeat_the_id_or_leave_it_empty_or_out() {
    let ids = |id| {
        fields(
            &tool_deltas(Fragmenting {
                bytes: Some(4),
                id,
                name_repeated: true,
                ..Fragmenting::default()
            }),
            "/id",
        )
    };
    assert_eq!(ids(IdPlacement::Every), ["a", "a", "b", "b"]);
    assert_eq!(ids(IdPlacement::EmptyLater), ["a", "", "b", ""]);
    assert_eq!(
        ids(IdPlacement::Never),
        [Value::Null, Value::Null, Value::Null, Value::Null]
    );
}

#[test]
fn calls_without_index_can_share_one_chunk() {
    let deltas = tool_deltas(Fragmenting {
        order: FragmentOrder::Together,
        index: false,
        ..Fragmenting::default()
    });
    assert_eq!(deltas.len(), 1);
    assert_eq!(fields(&deltas, "/id"), ["a", "b"]);
    assert_eq!(fields(&deltas, "/index"), [Value::Null, Value::Null]);
}

#[test]
fn fragments_never_cut_a_character() {
    let arguments = "{\"t\":\"\u{4f60}\u{1f30d}\"}";
    for bytes in 1..=arguments.len() {
        let fragmenting = Fragmenting {
            bytes: Some(bytes),
            ..Fragmenting::default()
        };
        let tool_calls = vec![ToolCall::new("a", "read", arguments)];
        let response = play(
            Completion {
                tool_calls,
                fragmenting,
                ..Completion::default()
            },
            &ask("go"),
        );
        let chunks = response.chunks_json();
        let joined: String = chunks
            .iter()
            .filter_map(|chunk| {
                chunk
                    .pointer("/choices/0/delta/tool_calls/0/function/arguments")
                    .and_then(Value::as_str)
            })
            .collect();
        assert_eq!(joined, arguments, "{bytes}");
    }
}

#[test]
fn plays_a_whole_tool_exchange_on_one_connection() {
    let script = scenario()
        .step(Reply::calls([ToolCall::new(
            "a",
            "read",
            json!({"path": "f"}),
        )]))
        .step(Reply::text("done"))
        .max_connections(1);
    let simulator = start(script);
    let mut client = Client::new(&simulator);
    assert_eq!(client.post(&ask("go")).status, 200);
    let history = json!([
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": null, "tool_calls": [call("a", "read", r#"{"path":"f"}"#)]},
        {"role": "tool", "tool_call_id": "a", "content": "text"},
    ]);
    assert_eq!(client.post(&request(history)).status, 200);
    let requests = simulator.requests();
    assert_eq!(
        requests
            .iter()
            .map(|request| request.step)
            .collect::<Vec<_>>(),
        [Some(0), Some(1)]
    );
    assert_eq!(requests[1].header("Content-Type"), Some("application/json"));
    assert_eq!(requests[1].body["messages"][2]["content"], "text");
    let verdict = simulator.finish();
    assert!(verdict.passed, "{verdict}");
    assert_eq!(
        (
            verdict.connections,
            verdict.requests,
            verdict.steps_played,
            verdict.peak_overlap
        ),
        (1, 2, 2, 1)
    );
}
