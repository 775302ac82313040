//! What `models.json` says: models of one's own, changes to known ones, keys and headers.
//! A part that cannot be used is named, with its line, and the rest counts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fluzo_catalogue::Host;
use fluzo_credentials::SecretValue;
use fluzo_llm::model::Prices;
use fluzo_llm::{Extra, InputKind, Model, ThinkingLevel};
use serde::Deserialize;
use serde_json::{Number, Value};

use crate::jsonc;
use crate::models_schema::{self, Finding};

/// Objects within `compat` whose members are merged one by one.
const MERGED_WITHIN: [&str; 2] = ["openRouterRouting", "vercelGatewayRouting"];

/// What in `models.json` cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong, in one or more lines; never a value of the file.
    pub text: String,
    /// The lines of the file that it is about, in the order of `text`; none when `text` names
    /// the line.
    pub lines: Vec<usize>,
}

/// What the file says, in the order of the file.
#[derive(Debug, Default)]
pub(crate) struct ModelsFile {
    /// Models of its own.
    pub(crate) custom: Vec<Model>,
    /// Changes to known models, by provider.
    pub(crate) changes: BTreeMap<String, Changes>,
    /// Keys by provider.
    pub(crate) keys: BTreeMap<String, SecretValue>,
    /// Headers by provider.
    pub(crate) headers: BTreeMap<String, Vec<(String, SecretValue)>>,
    /// Providers whose key is also sent as a bearer token.
    pub(crate) bearers: BTreeSet<String>,
    /// Names shown to people, by provider.
    pub(crate) names: BTreeMap<String, String>,
    /// What could not be used.
    pub(crate) problems: Vec<Problem>,
}

/// Changes to the known models of a provider.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    base_url: Option<String>,
    compat: Extra,
    /// Names of headers that the provider sets for all requests, in lower case.
    headers: BTreeSet<String>,
    models: BTreeMap<String, ModelChange>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ProviderEntry {
    name: Option<String>,
    base_url: Option<String>,
    api_key: Option<String>,
    api: Option<String>,
    headers: BTreeMap<String, String>,
    auth_header: bool,
    compat: Extra,
    models: Vec<ModelEntry>,
    model_overrides: BTreeMap<String, ModelChange>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ModelEntry {
    id: String,
    api: Option<String>,
    base_url: Option<String>,
    #[serde(flatten)]
    rest: ModelChange,
}

/// The fields of a model that do not say which one it is.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ModelChange {
    name: Option<String>,
    reasoning: Option<bool>,
    thinking_level_map: BTreeMap<ThinkingLevel, Option<String>>,
    input: Option<Vec<InputKind>>,
    cost: PriceChange,
    context_window: Option<Number>,
    max_tokens: Option<Number>,
    headers: BTreeMap<String, String>,
    compat: Extra,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PriceChange {
    input: Option<f64>,
    output: Option<f64>,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
}

impl Problem {
    /// The problem, the file and its lines, for the user.
    pub fn report(&self, file: &Path) -> String {
        let lines: Vec<String> = self.lines.iter().map(ToString::to_string).collect();
        let lines = match lines.as_slice() {
            [] => String::new(),
            [line] => format!("\nLine: {line}"),
            lines => format!("\nLines: {}", lines.join(", ")),
        };
        format!("{}\n\nFile: {}{lines}", self.text, file.display())
    }
}

impl ModelsFile {
    /// Reads the text of the file.
    pub(crate) fn parse(text: &str) -> Self {
        let mut file = Self::default();
        let value = match jsonc::parse(text) {
            Ok(value) => value,
            Err(error) => {
                file.problems.push(syntax(text, &error));
                return file;
            }
        };
        let mut report = Report {
            text,
            schema: Problem {
                text: "Invalid models.json schema:".to_owned(),
                lines: Vec::new(),
            },
            load: Vec::new(),
        };
        match models_schema::providers(&value) {
            Ok(providers) => {
                for (name, entry) in providers {
                    file.add_entry(name, entry, &mut report);
                }
            }
            Err(finding) => report.finding(&finding),
        }
        file.problems = report.problems();
        file
    }

    fn add_entry(&mut self, name: &str, value: &Value, report: &mut Report<'_>) {
        let findings = models_schema::provider(name, value);
        findings.iter().for_each(|finding| report.finding(finding));
        let Some(left) = models_schema::usable_part(value, &findings) else {
            return;
        };
        let path = ["providers".to_owned(), name.to_owned()];
        // The error of the parser would show the value, which may be a secret.
        match serde_json::from_value(left) {
            Ok(entry) => self.add_provider(name, entry, report),
            Err(_) => report.load(&path, &format!("Provider {name}: cannot be used.")),
        }
    }

    fn add_provider(&mut self, name: &str, entry: ProviderEntry, report: &mut Report<'_>) {
        let path = ["providers".to_owned(), name.to_owned()];
        if entry.says_nothing() {
            return report.load(&path, &format!(
                "Provider {name}: must specify \"baseUrl\", \"headers\", \"compat\", \"modelOverrides\", or \"models\"."
            ));
        }
        if let Some(key) = &entry.api_key {
            self.keys.insert(name.to_owned(), SecretValue::parse(key));
        }
        if entry.auth_header {
            self.bearers.insert(name.to_owned());
        }
        if let Some(shown) = &entry.name {
            self.names.insert(name.to_owned(), shown.clone());
        }
        let headers = entry.headers.iter();
        let headers: Vec<_> = headers
            .map(|(name, value)| (name.clone(), SecretValue::parse(value)))
            .collect();
        if !headers.is_empty() {
            self.headers.insert(name.to_owned(), headers);
        }
        let mut made = Vec::with_capacity(entry.models.len());
        for model in &entry.models {
            match custom(name, &entry, model) {
                Ok(model) => made.push(model),
                Err(problem) => report.load(&path, &problem),
            }
        }
        self.custom.extend(last_of_each(made));
        if fluzo_catalogue::host(name).is_some() {
            self.change(name, entry, report);
        }
    }

    fn change(&mut self, name: &str, entry: ProviderEntry, report: &mut Report<'_>) {
        let mut models = entry.model_overrides;
        models.retain(|id, change| {
            let path = ["providers", name, "modelOverrides", id.as_str()].map(str::to_owned);
            if fluzo_catalogue::model(name, id).is_none() {
                report.finding(&Finding {
                    path: path.to_vec(),
                    message: "no known model has this id".to_owned(),
                    fatal: false,
                });
            }
            match change.counts(name, id) {
                Ok(_) => true,
                Err(problem) => {
                    report.load(&path, &problem);
                    false
                }
            }
        });
        let headers = entry.headers.keys().map(|name| name.to_lowercase());
        let changes = Changes {
            base_url: entry.base_url,
            compat: entry.compat,
            headers: headers.collect(),
            models,
        };
        self.changes.insert(name.to_owned(), changes);
    }
}

impl Changes {
    /// Changes a known model of the provider.
    pub(crate) fn apply(&self, model: &mut Model) {
        if let Some(url) = &self.base_url {
            model.base_url.clone_from(url);
        }
        // The provider's own headers come first in a request, those of the model win.
        model
            .headers
            .retain(|name, _| !self.headers.contains(&name.to_lowercase()));
        merge(&mut model.compat, &self.compat);
        if let Some(change) = self.models.get(&model.id) {
            change.apply(model);
        }
    }
}

impl ModelChange {
    fn apply(&self, model: &mut Model) {
        if let Some(name) = &self.name {
            model.name.clone_from(name);
        }
        model.reasoning = self.reasoning.unwrap_or(model.reasoning);
        model
            .thinking_level_map
            .extend(self.thinking_level_map.clone());
        if let Some(input) = &self.input {
            model.input.clone_from(input);
        }
        self.cost.apply(&mut model.cost);
        // Checked when the file was read.
        let count = |number: &Option<Number>| number.as_ref().and_then(count);
        model.context_window = count(&self.context_window).unwrap_or(model.context_window);
        model.max_tokens = count(&self.max_tokens).unwrap_or(model.max_tokens);
        model.headers.extend(self.headers.clone());
        merge(&mut model.compat, &self.compat);
    }

    /// Context window and most output tokens, where they are given.
    fn counts(&self, provider: &str, id: &str) -> Result<(Option<u64>, Option<u64>), String> {
        let positive = |number: &Option<Number>, name: &str| {
            let Some(number) = number else {
                return Ok(None);
            };
            let invalid = || format!("Provider {provider}, model {id}: invalid {name}");
            count(number).map(Some).ok_or_else(invalid)
        };
        let window = positive(&self.context_window, "contextWindow")?;
        Ok((window, positive(&self.max_tokens, "maxTokens")?))
    }
}

impl PriceChange {
    fn apply(&self, prices: &mut Prices) {
        prices.input = self.input.unwrap_or(prices.input);
        prices.output = self.output.unwrap_or(prices.output);
        prices.cache_read = self.cache_read.unwrap_or(prices.cache_read);
        prices.cache_write = self.cache_write.unwrap_or(prices.cache_write);
    }
}

impl ProviderEntry {
    fn says_nothing(&self) -> bool {
        self.base_url.is_none()
            && self.headers.is_empty()
            && self.compat.is_empty()
            && self.models.is_empty()
            && self.model_overrides.is_empty()
    }
}

/// Puts the members of `over` into `base`, in place of those that are there.
fn merge(base: &mut Extra, over: &Extra) {
    for (name, value) in over {
        match (base.get_mut(name), value) {
            (Some(Value::Object(old)), Value::Object(new))
                if MERGED_WITHIN.contains(&name.as_str()) =>
            {
                old.extend(new.clone());
            }
            _ => {
                base.insert(name.clone(), value.clone());
            }
        }
    }
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

/// Of models with the same id the last one, in the order of the file.
fn last_of_each(models: Vec<Model>) -> Vec<Model> {
    let last: BTreeMap<String, usize> = models
        .iter()
        .enumerate()
        .map(|(place, model)| (model.id.clone(), place))
        .collect();
    let numbered = models.into_iter().enumerate();
    numbered
        .filter(|(place, model)| last.get(&model.id) == Some(place))
        .map(|(_, model)| model)
        .collect()
}

/// A model of one's own. At a known provider, what is not said is as the provider has it.
fn custom(provider: &str, entry: &ProviderEntry, model: &ModelEntry) -> Result<Model, String> {
    if model.id.is_empty() {
        return Err(format!("Provider {provider}: a model has an empty \"id\"."));
    }
    let host = fluzo_catalogue::host(provider);
    if host.is_none() {
        required(provider, entry, model)?;
    }
    let api = model
        .api
        .as_deref()
        .or(entry.api.as_deref())
        .or(host.map(Host::api));
    let api = api.ok_or_else(|| {
        format!(
            "Provider {provider}, model {}: no \"api\" specified. Set at provider or model level.",
            model.id
        )
    })?;
    let base_url = model.base_url.as_deref().or(entry.base_url.as_deref());
    let of_host = || host.map(|host| host.base_url_for(api).unwrap_or(host.base_url()));
    let (window, most) = model.rest.counts(provider, &model.id)?;
    let mut made = Model {
        id: model.id.clone(),
        name: model.id.clone(),
        api: api.to_owned(),
        provider: provider.to_owned(),
        base_url: base_url.or_else(of_host).unwrap_or_default().to_owned(),
        reasoning: false,
        input: vec![InputKind::Text],
        cost: Prices::default(),
        context_window: window.unwrap_or(128_000),
        max_tokens: most.unwrap_or(16_384),
        headers: host.map(Host::header_map).unwrap_or_default(),
        thinking_level_map: BTreeMap::new(),
        compat: entry.compat.clone(),
    };
    let set = |name: &String| {
        entry
            .headers
            .keys()
            .any(|own| own.eq_ignore_ascii_case(name))
    };
    made.headers.retain(|name, _| !set(name));
    model.rest.apply(&mut made);
    Ok(made)
}

/// What a provider that is not known must say of its models.
fn required(provider: &str, entry: &ProviderEntry, model: &ModelEntry) -> Result<(), String> {
    let missing = if model.base_url.is_none() && entry.base_url.is_none() {
        "baseUrl"
    } else if entry.api_key.is_none() {
        "apiKey"
    } else {
        return Ok(());
    };
    Err(format!(
        "Provider {provider}: \"{missing}\" is required when defining custom models."
    ))
}

/// Collects what is wrong, with the lines of the text.
struct Report<'a> {
    text: &'a str,
    schema: Problem,
    load: Vec<Problem>,
}

impl Report<'_> {
    fn finding(&mut self, finding: &Finding) {
        let path = if finding.path.is_empty() {
            "root".to_owned()
        } else {
            finding.path.join(".")
        };
        self.schema.text += &format!("\n  - {path}: {}", finding.message);
        let line = jsonc::line_of(self.text, &finding.path);
        self.schema.lines.push(line);
    }

    fn load(&mut self, path: &[String], problem: &str) {
        let problem = Problem {
            text: format!("Failed to load models.json: {problem}"),
            lines: vec![jsonc::line_of(self.text, path)],
        };
        // What all models of a provider lack is said once.
        if !self.load.contains(&problem) {
            self.load.push(problem);
        }
    }

    fn problems(self) -> Vec<Problem> {
        let mut problems = self.load;
        if !self.schema.lines.is_empty() {
            problems.insert(0, self.schema);
        }
        problems
    }
}

fn syntax(text: &str, error: &serde_json::Error) -> Problem {
    let place = (error.line(), error.column());
    let key = jsonc::key_before(text, place, models_schema::field_names());
    let near = key.map_or_else(String::new, |key| format!(", after \"{key}\""));
    Problem {
        text: format!("Failed to parse models.json: {error}{near}"),
        lines: Vec::new(),
    }
}
