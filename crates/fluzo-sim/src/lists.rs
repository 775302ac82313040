//! Lists of models, each in the form of its kind of server.

use serde_json::{Value, json};

use crate::http::Incoming;
use crate::scenario::{Model, Scenario, ServerFamily};

/// One list of models, or one entry of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    /// `GET /v1/models` in OpenAI's form.
    OpenAi,
    /// `GET /v1/models` in Anthropic's form.
    Anthropic,
    /// `GET /v1beta/models`.
    Google,
    /// `GET /api/tags`.
    OllamaTags,
    /// `POST /api/show`.
    OllamaShow,
    /// `GET /api/v0/models`.
    LmStudio,
    /// `GET /api/v1/models`.
    LmStudioNative,
    /// `GET /props`.
    LlamaProps,
    /// `GET /api/version` or `GET /version`, which is no list but tells the family.
    Version,
    /// A list of another family: it is not here, and asking is no fault.
    Elsewhere,
}

impl List {
    /// The list at a path without its query; `None` when there is never one.
    pub(crate) fn at(scenario: &Scenario, request: &Incoming, path: &str) -> Option<Self> {
        let own = |family, list| {
            Some(if scenario.family == family {
                list
            } else {
                Self::Elsewhere
            })
        };
        if path.strip_prefix(scenario.base_path.as_str()) == Some("/models") {
            let anthropic = request.header("anthropic-version").is_some();
            return Some(if anthropic {
                Self::Anthropic
            } else {
                Self::OpenAi
            });
        }
        match path {
            "/api/tags" => own(ServerFamily::Ollama, Self::OllamaTags),
            "/api/show" => own(ServerFamily::Ollama, Self::OllamaShow),
            "/api/version" => own(ServerFamily::Ollama, Self::Version),
            "/api/v0/models" => own(ServerFamily::LmStudio, Self::LmStudio),
            "/api/v1/models" => own(ServerFamily::LmStudio, Self::LmStudioNative),
            "/props" => own(ServerFamily::LlamaCpp, Self::LlamaProps),
            "/version" => own(ServerFamily::Vllm, Self::Version),
            "/v1beta/models" => own(ServerFamily::Generic, Self::Google),
            _ => None,
        }
    }

    /// The method that it is asked with.
    pub(crate) fn method(self) -> &'static str {
        match self {
            Self::OllamaShow => "POST",
            _ => "GET",
        }
    }

    /// The answer with its status.
    pub(crate) fn answer(self, scenario: &Scenario, request: &Incoming) -> (u16, Value) {
        let all =
            |entry: fn(&Model) -> Value| scenario.models.iter().map(entry).collect::<Vec<_>>();
        match self {
            Self::OpenAi => {
                let entry = |model| openai(model, scenario.family);
                let list: Vec<Value> = scenario.models.iter().map(entry).collect();
                (200, json!({"object": "list", "data": list}))
            }
            Self::Anthropic => (
                200,
                json!({
                    "data": all(anthropic),
                    "has_more": false,
                    "first_id": scenario.models.first().map(|model| &model.id),
                    "last_id": scenario.models.last().map(|model| &model.id),
                }),
            ),
            Self::Google => (200, json!({ "models": all(google) })),
            Self::OllamaTags => (200, json!({ "models": all(ollama) })),
            Self::OllamaShow => show(scenario, request),
            Self::LmStudio => (200, json!({"object": "list", "data": all(lm_studio)})),
            Self::LmStudioNative => (200, json!({ "models": all(lm_studio_native) })),
            Self::LlamaProps => (200, props(scenario)),
            Self::Version => (200, json!({"version": "0.12.0"})),
            Self::Elsewhere => (404, json!({"error": "not found"})),
        }
    }
}

fn openai(model: &Model, family: ServerFamily) -> Value {
    let mut entry = json!({"id": model.id, "object": "model", "created": 1_700_000_000, "owned_by": "fluzo-sim"});
    match (family, model.context_tokens) {
        (ServerFamily::Vllm, Some(tokens)) => entry["max_model_len"] = tokens.into(),
        (ServerFamily::LlamaCpp, Some(tokens)) => {
            entry["meta"] = json!({"n_ctx_train": tokens, "n_params": 1, "size": 1});
        }
        _ => {}
    }
    entry
}

fn anthropic(model: &Model) -> Value {
    json!({"type": "model", "id": model.id, "display_name": model.id, "created_at": "2025-01-01T00:00:00Z"})
}

fn google(model: &Model) -> Value {
    json!({
        "name": format!("models/{}", model.id),
        "displayName": model.id,
        "inputTokenLimit": model.context_tokens.unwrap_or(1_048_576),
        "outputTokenLimit": 65_536,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
        "thinking": model.reasoning,
    })
}

fn ollama(model: &Model) -> Value {
    json!({
        "name": model.id,
        "model": model.id,
        "modified_at": "2025-01-01T00:00:00Z",
        "size": 1_000_000,
        "digest": "0",
        "details": {"format": "gguf", "family": "sim", "families": ["sim"], "parameter_size": "1B", "quantization_level": "Q4_0"},
    })
}

fn show(scenario: &Scenario, request: &Incoming) -> (u16, Value) {
    let asked = request.json();
    let name = asked.get("model").or_else(|| asked.get("name"));
    let model = scenario
        .models
        .iter()
        .find(|model| name == Some(&Value::from(model.id.as_str())));
    let Some(model) = model else {
        return (404, json!({"error": "model not found"}));
    };
    let mut capabilities = vec!["completion", "tools"];
    capabilities.extend(model.images.then_some("vision"));
    capabilities.extend(model.reasoning.then_some("thinking"));
    let info = json!({"general.architecture": "sim", "sim.context_length": model.context_tokens});
    (
        200,
        json!({"capabilities": capabilities, "model_info": info, "details": {"family": "sim"}}),
    )
}

fn lm_studio(model: &Model) -> Value {
    json!({
        "id": model.id,
        "object": "model",
        "type": if model.images { "vlm" } else { "llm" },
        "publisher": "fluzo-sim",
        "state": "loaded",
        "max_context_length": model.context_tokens.unwrap_or(4096),
        "loaded_context_length": model.context_tokens.unwrap_or(4096),
        "capabilities": ["tool_use"],
    })
}

fn lm_studio_native(model: &Model) -> Value {
    let tokens = model.context_tokens.unwrap_or(4096);
    json!({
        "type": "llm",
        "publisher": "fluzo-sim",
        "key": model.id,
        "display_name": model.id,
        "max_context_length": tokens,
        "loaded_instances": [{"id": model.id, "config": {"context_length": tokens}}],
        "capabilities": {"vision": model.images, "trained_for_tool_use": true},
    })
}

fn props(scenario: &Scenario) -> Value {
    let model = scenario.models.first();
    json!({
        "default_generation_settings": {"n_ctx": model.and_then(|model| model.context_tokens).unwrap_or(4096)},
        "total_slots": 1,
        "model_path": model.map(|model| &model.id),
        "modalities": {"vision": model.is_some_and(|model| model.images), "audio": false},
    })
}
