//! Which value wins, and where it came from.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use crate::registry::{SettingDef, SettingKind};

/// Where a value came from, lowest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The registry.
    Default,
    /// The user's file.
    Global,
    /// The project's file.
    Project,
    /// The command line.
    Flag,
}

/// A value that cannot be used; the layer below it counts instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("setting `{key}` in the {source_name} settings {problem}")]
pub struct Problem {
    /// The key.
    pub key: &'static str,
    /// The layer.
    pub source_name: Source,
    /// What is wrong.
    pub problem: String,
}

/// Settings with their values and sources.
#[derive(Debug, Clone)]
pub struct Settings {
    values: BTreeMap<&'static str, (Value, Source)>,
    problems: Vec<Problem>,
}

impl Settings {
    /// Resolves the settings of `registry` over `layers`, lowest first. A layer is an
    /// object as it stands in a file; keys that are not in the registry are passed over.
    pub fn resolve(registry: &[SettingDef], layers: &[(Source, Value)]) -> Self {
        let mut settings = Self {
            values: BTreeMap::new(),
            problems: Vec::new(),
        };
        for def in registry {
            let default = serde_json::from_str(def.default).unwrap_or(Value::Null);
            settings.values.insert(def.key, (default, Source::Default));
            for (source, layer) in layers {
                if let Some(value) = lookup(layer, def.key) {
                    settings.offer(def, source, value);
                }
            }
        }
        settings
    }

    /// Values that could not be used.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Where the value of `key` came from.
    pub fn source(&self, key: &str) -> Option<&Source> {
        self.values.get(key).map(|(_, source)| source)
    }

    /// A text or word; `None` when it is not set.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key).as_str()
    }

    /// Whether a switch is on.
    pub fn bool(&self, key: &str) -> bool {
        self.get(key).as_bool().unwrap_or(false)
    }

    /// A number; `None` when it is not set.
    pub fn number(&self, key: &str) -> Option<u64> {
        self.get(key).as_u64()
    }

    fn get(&self, key: &str) -> &Value {
        static NOTHING: Value = Value::Null;
        debug_assert!(
            self.values.contains_key(key),
            "`{key}` is not in the registry"
        );
        self.values.get(key).map_or(&NOTHING, |(value, _)| value)
    }

    fn offer(&mut self, def: &SettingDef, source: &Source, value: &Value) {
        match problem(def.kind, value) {
            None => {
                self.values.insert(def.key, (value.clone(), source.clone()));
            }
            Some(problem) => self.problems.push(Problem {
                key: def.key,
                source_name: source.clone(),
                problem,
            }),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "default",
            Self::Global => "global",
            Self::Project => "project",
            Self::Flag => "command-line",
        })
    }
}

fn lookup<'a>(layer: &'a Value, key: &str) -> Option<&'a Value> {
    key.split('.')
        .try_fold(layer, |value, part| value.get(part))
        .filter(|value| !value.is_null())
}

fn problem(kind: SettingKind, value: &Value) -> Option<String> {
    match kind {
        SettingKind::Text => (!value.is_string()).then(|| "must be text".to_owned()),
        SettingKind::Bool => (!value.is_boolean()).then(|| "must be true or false".to_owned()),
        SettingKind::Number { min, max } => {
            let fits = value.as_u64().is_some_and(|n| (min..=max).contains(&n));
            (!fits).then(|| format!("must be a whole number from {min} to {max}"))
        }
        SettingKind::OneOf(words) => {
            let fits = value.as_str().is_some_and(|word| words.contains(&word));
            (!fits).then(|| format!("must be one of {}", words.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::registry::{OPEN, key};

    #[test]
    fn the_highest_layer_with_a_usable_value_wins() {
        let layers = [
            (
                Source::Global,
                json!({"defaultModel": "a", "retry": {"maxRetries": 5, "baseDelayMs": 7}, "unknown": 1}),
            ),
            (
                Source::Project,
                json!({"defaultModel": "b", "retry": {"maxRetries": "many"}}),
            ),
        ];
        let settings = Settings::resolve(OPEN, &layers);
        assert_eq!(settings.text(key::DEFAULT_MODEL), Some("b"));
        assert_eq!(settings.source(key::DEFAULT_MODEL), Some(&Source::Project));
        assert_eq!(settings.number(key::RETRY_MAX), Some(5));
        assert_eq!(settings.number(key::RETRY_BASE_DELAY_MS), Some(7));
        assert!(settings.bool(key::RETRY_ENABLED));
        let problems: Vec<_> = settings
            .problems()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            problems,
            [
                "setting `retry.maxRetries` in the project settings must be a whole number from 0 to 100"
            ]
        );
    }

    #[test]
    fn every_default_fits_its_kind_and_keys_are_unique() {
        let mut keys = std::collections::HashSet::new();
        for def in OPEN {
            let value: Value = serde_json::from_str(def.default).unwrap();
            assert!(
                value.is_null() || problem(def.kind, &value).is_none(),
                "{}",
                def.key
            );
            assert!(keys.insert(def.key), "{}", def.key);
            assert!(def.doc.ends_with('.'), "{}", def.key);
        }
    }
}
