//! The part of a package's `package.json` that says what the package brings.

use serde_json::Value;
use thiserror::Error;

/// What a package can bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PackagePart {
    /// Code that adds tools, commands and hooks.
    Extension,
    /// Instructions for one task.
    Skill,
    /// Texts with arguments.
    Prompt,
    /// Colours of the terminal.
    Theme,
}

impl PackagePart {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Extension, Self::Skill, Self::Prompt, Self::Theme];

    /// The key in manifests and settings, which is also the folder of packages without a
    /// manifest.
    pub fn key(self) -> &'static str {
        match self {
            Self::Extension => "extensions",
            Self::Skill => "skills",
            Self::Prompt => "prompts",
            Self::Theme => "themes",
        }
    }

    /// Endings of its files.
    pub(super) fn endings(self) -> &'static [&'static str] {
        match self {
            Self::Extension => &["ts", "js"],
            Self::Skill | Self::Prompt => &["md"],
            Self::Theme => &["json"],
        }
    }
}

/// What the key `pi` of a `package.json` lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manifest {
    lists: [Vec<String>; 4],
}

/// Why a manifest counts as missing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ManifestError {
    /// Not JSON, or no object.
    #[error("`package.json` is not valid: {0}")]
    Json(String),
    /// A key has a value of another kind.
    #[error("`pi.{0}` in `package.json` must be a list of texts")]
    List(&'static str),
    /// The key `pi` is no object.
    #[error("`pi` in `package.json` must be an object")]
    Object,
}

impl Manifest {
    /// Reads the text of a `package.json`; `None` when it says nothing about resources.
    ///
    /// # Errors
    ///
    /// When it says something that cannot be understood.
    pub fn parse(text: &[u8]) -> Result<Option<Self>, ManifestError> {
        let value: Value =
            serde_json::from_slice(text).map_err(|error| ManifestError::Json(error.to_string()))?;
        let Some(pi) = value.get("pi") else {
            return Ok(None);
        };
        let pi = pi.as_object().ok_or(ManifestError::Object)?;
        let mut manifest = Self::default();
        for (kind, list) in PackagePart::ALL.into_iter().zip(&mut manifest.lists) {
            if let Some(value) = pi.get(kind.key()) {
                *list = texts(value).ok_or(ManifestError::List(kind.key()))?;
            }
        }
        Ok(Some(manifest))
    }

    /// Paths, globs and rules for one kind.
    pub fn list(&self, kind: PackagePart) -> &[String] {
        &self.lists[kind as usize]
    }
}

/// A list of texts.
pub(super) fn texts(value: &Value) -> Option<Vec<String>> {
    let items = value.as_array()?.iter();
    items.map(|item| item.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_lists_what_it_brings() {
        let text =
            br#"{"name": "x", "pi": {"skills": ["skills", "!skills/old"], "video": "v.mp4"}}"#;
        let manifest = Manifest::parse(text).unwrap().unwrap();
        assert_eq!(manifest.list(PackagePart::Skill), ["skills", "!skills/old"]);
        assert!(manifest.list(PackagePart::Theme).is_empty());
        assert_eq!(Manifest::parse(br#"{"name": "x"}"#), Ok(None));
        assert_eq!(Manifest::parse(b"[1]"), Ok(None));
    }

    #[test]
    fn what_is_no_manifest_is_told() {
        let deep = "[".repeat(100_000);
        let rows: [(&str, &str); 5] = [
            ("{", "`package.json` is not valid: "),
            ("\u{0}", "`package.json` is not valid: "),
            (&deep, "`package.json` is not valid: "),
            (r#"{"pi": 1}"#, "`pi` in `package.json` must be an object"),
            (
                r#"{"pi": {"themes": [1]}}"#,
                "`pi.themes` in `package.json` must be a list of texts",
            ),
        ];
        for (text, expected) in rows {
            let error = Manifest::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
