//! Rules for a chat request around its history: the body's form, parameters, tools.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::http::Incoming;
use crate::verdict::{Violation, ViolationKind};

/// Reads the body, or says why it is not acceptable JSON.
pub(crate) fn parse_body(request: &Incoming) -> Result<Value, Violation> {
    let bad = |what: String| Err(Violation::new(ViolationKind::BodyNotJson, what));
    let media = request
        .header("content-type")
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim();
    if !media.eq_ignore_ascii_case("application/json") {
        return bad(format!("`content-type` is `{media}`, not application/json"));
    }
    let body: Value = match serde_json::from_slice(&request.raw) {
        Ok(body @ Value::Object(_)) => body,
        Ok(_) => return bad("the body is JSON, but no object".to_owned()),
        Err(error) => return bad(format!("the body is not JSON: {error}")),
    };
    // The text is known to be JSON here, so that the only error left is a repeated key.
    match serde_json::from_slice::<UniqueKeys>(&request.raw) {
        Ok(_) => Ok(body),
        Err(error) => Err(Violation::new(
            ViolationKind::DuplicateKey,
            error.to_string(),
        )),
    }
}

/// Checks everything but the history and the model.
pub(crate) fn check_parameters(body: &Value) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut rule = |holds: bool, what: &str| {
        if !holds {
            found.push(Violation::new(ViolationKind::InvalidParameter, what));
        }
    };
    let is = |key: &str, test: fn(&Value) -> bool| body.get(key).is_none_or(test);
    let positive = |value: &Value| value.as_u64().is_some_and(|number| number > 0);
    let streams = body.get("stream") == Some(&Value::Bool(true));
    rule(
        is("stream", Value::is_boolean),
        "`stream` is neither true nor false",
    );
    rule(
        streams || body.get("stream_options").is_none(),
        "`stream_options` without `stream: true`",
    );
    rule(
        is("stream_options", Value::is_object),
        "`stream_options` is no object",
    );
    let both = body.get("max_tokens").is_some() && body.get("max_completion_tokens").is_some();
    rule(!both, "both `max_tokens` and `max_completion_tokens`");
    rule(
        is("max_tokens", positive),
        "`max_tokens` is no positive integer",
    );
    rule(
        is("max_completion_tokens", positive),
        "`max_completion_tokens` is no positive integer",
    );
    rule(is("n", |value| value.as_u64() == Some(1)), "`n` is not 1");
    rule(
        is("temperature", |value| {
            value
                .as_f64()
                .is_some_and(|number| (0.0..=2.0).contains(&number))
        }),
        "`temperature` is not within 0 and 2",
    );
    let offers = body
        .get("tools")
        .and_then(Value::as_array)
        .is_some_and(|tools| !tools.is_empty());
    rule(
        offers || body.get("tool_choice").is_none(),
        "`tool_choice` without tools",
    );
    rule(
        offers || body.get("parallel_tool_calls").is_none(),
        "`parallel_tool_calls` without tools",
    );
    found.extend(check_tools(body));
    found
}

fn check_tools(body: &Value) -> Vec<Violation> {
    let bad = |what: String| Violation::new(ViolationKind::InvalidTools, what);
    let Some(tools) = body.get("tools") else {
        return Vec::new();
    };
    let Some(tools) = tools.as_array() else {
        return vec![bad("`tools` is no list".to_owned())];
    };
    let mut names = BTreeSet::new();
    let mut found = Vec::new();
    for (index, tool) in tools.iter().enumerate() {
        if tool.get("type").and_then(Value::as_str) != Some("function") {
            found.push(bad(format!("tools[{index}]: `type` is not \"function\"")));
        }
        let name = tool
            .pointer("/function/name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let plain = (1..=64).contains(&name.len())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        if !plain {
            found.push(bad(format!(
                "tools[{index}]: `{name}` is no name of 1 to 64 letters, digits, `_` and `-`"
            )));
        }
        if !names.insert(name) {
            found.push(bad(format!("tools[{index}]: a second tool `{name}`")));
        }
        let schema = tool.pointer("/function/parameters");
        if schema.is_some_and(|schema| schema.get("type").and_then(Value::as_str) != Some("object"))
        {
            found.push(bad(format!(
                "tools[{index}]: `parameters` is no schema of an object"
            )));
        }
    }
    found
}

/// Any JSON value in which no object names a key twice.
struct UniqueKeys;

impl<'de> Deserialize<'de> for UniqueKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor)
    }
}

struct UniqueVisitor;

impl<'de> DeserializeSeed<'de> for UniqueVisitor {
    type Value = UniqueKeys;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<UniqueKeys, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = UniqueKeys;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<UniqueKeys, A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(key) = map.next_key::<String>()? {
            map.next_value_seed(Self)?;
            if seen.contains(&key) {
                return Err(A::Error::custom(format_args!(
                    "the key `{key}` occurs twice in one object"
                )));
            }
            seen.insert(key);
        }
        Ok(UniqueKeys)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<UniqueKeys, A::Error> {
        while seq.next_element_seed(Self)?.is_some() {}
        Ok(UniqueKeys)
    }

    fn visit_bool<E>(self, _: bool) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_i64<E>(self, _: i64) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_u64<E>(self, _: u64) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_f64<E>(self, _: f64) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_str<E>(self, _: &str) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_unit<E>(self) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_body(content_type: &str, raw: &str, expected: Option<ViolationKind>) {
        let headers = vec![("content-type".to_owned(), content_type.to_owned())];
        let request = Incoming {
            method: "POST".to_owned(),
            path: "/".to_owned(),
            headers,
            raw: raw.as_bytes().to_vec(),
        };
        assert_eq!(
            parse_body(&request).err().map(|violation| violation.kind),
            expected,
            "{content_type} {raw}"
        );
    }

    #[test]
    fn bodies_are_json_objects_without_repeated_keys() {
        use ViolationKind::{BodyNotJson, DuplicateKey};
        check_body(
            "application/json",
            r#"{"a":1,"b":[{"a":null},{"a":1.5}]}"#,
            None,
        );
        check_body("Application/JSON; charset=utf-8", "{}", None);
        check_body("text/plain", "{}", Some(BodyNotJson));
        check_body("application/json", "[]", Some(BodyNotJson));
        check_body("application/json", "{", Some(BodyNotJson));
        check_body("application/json", "", Some(BodyNotJson));
        check_body(
            "application/json",
            r#"{"stream":true,"stream":false}"#,
            Some(DuplicateKey),
        );
        check_body(
            "application/json",
            r#"{"a":[{"b":{"c":1,"c":1}}]}"#,
            Some(DuplicateKey),
        );
    }

    fn check_request(body: &str, expected: &[ViolationKind]) {
        let body: Value = serde_json::from_str(body).unwrap();
        let found: Vec<_> = check_parameters(&body)
            .iter()
            .map(|violation| violation.kind)
            .collect();
        assert_eq!(found, expected, "{body}");
    }

    #[test]
    fn parameters_that_strict_servers_refuse() {
        use ViolationKind::{InvalidParameter, InvalidTools};
        check_request(
            r#"{"stream":true,"stream_options":{"include_usage":true},"max_tokens":5,"temperature":0}"#,
            &[],
        );
        check_request(r#"{"tools":[]}"#, &[]);
        check_request(
            r#"{"tools":[{"type":"function","function":{"name":"a"}}],"tool_choice":"auto"}"#,
            &[],
        );
        check_request(r#"{"stream":"true"}"#, &[InvalidParameter]);
        check_request(r#"{"stream_options":{}}"#, &[InvalidParameter]);
        check_request(
            r#"{"stream":true,"stream_options":true}"#,
            &[InvalidParameter],
        );
        check_request(
            r#"{"max_tokens":1,"max_completion_tokens":1}"#,
            &[InvalidParameter],
        );
        check_request(r#"{"max_tokens":0}"#, &[InvalidParameter]);
        check_request(r#"{"max_completion_tokens":-1}"#, &[InvalidParameter]);
        check_request(r#"{"n":2}"#, &[InvalidParameter]);
        check_request(r#"{"temperature":3}"#, &[InvalidParameter]);
        check_request(r#"{"tool_choice":"auto"}"#, &[InvalidParameter]);
        check_request(
            r#"{"tools":[],"parallel_tool_calls":true}"#,
            &[InvalidParameter],
        );
        check_request(r#"{"tools":{}}"#, &[InvalidTools]);
        check_request(r#"{"tools":[{"function":{"name":"a"}}]}"#, &[InvalidTools]);
        check_request(
            r#"{"tools":[{"type":"function","function":{"name":"a b"}}]}"#,
            &[InvalidTools],
        );
        check_request(r#"{"tools":[{"type":"function"}]}"#, &[InvalidTools]);
        check_request(
            r#"{"tools":[{"type":"function","function":{"name":"a","parameters":{"type":"string"}}}]}"#,
            &[InvalidTools],
        );
        let twice = r#"{"type":"function","function":{"name":"a"}}"#;
        check_request(
            &format!(r#"{{"tools":[{twice},{twice}]}}"#),
            &[InvalidTools],
        );
    }
}
