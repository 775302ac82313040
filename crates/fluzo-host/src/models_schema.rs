//! What `models.json` may hold. Findings name path and expected kind and never the value,
//! which may be a secret in the wrong place.

use fluzo_catalogue::dialect;
use fluzo_llm::ThinkingLevel;
use fluzo_stdx::similar;
use serde_json::{Map, Value};

/// Something in the file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Keys and indices from the root of the file.
    pub(crate) path: Vec<String>,
    /// What is wrong, without the value.
    pub(crate) message: String,
    /// Whether the part that holds it cannot be used; otherwise only this is passed over.
    pub(crate) fatal: bool,
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
    /// The id of a dialect.
    Api,
    Models,
    /// Parts of models by id.
    Overrides,
}

const PROVIDER: &[(&str, Kind)] = &[
    ("name", Kind::Text),
    ("baseUrl", Kind::Text),
    ("apiKey", Kind::Text),
    ("api", Kind::Api),
    ("headers", Kind::Texts),
    ("authHeader", Kind::Flag),
    ("compat", Kind::Object),
    ("models", Kind::Models),
    ("modelOverrides", Kind::Overrides),
];

const MODEL: &[(&str, Kind)] = &[
    ("id", Kind::Text),
    ("api", Kind::Api),
    ("baseUrl", Kind::Text),
    ("name", Kind::Text),
    ("reasoning", Kind::Flag),
    ("thinkingLevelMap", Kind::Levels),
    ("input", Kind::Inputs),
    ("cost", Kind::Numbers),
    ("contextWindow", Kind::Number),
    ("maxTokens", Kind::Number),
    ("headers", Kind::Texts),
    ("compat", Kind::Object),
];

/// The fields of a model that say which one it is; an override has the others.
const IDENTITY: usize = 3;

/// The names that the file may use for what it holds.
pub(crate) fn field_names() -> impl Iterator<Item = &'static str> {
    let fields = PROVIDER.iter().chain(MODEL).map(|(name, _)| *name);
    fields.chain(["providers"])
}

/// The providers of a file by name, or why there are none.
pub(crate) fn providers(root: &Value) -> Result<&Map<String, Value>, Finding> {
    let finding = |path: &[&str], message: &str| Finding {
        path: path.iter().map(|part| (*part).to_owned()).collect(),
        message: message.to_owned(),
        fatal: true,
    };
    let Some(root) = root.as_object() else {
        return Err(finding(&[], "must be object"));
    };
    match root.get("providers") {
        Some(Value::Object(providers)) => Ok(providers),
        Some(_) => Err(finding(&["providers"], "must be object")),
        None => Err(finding(&[], "must have required properties providers")),
    }
}

/// What is wrong with the provider `name`.
pub(crate) fn provider(name: &str, value: &Value) -> Vec<Finding> {
    let mut check = Check {
        path: vec!["providers".to_owned(), name.to_owned()],
        findings: Vec::new(),
    };
    check.object(value, PROVIDER);
    check.findings
}

/// Takes the models and overrides out of a provider that cannot be used, and says whether
/// what is left can be.
pub(crate) fn usable_part(value: &Value, findings: &[Finding]) -> Option<Value> {
    let mut value = value.clone();
    // From the last on, so that indices stay those of the file.
    for finding in findings.iter().rev().filter(|finding| finding.fatal) {
        let part = finding.path.get(2).map(String::as_str);
        let key = finding.path.get(3)?;
        match (part, value.get_mut(part.unwrap_or_default())) {
            (Some("models"), Some(Value::Array(models))) => {
                let index = key.parse::<usize>().ok()?;
                if let Some(model) = models.get_mut(index) {
                    *model = Value::Null;
                }
            }
            (Some("modelOverrides"), Some(Value::Object(overrides))) => {
                overrides.shift_remove(key);
            }
            _ => return None,
        }
    }
    if let Some(models) = value.get_mut("models").and_then(Value::as_array_mut) {
        models.retain(|model| !model.is_null());
    }
    Some(value)
}

struct Check {
    path: Vec<String>,
    findings: Vec<Finding>,
}

impl Check {
    fn object(&mut self, value: &Value, fields: &[(&str, Kind)]) {
        let Some(object) = value.as_object() else {
            return self.expected("object");
        };
        for (key, value) in object {
            let field = fields.iter().find(|(name, _)| name == key);
            self.at(key, |check| match field {
                Some((_, kind)) => check.field(value, *kind),
                None => check.unknown(key, fields),
            });
        }
    }

    fn field(&mut self, value: &Value, kind: Kind) {
        match kind {
            Kind::Text => self.must(value.is_string(), "string"),
            Kind::Flag => self.must(value.is_boolean(), "boolean"),
            Kind::Number => self.must(value.is_number(), "number"),
            Kind::Object => self.must(value.is_object(), "object"),
            Kind::Texts => self.each(value, |check, _, value| {
                check.must(value.is_string(), "string");
            }),
            Kind::Numbers => self.each(value, |check, _, value| {
                check.must(value.is_number(), "number");
            }),
            Kind::Levels => self.each(value, Self::level),
            Kind::Inputs => self.list(value, |check, value| {
                let known = matches!(value.as_str(), Some("text" | "image"));
                check.must(known, "\"text\" or \"image\"");
            }),
            Kind::Api => self.api(value),
            Kind::Models => self.list(value, Self::model),
            Kind::Overrides => self.each(value, |check, _, value| {
                check.object(value, &MODEL[IDENTITY..]);
            }),
        }
    }

    fn model(&mut self, value: &Value) {
        if value.is_object() && value.get("id").is_none() {
            self.at("id", |check| {
                check.error("must have required properties id".to_owned());
            });
        }
        self.object(value, MODEL);
    }

    fn level(&mut self, name: &str, value: &Value) {
        if ThinkingLevel::parse(name).is_none() {
            let names = ThinkingLevel::ALL.map(ThinkingLevel::as_str).join(", ");
            return self.error(format!("no thinking level (there are {names})"));
        }
        self.must(value.is_string() || value.is_null(), "string or null");
    }

    /// A dialect that is not spoken is a finding, and an error only when it is used.
    fn api(&mut self, value: &Value) {
        let Some(name) = value.as_str() else {
            return self.expected("string");
        };
        if !dialect::ALL.contains(&name) {
            let meant = did_you_mean(name, dialect::ALL.into_iter());
            let known = dialect::ALL.join(", ");
            self.pass_over(format!("unknown api{meant} (there are {known})"));
        }
    }

    fn unknown(&mut self, key: &str, fields: &[(&str, Kind)]) {
        let meant = did_you_mean(key, fields.iter().map(|(name, _)| *name));
        self.pass_over(format!("unknown property{meant}"));
    }

    fn each(&mut self, value: &Value, check: impl Fn(&mut Self, &str, &Value)) {
        let Some(object) = value.as_object() else {
            return self.expected("object");
        };
        for (key, value) in object {
            self.at(key, |all| check(all, key, value));
        }
    }

    fn list(&mut self, value: &Value, check: impl Fn(&mut Self, &Value)) {
        let Some(list) = value.as_array() else {
            return self.expected("array");
        };
        for (index, value) in list.iter().enumerate() {
            self.at(&index.to_string(), |all| check(all, value));
        }
    }

    fn at(&mut self, key: &str, check: impl FnOnce(&mut Self)) {
        self.path.push(key.to_owned());
        check(self);
        self.path.pop();
    }

    fn must(&mut self, holds: bool, what: &str) {
        if !holds {
            self.expected(what);
        }
    }

    fn expected(&mut self, what: &str) {
        self.error(format!("must be {what}"));
    }

    fn error(&mut self, message: String) {
        self.push(message, true);
    }

    fn pass_over(&mut self, message: String) {
        self.push(message, false);
    }

    fn push(&mut self, message: String, fatal: bool) {
        let path = self.path.clone();
        self.findings.push(Finding {
            path,
            message,
            fatal,
        });
    }
}

/// `, did you mean "x"?` when there is something close.
fn did_you_mean<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> String {
    let close = similar::close(word, names);
    let first = close.first();
    first.map_or_else(String::new, |name| format!(", did you mean \"{name}\"?"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lines(findings: &[Finding], fatal: bool) -> Vec<String> {
        let wanted = findings.iter().filter(|finding| finding.fatal == fatal);
        wanted
            .map(|f| format!("{}: {}", f.path[2..].join("."), f.message))
            .collect()
    }

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
                 "maxTokens": [], "headers": {"X": [planted]}, "compat": 1, "wrong": planted,
                 "api": planted},
            ],
            "modelOverrides": {"x": planted, "y": {"id": planted, "cost": {"output": planted}}},
            "other": planted, "modles": planted,
        });
        let findings = provider("p", &value);
        assert_eq!(
            lines(&findings, true),
            [
                "name: must be string",
                "baseUrl: must be string",
                "apiKey: must be string",
                "api: must be string",
                "headers: must be object",
                "authHeader: must be boolean",
                "compat: must be object",
                "models.0: must be object",
                "models.1.id: must have required properties id",
                "models.1.name: must be string",
                "models.2.id: must be string",
                "models.2.reasoning: must be boolean",
                "models.2.thinkingLevelMap.low: must be string or null",
                "models.2.thinkingLevelMap.huge: no thinking level (there are off, minimal, low, medium, high, xhigh)",
                "models.2.input.0: must be \"text\" or \"image\"",
                "models.2.cost.input: must be number",
                "models.2.contextWindow: must be number",
                "models.2.maxTokens: must be number",
                "models.2.headers.X: must be string",
                "models.2.compat: must be object",
                "modelOverrides.x: must be object",
                "modelOverrides.y.cost.output: must be number",
            ]
        );
        let passed_over = lines(&findings, false);
        assert_eq!(passed_over[0], "models.2.wrong: unknown property");
        assert!(passed_over[1].starts_with("models.2.api: unknown api (there are "));
        assert_eq!(
            passed_over[2..],
            [
                "modelOverrides.y.id: unknown property",
                "other: unknown property",
                "modles: unknown property, did you mean \"models\"?",
            ]
        );
        assert!(!format!("{findings:?}").contains("sk-planted"));
    }

    #[test]
    fn a_dialect_that_was_perhaps_meant_is_named() {
        let findings = provider("p", &json!({"api": "openai-completion"}));
        let line = &lines(&findings, false)[0];
        assert!(
            line.contains("did you mean \"openai-completions\"?"),
            "{line}"
        );
    }

    #[test]
    fn the_root_holds_providers() {
        let rows = [
            (json!([]), "", "must be object"),
            (json!({}), "", "must have required properties providers"),
            (json!({"providers": "sk-x"}), "providers", "must be object"),
        ];
        for (value, path, message) in rows {
            let finding = providers(&value).unwrap_err();
            assert_eq!(
                (finding.path.join(".").as_str(), finding.message.as_str()),
                (path, message)
            );
        }
    }

    #[test]
    fn what_is_left_of_a_provider_can_be_used() {
        let value = json!({
            "baseUrl": "u",
            "models": [{"id": 1}, {"id": "a"}, 5, {"id": "b"}],
            "modelOverrides": {"x": {"reasoning": 1}, "y": {"reasoning": true}},
        });
        let left = usable_part(&value, &provider("p", &value)).unwrap();
        let expected = json!({
            "baseUrl": "u",
            "models": [{"id": "a"}, {"id": "b"}],
            "modelOverrides": {"y": {"reasoning": true}},
        });
        assert_eq!(left, expected);
        for whole in [
            json!({"baseUrl": 5}),
            json!({"models": 5}),
            json!({"headers": {"X": 5}}),
            json!(5),
        ] {
            assert_eq!(usable_part(&whole, &provider("p", &whole)), None, "{whole}");
        }
    }
}
