//! Bodies of requests, byte for byte or by path.

use std::sync::Arc;

use fluzo_llm::{FormSwitch, RequestOptions};
use serde_json::json;

use super::*;
use crate::testing::{self, result, user};

const API: &str = "openai-responses";

/// A model of provider `p`; `changes` are merged into it.
fn model(changes: Value) -> Model {
    let usual = json!({
        "id": "m", "name": "m", "api": API, "provider": "p", "baseUrl": "http://h/v1",
        "input": ["text"], "contextWindow": 1000, "maxTokens": 100,
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

/// A response of `model` of `provider` in the dialect `api`.
fn answer(provider: &str, api: &str, model: &str, content: Value) -> Value {
    json!({
        "role": "assistant", "content": content, "api": api, "provider": provider, "model": model,
        "usage": {}, "stopReason": "stop",
    })
}

fn own(content: Value) -> Value {
    answer("p", API, "m", content)
}

fn call(id: &str) -> Value {
    json!({"type": "toolCall", "id": id, "name": "read", "arguments": {"path": "a.txt"}})
}

fn said(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn signed(text: &str, id: &str) -> Value {
    json!({"type": "text", "text": text, "textSignature": format!(r#"{{"v":1,"id":"{id}","phase":"commentary"}}"#)})
}

const REASONING: &str = r#"{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"gA+/=","later":1.50}"#;

fn thought(signature: &str) -> Value {
    json!({"type": "thinking", "thinking": "hm", "thinkingSignature": signature})
}

fn read_tool() -> Arc<[ToolSpec]> {
    Arc::new([ToolSpec {
        name: "read".into(),
        description: "Reads".into(),
        parameters: json!({"type": "object"}),
    }])
}

#[test]
fn the_whole_body_byte_for_byte() {
    let content = json!([
        thought(REASONING),
        signed("ok", "msg_9"),
        call("call_1|fc_1")
    ]);
    let mut request = request(
        json!({"reasoning": true}),
        &[
            user(json!("go")),
            own(content),
            result("call_1|fc_1", json!([said("A\n")])),
        ],
    );
    request.system_prompt = "SYS".into();
    request.tools = read_tool();
    request.options = RequestOptions {
        thinking: ThinkingLevel::High,
        session_id: Some("s1".into()),
        max_output_tokens: Some(4096),
        cache: CacheRetention::Long,
        ..RequestOptions::default()
    };
    let expected = [
        r#"{"model":"m","input":[{"role":"developer","content":"SYS"},"#,
        r#"{"role":"user","content":[{"type":"input_text","text":"go"}]},"#,
        REASONING,
        r#",{"type":"message","role":"assistant","content":[{"type":"output_text","text":"ok","annotations":[]}],"status":"completed","id":"msg_9","phase":"commentary"},"#,
        r#"{"type":"function_call","id":"fc_1","call_id":"call_1","name":"read","arguments":"{\"path\":\"a.txt\"}"},"#,
        r#"{"type":"function_call_output","call_id":"call_1","output":"A\n"}],"#,
        r#""stream":true,"prompt_cache_key":"s1","prompt_cache_retention":"24h","store":false,"max_output_tokens":4096,"#,
        r#""tools":[{"type":"function","name":"read","description":"Reads","parameters":{"type":"object"},"strict":false}],"#,
        r#""reasoning":{"effort":"high","summary":"auto"},"include":["reasoning.encrypted_content"]}"#,
    ]
    .concat();
    assert_eq!(text_of(&request), expected);
    assert_eq!(text_of(&request.clone()), expected);
}

#[test]
fn nothing_is_sent_that_is_not_asked_for() {
    let request = request(json!({}), &[user(json!("go"))]);
    let expected = r#"{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"go"}]}],"stream":true,"store":false}"#;
    assert_eq!(text_of(&request), expected);
}

/// The values at `pointers` in the body of `request`.
fn at(request: &ModelRequest, pointers: &[&str]) -> Vec<Option<Value>> {
    let json = json_of(request);
    let value = |pointer: &&str| json.pointer(pointer).cloned();
    pointers.iter().map(value).collect()
}

#[test]
fn cache_fields_follow_session_retention_and_server() {
    use CacheRetention::{Long, None as Never, Short};
    let long = "y".repeat(70);
    let azure = json!({"api": AZURE_API});
    let no_long = json!({"compat": {"supportsLongCacheRetention": false}});
    let rows = [
        (json!({}), "s1", Short, Some("s1"), false),
        (json!({}), "s1", Long, Some("s1"), true),
        (json!({}), "s1", Never, None, false),
        (json!({}), &*long, Short, Some(&long[..64]), false),
        (azure, "s1", Long, Some("s1"), false),
        (no_long, "s1", Long, Some("s1"), false),
    ];
    for (changes, session, cache, key, kept) in rows {
        let mut request = request(changes, &[]);
        request.options.session_id = Some(session.into());
        request.options.cache = cache;
        let expected = [key.map(Value::from), kept.then(|| json!("24h"))];
        let pointers = ["/prompt_cache_key", "/prompt_cache_retention"];
        assert_eq!(at(&request, &pointers), expected, "{cache:?}");
    }
}

#[test]
fn thinking_levels() {
    use ThinkingLevel::{High, Low, Minimal, Off, Xhigh};
    let reasoning = |changes: Value| {
        let mut all = json!({"reasoning": true});
        all.as_object_mut()
            .unwrap()
            .extend(changes.as_object().unwrap().clone());
        all
    };
    let mapped = |map: Value| reasoning(json!({"thinkingLevelMap": map}));
    let think = |effort: &str| Some(json!({"effort": effort, "summary": "auto"}));
    let rows = [
        (json!({}), High, None),
        (json!({}), Off, None),
        (reasoning(json!({})), Low, think("low")),
        (reasoning(json!({})), Xhigh, think("high")),
        (mapped(json!({"xhigh": "max"})), Xhigh, think("max")),
        (
            mapped(json!({"minimal": null, "low": null})),
            Minimal,
            think("medium"),
        ),
        (reasoning(json!({})), Off, Some(json!({"effort": "none"}))),
        (
            mapped(json!({"off": "disabled"})),
            Off,
            Some(json!({"effort": "disabled"})),
        ),
        // The server has no word for it: as little as it allows.
        (mapped(json!({"off": null})), Off, think("minimal")),
        (reasoning(json!({"provider": "github-copilot"})), Off, None),
        (
            reasoning(json!({"baseUrl": "https://api.individual.githubcopilot.com"})),
            Off,
            None,
        ),
        (
            reasoning(json!({"provider": "github-copilot"})),
            Low,
            think("low"),
        ),
        (
            reasoning(json!({"compat": {"supportsReasoningEffort": false}})),
            Low,
            Some(json!({"summary": "auto"})),
        ),
        (
            reasoning(json!({"compat": {"supportsReasoningEffort": false}})),
            Off,
            None,
        ),
    ];
    for (changes, level, expected) in rows {
        let mut request = request(changes.clone(), &[]);
        request.options.thinking = level;
        let thinks = expected
            .as_ref()
            .is_some_and(|r| r.get("summary").is_some());
        let include = thinks.then(|| json!(["reasoning.encrypted_content"]));
        assert_eq!(
            at(&request, &["/reasoning", "/include"]),
            [expected, include],
            "{changes} {level:?}"
        );
    }
}

#[test]
fn roles_names_caps_and_forms() {
    let sent = |changes: Value, forms: &[FormSwitch]| {
        let mut request = request(changes, &[]);
        request.system_prompt = "S".into();
        request.tools = read_tool();
        request.options.forms = forms.to_vec();
        request.options.max_output_tokens = Some(3);
        let pointers = [
            "/model",
            "/input/0/role",
            "/store",
            "/tools/0/strict",
            "/max_output_tokens",
        ];
        let values = at(&request, &pointers);
        let word = |value: Option<Value>| value.map_or("-".to_owned(), |v| v.to_string());
        values
            .into_iter()
            .map(word)
            .collect::<Vec<_>>()
            .join(" ")
            .replace('"', "")
    };
    let think = |compat: Value| json!({"reasoning": true, "compat": compat});
    let rows = [
        (json!({}), vec![], "m system false false 16"),
        (think(json!({})), vec![], "m developer false false 16"),
        (
            think(json!({"supportsDeveloperRole": false})),
            vec![],
            "m system false false 16",
        ),
        (
            think(json!({})),
            vec![FormSwitch::SystemRole],
            "m system false false 16",
        ),
        (
            json!({}),
            vec![
                FormSwitch::NoStore,
                FormSwitch::NoStrict,
                FormSwitch::MaxTokens,
            ],
            "m system - - 16",
        ),
        (
            json!({"compat": {"supportsStore": false, "supportsStrictMode": "no"}}),
            vec![],
            "m system - false 16",
        ),
        (
            json!({"compat": {"deployment": "d"}}),
            vec![],
            "m system false false 16",
        ),
        (
            json!({"api": AZURE_API, "compat": {"deployment": "d"}}),
            vec![],
            "d system false false 16",
        ),
        (
            json!({"api": AZURE_API, "compat": {"deployment": ""}}),
            vec![],
            "m system false false 16",
        ),
    ];
    for (changes, forms, expected) in rows {
        assert_eq!(sent(changes, &forms), expected);
    }
}

/// The input of a request with `history` to the model with `changes`.
fn check(changes: Value, history: &[Value], expected: Value) {
    assert_eq!(
        json_of(&request(changes, history))["input"],
        expected,
        "{history:?}"
    );
}

/// The text item `id`.
fn message(text: &str, id: &str) -> Value {
    json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text, "annotations": []}],
        "status": "completed", "id": id})
}

fn function_call(id: Option<&str>, call_id: &str) -> Value {
    let mut item = json!({"type": "function_call"});
    if let Some(id) = id {
        item["id"] = json!(id);
    }
    let map = item.as_object_mut().unwrap();
    map.extend([
        ("call_id".to_owned(), json!(call_id)),
        ("name".to_owned(), json!("read")),
        ("arguments".to_owned(), json!(r#"{"path":"a.txt"}"#)),
    ]);
    item
}

fn function_output(call_id: &str, output: Value) -> Value {
    json!({"type": "function_call_output", "call_id": call_id, "output": output})
}

#[test]
fn images_of_users_and_tools_stay_in_their_place() {
    let image = json!({"type": "image", "data": "AA==", "mimeType": "image/png"});
    let wire_image =
        json!({"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,AA=="});
    let text = |text: &str| json!({"type": "input_text", "text": text});
    let history = |output: Value| {
        [
            user(json!([said("look"), image])),
            own(json!([call("c")])),
            result("c", output),
        ]
    };
    let sees = json!({"input": ["text", "image"]});
    let outputs = [
        (
            json!([said("a"), image, said("b")]),
            json!([text("a\nb"), wire_image]),
        ),
        (json!([image]), json!([wire_image])),
        (json!([said("a"), said("b")]), json!("a\nb")),
        (json!([]), json!("(no output)")),
    ];
    for (content, output) in outputs {
        let expected = json!([
            {"role": "user", "content": [text("look"), wire_image]},
            function_call(None, "c"),
            function_output("c", output),
        ]);
        check(sees.clone(), &history(content), expected);
    }
    let blind = json!([
        {"role": "user", "content": [text("look"), text("(image omitted: model does not support images)")]},
        function_call(None, "c"),
        function_output("c", json!("a\n(tool image omitted: model does not support images)")),
    ]);
    check(json!({}), &history(json!([said("a"), image])), blind);
}

#[test]
fn items_keep_their_ids_for_their_own_model_only() {
    let content = json!([signed("yes", "msg_9"), call("call_1|fc_1")]);
    let history = |answer: Value| [answer, result("call_1|fc_1", json!([said("r")]))];
    let output = function_output("call_1", json!("r"));
    let mut kept = message("yes", "msg_9");
    kept["phase"] = json!("commentary");
    let hashed = "fc_00e35b7920c3ad16";
    let rows = [
        (own(content.clone()), kept, Some("fc_1")),
        (
            answer("p", API, "other", content.clone()),
            message("yes", "msg_0"),
            None,
        ),
        (
            answer("q", API, "m", content.clone()),
            message("yes", "msg_0"),
            Some(hashed),
        ),
        (
            answer("p", "openai-completions", "m", content),
            message("yes", "msg_0"),
            Some(hashed),
        ),
    ];
    for (answer, text, id) in rows {
        let expected = json!([text, function_call(id, "call_1"), output]);
        check(json!({}), &history(answer), expected);
    }
}

#[test]
fn foreign_and_odd_ids_are_made_fit() {
    let long = format!("call_{}", "z".repeat(400));
    let rows: [(&str, &str, Option<&str>); 4] = [
        ("toolu_1", "toolu_1", None),
        ("functions.read:0", "functions_read_0", None),
        (&long, &long[..64], None),
        ("call_1|uuid", "call_1", Some("fc_")),
    ];
    for (id, call_id, item) in rows {
        let history = [own(json!([call(id)])), result(id, json!([said("r")]))];
        let json = json_of(&request(json!({}), &history));
        assert_eq!(json["input"][0]["call_id"], call_id);
        assert_eq!(json["input"][1]["call_id"], call_id);
        let sent = json["input"][0]
            .get("id")
            .map(|id| &id.as_str().unwrap()[..3]);
        assert_eq!(sent, item, "{id}");
    }
    // The same call id in two turns: the second is renamed with its result.
    let turn = |id: &str| [own(json!([call(id)])), result(id, json!([said("r")]))];
    let history = [turn("c|fc_1"), turn("c|fc_2")].concat();
    let expected = json!([
        function_call(Some("fc_1"), "c"),
        function_output("c", json!("r")),
        function_call(Some("fc_2"), "c_2"),
        function_output("c_2", json!("r")),
    ]);
    check(json!({}), &history, expected);
}

#[test]
fn texts_without_an_id_are_numbered_and_ids_are_unique() {
    let history = [
        own(json!([said("a"), said("b")])),
        user(json!("u")),
        own(json!([
            signed("c", "msg_2"),
            signed("d", "msg_2"),
            said("e")
        ])),
    ];
    let json = json_of(&request(json!({}), &history));
    let ids: Vec<_> = json["input"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|i| i["id"].as_str())
        .collect();
    assert_eq!(ids, ["msg_0", "msg_1", "msg_2", "msg_3", "msg_4"]);
}

#[test]
fn reasoning_goes_back_with_the_item_it_led_to_or_not_at_all() {
    let item: Value = serde_json::from_str(REASONING).unwrap();
    let summary_only = r#"{"type":"reasoning","id":"rs_2","summary":[]}"#;
    let done = |rest: &[Value]| [rest, &[result("c|fc_1", json!([said("r")]))]].concat();
    let output = function_output("c", json!("r"));
    let with = |items: Vec<Value>| json!(items);
    let numbered = |text: &str| {
        let mut item = message(text, "msg_0");
        item["phase"] = json!("commentary");
        item
    };
    let mut kept = numbered("t");
    kept["id"] = json!("msg_9");
    // Followed by a call, by a text; two before one item.
    check(
        json!({}),
        &done(&[own(json!([thought(REASONING), call("c|fc_1")]))]),
        with(vec![
            item.clone(),
            function_call(Some("fc_1"), "c"),
            output.clone(),
        ]),
    );
    check(
        json!({}),
        &[own(json!([
            thought(REASONING),
            thought(REASONING),
            signed("t", "msg_9")
        ]))],
        with(vec![item.clone(), item.clone(), kept.clone()]),
    );
    // The item was lost, with the cut-off response.
    check(
        json!({}),
        &[
            own(json!([signed("t", "msg_9"), thought(REASONING)])),
            user(json!("u")),
        ],
        with(vec![
            kept,
            json!({"role": "user", "content": [{"type": "input_text", "text": "u"}]}),
        ]),
    );
    // Reasoning that cannot go back: what it led to is no item that the server knows.
    for lost in [
        thought(summary_only),
        json!({"type": "thinking", "thinking": "hm"}),
        thought("reasoning"),
    ] {
        check(
            json!({}),
            &done(&[own(json!([lost, signed("t", "msg_9"), call("c|fc_1")]))]),
            with(vec![
                numbered("t"),
                function_call(None, "c"),
                output.clone(),
            ]),
        );
    }
    // Of another model it is a text.
    check(
        json!({}),
        &[answer(
            "p",
            API,
            "other",
            json!([thought(REASONING), signed("t", "msg_9")]),
        )],
        with(vec![message("hm", "msg_0"), message("t", "msg_1")]),
    );
}

#[test]
fn calls_come_last_with_the_reasoning_that_led_to_them() {
    let other = REASONING.replace("rs_1", "rs_2");
    let content = json!([
        thought(REASONING),
        call("c|fc_1"),
        thought(&other),
        signed("t", "msg_9"),
        call("d|fc_2"),
    ]);
    let history = [
        own(content),
        result("d|fc_2", json!([said("D")])),
        result("c|fc_1", json!([said("C")])),
    ];
    let json = json_of(&request(json!({}), &history));
    let items = json["input"].as_array().unwrap().iter();
    let names: Vec<&str> = items
        .map(|i| i["id"].as_str().or(i["call_id"].as_str()).unwrap())
        .collect();
    assert_eq!(names, ["rs_2", "msg_9", "rs_1", "fc_1", "fc_2", "d", "c"]);
}

#[test]
fn earlier_items_never_change_when_the_conversation_goes_on() {
    let mut history = Vec::new();
    let mut before = String::new();
    for n in 0..4 {
        let id = format!("call_{n}|fc_{n}");
        history.push(user(json!(format!("u{n}"))));
        history.push(own(json!([thought(REASONING), said("t"), call(&id)])));
        history.push(result(&id, json!([said("r")])));
        let text = text_of(&request(json!({}), &history));
        let (input, _) = text.split_once(r#"],"stream""#).unwrap();
        assert!(input.starts_with(&before), "{input}");
        before = input.to_owned();
    }
}
