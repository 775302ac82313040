//! Removes planted secrets from what a server says about a request.

use fluzo_llm::RequestAuth;

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
        let mut secrets: Vec<String> = values
            .flat_map(|secret| {
                let whole = secret.reveal().trim();
                [
                    Some(whole),
                    whole.split_once(' ').map(|(_, rest)| rest.trim()),
                ]
            })
            .flatten()
            .filter(|secret| secret.len() >= SHORTEST)
            .map(str::to_owned)
            .collect();
        // The longest first, so that a secret inside another leaves no rest.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self(secrets)
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
}
