//! Models and thinking levels.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Extra;

/// What a model is, where it is reached and what it can do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Model {
    /// Id sent to the provider.
    pub id: String,
    /// Name shown to people.
    pub name: String,
    /// Wire dialect, such as `openai-completions`.
    pub api: String,
    /// Provider that serves it.
    pub provider: String,
    /// Base URL of the endpoint.
    pub base_url: String,
    /// Whether the model can think.
    #[serde(default)]
    pub reasoning: bool,
    /// Kinds of input it takes.
    pub input: Vec<InputKind>,
    /// Prices per million tokens.
    #[serde(default)]
    pub cost: Prices,
    /// Context window in tokens.
    pub context_window: u64,
    /// Most output tokens of one response.
    pub max_tokens: u64,
    /// Extra request headers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Wire names of thinking levels; `null` marks a level as unsupported.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub thinking_level_map: BTreeMap<ThinkingLevel, Option<String>>,
    /// Settings of the dialect for this server.
    #[serde(default, skip_serializing_if = "Extra::is_empty")]
    pub compat: Extra,
}

/// A kind of model input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InputKind {
    /// Text.
    Text,
    /// Images.
    Image,
}

/// Prices per million tokens, in whatever currency the configuration uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Prices {
    /// Plain input.
    #[serde(serialize_with = "crate::number::serialize")]
    pub input: f64,
    /// Output.
    #[serde(serialize_with = "crate::number::serialize")]
    pub output: f64,
    /// Cache reads.
    #[serde(serialize_with = "crate::number::serialize")]
    pub cache_read: f64,
    /// Cache writes.
    #[serde(serialize_with = "crate::number::serialize")]
    pub cache_write: f64,
}

/// How much a model should think.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ThinkingLevel {
    /// Not at all.
    #[default]
    Off,
    /// As little as the model allows.
    Minimal,
    /// A little.
    Low,
    /// The usual amount.
    Medium,
    /// Much.
    High,
    /// As much as the model allows.
    Xhigh,
}

impl ThinkingLevel {
    /// All levels, rising.
    pub const ALL: [Self; 6] = [
        Self::Off,
        Self::Minimal,
        Self::Low,
        Self::Medium,
        Self::High,
        Self::Xhigh,
    ];

    /// The name used in settings, flags and session entries.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Xhigh => "xhigh",
        }
    }

    /// The level of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == name)
    }
}

/// `base_url` without what could be secret in it: user, password and query. Empty when it is no
/// address at all.
pub fn without_secrets(base_url: &str) -> String {
    let end = base_url.find(['?', '#']).unwrap_or(base_url.len());
    let Some((scheme, rest)) = base_url[..end].split_once("://") else {
        return String::new();
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}{path}")
}

impl Model {
    /// As it may be shown: without headers, and of the base URL what is not secret.
    #[must_use]
    pub fn without_secrets(&self) -> Self {
        Self {
            headers: BTreeMap::new(),
            base_url: without_secrets(&self.base_url),
            ..self.clone()
        }
    }

    /// Whether images may be sent to it.
    pub fn takes_images(&self) -> bool {
        self.input.contains(&InputKind::Image)
    }

    /// Whether `level` may be asked of it.
    pub fn supports(&self, level: ThinkingLevel) -> bool {
        if !self.reasoning {
            return level == ThinkingLevel::Off;
        }
        match self.thinking_level_map.get(&level) {
            Some(wire) => wire.is_some(),
            None => level != ThinkingLevel::Xhigh,
        }
    }

    /// The nearest supported level: higher first, then lower.
    pub fn clamp(&self, level: ThinkingLevel) -> ThinkingLevel {
        let higher = ThinkingLevel::ALL.into_iter().filter(|l| *l >= level);
        let lower = ThinkingLevel::ALL.into_iter().rev().filter(|l| *l < level);
        higher
            .chain(lower)
            .find(|l| self.supports(*l))
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(reasoning: bool, map: &[(ThinkingLevel, Option<&str>)]) -> Model {
        Model {
            id: "m".into(),
            name: "m".into(),
            api: "openai-completions".into(),
            provider: "p".into(),
            base_url: String::new(),
            reasoning,
            input: vec![InputKind::Text],
            cost: Prices::default(),
            context_window: 1000,
            max_tokens: 100,
            headers: BTreeMap::new(),
            thinking_level_map: map
                .iter()
                .map(|(l, w)| (*l, w.map(str::to_owned)))
                .collect(),
            compat: Extra::new(),
        }
    }

    #[test]
    fn what_is_shown_has_no_secrets() {
        let rows = [
            ("http://h:1/v1", "http://h:1/v1"),
            ("http://h", "http://h"),
            ("https://u:p@h/v1?key=s#f", "https://h/v1"),
            ("https://u:p@q@h?s", "https://h"),
            ("https://{A}.b/v1", "https://{A}.b/v1"),
            ("u:p@h/v1", ""),
            ("", ""),
        ];
        for (given, expected) in rows {
            let mut model = model(false, &[]);
            model.base_url = given.to_owned();
            model.headers.insert("x".into(), "secret".into());
            let shown = model.without_secrets();
            assert_eq!(
                (shown.base_url.as_str(), shown.headers.len()),
                (expected, 0)
            );
        }
    }

    #[test]
    fn clamping() {
        use ThinkingLevel::{High, Low, Medium, Minimal, Off, Xhigh};
        let rows = [
            (model(false, &[]), High, Off),
            (model(true, &[]), Xhigh, High),
            (model(true, &[(Xhigh, Some("max"))]), Xhigh, Xhigh),
            (
                model(true, &[(Minimal, None), (Low, None)]),
                Minimal,
                Medium,
            ),
            (model(true, &[(Off, None)]), Off, Minimal),
        ];
        for (model, asked, given) in rows {
            assert_eq!(model.clamp(asked), given, "{asked:?}");
        }
    }
}
