//! Rules for a Gemini request around its history: parameters and tools.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::capabilities::ModelCapabilities;
use crate::check::{Found, is_or_absent, items, one_of, text, within};
use crate::verdict::ViolationKind::{EmptyMessage, InvalidParameter, InvalidTools};

const KEYS: &[&str] = &[
    "model",
    "contents",
    "systemInstruction",
    "tools",
    "toolConfig",
    "safetySettings",
    "generationConfig",
    "cachedContent",
    "labels",
];

const CONFIG_KEYS: &[&str] = &[
    "temperature",
    "topP",
    "topK",
    "candidateCount",
    "maxOutputTokens",
    "stopSequences",
    "responseMimeType",
    "responseSchema",
    "responseJsonSchema",
    "responseModalities",
    "presencePenalty",
    "frequencyPenalty",
    "seed",
    "mediaResolution",
    "thinkingConfig",
];

const DECLARATION_KEYS: &[&str] = &[
    "name",
    "description",
    "behavior",
    "parameters",
    "parametersJsonSchema",
    "response",
    "responseJsonSchema",
];

/// What `parameters` may say: a part of OpenAPI, not JSON Schema.
const SCHEMA_KEYS: &[&str] = &[
    "type",
    "format",
    "title",
    "description",
    "nullable",
    "enum",
    "maxItems",
    "minItems",
    "properties",
    "required",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "pattern",
    "example",
    "anyOf",
    "propertyOrdering",
    "default",
    "items",
    "minimum",
    "maximum",
];

const LEVELS: &[&str] = &["MINIMAL", "LOW", "MEDIUM", "HIGH"];

/// Checks everything that is no content and no tool.
pub(super) fn check_parameters(body: &Value, model: &ModelCapabilities, found: &mut Found) {
    found.only_keys(InvalidParameter, "", body, KEYS);
    check_system(body, found);
    let Some(config) = body.get("generationConfig") else {
        return;
    };
    found.only_keys(InvalidParameter, "generation_config", config, CONFIG_KEYS);
    let mut rule = |holds: bool, place: &str, what: &str| {
        found.unless(
            holds,
            InvalidParameter,
            &format!("generation_config.{place}"),
            what,
        );
    };
    let positive = |value: &Value| value.as_u64().is_some_and(|number| number > 0);
    rule(config.is_object(), "", "is no object");
    rule(
        is_or_absent(config, "maxOutputTokens", positive),
        "max_output_tokens",
        "is no positive integer",
    );
    rule(
        is_or_absent(config, "temperature", |value| within(value, 0.0, 2.0)),
        "temperature",
        "is not within 0 and 2",
    );
    rule(
        is_or_absent(config, "topP", |value| within(value, 0.0, 1.0)),
        "top_p",
        "is not within 0 and 1",
    );
    rule(
        is_or_absent(config, "candidateCount", |value| value.as_u64() == Some(1)),
        "candidate_count",
        "is not 1",
    );
    rule(
        is_or_absent(config, "stopSequences", Value::is_array),
        "stop_sequences",
        "is no list",
    );
    if let Some(thinking) = config.get("thinkingConfig") {
        check_thinking(thinking, model, found);
    }
}

fn check_system(body: &Value, found: &mut Found) {
    let Some(system) = body.get("systemInstruction") else {
        return;
    };
    let place = "system_instruction";
    found.only_keys(InvalidParameter, place, system, &["role", "parts"]);
    let parts = items(system, "parts");
    let filled = |part: &Value| text(part, "text").is_some_and(|text| !text.is_empty());
    let good = !parts.is_empty() && parts.iter().all(filled);
    found.unless(
        good,
        EmptyMessage,
        place,
        "has a part without text, or none",
    );
}

fn check_thinking(thinking: &Value, model: &ModelCapabilities, found: &mut Found) {
    let place = "generation_config.thinking_config";
    let keys = &["includeThoughts", "thinkingBudget", "thinkingLevel"];
    found.only_keys(InvalidParameter, place, thinking, keys);
    let mut rule = |holds: bool, what: &str| found.unless(holds, InvalidParameter, place, what);
    let (budget, level) = (
        thinking.get("thinkingBudget"),
        thinking.get("thinkingLevel"),
    );
    let thoughts = thinking.get("includeThoughts");
    let asks = thoughts == Some(&Value::Bool(true))
        || level.is_some()
        || budget.is_some_and(|budget| *budget != 0);
    rule(
        model.reasoning || !asks,
        "thinking is not supported by this model",
    );
    rule(
        budget.is_none() || level.is_none(),
        "only one of thinking budget and thinking level can be set",
    );
    rule(
        thoughts.is_none_or(Value::is_boolean),
        "`includeThoughts` is neither true nor false",
    );
    rule(
        budget.is_none_or(|budget| {
            budget
                .as_i64()
                .is_some_and(|tokens| (-1..=32_768).contains(&tokens))
        }),
        "the thinking budget is not within -1 and 32768",
    );
    let known = |level: &Value| {
        let upper = level.as_str().map(str::to_ascii_uppercase);
        one_of(&upper.into(), LEVELS)
    };
    rule(
        level.is_none_or(known),
        "the thinking level is none of MINIMAL, LOW, MEDIUM, HIGH",
    );
}

/// Checks `tools` and `toolConfig`.
pub(super) fn check_tools(body: &Value, found: &mut Found) {
    let is_list = is_or_absent(body, "tools", Value::is_array);
    found.unless(is_list, InvalidTools, "tools", "is no list");
    let mut names = BTreeSet::new();
    for (index, tool) in items(body, "tools").iter().enumerate() {
        let place = format!("tools[{index}]");
        found.only_keys(InvalidTools, &place, tool, &["functionDeclarations"]);
        let declarations = items(tool, "functionDeclarations");
        let what = "no function declarations";
        found.unless(!declarations.is_empty(), InvalidTools, &place, what);
        for (number, declaration) in declarations.iter().enumerate() {
            let place = format!("{place}.function_declarations[{number}]");
            check_declaration(declaration, &place, found);
            let name = text(declaration, "name").unwrap_or_default();
            let what = format_args!("duplicate function declaration `{name}`");
            found.unless(names.insert(name), InvalidTools, &place, what);
        }
    }
    let Some(config) = body.pointer("/toolConfig/functionCallingConfig") else {
        return;
    };
    let mode = config.get("mode");
    let modes = &["AUTO", "ANY", "NONE", "VALIDATED"];
    found.unless(
        mode.is_some_and(|mode| one_of(mode, modes)),
        InvalidParameter,
        "tool_config.function_calling_config.mode",
        "is none of AUTO, ANY, NONE, VALIDATED",
    );
    for name in items(config, "allowedFunctionNames") {
        found.unless(
            name.as_str().is_some_and(|name| names.contains(name)),
            InvalidParameter,
            "tool_config.function_calling_config.allowed_function_names",
            format_args!("{name} is not declared"),
        );
    }
}

fn check_declaration(declaration: &Value, place: &str, found: &mut Found) {
    found.only_keys(InvalidTools, place, declaration, DECLARATION_KEYS);
    let name = text(declaration, "name").unwrap_or_default();
    found.unless(
        is_function_name(name),
        InvalidTools,
        place,
        format_args!(
            "invalid function name `{name}`: it must start with a letter or an underscore, and go on with letters, digits, `_`, `.`, `:`, `-`, 64 at most"
        ),
    );
    let both = (
        declaration.get("parameters"),
        declaration.get("parametersJsonSchema"),
    );
    match both {
        (Some(_), Some(_)) => {
            let what = "only one of `parameters` and `parametersJsonSchema` may be set";
            found.fail(InvalidTools, place, what);
        }
        (Some(schema), None) => {
            check_schema(schema, &format!("{place}.parameters"), found);
            let kind = text(schema, "type").unwrap_or_default();
            let what = "`parameters` is no schema of an object";
            let object = kind.eq_ignore_ascii_case("object");
            found.unless(object, InvalidTools, place, what);
        }
        (None, Some(schema)) => {
            let what = "`parametersJsonSchema` is no schema of an object";
            let object = text(schema, "type") == Some("object");
            found.unless(object, InvalidTools, place, what);
        }
        (None, None) => {}
    }
}

fn check_schema(schema: &Value, place: &str, found: &mut Found) {
    found.only_keys(InvalidTools, place, schema, SCHEMA_KEYS);
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        for (name, property) in properties {
            check_schema(property, &format!("{place}.properties[{name}]"), found);
        }
    }
    if let Some(entry) = schema.get("items") {
        check_schema(entry, &format!("{place}.items"), found);
    }
    for (index, one) in items(schema, "anyOf").iter().enumerate() {
        check_schema(one, &format!("{place}.any_of[{index}]"), found);
    }
}

/// The name of a function, in a declaration, a call or a response.
pub(super) fn is_function_name(name: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.len() <= 64
        && name.bytes().all(good)
}
