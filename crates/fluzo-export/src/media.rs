//! Content blocks: text, thinking, images.

use fluzo_llm::Content;
use fluzo_llm::content::{ImageContent, ThinkingContent};
use fluzo_llm::message::UserContent;

use crate::escape;
use crate::highlight::Highlighter;
use crate::{markdown, tool};

/// Kinds of images that a browser shows and that hold nothing that runs.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Appends what a person wrote, as it was written.
pub(crate) fn user(out: &mut String, content: &UserContent, highlighter: &mut Highlighter) {
    match content {
        UserContent::Text(text) => written(out, text),
        UserContent::Blocks(blocks) => {
            for each in blocks {
                match each {
                    Content::Text(text) => written(out, &text.text),
                    other => block(out, other, highlighter),
                }
            }
        }
    }
}

/// Appends `text` with its line ends.
pub(crate) fn written(out: &mut String, text: &str) {
    if text.trim().is_empty() {
        return;
    }
    out.push_str("<div class=w>");
    escape::text(out, text);
    out.push_str("</div>");
}

/// Appends a block of a model's response or a tool's result; calls are shown elsewhere.
pub(crate) fn block(out: &mut String, block: &Content, highlighter: &mut Highlighter) {
    match block {
        Content::Text(text) if text.text.trim().is_empty() => {}
        Content::Text(text) => markdown::render(out, &text.text, highlighter),
        Content::Thinking(block) => thinking(out, block),
        Content::Image(block) => image(out, block),
        Content::ToolCall(_) => {}
        Content::Unknown(value) => {
            out.push_str("<details class=e><summary>A block of a type that is not known</summary>");
            tool::json(out, value, highlighter);
            out.push_str("</details>");
        }
    }
}

fn thinking(out: &mut String, block: &ThinkingContent) {
    if block.thinking.trim().is_empty() {
        if block.redacted == Some(true) {
            out.push_str("<p class=e>Thinking that the provider hides</p>");
        }
        return;
    }
    out.push_str("<details class=k><summary>Thinking</summary>");
    written(out, &block.thinking);
    out.push_str("</details>");
}

fn image(out: &mut String, block: &ImageContent) {
    let kind = IMAGES.iter().find(|kind| **kind == block.mime_type);
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    match kind {
        Some(kind) if !block.data.is_empty() && block.data.bytes().all(is_base64) => {
            out.push_str(&format!(
                "<img alt=\"Image of the session\" src=\"data:{kind};base64,"
            ));
            out.push_str(&block.data);
            out.push_str("\">");
        }
        _ => {
            out.push_str("<p class=e>An image that is not shown: ");
            escape::text(out, &escape::snippet(&block.mime_type, 60));
            out.push_str("</p>");
        }
    }
}
