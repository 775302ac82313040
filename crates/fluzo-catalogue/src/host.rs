//! What a row of the host table says.

use std::collections::BTreeMap;

use crate::template;

/// A provider that is known without configuration.
#[derive(Debug, Clone, Copy)]
pub struct Host {
    /// Id, as in `--provider` and `models.json`.
    pub id: &'static str,
    /// Name shown to people.
    pub name: &'static str,
    /// Dialects that it speaks, each with its base URL; the first is the default. A base URL
    /// may hold places for variables, see [`fill`](crate::fill).
    pub endpoints: &'static [(&'static str, &'static str)],
    /// Environment variable that may hold a whole base URL, in place of those of `endpoints`.
    pub base_url_variable: Option<&'static str>,
    /// Environment variable whose value goes into the query of the base URL, and its name there.
    pub query_variable: Option<(&'static str, &'static str)>,
    /// Environment variable that names the deployments of models: `MODEL=NAME`, divided by commas.
    pub deployments_variable: Option<&'static str>,
    /// Environment variables that may hold the key, the first that is set counts.
    pub keys: &'static [&'static str],
    /// Whether a request needs a key.
    pub needs_key: bool,
    /// How the key is sent.
    pub key: KeySending,
    /// Variables whose value is sent in another way than `key` says.
    pub key_exceptions: &'static [(&'static str, KeySending)],
    /// Headers of every request; nothing secret.
    pub headers: &'static [(&'static str, &'static str)],
    /// Model that is used when none is named.
    pub default_model: Option<&'static str>,
    /// What is special about it, for people.
    pub note: Option<&'static str>,
}

/// How a key is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeySending {
    /// As the dialect does by itself: `x-api-key`, `x-goog-api-key`, `api-key` or a bearer token.
    Dialect,
    /// `Authorization: Bearer KEY`, whatever the dialect.
    Bearer,
    /// `NAME: Bearer KEY`, and no `Authorization`.
    BearerIn(&'static str),
}

impl Host {
    /// The default dialect.
    pub fn api(&self) -> &'static str {
        self.endpoints.first().map_or("", |(api, _)| api)
    }

    /// The base URL of the default dialect.
    pub fn base_url(&self) -> &'static str {
        self.endpoints.first().map_or("", |(_, url)| url)
    }

    /// The base URL for the dialect `api`.
    pub fn base_url_for(&self, api: &str) -> Option<&'static str> {
        let endpoint = self.endpoints.iter().find(|(name, _)| *name == api);
        endpoint.map(|(_, url)| *url)
    }

    /// How a key is sent that stands in `variable`, or elsewhere when `None`.
    pub fn sending(&self, variable: Option<&str>) -> KeySending {
        let exception = self
            .key_exceptions
            .iter()
            .find(|(name, _)| Some(*name) == variable);
        exception.map_or(self.key, |(_, sending)| *sending)
    }

    /// The environment variables that its base URLs are filled from.
    pub fn url_variables(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        for (_, url) in self.endpoints {
            for name in template::variables(url) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        names
    }

    /// The name under which `model` is deployed, according to the value of
    /// [`deployments_variable`](Self::deployments_variable). Entries that say nothing are left out.
    pub fn deployment<'a>(value: &'a str, model: &str) -> Option<&'a str> {
        let entries = value.split(',').filter_map(|entry| entry.split_once('='));
        let mut named = entries.filter(|(id, _)| id.trim() == model);
        let (_, name) = named.find(|(_, name)| !name.trim().is_empty())?;
        Some(name.trim())
    }

    /// The headers by name.
    pub fn header_map(&self) -> BTreeMap<String, String> {
        let headers = self.headers.iter();
        headers
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
            .collect()
    }

    pub(crate) const fn new(
        id: &'static str,
        name: &'static str,
        endpoints: &'static [(&'static str, &'static str)],
    ) -> Self {
        Self {
            id,
            name,
            endpoints,
            base_url_variable: None,
            query_variable: None,
            deployments_variable: None,
            keys: &[],
            needs_key: false,
            key: KeySending::Dialect,
            key_exceptions: &[],
            headers: &[],
            default_model: None,
            note: None,
        }
    }

    pub(crate) const fn keys(mut self, variables: &'static [&'static str]) -> Self {
        (self.keys, self.needs_key) = (variables, true);
        self
    }

    /// A key may be given and is not needed.
    pub(crate) const fn optional_key(mut self, variables: &'static [&'static str]) -> Self {
        self.keys = variables;
        self
    }

    pub(crate) const fn sent(mut self, key: KeySending) -> Self {
        self.key = key;
        self
    }

    pub(crate) const fn except(
        mut self,
        exceptions: &'static [(&'static str, KeySending)],
    ) -> Self {
        self.key_exceptions = exceptions;
        self
    }

    pub(crate) const fn headers(
        mut self,
        headers: &'static [(&'static str, &'static str)],
    ) -> Self {
        self.headers = headers;
        self
    }

    pub(crate) const fn url_from(mut self, variable: &'static str) -> Self {
        self.base_url_variable = Some(variable);
        self
    }

    pub(crate) const fn query_from(mut self, variable: &'static str, name: &'static str) -> Self {
        self.query_variable = Some((variable, name));
        self
    }

    pub(crate) const fn deployments_from(mut self, variable: &'static str) -> Self {
        self.deployments_variable = Some(variable);
        self
    }

    pub(crate) const fn model(mut self, id: &'static str) -> Self {
        self.default_model = Some(id);
        self
    }

    pub(crate) const fn note(mut self, text: &'static str) -> Self {
        self.note = Some(text);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deployments_by_model() {
        let value = " gpt-5.4 = mine ,x=, =y,o3=a=b,lone,o3=later";
        let rows = [
            ("gpt-5.4", Some("mine")),
            ("o3", Some("a=b")),
            ("x", None),
            ("lone", None),
            ("gpt-5", None),
        ];
        for (model, expected) in rows {
            assert_eq!(Host::deployment(value, model), expected, "{model}");
        }
        assert_eq!(Host::deployment("", "m"), None);
    }
}
