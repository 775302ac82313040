//! Tool arguments against their schema: the reference's coercions, then its messages.
//!
//! Covers the part of JSON Schema that tools use: `type`, `properties`, `required`,
//! `items`, `enum` and boolean `additionalProperties`. Any other rule makes every call
//! fail with its name, rather than being passed over.

use serde_json::{Map, Value};

/// Keywords that only describe.
const ANNOTATIONS: [&str; 5] = ["description", "title", "default", "examples", "$schema"];

/// Keywords that are checked.
const CHECKED: [&str; 6] = [
    "type",
    "properties",
    "required",
    "items",
    "enum",
    "additionalProperties",
];

/// Coerces `arguments` into the types that `schema` asks for, then validates them.
///
/// # Errors
///
/// The text for the model: every problem with its path, then what was received.
pub fn validate(tool: &str, schema: &Value, arguments: Value) -> Result<Value, String> {
    let received = arguments.clone();
    let mut coerced = arguments;
    coerce(schema, &mut coerced);
    let mut problems = Vec::new();
    check(schema, &coerced, "", &mut problems);
    if problems.is_empty() {
        return Ok(coerced);
    }
    let lines: String = problems.iter().map(|p| format!("  - {p}\n")).collect();
    let shown = serde_json::to_string_pretty(&received).unwrap_or_default();
    Err(format!(
        "Validation failed for tool \"{tool}\":\n{lines}\nReceived arguments:\n{shown}"
    ))
}

fn kind(schema: &Value) -> Option<&str> {
    schema.get("type").and_then(Value::as_str)
}

fn coerce(schema: &Value, value: &mut Value) {
    match kind(schema) {
        Some("string") => coerce_string(value),
        Some("number" | "integer") => coerce_number(value),
        Some("boolean") => coerce_boolean(value),
        Some("array") => coerce_array(schema, value),
        Some("object") => coerce_object(schema, value),
        _ => {}
    }
}

fn coerce_string(value: &mut Value) {
    match value {
        Value::Number(n) => *value = Value::String(n.to_string()),
        Value::Bool(b) => *value = Value::String(b.to_string()),
        Value::Null => *value = Value::String("null".into()),
        _ => {}
    }
}

fn coerce_number(value: &mut Value) {
    match value {
        Value::Bool(b) => *value = Value::from(u8::from(*b)),
        Value::String(text) => {
            if let Some(number) = number_of(text) {
                *value = number;
            }
        }
        _ => {}
    }
}

fn number_of(text: &str) -> Option<Value> {
    let text = text.trim();
    if let Ok(whole) = text.parse::<i64>() {
        return Some(Value::from(whole));
    }
    let number: f64 = text.parse().ok()?;
    let plain = text
        .bytes()
        .all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
    if plain {
        serde_json::Number::from_f64(number).map(Value::Number)
    } else {
        None
    }
}

fn coerce_boolean(value: &mut Value) {
    let truth = match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(n) if n.as_f64() == Some(0.0) => Some(false),
        Value::Number(n) if n.as_f64() == Some(1.0) => Some(true),
        _ => None,
    };
    if let Some(truth) = truth {
        *value = Value::Bool(truth);
    }
}

fn coerce_array(schema: &Value, value: &mut Value) {
    if !value.is_array() {
        *value = Value::Array(vec![value.take()]);
    }
    if let (Some(items), Value::Array(list)) = (schema.get("items"), value) {
        list.iter_mut().for_each(|item| coerce(items, item));
    }
}

fn coerce_object(schema: &Value, value: &mut Value) {
    let properties = schema.get("properties").and_then(Value::as_object);
    if let (Some(properties), Value::Object(map)) = (properties, value) {
        for (name, item) in map {
            if let Some(schema) = properties.get(name) {
                coerce(schema, item);
            }
        }
    }
}

fn check(schema: &Value, value: &Value, path: &str, problems: &mut Vec<String>) {
    unsupported(schema, path, problems);
    let right = match kind(schema) {
        Some("string") => value.is_string(),
        Some("number") => value.is_number(),
        Some("integer") => value.as_f64().is_some_and(|n| n.fract() == 0.0),
        Some("boolean") => value.is_boolean(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        Some("null") => value.is_null(),
        _ => true,
    };
    if !right {
        problems.push(format!(
            "{}: must be {}",
            label(path),
            kind(schema).unwrap_or_default()
        ));
        return;
    }
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
        && !allowed.contains(value)
    {
        problems.push(format!(
            "{}: must be equal to one of the allowed values",
            label(path)
        ));
    }
    match value {
        Value::Object(map) => check_object(schema, map, path, problems),
        Value::Array(list) => {
            if let Some(items) = schema.get("items") {
                for (index, item) in list.iter().enumerate() {
                    check(items, item, &join(path, &index.to_string()), problems);
                }
            }
        }
        _ => {}
    }
}

fn check_object(schema: &Value, map: &Map<String, Value>, path: &str, problems: &mut Vec<String>) {
    let properties = schema.get("properties").and_then(Value::as_object);
    let required = schema.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        if !map.contains_key(name) {
            problems.push(format!(
                "{}: must have required properties {name}",
                join(path, name)
            ));
        }
    }
    let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
    let mut surplus = false;
    for (name, item) in map {
        match properties.and_then(|p| p.get(name)) {
            Some(schema) => check(schema, item, &join(path, name), problems),
            None if closed => {
                surplus = true;
                problems.push(format!("{}: schema is false", join(path, name)));
            }
            None => {}
        }
    }
    if surplus {
        problems.push(format!(
            "{}: must not have additional properties",
            label(path)
        ));
    }
}

fn unsupported(schema: &Value, path: &str, problems: &mut Vec<String>) {
    let known =
        |key: &String| ANNOTATIONS.contains(&key.as_str()) || CHECKED.contains(&key.as_str());
    let keys = schema.as_object().into_iter().flat_map(Map::keys);
    for key in keys.filter(|key| !known(key)) {
        problems.push(format!(
            "{}: the schema uses `{key}`, which is not supported",
            label(path)
        ));
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

fn label(path: &str) -> &str {
    if path.is_empty() { "root" } else { path }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({
            "type": "object",
            "required": ["path"],
            "properties": {
                "path": {"type": "string"},
                "n": {"type": "number", "description": "how many"},
                "on": {"type": "boolean"},
                "list": {"type": "array", "items": {
                    "type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}, "additionalProperties": false
                }},
            },
        })
    }

    #[test]
    fn coercions() {
        let rows = [
            (json!({"path": 5}), json!({"path": "5"})),
            (json!({"path": true}), json!({"path": "true"})),
            (json!({"path": null}), json!({"path": "null"})),
            (json!({"path": "a", "n": "2"}), json!({"path": "a", "n": 2})),
            (
                json!({"path": "a", "n": "2.5"}),
                json!({"path": "a", "n": 2.5}),
            ),
            (
                json!({"path": "a", "n": true}),
                json!({"path": "a", "n": 1}),
            ),
            (
                json!({"path": "a", "on": "false"}),
                json!({"path": "a", "on": false}),
            ),
            (
                json!({"path": "a", "on": 1}),
                json!({"path": "a", "on": true}),
            ),
            (
                json!({"path": "a", "list": {"a": 1}}),
                json!({"path": "a", "list": [{"a": "1"}]}),
            ),
            (
                json!({"path": "a", "more": [1]}),
                json!({"path": "a", "more": [1]}),
            ),
        ];
        for (given, expected) in rows {
            assert_eq!(
                validate("t", &schema(), given.clone()).unwrap(),
                expected,
                "{given}"
            );
        }
    }

    #[test]
    fn problems() {
        let rows = [
            (json!({}), vec!["path: must have required properties path"]),
            (json!([1]), vec!["root: must be object"]),
            (json!({"path": {}}), vec!["path: must be string"]),
            (json!({"path": "a", "n": "x"}), vec!["n: must be number"]),
            (json!({"path": "a", "n": "inf"}), vec!["n: must be number"]),
            (
                json!({"path": "a", "on": "yes"}),
                vec!["on: must be boolean"],
            ),
            (
                json!({"path": "a", "list": [{"b": 1}]}),
                vec![
                    "list.0.a: must have required properties a",
                    "list.0.b: schema is false",
                    "list.0: must not have additional properties",
                ],
            ),
        ];
        for (given, expected) in rows {
            let text = validate("t", &schema(), given.clone()).unwrap_err();
            let lines: Vec<_> = text
                .lines()
                .filter_map(|line| line.strip_prefix("  - "))
                .collect();
            assert_eq!(lines, expected, "{given}");
        }
    }

    #[test]
    fn the_text_shows_what_was_received_before_coercion() {
        let text = validate("read", &schema(), json!({"n": "2"})).unwrap_err();
        assert_eq!(
            text,
            "Validation failed for tool \"read\":\n  - path: must have required properties path\n\nReceived arguments:\n{\n  \"n\": \"2\"\n}"
        );
    }

    #[test]
    fn rules_that_are_not_checked_are_named() {
        let text = validate(
            "t",
            &json!({"type": "object", "minProperties": 1}),
            json!({}),
        )
        .unwrap_err();
        assert!(
            text.contains("`minProperties`, which is not supported"),
            "{text}"
        );
    }
}
