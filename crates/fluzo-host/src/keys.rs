//! Keys and secret header values, looked up before every request.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluzo_llm::{BoxFuture, CredentialError, Credentials, Model, RequestAuth, Secret};

use crate::catalogue::PROVIDERS;

/// A value of `models.json` that may name where the secret is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretValue {
    /// The value itself.
    Literal(Secret),
    /// `$NAME` or `${NAME}`: an environment variable.
    Variable(String),
    /// A bare name in capitals: the environment variable of that name if there is one,
    /// else the value itself.
    Bare(String),
    /// `!command`: the output of a command.
    Command,
}

/// Reads environment variables.
pub type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Finds keys: a given one first, then the environment, then `models.json`.
pub struct KeyRing {
    given: Option<(String, Secret)>,
    environment: Environment,
    configured: BTreeMap<String, SecretValue>,
    headers: BTreeMap<String, Vec<(String, SecretValue)>>,
}

impl SecretValue {
    /// Reads the syntax of `models.json`.
    pub fn parse(text: &str) -> Self {
        if text.starts_with('!') {
            return Self::Command;
        }
        if let Some(rest) = text.strip_prefix("$$").or_else(|| text.strip_prefix("$!")) {
            let sign = &text[1..2];
            return Self::Literal(Secret::new(format!("{sign}{rest}")));
        }
        let name = text
            .strip_prefix("${")
            .and_then(|t| t.strip_suffix('}'))
            .or_else(|| text.strip_prefix('$'));
        match name.filter(|name| is_variable(name)) {
            Some(name) => Self::Variable(name.to_owned()),
            None if is_variable(text) && !text.contains(|c: char| c.is_ascii_lowercase()) => {
                Self::Bare(text.to_owned())
            }
            None => Self::Literal(Secret::new(text)),
        }
    }
}

fn is_variable(name: &str) -> bool {
    let ok = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && name.chars().all(ok) && !name.starts_with(|c: char| c.is_ascii_digit())
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
        }
    }

    /// Uses `key` for `provider`, before anything else.
    #[must_use]
    pub fn with_key(mut self, provider: &str, key: &str) -> Self {
        self.given = Some((provider.to_owned(), Secret::new(key)));
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
        let names: std::collections::BTreeSet<String> = all
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

    /// An environment variable that is set and not empty.
    fn variable(&self, name: &str) -> Option<String> {
        (self.environment)(name).filter(|value| !value.is_empty())
    }

    /// Whether a key is configured for `provider`. Resolves nothing.
    pub fn has(&self, provider: &str) -> bool {
        let variable = variable_of(provider).and_then(|name| self.variable(name));
        self.given.as_ref().is_some_and(|(p, _)| p == provider)
            || variable.is_some()
            || self.configured.contains_key(provider)
    }

    fn key(&self, provider: &str) -> Result<Secret, CredentialError> {
        if let Some((_, key)) = self.given.as_ref().filter(|(p, _)| p == provider) {
            return Ok(key.clone());
        }
        let variable = variable_of(provider);
        if let Some(value) = variable.and_then(|name| self.variable(name)) {
            return Ok(Secret::new(value));
        }
        match self.configured.get(provider) {
            Some(value) => self.reveal(provider, value),
            None => Err(CredentialError::Missing {
                provider: provider.to_owned(),
                variable: variable.map(str::to_owned),
            }),
        }
    }

    fn reveal(&self, provider: &str, value: &SecretValue) -> Result<Secret, CredentialError> {
        let unresolved = |reason: String| CredentialError::Unresolved {
            provider: provider.to_owned(),
            reason,
        };
        match value {
            SecretValue::Literal(secret) => Ok(secret.clone()),
            SecretValue::Bare(name) => Ok(Secret::new(
                self.variable(name).unwrap_or_else(|| name.clone()),
            )),
            SecretValue::Variable(name) => self
                .variable(name)
                .map(Secret::new)
                .ok_or_else(|| unresolved(format!("environment variable `{name}` is not set"))),
            SecretValue::Command => Err(unresolved(
                "values that are the output of a command (`!…`) are not supported yet".into(),
            )),
        }
    }

    fn auth(&self, model: &Model) -> Result<RequestAuth, CredentialError> {
        let of_provider = self.headers.get(&model.provider).into_iter().flatten();
        let of_model = model.headers.iter();
        let of_model = of_model.map(|(name, value)| (name.clone(), SecretValue::parse(value)));
        // Those of the model come last and win.
        let headers = of_provider
            .cloned()
            .chain(of_model)
            .map(|(name, value)| Ok((name, self.reveal(&model.provider, &value)?)));
        Ok(RequestAuth {
            api_key: Some(self.key(&model.provider)?),
            headers: headers.collect::<Result<_, _>>()?,
            base_url: None,
        })
    }
}

impl Credentials for KeyRing {
    fn resolve<'a>(
        &'a self,
        model: &'a Model,
    ) -> BoxFuture<'a, Result<RequestAuth, CredentialError>> {
        Box::pin(std::future::ready(self.auth(model)))
    }
}

fn variable_of(provider: &str) -> Option<&'static str> {
    PROVIDERS
        .iter()
        .find(|row| row.id == provider)
        .map(|row| row.variable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(
        variables: &'static [(&'static str, &'static str)],
        configured: &[(&str, &str)],
    ) -> KeyRing {
        let environment: Environment = Arc::new(move |name| {
            variables
                .iter()
                .find(|(n, _)| *n == name)
                .map(|(_, v)| (*v).to_owned())
        });
        let configured = configured
            .iter()
            .map(|(p, v)| ((*p).to_owned(), SecretValue::parse(v)))
            .collect();
        KeyRing::new(environment, configured, BTreeMap::new())
    }

    #[test]
    fn the_first_place_with_a_key_wins() {
        let variables = &[("OPENAI_API_KEY", "env"), ("MY", "mine"), ("NONE", "")];
        let rows = [
            (ring(variables, &[("openai", "file")]), "openai", Ok("env")),
            (
                ring(variables, &[("openai", "file")]).with_key("openai", "flag"),
                "openai",
                Ok("flag"),
            ),
            (ring(&[], &[("openai", "file")]), "openai", Ok("file")),
            (ring(variables, &[("x", "$MY")]), "x", Ok("mine")),
            (ring(variables, &[("x", "${MY}")]), "x", Ok("mine")),
            (ring(variables, &[("x", "$$MY")]), "x", Ok("$MY")),
            (
                ring(variables, &[("x", "$NOT")]),
                "x",
                Err("environment variable `NOT` is not set"),
            ),
            (ring(variables, &[("x", "MY")]), "x", Ok("mine")),
            (ring(variables, &[("x", "NOT")]), "x", Ok("NOT")),
            (ring(variables, &[("x", "NONE")]), "x", Ok("NONE")),
            (ring(variables, &[("x", "My")]), "x", Ok("My")),
            (
                ring(variables, &[("x", "$NONE")]),
                "x",
                Err("environment variable `NONE` is not set"),
            ),
            (ring(variables, &[]), "x", Err("no API key found for `x`")),
        ];
        for (ring, provider, expected) in rows {
            match (ring.key(provider), expected) {
                (Ok(key), Ok(text)) => assert_eq!(key.reveal(), text),
                (Err(error), Err(text)) => assert!(error.to_string().contains(text), "{error}"),
                (got, expected) => panic!("{got:?} {expected:?}"),
            }
        }
    }
}
