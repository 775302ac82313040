//! The body of a request. The same request gives the same bytes.

use fluzo_llm::{CacheRetention, Model, ModelRequest, ThinkingLevel, ToolSpec};
use serde::Serialize;
use serde_json::Value;

use super::compat::Compat;
use super::ids::ID_LIMIT;
use super::input::{Item, input};
use super::{AZURE_API, azure, cached_session};

/// Lowest cap on output that the API takes, in tokens.
const LOWEST_CAP: u64 = 16;

/// What makes the server give its hidden thinking along, to be sent back.
const ENCRYPTED: &[&str] = &["reasoning.encrypted_content"];

/// The order of the fields is the order of the keys.
#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    input: Vec<Item<'a>>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_retention: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    include: Option<&'static [&'static str]>,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}

#[derive(Serialize)]
struct Reasoning<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'static str>,
}

/// The JSON of `request`.
///
/// # Errors
///
/// When a value cannot be written as JSON.
pub(crate) fn body(request: &ModelRequest) -> Result<Vec<u8>, serde_json::Error> {
    let (model, options): (&Model, _) = (&request.model, &request.options);
    let compat = Compat::of(request);
    let developer = model.reasoning && compat.supports_developer_role;
    let role = if developer { "developer" } else { "system" };
    let long = options.cache == CacheRetention::Long && compat.supports_long_cache_retention;
    let reasoning = reasoning(model, compat, options.thinking);
    // Only a server that is asked for thinking gives any.
    let thinks = reasoning.as_ref().is_some_and(|r| r.summary.is_some());
    serde_json::to_vec(&Body {
        model: asked_model(request),
        input: input(model, role, &request.system_prompt, &request.transcript),
        stream: true,
        prompt_cache_key: cached_session(request).map(first_characters),
        prompt_cache_retention: long.then_some("24h"),
        store: compat.supports_store.then_some(false),
        max_output_tokens: options.max_output_tokens.map(|cap| cap.max(LOWEST_CAP)),
        tools: request.tools.iter().map(|t| tool(t, compat)).collect(),
        reasoning,
        include: thinks.then_some(ENCRYPTED),
    })
}

/// The name under which the model is asked for.
pub(crate) fn asked_model(request: &ModelRequest) -> &str {
    match request.model.api == AZURE_API {
        true => azure::deployment(request),
        false => &request.model.id,
    }
}

/// As much of a session's id as fits.
fn first_characters(session: &str) -> &str {
    let end = session.char_indices().nth(ID_LIMIT);
    end.map_or(session, |(at, _)| &session[..at])
}

fn tool(spec: &ToolSpec, compat: Compat) -> Tool<'_> {
    Tool {
        r#type: "function",
        name: &spec.name,
        description: &spec.description,
        parameters: &spec.parameters,
        strict: compat.supports_strict_mode.then_some(false),
    }
}

/// What asks for thinking, or for none.
fn reasoning(model: &Model, compat: Compat, level: ThinkingLevel) -> Option<Reasoning<'_>> {
    if !model.reasoning {
        return None;
    }
    let level = model.clamp(level);
    let mapped = model.thinking_level_map.get(&level);
    let name = mapped.and_then(Option::as_deref);
    if level != ThinkingLevel::Off {
        let effort = name.unwrap_or(level.as_str());
        return Some(Reasoning {
            effort: compat.supports_reasoning_effort.then_some(effort),
            summary: Some("auto"),
        });
    }
    let unsupported = mapped.is_some_and(Option::is_none);
    let leaves_out = unsupported || !compat.supports_no_effort || !compat.supports_reasoning_effort;
    (!leaves_out).then_some(Reasoning {
        effort: Some(name.unwrap_or("none")),
        summary: None,
    })
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
