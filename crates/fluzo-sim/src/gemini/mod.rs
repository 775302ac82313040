//! Google Gemini's `generateContent`, after the published API reference (ai.google.dev/api, v1beta).

mod history;
mod parts;
mod render;
mod rules;

use serde_json::{Value, json};

use crate::capabilities::ModelCapabilities;
use crate::check::{Found, items, text};
use crate::verdict::Violation;
use crate::view::View;

pub(crate) use render::{object, payloads};

/// Every broken rule of a request.
pub(crate) fn check(body: &Value, model: &ModelCapabilities) -> Vec<Violation> {
    let mut found = Found::default();
    rules::check_parameters(body, model, &mut found);
    rules::check_tools(body, &mut found);
    history::check_contents(body, model, &mut found);
    found.into_list()
}

/// What the request says.
pub(crate) fn view(body: &Value) -> View {
    let contents = items(body, "contents");
    let is_user = |content: &&Value| text(content, "role") != Some("model");
    let last_user = contents
        .iter()
        .rev()
        .filter(is_user)
        .map(parts_text)
        .find(|text| !text.is_empty());
    let fresh = contents.iter().rev().take_while(is_user);
    let declarations = items(body, "tools")
        .iter()
        .flat_map(|tool| items(tool, "functionDeclarations"));
    View {
        system: body
            .get("systemInstruction")
            .map(parts_text)
            .unwrap_or_default(),
        last_user: last_user.unwrap_or_default(),
        fresh_results: fresh
            .flat_map(|content| items(content, "parts"))
            .filter_map(|part| part.get("functionResponse"))
            .map(response_text)
            .collect(),
        tools: declarations
            .filter_map(|declaration| text(declaration, "name"))
            .map(str::to_owned)
            .collect(),
    }
}

/// An error in Google's form.
pub(crate) fn error_body(status: u16, message: &str) -> Value {
    let name = match status {
        400 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        499 => "CANCELLED",
        500 => "INTERNAL",
        503 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        _ if (400..500).contains(&status) => "FAILED_PRECONDITION",
        _ => "UNKNOWN",
    };
    json!({"error": {"code": status, "message": message, "status": name}})
}

fn parts_text(content: &Value) -> String {
    let texts: Vec<&str> = items(content, "parts")
        .iter()
        .filter_map(|part| text(part, "text"))
        .collect();
    texts.join("\n")
}

/// The text of a result, or all of it as JSON.
fn response_text(response: &Value) -> String {
    let value = response.get("response").unwrap_or(&Value::Null);
    ["output", "result", "error"]
        .iter()
        .find_map(|key| text(value, key))
        .map_or_else(|| value.to_string(), str::to_owned)
}
