//! The key ring: keys, headers and endpoint of a request, looked up before every one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use fluzo_catalogue::{HOSTS, Host, KeySending, fill, host};
use fluzo_llm::{BoxFuture, CredentialError, Credentials, Model, RequestAuth, Secret};

use crate::SecretValue;
use crate::auth_json::{Document, Stored, StoredToken};
use crate::oauth::{COPILOT, copilot_base_url};
use crate::outside::SecretCommands;
use crate::sign_ins::{SignIns, enterprise};

/// Reads environment variables.
pub type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Finds keys: a given one first, then those of `auth.json`, then the environment, then
/// `models.json`, then what old files of pi hold.
pub struct KeyRing {
    given: Option<(String, Secret)>,
    environment: Environment,
    configured: BTreeMap<String, SecretValue>,
    headers: BTreeMap<String, Vec<(String, SecretValue)>>,
    bearers: BTreeSet<String>,
    sign_ins: Option<SignIns>,
    commands: Option<Arc<dyn SecretCommands>>,
    /// What commands of headers gave, by command.
    outputs: Mutex<BTreeMap<String, Secret>>,
}

/// Which providers have a key, as of one moment.
pub struct Available<'a> {
    ring: &'a KeyRing,
    stored: BTreeSet<String>,
}

/// A key and what comes with it.
struct Found {
    key: Option<Secret>,
    sending: KeySending,
    /// Variables that go before those of the environment.
    env: BTreeMap<String, String>,
    sign_in: Option<StoredToken>,
}

impl KeyRing {
    /// Keys from `environment` and from `models.json`.
    pub fn new(
        environment: Environment,
        configured: BTreeMap<String, SecretValue>,
        headers: BTreeMap<String, Vec<(String, SecretValue)>>,
    ) -> Self {
        Self {
            given: None,
            environment,
            configured,
            headers,
            bearers: BTreeSet::new(),
            sign_ins: None,
            commands: None,
            outputs: Mutex::new(BTreeMap::new()),
        }
    }

    /// Uses `key` for `provider`, before anything else.
    #[must_use]
    pub fn with_key(mut self, provider: &str, key: &str) -> Self {
        self.given = Some((provider.to_owned(), Secret::new(key)));
        self
    }

    /// Uses what `auth.json` holds.
    #[must_use]
    pub fn with_sign_ins(mut self, sign_ins: SignIns) -> Self {
        self.sign_ins = Some(sign_ins);
        self
    }

    /// Runs commands in values.
    #[must_use]
    pub fn with_commands(mut self, commands: Arc<dyn SecretCommands>) -> Self {
        self.commands = Some(commands);
        self
    }

    /// Sends keys of these providers as `Authorization: Bearer KEY` too (`authHeader` of
    /// `models.json`).
    #[must_use]
    pub fn with_bearers(mut self, providers: impl IntoIterator<Item = String>) -> Self {
        self.bearers.extend(providers);
        self
    }

    /// What the user should know about values of `models.json`, those of `model` included:
    /// bare names that are read as variables.
    pub fn warning(&self, model: &Model) -> Option<String> {
        let of_model = model
            .headers
            .values()
            .map(|value| SecretValue::parse(value));
        let of_providers = self.headers.values().flatten().map(|(_, value)| value);
        let all = self.configured.values().chain(of_providers).cloned();
        let names: BTreeSet<String> = all
            .chain(of_model)
            .filter_map(|value| match value {
                SecretValue::Bare(name) if self.variable(&name).is_some() => Some(name),
                _ => None,
            })
            .map(|name| format!("`${name}`"))
            .collect();
        let names: Vec<String> = names.into_iter().collect();
        (!names.is_empty()).then(|| {
            format!(
                "bare names in models.json are read as environment variables; write {} instead",
                names.join(", ")
            )
        })
    }

    /// Which providers have a key now. Resolves nothing: no command runs, nothing is renewed.
    pub fn available(&self) -> Available<'_> {
        let mut stored = BTreeSet::new();
        if let Some(sign_ins) = &self.sign_ins {
            stored.extend(usable(&sign_ins.store().read().unwrap_or_default()));
            stored.extend(usable(sign_ins.old()));
        }
        Available { ring: self, stored }
    }

    /// Whether a key is configured for `provider`. Resolves nothing.
    pub fn has(&self, provider: &str) -> bool {
        self.available().has(provider)
    }

    /// The keys and header values that requests to any provider could carry now, to be kept
    /// out of what is shown. Resolves nothing: those of commands are known once they have run
    /// for a header.
    pub fn known_secrets(&self) -> Vec<Secret> {
        let document = self.sign_ins.as_ref().and_then(|s| s.store().read().ok());
        let document = document.unwrap_or_default();
        let own = BTreeMap::new();
        let mut secrets: Vec<Secret> = Vec::new();
        for provider in document.providers() {
            match document.get(provider) {
                Some(Stored::Key { key, env }) => secrets.extend(self.reveal(&key, &env)),
                Some(Stored::SignIn(token)) => secrets.extend([token.access, token.refresh]),
                _ => {}
            }
        }
        let variables = HOSTS.iter().flat_map(|host| host.keys);
        secrets.extend(variables.filter_map(|name| self.variable(name).map(Secret::new)));
        let headers = self.headers.values().flatten().map(|(_, value)| value);
        let values = self.configured.values().chain(headers);
        secrets.extend(values.filter_map(|value| self.reveal(value, &own).ok()));
        secrets.extend(self.given.iter().map(|(_, key)| key.clone()));
        secrets.extend(self.outputs().values().cloned());
        secrets
    }

    /// An environment variable that is set and not empty.
    fn variable(&self, name: &str) -> Option<String> {
        (self.environment)(name).filter(|value| !value.is_empty())
    }

    /// A variable for a request: of the entry in `auth.json` first.
    fn scoped(&self, env: &BTreeMap<String, String>, name: &str) -> Option<String> {
        let own = env.get(name).filter(|value| !value.is_empty());
        own.cloned().or_else(|| self.variable(name))
    }

    async fn find(&self, provider: &str) -> Result<Found, CredentialError> {
        let host = host(provider);
        let sending = |variable| host.map_or(KeySending::Dialect, |host| host.sending(variable));
        let found = |key: Secret, sending, env| Found {
            key: Some(key),
            sending,
            env,
            sign_in: None,
        };
        let (stored, mut trouble) = self.stored(provider);
        if let Some((_, key)) = self.given.as_ref().filter(|(p, _)| p == provider) {
            let env = match stored {
                Some(Stored::Key { env, .. }) => env,
                _ => BTreeMap::new(),
            };
            return own(provider, found(key.clone(), sending(None), env));
        }
        match stored {
            Some(Stored::Key { key, env }) => {
                let key = self.key(provider, &key, &env).await?;
                return own(provider, found(key, sending(None), env));
            }
            Some(Stored::SignIn(token)) if SignIns::uses(provider, &token) => {
                return self.signed_in(provider, token).await;
            }
            _ => {}
        }
        for variable in host.map_or(&[][..], |host| host.keys) {
            if let Some(value) = self.variable(variable) {
                let found = found(Secret::new(value), sending(Some(variable)), BTreeMap::new());
                match own(provider, found) {
                    Ok(found) => return Ok(found),
                    Err(error) => trouble = trouble.or(Some(error)),
                }
            }
        }
        if let Some(value) = self.configured.get(provider) {
            let key = self.key(provider, value, &BTreeMap::new()).await?;
            return own(provider, found(key, sending(None), BTreeMap::new()));
        }
        match self.old(provider) {
            Some(Stored::Key { key, env }) => {
                let key = self.key(provider, &key, &env).await?;
                return own(provider, found(key, sending(None), env));
            }
            Some(Stored::SignIn(token)) if SignIns::uses(provider, &token) => {
                return self.signed_in(provider, token).await;
            }
            Some(Stored::SignIn(_)) => trouble = trouble.or(Some(foreign(provider))),
            _ => {}
        }
        if host.is_some_and(|host| !host.needs_key) {
            return Ok(Found {
                key: None,
                sending: KeySending::Dialect,
                env: BTreeMap::new(),
                sign_in: None,
            });
        }
        Err(trouble.unwrap_or_else(|| CredentialError::Missing {
            provider: provider.to_owned(),
            variable: host.and_then(key_variable),
        }))
    }

    /// What old files hold for `provider`.
    fn old(&self, provider: &str) -> Option<Stored> {
        self.sign_ins.as_ref()?.old().get(provider)
    }

    /// What `auth.json` holds for `provider`, and why it cannot be used when it cannot.
    fn stored(&self, provider: &str) -> (Option<Stored>, Option<CredentialError>) {
        let Some(sign_ins) = &self.sign_ins else {
            return (None, None);
        };
        let unresolved = |reason: String| CredentialError::Unresolved {
            provider: provider.to_owned(),
            reason,
        };
        let store = sign_ins.store();
        let stored = match store.read() {
            Ok(document) => document.get(provider),
            Err(error) => return (None, Some(unresolved(error.to_string()))),
        };
        let trouble = match &stored {
            Some(Stored::Unusable(problem)) => Some(unresolved(format!(
                "`{}`: the entry of `{provider}` cannot be used: {problem}",
                store.path()
            ))),
            Some(Stored::SignIn(token)) if !SignIns::uses(provider, token) => {
                Some(foreign(provider))
            }
            _ => None,
        };
        (stored, trouble)
    }

    async fn signed_in(
        &self,
        provider: &str,
        token: StoredToken,
    ) -> Result<Found, CredentialError> {
        let failed = |reason: String| CredentialError::SignIn {
            provider: provider.to_owned(),
            reason,
            variable: host(provider).and_then(key_variable),
        };
        let Some(sign_ins) = &self.sign_ins else {
            return Err(failed("it is not stored".to_owned()));
        };
        let token = sign_ins.fresh(provider, token).await;
        let token = token.map_err(|error| failed(error.to_string()))?;
        let sending = match host(provider).map(|host| host.key) {
            Some(named @ KeySending::BearerIn(_)) => named,
            _ => KeySending::Bearer,
        };
        let found = Found {
            key: Some(token.access.clone()),
            sending,
            env: BTreeMap::new(),
            sign_in: Some(token),
        };
        own(provider, found)
    }

    /// The key that `value` names. Commands run every time.
    async fn key(
        &self,
        provider: &str,
        value: &SecretValue,
        env: &BTreeMap<String, String>,
    ) -> Result<Secret, CredentialError> {
        if let SecretValue::Command(command) = value {
            let failed = || CredentialError::Command {
                subject: format!("API key for provider \"{provider}\""),
                command: command.clone(),
            };
            return self.run(command).await.ok_or_else(failed);
        }
        self.reveal(value, env)
            .map_err(|reason| CredentialError::Unresolved {
                provider: provider.to_owned(),
                reason,
            })
    }

    /// The value of a header. A command runs once in the life of the process.
    async fn header(
        &self,
        provider: &str,
        name: &str,
        value: &SecretValue,
        env: &BTreeMap<String, String>,
    ) -> Result<Secret, CredentialError> {
        let SecretValue::Command(command) = value else {
            return self
                .reveal(value, env)
                .map_err(|reason| CredentialError::Header {
                    provider: provider.to_owned(),
                    header: name.to_owned(),
                    reason,
                });
        };
        let known = self.outputs().get(command).cloned();
        if let Some(output) = known {
            return Ok(output);
        }
        let output = self.run(command).await;
        let output = output.ok_or_else(|| CredentialError::Command {
            subject: format!("provider \"{provider}\" header \"{name}\""),
            command: command.clone(),
        })?;
        self.outputs().insert(command.clone(), output.clone());
        Ok(output)
    }

    fn outputs(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Secret>> {
        self.outputs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a command says, without the white space around it; an empty output is a failure.
    async fn run(&self, command: &str) -> Option<Secret> {
        let output = self.commands.as_ref()?.output(command).await.ok()?;
        let text = output.reveal().trim();
        (!text.is_empty()).then(|| Secret::new(text))
    }

    fn reveal(
        &self,
        value: &SecretValue,
        env: &BTreeMap<String, String>,
    ) -> Result<Secret, String> {
        match value {
            SecretValue::Literal(secret) => Ok(secret.clone()),
            SecretValue::Bare(name) => Ok(Secret::new(
                self.scoped(env, name).unwrap_or_else(|| name.clone()),
            )),
            SecretValue::Variable(name) => self
                .scoped(env, name)
                .map(Secret::new)
                .ok_or_else(|| format!("environment variable `{name}` is not set")),
            SecretValue::Command(_) => Err("a command cannot stand here".to_owned()),
        }
    }

    async fn auth(&self, model: &Model) -> Result<RequestAuth, CredentialError> {
        let found = self.find(&model.provider).await?;
        let base_url = self.base_url(model, &found)?;
        let deployment = self.deployment(model, &found);
        let mut headers = Headers(Vec::new());
        if let Some(key) = &found.key {
            let bearer = || Secret::new(format!("Bearer {}", key.reveal()));
            if let KeySending::BearerIn(name) = found.sending {
                headers.set(name, bearer());
            }
            if found.sending == KeySending::Bearer || self.bearers.contains(&model.provider) {
                headers.set("Authorization", bearer());
            }
        }
        for (name, value) in self.headers.get(&model.provider).into_iter().flatten() {
            let value = self
                .header(&model.provider, name, value, &found.env)
                .await?;
            headers.set(name, value);
        }
        // Those of the model come last and win.
        for (name, value) in &model.headers {
            let value = SecretValue::parse(value);
            let value = self
                .header(&model.provider, name, &value, &found.env)
                .await?;
            headers.set(name, value);
        }
        Ok(RequestAuth {
            api_key: found.key.filter(|_| found.sending == KeySending::Dialect),
            headers: headers.0,
            base_url,
            deployment,
        })
    }

    /// The endpoint, where it depends on credentials or variables. An address that the user
    /// configured is only filled in.
    fn base_url(&self, model: &Model, found: &Found) -> Result<Option<String>, CredentialError> {
        let variable = |name: &str| self.scoped(&found.env, name);
        let default = host(&model.provider).filter(|host| is_default(host, model));
        if let (Some(COPILOT), Some(token)) = (default.map(|host| host.id), &found.sign_in) {
            return Ok(copilot_base_url(
                &token.access,
                enterprise(token).as_deref(),
            ));
        }
        let filled = |template: &str| {
            fill(template, &variable).map_err(|missing| CredentialError::Endpoint {
                provider: model.provider.clone(),
                variable: missing.name().to_owned(),
                reason: missing.to_string(),
            })
        };
        let whole = default.and_then(|host| host.base_url_variable.and_then(variable));
        let url = match whole {
            None if !model.base_url.contains('{') => return Ok(None),
            None => filled(&model.base_url)?,
            Some(url) => url,
        };
        match default.and_then(|host| host.query_variable) {
            Some((name, parameter)) if variable(name).is_some() => {
                let value = filled(&format!("{{{name}}}"))?;
                Ok(Some(with_query(url, parameter, &value)))
            }
            _ => Ok(Some(url)),
        }
    }

    /// The name under which `model` is deployed, where variables say so.
    fn deployment(&self, model: &Model, found: &Found) -> Option<String> {
        let variable = host(&model.provider)?.deployments_variable?;
        let value = self.scoped(&found.env, variable)?;
        Host::deployment(&value, &model.id).map(str::to_owned)
    }
}

/// Providers with an entry that is used.
fn usable(document: &Document) -> Vec<String> {
    let is_used = |provider: &&str| match document.get(provider) {
        Some(Stored::Key { .. }) => true,
        Some(Stored::SignIn(token)) => SignIns::uses(provider, &token),
        _ => false,
    };
    let used = document.providers().filter(is_used);
    used.map(str::to_owned).collect()
}

impl Available<'_> {
    /// Whether `provider` has a key, or needs none.
    pub fn has(&self, provider: &str) -> bool {
        let ring = self.ring;
        let host = host(provider);
        let in_environment = |host: &Host| {
            let mut values = host.keys.iter().filter_map(|name| ring.variable(name));
            !host.needs_key || values.any(|value| !Secret::new(value).is_of_another_client())
        };
        ring.given.as_ref().is_some_and(|(p, _)| p == provider)
            || self.stored.contains(provider)
            || host.is_some_and(in_environment)
            || ring.configured.contains_key(provider)
    }
}

impl Credentials for KeyRing {
    fn resolve<'a>(
        &'a self,
        model: &'a Model,
    ) -> BoxFuture<'a, Result<RequestAuth, CredentialError>> {
        Box::pin(self.auth(model))
    }
}

/// Headers of a request; a later one replaces an earlier one of its name.
struct Headers(Vec<(String, Secret)>);

impl Headers {
    fn set(&mut self, name: &str, value: Secret) {
        self.0
            .retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.0.push((name.to_owned(), value));
    }
}

/// `found`, unless its key is for another vendor's client only.
fn own(provider: &str, found: Found) -> Result<Found, CredentialError> {
    let key = found.key.as_ref();
    if key.is_some_and(Secret::is_of_another_client) {
        return Err(foreign(provider));
    }
    Ok(found)
}

fn foreign(provider: &str) -> CredentialError {
    // The sign-in of Codex has no host of its own; keys go to the vendor's.
    let named = if provider == "openai-codex" {
        "openai"
    } else {
        provider
    };
    CredentialError::SignIn {
        provider: provider.to_owned(),
        reason: "it belongs to another vendor's client, which Fluzo does not pretend to be"
            .to_owned(),
        variable: host(named).and_then(key_variable),
    }
}

/// The variable to name to a person: that of a key, not of a token.
fn key_variable(host: &Host) -> Option<String> {
    let special = |name: &&&str| !host.key_exceptions.iter().any(|(other, _)| other == *name);
    let variable = host.keys.iter().find(special).or(host.keys.first());
    variable.map(|name| (*name).to_owned())
}

/// `url` with a parameter in its query, unless it has it already.
fn with_query(url: String, parameter: &str, value: &str) -> String {
    let (_, query) = url.split_once('?').unwrap_or((&url, ""));
    let has = |pair: &str| pair.split('=').next() == Some(parameter);
    if query.split('&').any(has) {
        return url;
    }
    let sign = if url.contains('?') { '&' } else { '?' };
    format!("{url}{sign}{parameter}={value}")
}

fn is_default(host: &Host, model: &Model) -> bool {
    host.base_url_for(&model.api) == Some(model.base_url.as_str())
}
