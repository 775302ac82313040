//! A conversation as plain text, for the model that summarises it.

use std::sync::Arc;

use fluzo_llm::content::joined_text;
use fluzo_llm::convert::to_model_messages;
use fluzo_llm::{AssistantMessage, Content, Message, ToolCall};

use super::tokens::length_of;

/// How much of a tool result is told, in UTF-16 units.
pub const MAX_RESULT_LENGTH: u64 = 2000;

/// One part of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The text.
    pub text: String,
    /// Whether it is the output of a tool.
    pub is_result: bool,
}

/// What `messages` say, in parts, oldest first. Responses that failed are left out, as models
/// never get them.
pub fn parts_of(messages: &[Arc<Message>]) -> Vec<Part> {
    let mut parts = Vec::new();
    for message in to_model_messages(messages) {
        match &*message {
            Message::User(user) => push(&mut parts, "[User]: ", &user.content.text()),
            Message::Assistant(assistant) if !assistant.failed() => {
                push_response(&mut parts, assistant);
            }
            Message::ToolResult(result) => {
                let text = shortened(&joined_text(&result.content));
                if !text.is_empty() {
                    parts.push(Part {
                        text: format!("[Tool result]: {text}"),
                        is_result: true,
                    });
                }
            }
            _ => {}
        }
    }
    parts
}

/// The parts as one text, with a blank line between them.
pub fn text_of(parts: &[Part]) -> String {
    let texts: Vec<&str> = parts.iter().map(|part| part.text.as_str()).collect();
    texts.join("\n\n")
}

fn push(parts: &mut Vec<Part>, label: &str, text: &str) {
    if !text.is_empty() {
        parts.push(Part {
            text: format!("{label}{text}"),
            is_result: false,
        });
    }
}

/// Thinking, text and calls of a response, each in one part.
fn push_response(parts: &mut Vec<Part>, assistant: &AssistantMessage) {
    let (mut thinking, mut text) = (Vec::new(), Vec::new());
    for block in &assistant.content {
        match block {
            Content::Thinking(block) => thinking.push(block.thinking.as_str()),
            Content::Text(block) => text.push(block.text.as_str()),
            _ => {}
        }
    }
    let calls: Vec<String> = assistant.tool_calls().map(call_text).collect();
    push(parts, "[Assistant thinking]: ", &thinking.join("\n"));
    push(parts, "[Assistant]: ", &text.join("\n"));
    push(parts, "[Assistant tool calls]: ", &calls.join("; "));
}

fn call_text(call: &ToolCall) -> String {
    let arguments: Vec<String> = call
        .arguments
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    format!("{}({})", call.name, arguments.join(", "))
}

fn shortened(text: &str) -> String {
    let length = length_of(text);
    if length <= MAX_RESULT_LENGTH {
        return text.to_owned();
    }
    let kept = beginning(text, MAX_RESULT_LENGTH);
    let left_out = length - length_of(kept);
    format!("{kept}\n\n[... {left_out} more characters truncated]")
}

/// The beginning of `text`, at most `length` units long, without half a character.
pub(super) fn beginning(text: &str, length: u64) -> &str {
    let mut units = 0;
    for (at, character) in text.char_indices() {
        units += character.len_utf16() as u64;
        if units > length {
            return text.get(..at).unwrap_or_default();
        }
    }
    text
}
