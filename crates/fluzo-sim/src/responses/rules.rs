//! Rules for a Responses request around its input: parameters and tools.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::capabilities::ModelCapabilities;
use crate::check::{Found, is_name, is_or_absent, items, one_of, text, within};
use crate::verdict::ViolationKind::{EmptyMessage, InvalidParameter, InvalidTools};

const KEYS: &[&str] = &[
    "model",
    "input",
    "instructions",
    "stream",
    "stream_options",
    "store",
    "include",
    "reasoning",
    "text",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "max_tool_calls",
    "max_output_tokens",
    "temperature",
    "top_p",
    "top_logprobs",
    "truncation",
    "metadata",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "user",
    "background",
    "previous_response_id",
];

const INCLUDES: &[&str] = &[
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
    "message.input_image.image_url",
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
];

const EFFORTS: &[&str] = &["none", "minimal", "low", "medium", "high", "xhigh"];

/// The include value that makes reasoning come back with its content.
pub(super) const ENCRYPTED: &str = "reasoning.encrypted_content";

/// Checks everything that is no input and no tool.
pub(super) fn check_parameters(body: &Value, model: &ModelCapabilities, found: &mut Found) {
    found.only_keys(InvalidParameter, "", body, KEYS);
    let mut rule = |holds: bool, place: &str, what: &str| {
        found.unless(holds, InvalidParameter, place, what);
    };
    for key in ["stream", "store", "parallel_tool_calls", "background"] {
        rule(
            is_or_absent(body, key, Value::is_boolean),
            key,
            "is neither true nor false",
        );
    }
    rule(
        is_or_absent(body, "max_output_tokens", |value| {
            value.as_u64().is_some_and(|tokens| tokens >= 16)
        }),
        "max_output_tokens",
        "is no integer of at least 16",
    );
    for (key, most) in [("temperature", 2.0), ("top_p", 1.0)] {
        rule(
            is_or_absent(body, key, |value| within(value, 0.0, most)),
            key,
            "is out of its range",
        );
        rule(
            !model.reasoning || body.get(key).is_none(),
            key,
            "is not supported with this model",
        );
    }
    for key in ["prompt_cache_key", "safety_identifier", "user"] {
        rule(
            is_or_absent(body, key, |value| {
                value.as_str().is_some_and(|text| text.len() <= 64)
            }),
            key,
            "is no string of at most 64 characters",
        );
    }
    rule(
        is_or_absent(body, "prompt_cache_retention", |value| {
            one_of(value, &["in_memory", "in-memory", "24h"])
        }),
        "prompt_cache_retention",
        "is neither in_memory nor 24h",
    );
    rule(
        is_or_absent(body, "truncation", |value| {
            one_of(value, &["auto", "disabled"])
        }),
        "truncation",
        "is neither auto nor disabled",
    );
    rule(
        body.get("previous_response_id").is_none_or(Value::is_null),
        "previous_response_id",
        "names a response that was not found: nothing is stored",
    );
    let verbosity = body.pointer("/text/verbosity");
    rule(
        verbosity.is_none_or(|word| one_of(word, &["low", "medium", "high"])),
        "text.verbosity",
        "is none of low, medium, high",
    );
    let instructions = text(body, "instructions");
    found.unless(
        is_or_absent(body, "instructions", Value::is_string) && instructions != Some(""),
        EmptyMessage,
        "instructions",
        "is empty or no text",
    );
    check_include(body, model, found);
    check_reasoning(body, model, found);
}

fn check_include(body: &Value, model: &ModelCapabilities, found: &mut Found) {
    let is_list = is_or_absent(body, "include", Value::is_array);
    found.unless(is_list, InvalidParameter, "include", "is no list");
    for (index, value) in items(body, "include").iter().enumerate() {
        let place = format!("include[{index}]");
        let known = one_of(value, INCLUDES);
        found.unless(known, InvalidParameter, &place, "is no value that exists");
        found.unless(
            model.reasoning || value != ENCRYPTED,
            InvalidParameter,
            &place,
            "encrypted content is not supported with this model",
        );
    }
}

fn check_reasoning(body: &Value, model: &ModelCapabilities, found: &mut Found) {
    let Some(reasoning) = body.get("reasoning").filter(|value| !value.is_null()) else {
        return;
    };
    let keys = &["effort", "summary"];
    found.only_keys(InvalidParameter, "reasoning", reasoning, keys);
    let mut rule = |holds: bool, place: &str, what: &str| {
        found.unless(holds, InvalidParameter, place, what);
    };
    rule(
        model.reasoning,
        "reasoning.effort",
        "is not supported with this model",
    );
    rule(
        is_or_absent(reasoning, "effort", |word| one_of(word, EFFORTS)),
        "reasoning.effort",
        "is none of none, minimal, low, medium, high, xhigh",
    );
    rule(
        is_or_absent(reasoning, "summary", |word| {
            one_of(word, &["auto", "concise", "detailed"])
        }),
        "reasoning.summary",
        "is none of auto, concise, detailed",
    );
}

/// Checks `tools` and `tool_choice`.
pub(super) fn check_tools(body: &Value, found: &mut Found) {
    let is_list = is_or_absent(body, "tools", Value::is_array);
    found.unless(is_list, InvalidTools, "tools", "is no list");
    let mut names = BTreeSet::new();
    for (index, tool) in items(body, "tools").iter().enumerate() {
        let place = format!("tools[{index}]");
        check_tool(tool, &place, found);
        let name = text(tool, "name").unwrap_or_default();
        let what = format_args!("a second tool `{name}`");
        found.unless(names.insert(name), InvalidTools, &place, what);
    }
    let Some(choice) = body.get("tool_choice") else {
        return;
    };
    let named = text(choice, "type") == Some("function")
        && text(choice, "name").is_some_and(|name| names.contains(name));
    found.unless(
        named || one_of(choice, &["auto", "none", "required"]),
        InvalidParameter,
        "tool_choice",
        "is none of auto, none, required, and no offered function",
    );
    found.unless(
        !names.is_empty(),
        InvalidParameter,
        "tool_choice",
        "is only allowed with `tools`",
    );
}

fn check_tool(tool: &Value, place: &str, found: &mut Found) {
    let keys = &["type", "name", "description", "parameters", "strict"];
    found.only_keys(InvalidTools, place, tool, keys);
    let mut rule = |holds: bool, what: &str| found.unless(holds, InvalidTools, place, what);
    rule(
        text(tool, "type") == Some("function"),
        "`type` is not \"function\"",
    );
    rule(
        text(tool, "name").is_some_and(|name| is_name(name, 64)),
        "`name` is missing or not of 1 to 64 letters, digits, `_` and `-`",
    );
    let schema = tool.get("parameters").unwrap_or(&Value::Null);
    rule(
        text(schema, "type") == Some("object"),
        "`parameters` is no schema of an object",
    );
    rule(
        is_or_absent(tool, "strict", Value::is_boolean),
        "`strict` is neither true nor false",
    );
    if tool.get("strict") == Some(&Value::Bool(true)) {
        rule(
            schema.get("additionalProperties") == Some(&Value::Bool(false)) && all_required(schema),
            "a strict schema needs `additionalProperties: false` and all properties in `required`",
        );
    }
}

fn all_required(schema: &Value) -> bool {
    let required = items(schema, "required");
    let properties = schema.get("properties").and_then(Value::as_object);
    properties
        .into_iter()
        .flat_map(|map| map.keys())
        .all(|key| required.iter().any(|name| name == key.as_str()))
}
