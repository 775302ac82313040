//! Bodies of requests, byte for byte or by path.

use std::sync::Arc;

use fluzo_llm::{FormSwitch, Message, Model, ThinkingLevel, Transcript};
use serde_json::json;

use super::*;
use crate::testing::{self, result, user};

/// A model of provider `p`; `changes` are merged into it.
fn model(changes: Value) -> Model {
    let usual = json!({
        "id": "m", "name": "m", "api": "anthropic-messages", "provider": "p", "baseUrl": "http://h",
        "input": ["text"], "contextWindow": 200_000, "maxTokens": 32_000,
    });
    testing::model(usual, changes)
}

fn request(changes: Value, history: &[Value]) -> ModelRequest {
    let mut request = testing::request(model(changes), history);
    request.options.cache = CacheRetention::None;
    request
}

fn text_of(request: &ModelRequest) -> String {
    String::from_utf8(body(request, Place::Anthropic).unwrap()).unwrap()
}

fn json_of(request: &ModelRequest) -> Value {
    serde_json::from_str(&text_of(request)).unwrap()
}

/// A response of model `m`, of provider `p` unless `provider` is another.
fn assistant(provider: &str, content: Value) -> Value {
    json!({
        "role": "assistant", "content": content, "api": "anthropic-messages", "provider": provider, "model": "m",
        "usage": {}, "stopReason": "stop",
    })
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn thinking(text: &str, signature: &str) -> Value {
    json!({"type": "thinking", "thinking": text, "thinkingSignature": signature})
}

fn call(id: &str) -> Value {
    json!({"type": "toolCall", "id": id, "name": "read", "arguments": {"path": "a.txt"}})
}

fn failed(id: &str, content: Value) -> Value {
    let mut result = result(id, content);
    result["isError"] = json!(true);
    result
}

fn image(mime: &str) -> Value {
    json!({"type": "image", "data": "AA==", "mimeType": mime})
}

fn wire_image(mime: &str) -> Value {
    json!({"type": "image", "source": {"type": "base64", "media_type": mime, "data": "AA=="}})
}

fn wire_call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "read", "input": {"path": "a.txt"}})
}

fn wire_result(id: &str, content: Value) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": content, "is_error": false})
}

fn wire_user(content: Value) -> Value {
    json!({"role": "user", "content": content})
}

fn wire_assistant(content: Value) -> Value {
    json!({"role": "assistant", "content": content})
}

fn read_tool() -> Arc<[ToolSpec]> {
    Arc::new([ToolSpec {
        name: "read".into(),
        description: "Reads".into(),
        parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"], "additionalProperties": false}),
    }])
}

/// The messages of a request with `history` to the model with `changes`.
fn check(changes: Value, history: &[Value], expected: Value) {
    assert_eq!(
        json_of(&request(changes, history))["messages"],
        expected,
        "{history:?}"
    );
}

fn tool_round() -> Vec<Value> {
    vec![
        user(json!("go")),
        assistant("p", json!([thinking("hm", "sig"), text("ok"), call("c1")])),
        result("c1", json!([text("A\n")])),
    ]
}

#[test]
fn the_whole_body_byte_for_byte() {
    let changes = json!({"reasoning": true, "id": "m"});
    let mut request = request(changes, &tool_round());
    request.system_prompt = "SYS".into();
    request.tools = read_tool();
    request.options.cache = CacheRetention::Short;
    request.options.thinking = ThinkingLevel::Low;
    let messages = concat!(
        r#""messages":[{"role":"user","content":[{"type":"text","text":"go"}]},"#,
        r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"sig"},{"type":"text","text":"ok"},"#,
        r#"{"type":"tool_use","id":"c1","name":"read","input":{"path":"a.txt"}}]},"#,
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"A\n","is_error":false,"cache_control":{"type":"ephemeral"}}]}],"#,
    );
    let rest = concat!(
        r#""max_tokens":32000,"stream":true,"system":[{"type":"text","text":"SYS","cache_control":{"type":"ephemeral"}}],"#,
        r#""tools":[{"name":"read","description":"Reads","eager_input_streaming":true,"#,
        r#""input_schema":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]},"cache_control":{"type":"ephemeral"}}],"#,
        r#""thinking":{"type":"enabled","budget_tokens":2048,"display":"summarized"}}"#,
    );
    let expected = format!(r#"{{"model":"m",{messages}{rest}"#);
    assert_eq!(text_of(&request), expected);
    assert_eq!(text_of(&request.clone()), expected);
    let vertex = body(&request, Place::Vertex).unwrap();
    let expected = format!(r#"{{"anthropic_version":"vertex-2023-10-16",{messages}{rest}"#);
    assert_eq!(String::from_utf8(vertex).unwrap(), expected);
}

#[test]
fn only_what_is_needed_is_sent_and_the_output_cap_always() {
    let mut request = request(json!({}), &[user(json!("hi"))]);
    request.system_prompt = " \n".into();
    let expected = r#"{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"max_tokens":32000,"stream":true}"#;
    assert_eq!(text_of(&request), expected);
    request.options.max_output_tokens = Some(9);
    assert_eq!(json_of(&request)["max_tokens"], 9);
}

#[test]
fn an_earlier_request_is_the_beginning_of_the_next_but_for_its_marks() {
    let history = tool_round();
    let body_of = |count: usize, cache| {
        let mut request = request(json!({"reasoning": true}), &history[..count]);
        request.options.cache = cache;
        request.system_prompt = "SYS".into();
        request.tools = read_tool();
        json_of(&request)
    };
    let (first, second) = (
        body_of(1, CacheRetention::None),
        body_of(3, CacheRetention::None),
    );
    assert_eq!(first["messages"][0], second["messages"][0]);
    assert_eq!(
        (&first["system"], &first["tools"]),
        (&second["system"], &second["tools"])
    );
    let (first, second) = (
        body_of(1, CacheRetention::Long),
        body_of(3, CacheRetention::Long),
    );
    let mark = json!({"type": "ephemeral", "ttl": "1h"});
    assert_eq!(first["messages"][0]["content"][0]["cache_control"], mark);
    assert_eq!(second["messages"][2]["content"][0]["cache_control"], mark);
    assert_eq!(second.to_string().matches("cache_control").count(), 3);
}

#[test]
fn compat_flags_change_marks_and_tools() {
    let rows = [
        (
            json!({}),
            json!({"type": "ephemeral", "ttl": "1h"}),
            true,
            true,
        ),
        (
            json!({"compat": {"supportsLongCacheRetention": false}}),
            json!({"type": "ephemeral"}),
            true,
            true,
        ),
        (
            json!({"compat": {"supportsCacheControlOnTools": false}}),
            json!({"type": "ephemeral", "ttl": "1h"}),
            false,
            true,
        ),
        (
            json!({"compat": {"supportsEagerToolInputStreaming": false, "supportsTemperature": false}}),
            json!({"type": "ephemeral", "ttl": "1h"}),
            true,
            false,
        ),
        (
            json!({"provider": "fireworks"}),
            json!({"type": "ephemeral"}),
            false,
            false,
        ),
        (
            json!({"provider": "fireworks", "compat": {"supportsEagerToolInputStreaming": true, "later": 1}}),
            json!({"type": "ephemeral"}),
            false,
            true,
        ),
    ];
    for (changes, mark, on_tools, eager) in rows {
        let mut request = request(changes.clone(), &[user(json!("hi"))]);
        request.options.cache = CacheRetention::Long;
        request.tools = read_tool();
        let body = json_of(&request);
        assert_eq!(
            body["messages"][0]["content"][0]["cache_control"], mark,
            "{changes}"
        );
        let tool = &body["tools"][0];
        assert_eq!(
            tool.get("cache_control"),
            on_tools.then_some(&mark),
            "{changes}"
        );
        assert_eq!(
            tool.get("eager_input_streaming"),
            eager.then_some(&json!(true)),
            "{changes}"
        );
    }
}

#[test]
fn a_cache_of_an_hour_is_given_up_by_form_switch_or_setting() {
    let ttl = |changes: Value, forms: &[FormSwitch]| {
        let mut request = request(changes, &[user(json!("hi"))]);
        request.options.cache = CacheRetention::Long;
        request.options.forms = forms.to_vec();
        json_of(&request)["messages"][0]["content"][0]["cache_control"]["ttl"].clone()
    };
    let set = |value: bool| json!({"compat": {"supportsLongCacheRetention": value}});
    assert_eq!(ttl(json!({}), &[FormSwitch::NoStore]), "1h");
    assert_eq!(ttl(set(true), &[FormSwitch::NoLongCache]), Value::Null);
    assert_eq!(ttl(set(false), &[]), Value::Null);
}

#[test]
fn schemas_keep_what_the_api_takes() {
    let rows = [
        (
            json!({}),
            json!({"type": "object", "properties": {}, "required": []}),
        ),
        (
            json!({"type": "string", "properties": [], "required": "x"}),
            json!({"type": "object", "properties": {}, "required": []}),
        ),
        (
            json!({"anyOf": [], "properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {}}, "required": ["a", 1]}),
            json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "required": ["a"], "$defs": {"x": {}}}),
        ),
    ];
    for (parameters, expected) in rows {
        assert_eq!(serde_json::to_value(schema(&parameters)).unwrap(), expected);
    }
}

#[test]
fn user_content_has_no_blank_texts_and_only_formats_that_are_taken() {
    let omitted = text("(image omitted: only JPEG, PNG, GIF and WebP can be sent)");
    let images = json!({"input": ["text", "image"]});
    check(
        images.clone(),
        &[user(json!([
            text("hi"),
            text(" "),
            image("image/png"),
            image("image/jpg"),
            image("image/bmp")
        ]))],
        json!([wire_user(json!([
            text("hi"),
            wire_image("image/png"),
            wire_image("image/jpeg"),
            omitted
        ]))]),
    );
    check(
        images,
        &[user(json!("")), user(json!(" \n")), user(json!("hi"))],
        json!([wire_user(json!([text("hi")]))]),
    );
    check(
        json!({}),
        &[user(json!([image("image/png")]))],
        json!([wire_user(json!([text(
            "(image omitted: model does not support images)"
        )]))]),
    );
}

#[test]
fn results_of_a_turn_share_a_message() {
    let history = [
        user(json!("go")),
        assistant("p", json!([call("a"), call("b"), call("c"), call("d")])),
        result("b", json!([text("B1"), text("B2")])),
        result("a", json!([])),
        result("c", json!([image("image/png")])),
        result("d", json!([text("see"), image("image/png")])),
        user(json!("on")),
    ];
    let expected = json!([
        wire_user(json!([text("go")])),
        wire_assistant(json!([
            wire_call("a"),
            wire_call("b"),
            wire_call("c"),
            wire_call("d")
        ])),
        wire_user(json!([
            wire_result("b", json!("B1\nB2")),
            wire_result("a", json!("(no output)")),
            wire_result(
                "c",
                json!([text("(see attached image)"), wire_image("image/png")])
            ),
            wire_result("d", json!([text("see"), wire_image("image/png")])),
        ])),
        wire_user(json!([text("on")])),
    ]);
    check(json!({"input": ["text", "image"]}), &history, expected);
}

#[test]
fn a_failed_result_holds_only_text_and_its_images_follow() {
    let history = [
        user(json!("go")),
        assistant("p", json!([call("a"), call("b")])),
        failed("a", json!([image("image/png")])),
        failed("b", json!([])),
    ];
    let error = |id: &str, content: &str| json!({"type": "tool_result", "tool_use_id": id, "content": content, "is_error": true});
    let expected = json!([
        wire_user(json!([text("go")])),
        wire_assistant(json!([wire_call("a"), wire_call("b")])),
        wire_user(json!([
            error("a", "(see attached image)"),
            error("b", "(no output)"),
            wire_image("image/png")
        ])),
    ]);
    check(json!({"input": ["text", "image"]}), &history, expected);
}

#[test]
fn the_first_word_is_the_users_and_so_is_the_one_between_two_answers() {
    let said = wire_user(json!([text("(no message)")]));
    check(
        json!({}),
        &[
            assistant("p", json!([text("a")])),
            user(json!(" ")),
            assistant("p", json!([text("b ")])),
        ],
        json!([
            said,
            wire_assistant(json!([text("a")])),
            said,
            wire_assistant(json!([text("b")]))
        ]),
    );
}

#[test]
fn a_last_answer_is_continued_without_white_space_or_gets_a_users_word() {
    let history = [user(json!("q")), assistant("p", json!([text("a \n")]))];
    let rows = [
        (json!({}), ThinkingLevel::Off, false),
        (json!({"reasoning": true}), ThinkingLevel::Off, false),
        (json!({"reasoning": true}), ThinkingLevel::High, true),
        (
            json!({"reasoning": true, "compat": {"forceAdaptiveThinking": true}}),
            ThinkingLevel::Off,
            true,
        ),
    ];
    for (changes, level, bridged) in rows {
        let mut request = request(changes.clone(), &history);
        request.options.thinking = level;
        request.options.cache = CacheRetention::Short;
        let messages = json_of(&request)["messages"].clone();
        let marked = json!({"type": "text", "text": "q", "cache_control": {"type": "ephemeral"}});
        assert_eq!(messages[0]["content"][0], marked);
        let words = if bridged { "a \n" } else { "a" };
        assert_eq!(messages[1]["content"][0]["text"], words, "{changes}");
        let last = bridged.then(|| wire_user(json!([text("(no message)")])));
        assert_eq!(messages.get(2), last.as_ref(), "{changes}");
    }
}

#[test]
fn names_and_ids_fit_whoever_made_them_up() {
    let long = "x".repeat(200);
    let mut odd = call("call|item/1");
    odd["name"] = json!("functions.read");
    let mut nameless = call(&long);
    nameless["name"] = json!("");
    let history = [
        user(json!("go")),
        assistant("q", json!([odd, nameless])),
        result("call|item/1", json!([text("r")])),
        result(&long, json!([text("s")])),
    ];
    let messages = json_of(&request(json!({}), &history))["messages"].clone();
    let calls = &messages[1]["content"];
    assert_eq!(
        (&calls[0]["id"], &calls[0]["name"]),
        (&json!("call_item_1"), &json!("functions_read"))
    );
    assert_eq!(
        (&calls[1]["id"], &calls[1]["name"]),
        (&json!(&long[..64]), &json!("unnamed"))
    );
    let results = &messages[2]["content"];
    assert_eq!(
        (&results[0]["tool_use_id"], &results[1]["tool_use_id"]),
        (&calls[0]["id"], &calls[1]["id"])
    );
}

#[test]
fn histories_that_compaction_or_a_crash_left_are_mended_around_whole_signed_blocks() {
    let context = |messages: &[Value]| {
        let messages = messages.iter().map(|message| {
            let mut message = message.clone();
            message["timestamp"] = json!(1);
            Arc::new(serde_json::from_value::<Message>(message).unwrap())
        });
        let mut request = request(json!({"reasoning": true}), &[]);
        request.options.thinking = ThinkingLevel::High;
        request.transcript = Transcript::from_context(&messages.collect::<Vec<_>>());
        json_of(&request)["messages"].clone()
    };
    let signed = json!({"type": "thinking", "thinking": "hm", "signature": "sig"});
    let missing = json!({"type": "tool_result", "tool_use_id": "c1", "content": "No result provided", "is_error": true});
    // A result whose call was summarised, beside the user's text.
    let cut = context(&[result("gone", json!([text("r")])), user(json!("go"))]);
    assert_eq!(cut, json!([wire_user(json!([text("go")]))]));
    // A call without a result beside signed thinking.
    let orphan = context(&[
        user(json!("go")),
        assistant("p", json!([thinking("hm", "sig"), call("c1")])),
        user(json!("on")),
    ]);
    let turn = wire_assistant(json!([signed, wire_call("c1")]));
    assert_eq!(
        orphan,
        json!([
            wire_user(json!([text("go")])),
            turn,
            wire_user(json!([missing])),
            wire_user(json!([text("on")]))
        ])
    );
    // The same id twice in one turn, and again in a later one.
    let round = [
        assistant("p", json!([thinking("hm", "sig"), call("c1"), call("c1")])),
        result("c1", json!([text("r")])),
    ];
    let twice = context(&[&[user(json!("go"))], &round[..], &round[..]].concat());
    let expected = json!([
        wire_user(json!([text("go")])),
        turn,
        wire_user(json!([wire_result("c1", json!("r"))])),
        wire_assistant(json!([signed, wire_call("c1_2")])),
        wire_user(json!([wire_result("c1_2", json!("r"))])),
    ]);
    assert_eq!(twice, expected);
}

#[path = "request_thinking_tests.rs"]
mod thinking;
