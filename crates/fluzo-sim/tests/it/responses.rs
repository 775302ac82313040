use fluzo_sim::ViolationKind::{self, *};
use fluzo_sim::{
    Completion, Endpoint, FinishReason, Fragmenting, Model, Pieces, Reply, RequestExpectation,
    Scenario, Signature, Step, ToolCall, Usage,
};
use serde_json::{Value, json};

use crate::client::{Client, Response, able_model, broken, start};

const PATH: &str = "/v1/responses";
const KEY: &[(&str, &str)] = &[("authorization", "Bearer k")];

fn ask() -> Value {
    json!({
        "model": "m",
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "go"}]}],
        "stream": true,
        "store": false,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "low", "summary": "auto"},
        "tools": [tool("read"), tool("bash")],
        "prompt_cache_key": "session",
        "max_output_tokens": 100,
    })
}

fn tool(name: &str) -> Value {
    json!({"type": "function", "name": name, "description": "d", "parameters": {"type": "object", "properties": {}}, "strict": false})
}

fn thoughtful() -> Completion {
    Completion {
        thinking: Some("hm".to_owned()),
        text: Some("h\u{e9}y".to_owned()),
        pieces: Pieces::Chars(2),
        tool_calls: vec![
            ToolCall::new("call_1", "read", json!({"path": "f"})),
            ToolCall::new("call_2", "bash", "{}"),
        ],
        fragmenting: Fragmenting {
            bytes: Some(6),
            ..Fragmenting::default()
        },
        ..Completion::default()
    }
}

fn scenario(completion: Completion) -> Scenario {
    Scenario::new("responses")
        .offering(able_model())
        .step(Step::at(Endpoint::Responses, Reply::completion(completion)))
}

fn play(completion: Completion, body: &Value) -> Response {
    let simulator = start(scenario(completion));
    let response = Client::new(&simulator).post_to(PATH, KEY, body);
    let verdict = simulator.finish();
    assert!(verdict.passed, "{verdict}");
    assert_eq!((response.status, response.complete), (200, true));
    response
}

fn plain(mut body: Value) -> Value {
    body["stream"] = json!(false);
    body
}

fn output(call_id: &str) -> Value {
    json!({"type": "function_call_output", "call_id": call_id, "output": format!("out of {call_id}")})
}

/// Items: 0 developer, 1 user, 2 reasoning, 3 message, 4 and 5 calls, 6 and 7 outputs.
fn full() -> Value {
    let image =
        json!({"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,aGk="});
    let said = play(thoughtful(), &plain(ask())).json()["output"].clone();
    let mut input = vec![
        json!({"role": "developer", "content": "be good"}),
        json!({"role": "user", "content": [{"type": "input_text", "text": "look"}, image]}),
    ];
    input.extend(said.as_array().unwrap().clone());
    input.push(json!({"type": "function_call_output", "call_id": "call_2", "output": [{"type": "input_text", "text": "r2"}, image]}));
    input.push(output("call_1"));
    let mut body = ask();
    body["input"] = input.into();
    body
}

#[test]
fn streams_every_kind_of_item_in_numbered_events() {
    let response = play(thoughtful(), &ask());
    let events = response.named_events();
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number);
    }
    let kinds: Vec<&str> = events
        .iter()
        .map(|event| {
            event["type"]
                .as_str()
                .unwrap()
                .trim_start_matches("response.")
        })
        .collect();
    let call = [
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
    ];
    let mut expected = vec![
        "created",
        "in_progress",
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
    ];
    expected.extend(call);
    expected.extend(
        call.iter()
            .enumerate()
            .filter(|(at, _)| *at != 1)
            .map(|(_, kind)| kind),
    );
    expected.push("completed");
    assert_eq!(kinds, expected);
    assert_eq!(
        (&events[10]["delta"], &events[10]["output_index"]),
        (&json!("h\u{e9}"), &json!(1))
    );
    assert_eq!(
        (&events[16]["delta"], &events[17]["delta"]),
        (&json!("{\"path"), &json!("\":\"f\"}"))
    );
    assert_eq!(events[18]["item_id"], "fc_r0_1");
    let done = &events.last().unwrap()["response"];
    assert_eq!(
        (&done["status"], done["output"].as_array().unwrap().len()),
        (&json!("completed"), 4)
    );
}

#[test]
fn answers_one_response_when_no_stream_is_asked_for() {
    let usage = Usage {
        cached_tokens: Some(4),
        reasoning_tokens: Some(2),
        ..Usage::default()
    };
    let response = play(
        Completion {
            usage,
            ..thoughtful()
        },
        &plain(ask()),
    )
    .json();
    assert_eq!(
        (&response["object"], &response["status"]),
        (&json!("response"), &json!("completed"))
    );
    let expected = json!({
        "input_tokens": 12, "input_tokens_details": {"cached_tokens": 4},
        "output_tokens": 7, "output_tokens_details": {"reasoning_tokens": 2}, "total_tokens": 19,
    });
    assert_eq!(response["usage"], expected);
    assert_eq!(response["output"][1]["id"], "msg_r0_0");
    let mut unasked = plain(ask());
    unasked["include"] = json!([]);
    assert!(
        play(thoughtful(), &unasked).json()["output"][0]
            .get("encrypted_content")
            .is_none()
    );
}

#[test]
fn the_end_can_be_scripted() {
    let end = |completion: Completion| play(completion, &ask()).named_events().pop().unwrap();
    let bare = Completion::default;
    let named = |word: &str| Completion {
        finish_reason: FinishReason::Named(word.to_owned()),
        ..bare()
    };
    let incomplete = end(named("max_output_tokens"));
    assert_eq!(incomplete["type"], "response.incomplete");
    assert_eq!(
        incomplete["response"]["incomplete_details"]["reason"],
        "max_output_tokens"
    );
    assert_eq!(
        end(Completion {
            done: false,
            ..bare()
        })["type"],
        "response.in_progress"
    );
    assert_eq!(
        end(Completion {
            finish_reason: FinishReason::Absent,
            ..bare()
        })["type"],
        "response.in_progress"
    );
    let failed = Completion {
        error: Some(json!({"code": "server_error", "message": "x"})),
        ..bare()
    };
    let event = end(failed);
    assert_eq!(
        (&event["type"], &event["response"]["error"]["code"]),
        (&json!("response.failed"), &json!("server_error"))
    );
    let error = Completion {
        error: Some(json!({"type": "error", "code": "rate_limit_exceeded", "message": "x"})),
        ..bare()
    };
    let event = end(error);
    assert_eq!(
        (&event["type"], &event["code"]),
        (&json!("error"), &json!("rate_limit_exceeded"))
    );
}

#[test]
fn reasoning_comes_back_and_plays_on() {
    for signature in [Signature::Auto, Signature::Named("gAAA".to_owned())] {
        let completion = Completion {
            signature,
            ..thoughtful()
        };
        let simulator =
            start(scenario(completion).step(Step::at(Endpoint::Responses, Reply::text("done"))));
        let mut client = Client::new(&simulator);
        let said = client.post_to(PATH, KEY, &plain(ask())).json()["output"].clone();
        let mut body = full();
        for (at, item) in said.as_array().unwrap().iter().enumerate() {
            body["input"][at + 2] = item.clone();
        }
        assert_eq!(client.post_to(PATH, KEY, &body).status, 200);
        assert!(simulator.finish().passed);
    }
}

fn kinds(body: &Value, model: &Model) -> Vec<ViolationKind> {
    broken(Endpoint::Responses, body, model)
}

/// Changes the full request at a place and expects exactly this.
fn check(pointer: &str, value: Value, expected: &[ViolationKind]) {
    let mut body = full();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match body.pointer_mut(parent).unwrap() {
        Value::Array(list) => list[key.parse::<usize>().unwrap()] = value.clone(),
        parent => parent[key] = value.clone(),
    }
    assert_eq!(kinds(&body, &able_model()), expected, "{pointer} = {value}");
}

fn check_without(items: &[usize], expected: &[ViolationKind]) {
    let mut body = full();
    let list = body["input"].as_array_mut().unwrap();
    for at in items.iter().rev() {
        list.remove(*at);
    }
    assert_eq!(kinds(&body, &able_model()), expected, "without {items:?}");
}

#[test]
fn a_full_request_is_accepted() {
    assert_eq!(kinds(&full(), &able_model()), []);
    assert_eq!(kinds(&ask(), &able_model()), []);
    let mut short = ask();
    short["input"] = json!("go");
    assert_eq!(kinds(&short, &able_model()), []);
}

#[test]
fn parameters_that_the_api_refuses() {
    check("/messages", json!([]), &[InvalidParameter]);
    check("/max_tokens", json!(100), &[InvalidParameter]);
    check("/max_output_tokens", json!(15), &[InvalidParameter]);
    check("/stream", json!("yes"), &[InvalidParameter]);
    check("/temperature", json!(1), &[InvalidParameter]);
    check(
        "/previous_response_id",
        json!("resp_1"),
        &[InvalidParameter],
    );
    check(
        "/prompt_cache_key",
        json!("k".repeat(65)),
        &[InvalidParameter],
    );
    check("/prompt_cache_retention", json!("24h"), &[]);
    check("/prompt_cache_retention", json!("1h"), &[InvalidParameter]);
    check("/include/0", json!("reasoning"), &[InvalidParameter]);
    check("/reasoning/effort", json!("max"), &[InvalidParameter]);
    check("/reasoning/effort", json!("none"), &[]);
    check("/reasoning/summary", json!("all"), &[InvalidParameter]);
    check("/reasoning/enabled", json!(true), &[InvalidParameter]);
    check("/instructions", json!(""), &[EmptyMessage]);
    check("/tool_choice", json!("required"), &[]);
    check(
        "/tool_choice",
        json!({"type": "function", "name": "read"}),
        &[],
    );
    check(
        "/tool_choice",
        json!({"type": "function", "function": {"name": "read"}}),
        &[InvalidParameter],
    );
    let plain = Model {
        reasoning: false,
        ..able_model()
    };
    assert_eq!(kinds(&ask(), &plain), [InvalidParameter, InvalidParameter]);
}

#[test]
fn tools_that_the_api_refuses() {
    check(
        "/tools/0",
        json!({"type": "function", "function": {"name": "a", "parameters": {"type": "object"}}}),
        &[InvalidTools, InvalidTools, InvalidTools],
    );
    check("/tools/0", tool("bash"), &[InvalidTools]);
    check("/tools/0", tool("a.b"), &[InvalidTools]);
    check(
        "/tools/0/parameters",
        json!({"type": "string"}),
        &[InvalidTools],
    );
    check("/tools/0/strict", json!(true), &[InvalidTools]);
    let closed = json!({"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"], "additionalProperties": false});
    check(
        "/tools/0",
        json!({"type": "function", "name": "a", "parameters": closed, "strict": true}),
        &[],
    );
}

#[test]
fn content_that_the_api_refuses() {
    check("/input", json!([]), &[InvalidMessages]);
    check("/input", json!(""), &[InvalidMessages]);
    check("/input/1/role", json!("tool"), &[InvalidMessages]);
    check("/input/1/content", json!(""), &[EmptyMessage]);
    check("/input/1/content/0/text", json!(""), &[EmptyMessage]);
    check("/input/1/content/0/type", json!("text"), &[InvalidContent]);
    check(
        "/input/1/content/0/type",
        json!("output_text"),
        &[InvalidContent],
    );
    check(
        "/input/3/content/0/type",
        json!("input_text"),
        &[InvalidContent],
    );
    check("/input/3/id", json!("message-1"), &[InvalidMessages]);
    check(
        "/input/3/id",
        json!(format!("msg_{}", "a".repeat(61))),
        &[InvalidMessages],
    );
    check(
        "/input/1/content/1/image_url",
        json!("data:image/png;base64,a b"),
        &[InvalidContent],
    );
    check(
        "/input/1/content/1/image_url",
        json!({"url": "http://x"}),
        &[InvalidContent],
    );
    check("/input/1/type", json!("item_reference"), &[InvalidMessages]);
    let blind = Model {
        images: false,
        ..able_model()
    };
    assert_eq!(
        kinds(&full(), &blind),
        [ImageNotSupported, ImageNotSupported]
    );
}

#[test]
fn calls_and_outputs_that_the_api_refuses() {
    check("/input/4/id", json!("call_1"), &[InvalidMessages]);
    check(
        "/input/4/call_id",
        json!("c".repeat(65)),
        &[InvalidToolCall, ToolResultWithoutCall, CallWithoutResult],
    );
    check(
        "/input/4/call_id",
        json!("call_2"),
        &[DuplicateCallId, ToolResultWithoutCall, CallWithoutResult],
    );
    check("/input/4/name", json!("a b"), &[InvalidToolCall]);
    check("/input/4/arguments", json!({}), &[ArgumentsNotObject]);
    check(
        "/input/4/arguments",
        json!("{\"path\":"),
        &[ArgumentsNotObject],
    );
    check("/input/4/function", json!({}), &[InvalidToolCall]);
    check(
        "/input/7/call_id",
        json!("call_2"),
        &[DuplicateToolResult, CallWithoutResult],
    );
    check(
        "/input/7/call_id",
        json!("other"),
        &[ToolResultWithoutCall, CallWithoutResult],
    );
    check("/input/7/output", json!(null), &[InvalidContent]);
    check("/input/7/output", json!(""), &[]);
    check(
        "/input/6",
        json!({"role": "user", "content": "x"}),
        &[CallWithoutResult, CallWithoutResult, ToolResultWithoutCall],
    );
    check_without(&[7], &[CallWithoutResult]);
    check_without(&[4], &[ToolResultWithoutCall]);
    check_without(&[4, 5, 6, 7], &[RoleOrder]);
}

#[test]
fn reasoning_stays_with_its_item_and_unaltered() {
    check(
        "/input/2/encrypted_content",
        json!("c2ln"),
        &[InvalidSignature],
    );
    check(
        "/input/2/encrypted_content",
        json!(null),
        &[InvalidSignature],
    );
    check("/input/2/summary/0/text", json!("hm "), &[InvalidSignature]);
    check(
        "/input/2/summary",
        json!(null),
        &[InvalidMessages, InvalidSignature],
    );
    check_without(&[2], &[ThinkingMissing, ThinkingMissing, ThinkingMissing]);
    check_without(&[3, 4, 5, 6, 7], &[ThinkingMissing, RoleOrder]);
    let other = Model {
        id: "other".to_owned(),
        ..able_model()
    };
    assert_eq!(kinds(&full(), &other), [InvalidSignature]);
    let mut body = full();
    let items = body["input"].as_array_mut().unwrap();
    items.remove(2);
    for item in &mut items[2..5] {
        drop(item.as_object_mut().unwrap().shift_remove("id"));
    }
    assert_eq!(
        kinds(&body, &able_model()),
        [],
        "without ids nothing is owed"
    );
}

fn refused(path: &str, headers: &[(&str, &str)], body: &Value) -> (u16, Value) {
    let simulator = start(scenario(Completion::default()));
    let response = Client::new(&simulator).post_to(path, headers, body);
    assert!(!simulator.finish().passed);
    (response.status, response.json()["error"]["code"].clone())
}

#[test]
fn refusals_have_openais_form() {
    let mut body = ask();
    body["input"] = json!([]);
    assert_eq!(refused(PATH, KEY, &body), (400, json!("invalid_messages")));
    body = ask();
    body["model"] = json!("other");
    assert_eq!(refused(PATH, KEY, &body), (400, json!("unknown_model")));
    assert_eq!(
        refused(PATH, &[], &ask()),
        (401, json!("missing_credentials"))
    );
    assert_eq!(refused(PATH, &[("api-key", "k")], &ask()).0, 401);
    assert_eq!(refused("/v1/responses?x=1", KEY, &ask()).0, 404);
}

#[test]
fn azure_has_paths_and_a_key_header_of_its_own() {
    let key = [("api-key", "k")];
    for path in [
        "/openai/v1/responses?api-version=preview",
        "/openai/v1/responses",
        "/openai/responses?api-version=2025-04-01-preview",
    ] {
        let simulator = start(scenario(Completion::default()));
        assert_eq!(
            Client::new(&simulator).post_to(path, &key, &ask()).status,
            200,
            "{path}"
        );
        assert!(simulator.finish().passed);
        assert_eq!(refused(path, &[], &ask()).0, 401);
    }
    assert_eq!(
        refused("/openai/v1/responses?version=1", &key, &ask()).0,
        404
    );
    let chat = json!({"model": "m", "messages": [{"role": "user", "content": "go"}]});
    let simulator = start(Scenario::new("azure").model("m").step(Reply::text("x")));
    let path = "/openai/deployments/d/chat/completions?api-version=2024-10-21";
    assert_eq!(
        Client::new(&simulator).post_to(path, &key, &chat).status,
        200
    );
    assert!(simulator.finish().passed);
}

#[test]
fn expectations_read_responses() {
    let meets = |expect: Value| {
        let expect: RequestExpectation = serde_json::from_value(expect).unwrap();
        let step = Step::at(Endpoint::Responses, Reply::text("x")).expecting(expect);
        let simulator = start(Scenario::new("x").offering(able_model()).step(step));
        Client::new(&simulator).post_to(PATH, KEY, &full()).status == 200
    };
    assert!(meets(json!({
        "target": PATH, "model": "m", "stream": true, "system_contains": "good", "last_user_contains": "look",
        "tool_result_contains": ["r2", "out of call_1"], "tool_result_lacks": ["r3"], "exact_tools": ["read", "bash"],
    })));
    assert!(!meets(json!({"system_contains": "bad"})));
    assert!(!meets(json!({"last_user_contains": "go"})));
    assert!(!meets(json!({"tool_result_contains": ["r3"]})));
}
