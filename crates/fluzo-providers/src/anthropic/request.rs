//! The body of a request. The same request gives the same bytes.

use fluzo_llm::{CacheRetention, ModelRequest, ToolSpec};
use serde::Serialize;
use serde_json::Value;

use super::compat::Compat;
use super::messages::{CacheControl, Conversation, WireMessage};
use super::thinking::{Plan, WireThinking, plan};

/// The version of the API that a body on Vertex names.
const VERTEX_VERSION: &str = "vertex-2023-10-16";

/// Where the request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The body names the model, a header the version.
    Anthropic,
    /// The URL names the model, the body the version.
    Vertex,
}

/// The order of the fields is the order of the keys.
#[derive(Serialize)]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    anthropic_version: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    messages: Vec<WireMessage<'a>>,
    max_tokens: u64,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<[SystemBlock<'a>; 1]>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<WireTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<WireThinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig>,
}

#[derive(Serialize)]
struct SystemBlock<'a> {
    r#type: &'static str,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
struct OutputConfig {
    effort: String,
}

#[derive(Serialize)]
struct WireTool<'a> {
    name: &'a str,
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    eager_input_streaming: Option<bool>,
    input_schema: Schema<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

/// What the API takes of a schema: it refuses some of the other keywords at the root.
#[derive(Serialize)]
struct Schema<'a> {
    r#type: &'static str,
    properties: Value,
    required: Vec<&'a str>,
    /// References within `properties` lead here.
    #[serde(rename = "$defs", skip_serializing_if = "Option::is_none")]
    defs: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    definitions: Option<&'a Value>,
}

/// The JSON of `request`.
///
/// # Errors
///
/// When a value cannot be written as JSON.
pub(super) fn body(request: &ModelRequest, place: Place) -> Result<Vec<u8>, serde_json::Error> {
    let model = &request.model;
    let compat = Compat::of(request);
    let mark = cache_mark(request.options.cache, &compat);
    let mut conversation = Conversation::of(model, &compat, &request.transcript);
    let plan = plan(request, &compat, conversation.has_thought);
    if plan.forbids() {
        conversation.forget_thoughts();
    }
    if plan.thinks() && compat.quirks.empty_signature {
        conversation.fill_in_thoughts();
    }
    if let Some(mark) = mark {
        conversation.mark_last(mark);
    }
    conversation.end(!compat.adaptive_thinking && !plan.thinks());
    let Plan {
        thinking,
        effort,
        max_tokens,
    } = plan;
    let vertex = place == Place::Vertex;
    let prompt = Some(&*request.system_prompt).filter(|prompt| !prompt.trim().is_empty());
    let body = Body {
        anthropic_version: vertex.then_some(VERTEX_VERSION),
        model: (!vertex).then_some(model.id.as_str()),
        messages: conversation.messages,
        max_tokens,
        stream: true,
        system: prompt.map(|text| {
            [SystemBlock {
                r#type: "text",
                text,
                cache_control: mark,
            }]
        }),
        tools: tools(&request.tools, &compat, mark),
        thinking,
        output_config: effort.map(|effort| OutputConfig { effort }),
    };
    serde_json::to_vec(&body)
}

fn cache_mark(cache: CacheRetention, compat: &Compat) -> Option<CacheControl> {
    let ttl = match cache {
        CacheRetention::None => return None,
        CacheRetention::Short => None,
        CacheRetention::Long => compat.quirks.long_cache.then_some("1h"),
    };
    Some(CacheControl {
        r#type: "ephemeral",
        ttl,
    })
}

fn tools<'a>(
    specs: &'a [ToolSpec],
    compat: &Compat,
    mark: Option<CacheControl>,
) -> Vec<WireTool<'a>> {
    let tool = |spec: &'a ToolSpec| WireTool {
        name: &spec.name,
        description: &spec.description,
        eager_input_streaming: compat.quirks.eager_tool_input.then_some(true),
        input_schema: schema(&spec.parameters),
        cache_control: None,
    };
    let mut tools: Vec<_> = specs.iter().map(tool).collect();
    if let Some(last) = tools.last_mut().filter(|_| compat.quirks.cache_on_tools) {
        last.cache_control = mark;
    }
    tools
}

fn schema(parameters: &Value) -> Schema<'_> {
    let object = |name: &str| parameters.get(name).filter(|value| value.is_object());
    let required = parameters.get("required").and_then(Value::as_array);
    let names = required.into_iter().flatten().filter_map(Value::as_str);
    Schema {
        r#type: "object",
        properties: object("properties")
            .cloned()
            .unwrap_or_else(|| Value::Object(Default::default())),
        required: names.collect(),
        defs: object("$defs"),
        definitions: object("definitions"),
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
