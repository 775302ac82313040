use fluzo_sim::ViolationKind::{self, *};
use fluzo_sim::{
    Completion, Endpoint, FinishReason, Model, Pieces, Reply, RequestExpectation, Scenario,
    Signature, Step, ToolCall, Usage, UsagePlacement,
};
use serde_json::{Value, json};

use crate::client::{Client, Response, able_model, broken, start};

const STREAM: &str = "/v1beta/models/m:streamGenerateContent?alt=sse";
const WHOLE: &str = "/v1beta/models/m:generateContent";
const KEY: &[(&str, &str)] = &[("x-goog-api-key", "k")];

fn ask() -> Value {
    json!({
        "contents": [{"role": "user", "parts": [{"text": "go"}]}],
        "systemInstruction": {"parts": [{"text": "be good"}]},
        "tools": [{"functionDeclarations": [tool("read"), tool("bash")]}],
        "generationConfig": {"maxOutputTokens": 100, "thinkingConfig": {"includeThoughts": true, "thinkingLevel": "LOW"}},
    })
}

fn tool(name: &str) -> Value {
    json!({"name": name, "description": "d", "parametersJsonSchema": {"type": "object", "properties": {}, "additionalProperties": false}})
}

fn calls() -> Completion {
    Completion {
        thinking: Some("hm".to_owned()),
        text: Some("hey".to_owned()),
        pieces: Pieces::Chars(2),
        tool_calls: vec![
            ToolCall::new("", "read", json!({"path": "f", "limit": 1})),
            ToolCall::new("b", "bash", "{}"),
        ],
        ..Completion::default()
    }
}

fn scenario(completion: Completion) -> Scenario {
    Scenario::new("gemini")
        .offering(able_model())
        .step(Step::at(Endpoint::Gemini, Reply::completion(completion)))
}

fn play(completion: Completion, path: &str) -> Response {
    let simulator = start(scenario(completion));
    let response = Client::new(&simulator).post_to(path, KEY, &ask());
    let verdict = simulator.finish();
    assert!(verdict.passed, "{verdict}");
    assert_eq!((response.status, response.complete), (200, true));
    response
}

/// What the model says in its calling turn, as it has to come back.
fn said() -> Value {
    let content = play(calls(), WHOLE).json()["candidates"][0]["content"].clone();
    assert_eq!(content["parts"].as_array().unwrap().len(), 4);
    content
}

fn response(name: &str) -> Value {
    json!({"functionResponse": {"name": name, "response": {"output": format!("out of {name}")}}})
}

fn full() -> Value {
    let image = json!({"inlineData": {"mimeType": "image/png", "data": "aGk="}});
    let mut read = response("read");
    read["functionResponse"]["parts"] = json!([image]);
    let mut body = ask();
    body["contents"] = json!([
        {"role": "user", "parts": [{"text": "look"}, image]},
        said(),
        {"role": "user", "parts": [read, response("bash")]},
    ]);
    body
}

#[test]
fn streams_thoughts_text_calls_finish_reason_and_usage() {
    let usage = Usage {
        cached_tokens: Some(4),
        reasoning_tokens: Some(2),
        ..Usage::default()
    };
    let chunks = play(Completion { usage, ..calls() }, STREAM).chunks_json();
    let parts: Vec<&Value> = chunks
        .iter()
        .map(|chunk| &chunk["candidates"][0]["content"]["parts"][0])
        .collect();
    assert_eq!(parts[0], &json!({"text": "hm", "thought": true}));
    assert_eq!(
        (parts[1], parts[2]),
        (&json!({"text": "he"}), &json!({"text": "y"}))
    );
    assert_eq!(
        parts[3]["functionCall"],
        json!({"name": "read", "args": {"path": "f", "limit": 1}})
    );
    assert!(parts[3]["thoughtSignature"].is_string());
    assert_eq!(
        parts[4],
        &json!({"functionCall": {"id": "b", "name": "bash", "args": {}}})
    );
    let last = &chunks[4];
    assert_eq!(last["candidates"][0]["finishReason"], "STOP");
    let expected = json!({"promptTokenCount": 12, "totalTokenCount": 19, "cachedContentTokenCount": 4, "candidatesTokenCount": 5, "thoughtsTokenCount": 2});
    assert_eq!(last["usageMetadata"], expected);
    assert_eq!(
        (&last["modelVersion"], &last["responseId"]),
        (&json!("m"), &json!("sim0"))
    );
    assert!(chunks[0]["candidates"][0].get("finishReason").is_none());
}

#[test]
fn answers_carry_their_signature_on_an_empty_text() {
    let text = Completion {
        tool_calls: Vec::new(),
        ..calls()
    };
    let parts = play(text.clone(), WHOLE).json()["candidates"][0]["content"]["parts"].clone();
    let last = parts.as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["text"], "");
    let mut body = ask();
    body["contents"].as_array_mut().unwrap().extend([
        json!({"role": "model", "parts": [{"text": "hey", "thoughtSignature": last["thoughtSignature"]}]}),
        json!({"role": "user", "parts": [{"text": "more"}]}),
    ]);
    assert_eq!(kinds(&body, &able_model()), []);
    body["contents"][1]["parts"] = json!([{"text": "hey"}, last]);
    assert_eq!(kinds(&body, &able_model()), []);
    let unsigned = Completion {
        signature: Signature::Absent,
        ..text
    };
    assert_eq!(play(unsigned, STREAM).chunks_json().len(), 3);
}

#[test]
fn the_end_can_be_scripted() {
    let bare = Completion::default;
    let named = Completion {
        finish_reason: FinishReason::Named("SAFETY".to_owned()),
        usage_at: UsagePlacement::None,
        ..bare()
    };
    let chunks = play(named, STREAM).chunks_json();
    assert_eq!(chunks[0]["candidates"][0]["finishReason"], "SAFETY");
    assert!(chunks[0].get("usageMetadata").is_none());
    let absent = Completion {
        finish_reason: FinishReason::Absent,
        ..bare()
    };
    assert!(
        play(absent, STREAM).chunks_json()[0]["candidates"][0]
            .get("finishReason")
            .is_none()
    );
    let error = Completion {
        text: Some("x".to_owned()),
        error: Some(json!({"code": 503, "status": "UNAVAILABLE"})),
        ..bare()
    };
    assert_eq!(
        play(error, STREAM).chunks_json().last().unwrap(),
        &json!({"error": {"code": 503, "status": "UNAVAILABLE"}})
    );
    let every = Completion {
        usage_at: UsagePlacement::EveryChunk,
        ..calls()
    };
    assert!(
        play(every, STREAM)
            .chunks_json()
            .iter()
            .all(|chunk| chunk["usageMetadata"]["promptTokenCount"] == 12)
    );
}

fn two_turns(first: Completion, change: impl FnOnce(&mut Value)) -> Option<ViolationKind> {
    let simulator = start(scenario(first).step(Step::at(Endpoint::Gemini, Reply::text("done"))));
    let mut client = Client::new(&simulator);
    let said = client.post_to(WHOLE, KEY, &ask()).json()["candidates"][0]["content"].clone();
    let mut body = full();
    body["contents"][1] = said;
    change(&mut body);
    let status = client.post_to(STREAM, KEY, &body).status;
    let verdict = simulator.finish();
    assert_eq!(verdict.passed, status == 200);
    verdict.violations.first().map(|violation| violation.kind)
}

#[test]
fn a_signed_call_comes_back_unaltered() {
    let part = "/contents/1/parts/2";
    let foreign = json!("skip_thought_signature_validator");
    assert_eq!(two_turns(calls(), |_| {}), None);
    let missing = |body: &mut Value| {
        let part = body.pointer_mut(part).unwrap().as_object_mut().unwrap();
        drop(part.shift_remove("thoughtSignature"));
    };
    assert_eq!(two_turns(calls(), missing), Some(InvalidSignature));
    let altered =
        |body: &mut Value| body.pointer_mut(part).unwrap()["thoughtSignature"] = json!("c2ln");
    assert_eq!(two_turns(calls(), altered), Some(InvalidSignature));
    let replaced = |body: &mut Value| body.pointer_mut(part).unwrap()["thoughtSignature"] = foreign;
    assert_eq!(two_turns(calls(), replaced), Some(InvalidSignature));
    let arguments = |body: &mut Value| {
        body.pointer_mut(part).unwrap()["functionCall"]["args"]["limit"] = json!(2)
    };
    assert_eq!(two_turns(calls(), arguments), Some(InvalidSignature));
    let reordered = |body: &mut Value| {
        body.pointer_mut(part).unwrap()["functionCall"]["args"] = json!({"limit": 1, "path": "f"})
    };
    assert_eq!(two_turns(calls(), reordered), None);
    for signature in [Signature::Absent, Signature::Named("bWluZQ==".to_owned())] {
        assert_eq!(
            two_turns(
                Completion {
                    signature,
                    ..calls()
                },
                |_| {}
            ),
            None
        );
    }
}

#[test]
fn a_call_of_another_model_needs_a_signature_in_the_current_turn_only() {
    let mut body = full();
    let part = json!({"functionCall": {"name": "read", "args": {"path": "other"}}});
    body["contents"][1]["parts"] = json!([part]);
    body["contents"][2]["parts"] = json!([response("read")]);
    assert_eq!(kinds(&body, &able_model()), [InvalidSignature]);
    body["contents"][1]["parts"][0]["thoughtSignature"] = json!("skip_thought_signature_validator");
    assert_eq!(kinds(&body, &able_model()), []);
    body["contents"][1]["parts"] = json!([part]);
    body["contents"]
        .as_array_mut()
        .unwrap()
        .push(json!({"role": "user", "parts": [{"text": "more"}]}));
    assert_eq!(kinds(&body, &able_model()), []);
    let other = Model {
        id: "other".to_owned(),
        ..able_model()
    };
    assert_eq!(kinds(&full(), &other), [InvalidSignature]);
}

fn kinds(body: &Value, model: &Model) -> Vec<ViolationKind> {
    broken(Endpoint::Gemini, body, model)
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
    check("/stream", json!(true), &[InvalidParameter]);
    check("/system_instruction", json!({}), &[InvalidParameter]);
    check(
        "/systemInstruction",
        json!({"parts": [{"text": ""}]}),
        &[EmptyMessage],
    );
    check("/systemInstruction", json!({"parts": []}), &[EmptyMessage]);
    check(
        "/generationConfig/max_tokens",
        json!(1),
        &[InvalidParameter],
    );
    check(
        "/generationConfig/maxOutputTokens",
        json!(0),
        &[InvalidParameter],
    );
    check(
        "/generationConfig/temperature",
        json!(3),
        &[InvalidParameter],
    );
    let thinking = "/generationConfig/thinkingConfig";
    check(
        thinking,
        json!({"thinkingLevel": "LOW", "thinkingBudget": 1}),
        &[InvalidParameter],
    );
    check(
        thinking,
        json!({"thinkingLevel": "XHIGH"}),
        &[InvalidParameter],
    );
    check(thinking, json!({"thinkingLevel": "high"}), &[]);
    check(thinking, json!({"thinkingBudget": -2}), &[InvalidParameter]);
    check(
        thinking,
        json!({"thinkingBudget": -1, "includeThoughts": true}),
        &[],
    );
    check(thinking, json!({"effort": "low"}), &[InvalidParameter]);
    let choice = |mode: &str, name: &str| json!({"functionCallingConfig": {"mode": mode, "allowedFunctionNames": [name]}});
    check("/toolConfig", choice("ANY", "read"), &[]);
    check("/toolConfig", choice("ANY", "edit"), &[InvalidParameter]);
    check("/toolConfig", choice("auto", "read"), &[InvalidParameter]);
    let plain = Model {
        reasoning: false,
        ..able_model()
    };
    assert_eq!(kinds(&ask(), &plain), [InvalidParameter]);
}

#[test]
fn tools_that_the_api_refuses() {
    let first = "/tools/0/functionDeclarations/0";
    check(first, tool("bash"), &[InvalidTools]);
    check(first, tool("1st"), &[InvalidTools]);
    check(
        first,
        json!({"name": "a", "parametersJsonSchema": {"type": "string"}}),
        &[InvalidTools],
    );
    check(
        first,
        json!({"name": "a", "input_schema": {}}),
        &[InvalidTools],
    );
    let open = json!({"type": "OBJECT", "properties": {"x": {"type": "STRING"}}});
    check(first, json!({"name": "a", "parameters": open}), &[]);
    check(
        first,
        json!({"name": "a", "parameters": open, "parametersJsonSchema": {"type": "object"}}),
        &[InvalidTools],
    );
    let json_schema =
        json!({"type": "object", "properties": {"x": {"const": 1}}, "additionalProperties": false});
    check(
        first,
        json!({"name": "a", "parameters": json_schema}),
        &[InvalidTools, InvalidTools],
    );
    check(
        "/tools/0",
        json!({"function": {}}),
        &[InvalidTools, InvalidTools],
    );
}

#[test]
fn parts_that_the_api_refuses() {
    let first = "/contents/0/parts/0";
    check("/contents", json!([]), &[InvalidMessages]);
    check("/contents/0/parts", json!([]), &[EmptyMessage]);
    check(first, json!({"text": ""}), &[EmptyMessage]);
    check(first, json!({}), &[EmptyMessage]);
    check(
        first,
        json!({"text": "a", "inlineData": {}}),
        &[EmptyMessage],
    );
    check(
        first,
        json!({"text": "a", "type": "text"}),
        &[InvalidContent],
    );
    check(
        first,
        json!({"text": "a", "thoughtSignature": "not base64"}),
        &[InvalidSignature],
    );
    let image = "/contents/0/parts/1/inlineData";
    check(
        image,
        json!({"mimeType": "image/png", "data": "a b"}),
        &[InvalidContent],
    );
    check(
        image,
        json!({"mimeType": "image/gif", "data": "aGk="}),
        &[InvalidContent],
    );
    check(
        image,
        json!({"mime_type": "image/png", "data": "aGk="}),
        &[InvalidContent, InvalidContent],
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
fn turns_that_the_api_refuses() {
    check(
        "/contents/0/role",
        json!("assistant"),
        &[InvalidMessages, RoleOrder],
    );
    check("/contents/0/role", json!("model"), &[RoleOrder, RoleOrder]);
    check(
        "/contents/2/role",
        json!("function"),
        &[InvalidMessages, CallWithoutResult],
    );
    check(
        "/contents/2/parts",
        json!([response("read")]),
        &[CallWithoutResult],
    );
    check(
        "/contents/2/parts",
        json!([response("read"), response("edit")]),
        &[ToolResultWithoutCall, CallWithoutResult],
    );
    check(
        "/contents/2/parts",
        json!([response("read"), response("bash"), response("bash")]),
        &[ToolResultWithoutCall],
    );
    check(
        "/contents/2/parts",
        json!([response("read"), response("bash"), {"text": "x"}]),
        &[InvalidContent],
    );
    check(
        "/contents/2/parts",
        json!([{"text": "x"}]),
        &[CallWithoutResult],
    );
    check("/contents/2/parts/1/functionResponse/id", json!("b"), &[]);
    check(
        "/contents/2/parts/1/functionResponse/id",
        json!("c"),
        &[ToolResultWithoutCall, CallWithoutResult],
    );
    check(
        "/contents/2/parts/1/functionResponse/response",
        json!("text"),
        &[InvalidContent],
    );
    check(
        "/contents/1/parts/3/functionCall/args",
        json!("{}"),
        &[ArgumentsNotObject],
    );
    check(
        "/contents/1/parts/3/functionCall/name",
        json!("a b"),
        &[InvalidToolCall, ToolResultWithoutCall, CallWithoutResult],
    );
    let mut body = full();
    body["contents"].as_array_mut().unwrap().pop();
    assert_eq!(kinds(&body, &able_model()), [CallWithoutResult]);
    body["contents"][1] = json!({"role": "user", "parts": [response("read")]});
    assert_eq!(kinds(&body, &able_model()), [ToolResultWithoutCall]);
    body["contents"][1] = json!({"role": "model", "parts": [{"text": "x"}]});
    assert_eq!(kinds(&body, &able_model()), [RoleOrder]);
}

fn refused(path: &str, headers: &[(&str, &str)], body: &Value) -> (u16, Value) {
    let simulator = start(scenario(Completion::default()));
    let response = Client::new(&simulator).post_to(path, headers, body);
    assert!(!simulator.finish().passed);
    let error = response.json();
    assert_eq!(error["error"]["code"], response.status);
    (response.status, error["error"]["status"].clone())
}

#[test]
fn refusals_have_googles_form() {
    let mut body = ask();
    body["contents"] = json!([]);
    assert_eq!(
        refused(STREAM, KEY, &body),
        (400, json!("INVALID_ARGUMENT"))
    );
    assert_eq!(
        refused(STREAM, &[], &ask()),
        (403, json!("PERMISSION_DENIED"))
    );
    let other = STREAM.replace("/m:", "/other:");
    assert_eq!(refused(&other, KEY, &ask()), (404, json!("NOT_FOUND")));
    let unframed = STREAM.replace("?alt=sse", "");
    assert_eq!(refused(&unframed, KEY, &ask()), (404, json!("NOT_FOUND")));
}

#[test]
fn vertex_takes_a_bearer_token_or_a_key() {
    let path =
        "/v1/projects/p/locations/global/publishers/google/models/m:streamGenerateContent?alt=sse";
    assert_eq!(refused(path, &[], &ask()), (401, json!("UNAUTHENTICATED")));
    for headers in [&[("authorization", "Bearer t")], KEY] {
        let simulator = start(scenario(calls()));
        let response = Client::new(&simulator).post_to(path, headers, &ask());
        assert_eq!((response.status, response.chunks_json().len()), (200, 5));
        assert!(simulator.finish().passed);
    }
}

#[test]
fn expectations_read_gemini() {
    let meets = |expect: Value| {
        let expect: RequestExpectation = serde_json::from_value(expect).unwrap();
        let step = Step::at(Endpoint::Gemini, Reply::text("x")).expecting(expect);
        let simulator = start(Scenario::new("x").offering(able_model()).step(step));
        Client::new(&simulator).post_to(STREAM, KEY, &full()).status == 200
    };
    assert!(meets(json!({
        "target": STREAM, "model": "m", "stream": true, "system_contains": "good", "last_user_contains": "look",
        "tool_result_contains": ["out of read", "out of bash"], "tool_result_lacks": ["r3"], "exact_tools": ["read", "bash"],
    })));
    assert!(!meets(json!({"stream": false})));
    assert!(!meets(json!({"model": "n"})));
    assert!(!meets(json!({"tool_result_contains": ["out of edit"]})));
}

#[test]
fn a_named_signature_of_an_answer_comes_back() {
    let named = Completion {
        signature: Signature::Named("bWluZQ==".to_owned()),
        tool_calls: Vec::new(),
        ..calls()
    };
    let script = scenario(named).step(Step::at(Endpoint::Gemini, Reply::text("x")));
    let simulator = start(script);
    let mut client = Client::new(&simulator);
    let said = client.post_to(WHOLE, KEY, &ask()).json()["candidates"][0]["content"].clone();
    let mut body = ask();
    body["contents"]
        .as_array_mut()
        .unwrap()
        .extend([said, json!({"role": "user", "parts": [{"text": "more"}]})]);
    assert_eq!(client.post_to(WHOLE, KEY, &body).status, 200);
    assert!(simulator.finish().passed);
}
