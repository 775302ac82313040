//! The models at hand: known ones and those of `models.json`.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluzo_credentials::SecretValue;
use fluzo_llm::model::Prices;
use fluzo_llm::{Extra, InputKind, Model, ThinkingLevel};
use serde::Deserialize;
use serde_json::{Number, Value};

use crate::catalogue::PROVIDERS;
use crate::{jsonc, models_schema, pattern};

/// Models, and the keys and headers that `models.json` names for their providers.
#[derive(Debug, Default)]
pub struct ModelRegistry {
    models: Vec<Arc<Model>>,
    keys: BTreeMap<String, SecretValue>,
    headers: BTreeMap<String, Vec<(String, SecretValue)>>,
    problems: Vec<String>,
}

/// A model that was asked for.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The model.
    pub model: Arc<Model>,
    /// The thinking level that stood behind the model's name.
    pub thinking: Option<ThinkingLevel>,
    /// What the user should know about the choice.
    pub warning: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProviderEntry {
    base_url: Option<String>,
    api_key: Option<String>,
    api: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    compat: Extra,
    #[serde(default)]
    models: Vec<ModelEntry>,
    #[serde(default)]
    model_overrides: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ModelEntry {
    id: String,
    name: Option<String>,
    api: Option<String>,
    base_url: Option<String>,
    #[serde(default)]
    reasoning: bool,
    #[serde(default)]
    thinking_level_map: BTreeMap<ThinkingLevel, Option<String>>,
    input: Option<Vec<InputKind>>,
    #[serde(default)]
    cost: Prices,
    context_window: Option<Number>,
    max_tokens: Option<Number>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    compat: Extra,
}

impl ModelRegistry {
    /// The known models, and those of the text of `models.json` when there is one.
    ///
    /// A provider that cannot be used is left out and named among the problems; the
    /// rest counts.
    pub fn new(models_json: Option<&str>) -> Self {
        let mut registry = Self::default();
        for row in PROVIDERS {
            registry
                .models
                .extend(row.models.iter().map(|model| Arc::new(known(row, model))));
        }
        if let Some(text) = models_json {
            registry.add_file(text);
        }
        registry
    }

    /// What in `models.json` could not be used.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// All models.
    pub fn models(&self) -> &[Arc<Model>] {
        &self.models
    }

    /// Keys that `models.json` names, by provider.
    pub fn keys(&self) -> BTreeMap<String, SecretValue> {
        self.keys.clone()
    }

    /// Headers that `models.json` names, by provider.
    pub fn headers(&self) -> BTreeMap<String, Vec<(String, SecretValue)>> {
        self.headers.clone()
    }

    /// The model with this provider and id.
    pub fn find(&self, provider: &str, id: &str) -> Option<Arc<Model>> {
        self.models
            .iter()
            .find(|m| m.provider == provider && m.id == id)
            .cloned()
    }

    /// The default model of a provider, whose name may be in any case.
    ///
    /// # Errors
    ///
    /// The text for the user when there is no such provider.
    pub fn first_of(&self, provider: &str) -> Result<Arc<Model>, String> {
        pattern::first_of(&self.models, provider).cloned()
    }

    /// The model that `pattern` means, perhaps only among those of `provider`.
    ///
    /// # Errors
    ///
    /// The text for the user when nothing matches.
    pub fn resolve(&self, provider: Option<&str>, pattern: &str) -> Result<Resolved, String> {
        pattern::resolve(&self.models, provider, pattern)
    }

    fn add_file(&mut self, text: &str) {
        let value = match jsonc::parse(text) {
            Ok(value) => value,
            Err(error) => {
                return self
                    .problems
                    .push(format!("Failed to parse models.json: {error}"));
            }
        };
        match models_schema::providers(&value) {
            Ok(providers) => {
                for (name, entry) in providers {
                    self.add_entry(name, entry);
                }
            }
            Err(problem) => self.problems.push(schema(&[problem])),
        }
    }

    fn add_entry(&mut self, name: &str, value: &Value) {
        let findings = models_schema::provider(name, value);
        let mut lines = findings.errors;
        let usable = lines.is_empty();
        lines.extend(findings.ignored);
        if !lines.is_empty() {
            self.problems.push(schema(&lines));
        }
        if !usable {
            return;
        }
        // The error of the parser would show the value, which may be a secret.
        match serde_json::from_value(value.clone()) {
            Ok(entry) => self.add_provider(name, entry),
            Err(_) => self
                .problems
                .push(schema(&[format!("providers.{name}: cannot be used")])),
        }
    }

    fn add_provider(&mut self, name: &str, entry: ProviderEntry) {
        if entry.says_nothing() {
            return self.problems.push(format!(
                "Failed to load models.json: Provider {name}: must specify \"baseUrl\", \"headers\", \"compat\", \"modelOverrides\", or \"models\"."
            ));
        }
        if let Some(key) = &entry.api_key {
            self.keys.insert(name.to_owned(), SecretValue::parse(key));
        }
        let headers: Vec<_> = entry
            .headers
            .iter()
            .map(|(n, v)| (n.clone(), SecretValue::parse(v)))
            .collect();
        if !headers.is_empty() {
            self.headers.insert(name.to_owned(), headers);
        }
        self.redirect_known(name, &entry);
        for model in &entry.models {
            match custom(name, &entry, model) {
                Ok(model) => {
                    self.models
                        .retain(|m| !(m.provider == model.provider && m.id == model.id));
                    self.models.push(Arc::new(model));
                }
                Err(problem) => self
                    .problems
                    .push(format!("Failed to load models.json: {problem}")),
            }
        }
    }

    /// A base URL for a known provider moves all its models there.
    fn redirect_known(&mut self, name: &str, entry: &ProviderEntry) {
        for model in self.models.iter_mut().filter(|m| m.provider == name) {
            let model = Arc::make_mut(model);
            if let Some(url) = &entry.base_url {
                model.base_url.clone_from(url);
            }
            model.compat.extend(entry.compat.clone());
        }
    }
}

impl ProviderEntry {
    fn says_nothing(&self) -> bool {
        self.base_url.is_none()
            && self.headers.is_empty()
            && self.compat.is_empty()
            && self.models.is_empty()
            && self
                .model_overrides
                .as_object()
                .is_none_or(serde_json::Map::is_empty)
    }
}

fn schema(lines: &[String]) -> String {
    format!("Invalid models.json schema:\n  - {}", lines.join("\n  - "))
}

/// A whole number above zero, also when it is written with a point.
fn count(number: &Number) -> Option<u64> {
    let whole = number
        .as_f64()
        .filter(|n| n.fract() == 0.0 && *n >= 1.0 && *n <= 9e15);
    // Checked to be whole and in range.
    number
        .as_u64()
        .or(whole.map(|n| n as u64))
        .filter(|n| *n > 0)
}

fn known(provider: &crate::catalogue::ProviderRow, row: &crate::catalogue::ModelRow) -> Model {
    Model {
        id: row.id.into(),
        name: row.name.into(),
        api: provider.api.into(),
        provider: provider.id.into(),
        base_url: provider.base_url.into(),
        reasoning: row.reasoning,
        input: vec![InputKind::Text, InputKind::Image],
        cost: Prices::default(),
        context_window: row.context_window,
        max_tokens: row.max_tokens,
        headers: BTreeMap::new(),
        thinking_level_map: BTreeMap::new(),
        compat: Extra::new(),
    }
}

fn custom(provider: &str, entry: &ProviderEntry, model: &ModelEntry) -> Result<Model, String> {
    let here = || format!("Provider {provider}, model {}", model.id);
    if model.id.is_empty() {
        return Err(format!("Provider {provider}: a model has an empty \"id\"."));
    }
    let base_url = model.base_url.as_ref().or(entry.base_url.as_ref());
    let base_url = base_url.ok_or_else(|| {
        format!("Provider {provider}: \"baseUrl\" is required when defining custom models.")
    })?;
    if entry.api_key.is_none() {
        return Err(format!(
            "Provider {provider}: \"apiKey\" is required when defining custom models."
        ));
    }
    let api = model.api.as_ref().or(entry.api.as_ref());
    let api = api.ok_or_else(|| {
        format!(
            "{}: no \"api\" specified. Set at provider or model level.",
            here()
        )
    })?;
    let positive = |value: Option<&Number>, default: u64, name: &str| match value {
        None => Ok(default),
        Some(number) => count(number).ok_or_else(|| format!("{}: invalid {name}", here())),
    };
    let mut compat = entry.compat.clone();
    compat.extend(model.compat.clone());
    Ok(Model {
        id: model.id.clone(),
        name: model.name.clone().unwrap_or_else(|| model.id.clone()),
        api: api.clone(),
        provider: provider.into(),
        base_url: base_url.clone(),
        reasoning: model.reasoning,
        input: model.input.clone().unwrap_or_else(|| vec![InputKind::Text]),
        cost: model.cost,
        context_window: positive(model.context_window.as_ref(), 128_000, "contextWindow")?,
        max_tokens: positive(model.max_tokens.as_ref(), 16_384, "maxTokens")?,
        headers: model.headers.clone(),
        thinking_level_map: model.thinking_level_map.clone(),
        compat,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_custom_provider_becomes_models_and_keys() {
        let text = r#"{ "providers": { "fake": { // local
            "baseUrl": "http://localhost:1/v1", "api": "openai-completions", "apiKey": "sk-x",
            "models": [ {"id": "m1", "contextWindow": 1000, "compat": {"supportsStore": false}}, ], } } }"#;
        let registry = ModelRegistry::new(Some(text));
        assert!(registry.problems().is_empty(), "{:?}", registry.problems());
        let model = registry.find("fake", "m1").unwrap();
        assert_eq!(
            (model.context_window, model.max_tokens, model.name.as_str()),
            (1000, 16_384, "m1")
        );
        assert!(registry.keys().contains_key("fake"));
    }

    #[test]
    fn a_part_that_is_ignored_is_named_and_its_provider_counts() {
        let text = r#"{"providers": {"a": {"baseUrl": "u", "apiKey": "k", "api": "x", "authHeader": true,
            "models": [{"id": "m", "contextWindow": 1000.0, "colour": 1}]}}}"#;
        let registry = ModelRegistry::new(Some(text));
        let line = "providers.a.models.0.colour: unknown property";
        assert_eq!(registry.problems(), [schema(&[line.to_owned()])]);
        assert_eq!(registry.find("a", "m").unwrap().context_window, 1000);
    }

    /// Everywhere a person may put a key by mistake.
    #[test]
    fn a_value_in_the_wrong_place_is_not_shown() {
        let key = "sk-planted";
        let rows = [
            format!(r#"{{"providers": {{"a": {{"headers": "Bearer {key}"}}}}}}"#),
            format!(r#"{{"providers": {{"a": "{key}"}}}}"#),
            format!(r#"{{"providers": "{key}"}}"#),
            format!(r#""{key}""#),
            format!(r#"{{"providers": {{"a": {{"models": "{key}"}}}}}}"#),
            format!(r#"{{"providers": {{"a": {{"apiKey": "{key}" "#),
        ];
        for text in rows {
            let problems = ModelRegistry::new(Some(&text)).problems().join("\n");
            assert!(!problems.is_empty(), "{text}");
            assert!(!problems.contains(key), "{problems}");
        }
    }

    #[test]
    fn a_broken_part_is_named_and_the_rest_counts() {
        let rows = [
            ("{", "Failed to parse models.json"),
            (
                r#"{"providers": {"a": {"models": [{"id": 3}]}}}"#,
                "Invalid models.json schema:\n  - providers.a.models.0.id: must be string",
            ),
            (
                r#"{"providers": {"a": {"apiKey": "k"}}}"#,
                "Failed to load models.json: Provider a: must specify \"baseUrl\", \"headers\", \"compat\", \"modelOverrides\", or \"models\".",
            ),
            (
                r#"{"providers": {"a": {"baseUrl": "u", "apiKey": "k", "api": "x", "models": [{"id": "m", "contextWindow": -1}]}}}"#,
                "invalid contextWindow",
            ),
            (
                r#"{"providers": {"a": {"apiKey": "k", "models": [{"id": "m"}]}}}"#,
                "\"baseUrl\" is required",
            ),
            (
                r#"{"providers": {"a": {"baseUrl": "u", "models": [{"id": "m"}]}}}"#,
                "\"apiKey\" is required",
            ),
            (
                r#"{"providers": {"a": {"baseUrl": "u", "apiKey": "k", "models": [{"id": "m"}]}}}"#,
                "no \"api\" specified",
            ),
            (
                r#"{"providers": {"a": {"baseUrl": "u", "apiKey": "k", "api": "x", "models": [{"id": "m", "maxTokens": 0}]}}}"#,
                "invalid maxTokens",
            ),
        ];
        for (text, problem) in rows {
            let registry = ModelRegistry::new(Some(text));
            assert!(
                registry.problems().iter().any(|p| p.contains(problem)),
                "{text}: {:?}",
                registry.problems()
            );
            assert!(registry.find("openai", "gpt-4o").is_some(), "{text}");
        }
    }
}
