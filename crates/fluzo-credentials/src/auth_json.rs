//! `auth.json`: keys and sign-ins by provider, in pi's form.
//!
//! `{PROVIDER: {"type": "api_key", "key": VALUE, "env": {…}}}` or `{PROVIDER: {"type": "oauth",
//! "access", "refresh", "expires" (Unix milliseconds), …}}`. What is not known is kept as it
//! was written, byte for byte within a value.

use std::collections::BTreeMap;

use fluzo_llm::Secret;
use fluzo_stdx::raw_json::{self, RawObject, raw};
use serde_json::value::RawValue;

use crate::SecretValue;

/// The whole file.
#[derive(Debug, Clone, Default)]
pub struct Document(RawObject);

/// Why a file is no document. Says nothing of its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// It is not JSON.
    #[error("line {line}, column {column}: not valid JSON")]
    Syntax {
        /// Line, from one.
        line: usize,
        /// Column, from one.
        column: usize,
    },
    /// It is JSON of another kind.
    #[error("line 1: must be an object of providers")]
    NoObject,
    /// It is no text.
    #[error("not UTF-8 text")]
    NoText,
}

/// What is stored for one provider.
#[derive(Debug, Clone)]
pub enum Stored {
    /// A key, and variables that hold for its provider only.
    Key {
        /// The key or where it is.
        key: SecretValue,
        /// Variables that go before those of the environment.
        env: BTreeMap<String, String>,
    },
    /// A sign-in.
    SignIn(StoredToken),
    /// Something that cannot be used: what is wrong with it.
    Unusable(String),
}

/// A sign-in with all its fields.
#[derive(Debug, Clone)]
pub struct StoredToken {
    /// What authorises requests.
    pub access: Secret,
    /// What gets a new one.
    pub refresh: Secret,
    /// When `access` ends, in Unix milliseconds; servers' times are taken five minutes early.
    pub expires_ms: i64,
    fields: RawObject,
}

impl Document {
    /// Reads the bytes of the file. One that is empty or blank is a document without entries.
    ///
    /// # Errors
    ///
    /// When it is anything else but a JSON object.
    pub fn parse(bytes: &[u8]) -> Result<Self, Broken> {
        let object = RawObject::parse(bytes).map_err(|broken| match broken {
            raw_json::Broken::Syntax { line, column } => Broken::Syntax { line, column },
            raw_json::Broken::NoObject => Broken::NoObject,
            raw_json::Broken::NoText => Broken::NoText,
        })?;
        Ok(Self(object))
    }

    /// What pi kept in other places before there was `auth.json`: sign-ins in `oauth.json`,
    /// which had no `type`, and keys in `apiKeys` of its settings, texts by provider. What
    /// is neither is left out.
    ///
    /// # Errors
    ///
    /// When `oauth_json` is no JSON object.
    pub fn from_old(
        oauth_json: &[u8],
        api_keys: Option<&serde_json::Value>,
    ) -> Result<Self, Broken> {
        let mut old = Self::parse(oauth_json)?;
        for name in old.0.names().map(str::to_owned).collect::<Vec<_>>() {
            let fields = old.0.get(&name).map(RawValue::get).unwrap_or_default();
            match serde_json::from_str::<RawObject>(fields) {
                Ok(mut fields) => {
                    fields.put("type", json("oauth"));
                    old.0.put(&name, raw(&fields.to_text(2)));
                }
                Err(_) => {
                    old.0.remove(&name);
                }
            }
        }
        let keys = api_keys.and_then(serde_json::Value::as_object);
        for (name, key) in keys.into_iter().flatten() {
            // A sign-in went before a key.
            if let Some(key) = key.as_str()
                && old.0.get(name).is_none()
            {
                old.put_key(name, key);
            }
        }
        Ok(old)
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names of the providers that have an entry, in the order of the file.
    pub fn providers(&self) -> impl Iterator<Item = &str> {
        self.0.names()
    }

    /// What is stored for `provider`.
    pub fn get(&self, provider: &str) -> Option<Stored> {
        let raw = self.0.get(provider)?;
        Some(stored(raw.get()).unwrap_or_else(Stored::Unusable))
    }

    /// Puts a sign-in in the place of what is stored for `provider`.
    pub fn put(&mut self, provider: &str, token: &StoredToken) {
        self.0.put(provider, raw(&token.fields.to_text(2)));
    }

    /// Puts a key in the place of what is stored for `provider`; `key` has the syntax of
    /// [`SecretValue`].
    pub fn put_key(&mut self, provider: &str, key: &str) {
        let mut fields = RawObject::default();
        fields.put("type", json("api_key"));
        fields.put("key", json(key));
        self.0.put(provider, raw(&fields.to_text(2)));
    }

    /// Takes out what is stored for `provider`; whether there was something.
    pub fn remove(&mut self, provider: &str) -> bool {
        self.0.remove(provider)
    }

    /// The document as text.
    pub fn to_text(&self) -> String {
        self.0.to_text(0) + "\n"
    }
}

impl StoredToken {
    /// A sign-in with further fields of text.
    pub fn new(access: Secret, refresh: Secret, expires_ms: i64, extras: &[(&str, &str)]) -> Self {
        let mut fields = RawObject::default();
        fields.put("type", json("oauth"));
        let mut token = Self {
            access: access.clone(),
            refresh: refresh.clone(),
            expires_ms,
            fields,
        };
        token.renew(access, refresh, expires_ms);
        for (name, value) in extras {
            token.fields.put(name, json(value));
        }
        token
    }

    /// Replaces the tokens; every other field stays.
    pub fn renew(&mut self, access: Secret, refresh: Secret, expires_ms: i64) {
        self.fields.put("access", json(access.reveal()));
        self.fields.put("refresh", json(refresh.reveal()));
        self.fields.put("expires", raw(&expires_ms.to_string()));
        (self.access, self.refresh, self.expires_ms) = (access, refresh, expires_ms);
    }

    /// A further field, when it is text.
    pub fn text(&self, name: &str) -> Option<String> {
        self.fields.text(name)
    }
}

fn stored(text: &str) -> Result<Stored, String> {
    let fields: RawObject = serde_json::from_str(text).map_err(|_| "must be an object")?;
    match string(&fields, "type")?.as_str() {
        "api_key" => Ok(Stored::Key {
            key: SecretValue::parse(&string(&fields, "key")?),
            env: match fields.get("env") {
                None => BTreeMap::new(),
                Some(env) => serde_json::from_str(env.get())
                    .map_err(|_| "`env` must be an object of texts")?,
            },
        }),
        "oauth" => Ok(Stored::SignIn(StoredToken {
            access: Secret::new(string(&fields, "access")?),
            refresh: Secret::new(string(&fields, "refresh")?),
            expires_ms: expiry(&fields)?,
            fields,
        })),
        _ => Err("`type` must be `api_key` or `oauth`".to_owned()),
    }
}

/// A whole number, also when it is written with a point.
fn expiry(fields: &RawObject) -> Result<i64, String> {
    let number = fields.get("expires").map(|raw| raw.get().parse::<f64>());
    match number {
        // Within the range in which every whole number is exact.
        Some(Ok(ms)) if ms.abs() <= 9e15 => Ok(ms as i64),
        _ => Err("`expires` must be a number of milliseconds".to_owned()),
    }
}

fn string(fields: &RawObject, name: &str) -> Result<String, String> {
    fields
        .text(name)
        .ok_or_else(|| format!("`{name}` must be text"))
}

fn json(text: &str) -> Box<RawValue> {
    raw(&serde_json::Value::from(text).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"{
  "anthropic": { "type": "api_key", "key": "$MY_KEY", "env": {"A": "1"}, "note": 1.50 },
  "later": {"type": "passkey", "big": 123456789012345678901234567890, "s": "\u00e9"},
  "x": {"type":"oauth","access":"a1","refresh":"r1","expires":1000.0,"accountId":"acc", "n": [1,  2]}
}
"#;

    #[test]
    fn both_forms_are_read() {
        let document = Document::parse(FILE.as_bytes()).unwrap();
        let Some(Stored::Key { key, env }) = document.get("anthropic") else {
            panic!()
        };
        assert_eq!(key, SecretValue::Variable("MY_KEY".into()));
        assert_eq!(env["A"], "1");
        let Some(Stored::SignIn(token)) = document.get("x") else {
            panic!()
        };
        assert_eq!((token.access.reveal(), token.expires_ms), ("a1", 1000));
        assert_eq!(token.text("accountId").as_deref(), Some("acc"));
        assert!(matches!(document.get("later"), Some(Stored::Unusable(_))));
        assert!(document.get("none").is_none());
    }

    #[test]
    fn old_places_give_entries_of_today() {
        let oauth = br#"{"github-copilot": {"refresh": "r", "access": "a", "expires": 5, "enterpriseUrl": "e.test"}, "odd": 1}"#;
        let keys = serde_json::json!({"openai": "sk-old", "github-copilot": "k", "none": 1});
        let old = Document::from_old(oauth, Some(&keys)).unwrap();
        let Some(Stored::SignIn(token)) = old.get("github-copilot") else {
            panic!()
        };
        assert_eq!((token.refresh.reveal(), token.expires_ms), ("r", 5));
        assert_eq!(token.text("enterpriseUrl").as_deref(), Some("e.test"));
        assert!(matches!(old.get("openai"), Some(Stored::Key { .. })));
        assert_eq!(
            old.providers().collect::<Vec<_>>(),
            ["github-copilot", "openai"]
        );
        assert!(Document::from_old(b"", None).unwrap().is_empty());
        assert_eq!(
            Document::from_old(b"[]", None).unwrap_err(),
            Broken::NoObject
        );
    }

    #[test]
    fn what_is_not_known_is_written_as_it_was_read() {
        let mut document = Document::parse(FILE.as_bytes()).unwrap();
        let Some(Stored::SignIn(mut token)) = document.get("x") else {
            panic!()
        };
        token.renew(Secret::new("a\"2"), Secret::new("r2"), 2000);
        document.put("x", &token);
        document.put_key("new", "k");
        let text = document.to_text();
        for kept in [
            r#""anthropic": { "type": "api_key", "key": "$MY_KEY", "env": {"A": "1"}, "note": 1.50 }"#,
            r#""later": {"type": "passkey", "big": 123456789012345678901234567890, "s": "\u00e9"}"#,
            r#""access": "a\"2""#,
            r#""refresh": "r2""#,
            r#""expires": 2000"#,
            r#""accountId": "acc""#,
            r#""n": [1,  2]"#,
        ] {
            assert!(text.contains(kept), "{kept}\n{text}");
        }
        let mut again = Document::parse(text.as_bytes()).unwrap();
        assert_eq!(again.to_text(), text);
        assert!(again.remove("x") && !again.remove("x"));
        assert_eq!(
            again.providers().collect::<Vec<_>>(),
            ["anthropic", "later", "new"]
        );
    }

    #[test]
    fn a_broken_file_is_named_by_its_place_and_a_broken_entry_by_its_field() {
        let rows: [(&[u8], Broken); 4] = [
            (
                b"{\n  \"a\": sk-planted",
                Broken::Syntax { line: 2, column: 8 },
            ),
            (b"\"sk-planted\"", Broken::NoObject),
            (b"[]", Broken::NoObject),
            (b"\xff", Broken::NoText),
        ];
        for (bytes, expected) in rows {
            let broken = Document::parse(bytes).unwrap_err();
            assert_eq!(broken, expected);
            assert!(!broken.to_string().contains("planted"));
        }
        for blank in ["", " \n", "\u{feff}{}"] {
            assert_eq!(Document::parse(blank.as_bytes()).unwrap().to_text(), "{}\n");
        }
        let rows = [
            (r#""sk-planted""#, "must be an object"),
            (r#"{"type": "sk-planted"}"#, "`type` must be"),
            (r#"{"type": "api_key"}"#, "`key` must be text"),
            (
                r#"{"type": "api_key", "key": "k", "env": "sk-planted"}"#,
                "`env` must be",
            ),
            (
                r#"{"type": "oauth", "access": "sk-planted"}"#,
                "`refresh` must be",
            ),
            (
                r#"{"type": "oauth", "access": "sk-planted", "refresh": "r", "expires": "x"}"#,
                "`expires` must be",
            ),
        ];
        for (entry, expected) in rows {
            let document = Document::parse(format!("{{\"p\": {entry}}}").as_bytes()).unwrap();
            let Some(Stored::Unusable(problem)) = document.get("p") else {
                panic!("{entry}")
            };
            assert!(problem.contains(expected), "{problem}");
            let shown = format!("{problem} {document:?}");
            assert!(!shown.contains("planted"), "{shown}");
        }
    }
}
