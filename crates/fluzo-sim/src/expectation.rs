//! Whether a request is the one that a step expects.

use serde_json::Value;

use crate::http::Incoming;
use crate::scenario::{HeaderCheck, RequestExpectation};

/// Lists every condition that the request does not meet.
pub(crate) fn unmet(expect: &RequestExpectation, request: &Incoming, body: &Value) -> Vec<String> {
    let mut unmet = Unmet(Vec::new());
    unmet.parameters(expect, body);
    unmet.messages(expect, body);
    unmet.tools(expect, body);
    if let Some(limit) = expect.max_body_bytes {
        let size = request.raw.len();
        unmet.unless(size <= limit, || {
            format!("the body has {size} bytes, more than {limit}")
        });
    }
    for (name, check) in &expect.headers {
        let holds = header_holds(request, name, check);
        unmet.unless(holds, || {
            format!("header `{name}` is not {}", check.describe())
        });
    }
    unmet.0
}

struct Unmet(Vec<String>);

impl Unmet {
    fn unless(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.0.push(what());
        }
    }

    fn parameters(&mut self, expect: &RequestExpectation, body: &Value) {
        if let Some(model) = &expect.model {
            let holds = body.get("model").and_then(Value::as_str) == Some(model);
            self.unless(holds, || format!("the model is not `{model}`"));
        }
        if let Some(stream) = expect.stream {
            let found = body.get("stream").and_then(Value::as_bool).unwrap_or(false);
            self.unless(found == stream, || format!("`stream` is {found}"));
        }
        for (pointer, value) in &expect.body {
            let found = body.pointer(pointer);
            let shown = || found.map_or("absent".to_owned(), Value::to_string);
            self.unless(found == Some(value), || {
                format!("`{pointer}` is {} instead of {value}", shown())
            });
        }
        for pointer in &expect.body_lacks {
            self.unless(body.pointer(pointer).is_none(), || {
                format!("`{pointer}` exists")
            });
        }
    }

    fn messages(&mut self, expect: &RequestExpectation, body: &Value) {
        if let Some(text) = &expect.system_contains {
            let holds = last_text(body, &["system", "developer"]).contains(text);
            self.unless(holds, || {
                format!("the system message does not contain `{text}`")
            });
        }
        if let Some(text) = &expect.last_user_contains {
            let holds = last_text(body, &["user"]).contains(text);
            self.unless(holds, || {
                format!("the last user message does not contain `{text}`")
            });
        }
        let results = fresh_results(body);
        let any = |text: &String| results.iter().any(|result| result.contains(text));
        for text in &expect.tool_result_contains {
            self.unless(any(text), || {
                format!(
                    "none of the {} new tool results contains `{text}`",
                    results.len()
                )
            });
        }
        for text in &expect.tool_result_lacks {
            self.unless(!any(text), || {
                format!("a new tool result contains `{text}`")
            });
        }
    }

    fn tools(&mut self, expect: &RequestExpectation, body: &Value) {
        let tools = tool_names(body);
        for tool in &expect.tools {
            self.unless(tools.contains(&tool.as_str()), || {
                format!("tool `{tool}` is not offered")
            });
        }
        if let Some(exact) = &expect.exact_tools {
            self.unless(tools == *exact, || {
                format!("the offered tools are {tools:?}")
            });
        }
    }
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
