//! Which model a run begins with: the one that was asked for, else that of the session, else
//! that of the settings, else the first that can be used.

use std::path::Path;
use std::sync::Arc;

use fluzo_host::{ModelRegistry, Resolved, Scoped, Usable};
use fluzo_llm::Model;
use fluzo_settings::{Settings, key};

use crate::arguments::Typed;
use crate::flags::Id;
use crate::list_models;

/// Shown to a session that needs no answer while no provider can be used: a prompt is then
/// refused for want of its key.
const STAND_IN: &str = "openai";

/// What the choice is made from.
pub(crate) struct Choice<'a> {
    /// Flags, for the first session of the process.
    pub(crate) typed: Option<&'a Typed>,
    pub(crate) settings: &'a Settings,
    pub(crate) models: &'a ModelRegistry,
    pub(crate) usable: Usable<'a>,
    /// Models to cycle through; a new session begins with one of them.
    pub(crate) scope: &'a [Scoped],
    /// Provider and id of the session's model.
    pub(crate) stored: Option<(&'a str, &'a str)>,
    /// Whether a model that cannot be used will do.
    pub(crate) any_will_do: bool,
    pub(crate) models_json: &'a Path,
}

impl Choice<'_> {
    /// The model.
    ///
    /// # Errors
    ///
    /// The text for the user when there is none.
    pub(crate) fn model(&self) -> Result<Resolved, String> {
        if let Some(resolved) = self
            .typed
            .map(|typed| self.flagged(typed))
            .transpose()?
            .flatten()
        {
            return Ok(resolved);
        }
        match self.stored {
            Some((provider, id)) => self.restored(provider, id),
            None => self.scoped().map_or_else(|| self.configured(), Ok),
        }
    }

    fn flagged(&self, typed: &Typed) -> Result<Option<Resolved>, String> {
        let provider = typed.value(Id::Provider);
        if let Some(pattern) = typed.value(Id::Model) {
            let resolved = self.models.resolve(provider, pattern, self.usable);
            return resolved.map(Some);
        }
        if let Some(provider) = provider {
            return self.models.default_of(provider).map(plain).map(Some);
        }
        if typed.has(Id::ApiKey) && self.scope.is_empty() {
            return Err("--api-key requires a model to be specified via --model, --provider/--model, or --models".to_owned());
        }
        Ok(None)
    }

    /// The model of the settings if it is in the scope, else the first one there.
    fn scoped(&self) -> Option<Resolved> {
        let saved = (
            self.settings.text(key::DEFAULT_PROVIDER),
            self.settings.text(key::DEFAULT_MODEL),
        );
        let is_saved =
            |scoped: &&Scoped| saved == (Some(&*scoped.model.provider), Some(&*scoped.model.id));
        let found = self.scope.iter().find(is_saved).or(self.scope.first())?;
        Some(Resolved {
            model: Arc::clone(&found.model),
            thinking: found.thinking,
            warning: None,
        })
    }

    /// The session's model, or what takes its place.
    fn restored(&self, provider: &str, id: &str) -> Result<Resolved, String> {
        let found = self.models.find(provider, id);
        let reason = match found {
            Some(model) if (self.usable)(provider) => return Ok(plain(model)),
            Some(_) => "no auth configured",
            None => "model no longer exists",
        };
        let instead = self.configured()?;
        let (now, id_now) = (&instead.model.provider, &instead.model.id);
        let warning =
            format!("Could not restore model {provider}/{id} ({reason}). Using {now}/{id_now}.");
        Ok(Resolved {
            warning: Some(warning),
            ..instead
        })
    }

    /// The model of new sessions.
    fn configured(&self) -> Result<Resolved, String> {
        match self.saved() {
            None => self.first(),
            Some(Ok(resolved)) => Ok(resolved),
            // What the settings name may be gone since, which stops nothing while there are others.
            Some(Err(problem)) => {
                let instead = self.first().map_err(|_| problem.clone())?;
                let reason = problem.lines().next().unwrap_or_default();
                let (provider, id) = (&instead.model.provider, &instead.model.id);
                Ok(Resolved {
                    warning: Some(format!(
                        "the settings name a model that there is not: {reason} Using {provider}/{id}."
                    )),
                    ..instead
                })
            }
        }
    }

    /// What the settings name.
    fn saved(&self) -> Option<Result<Resolved, String>> {
        let provider = self.settings.text(key::DEFAULT_PROVIDER);
        if let Some(model) = self.settings.text(key::DEFAULT_MODEL) {
            return Some(self.models.resolve(provider, model, self.usable));
        }
        provider.map(|provider| self.models.default_of(provider).map(plain))
    }

    /// The first model that can be used.
    fn first(&self) -> Result<Resolved, String> {
        if let Some(model) = self.models.first_usable(self.usable) {
            return Ok(plain(model));
        }
        if self.any_will_do {
            return self.models.default_of(STAND_IN).map(plain);
        }
        Err(list_models::none(self.models_json))
    }
}

fn plain(model: Arc<Model>) -> Resolved {
    Resolved {
        model,
        thinking: None,
        warning: None,
    }
}
