//! Bodies of requests, byte for byte or by path.

use std::sync::Arc;

use super::*;
use crate::testing::{self, result, user};

/// A model of provider `p`; `changes` are merged into it.
fn model(changes: Value) -> Model {
    let usual = json!({
        "id": "m", "name": "m", "api": "openai-completions", "provider": "p", "baseUrl": "http://h/v1",
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

/// A response of model `m`, of provider `p` unless `provider` is another.
fn assistant(provider: &str, content: Value) -> Value {
    json!({
        "role": "assistant", "content": content, "api": "openai-completions", "provider": provider, "model": "m",
        "usage": {}, "stopReason": "stop",
    })
}

fn call(id: &str) -> Value {
    json!({"type": "toolCall", "id": id, "name": "read", "arguments": {"path": "a.txt"}})
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
    let mut request = request(
        json!({}),
        &[
            user(json!("go")),
            assistant("p", json!([{"type": "text", "text": "ok"}, call("c1")])),
            result("c1", json!([{"type": "text", "text": "A\n"}])),
        ],
    );
    request.system_prompt = "SYS".into();
    request.tools = read_tool();
    request.options.max_output_tokens = Some(4096);
    let expected = concat!(
        r#"{"model":"m","messages":["#,
        r#"{"role":"system","content":"SYS"},"#,
        r#"{"role":"user","content":[{"type":"text","text":"go"}]},"#,
        r#"{"role":"assistant","content":"ok","tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{\"path\":\"a.txt\"}"}}]},"#,
        r#"{"role":"tool","content":"A\n","tool_call_id":"c1"}],"#,
        r#""stream":true,"stream_options":{"include_usage":true},"store":false,"max_completion_tokens":4096,"#,
        r#""tools":[{"type":"function","function":{"name":"read","description":"Reads","parameters":{"type":"object"},"strict":false}}]}"#,
    );
    assert_eq!(text_of(&request), expected);
    assert_eq!(text_of(&request.clone()), expected);
}

#[test]
fn no_output_cap_is_sent_unless_asked_for() {
    let keys: Vec<String> = json_of(&request(json!({}), &[]))
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect();
    assert_eq!(
        keys,
        ["model", "messages", "stream", "stream_options", "store"]
    );
}

#[test]
fn compat_flags_change_the_keys() {
    let compat = json!({
        "supportsStore": false, "maxTokensField": "max_tokens", "supportsStrictMode": false, "supportsUsageInStreaming": false,
        "openRouterRouting": {"zdr": true}, "vercelGatewayRouting": {"only": ["x"]},
    });
    let mut request = request(json!({"compat": compat, "reasoning": true}), &[]);
    request.tools = read_tool();
    request.options.max_output_tokens = Some(9);
    request.options.thinking = ThinkingLevel::Low;
    let expected = r#"{"model":"m","messages":[],"stream":true,"max_tokens":9,"tools":[{"type":"function","function":{"name":"read","description":"Reads","parameters":{"type":"object"}}}],"reasoning_effort":"low","provider":{"zdr":true},"providerOptions":{"gateway":{"only":["x"]}}}"#;
    assert_eq!(text_of(&request), expected);
}

#[test]
fn the_cache_key_goes_only_where_it_is_known() {
    for (base, sent) in [("https://api.openai.com/v1", true), ("http://h/v1", false)] {
        let mut request = request(json!({"baseUrl": base}), &[]);
        request.options.session_id = Some("s1".into());
        assert_eq!(
            json_of(&request).get("prompt_cache_key"),
            sent.then(|| json!("s1")).as_ref()
        );
    }
}

#[test]
fn the_role_of_the_system_prompt() {
    let rows = [
        (json!({}), "system"),
        (json!({"reasoning": true}), "developer"),
        (
            json!({"reasoning": true, "compat": {"supportsDeveloperRole": false}}),
            "system",
        ),
        (json!({"reasoning": true, "provider": "deepseek"}), "system"),
    ];
    for (changes, role) in rows {
        let mut request = request(changes, &[]);
        request.system_prompt = "S".into();
        assert_eq!(json_of(&request)["messages"][0]["role"], role);
    }
}

/// The messages of a request with `history` to the model with `changes`.
fn check(changes: Value, history: &[Value], expected: Value) {
    assert_eq!(
        json_of(&request(changes, history))["messages"],
        expected,
        "{history:?}"
    );
}

#[test]
fn user_content_is_always_a_list_of_parts() {
    let image = json!({"type": "image", "data": "AA==", "mimeType": "image/png"});
    let text = json!({"type": "text", "text": "hi"});
    let omitted = json!({"type": "text", "text": "(image omitted: model does not support images)"});
    let url = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}});
    let wire = |parts: Value| json!([{"role": "user", "content": parts}]);
    check(json!({}), &[user(json!("hi"))], wire(json!([text])));
    check(
        json!({}),
        &[user(json!([text, image, image, text, image]))],
        wire(json!([text, omitted, text, omitted])),
    );
    check(
        json!({"input": ["text", "image"]}),
        &[user(json!([text, image]))],
        wire(json!([text, url])),
    );
    check(
        json!({}),
        &[user(json!("")), user(json!([])), user(json!("hi"))],
        wire(json!([text])),
    );
}

#[test]
fn assistant_content_is_a_string_or_null() {
    let call_only = assistant("p", json!([call("c")]));
    let done = result("c", json!([{"type": "text", "text": "r"}]));
    let calls = json!([{"id": "c", "type": "function", "function": {"name": "read", "arguments": "{\"path\":\"a.txt\"}"}}]);
    let tool = json!({"role": "tool", "content": "r", "tool_call_id": "c"});
    check(
        json!({}),
        &[call_only.clone(), done.clone()],
        json!([{"role": "assistant", "content": null, "tool_calls": calls}, tool]),
    );
    let compat = json!({"compat": {"requiresAssistantAfterToolResult": true}});
    check(
        compat,
        &[call_only, done, user(json!("go"))],
        json!([
            {"role": "assistant", "content": "", "tool_calls": calls}, tool,
            {"role": "assistant", "content": "I have processed the tool results."},
            {"role": "user", "content": [{"type": "text", "text": "go"}]},
        ]),
    );
    check(
        json!({}),
        &[assistant("p", json!([{"type": "text", "text": " "}]))],
        json!([]),
    );
    check(
        json!({}),
        &[assistant(
            "p",
            json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
        )],
        json!([{"role": "assistant", "content": "ab"}]),
    );
}

#[test]
fn thinking_goes_back_under_its_field_to_the_same_model_only() {
    let answer = |provider: &str, signature: &str| {
        assistant(
            provider,
            json!([{"type": "thinking", "thinking": "hm", "thinkingSignature": signature}, {"type": "text", "text": "a"}]),
        )
    };
    for field in ["reasoning_content", "reasoning", "reasoning_text"] {
        let mut wire = json!({"role": "assistant", "content": "a"});
        wire[field] = json!("hm");
        check(json!({}), &[answer("p", field)], json!([wire]));
    }
    check(
        json!({}),
        &[answer("p", "strange")],
        json!([{"role": "assistant", "content": "a"}]),
    );
    check(
        json!({}),
        &[answer("q", "reasoning")],
        json!([{"role": "assistant", "content": "hm\n\na"}]),
    );
    let as_text = json!({"compat": {"requiresThinkingAsText": true}});
    check(
        as_text,
        &[answer("p", "reasoning")],
        json!([{"role": "assistant", "content": "hm\n\na"}]),
    );
    let redacted = assistant(
        "q",
        json!([{"type": "thinking", "thinking": "x", "redacted": true}, {"type": "text", "text": "a"}]),
    );
    check(
        json!({}),
        &[redacted],
        json!([{"role": "assistant", "content": "a"}]),
    );
}

#[test]
fn servers_that_require_thinking_on_every_response_get_it() {
    let deepseek = json!({"provider": "deepseek", "reasoning": true});
    let without = assistant("deepseek", json!([{"type": "text", "text": "a"}]));
    let with = assistant(
        "deepseek",
        json!([{"type": "thinking", "thinking": "hm", "thinkingSignature": "reasoning_content"}, call("c")]),
    );
    let done = result("c", json!([{"type": "text", "text": "r"}]));
    let history = [without.clone(), user(json!("on")), with, done];
    let messages = json_of(&request(deepseek, &history))["messages"].clone();
    assert_eq!(
        (
            &messages[0]["reasoning_content"],
            &messages[2]["reasoning_content"]
        ),
        (&json!(""), &json!("hm"))
    );
    let others = json_of(&request(json!({"reasoning": true}), &[without]))["messages"].clone();
    assert_eq!(others[0].get("reasoning_content"), None);
}

#[test]
fn malformed_calls_are_sent_with_empty_arguments() {
    for raw in ["{\"command\":\"x", "\"\"", "[1]", "\"str\""] {
        let bad = json!({"type": "toolCall", "id": "c", "name": "bash", "arguments": {}, "rawArguments": raw});
        let history = [
            assistant("p", json!([bad])),
            result("c", json!([{"type": "text", "text": "e"}])),
        ];
        let messages = json_of(&request(json!({}), &history))["messages"].clone();
        assert_eq!(messages[0]["tool_calls"][0]["function"]["arguments"], "{}");
    }
}

#[test]
fn ids_of_another_model_are_normalised_with_their_results() {
    let long = "x".repeat(50);
    let rows = [
        ("p", "p", "a|b", "a|b"),
        ("p", "q", "call:1|item", "call_1"),
        ("p", "q", long.as_str(), long.as_str()),
        ("openai", "q", long.as_str(), &long[..40]),
    ];
    for (target, source, id, expected) in rows {
        let history = [
            assistant(source, json!([call(id)])),
            result(id, json!([{"type": "text", "text": "r"}])),
        ];
        let messages = json_of(&request(json!({"provider": target}), &history))["messages"].clone();
        assert_eq!(
            (
                &messages[0]["tool_calls"][0]["id"],
                &messages[1]["tool_call_id"]
            ),
            (&json!(expected), &json!(expected))
        );
    }
    let history = [
        assistant("q", json!([call("a|1"), call("a|2")])),
        result("a|2", json!([])),
        result("a|1", json!([])),
    ];
    let messages = json_of(&request(json!({}), &history))["messages"].clone();
    let ids = [
        &messages[0]["tool_calls"][0]["id"],
        &messages[0]["tool_calls"][1]["id"],
        &messages[1]["tool_call_id"],
        &messages[2]["tool_call_id"],
    ];
    assert_eq!(
        ids,
        [&json!("a"), &json!("a_2"), &json!("a_2"), &json!("a")]
    );
}

#[test]
fn images_of_tool_results_follow_all_results() {
    let image = json!({"type": "image", "data": "AA==", "mimeType": "image/png"});
    let text = json!({"type": "text", "text": "r"});
    let history = [
        assistant("p", json!([call("a"), call("b"), call("c")])),
        result("a", json!([image])),
        result("b", json!([text, text, image])),
        result("c", json!([])),
    ];
    let sees = json_of(&request(json!({"input": ["text", "image"]}), &history))["messages"].clone();
    let url = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}});
    let contents: Vec<&Value> = (1..=4).map(|at| &sees[at]["content"]).collect();
    let attached =
        json!([{"type": "text", "text": "Attached image(s) from tool result:"}, url, url]);
    assert_eq!(
        contents,
        [
            &json!("(see attached image)"),
            &json!("r\nr"),
            &json!("(no output)"),
            &attached
        ]
    );
    let blind = json_of(&request(json!({}), &history))["messages"].clone();
    let omitted = "(tool image omitted: model does not support images)";
    assert_eq!(blind[1]["content"], omitted);
    assert_eq!(blind[2]["content"], format!("r\nr\n{omitted}"));
    assert_eq!(blind.as_array().unwrap().len(), 4);
}

#[test]
fn tool_results_carry_a_name_where_it_is_required() {
    let history = [
        assistant("p", json!([call("a")])),
        result("a", json!([{"type": "text", "text": "r"}])),
    ];
    let compat = json!({"compat": {"requiresToolResultName": true}});
    assert_eq!(
        json_of(&request(compat, &history))["messages"][1]["name"],
        "read"
    );
}

#[test]
fn an_empty_tool_list_is_sent_when_the_history_has_calls() {
    let history = [assistant("p", json!([call("a")])), result("a", json!([]))];
    assert_eq!(json_of(&request(json!({}), &history))["tools"], json!([]));
    assert_eq!(json_of(&request(json!({}), &[])).get("tools"), None);
}

#[test]
fn provider_data_of_calls_goes_back_to_the_same_model_only() {
    let detail = r#"{"type":"reasoning.encrypted","id":"a","data":"x"}"#;
    for (provider, sent) in [("p", true), ("q", false)] {
        let mut signed = call("a");
        signed["thoughtSignature"] = json!(detail);
        let history = [assistant(provider, json!([signed])), result("a", json!([]))];
        let messages = json_of(&request(json!({}), &history))["messages"].clone();
        let expected = sent.then(|| json!([serde_json::from_str::<Value>(detail).unwrap()]));
        assert_eq!(messages[0].get("reasoning_details"), expected.as_ref());
    }
}

#[test]
fn cache_marks_where_the_server_takes_them() {
    let mut request = request(
        json!({"provider": "openrouter", "id": "anthropic/x"}),
        &[user(json!("a")), user(json!("b"))],
    );
    request.system_prompt = "S".into();
    request.tools = read_tool();
    let json = json_of(&request);
    let mark = json!({"type": "ephemeral"});
    assert_eq!(json["messages"][0]["content"][0]["cache_control"], mark);
    assert_eq!(json["messages"][1]["content"][0].get("cache_control"), None);
    assert_eq!(json["messages"][2]["content"][0]["cache_control"], mark);
    assert_eq!(json["tools"][0]["cache_control"], mark);
}

#[test]
fn levels_of_thinking_in_every_format() {
    use ThinkingLevel::{High, Off};
    let map = json!({"off": "low", "high": "max"});
    let rows = [
        (
            "openai",
            json!({}),
            High,
            json!({"reasoning_effort": "high"}),
        ),
        ("openai", json!({}), Off, json!({})),
        (
            "openai",
            map.clone(),
            High,
            json!({"reasoning_effort": "max"}),
        ),
        (
            "openai",
            map.clone(),
            Off,
            json!({"reasoning_effort": "low"}),
        ),
        (
            "openrouter",
            json!({}),
            High,
            json!({"reasoning": {"effort": "high"}}),
        ),
        (
            "openrouter",
            json!({}),
            Off,
            json!({"reasoning": {"effort": "none"}}),
        ),
        (
            "deepseek",
            json!({}),
            High,
            json!({"thinking": {"type": "enabled"}, "reasoning_effort": "high"}),
        ),
        (
            "deepseek",
            json!({}),
            Off,
            json!({"thinking": {"type": "disabled"}}),
        ),
        (
            "zai",
            json!({}),
            High,
            json!({"thinking": {"type": "enabled"}}),
        ),
        ("qwen", json!({}), Off, json!({"enable_thinking": false})),
        (
            "qwen-chat-template",
            json!({}),
            High,
            json!({"chat_template_kwargs": {"enable_thinking": true, "preserve_thinking": true}}),
        ),
        (
            "together",
            json!({}),
            Off,
            json!({"reasoning": {"enabled": false}}),
        ),
        (
            "string-thinking",
            json!({}),
            High,
            json!({"thinking": "high"}),
        ),
        (
            "string-thinking",
            json!({}),
            Off,
            json!({"thinking": "none"}),
        ),
        ("ant-ling", json!({}), High, json!({})),
        (
            "ant-ling",
            map,
            High,
            json!({"reasoning": {"effort": "max"}}),
        ),
    ];
    for (format, map, level, expected) in rows {
        let changes = json!({"reasoning": true, "thinkingLevelMap": map, "compat": {"thinkingFormat": format}});
        let model = model(changes);
        assert_eq!(
            Value::Object(thinking(
                &model,
                &Compat::of(&model, &model.base_url, &[]),
                level
            )),
            expected,
            "{format} {level:?}"
        );
    }
}

#[test]
fn a_model_that_cannot_think_is_not_asked_to() {
    let model = model(json!({"compat": {"thinkingFormat": "qwen"}}));
    assert!(
        thinking(
            &model,
            &Compat::of(&model, &model.base_url, &[]),
            ThinkingLevel::High
        )
        .is_empty()
    );
}

#[test]
fn a_level_the_server_does_not_take_is_left_out() {
    let mut request = request(json!({"reasoning": true, "provider": "xai"}), &[]);
    request.options.thinking = ThinkingLevel::High;
    assert_eq!(json_of(&request).get("reasoning_effort"), None);
}

#[test]
fn other_forms() {
    use fluzo_llm::FormSwitch;
    let thought =
        json!({"type": "thinking", "thinking": "hm", "thinkingSignature": "reasoning_content"});
    let history = [
        user(json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])),
        assistant("p", json!([thought, call("c1")])),
        result("c1", json!([{"type": "text", "text": "A"}])),
        user(json!("go on")),
    ];
    let usual = [
        (
            "/messages/1/content",
            json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
        ),
        ("/messages/2/content", Value::Null),
        ("/messages/2/reasoning_content", json!("hm")),
        ("/messages/2/tool_calls/0/id", json!("c1")),
    ];
    type Expected<'a> = &'a [(&'a str, Value)];
    let rows: [(Option<FormSwitch>, Expected<'_>); 16] = [
        (None, &usual),
        (
            Some(FormSwitch::EmptyContent),
            &[("/messages/2/content", json!(""))],
        ),
        (
            Some(FormSwitch::PlainUserContent),
            &[
                ("/messages/1/content", json!("a\nb")),
                ("/messages/4/content", json!("go on")),
            ],
        ),
        (Some(FormSwitch::MaxTokens), &[("/max_tokens", json!(7))]),
        (
            Some(FormSwitch::SystemRole),
            &[("/messages/0/role", json!("system"))],
        ),
        (
            Some(FormSwitch::NoReasoningBack),
            &[("/messages/2/content", Value::Null)],
        ),
        (
            Some(FormSwitch::ShortIds),
            &[
                ("/messages/2/tool_calls/0/id", json!("7pPNQO8GX")),
                ("/messages/3/tool_call_id", json!("7pPNQO8GX")),
            ],
        ),
        (
            Some(FormSwitch::ToolResultName),
            &[("/messages/3/name", json!("read"))],
        ),
        (
            Some(FormSwitch::AnswerAfterResults),
            &[
                ("/messages/4/role", json!("assistant")),
                ("/messages/5/role", json!("user")),
            ],
        ),
        (Some(FormSwitch::NoLongCache), &[("/stream", json!(true))]),
        (Some(FormSwitch::NoContent), &[]),
        (Some(FormSwitch::NoStore), &[]),
        (Some(FormSwitch::NoStrict), &[]),
        (Some(FormSwitch::NoStreamUsage), &[]),
        (Some(FormSwitch::NoReasoningEffort), &[]),
        (Some(FormSwitch::ReasoningBack), &usual),
    ];
    let lacks = [
        (FormSwitch::NoReasoningBack, "/messages/2/reasoning_content"),
        (FormSwitch::NoContent, "/messages/2/content"),
        (FormSwitch::MaxTokens, "/max_completion_tokens"),
        (FormSwitch::NoStore, "/store"),
        (FormSwitch::NoStrict, "/tools/0/function/strict"),
        (FormSwitch::NoStreamUsage, "/stream_options"),
        (FormSwitch::NoReasoningEffort, "/reasoning_effort"),
        (FormSwitch::NoLongCache, "/prompt_cache_retention"),
        (FormSwitch::NoLongCache, "/prompt_cache_key"),
    ];
    for (switch, expected) in rows {
        let mut request = request(json!({"reasoning": true}), &history);
        request.system_prompt = "S".into();
        request.tools = read_tool();
        request.options.max_output_tokens = Some(7);
        request.options.thinking = ThinkingLevel::Low;
        request.options.session_id = Some("s1".into());
        request.options.cache = CacheRetention::Long;
        let before = json_of(&request);
        request.options.forms = switch.into_iter().collect();
        let body = json_of(&request);
        for (place, value) in expected {
            assert_eq!(body.pointer(place), Some(value), "{switch:?} {place}");
        }
        for (_, place) in lacks.iter().filter(|(of, _)| Some(*of) == switch) {
            assert!(before.pointer(place).is_some(), "{place}");
            assert_eq!(body.pointer(place), None, "{switch:?} {place}");
        }
    }
}

#[test]
fn short_ids_are_unlike_each_other() {
    let history = [
        user(json!("go")),
        assistant("p", json!([call("call_1"), call("call_2")])),
        result("call_1", json!([])),
        result("call_2", json!([])),
        assistant("p", json!([call("call_1"), call("abcdefgh9")])),
        result("call_1", json!([])),
        result("abcdefgh9", json!([])),
    ];
    let body = json_of(&request(json!({"provider": "mistral"}), &history));
    let id = |place: &str| body.pointer(place).and_then(Value::as_str).unwrap();
    let ids = [
        id("/messages/1/tool_calls/0/id"),
        id("/messages/1/tool_calls/1/id"),
        id("/messages/4/tool_calls/0/id"),
        id("/messages/4/tool_calls/1/id"),
    ];
    for (at, id) in ids.iter().enumerate() {
        assert!(
            id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()),
            "{id}"
        );
        assert!(!ids[..at].contains(id), "{ids:?}");
    }
    assert_eq!(ids[3], "abcdefgh9");
    let results = ["/messages/2", "/messages/3", "/messages/5", "/messages/6"];
    let results = results.map(|place| {
        body.pointer(place).unwrap()["tool_call_id"]
            .as_str()
            .unwrap()
    });
    assert_eq!(results, ids);
}

#[test]
fn how_long_the_server_is_asked_to_keep_the_beginning() {
    let openai = json!({"provider": "openai", "baseUrl": "https://api.openai.com/v1"});
    let marks = json!({"compat": {"cacheControlFormat": "anthropic"}});
    let rows = [
        (&openai, CacheRetention::Short, Some("s1"), None),
        (&openai, CacheRetention::None, None, None),
        (&openai, CacheRetention::Long, Some("s1"), Some("24h")),
        (&json!({}), CacheRetention::Short, None, None),
        (&json!({}), CacheRetention::Long, Some("s1"), Some("24h")),
        (
            &json!({"provider": "together"}),
            CacheRetention::Long,
            None,
            None,
        ),
    ];
    for (changes, cache, key, retention) in rows {
        let mut request = request(changes.clone(), &[]);
        request.options.session_id = Some("s1".into());
        request.options.cache = cache;
        let body = json_of(&request);
        let text = |name: &str| body.get(name).and_then(Value::as_str);
        assert_eq!(text("prompt_cache_key"), key, "{changes} {cache:?}");
        assert_eq!(
            text("prompt_cache_retention"),
            retention,
            "{changes} {cache:?}"
        );
    }
    let rows = [
        (CacheRetention::None, None),
        (CacheRetention::Short, Some(json!({"type": "ephemeral"}))),
        (
            CacheRetention::Long,
            Some(json!({"type": "ephemeral", "ttl": "1h"})),
        ),
    ];
    for (cache, mark) in rows {
        let mut request = request(marks.clone(), &[user(json!("go"))]);
        request.options.cache = cache;
        let body = json_of(&request);
        let found = body.pointer("/messages/0/content/0/cache_control");
        assert_eq!(found, mark.as_ref(), "{cache:?}");
    }
}
