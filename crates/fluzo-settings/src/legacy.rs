//! Forms of settings that pi once wrote: read as what they mean today, never rewritten.

use serde_json::{Map, Value};

/// Keys at the top of a file that are read in an old form or elsewhere, and are no mistake.
pub(crate) const OLD_KEYS: [&str; 3] = ["queueMode", "websockets", API_KEYS];

/// The old place of keys, which `auth.json` has taken.
pub const API_KEYS: &str = "apiKeys";

/// A layer in today's form.
#[derive(Debug, Clone, PartialEq)]
pub struct Modern {
    /// The layer with every old form replaced by the new one.
    pub layer: Value,
    /// What was replaced: the old form and the new one, each as it is written in a file.
    pub replaced: Vec<(&'static str, &'static str)>,
}

impl Modern {
    /// Reads a layer. What is in no old form, and what nobody knows, stays as it is. Where
    /// both forms are there, the new one counts.
    pub fn read(layer: &Value) -> Self {
        let mut modern = Self {
            layer: layer.clone(),
            replaced: Vec::new(),
        };
        if let Some(object) = modern.layer.as_object_mut() {
            let replaced = &mut modern.replaced;
            queue_mode(object, replaced);
            websockets(object, replaced);
            skills(object, replaced);
            max_delay(object, replaced);
        }
        modern
    }

    /// What the user should know, in one line; `file` is where the layer came from.
    pub fn warning(&self, file: &str) -> Option<String> {
        let forms = self.replaced.iter();
        let forms: Vec<String> = forms
            .map(|(old, new)| format!("`{new}` instead of `{old}`"))
            .collect();
        (!forms.is_empty()).then(|| {
            format!(
                "`{file}` has settings in an old form, which still count: write {}",
                forms.join(", ")
            )
        })
    }
}

type Replaced = Vec<(&'static str, &'static str)>;

fn queue_mode(object: &mut Map<String, Value>, replaced: &mut Replaced) {
    if let Some(mode) = object.get("queueMode").cloned() {
        object.entry("steeringMode").or_insert(mode);
        replaced.push(("queueMode", "steeringMode"));
    }
}

fn websockets(object: &mut Map<String, Value>, replaced: &mut Replaced) {
    if let Some(on) = object.get("websockets").and_then(Value::as_bool) {
        let transport = if on { "websocket" } else { "sse" };
        object.entry("transport").or_insert(transport.into());
        replaced.push(("websockets", "transport"));
    }
}

/// `skills` was an object with two settings before it became a list.
fn skills(object: &mut Map<String, Value>, replaced: &mut Replaced) {
    let Some(old) = object.get("skills").and_then(Value::as_object).cloned() else {
        return;
    };
    if let Some(enabled) = old.get("enableSkillCommands") {
        object
            .entry("enableSkillCommands")
            .or_insert(enabled.clone());
        replaced.push(("skills.enableSkillCommands", "enableSkillCommands"));
    }
    match old.get("customDirectories") {
        Some(folders) => {
            object.insert("skills".to_owned(), folders.clone());
            replaced.push(("skills.customDirectories", "skills"));
        }
        None if old.contains_key("enableSkillCommands") || old.is_empty() => {
            object.insert("skills".to_owned(), Value::Null);
        }
        None => {}
    }
}

fn max_delay(object: &mut Map<String, Value>, replaced: &mut Replaced) {
    let Some(retry) = object.get_mut("retry").and_then(Value::as_object_mut) else {
        return;
    };
    let Some(delay) = retry.get("maxDelayMs").cloned() else {
        return;
    };
    let provider = retry.entry("provider").or_insert_with(|| Map::new().into());
    if let Some(provider) = provider.as_object_mut() {
        provider.entry("maxRetryDelayMs").or_insert(delay);
    }
    replaced.push(("retry.maxDelayMs", "retry.provider.maxRetryDelayMs"));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn old_forms_are_read_as_the_new_ones() {
        let rows = [
            (json!({"queueMode": "all"}), json!({"steeringMode": "all"})),
            (
                json!({"queueMode": "all", "steeringMode": "one-at-a-time"}),
                json!({"steeringMode": "one-at-a-time"}),
            ),
            (
                json!({"websockets": true}),
                json!({"transport": "websocket"}),
            ),
            (json!({"websockets": false}), json!({"transport": "sse"})),
            (
                json!({"skills": {"enableSkillCommands": false, "customDirectories": ["~/s"]}}),
                json!({"enableSkillCommands": false, "skills": ["~/s"]}),
            ),
            (
                json!({"skills": {"enableSkillCommands": false}}),
                json!({"enableSkillCommands": false, "skills": null}),
            ),
            (
                json!({"retry": {"maxDelayMs": 9, "provider": {"maxRetries": 1}}}),
                json!({"retry": {"provider": {"maxRetryDelayMs": 9, "maxRetries": 1}}}),
            ),
            (
                json!({"retry": {"maxDelayMs": 9, "provider": {"maxRetryDelayMs": 5}}}),
                json!({"retry": {"provider": {"maxRetryDelayMs": 5}}}),
            ),
        ];
        for (old, new) in rows {
            let read = Modern::read(&old);
            for (name, value) in new.as_object().unwrap() {
                match (value.as_object(), &read.layer[name]) {
                    (Some(inner), found) => {
                        for (name, value) in inner {
                            assert_eq!(&found[name], value, "{old}");
                        }
                    }
                    (None, found) => assert_eq!(found, value, "{old}"),
                }
            }
            assert!(!read.replaced.is_empty(), "{old}");
        }
    }

    #[test]
    fn one_warning_names_every_new_form() {
        let old = json!({"queueMode": "all", "websockets": true, "retry": {"maxDelayMs": 1}});
        assert_eq!(
            Modern::read(&old).warning("/a/settings.json").unwrap(),
            "`/a/settings.json` has settings in an old form, which still count: write `steeringMode` instead of `queueMode`, `transport` instead of `websockets`, `retry.provider.maxRetryDelayMs` instead of `retry.maxDelayMs`"
        );
        for today in [
            json!({"steeringMode": "all", "skills": ["a"], "retry": {"maxRetries": 1}, "x": 1}),
            json!(["no object"]),
        ] {
            let read = Modern::read(&today);
            assert_eq!(read.layer, today);
            assert_eq!(read.warning("f"), None);
        }
    }
}
