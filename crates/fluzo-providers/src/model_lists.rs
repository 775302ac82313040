//! How servers are asked for their models, and what their answers mean. Pure.
//!
//! The forms are those of OpenAI (`/v1/models`), Anthropic (`/v1/models`), Gemini
//! (`/v1beta/models`), Ollama (`/api/tags`), LM Studio (`/api/v0/models`) and llama.cpp
//! (`/props`), as their makers document them.

use fluzo_llm::Secret;
use reqwest::Url;
use serde_json::Value;

use crate::discovery::DiscoveredModel;

/// The most models that are taken from one server.
pub(crate) const MAX_MODELS: usize = 2000;

/// The longest id or name that is taken, in characters.
const MAX_TEXT: usize = 200;

/// Servers that are asked the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    OpenAi,
    Anthropic,
    Google,
}

impl Family {
    /// The family of servers that speak the dialect `api`.
    pub(crate) fn of(api: &str) -> Self {
        match api {
            "anthropic-messages" => Self::Anthropic,
            "google-generative-ai" => Self::Google,
            _ => Self::OpenAi,
        }
    }

    pub(crate) fn key_header(self, key: &Secret) -> (String, String) {
        match self {
            Self::OpenAi => ("authorization".into(), format!("Bearer {}", key.reveal())),
            Self::Anthropic => ("x-api-key".into(), key.reveal().into()),
            Self::Google => ("x-goog-api-key".into(), key.reveal().into()),
        }
    }

    pub(crate) fn fixed_headers(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Anthropic => &[("anthropic-version", "2023-06-01")],
            _ => &[],
        }
    }
}

/// Where the list of a server with the base URL `base` is.
pub(crate) fn url(family: Family, base: &Url) -> Url {
    let path = base.path().trim_end_matches('/');
    let versioned = path.ends_with("/v1") || path.ends_with("/v1beta");
    let path = match family {
        Family::Anthropic if !versioned => format!("{path}/v1/models"),
        Family::OpenAi if path.is_empty() => "/v1/models".to_owned(),
        Family::Google if path.is_empty() => "/v1beta/models".to_owned(),
        _ => format!("{path}/models"),
    };
    at(base, &path)
}

/// `path` beside the version part of `base`.
pub(crate) fn beside(base: &Url, path: &str) -> Url {
    let own = base.path().trim_end_matches('/');
    let root = own.strip_suffix("/v1").unwrap_or(own);
    at(base, &format!("{root}/{path}"))
}

fn at(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(path);
    url.set_fragment(None);
    url
}

/// The models of a body in any of the forms; `None` when it is no list of models.
pub(crate) fn read(body: &[u8]) -> Option<Vec<DiscoveredModel>> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let rows = match &value {
        Value::Array(rows) => rows,
        Value::Object(_) => ["data", "models"]
            .iter()
            .find_map(|field| value.get(*field)?.as_array())?,
        _ => return None,
    };
    // One more than is accepted shows that there are more.
    Some(rows.iter().filter_map(model).take(MAX_MODELS + 1).collect())
}

/// The context window that a llama.cpp server runs with.
pub(crate) fn context_of_props(body: &[u8]) -> Option<u64> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let places = ["/default_generation_settings/n_ctx", "/n_ctx"];
    number(&value, &places)
}

fn model(row: &Value) -> Option<DiscoveredModel> {
    let text = |field: &str| row.get(field)?.as_str().and_then(plain);
    // Gemini puts the kind before the id.
    let id = ["id", "model", "name"]
        .iter()
        .find_map(|field| text(field))?;
    let id = id.strip_prefix("models/").unwrap_or(&id).to_owned();
    let name = ["display_name", "displayName", "name"]
        .iter()
        .find_map(|field| text(field))
        .filter(|name| *name != id && name.strip_prefix("models/") != Some(&id));
    let places = [
        // LM Studio: what is loaded counts before what could be.
        "/loaded_context_length",
        "/max_context_length",
        "/context_length",
        "/context_window",
        // vLLM.
        "/max_model_len",
        // Gemini.
        "/inputTokenLimit",
        // Anthropic.
        "/max_input_tokens",
        // llama.cpp.
        "/meta/n_ctx",
        "/meta/n_ctx_train",
        // Mistral, GitHub Models.
        "/max_context_window",
        "/limits/max_input_tokens",
    ];
    Some(DiscoveredModel {
        id,
        name,
        context: number(row, &places),
    })
}

fn number(value: &Value, places: &[&str]) -> Option<u64> {
    places
        .iter()
        .find_map(|place| value.pointer(place)?.as_u64().filter(|n| *n > 0))
}

/// Text that can be shown on one line; `None` when nothing is left.
fn plain(text: &str) -> Option<String> {
    let text = fluzo_stdx::sanitize::terminal_text(text);
    let text: String = text
        .chars()
        .filter(|c| !matches!(c, '\n' | '\t'))
        .take(MAX_TEXT)
        .collect();
    (!text.trim().is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_lists_are() {
        use Family::{Anthropic, Google, OpenAi};
        let rows = [
            (OpenAi, "http://h:1/v1", "http://h:1/v1/models"),
            (OpenAi, "http://h:1/v1/", "http://h:1/v1/models"),
            (OpenAi, "http://h:1", "http://h:1/v1/models"),
            (
                OpenAi,
                "https://h/api/openai?v=1#x",
                "https://h/api/openai/models?v=1",
            ),
            (Anthropic, "https://h", "https://h/v1/models"),
            (
                Anthropic,
                "https://h/anthropic",
                "https://h/anthropic/v1/models",
            ),
            (Anthropic, "https://h/v1", "https://h/v1/models"),
            (Google, "https://h/v1beta", "https://h/v1beta/models"),
            (Google, "https://h", "https://h/v1beta/models"),
        ];
        for (family, base, expected) in rows {
            assert_eq!(url(family, &Url::parse(base).unwrap()).as_str(), expected);
        }
        let rows = [
            ("http://h:1/v1", "http://h:1/api/tags"),
            ("http://h:1", "http://h:1/api/tags"),
            ("http://h:1/x/v1/", "http://h:1/x/api/tags"),
        ];
        for (base, expected) in rows {
            let url = beside(&Url::parse(base).unwrap(), "api/tags");
            assert_eq!(url.as_str(), expected);
        }
    }

    #[test]
    fn lists_in_every_form() {
        let rows = [
            (r#"{"data":[{"id":"a"},{"id":"b"}]}"#, "a - -; b - -"),
            (r#"[{"id":"a","context_length":8}]"#, "a - 8"),
            (
                r#"{"data":[{"id":"claude","display_name":"Claude","type":"model"}]}"#,
                "claude Claude -",
            ),
            (
                r#"{"models":[{"name":"models/g","displayName":"G","inputTokenLimit":9}]}"#,
                "g G 9",
            ),
            (
                r#"{"models":[{"name":"q:7b","model":"q:7b","details":{}}]}"#,
                "q:7b - -",
            ),
            (
                r#"{"data":[{"id":"l","max_context_length":10,"loaded_context_length":4}]}"#,
                "l - 4",
            ),
            (r#"{"data":[{"id":"v","max_model_len":5}]}"#, "v - 5"),
            (r#"{"data":[{"id":"c","meta":{"n_ctx_train":6}}]}"#, "c - 6"),
            (r#"{"data":[{"id":"c","context_length":0}]}"#, "c - -"),
            (
                r#"{"data":[{"id":7},{"id":""},{},"x",{"id":"ok"}]}"#,
                "ok - -",
            ),
            (r#"{"data":[{"id":"a\u001b[31m\nb"}]}"#, "ab - -"),
            (r#"{"data":[]}"#, ""),
            (r#"{"data":{}}"#, "no list"),
            (r#"{"object":"list"}"#, "no list"),
            ("<html>", "no list"),
            ("7", "no list"),
            ("", "no list"),
        ];
        for (body, expected) in rows {
            let shown = |model: DiscoveredModel| {
                let context = model.context.map(|n| n.to_string());
                let dash = || "-".to_owned();
                let name = model.name.unwrap_or_else(dash);
                format!("{} {name} {}", model.id, context.unwrap_or_else(dash))
            };
            let got = read(body.as_bytes()).map(|models| {
                let lines: Vec<String> = models.into_iter().map(shown).collect();
                lines.join("; ")
            });
            assert_eq!(got.as_deref().unwrap_or("no list"), expected, "{body}");
        }
    }

    #[test]
    fn what_is_too_long_is_cut() {
        let rows: Vec<Value> = (0..2500)
            .map(|n| serde_json::json!({"id": format!("{n}-{}", "x".repeat(500))}))
            .collect();
        let models = read(Value::Array(rows).to_string().as_bytes()).unwrap();
        assert_eq!(models.len(), MAX_MODELS + 1);
        assert!(models.iter().all(|m| m.id.chars().count() == MAX_TEXT));
    }

    #[test]
    fn the_context_of_a_running_server() {
        let rows = [
            (
                r#"{"default_generation_settings":{"n_ctx":4096}}"#,
                Some(4096),
            ),
            (r#"{"n_ctx":512}"#, Some(512)),
            (r#"{"x":1}"#, None),
            ("no", None),
        ];
        for (body, expected) in rows {
            assert_eq!(context_of_props(body.as_bytes()), expected, "{body}");
        }
    }
}
