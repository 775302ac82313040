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
}

/// A value that cannot be used; the layer below it counts instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}the {source_name} settings {problem}", in_key(.key.as_deref()))]
pub struct Problem {
    /// The key, or what leads to it; none for the whole file.
    pub key: Option<String>,
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
        for (source, _) in layers.iter().filter(|(_, layer)| !layer.is_object()) {
            settings.report(source, None, "must be an object".to_owned());
        }
        for def in registry {
            let default = serde_json::from_str(def.default).unwrap_or(Value::Null);
            settings.values.insert(def.key, (default, Source::Default));
            for (source, layer) in layers {
                match lookup(layer, def.key) {
                    Ok(Some(value)) => settings.offer(def, source, value),
                    Ok(None) => {}
                    Err(parent) => {
                        settings.report(source, Some(parent), "must be an object".to_owned());
                    }
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
        let value = match (def.kind, whole(value)) {
            (SettingKind::Number { .. }, Some(number)) => Value::from(number),
            _ => value.clone(),
        };
        match problem(def.kind, &value) {
            None => {
                self.values.insert(def.key, (value, source.clone()));
            }
            Some(problem) => self.report(source, Some(def.key), problem),
        }
    }

    /// Several keys below one parent report it once.
    fn report(&mut self, source: &Source, key: Option<&str>, problem: String) {
        let problem = Problem {
            key: key.map(str::to_owned),
            source_name: source.clone(),
            problem,
        };
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }
}

fn in_key(key: Option<&str>) -> String {
    key.map(|key| format!("setting `{key}` in "))
        .unwrap_or_default()
}

/// A whole number, also when it is written with a point.
fn whole(value: &Value) -> Option<u64> {
    // Every whole number up to here is exact as a float.
    const EXACT: f64 = 9_007_199_254_740_991.0;
    let float = value
        .as_f64()
        .filter(|n| n.fract() == 0.0 && (0.0..=EXACT).contains(n));
    value.as_u64().or(float.map(|n| n as u64))
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "default",
            Self::Global => "global",
            Self::Project => "project",
        })
    }
}

/// The value of `key`; `Err` is the part of the key that should lead to an object and does not.
fn lookup<'a, 'k>(layer: &'a Value, key: &'k str) -> Result<Option<&'a Value>, &'k str> {
    // A file that is no object is reported as a whole.
    let Some(mut object) = layer.as_object() else {
        return Ok(None);
    };
    for (dot, _) in key.match_indices('.') {
        let name = key[..dot].rsplit('.').next().unwrap_or_default();
        object = match object.get(name) {
            None | Some(Value::Null) => return Ok(None),
            Some(value) => value.as_object().ok_or(&key[..dot])?,
        };
    }
    let name = key.rsplit('.').next().unwrap_or_default();
    Ok(object.get(name).filter(|value| !value.is_null()))
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
    fn what_leads_to_no_object_is_reported_once() {
        let rows = [
            (
                json!({"retry": true}),
                vec!["setting `retry` in the global settings must be an object"],
            ),
            (json!([1]), vec!["the global settings must be an object"]),
            (json!("x"), vec!["the global settings must be an object"]),
            (json!({"retry": null}), vec![]),
        ];
        for (layer, expected) in rows {
            let settings = Settings::resolve(OPEN, &[(Source::Global, layer)]);
            let problems: Vec<String> = settings
                .problems()
                .iter()
                .map(ToString::to_string)
                .collect();
            assert_eq!(problems, expected);
            assert_eq!(settings.number(key::RETRY_MAX), Some(3));
        }
    }

    #[test]
    fn whole_numbers_may_be_written_with_a_point() {
        for (value, number, problems) in [
            (json!(5.0), Some(5), 0),
            (json!(5), Some(5), 0),
            (json!(5.5), Some(3), 1),
            (json!(-1.0), Some(3), 1),
            (json!(1e300), Some(3), 1),
        ] {
            let layer = json!({"retry": {"maxRetries": value}});
            let settings = Settings::resolve(OPEN, &[(Source::Global, layer)]);
            assert_eq!(settings.number(key::RETRY_MAX), number, "{value}");
            assert_eq!(settings.problems().len(), problems, "{value}");
        }
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
