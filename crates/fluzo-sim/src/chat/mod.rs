//! Chat Completions.

mod history;
mod quirks;
mod render;
mod rules;

use serde_json::{Value, json};

use crate::capabilities::ModelCapabilities;
use crate::check::{items, text};
use crate::verdict::{Violation, ViolationKind};
use crate::view::View;

pub use history::check_history;
pub(crate) use quirks::{QuirkRefusal, quirk_refusal};
pub(crate) use render::{object, payloads};

/// Every broken rule of a request.
pub(crate) fn check(body: &Value, model: &ModelCapabilities) -> Vec<Violation> {
    let mut found = rules::check_parameters(body);
    found.extend(check_history(body, model));
    found
}

/// What the request says.
pub(crate) fn view(body: &Value) -> View {
    View {
        system: last_text(body, &["system", "developer"]),
        last_user: last_text(body, &["user"]),
        fresh_results: fresh_results(body),
        tools: items(body, "tools")
            .iter()
            .filter_map(|tool| tool.pointer("/function/name").and_then(Value::as_str))
            .map(str::to_owned)
            .collect(),
    }
}

/// An error in OpenAI's form.
pub(crate) fn error_body(status: u16, message: &str, kind: Option<ViolationKind>) -> Value {
    let error_type = match status {
        401 => "authentication_error",
        429 => "rate_limit_error",
        400..500 => "invalid_request_error",
        _ => "server_error",
    };
    json!({"error": {
        "message": message,
        "type": error_type,
        "param": null,
        "code": kind.map(ViolationKind::code),
    }})
}

fn role(message: &Value) -> &str {
    text(message, "role").unwrap_or_default()
}

/// The text of a message, its text parts joined by line ends.
fn content_text(message: &Value) -> String {
    match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts: Vec<&str> = parts.iter().filter_map(|part| text(part, "text")).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

fn last_text(body: &Value, roles: &[&str]) -> String {
    items(body, "messages")
        .iter()
        .rev()
        .find(|message| roles.contains(&role(message)))
        .map(content_text)
        .unwrap_or_default()
}

/// Results that the model has not answered yet.
fn fresh_results(body: &Value) -> Vec<String> {
    items(body, "messages")
        .iter()
        .rev()
        .take_while(|message| role(message) != "assistant")
        .filter(|message| role(message) == "tool")
        .map(content_text)
        .collect()
}
