//! Anthropic Messages, after the published API reference (docs.anthropic.com, API version 2023-06-01).

mod history;
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
    rules::check_cache_marks(body, &mut found);
    history::check_messages(body, model, &mut found);
    found.into_list()
}

/// What the request says.
pub(crate) fn view(body: &Value) -> View {
    let messages = items(body, "messages");
    let is_assistant = |message: &&Value| text(message, "role") == Some("assistant");
    let last_user = messages
        .iter()
        .rev()
        .filter(|message| !is_assistant(message))
        .map(|message| content_text(message.get("content")))
        .find(|text| !text.is_empty())
        .unwrap_or_default();
    let fresh = messages
        .iter()
        .rev()
        .take_while(|message| !is_assistant(message));
    View {
        system: content_text(body.get("system")),
        last_user,
        fresh_results: fresh
            .flat_map(|message| items(message, "content"))
            .filter(|block| text(block, "type") == Some("tool_result"))
            .map(|block| content_text(block.get("content")))
            .collect(),
        tools: items(body, "tools")
            .iter()
            .filter_map(|tool| text(tool, "name"))
            .map(str::to_owned)
            .collect(),
    }
}

/// An error in Anthropic's form.
pub(crate) fn error_body(status: u16, message: &str, request_id: &str) -> Value {
    let error_type = match status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        529 => "overloaded_error",
        400..500 => "invalid_request_error",
        _ => "api_error",
    };
    json!({
        "type": "error",
        "error": {"type": error_type, "message": message},
        "request_id": request_id,
    })
}

/// A string, or the text blocks of a list joined by line ends.
fn content_text(content: Option<&Value>) -> String {
    match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => {
            let texts: Vec<&str> = blocks
                .iter()
                .filter_map(|block| text(block, "text"))
                .collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}
