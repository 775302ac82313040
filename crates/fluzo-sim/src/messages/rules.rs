//! Rules for a Messages request around its history: parameters, tools, cache marks.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::capabilities::ModelCapabilities;
use crate::check::{Found, is_name, is_or_absent, items, one_of, text, within};
use crate::verdict::ViolationKind::{EmptyMessage, InvalidContent, InvalidParameter, InvalidTools};

const KEYS: &[&str] = &[
    "model",
    "messages",
    "max_tokens",
    "system",
    "stream",
    "temperature",
    "top_p",
    "top_k",
    "stop_sequences",
    "tools",
    "tool_choice",
    "thinking",
    "output_config",
    "metadata",
    "service_tier",
    "anthropic_version",
    "anthropic_beta",
];

const TOOL_KEYS: &[&str] = &[
    "type",
    "name",
    "description",
    "input_schema",
    "cache_control",
    "strict",
    "eager_input_streaming",
];

const EFFORTS: &[&str] = &["low", "medium", "high", "xhigh", "max"];

/// How a request asks for thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Thinking {
    Off,
    /// With a budget.
    Enabled,
    /// As the model sees fit.
    Adaptive,
}

impl Thinking {
    pub(super) fn of(body: &Value) -> Self {
        match body.pointer("/thinking/type").and_then(Value::as_str) {
            Some("enabled") => Self::Enabled,
            Some("adaptive") => Self::Adaptive,
            _ => Self::Off,
        }
    }
}

/// Checks everything that is no message and no tool.
pub(super) fn check_parameters(body: &Value, model: &ModelCapabilities, found: &mut Found) {
    found.only_keys(InvalidParameter, "", body, KEYS);
    let mut rule = |holds: bool, place: &str, what: &str| {
        found.unless(holds, InvalidParameter, place, what);
    };
    let positive = |value: &Value| value.as_u64().is_some_and(|number| number > 0);
    rule(
        body.get("max_tokens").is_some_and(positive),
        "max_tokens",
        "is missing or no positive integer",
    );
    rule(
        is_or_absent(body, "stream", Value::is_boolean),
        "stream",
        "is neither true nor false",
    );
    rule(
        is_or_absent(body, "top_p", |value| within(value, 0.0, 1.0)),
        "top_p",
        "is not within 0 and 1",
    );
    rule(
        is_or_absent(body, "temperature", |value| within(value, 0.0, 1.0)),
        "temperature",
        "is not within 0 and 1",
    );
    rule(
        is_or_absent(body, "top_k", Value::is_u64),
        "top_k",
        "is no integer",
    );
    rule(
        is_or_absent(body, "metadata", Value::is_object),
        "metadata",
        "is no object",
    );
    let effort = body.pointer("/output_config/effort");
    rule(
        effort.is_none_or(|effort| one_of(effort, EFFORTS)),
        "output_config.effort",
        "is none of low, medium, high, xhigh, max",
    );
    let stops = body.get("stop_sequences");
    rule(
        stops.is_none_or(is_stop_list),
        "stop_sequences",
        "is no list of texts with more than white space",
    );
    check_system(body, found);
    check_thinking(body, model, found);
}

fn is_stop_list(value: &Value) -> bool {
    let good = |stop: &Value| stop.as_str().is_some_and(|text| !text.trim().is_empty());
    value.as_array().is_some_and(|stops| stops.iter().all(good))
}

fn check_system(body: &Value, found: &mut Found) {
    match body.get("system") {
        None => {}
        Some(Value::String(text)) => {
            found.unless(!text.is_empty(), EmptyMessage, "system", "is empty");
        }
        Some(Value::Array(blocks)) => {
            for (index, block) in blocks.iter().enumerate() {
                let place = format!("system.{index}");
                let is_text = text(block, "type") == Some("text");
                found.unless(is_text, InvalidContent, &place, "is no text block");
                check_text(block, &place, found);
            }
        }
        Some(_) => found.fail(InvalidContent, "system", "is neither text nor a list"),
    }
}

/// Checks a text block's keys and text.
pub(super) fn check_text(block: &Value, place: &str, found: &mut Found) {
    let keys = &["type", "text", "cache_control", "citations"];
    found.only_keys(InvalidContent, place, block, keys);
    match text(block, "text") {
        None => found.fail(InvalidContent, place, "a text block without text"),
        Some("") => found.fail(EmptyMessage, place, "text content blocks must be non-empty"),
        Some(text) => found.unless(
            !text.trim().is_empty(),
            EmptyMessage,
            place,
            "text content blocks must contain non-whitespace text",
        ),
    }
}

fn check_thinking(body: &Value, model: &ModelCapabilities, found: &mut Found) {
    let Some(thinking) = body.get("thinking") else {
        return;
    };
    let mut rule = |holds: bool, place: &str, what: &str| {
        found.unless(holds, InvalidParameter, place, what);
    };
    let kind = text(thinking, "type").unwrap_or_default();
    rule(
        ["enabled", "adaptive", "disabled"].contains(&kind),
        "thinking.type",
        "is none of enabled, adaptive, disabled",
    );
    let budget = thinking.get("budget_tokens");
    rule(
        (kind == "enabled") == budget.is_some(),
        "thinking.budget_tokens",
        "belongs to `enabled`, and to nothing else",
    );
    let display = thinking.get("display");
    rule(
        display.is_none_or(|word| kind != "disabled" && one_of(word, &["summarized", "omitted"])),
        "thinking.display",
        "is neither summarized nor omitted",
    );
    if let Some(budget) = budget {
        let tokens = budget.as_u64().unwrap_or_default();
        let limit = body.get("max_tokens").and_then(Value::as_u64);
        rule(
            tokens >= 1024,
            "thinking.budget_tokens",
            "is not at least 1024",
        );
        rule(
            limit.is_none_or(|limit| tokens < limit),
            "max_tokens",
            "is not greater than `thinking.budget_tokens`",
        );
    }
    if Thinking::of(body) == Thinking::Off {
        return;
    }
    rule(
        model.reasoning,
        "thinking",
        "is not supported by this model",
    );
    rule(
        is_or_absent(body, "temperature", |value| within(value, 1.0, 1.0)),
        "temperature",
        "may only be 1 when thinking is enabled",
    );
    rule(
        is_or_absent(body, "top_p", |value| within(value, 0.95, 1.0)),
        "top_p",
        "may only be 0.95 to 1 when thinking is enabled",
    );
    rule(
        body.get("top_k").is_none(),
        "top_k",
        "may not be set when thinking is enabled",
    );
    let choice = body.pointer("/tool_choice/type");
    rule(
        choice.is_none_or(|choice| one_of(choice, &["auto", "none"])),
        "tool_choice",
        "may not force tool use when thinking is enabled",
    );
}

/// Checks `tools` and `tool_choice`.
pub(super) fn check_tools(body: &Value, found: &mut Found) {
    let tools = items(body, "tools");
    let is_list = is_or_absent(body, "tools", Value::is_array);
    found.unless(is_list, InvalidTools, "tools", "is no list");
    let mut names = BTreeSet::new();
    for (index, tool) in tools.iter().enumerate() {
        let place = format!("tools.{index}");
        found.only_keys(InvalidTools, &place, tool, TOOL_KEYS);
        let kind = is_or_absent(tool, "type", |kind| kind == "custom");
        found.unless(kind, InvalidTools, &place, "`type` is not \"custom\"");
        let name = text(tool, "name").unwrap_or_default();
        found.unless(
            is_name(name, 128),
            InvalidTools,
            &place,
            format_args!("`{name}` is no name of 1 to 128 letters, digits, `_` and `-`"),
        );
        let first = names.insert(name);
        found.unless(first, InvalidTools, "tools", "tool names must be unique");
        let schema = tool.pointer("/input_schema/type");
        found.unless(
            schema.and_then(Value::as_str) == Some("object"),
            InvalidTools,
            &format!("{place}.input_schema.type"),
            "is not \"object\"",
        );
    }
    check_choice(body, &names, found);
}

fn check_choice(body: &Value, names: &BTreeSet<&str>, found: &mut Found) {
    let Some(choice) = body.get("tool_choice") else {
        return;
    };
    let mut rule = |holds: bool, what: &str| {
        found.unless(holds, InvalidParameter, "tool_choice", what);
    };
    rule(!names.is_empty(), "may only be set with `tools`");
    let kinds = ["auto", "any", "tool", "none"];
    let kind = choice.get("type");
    rule(
        kind.is_some_and(|kind| one_of(kind, &kinds)),
        "`type` is none of auto, any, tool, none",
    );
    let named = text(choice, "name");
    let is_tool = text(choice, "type") == Some("tool");
    rule(
        named.is_some() == is_tool && named.is_none_or(|name| names.contains(name)),
        "`name` is no offered tool",
    );
}

/// Checks number, form and order of the cache marks of the whole request.
pub(super) fn check_cache_marks(body: &Value, found: &mut Found) {
    let mut marks = Vec::new();
    for key in ["tools", "system", "messages"] {
        if let Some(value) = body.get(key) {
            collect_marks(value, key, &mut marks);
        }
    }
    found.unless(
        marks.len() <= 4,
        InvalidParameter,
        "",
        format_args!(
            "a maximum of 4 blocks with `cache_control` may be provided, found {}",
            marks.len()
        ),
    );
    let mut short_seen = false;
    for (place, mark) in marks {
        let kind = text(mark, "type") == Some("ephemeral");
        let ttl = is_or_absent(mark, "ttl", |ttl| one_of(ttl, &["5m", "1h"]));
        found.unless(
            kind && ttl,
            InvalidParameter,
            &place,
            "`cache_control` is not ephemeral with a `ttl` of 5m or 1h",
        );
        let long = text(mark, "ttl") == Some("1h");
        found.unless(
            !(long && short_seen),
            InvalidParameter,
            &place,
            "a `cache_control` of 1h must not come after one of 5m",
        );
        short_seen |= !long;
    }
}

/// Marks stand on tools, on blocks, and on blocks within tool results; a call's `input` is the client's own matter.
fn collect_marks<'a>(value: &'a Value, place: &str, marks: &mut Vec<(String, &'a Value)>) {
    for (index, entry) in value.as_array().into_iter().flatten().enumerate() {
        let place = format!("{place}.{index}");
        if let Some(mark) = entry.get("cache_control").filter(|mark| !mark.is_null()) {
            marks.push((place.clone(), mark));
        }
        if let Some(content) = entry.get("content") {
            collect_marks(content, &format!("{place}.content"), marks);
        }
    }
}
