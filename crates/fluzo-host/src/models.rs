//! The models at hand: known ones and those of `models.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use fluzo_catalogue::{HOSTS, Host, ModelRow};
use fluzo_credentials::SecretValue;
use fluzo_llm::model::Prices;
use fluzo_llm::{InputKind, Model, ThinkingLevel};
use fluzo_stdx::similar;

use crate::models_file::{ModelsFile, Problem};
use crate::pattern;

/// Models, and the keys and headers that `models.json` names for their providers.
///
/// The table of known models is read where it is asked for: finding one model reads rows of
/// its provider only.
#[derive(Debug, Default)]
pub struct ModelRegistry {
    file: ModelsFile,
    all: OnceLock<Vec<Arc<Model>>>,
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

/// Tells whether requests to a provider can be authorised.
pub type Usable<'a> = &'a dyn Fn(&str) -> bool;

impl ModelRegistry {
    /// The known models, and those of the text of `models.json` when there is one.
    ///
    /// A part of the text that cannot be used is left out and named among the problems; the
    /// rest counts.
    pub fn new(models_json: Option<&str>) -> Self {
        Self {
            file: models_json.map(ModelsFile::parse).unwrap_or_default(),
            all: OnceLock::new(),
        }
    }

    /// What in `models.json` could not be used.
    pub fn problems(&self) -> &[Problem] {
        &self.file.problems
    }

    /// All models: the known ones by provider, then those of `models.json`.
    pub fn models(&self) -> &[Arc<Model>] {
        self.all.get_or_init(|| {
            let known = fluzo_catalogue::models().filter_map(|row| self.known(&row));
            let custom = self.file.custom.iter().cloned();
            known.chain(custom).map(Arc::new).collect()
        })
    }

    /// The models of the provider with this id.
    pub fn models_of(&self, provider: &str) -> Vec<Arc<Model>> {
        let known = fluzo_catalogue::models_of(provider).filter_map(|row| self.known(&row));
        let custom = self.file.custom.iter().filter(|m| m.provider == provider);
        known.chain(custom.cloned()).map(Arc::new).collect()
    }

    /// Keys that `models.json` names, by provider.
    pub fn keys(&self) -> BTreeMap<String, SecretValue> {
        self.file.keys.clone()
    }

    /// Headers that `models.json` names, by provider.
    pub fn headers(&self) -> BTreeMap<String, Vec<(String, SecretValue)>> {
        self.file.headers.clone()
    }

    /// Providers whose key is sent as a bearer token too, whatever their dialect does.
    pub fn bearers(&self) -> &BTreeSet<String> {
        &self.file.bearers
    }

    /// The name of a provider for people; its id when nothing else is known.
    pub fn provider_name<'a>(&'a self, provider: &'a str) -> &'a str {
        let own = self.file.names.get(provider).map(String::as_str);
        let known = || fluzo_catalogue::host(provider).map(|host| host.name);
        own.or_else(known).unwrap_or(provider)
    }

    /// The ids of all providers: known ones, then those of `models.json`.
    pub fn providers(&self) -> Vec<&str> {
        let mut ids: Vec<&str> = HOSTS.iter().map(|host| host.id).collect();
        for model in &self.file.custom {
            if !ids.contains(&model.provider.as_str()) {
                ids.push(&model.provider);
            }
        }
        ids
    }

    /// The id of the provider of that name, which may be in any case.
    ///
    /// # Errors
    ///
    /// The text for the user when there is no such provider: what was perhaps meant, and
    /// what there is.
    pub fn provider(&self, name: &str) -> Result<&str, String> {
        let ids = self.providers();
        let exact = ids.iter().find(|id| **id == name);
        let found = exact.or_else(|| ids.iter().find(|id| id.eq_ignore_ascii_case(name)));
        found.copied().ok_or_else(|| unknown_provider(name, &ids))
    }

    /// The model with this provider and id.
    pub fn find(&self, provider: &str, id: &str) -> Option<Arc<Model>> {
        let custom = self.custom(provider, id).cloned();
        let known = || self.known(&fluzo_catalogue::model(provider, id)?);
        custom.or_else(known).map(Arc::new)
    }

    /// The default model of a provider, whose name may be in any case; its first one when
    /// it has no default.
    ///
    /// # Errors
    ///
    /// The text for the user when there is no such provider, or it has no models.
    pub fn default_of(&self, provider: &str) -> Result<Arc<Model>, String> {
        let id = self.provider(provider)?;
        let host = fluzo_catalogue::host(id);
        let default = host.and_then(|host| host.default_model);
        let model = default.and_then(|model| self.find(id, model));
        let first = || self.models_of(id).into_iter().next();
        model.or_else(first).ok_or_else(|| {
            format!(
                "no model of the provider `{id}` is known\nhint: name one with `--model {id}/ID`, or list its models in models.json"
            )
        })
    }

    /// The model of a provider that can be used without further configuration: the default
    /// model of the first known one, else the first model of `models.json`.
    pub fn first_usable(&self, usable: Usable<'_>) -> Option<Arc<Model>> {
        let with_default = HOSTS.iter().filter(|host| host.default_model.is_some());
        let known = with_default
            .filter(|host| usable(host.id))
            .find_map(|host| self.default_of(host.id).ok());
        let custom = || self.file.custom.iter().find(|m| usable(&m.provider));
        known.or_else(|| custom().cloned().map(Arc::new))
    }

    /// The model that `pattern` means, perhaps only among those of `provider`. Where models
    /// of several providers fit equally well, one of a `usable` provider is taken.
    ///
    /// # Errors
    ///
    /// The text for the user when nothing matches.
    pub fn resolve(
        &self,
        provider: Option<&str>,
        pattern: &str,
        usable: Usable<'_>,
    ) -> Result<Resolved, String> {
        pattern::resolve(self, provider, pattern, usable)
    }

    /// A model that is not known, at a provider that is: like the provider's default model,
    /// under another id.
    pub(crate) fn fabricated(&self, provider: &str, id: &str) -> Option<Model> {
        let like = self.default_of(provider).ok();
        let mut model = match (like, fluzo_catalogue::host(provider)) {
            (Some(model), _) => Arc::unwrap_or_clone(model),
            (None, Some(host)) => self.blank(host),
            (None, None) => return None,
        };
        (model.id, model.name) = (id.to_owned(), id.to_owned());
        Some(model)
    }

    /// A model of a host that has none, with the sizes of models that say nothing.
    fn blank(&self, host: &Host) -> Model {
        let mut model = Model {
            id: String::new(),
            name: String::new(),
            api: host.api().to_owned(),
            provider: host.id.to_owned(),
            base_url: host.base_url().to_owned(),
            reasoning: false,
            input: vec![InputKind::Text],
            cost: Prices::default(),
            context_window: 128_000,
            max_tokens: 16_384,
            headers: host.header_map(),
            thinking_level_map: BTreeMap::new(),
            compat: fluzo_llm::Extra::new(),
        };
        if let Some(changes) = self.file.changes.get(host.id) {
            changes.apply(&mut model);
        }
        model
    }

    fn custom(&self, provider: &str, id: &str) -> Option<&Model> {
        let mut custom = self.file.custom.iter();
        custom.find(|m| m.provider == provider && m.id == id)
    }

    /// A known model with the changes of `models.json`; none when the file replaces it.
    fn known(&self, row: &ModelRow) -> Option<Model> {
        if self.custom(row.host.id, row.id).is_some() {
            return None;
        }
        let mut model = row.model();
        if let Some(changes) = self.file.changes.get(row.host.id) {
            changes.apply(&mut model);
        }
        Some(model)
    }
}

fn unknown_provider(name: &str, ids: &[&str]) -> String {
    if let Some(advice) = fluzo_catalogue::exception(name) {
        return format!("the provider `{name}` is not supported: {advice}");
    }
    let close = similar::close(&name.to_lowercase(), ids.iter().copied());
    let meant = close
        .first()
        .map_or_else(String::new, |id| format!("did you mean \"{id}\"? "));
    format!(
        "Unknown provider \"{name}\". Use --list-models to see available providers/models.\nhint: {meant}there are {}",
        ids.join(", ")
    )
}

#[cfg(test)]
#[path = "models_tests.rs"]
mod tests;
