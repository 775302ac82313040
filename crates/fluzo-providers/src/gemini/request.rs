//! The body of a request. The same request gives the same bytes.

use fluzo_llm::{ModelRequest, ToolSpec};
use serde::Serialize;
use serde_json::Value;

use super::contents::{Part, WireContent, contents};
use super::family::{ThinkingConfig, thinking};

/// The order of the fields is the order of the keys.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    contents: Vec<WireContent<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<SystemInstruction<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<[Tools<'a>; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation_config: Option<GenerationConfig>,
}

#[derive(Serialize)]
struct SystemInstruction<'a> {
    parts: [Part<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools<'a> {
    function_declarations: Vec<Declaration<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Declaration<'a> {
    name: &'a str,
    description: &'a str,
    parameters_json_schema: &'a Value,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<ThinkingConfig>,
}

/// The JSON of `request`.
///
/// # Errors
///
/// When a value cannot be written as JSON.
pub(crate) fn body(request: &ModelRequest) -> Result<Vec<u8>, serde_json::Error> {
    let prompt: &str = &request.system_prompt;
    let config = GenerationConfig {
        max_output_tokens: request.options.max_output_tokens,
        thinking_config: thinking(&request.model, &request.options),
    };
    let asks = config.max_output_tokens.is_some() || config.thinking_config.is_some();
    let body = Body {
        contents: contents(&request.model, &request.transcript),
        system_instruction: (!prompt.is_empty()).then(|| SystemInstruction {
            parts: [Part::text(prompt)],
        }),
        tools: (!request.tools.is_empty()).then(|| {
            [Tools {
                function_declarations: request.tools.iter().map(declaration).collect(),
            }]
        }),
        generation_config: asks.then_some(config),
    };
    serde_json::to_vec(&body)
}

fn declaration(tool: &ToolSpec) -> Declaration<'_> {
    Declaration {
        name: &tool.name,
        description: &tool.description,
        parameters_json_schema: &tool.parameters,
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
