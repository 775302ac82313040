//! Removes planted secrets from what a server says about a request.

use fluzo_llm::RequestAuth;
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
        self.0.iter().fold(text, |text, secret| {
            if text.contains(secret.as_str()) {
                text.replace(secret.as_str(), REDACTED)
            } else {
                text
            }
        })
    }
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redactor({})", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use fluzo_llm::Secret;

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
        let url = Url::parse("https://planted-user:planted%40pass@h/v1?key=planted-query&v=1");
        let redactor = Redactor::default().with_address(&url.unwrap());
        let text = "planted-user planted%40pass planted@pass planted-query 1";
        assert_eq!(
            redactor.clean(text.to_owned()),
            "[redacted] [redacted] [redacted] [redacted] 1"
        );
    }
}
