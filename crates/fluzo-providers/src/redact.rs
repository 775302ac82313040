//! Removes planted secrets from what a server says about a request.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fluzo_llm::{RequestAuth, Secret};
use reqwest::Url;

/// What stands where a secret stood.
const REDACTED: &str = "[redacted]";

/// Shorter values are placeholders of local servers, and replacing them would garble text.
const SHORTEST: usize = 8;

/// The secrets of one request.
#[derive(Clone, Default)]
pub(crate) struct Redactor(Vec<String>);

impl Redactor {
    /// The key and the header values of `auth`, whole and without their scheme.
    pub(crate) fn new(auth: &RequestAuth) -> Self {
        let values = auth
            .headers
            .iter()
            .map(|(_, value)| value)
            .chain(&auth.api_key);
        let mut redactor = Self::default();
        for value in values {
            redactor.add_value(value.reveal());
        }
        redactor
    }

    /// Also user, password and query values of the address of the request.
    pub(crate) fn with_address(mut self, url: &Url) -> Self {
        let user_info = [Some(url.username()), url.password()];
        for part in user_info.into_iter().flatten() {
            self.add(part);
            // As it was before it became part of an address.
            let query = format!("form://x?{}", part.replace('+', "%2B"));
            if let Ok(query) = Url::parse(&query) {
                for (decoded, _) in query.query_pairs() {
                    self.add(&decoded);
                }
            }
        }
        for (_, value) in url.query_pairs() {
            self.add(&value);
        }
        // As they go over the wire: values encoded, user and password as one header.
        for pair in url.query().into_iter().flat_map(|query| query.split('&')) {
            self.add(pair.split_once('=').map_or(pair, |(_, value)| value));
        }
        if !url.username().is_empty() || url.password().is_some() {
            self.add(&basic(url));
        }
        self
    }

    /// Also user and password of the proxy of the request.
    pub(crate) fn with_proxy(self, proxy: Option<&Url>) -> Self {
        match proxy {
            Some(url) => self.with_address(url),
            None => self,
        }
    }

    /// Also these values.
    pub(crate) fn with_secrets(mut self, secrets: &[Secret]) -> Self {
        for secret in secrets {
            self.add_value(secret.reveal());
        }
        self
    }

    /// A value whole, and without its scheme.
    fn add_value(&mut self, value: &str) {
        let whole = value.trim();
        self.add(whole);
        if let Some((_, rest)) = whole.split_once(' ') {
            self.add(rest.trim());
        }
    }

    fn add(&mut self, secret: &str) {
        if secret.len() >= SHORTEST && !self.0.iter().any(|known| known == secret) {
            self.0.push(secret.to_owned());
            // The longest first, so that a secret inside another leaves no rest.
            self.0.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        }
    }

    /// `text` without the secrets.
    pub(crate) fn clean(&self, text: String) -> String {
        self.replace(text, REDACTED)
    }

    /// `text` with `mark` where a secret stood.
    pub(crate) fn replace(&self, text: String, mark: &str) -> String {
        self.0.iter().fold(text, |text, secret| {
            if text.contains(secret.as_str()) {
                text.replace(secret.as_str(), mark)
            } else {
                text
            }
        })
    }
}

/// User and password of `url` as `Basic` authorisation sends them.
fn basic(url: &Url) -> String {
    let mut pair = percent_decoded(url.username());
    pair.push(b':');
    pair.extend(percent_decoded(url.password().unwrap_or_default()));
    STANDARD.encode(pair)
}

/// `text` with `%XX` read as bytes.
fn percent_decoded(text: &str) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let [byte, after @ ..] = rest {
        let digits = after.get(..2).filter(|_| *byte == b'%');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(decoded) => {
                out.push(decoded);
                rest = &after[2..];
            }
            None => {
                out.push(*byte);
                rest = after;
            }
        }
    }
    out
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redactor({})", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_header_values_vanish() {
        let auth = RequestAuth {
            api_key: Some(Secret::new("sk-planted-key")),
            headers: vec![
                ("x-auth".into(), Secret::new("Bearer other-secret")),
                ("x".into(), Secret::new("ollama")),
            ],
            ..RequestAuth::default()
        };
        let redactor = Redactor::new(&auth);
        let text = "sk-planted-key and Bearer other-secret and other-secret at ollama".to_owned();
        assert_eq!(
            redactor.clean(text),
            "[redacted] and [redacted] and [redacted] at ollama"
        );
        assert!(!format!("{redactor:?}").contains("planted"));
    }

    #[test]
    fn secrets_of_an_address_vanish_too() {
        let url = Url::parse("https://planted-user:planted%40pass@h/v1?key=planted%2Dquery&v=1");
        let url = url.unwrap();
        let redactor = Redactor::default().with_address(&url);
        // The last is `planted-user:planted@pass`.
        let text = "planted-user planted%40pass planted@pass planted-query 1 \
                    planted%2Dquery cGxhbnRlZC11c2VyOnBsYW50ZWRAcGFzcw==";
        let left = "[redacted] [redacted] [redacted] [redacted] 1 [redacted] [redacted]";
        assert_eq!(redactor.clean(text.to_owned()), left);
        let redactor = Redactor::default().with_proxy(Some(&url));
        assert_eq!(redactor.clean(text.to_owned()), left);
    }
}
