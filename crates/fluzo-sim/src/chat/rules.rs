//! Rules for a Chat Completions request around its history: parameters and tools.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::verdict::{Violation, ViolationKind};

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

#[cfg(test)]
mod tests {
    use super::*;

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
