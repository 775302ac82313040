//! OpenAI Responses, after the published API reference (platform.openai.com/docs/api-reference/responses).

mod history;
mod items;
mod render;
mod rules;

use serde_json::Value;

use crate::capabilities::ModelCapabilities;
use crate::check::{Found, items as list, text};
use crate::verdict::Violation;
use crate::view::View;

pub(crate) use render::{object, payloads};

/// Every broken rule of a request.
pub(crate) fn check(body: &Value, model: &ModelCapabilities) -> Vec<Violation> {
    let mut found = Found::default();
    rules::check_parameters(body, model, &mut found);
    rules::check_tools(body, &mut found);
    history::check_input(body, model, &mut found);
    found.into_list()
}

/// What the request says.
pub(crate) fn view(body: &Value) -> View {
    let input = list(body, "input");
    let role = |item: &Value| text(item, "role").unwrap_or_default().to_owned();
    let systems = input
        .iter()
        .filter(|item| ["system", "developer"].contains(&role(item).as_str()))
        .map(|item| content_text(item.get("content")));
    let mut system: Vec<String> = text(body, "instructions")
        .map(str::to_owned)
        .into_iter()
        .collect();
    system.extend(systems);
    let last_user = input.iter().rev().find(|item| role(item) == "user");
    let fresh = input.iter().rev().take_while(|item| !is_said(item));
    View {
        system: system.join("\n"),
        last_user: match last_user {
            Some(item) => content_text(item.get("content")),
            None => text(body, "input").unwrap_or_default().to_owned(),
        },
        fresh_results: fresh
            .filter(|item| text(item, "type") == Some("function_call_output"))
            .map(|item| content_text(item.get("output")))
            .collect(),
        tools: list(body, "tools")
            .iter()
            .filter_map(|tool| text(tool, "name"))
            .map(str::to_owned)
            .collect(),
    }
}

/// Whether the item is the model's.
fn is_said(item: &Value) -> bool {
    let kind = text(item, "type").unwrap_or("message");
    matches!(kind, "reasoning" | "function_call")
        || kind == "message" && text(item, "role") == Some("assistant")
}

/// A string, or the text parts of a list joined by line ends.
fn content_text(content: Option<&Value>) -> String {
    match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts: Vec<&str> = parts.iter().filter_map(|part| text(part, "text")).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}
