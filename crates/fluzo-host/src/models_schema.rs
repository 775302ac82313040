//! What `models.json` may hold. Findings name path and expected kind and never the value,
//! which may be a secret in the wrong place.

use fluzo_llm::ThinkingLevel;
use serde_json::{Map, Value};

/// What is wrong with a part of the file.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Lines `path: message`; the part cannot be used.
    pub(crate) errors: Vec<String>,
    /// Lines `path: message`; the part counts, this in it does not.
    pub(crate) ignored: Vec<String>,
}

#[derive(Clone, Copy)]
enum Kind {
    Text,
    Flag,
    Number,
    Object,
    /// Texts by name.
    Texts,
    /// Numbers by name.
    Numbers,
    /// Text or null by thinking level.
    Levels,
    /// `text` and `image`.
    Inputs,
    Models,
    /// Known to the reference and not to this version.
    Unsupported,
}

const PROVIDER: &[(&str, Kind)] = &[
    ("name", Kind::Text),
    ("baseUrl", Kind::Text),
    ("apiKey", Kind::Text),
    ("api", Kind::Text),
    ("headers", Kind::Texts),
    ("authHeader", Kind::Flag),
    ("compat", Kind::Object),
    ("models", Kind::Models),
    ("modelOverrides", Kind::Unsupported),
];

const MODEL: &[(&str, Kind)] = &[
    ("id", Kind::Text),
    ("name", Kind::Text),
    ("api", Kind::Text),
    ("baseUrl", Kind::Text),
    ("reasoning", Kind::Flag),
    ("thinkingLevelMap", Kind::Levels),
    ("input", Kind::Inputs),
    ("cost", Kind::Numbers),
    ("contextWindow", Kind::Number),
    ("maxTokens", Kind::Number),
    ("headers", Kind::Texts),
    ("compat", Kind::Object),
];

/// The providers of a file by name, or why there are none.
pub(crate) fn providers(root: &Value) -> Result<&Map<String, Value>, String> {
    let root = root.as_object().ok_or("root: must be object")?;
    match root.get("providers") {
        Some(Value::Object(providers)) => Ok(providers),
        Some(_) => Err("providers: must be object".to_owned()),
        None => Err("root: must have required properties providers".to_owned()),
    }
}

/// What is wrong with the provider `name`.
pub(crate) fn provider(name: &str, value: &Value) -> Findings {
    let mut findings = Findings::default();
    findings.object(&format!("providers.{name}"), value, PROVIDER);
    findings
}

impl Findings {
    fn object(&mut self, path: &str, value: &Value, fields: &[(&str, Kind)]) {
        let Some(object) = value.as_object() else {
            return self.expected(path, "object");
        };
        for (key, value) in object {
            let path = format!("{path}.{key}");
            match fields.iter().find(|(name, _)| name == key) {
                Some((_, kind)) => self.field(&path, value, *kind),
                None => self.ignored.push(format!("{path}: unknown property")),
            }
        }
    }

    fn field(&mut self, path: &str, value: &Value, kind: Kind) {
        match kind {
            Kind::Text => self.must(value.is_string(), path, "string"),
            Kind::Flag => self.must(value.is_boolean(), path, "boolean"),
            Kind::Number => self.must(value.is_number(), path, "number"),
            Kind::Object => self.must(value.is_object(), path, "object"),
            Kind::Texts => self.each(path, value, |all, path, value| {
                all.must(value.is_string(), path, "string");
            }),
            Kind::Numbers => self.each(path, value, |all, path, value| {
                all.must(value.is_number(), path, "number");
            }),
            Kind::Levels => self.each(path, value, Self::level),
            Kind::Inputs => self.list(path, value, |all, path, value| {
                let known = matches!(value.as_str(), Some("text" | "image"));
                all.must(known, path, "\"text\" or \"image\"");
            }),
            Kind::Models => self.list(path, value, Self::model),
            Kind::Unsupported => self
                .ignored
                .push(format!("{path}: not supported in this version")),
        }
    }

    fn model(&mut self, path: &str, value: &Value) {
        if value.is_object() && value.get("id").is_none() {
            let message = format!("{path}: must have required properties id");
            self.errors.push(message);
        }
        self.object(path, value, MODEL);
    }

    fn level(&mut self, path: &str, value: &Value) {
        let name = path.rsplit('.').next().unwrap_or_default();
        if ThinkingLevel::parse(name).is_none() {
            return self.errors.push(format!("{path}: no thinking level"));
        }
        self.must(value.is_string() || value.is_null(), path, "string or null");
    }

    fn each(&mut self, path: &str, value: &Value, check: impl Fn(&mut Self, &str, &Value)) {
        let Some(object) = value.as_object() else {
            return self.expected(path, "object");
        };
        for (key, value) in object {
            check(self, &format!("{path}.{key}"), value);
        }
    }

    fn list(&mut self, path: &str, value: &Value, check: impl Fn(&mut Self, &str, &Value)) {
        let Some(list) = value.as_array() else {
            return self.expected(path, "array");
        };
        for (index, value) in list.iter().enumerate() {
            check(self, &format!("{path}.{index}"), value);
        }
    }

    fn must(&mut self, holds: bool, path: &str, what: &str) {
        if !holds {
            self.expected(path, what);
        }
    }

    fn expected(&mut self, path: &str, what: &str) {
        self.errors.push(format!("{path}: must be {what}"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_field_says_what_it_must_be_and_never_what_it_is() {
        let planted = "Bearer sk-planted";
        let value = json!({
            "name": [planted], "baseUrl": 5, "apiKey": {"key": planted}, "api": [planted],
            "headers": planted, "authHeader": planted, "compat": planted,
            "models": [
                planted,
                {"name": [planted]},
                {"id": 7, "reasoning": planted, "thinkingLevelMap": {"low": 1, "huge": planted},
                 "input": [planted], "cost": {"input": planted}, "contextWindow": planted,
                 "maxTokens": [], "headers": {"X": [planted]}, "compat": 1, "wrong": planted},
            ],
            "modelOverrides": {"x": planted}, "other": planted,
        });
        let findings = provider("p", &value);
        let expected = [
            "name: must be string",
            "baseUrl: must be string",
            "apiKey: must be string",
            "api: must be string",
            "headers: must be object",
            "authHeader: must be boolean",
            "compat: must be object",
            "models.0: must be object",
            "models.1: must have required properties id",
            "models.1.name: must be string",
            "models.2.id: must be string",
            "models.2.reasoning: must be boolean",
            "models.2.thinkingLevelMap.low: must be string or null",
            "models.2.thinkingLevelMap.huge: no thinking level",
            "models.2.input.0: must be \"text\" or \"image\"",
            "models.2.cost.input: must be number",
            "models.2.contextWindow: must be number",
            "models.2.maxTokens: must be number",
            "models.2.headers.X: must be string",
            "models.2.compat: must be object",
        ];
        assert_eq!(
            findings.errors,
            expected.map(|e| format!("providers.p.{e}"))
        );
        let ignored = [
            "models.2.wrong: unknown property",
            "modelOverrides: not supported in this version",
            "other: unknown property",
        ];
        assert_eq!(
            findings.ignored,
            ignored.map(|e| format!("providers.p.{e}"))
        );
    }

    #[test]
    fn the_root_holds_providers() {
        let rows = [
            (json!([]), "root: must be object"),
            (json!({}), "root: must have required properties providers"),
            (json!({"providers": "sk-x"}), "providers: must be object"),
        ];
        for (value, error) in rows {
            assert_eq!(providers(&value).unwrap_err(), error);
        }
    }
}
