//! Bodies of requests, byte for byte or by path.

use std::sync::Arc;

use fluzo_llm::{Message, Model, ThinkingLevel};
use serde_json::json;

use super::*;
use crate::testing::{self, result, user};

const API: &str = "google-generative-ai";

/// A model of provider `p`; `changes` are merged into it.
fn model(changes: Value) -> Model {
    let usual = json!({
        "id": "gemini-3-flash", "name": "m", "api": API, "provider": "p", "baseUrl": "http://h/v1",
        "input": ["text", "image"], "contextWindow": 1000, "maxTokens": 100,
    });
    testing::model(usual, changes)
}

fn request(changes: Value, history: &[Value]) -> ModelRequest {
    testing::request(model(changes), history)
}

fn text_of(request: &ModelRequest) -> String {
    String::from_utf8(body(request).unwrap()).unwrap()
}

fn json_of(request: &ModelRequest) -> Value {
    serde_json::from_str(&text_of(request)).unwrap()
}

/// A response of `model`, of provider `p`.
fn assistant(model: &str, content: Value) -> Value {
    json!({
        "role": "assistant", "content": content, "api": API, "provider": "p", "model": model,
        "usage": {}, "stopReason": "stop",
    })
}

/// A response of the model that is asked.
fn own(content: Value) -> Value {
    assistant("gemini-3-flash", content)
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn call(id: &str, signature: Option<&str>) -> Value {
    let mut call = json!({"type": "toolCall", "id": id, "name": "read", "arguments": {"path": id}});
    if let Some(signature) = signature {
        call["thoughtSignature"] = json!(signature);
    }
    call
}

fn image() -> Value {
    json!({"type": "image", "data": "AA==", "mimeType": "image/png"})
}

fn wire_image() -> Value {
    json!({"inlineData": {"mimeType": "image/png", "data": "AA=="}})
}

fn wire_result(output: &str) -> Value {
    json!({"functionResponse": {"name": "read", "response": {"output": output}}})
}

/// The contents of a request with `history` to the model with `changes`.
fn check(changes: Value, history: &[Value], expected: Value) {
    let contents = json_of(&request(changes, history))["contents"].clone();
    assert_eq!(contents, expected, "{history:?}");
}

#[test]
fn the_whole_body_byte_for_byte() {
    let mut request = request(
        json!({"reasoning": true}),
        &[
            user(json!("go")),
            own(json!([
                {"type": "thinking", "thinking": "hm", "thinkingSignature": "QUJD"},
                {"type": "text", "text": "ok", "textSignature": "REVG"},
                call("c1", Some("R0hJ")),
                call("c2", None),
            ])),
            result("c1", json!([text("A\n")])),
            result("c2", json!([text("B")])),
        ],
    );
    request.system_prompt = "SYS".into();
    request.tools = Arc::new([ToolSpec {
        name: "read".into(),
        description: "Reads".into(),
        parameters: json!({"type": "object"}),
    }]);
    request.options.max_output_tokens = Some(4096);
    request.options.thinking = ThinkingLevel::Low;
    let expected = concat!(
        r#"{"contents":[{"role":"user","parts":[{"text":"go"}]},{"role":"model","parts":["#,
        r#"{"thought":true,"text":"hm","thoughtSignature":"QUJD"},{"text":"ok","thoughtSignature":"REVG"},"#,
        r#"{"functionCall":{"name":"read","args":{"path":"c1"}},"thoughtSignature":"R0hJ"},"#,
        r#"{"functionCall":{"name":"read","args":{"path":"c2"}}}]},{"role":"user","parts":["#,
        r#"{"functionResponse":{"name":"read","response":{"output":"A\n"}}},"#,
        r#"{"functionResponse":{"name":"read","response":{"output":"B"}}}]}],"#,
        r#""systemInstruction":{"parts":[{"text":"SYS"}]},"#,
        r#""tools":[{"functionDeclarations":[{"name":"read","description":"Reads","parametersJsonSchema":{"type":"object"}}]}],"#,
        r#""generationConfig":{"maxOutputTokens":4096,"thinkingConfig":{"includeThoughts":true,"thinkingLevel":"LOW"}}}"#,
    );
    assert_eq!(text_of(&request), expected);
    assert_eq!(text_of(&request.clone()), expected);
}

#[test]
fn nothing_is_sent_that_was_not_asked_for() {
    let body = text_of(&request(json!({}), &[user(json!("go"))]));
    assert_eq!(
        body,
        r#"{"contents":[{"role":"user","parts":[{"text":"go"}]}]}"#
    );
}

#[test]
fn a_longer_history_begins_with_the_shorter_one() {
    let history = [
        user(json!("go")),
        own(json!([call("c1", Some("QUJD"))])),
        result("c1", json!([text("A"), image()])),
        user(json!("on")),
        own(json!([text("done")])),
        user(json!("more")),
    ];
    for changes in [json!({}), json!({"id": "gemini-2.5-pro"})] {
        let bodies: Vec<String> = [1, 3, 4, 6]
            .map(|end| text_of(&request(changes.clone(), &history[..end])))
            .into();
        for pair in bodies.windows(2) {
            let open = pair[0].trim_end_matches(['}', ']']);
            assert!(pair[1].starts_with(open), "{}\n{}", pair[0], pair[1]);
        }
    }
}

#[test]
fn what_one_side_says_is_one_content_and_the_user_begins() {
    check(
        json!({}),
        &[
            user(json!("a")),
            user(json!([text("b"), image()])),
            user(json!("")),
        ],
        json!([{"role": "user", "parts": [{"text": "a"}, {"text": "b"}, wire_image()]}]),
    );
    check(
        json!({}),
        &[own(json!([text("a")])), own(json!([text("b")]))],
        json!([
            {"role": "user", "parts": [{"text": "(no message)"}]},
            {"role": "model", "parts": [{"text": "a"}, {"text": "b"}]},
            {"role": "user", "parts": [{"text": "(no message)"}]},
        ]),
    );
    check(
        json!({}),
        &[user(json!(""))],
        json!([{"role": "user", "parts": [{"text": "(no message)"}]}]),
    );
    check(
        json!({}),
        &[user(json!("a")), own(json!([text(" ")])), user(json!("b"))],
        json!([{"role": "user", "parts": [{"text": "a"}, {"text": "b"}]}]),
    );
}

#[test]
fn signatures_go_back_to_their_model_only_and_only_when_they_are_base64() {
    let answer = |model: &str, signature: &str| {
        assistant(
            model,
            json!([
                {"type": "thinking", "thinking": "hm", "thinkingSignature": signature},
                {"type": "text", "text": "a", "textSignature": signature},
            ]),
        )
    };
    let user_says = |text: &str| json!({"role": "user", "parts": [{"text": text}]});
    let wire = |parts: Value| json!([user_says("go"), {"role": "model", "parts": parts}, user_says("(no message)")]);
    let rows = [
        (
            answer("gemini-3-flash", "QUJD"),
            json!([{"thought": true, "text": "hm", "thoughtSignature": "QUJD"}, {"text": "a", "thoughtSignature": "QUJD"}]),
        ),
        (
            answer("gemini-3-flash", "reasoning"),
            json!([{"thought": true, "text": "hm"}, {"text": "a"}]),
        ),
        (
            answer("other", "QUJD"),
            json!([{"text": "hm"}, {"text": "a"}]),
        ),
    ];
    for (answer, parts) in rows {
        check(json!({}), &[user(json!("go")), answer], wire(parts));
    }
    let hidden = own(json!([
        {"type": "thinking", "thinking": "x", "thinkingSignature": "QUJD", "redacted": true},
        {"type": "thinking", "thinking": "x", "redacted": true},
        text("a"),
    ]));
    check(
        json!({}),
        &[user(json!("go")), hidden],
        wire(json!([{"thought": true, "text": "", "thoughtSignature": "QUJD"}, {"text": "a"}])),
    );
}

/// Signatures of two calls of one answer, as sent to `model`.
fn call_signatures(model: &str, from: &str, given: [Option<&str>; 2]) -> [Option<String>; 2] {
    let history = [
        user(json!("go")),
        assistant(from, json!([call("a", given[0]), call("b", given[1])])),
        result("a", json!([])),
        result("b", json!([])),
    ];
    let parts = json_of(&request(json!({"id": model}), &history))["contents"][1]["parts"].clone();
    [0, 1].map(|at| Some(parts[at].get("thoughtSignature")?.as_str()?.to_owned()))
}

#[test]
fn the_first_call_of_a_step_is_signed_for_gemini_3() {
    const DUMMY: Option<&str> = Some("skip_thought_signature_validator");
    let good = Some("QUJD");
    let (new, old) = ("gemini-3.1-pro-preview", "gemini-2.5-pro");
    let rows = [
        (new, new, [good, None], [good, None]),
        (new, new, [good, Some("REVG")], [good, Some("REVG")]),
        (new, new, [None, None], [DUMMY, None]),
        (new, new, [None, good], [DUMMY, good]),
        (new, new, [Some("no base64"), None], [DUMMY, None]),
        (new, "gemini-3-flash", [good, None], [DUMMY, None]),
        ("gemini-flash-latest", "x", [None, None], [DUMMY, None]),
        (old, old, [good, None], [good, None]),
        (old, old, [None, None], [None, None]),
        (old, new, [good, None], [None, None]),
        ("claude-x", "x", [None, None], [None, None]),
    ];
    for (model, from, given, expected) in rows {
        let sent = call_signatures(model, from, given);
        assert_eq!(
            sent.each_ref().map(Option::as_deref),
            expected,
            "{model} {from} {given:?}"
        );
    }
}

/// What a session file keeps of a message goes back as it came.
#[test]
fn a_signature_survives_the_session_file() {
    let given = "CsoBAXLI2nz/0a+b==AA".replace("==", "cd");
    let message: Message = serde_json::from_value({
        let mut message = own(json!([text("ok"), call("c1", Some(&given))]));
        message["timestamp"] = json!(1);
        message
    })
    .unwrap();
    let line = serde_json::to_string(&message).unwrap();
    let again: Value = serde_json::from_str(&line).unwrap();
    let history = [user(json!("go")), again, result("c1", json!([text("A")]))];
    let body = json_of(&request(json!({}), &history));
    assert_eq!(
        body["contents"][1]["parts"][1]["thoughtSignature"],
        json!(given)
    );
}

#[test]
fn ids_are_sent_to_models_that_have_them() {
    let history = [
        user(json!("go")),
        assistant("x", json!([call("a|b", None)])),
        result("a|b", json!([text("r")])),
    ];
    for (model, id) in [
        ("claude-opus", Some("a_b")),
        ("gpt-oss-120b", Some("a_b")),
        ("gemini-3-pro", None),
    ] {
        let contents = json_of(&request(json!({"id": model}), &history))["contents"].clone();
        let ids = [
            "/1/parts/0/functionCall/id",
            "/2/parts/0/functionResponse/id",
        ]
        .map(|place| {
            contents
                .pointer(place)
                .and_then(Value::as_str)
                .map(str::to_owned)
        });
        assert_eq!(ids.each_ref().map(Option::as_deref), [id, id]);
    }
}

#[test]
fn results_and_their_images() {
    let mut failed = result("c", json!([text("no")]));
    failed["isError"] = json!(true);
    let history = [
        user(json!("go")),
        own(json!([
            call("a", Some("QUJD")),
            call("b", None),
            call("c", None),
            call("d", None)
        ])),
        result("a", json!([image()])),
        result("b", json!([text("r"), text("s"), image()])),
        failed,
        result("d", json!([])),
        user(json!("on")),
    ];
    let error = json!({"functionResponse": {"name": "read", "response": {"error": "no"}}});
    let with_image = |output: &str| {
        let mut part = wire_result(output);
        part["functionResponse"]["parts"] = json!([wire_image()]);
        part
    };
    let check = |id: &str, input: Value, expected: [Value; 2]| {
        let body = json_of(&request(json!({"id": id, "input": input}), &history));
        let contents = body["contents"].as_array().unwrap();
        assert!(
            contents[2..]
                .iter()
                .all(|content| content["role"] == "user")
        );
        let parts: Vec<&Value> = contents[2..]
            .iter()
            .map(|content| &content["parts"])
            .collect();
        assert_eq!(parts, expected.each_ref());
    };
    check(
        "gemini-3-flash",
        json!(["text", "image"]),
        [
            json!([
                with_image("(see attached image)"),
                with_image("r\ns"),
                error,
                wire_result("")
            ]),
            json!([{"text": "on"}]),
        ],
    );
    check(
        "gemini-2.5-pro",
        json!(["text", "image"]),
        [
            json!([
                wire_result("(see attached image)"),
                wire_result("r\ns"),
                error,
                wire_result("")
            ]),
            json!([{"text": "Tool result image:"}, wire_image(), wire_image(), {"text": "on"}]),
        ],
    );
    let omitted = "(tool image omitted: model does not support images)";
    check(
        "gemini-2.5-pro",
        json!(["text"]),
        [
            json!([
                wire_result(omitted),
                wire_result(&format!("r\ns\n{omitted}")),
                error,
                wire_result("")
            ]),
            json!([{"text": "on"}]),
        ],
    );
}

#[test]
fn images_of_a_type_that_is_refused_are_words() {
    let gif = json!({"type": "image", "data": "AA==", "mimeType": "image/gif"});
    let omitted = "(image omitted: model does not support images of this type)";
    let history = [
        user(json!([text("a"), gif])),
        own(json!([call("c", Some("QUJD"))])),
        result("c", json!([text("r"), gif, image()])),
    ];
    let contents = json_of(&request(json!({}), &history))["contents"].clone();
    assert_eq!(
        contents[0]["parts"],
        json!([{"text": "a"}, {"text": omitted}])
    );
    let mut part = wire_result(&format!("r\n{omitted}"));
    part["functionResponse"]["parts"] = json!([wire_image()]);
    assert_eq!(contents[2]["parts"], json!([part]));
}

#[test]
fn malformed_calls_and_odd_names_never_spoil_the_history() {
    let rows = [
        ("read", "read"),
        ("", "_"),
        ("two words", "two_words"),
        ("7up", "_7up"),
        ("ü", "_"),
        ("mcp:a.b-c", "mcp:a.b-c"),
    ];
    for (name, sent) in rows {
        let bad = json!({"type": "toolCall", "id": "c", "name": name, "arguments": {}, "rawArguments": "{\"a"});
        let mut reply = result("c", json!([text("e")]));
        reply["toolName"] = json!(name);
        let history = [user(json!("go")), own(json!([bad])), reply];
        let contents = json_of(&request(json!({}), &history))["contents"].clone();
        assert_eq!(
            contents[1]["parts"][0]["functionCall"],
            json!({"name": sent, "args": {}})
        );
        assert_eq!(
            contents[2]["parts"][0]["functionResponse"]["name"],
            json!(sent)
        );
    }
    let long = "x".repeat(80);
    let bad = json!({"type": "toolCall", "id": "c", "name": long, "arguments": {}});
    let history = [user(json!("go")), own(json!([bad])), result("c", json!([]))];
    let contents = json_of(&request(json!({}), &history))["contents"].clone();
    let name = &contents[1]["parts"][0]["functionCall"]["name"];
    assert!(name.as_str().unwrap().len() <= 64);
}
