//! Which value wins, and where it came from.
//!
//! Layers are merged one level deep: objects at the top of a layer are merged key by key,
//! everything else, and whatever lies deeper, is replaced by the layer above as a whole.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use crate::kind::SettingKind;
use crate::registry::{Scope, SettingDef};
use crate::unknown;

/// Where a value came from. Layers are handed over lowest first, usually in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The registry.
    Default,
    /// The user's file.
    Global,
    /// The project's file.
    Project,
    /// An environment variable.
    Environment,
    /// A flag of the command line.
    Flag,
}

/// A value that cannot be used; the layer below it counts instead. Or a key that is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{source_name} {problem}", in_key(.key.as_deref()))]
pub struct Problem {
    /// The key, or what leads to it; none for the whole layer.
    pub key: Option<String>,
    /// The layer.
    pub source_name: Source,
    /// What is wrong.
    pub problem: String,
}

/// Settings with their values and sources.
#[derive(Debug, Clone)]
pub struct Settings {
    registry: &'static [SettingDef],
    values: BTreeMap<&'static str, (Value, Source)>,
    layers: Vec<(Source, Value)>,
    problems: Vec<Problem>,
}

impl Settings {
    /// Resolves the settings of `registry` over `layers`, lowest first. A layer is an
    /// object as it stands in a file; keys that are not in the registry are kept in it.
    pub fn resolve(registry: &'static [SettingDef], layers: &[(Source, Value)]) -> Self {
        let mut settings = Self {
            registry,
            values: BTreeMap::new(),
            layers: layers.to_vec(),
            problems: Vec::new(),
        };
        for (source, layer) in layers {
            if !layer.is_object() {
                settings.report(*source, None, "must be an object".to_owned());
            }
        }
        for def in registry {
            let default = serde_json::from_str(def.default).unwrap_or(Value::Null);
            settings.values.insert(def.key, (default, Source::Default));
            for (source, layer) in layers {
                settings.take(def, *source, layer);
            }
        }
        for (source, layer) in layers {
            for (key, close) in unknown::slips(registry, layer) {
                let close = close.join("`, `");
                let problem = format!("is not known: did you mean `{close}`?");
                settings.report(*source, Some(&key), problem);
            }
        }
        settings
    }

    /// Values that could not be used, and keys that were perhaps meant otherwise.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Where the value of `key` came from; none for a key that is not in the registry.
    pub fn source(&self, key: &str) -> Option<Source> {
        self.values.get(key).map(|(_, source)| *source)
    }

    /// Whether any layer sets `key`.
    pub fn is_set(&self, key: &str) -> bool {
        self.source(key)
            .is_some_and(|source| source != Source::Default)
    }

    /// A text or word; `None` when it is not set.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.value(key).as_str()
    }

    /// Whether a switch is on.
    pub fn bool(&self, key: &str) -> bool {
        self.value(key).as_bool().unwrap_or(false)
    }

    /// A number; `None` when it is not set. What is `"disabled"` is 0.
    pub fn number(&self, key: &str) -> Option<u64> {
        self.value(key).as_u64()
    }

    /// A list of texts; `None` when it is not set.
    pub fn texts(&self, key: &str) -> Option<Vec<&str>> {
        let list = self.value(key).as_array()?;
        Some(list.iter().filter_map(Value::as_str).collect())
    }

    /// An entry of an object whose names are the user's own.
    pub fn entry(&self, key: &str, name: &str) -> Option<&Value> {
        self.value(key).get(name)
    }

    /// The value as JSON; `null` when it is not set.
    pub fn value(&self, key: &str) -> &Value {
        static NOTHING: Value = Value::Null;
        debug_assert!(
            self.values.contains_key(key),
            "`{key}` is not in the registry"
        );
        self.values.get(key).map_or(&NOTHING, |(value, _)| value)
    }

    /// What each layer says of a list of resources, which combine instead of replacing each
    /// other: the highest layer first, so the project's before the user's. Layers without a
    /// usable list are left out.
    pub fn lists(&self, key: &str) -> Vec<(Source, &[Value])> {
        let def = self.registry.iter().find(|def| def.key == key);
        let usable = |source: Source, value: &Value| {
            def.is_some_and(|def| is_asked(def, source) && def.kind.problem(value).is_none())
        };
        let layers = self.layers.iter().rev();
        let lists = layers.filter_map(|(source, layer)| {
            let value = lookup(layer, key).ok()??;
            let list = value.as_array().filter(|_| usable(*source, value))?;
            Some((*source, list.as_slice()))
        });
        lists.collect()
    }

    /// The layer as it was handed over, with what is not known in it.
    pub fn layer(&self, source: Source) -> Option<&Value> {
        let found = self.layers.iter().find(|(own, _)| *own == source);
        found.map(|(_, layer)| layer)
    }

    fn take(&mut self, def: &SettingDef, source: Source, layer: &Value) {
        match lookup(layer, def.key) {
            Ok(Some(value)) => self.offer(def, source, value),
            // What lies deeper than one level goes with its parent.
            Ok(None) if is_replaced(layer, def.key) => {
                let default = serde_json::from_str(def.default).unwrap_or(Value::Null);
                self.values.insert(def.key, (default, Source::Default));
            }
            Ok(None) => {}
            Err(parent) => self.report(source, Some(parent), "must be an object".to_owned()),
        }
    }

    fn offer(&mut self, def: &SettingDef, source: Source, value: &Value) {
        if !is_asked(def, source) {
            let problem = "was passed over: only the user's own settings choose it".to_owned();
            return self.report(source, Some(def.key), problem);
        }
        let mut value = def.kind.stored(value);
        if let Some(problem) = def.kind.problem(&value) {
            return self.report(source, Some(def.key), problem);
        }
        if let (SettingKind::Table(_), Some((Value::Object(below), _)), Value::Object(own)) =
            (def.kind, self.values.get(def.key), &mut value)
            && !def.key.contains('.')
        {
            *own = merged(below, own);
        }
        self.values.insert(def.key, (value, source));
    }

    /// Several keys below one parent report it once.
    fn report(&mut self, source: Source, key: Option<&str>, problem: String) {
        let problem = Problem {
            key: key.map(str::to_owned),
            source_name: source,
            problem,
        };
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }
}

fn is_asked(def: &SettingDef, source: Source) -> bool {
    def.scope == Scope::Any || source != Source::Project
}

fn merged(below: &Map<String, Value>, above: &Map<String, Value>) -> Map<String, Value> {
    let mut all = below.clone();
    all.extend(
        above
            .iter()
            .map(|(name, value)| (name.clone(), value.clone())),
    );
    all
}

fn in_key(key: Option<&str>) -> String {
    key.map(|key| format!("setting `{key}` in "))
        .unwrap_or_default()
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "the defaults",
            Self::Global => "the global settings",
            Self::Project => "the project settings",
            Self::Environment => "the environment",
            Self::Flag => "the command line",
        })
    }
}

/// Whether `layer` replaces what leads to `key` without saying anything of `key`: its parent
/// stands below the first level.
fn is_replaced(layer: &Value, key: &str) -> bool {
    let mut parts = key.rsplitn(2, '.');
    let parent = parts.nth(1).unwrap_or_default();
    parent.contains('.') && matches!(lookup(layer, parent), Ok(Some(value)) if value.is_object())
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
        assert_eq!(settings.source(key::DEFAULT_MODEL), Some(Source::Project));
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
                value.is_null() || def.kind.problem(&value).is_none(),
                "{}",
                def.key
            );
            assert!(keys.insert(def.key), "{}", def.key);
            assert!(def.doc.ends_with('.'), "{}", def.key);
        }
    }
}
