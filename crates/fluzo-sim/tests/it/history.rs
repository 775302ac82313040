use std::collections::BTreeSet;

use fluzo_sim::ViolationKind::{self, *};
use fluzo_sim::{ModelCapabilities, check_history};
use serde_json::{Value, json};

use crate::client::{call, request};

fn kinds(body: &Value, images: bool) -> Vec<ViolationKind> {
    let model = ModelCapabilities {
        images,
        ..ModelCapabilities::default()
    };
    check_history(body, &model)
        .into_iter()
        .map(|violation| violation.kind)
        .collect()
}

fn check(what: &str, messages: Value, expected: &[ViolationKind]) {
    let found = kinds(&request(messages.clone()), false);
    assert_eq!(found, expected, "{what}: {messages}");
}

fn user() -> Value {
    json!({"role": "user", "content": "u"})
}

fn system() -> Value {
    json!({"role": "system", "content": "s"})
}

fn said() -> Value {
    json!({"role": "assistant", "content": "a"})
}

fn calls(ids: &[&str]) -> Value {
    let calls: Vec<Value> = ids.iter().map(|id| call(id, "read", "{}")).collect();
    json!({"role": "assistant", "content": null, "tool_calls": calls})
}

fn with_call(call: Value) -> Value {
    json!([user(), {"role": "assistant", "content": null, "tool_calls": [call]}, result("x")])
}

fn result(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": "r"})
}

#[test]
fn accepts_proper_histories() {
    let rows = [
        json!([user()]),
        json!([system(), user()]),
        json!([{"role": "developer", "content": [{"type": "text", "text": "s"}]}, user(), user()]),
        json!([system(), user(), said(), user()]),
        json!([user(), calls(&["x"]), result("x")]),
        json!([user(), calls(&["x", "y"]), result("y"), result("x"), user()]),
        json!([
            user(),
            calls(&["x"]),
            result("x"),
            calls(&["x"]),
            result("x")
        ]),
        json!([user(), calls(&["x"]), result("x"), said(), user()]),
        json!([user(), {"role": "assistant", "content": "", "tool_calls": [call("x", "read", "{\"p\":1}")]}, result("x")]),
        json!([user(), {"role": "assistant", "tool_calls": [call("x", "read", " {} ")]}, result("x")]),
        json!([user(), calls(&["x"]), {"role": "tool", "tool_call_id": "x", "content": ""}]),
        json!([user(), calls(&["x"]), {"role": "tool", "tool_call_id": "x", "content": [{"type": "text", "text": "r"}]}]),
    ];
    for messages in rows {
        check("proper", messages, &[]);
    }
}

#[test]
fn refuses_what_is_no_list_of_messages() {
    for body in [
        json!({}),
        json!({"messages": null}),
        json!({"messages": {}}),
        json!({"messages": []}),
    ] {
        assert_eq!(kinds(&body, false), [InvalidMessages], "{body}");
    }
    check(
        "no role",
        json!([user(), {"content": "x"}]),
        &[InvalidMessages],
    );
    check(
        "odd role",
        json!([user(), {"role": "toolResult", "content": "x"}]),
        &[InvalidMessages],
    );
    check("no object", json!([user(), "x"]), &[InvalidMessages]);
}

#[test]
fn refuses_a_tool_result_without_its_call() {
    check(
        "no call at all",
        json!([user(), result("x")]),
        &[ToolResultWithoutCall],
    );
    check(
        "another id",
        json!([user(), calls(&["y"]), result("x")]),
        &[ToolResultWithoutCall, CallWithoutResult],
    );
    check(
        "call of an earlier turn",
        json!([
            user(),
            calls(&["x"]),
            result("x"),
            said(),
            user(),
            result("x")
        ]),
        &[ToolResultWithoutCall],
    );
    check(
        "after a user message",
        json!([user(), calls(&["x"]), user(), result("x")]),
        &[CallWithoutResult, ToolResultWithoutCall],
    );
    check(
        "no id",
        json!([user(), calls(&["x"]), {"role": "tool", "content": "r"}]),
        &[ToolResultWithoutCall, CallWithoutResult],
    );
    check(
        "twice",
        json!([user(), calls(&["x"]), result("x"), result("x")]),
        &[DuplicateToolResult],
    );
}

#[test]
fn refuses_a_call_without_result() {
    check(
        "at the end",
        json!([user(), calls(&["x"])]),
        &[CallWithoutResult],
    );
    check(
        "one of two",
        json!([user(), calls(&["x", "y"]), result("x")]),
        &[CallWithoutResult],
    );
    check(
        "before a user message",
        json!([user(), calls(&["x"]), user()]),
        &[CallWithoutResult],
    );
    check(
        "before the next turn",
        json!([user(), calls(&["x", "y"]), result("y"), said(), user()]),
        &[CallWithoutResult],
    );
}

#[test]
fn refuses_wrong_role_order() {
    check(
        "late system",
        json!([user(), system()]),
        &[RoleOrder, RoleOrder],
    );
    check(
        "two systems",
        json!([system(), system(), user()]),
        &[RoleOrder],
    );
    check(
        "late developer",
        json!([user(), {"role": "developer", "content": "x"}, user()]),
        &[RoleOrder],
    );
    check(
        "assistant first",
        json!([system(), said(), user()]),
        &[RoleOrder],
    );
    check(
        "assistant twice",
        json!([user(), said(), said(), user()]),
        &[RoleOrder],
    );
    check("assistant last", json!([user(), said()]), &[RoleOrder]);
    check("system only", json!([system()]), &[RoleOrder]);
    check(
        "tool first",
        json!([result("x")]),
        &[RoleOrder, ToolResultWithoutCall],
    );
}

#[test]
fn refuses_arguments_that_are_no_object() {
    for text in [
        "{\"command\":\"x",
        "",
        "[1]",
        "\"str\"",
        "null",
        "1",
        "{} x",
    ] {
        check(
            "arguments",
            with_call(call("x", "read", text)),
            &[ArgumentsNotObject],
        );
    }
    for value in [json!({}), json!(null)] {
        let call = json!({"id": "x", "type": "function", "function": {"name": "read", "arguments": value}});
        check("not in a string", with_call(call), &[ArgumentsNotObject]);
    }
    check(
        "absent",
        with_call(json!({"id": "x", "type": "function", "function": {"name": "read"}})),
        &[ArgumentsNotObject],
    );
}

#[test]
fn refuses_unknown_tools_but_not_those_it_made_up_itself() {
    check("unknown", with_call(call("x", "rm", "{}")), &[UnknownTool]);
    let body = request(with_call(call("x", "rm", "{}")));
    let model = ModelCapabilities {
        images: false,
        own_tools: BTreeSet::from(["rm".to_owned()]),
        ..ModelCapabilities::default()
    };
    assert_eq!(check_history(&body, &model), []);
    for tools in [json!([]), json!(null)] {
        let mut body = body.clone();
        body["tools"] = tools;
        assert_eq!(kinds(&body, false), [], "nothing is offered: {body}");
    }
}

#[test]
fn refuses_malformed_and_repeated_calls() {
    check(
        "same id",
        json!([user(), calls(&["x", "x"]), result("x")]),
        &[DuplicateCallId],
    );
    check(
        "no type",
        with_call(json!({"id": "x", "function": {"name": "read", "arguments": "{}"}})),
        &[InvalidToolCall],
    );
    check(
        "no name",
        with_call(call("x", "", "{}")),
        &[InvalidToolCall],
    );
    check(
        "no id",
        json!([user(), calls(&[""]), user()]),
        &[InvalidToolCall],
    );
    check(
        "empty list",
        json!([user(), {"role": "assistant", "content": "a", "tool_calls": []}, user()]),
        &[InvalidToolCall],
    );
    check(
        "of a user",
        json!([{"role": "user", "content": "u", "tool_calls": [call("x", "read", "{}")]}]),
        &[InvalidToolCall],
    );
}

#[test]
fn refuses_empty_messages() {
    for content in [
        json!(null),
        json!(""),
        json!([]),
        json!([{"type": "text", "text": ""}]),
    ] {
        check(
            "user",
            json!([{"role": "user", "content": content}]),
            &[EmptyMessage],
        );
        check(
            "system",
            json!([{"role": "system", "content": content}, user()]),
            &[EmptyMessage],
        );
        check(
            "assistant",
            json!([user(), {"role": "assistant", "content": content}, user()]),
            &[EmptyMessage],
        );
    }
    check("no content", json!([{"role": "user"}]), &[EmptyMessage]);
    check(
        "only reasoning",
        json!([user(), {"role": "assistant", "content": null, "reasoning_content": "x"}, user()]),
        &[EmptyMessage],
    );
    check(
        "tool",
        json!([user(), calls(&["x"]), {"role": "tool", "tool_call_id": "x"}]),
        &[EmptyMessage],
    );
}

#[test]
fn refuses_odd_content() {
    for content in [
        json!(1),
        json!({"type": "text", "text": "x"}),
        json!([{"type": "text"}]),
        json!([{"type": "video"}]),
        json!(["x"]),
    ] {
        check(
            "content",
            json!([{"role": "user", "content": content}]),
            &[InvalidContent],
        );
    }
    check(
        "tool",
        json!([user(), calls(&["x"]), {"role": "tool", "tool_call_id": "x", "content": {"a": 1}}]),
        &[InvalidContent],
    );
}

#[test]
fn refuses_images_where_they_do_not_fit() {
    let image = |url: &str| json!({"type": "image_url", "image_url": {"url": url}});
    let good = image("data:image/png;base64,aGk=");
    let asked = |part: &Value| request(json!([{"role": "user", "content": [part]}]));
    assert_eq!(kinds(&asked(&good), true), []);
    assert_eq!(kinds(&asked(&good), false), [ImageNotSupported]);
    for url in [
        "",
        "x.png",
        "data:image/png;base64,",
        "data:text/plain;base64,aGk=",
        "data:image/png;base64,a b",
    ] {
        assert_eq!(kinds(&asked(&image(url)), true), [InvalidContent], "{url}");
    }
    let in_result =
        json!([user(), calls(&["x"]), {"role": "tool", "tool_call_id": "x", "content": [good]}]);
    assert_eq!(kinds(&request(in_result), true), [InvalidContent]);
    let in_system = json!([{"role": "system", "content": [good]}, user()]);
    assert_eq!(kinds(&request(in_system), true), [InvalidContent]);
}

#[test]
fn names_the_message_that_is_wrong() {
    let model = ModelCapabilities::default();
    let found = check_history(&request(json!([user(), calls(&["x"]), user()])), &model);
    assert_eq!(
        found[0].message,
        "messages[2]: call `x` has no result before this place"
    );
}
