//! Keys of the governed profile: a variable or an entry of `auth.toml`, each bound to the
//! origin of one endpoint and given to no other.
//!
//! The file holds one table for each credential:
//!
//! ```toml
//! [work]
//! endpoint = "https://api.example.com"
//! key_env = "EXAMPLE_API_KEY"
//!
//! [lab]
//! endpoint = "http://127.0.0.1:8080"
//! key = "…"
//! not_encrypted = true
//! ```
//!
//! A key that stands in the file itself must say that the file is not encrypted. Text and
//! permissions are handed in; no error holds a text of the file.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use fluzo_llm::Secret;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use url::Url;

use crate::secret_value::is_variable;

/// Permission bits that the file may have: reading and writing by its owner.
const OWNER_ONLY: u32 = 0o600;

/// Scheme, host and port of an endpoint, http or https.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EndpointOrigin(url::Origin);

/// A key that is given to one endpoint only.
#[derive(Debug, Clone)]
pub struct BoundKey {
    endpoint: EndpointOrigin,
    source: KeySource,
}

/// The credentials of `auth.toml` by name.
#[derive(Debug, Clone, Default)]
pub struct AuthToml(BTreeMap<String, BoundKey>);

/// Why `auth.toml` is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthTomlError {
    /// Others than the owner may use the file.
    #[error("mode {mode:04o} lets others use the file; set it with `chmod 600`")]
    TooOpen {
        /// Its permission bits.
        mode: u32,
    },
    /// A line cannot be used.
    #[error("line {line}: {problem}")]
    Line {
        /// Number of the line, from one.
        line: usize,
        /// What is wrong.
        problem: &'static str,
    },
}

/// Why a key is not given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BoundKeyError {
    /// The request goes elsewhere.
    #[error("the key is bound to `{bound}` and is not given to `{asked}`")]
    OtherEndpoint {
        /// The endpoint of the key.
        bound: EndpointOrigin,
        /// Where the request goes; nothing else of its address is kept.
        asked: EndpointOrigin,
    },
    /// The address of the request is no endpoint.
    #[error("the key is bound to `{bound}`, and the request has no http or https address")]
    NoEndpoint {
        /// The endpoint of the key.
        bound: EndpointOrigin,
    },
    /// The variable has no value.
    #[error("environment variable `{variable}` is not set")]
    NotSet {
        /// The variable.
        variable: String,
    },
}

#[derive(Debug, Clone)]
enum KeySource {
    Variable(String),
    Literal(Secret),
}

impl EndpointOrigin {
    /// The origin of `url`; `None` when it is no http or https address.
    pub fn of(url: &str) -> Option<Self> {
        let url = Url::parse(url.trim()).ok()?;
        let web = matches!(url.scheme(), "http" | "https");
        web.then(|| Self(url.origin()))
    }

    /// The origin that `text` is, with nothing beside it.
    fn exactly(text: &str) -> Option<Self> {
        let url = Url::parse(text).ok()?;
        let bare = url.username().is_empty()
            && url.password().is_none()
            && matches!(url.path(), "" | "/")
            && url.query().is_none()
            && url.fragment().is_none();
        Self::of(text).filter(|_| bare)
    }
}

impl fmt::Display for EndpointOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.ascii_serialization())
    }
}

impl BoundKey {
    /// The key in the environment variable `variable` (`auth = "env"`), for `endpoint`.
    pub fn of_variable(variable: impl Into<String>, endpoint: EndpointOrigin) -> Self {
        Self {
            endpoint,
            source: KeySource::Variable(variable.into()),
        }
    }

    /// Where the key may be sent.
    pub fn endpoint(&self) -> &EndpointOrigin {
        &self.endpoint
    }

    /// The key for a request to `url`. `variable` is asked only once `url` is known to lead to
    /// the endpoint; an empty value counts as none.
    ///
    /// # Errors
    ///
    /// When `url` leads elsewhere, or the variable is not set.
    pub fn key(
        &self,
        url: &str,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Secret, BoundKeyError> {
        let bound = || self.endpoint.clone();
        match EndpointOrigin::of(url) {
            None => return Err(BoundKeyError::NoEndpoint { bound: bound() }),
            Some(asked) if asked != self.endpoint => {
                let bound = bound();
                return Err(BoundKeyError::OtherEndpoint { bound, asked });
            }
            Some(_) => {}
        }
        match &self.source {
            KeySource::Literal(key) => Ok(key.clone()),
            KeySource::Variable(name) => {
                let value = variable(name).filter(|value| !value.is_empty());
                value.map(Secret::new).ok_or_else(|| BoundKeyError::NotSet {
                    variable: name.clone(),
                })
            }
        }
    }
}

impl AuthToml {
    /// Reads `text`, the content of a file with the permission bits `mode`.
    ///
    /// # Errors
    ///
    /// When the mode is wider than 0600, and at the first line that cannot be used; nothing of
    /// the file counts then.
    pub fn parse(text: &str, mode: u32) -> Result<Self, AuthTomlError> {
        let mode = mode & 0o7777;
        if mode & !OWNER_ONLY != 0 {
            return Err(AuthTomlError::TooOpen { mode });
        }
        let at = |span: Range<usize>, problem| AuthTomlError::Line {
            line: line_of(text, span.start),
            problem,
        };
        let table = DeTable::parse(text)
            .map_err(|error| at(error.span().unwrap_or_default(), "this is not TOML"))?;
        let mut entries = BTreeMap::new();
        for (name, value) in table.get_ref() {
            let DeValue::Table(fields) = value.get_ref() else {
                return Err(at(name.span(), "a credential is a table, such as `[work]`"));
            };
            let entry = entry(fields, name.span()).map_err(|(span, problem)| at(span, problem))?;
            entries.insert(name.get_ref().to_string(), entry);
        }
        Ok(Self(entries))
    }

    /// The credential of this name.
    pub fn get(&self, name: &str) -> Option<&BoundKey> {
        self.0.get(name)
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

type Wrong = (Range<usize>, &'static str);

fn entry(fields: &DeTable<'_>, place: Range<usize>) -> Result<BoundKey, Wrong> {
    let (mut endpoint, mut source, mut plain, mut disclosed) = (None, None, None, false);
    for (field, value) in fields {
        let wrong = |problem| (value.span(), problem);
        match field.get_ref().as_ref() {
            "endpoint" => {
                endpoint = Some(text(value).and_then(EndpointOrigin::exactly).ok_or_else(|| {
                    wrong("`endpoint` must be scheme, host and port alone, such as \"https://api.example.com\"")
                })?);
            }
            "key_env" => {
                let name = text(value).filter(|name| is_variable(name));
                let name = name.ok_or_else(|| wrong("`key_env` must name a variable"))?;
                source = Some(KeySource::Variable(name.to_owned()));
            }
            "key" => {
                let key = text(value).filter(|key| !key.trim().is_empty());
                let key = key.ok_or_else(|| wrong("`key` must be a text that is not empty"))?;
                plain = Some((Secret::new(key), field.span()));
            }
            "not_encrypted" => {
                let DeValue::Boolean(said) = value.get_ref() else {
                    return Err(wrong("`not_encrypted` must be true or false"));
                };
                disclosed = *said;
            }
            _ => {
                let problem =
                    "an unknown field; there are `endpoint`, `key_env`, `key` and `not_encrypted`";
                return Err((field.span(), problem));
            }
        }
    }
    let endpoint = endpoint.ok_or((place.clone(), "`endpoint` is missing"))?;
    let source = match (source, plain) {
        (Some(source), None) => source,
        (None, Some((key, _))) if disclosed => KeySource::Literal(key),
        (None, Some((_, span))) => {
            let problem = "this file is not encrypted: name a variable with `key_env`, or accept it with `not_encrypted = true`";
            return Err((span, problem));
        }
        (Some(_), Some((_, span))) => return Err((span, "`key` and `key_env` exclude each other")),
        (None, None) => return Err((place, "`key_env` or `key` is missing")),
    };
    Ok(BoundKey { endpoint, source })
}

fn text<'a>(value: &'a Spanned<DeValue<'_>>) -> Option<&'a str> {
    match value.get_ref() {
        DeValue::String(text) => Some(text),
        _ => None,
    }
}

fn line_of(text: &str, at: usize) -> usize {
    let before = text.as_bytes().get(..at).unwrap_or(text.as_bytes());
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

#[cfg(test)]
#[path = "governed_tests.rs"]
mod tests;
