//! The body of a request. The same request gives the same bytes.

use fluzo_llm::{CacheRetention, Model, ModelMessage, ModelRequest, ThinkingLevel, ToolSpec};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::compat::Compat;
use super::messages::{CacheControl, WireMessage, messages};
use crate::provider::base_url;
use crate::quirks::{MaxTokensField, ThinkingFormat};

/// The longest `prompt_cache_key`, in characters.
const CACHE_KEY_LIMIT: usize = 64;

/// The order of the fields is the order of the keys.
#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<WireMessage<'a>>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_retention: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<WireTool<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_stream: Option<bool>,
    #[serde(flatten)]
    thinking: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<&'a Value>,
    #[serde(rename = "providerOptions", skip_serializing_if = "Option::is_none")]
    provider_options: Option<Value>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct WireTool<'a> {
    r#type: &'static str,
    function: WireFunction<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
struct WireFunction<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}

/// The JSON of `request`.
///
/// # Errors
///
/// When a value cannot be written as JSON.
pub(crate) fn body(request: &ModelRequest) -> Result<Vec<u8>, serde_json::Error> {
    let model: &Model = &request.model;
    let compat = Compat::of(model, base_url(request), &request.options.forms);
    let mark = cache_mark(request, &compat);
    let cap = |field: MaxTokensField| {
        request
            .options
            .max_output_tokens
            .filter(|_| compat.caps_with(field))
    };
    let long = request.options.cache == CacheRetention::Long && compat.quirks.long_cache;
    let body = Body {
        model: &model.id,
        messages: messages(request, &compat, mark),
        stream: true,
        prompt_cache_key: cache_key(request, long),
        prompt_cache_retention: long.then_some("24h"),
        stream_options: compat.quirks.stream_usage.then_some(StreamOptions {
            include_usage: true,
        }),
        store: compat.quirks.store.then_some(false),
        max_completion_tokens: cap(MaxTokensField::MaxCompletionTokens),
        max_tokens: cap(MaxTokensField::MaxTokens),
        tools: tools(request, &compat, mark),
        tool_stream: (compat.quirks.tool_stream && !request.tools.is_empty()).then_some(true),
        thinking: thinking(model, &compat, request.options.thinking),
        provider: compat.open_router_routing.as_ref(),
        provider_options: compat
            .vercel_gateway_routing
            .as_ref()
            .map(|gateway| json!({ "gateway": gateway })),
    };
    serde_json::to_vec(&body)
}

/// The key by which servers find what they have kept: the session, cut to the longest they take.
fn cache_key(request: &ModelRequest, long: bool) -> Option<String> {
    let options = &request.options;
    let by_key = base_url(request).contains("api.openai.com");
    let wanted = options.cache != CacheRetention::None && (by_key || long);
    let id = options.session_id.as_deref().filter(|_| wanted)?;
    Some(id.chars().take(CACHE_KEY_LIMIT).collect())
}

fn cache_mark(request: &ModelRequest, compat: &Compat) -> Option<CacheControl> {
    let long = match request.options.cache {
        CacheRetention::None => return None,
        CacheRetention::Short => false,
        CacheRetention::Long => compat.quirks.long_cache,
    };
    compat.cache_marks.then(|| CacheControl::ephemeral(long))
}

fn tools<'a>(
    request: &'a ModelRequest,
    compat: &Compat,
    mark: Option<CacheControl>,
) -> Option<Vec<WireTool<'a>>> {
    if request.tools.is_empty() {
        let called = request.transcript.iter().any(|message| match message {
            ModelMessage::Assistant(assistant) => assistant.tool_calls().next().is_some(),
            ModelMessage::ToolResult(_) => true,
            ModelMessage::User(_) => false,
        });
        // Servers behind some routers want the list when the history has calls.
        return called.then(Vec::new);
    }
    let mut tools: Vec<_> = request
        .tools
        .iter()
        .map(|tool| wire_tool(tool, compat))
        .collect();
    if let Some(last) = tools.last_mut() {
        last.cache_control = mark;
    }
    Some(tools)
}

fn wire_tool<'a>(tool: &'a ToolSpec, compat: &Compat) -> WireTool<'a> {
    WireTool {
        r#type: "function",
        function: WireFunction {
            name: &tool.name,
            description: &tool.description,
            parameters: &tool.parameters,
            strict: compat.quirks.strict.then_some(false),
        },
        cache_control: None,
    }
}

/// The fields that ask for thinking.
fn thinking(model: &Model, compat: &Compat, level: ThinkingLevel) -> Map<String, Value> {
    if !model.reasoning {
        return Map::new();
    }
    let level = model.clamp(level);
    let on = level != ThinkingLevel::Off;
    let mapped = model.thinking_level_map.get(&level);
    let name = mapped.cloned().flatten();
    let effort = name.clone().unwrap_or_else(|| level.as_str().to_owned());
    let sent_effort = (on && compat.quirks.reasoning_effort).then(|| effort.clone());
    let state = if on { "enabled" } else { "disabled" };
    let fields = match compat.quirks.thinking_format {
        ThinkingFormat::Openai => match (on, compat.quirks.reasoning_effort) {
            (true, true) => json!({ "reasoning_effort": effort }),
            (false, true) => {
                name.map_or_else(|| json!({}), |off| json!({ "reasoning_effort": off }))
            }
            (_, false) => json!({}),
        },
        ThinkingFormat::Openrouter => match (on, mapped) {
            (true, _) => json!({ "reasoning": { "effort": effort } }),
            (false, Some(None)) => json!({}),
            (false, _) => {
                json!({ "reasoning": { "effort": name.unwrap_or_else(|| "none".into()) } })
            }
        },
        ThinkingFormat::Deepseek => {
            with_effort(json!({ "thinking": { "type": state } }), sent_effort)
        }
        ThinkingFormat::Zai => json!({ "thinking": { "type": state } }),
        ThinkingFormat::Qwen => json!({ "enable_thinking": on }),
        ThinkingFormat::QwenChatTemplate => {
            json!({ "chat_template_kwargs": { "enable_thinking": on, "preserve_thinking": true } })
        }
        ThinkingFormat::Together => {
            with_effort(json!({ "reasoning": { "enabled": on } }), sent_effort)
        }
        ThinkingFormat::StringThinking => {
            json!({ "thinking": if on { effort } else { "none".into() } })
        }
        ThinkingFormat::AntLing => name.map_or_else(
            || json!({}),
            |effort| json!({ "reasoning": { "effort": effort } }),
        ),
    };
    match fields {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn with_effort(mut fields: Value, effort: Option<String>) -> Value {
    if let (Some(map), Some(effort)) = (fields.as_object_mut(), effort) {
        map.insert("reasoning_effort".into(), effort.into());
    }
    fields
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
