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

    /// Whether a key is configured for `provider`. Resolves nothing.
    pub fn has(&self, provider: &str) -> bool {
        let variable = variable_of(provider)
            .and_then(|name| (self.environment)(name))
            .filter(|value| !value.is_empty());
        self.given.as_ref().is_some_and(|(p, _)| p == provider)
            || variable.is_some()
            || self.configured.contains_key(provider)
    }

    fn key(&self, provider: &str) -> Result<Secret, CredentialError> {
        if let Some((_, key)) = self.given.as_ref().filter(|(p, _)| p == provider) {
            return Ok(key.clone());
        }
        let variable = variable_of(provider);
        let set = variable
            .and_then(|name| (self.environment)(name))
            .filter(|value| !value.is_empty());
        if let Some(value) = set {
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
            SecretValue::Variable(name) => (self.environment)(name)
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
        let variables = &[("OPENAI_API_KEY", "env"), ("MY", "mine")];
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
