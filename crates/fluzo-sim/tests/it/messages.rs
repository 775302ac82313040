use fluzo_sim::ViolationKind::{self, *};
use fluzo_sim::{
    Completion, Endpoint, FinishReason, Fragmenting, Model, Pieces, Reply, RequestExpectation,
    Scenario, Signature, Step, ToolCall, Usage, UsagePlacement,
};
use serde_json::{Value, json};

use crate::client::{Client, Response, able_model, broken, start};

const HEADERS: &[(&str, &str)] = &[("x-api-key", "k"), ("anthropic-version", "2023-06-01")];

fn ask() -> Value {
    json!({
        "model": "m",
        "max_tokens": 4096,
        "stream": true,
        "messages": [{"role": "user", "content": "go"}],
        "tools": [tool("read"), tool("bash")],
        "thinking": {"type": "enabled", "budget_tokens": 1024},
    })
}

fn tool(name: &str) -> Value {
    json!({"name": name, "description": "d", "input_schema": {"type": "object", "properties": {}}})
}

fn thoughtful() -> Completion {
    Completion {
        thinking: Some("hm".to_owned()),
        redacted_thinking: Some("secret".to_owned()),
        text: Some("h\u{e9}y".to_owned()),
        pieces: Pieces::Chars(2),
        tool_calls: vec![
            ToolCall::new("toolu_1", "read", json!({"path": "f"})),
            ToolCall::new("toolu_2", "bash", "{}"),
        ],
        fragmenting: Fragmenting {
            bytes: Some(6),
            ..Fragmenting::default()
        },
        ..Completion::default()
    }
}

fn scenario(completion: Completion) -> Scenario {
    Scenario::new("messages")
        .offering(able_model())
        .step(Step::at(Endpoint::Messages, Reply::completion(completion)))
}

fn play(completion: Completion, body: &Value) -> Response {
    let simulator = start(scenario(completion));
    let response = Client::new(&simulator).post_to("/v1/messages", HEADERS, body);
    let verdict = simulator.finish();
    assert!(verdict.passed, "{verdict}");
    assert_eq!((response.status, response.complete), (200, true));
    response
}

fn plain(mut body: Value) -> Value {
    body["stream"] = json!(false);
    body
}

/// What the thoughtful model says, as it has to come back.
fn said() -> Value {
    play(thoughtful(), &plain(ask())).json()["content"].clone()
}

fn result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": "r"})
}

/// A request that continues the thoughtful turn, with everything in it that may be there.
fn full() -> Value {
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}});
    let mark = json!({"type": "ephemeral", "ttl": "1h"});
    let mut body = ask();
    body["system"] = json!([{"type": "text", "text": "be good", "cache_control": mark}]);
    body["messages"] = json!([
        {"role": "user", "content": [{"type": "text", "text": "look"}, image]},
        {"role": "assistant", "content": said()},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_2", "content": [{"type": "text", "text": "r2"}, image]},
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "", "is_error": false, "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": "and now"},
        ]},
        {"role": "user", "content": "go on"},
    ]);
    body
}

#[test]
fn streams_every_kind_of_block_in_named_events() {
    let response = play(thoughtful(), &ask());
    let events = response.named_events();
    let kinds: Vec<&str> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .filter(|kind| *kind != "content_block_delta")
        .collect();
    let (block, end) = (
        ["content_block_start", "content_block_stop"],
        ["message_delta", "message_stop"],
    );
    let mut expected = vec!["message_start", block[0], "ping", block[1]];
    (0..4).for_each(|_| expected.extend(block));
    expected.extend(end);
    assert_eq!(kinds, expected);
    let deltas = |index: usize, key: &str| {
        let own = events
            .iter()
            .filter(|event| event["type"] == "content_block_delta" && event["index"] == index);
        own.filter_map(|event| event["delta"].get(key)?.as_str().map(str::to_owned))
            .collect::<Vec<_>>()
    };
    assert_eq!(deltas(0, "thinking"), ["hm"]);
    assert_eq!(deltas(0, "signature").len(), 1);
    assert_eq!(deltas(2, "text"), ["h\u{e9}", "y"]);
    assert_eq!(deltas(3, "partial_json"), ["", "{\"path", "\":\"f\"}"]);
    assert_eq!(deltas(4, "partial_json"), ["", "{}"]);
    assert_eq!(events.last().unwrap(), &json!({"type": "message_stop"}));
    assert_eq!(events[events.len() - 2]["delta"]["stop_reason"], "tool_use");
    assert!(
        response.head.contains("request-id: sim-0\n"),
        "{}",
        response.head
    );
}

#[test]
fn answers_one_message_when_no_stream_is_asked_for() {
    let usage = Usage {
        cached_tokens: Some(4),
        cache_write_tokens: Some(2),
        ..Usage::default()
    };
    let message = play(
        Completion {
            usage,
            ..thoughtful()
        },
        &plain(ask()),
    )
    .json();
    assert_eq!(
        (&message["type"], &message["stop_reason"]),
        (&json!("message"), &json!("tool_use"))
    );
    assert_eq!(
        message["content"][3],
        json!({"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "f"}})
    );
    let expected = json!({"input_tokens": 6, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 4, "output_tokens": 7});
    assert_eq!(message["usage"], expected);
}

#[test]
fn the_end_can_be_scripted() {
    let tail = |completion: Completion| {
        let events = play(completion, &ask()).named_events();
        events.into_iter().skip(2).collect::<Vec<_>>()
    };
    let bare = Completion::default();
    assert_eq!(
        tail(Completion {
            done: false,
            ..bare.clone()
        })
        .len(),
        0
    );
    assert_eq!(tail(bare.clone())[0], json!({"type": "message_stop"}));
    let events = play(
        Completion {
            finish_reason: FinishReason::Absent,
            ..bare.clone()
        },
        &ask(),
    )
    .named_events();
    assert_eq!(events.len(), 1);
    let error = Completion {
        error: Some(json!({"type": "overloaded_error", "message": "Overloaded"})),
        ..bare.clone()
    };
    let events = play(error, &ask()).named_events();
    assert_eq!(events[1]["error"]["type"], "overloaded_error");
    let named = Completion {
        finish_reason: FinishReason::Named("refusal".to_owned()),
        usage_at: UsagePlacement::WithFinish,
        ..bare
    };
    let events = play(named, &ask()).named_events();
    assert_eq!(
        (
            &events[1]["delta"]["stop_reason"],
            &events[1]["usage"]["input_tokens"]
        ),
        (&json!("refusal"), &json!(12))
    );
}

#[test]
fn a_signed_turn_comes_back_and_plays_on() {
    let script = scenario(thoughtful()).step(Step::at(Endpoint::Messages, Reply::text("done")));
    let simulator = start(script);
    let mut client = Client::new(&simulator);
    let mut post = |body: &Value| client.post_to("/v1/messages", HEADERS, body).status;
    assert_eq!((post(&ask()), post(&full())), (200, 200));
    assert!(simulator.finish().passed);
}

#[test]
fn a_server_may_give_other_signatures_or_none() {
    for signature in [Signature::Absent, Signature::Named("sig".to_owned())] {
        let given = if signature == Signature::Absent {
            ""
        } else {
            "sig"
        };
        let completion = Completion {
            signature,
            redacted_thinking: None,
            ..thoughtful()
        };
        let script = scenario(completion).step(Step::at(Endpoint::Messages, Reply::text("done")));
        let simulator = start(script);
        let mut client = Client::new(&simulator);
        let mut body = plain(ask());
        let said = client.post_to("/v1/messages", HEADERS, &body).json()["content"].clone();
        assert_eq!(said[0]["signature"], given);
        body["messages"] = json!([
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": said},
            {"role": "user", "content": [result("toolu_1"), result("toolu_2")]},
        ]);
        assert_eq!(client.post_to("/v1/messages", HEADERS, &body).status, 200);
        assert!(simulator.finish().passed);
    }
}

#[test]
fn no_thinking_is_owed_for_a_turn_that_had_none() {
    let call = ToolCall::new("toolu_1", "read", json!({}));
    let script = Scenario::new("messages")
        .offering(able_model())
        .step(Step::at(Endpoint::Messages, Reply::calls([call])))
        .step(Step::at(Endpoint::Messages, Reply::text("done")));
    let simulator = start(script);
    let mut client = Client::new(&simulator);
    let mut body = plain(ask());
    let said = client.post_to("/v1/messages", HEADERS, &body).json()["content"].clone();
    body["messages"] = json!([
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": said},
        {"role": "user", "content": [result("toolu_1")]},
    ]);
    assert_eq!(client.post_to("/v1/messages", HEADERS, &body).status, 200);
    assert!(simulator.finish().passed);
}

fn kinds(body: &Value, model: &Model) -> Vec<ViolationKind> {
    broken(Endpoint::Messages, body, model)
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

#[test]
fn a_full_request_is_accepted() {
    assert_eq!(kinds(&full(), &able_model()), []);
    assert_eq!(kinds(&ask(), &able_model()), []);
}

#[test]
fn parameters_that_the_api_refuses() {
    check("/max_tokens", json!(null), &[InvalidParameter]);
    check(
        "/max_tokens",
        json!(0),
        &[InvalidParameter, InvalidParameter],
    );
    check("/max_tokens", json!(1024), &[InvalidParameter]);
    check("/stream", json!("yes"), &[InvalidParameter]);
    check("/temperature", json!(0.5), &[InvalidParameter]);
    check("/temperature", json!(1), &[]);
    check("/top_k", json!(5), &[InvalidParameter]);
    check("/store", json!(false), &[InvalidParameter]);
    check("/stop_sequences", json!([" "]), &[InvalidParameter]);
    check(
        "/thinking",
        json!({"type": "enabled", "budget_tokens": 1023}),
        &[InvalidParameter],
    );
    check("/thinking", json!({"type": "enabled"}), &[InvalidParameter]);
    check(
        "/thinking",
        json!({"type": "disabled", "budget_tokens": 2048}),
        &[InvalidParameter],
    );
    check(
        "/thinking",
        json!({"type": "adaptive", "display": "summarized"}),
        &[],
    );
    check("/thinking", json!({"type": "low"}), &[InvalidParameter]);
    check("/output_config", json!({"effort": "medium"}), &[]);
    check(
        "/output_config",
        json!({"effort": "minimal"}),
        &[InvalidParameter],
    );
    check("/tool_choice", json!({"type": "auto"}), &[]);
    check("/tool_choice", json!({"type": "any"}), &[InvalidParameter]);
    check("/tool_choice", json!("auto"), &[InvalidParameter]);
    check("/system", json!(""), &[EmptyMessage]);
    check("/system/0/text", json!(" \n"), &[EmptyMessage]);
    check(
        "/system/0/cache_control",
        json!({"type": "ephemeral", "ttl": "2h"}),
        &[InvalidParameter],
    );
    check(
        "/system/0/cache_control",
        json!({"type": "permanent"}),
        &[InvalidParameter],
    );
    let no_thinking = Model {
        reasoning: false,
        ..able_model()
    };
    assert_eq!(kinds(&ask(), &no_thinking), [InvalidParameter]);
}

#[test]
fn tools_that_the_api_refuses() {
    let typeless = json!({"name": "a", "input_schema": {"properties": {}}});
    check("/tools/0", typeless, &[InvalidTools]);
    check("/tools/0", json!({"name": "a"}), &[InvalidTools]);
    check("/tools/0", tool("bash"), &[InvalidTools]);
    check("/tools/0", tool("a.b"), &[InvalidTools]);
    check("/tools/0/parameters", json!({}), &[InvalidTools]);
    check(
        "/tools/0",
        json!({"type": "function", "name": "a", "input_schema": {"type": "object"}}),
        &[InvalidTools],
    );
    check("/tools", json!({}), &[InvalidTools]);
}

#[test]
fn cache_marks_are_four_at_most_and_the_long_ones_first() {
    let mark = json!({"type": "ephemeral"});
    let mut body = full();
    body["tools"][1]["cache_control"] = json!({"type": "ephemeral", "ttl": "1h"});
    body["messages"][0]["content"][0]["cache_control"] = mark.clone();
    assert_eq!(kinds(&body, &able_model()), []);
    body["messages"][0]["content"][1]["cache_control"] = mark.clone();
    assert_eq!(kinds(&body, &able_model()), [InvalidParameter]);
    let mut late = full();
    late["tools"][1]["cache_control"] = mark;
    assert_eq!(kinds(&late, &able_model()), [InvalidParameter]);
}

#[test]
fn content_that_the_api_refuses() {
    check("/messages", json!([]), &[InvalidMessages]);
    check(
        "/messages/0/role",
        json!("system"),
        &[InvalidMessages, RoleOrder],
    );
    check("/messages/0/name", json!("me"), &[InvalidMessages]);
    check("/messages/0/content", json!([]), &[EmptyMessage]);
    check("/messages/0/content", json!(" "), &[EmptyMessage]);
    check("/messages/0/content", json!(null), &[EmptyMessage]);
    check(
        "/messages/0/content/0",
        json!({"type": "text", "text": ""}),
        &[EmptyMessage],
    );
    check(
        "/messages/0/content/0",
        json!({"type": "text", "text": "\n"}),
        &[EmptyMessage],
    );
    check(
        "/messages/0/content/0",
        json!({"type": "input_text", "text": "x"}),
        &[InvalidContent],
    );
    check(
        "/messages/0/content/1/source/media_type",
        json!("image/bmp"),
        &[InvalidContent],
    );
    check(
        "/messages/0/content/1/source/data",
        json!("a b"),
        &[InvalidContent],
    );
    check(
        "/messages/0/content/1/source/data",
        json!(""),
        &[InvalidContent],
    );
    check(
        "/messages/2/content/0/content/0/text",
        json!(""),
        &[EmptyMessage],
    );
    check(
        "/messages/2/content/0/is_error",
        json!(true),
        &[InvalidContent],
    );
    check(
        "/messages/2/content/1/is_error",
        json!(true),
        &[EmptyMessage],
    );
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
fn calls_and_results_that_the_api_refuses() {
    check(
        "/messages/1/content/3/id",
        json!("toolu.1"),
        &[InvalidToolCall, ToolResultWithoutCall],
    );
    check(
        "/messages/1/content/3/id",
        json!("toolu_2"),
        &[DuplicateCallId, ToolResultWithoutCall],
    );
    check(
        "/messages/1/content/3/name",
        json!("a b"),
        &[InvalidToolCall],
    );
    check(
        "/messages/1/content/3/input",
        json!("{}"),
        &[ArgumentsNotObject],
    );
    check(
        "/messages/1/content/3/arguments",
        json!({}),
        &[InvalidToolCall],
    );
    check(
        "/messages/2/content/1/tool_use_id",
        json!("toolu_2"),
        &[DuplicateToolResult, CallWithoutResult],
    );
    check(
        "/messages/2/content/1/tool_use_id",
        json!("other"),
        &[ToolResultWithoutCall, CallWithoutResult],
    );
    check(
        "/messages/2/content",
        json!("no results"),
        &[CallWithoutResult, CallWithoutResult],
    );
    check(
        "/messages/2/content",
        json!([result("toolu_1"), {"type": "text", "text": "x"}, result("toolu_2")]),
        &[CallWithoutResult],
    );
    check(
        "/messages/3/content",
        json!([result("toolu_1")]),
        &[ToolResultWithoutCall],
    );
}

#[test]
fn an_id_is_used_once_in_a_whole_request() {
    let mut body = full();
    body["thinking"] = json!({"type": "disabled"});
    let call = json!({"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}});
    let list = body["messages"].as_array_mut().unwrap();
    list.push(json!({"role": "assistant", "content": [call]}));
    list.push(json!({"role": "user", "content": [result("toolu_1")]}));
    assert_eq!(kinds(&body, &able_model()), [DuplicateCallId]);
}

#[test]
fn thinking_comes_back_first_and_unaltered() {
    check(
        "/messages/1/content/0/thinking",
        json!("hm "),
        &[InvalidSignature],
    );
    check(
        "/messages/1/content/0/signature",
        json!("c2ln"),
        &[InvalidSignature],
    );
    check(
        "/messages/1/content/0",
        json!({"type": "thinking", "thinking": "hm"}),
        &[InvalidSignature],
    );
    check(
        "/messages/1/content/1/data",
        json!("c2ln"),
        &[InvalidSignature],
    );
    check(
        "/messages/1/content/0",
        json!({"type": "text", "text": "hm"}),
        &[ThinkingMissing, ThinkingMissing],
    );
    let mut without = full();
    let blocks = without["messages"][1]["content"].as_array_mut().unwrap();
    blocks.drain(..2);
    assert_eq!(kinds(&without, &able_model()), [ThinkingMissing]);
    without["thinking"] = json!({"type": "adaptive"});
    assert_eq!(kinds(&without, &able_model()), []);
    let other = Model {
        id: "other".to_owned(),
        ..able_model()
    };
    assert_eq!(kinds(&full(), &other), [InvalidSignature, InvalidSignature]);
}

#[test]
fn who_starts_and_who_ends() {
    let turns = |messages: Value| {
        let mut body = ask();
        body["thinking"] = json!({"type": "disabled"});
        body["messages"] = messages;
        kinds(&body, &able_model())
    };
    let user = json!({"role": "user", "content": "u"});
    let said = |text: &str| json!({"role": "assistant", "content": text});
    assert_eq!(turns(json!([said("a"), user])), [RoleOrder]);
    assert_eq!(
        turns(json!([user, said("a"), said("b"), user])),
        [RoleOrder]
    );
    assert_eq!(turns(json!([user, user])), []);
    assert_eq!(turns(json!([user, said("a")])), []);
    assert_eq!(turns(json!([user, said("a ")])), [InvalidContent]);
    let blocks = json!({"role": "assistant", "content": [{"type": "text", "text": "a\n"}]});
    assert_eq!(turns(json!([user, blocks])), [InvalidContent]);
    check("/messages/3/role", json!("assistant"), &[RoleOrder]);
}

fn refused(path: &str, headers: &[(&str, &str)], body: &Value) -> (u16, Value) {
    let simulator = start(scenario(Completion::default()));
    let response = Client::new(&simulator).post_to(path, headers, body);
    assert!(!simulator.finish().passed);
    let error = response.json();
    assert_eq!(
        (&error["type"], &error["request_id"]),
        (&json!("error"), &json!("sim-0"))
    );
    assert!(
        response.head.contains("request-id: sim-0\n"),
        "{}",
        response.head
    );
    (response.status, error["error"]["type"].clone())
}

#[test]
fn refusals_have_anthropics_form() {
    let path = "/v1/messages";
    let mut body = ask();
    body["max_tokens"] = json!(0);
    assert_eq!(
        refused(path, HEADERS, &body),
        (400, json!("invalid_request_error"))
    );
    body = ask();
    body["model"] = json!("other");
    assert_eq!(
        refused(path, HEADERS, &body),
        (404, json!("not_found_error"))
    );
    assert_eq!(
        refused(path, &HEADERS[1..], &ask()),
        (401, json!("authentication_error"))
    );
    assert_eq!(
        refused(path, &HEADERS[..1], &ask()),
        (400, json!("invalid_request_error"))
    );
    assert_eq!(
        refused("/v2/messages", HEADERS, &ask()),
        (404, json!("not_found_error"))
    );
}

#[test]
fn a_bearer_token_and_a_beta_query_are_fine() {
    let simulator = start(scenario(Completion::default()));
    let headers = [
        ("authorization", "Bearer t"),
        ("anthropic-version", "2023-06-01"),
    ];
    let response = Client::new(&simulator).post_to("/v1/messages?beta=true", &headers, &ask());
    assert_eq!(response.status, 200);
    assert!(simulator.finish().passed);
}

#[test]
fn vertex_names_the_model_in_its_path() {
    let path = "/v1/projects/p/locations/global/publishers/anthropic/models/m:streamRawPredict";
    let bearer = [("authorization", "Bearer t")];
    let mut body = ask();
    assert_eq!(refused(path, &bearer, &body).0, 400);
    let fields = body.as_object_mut().unwrap();
    fields.shift_remove("model");
    fields.shift_remove("stream");
    assert_eq!(refused(path, &bearer, &body).0, 400);
    body["anthropic_version"] = json!("vertex-2023-10-16");
    assert_eq!(refused(path, &[], &body).0, 401);
    let simulator = start(scenario(Completion::default()));
    let response = Client::new(&simulator).post_to(path, &bearer, &body);
    assert_eq!((response.status, response.named_events().len()), (200, 3));
    assert!(simulator.finish().passed);
}

#[test]
fn expectations_read_messages() {
    let meets = |expect: Value| {
        let expect: RequestExpectation = serde_json::from_value(expect).unwrap();
        let step = Step::at(Endpoint::Messages, Reply::text("x")).expecting(expect);
        let simulator = start(Scenario::new("x").offering(able_model()).step(step));
        Client::new(&simulator)
            .post_to("/v1/messages", HEADERS, &full())
            .status
            == 200
    };
    assert!(meets(json!({
        "target": "/v1/messages", "model": "m", "stream": true, "system_contains": "good", "last_user_contains": "go on",
        "tool_result_contains": ["r2"], "tool_result_lacks": ["r3"], "exact_tools": ["read", "bash"],
    })));
    assert!(!meets(json!({"system_contains": "bad"})));
    assert!(!meets(json!({"last_user_contains": "and now"})));
    assert!(!meets(json!({"tool_result_contains": ["r3"]})));
    assert!(!meets(json!({"tools": ["edit"]})));
    assert!(!meets(json!({"target": "/v1/messages?beta=true"})));
}

#[test]
fn scripted_errors_have_anthropics_form() {
    let reply = Reply::error_from(Endpoint::Messages, 529, "Overloaded");
    let simulator = start(
        Scenario::new("x")
            .offering(able_model())
            .step(Step::at(Endpoint::Messages, reply)),
    );
    let response = Client::new(&simulator).post_to("/v1/messages", HEADERS, &ask());
    assert_eq!(
        (response.status, &response.json()["error"]["type"]),
        (529, &json!("overloaded_error"))
    );
    assert!(simulator.finish().passed);
}
