//! Whether a request is the one that a step expects.

use serde_json::Value;

use crate::http::Incoming;
use crate::scenario::{HeaderCheck, RequestExpectation};

/// Lists every condition that the request does not meet.
pub(crate) fn unmet(expect: &RequestExpectation, request: &Incoming, body: &Value) -> Vec<String> {
    let mut unmet = Vec::new();
    let mut rule = |holds: bool, what: String| {
        if !holds {
            unmet.push(what);
        }
    };
    if let Some(model) = &expect.model {
        rule(
            body.get("model").and_then(Value::as_str) == Some(model),
            format!("the model is not `{model}`"),
        );
    }
    if let Some(stream) = expect.stream {
        let found = body.get("stream").and_then(Value::as_bool).unwrap_or(false);
        rule(found == stream, format!("`stream` is {found}"));
    }
    if let Some(text) = &expect.system_contains {
        rule(
            last_text(body, &["system", "developer"]).contains(text),
            format!("the system message does not contain `{text}`"),
        );
    }
    if let Some(text) = &expect.last_user_contains {
        rule(
            last_text(body, &["user"]).contains(text),
            format!("the last user message does not contain `{text}`"),
        );
    }
    let results = fresh_results(body);
    for text in &expect.tool_result_contains {
        let holds = results.iter().any(|result| result.contains(text));
        rule(
            holds,
            format!(
                "none of the {} new tool results contains `{text}`",
                results.len()
            ),
        );
    }
    for text in &expect.tool_result_lacks {
        rule(
            !results.iter().any(|result| result.contains(text)),
            format!("a new tool result contains `{text}`"),
        );
    }
    let tools = tool_names(body);
    for tool in &expect.tools {
        rule(
            tools.contains(&tool.as_str()),
            format!("tool `{tool}` is not offered"),
        );
    }
    if let Some(exact) = &expect.exact_tools {
        rule(tools == *exact, format!("the offered tools are {tools:?}"));
    }
    for (pointer, value) in &expect.body {
        let found = body.pointer(pointer);
        rule(
            found == Some(value),
            format!(
                "`{pointer}` is {} instead of {value}",
                found.map_or("absent".to_owned(), Value::to_string)
            ),
        );
    }
    for pointer in &expect.body_lacks {
        rule(
            body.pointer(pointer).is_none(),
            format!("`{pointer}` exists"),
        );
    }
    if let Some(limit) = expect.max_body_bytes {
        rule(
            request.raw.len() <= limit,
            format!(
                "the body has {} bytes, more than {limit}",
                request.raw.len()
            ),
        );
    }
    for (name, check) in &expect.headers {
        rule(
            header_holds(request, name, check),
            format!("header `{name}` is not as expected: {}", check.describe()),
        );
    }
    unmet
}

impl HeaderCheck {
    fn describe(&self) -> String {
        match self {
            Self::Equals(value) => format!("equal to `{value}`"),
            Self::Contains(value) => format!("containing `{value}`"),
            Self::Present => "present".to_owned(),
            Self::Absent => "absent".to_owned(),
        }
    }
}

fn header_holds(request: &Incoming, name: &str, check: &HeaderCheck) -> bool {
    let values: Vec<&str> = request
        .headers
        .iter()
        .filter(|(key, _)| key.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.as_str())
        .collect();
    match check {
        HeaderCheck::Equals(expected) => values == [expected],
        HeaderCheck::Contains(part) => values.iter().any(|value| value.contains(part)),
        HeaderCheck::Present => !values.is_empty(),
        HeaderCheck::Absent => values.is_empty(),
    }
}

fn messages(body: &Value) -> &[Value] {
    body.get("messages")
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn role(message: &Value) -> &str {
    message
        .get("role")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The text of a message, its text parts joined by line ends.
fn text(message: &Value) -> String {
    match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts: Vec<&str> = parts
                .iter()
                .filter_map(|part| part.get("text").and_then(Value::as_str))
                .collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

fn last_text(body: &Value, roles: &[&str]) -> String {
    messages(body)
        .iter()
        .rev()
        .find(|message| roles.contains(&role(message)))
        .map(text)
        .unwrap_or_default()
}

/// Results that the model has not answered yet.
fn fresh_results(body: &Value) -> Vec<String> {
    let fresh = messages(body)
        .iter()
        .rev()
        .take_while(|message| role(message) != "assistant");
    fresh
        .filter(|message| role(message) == "tool")
        .map(text)
        .collect()
}

fn tool_names(body: &Value) -> Vec<&str> {
    let tools = body.get("tools").and_then(Value::as_array);
    tools
        .into_iter()
        .flatten()
        .filter_map(|tool| tool.pointer("/function/name").and_then(Value::as_str))
        .collect()
}
