//! Content blocks.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Extra;

/// One block of a message's content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Content {
    /// Text.
    Text(TextContent),
    /// The model's thinking.
    Thinking(ThinkingContent),
    /// An image.
    Image(ImageContent),
    /// A tool call.
    ToolCall(ToolCall),
    /// A block of a type this version does not know; kept as it is.
    #[serde(untagged)]
    Unknown(Value),
}

/// A text block.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TextContent {
    /// The text.
    pub text: String,
    /// Provider data that must be sent back unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_signature: Option<String>,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A thinking block.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThinkingContent {
    /// The thinking.
    pub thinking: String,
    /// Provider data that must be sent back unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking_signature: Option<String>,
    /// The provider hid the text; only the signature counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redacted: Option<bool>,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// An image block.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageContent {
    /// The image file in base64.
    pub data: String,
    /// Its media type, such as `image/png`.
    pub mime_type: String,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A tool call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// Id that its result repeats.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments; always an object, empty when the model's text was none.
    #[serde(default)]
    pub arguments: Extra,
    /// Provider data that must be sent back unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thought_signature: Option<String>,
    /// What the model sent when it was not a JSON object. Such a call is never
    /// executed; the text is kept for audit only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_arguments: Option<String>,
    /// Argument text received so far while the call is streaming.
    #[serde(skip)]
    pub partial_arguments: String,
    /// The call is still streaming; one that stays open is never executed.
    #[serde(skip)]
    pub open: bool,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Content {
    /// A plain text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent {
            text: text.into(),
            ..TextContent::default()
        })
    }

    /// An image block of base64 `data`.
    pub fn image(data: impl Into<String>, mime_type: impl Into<String>) -> Self {
        Self::Image(ImageContent {
            data: data.into(),
            mime_type: mime_type.into(),
            extra: Extra::new(),
        })
    }

    /// The text of a text block.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(block) => Some(&block.text),
            _ => None,
        }
    }
}

impl ToolCall {
    /// A call whose arguments arrived as text.
    ///
    /// Text that is complete JSON and an object becomes the arguments; empty text
    /// means no arguments. Anything else leaves the arguments empty and the text in
    /// [`raw_arguments`](Self::raw_arguments). The only repair is of raw control
    /// characters inside strings, which some models emit.
    pub fn from_text(id: impl Into<String>, name: impl Into<String>, text: &str) -> Self {
        let parsed = parse_arguments(text);
        Self {
            id: id.into(),
            name: name.into(),
            raw_arguments: parsed.is_none().then(|| text.to_owned()),
            arguments: parsed.unwrap_or_default(),
            ..Self::default()
        }
    }
}

/// The text of all text blocks, one after the other.
pub fn joined_text(content: &[Content]) -> String {
    content.iter().filter_map(Content::as_text).collect()
}

fn parse_arguments(text: &str) -> Option<Extra> {
    if text.trim().is_empty() {
        return Some(Extra::new());
    }
    let repaired = || serde_json::from_str(&escape_controls(text)?).ok();
    match serde_json::from_str(text).ok().or_else(repaired) {
        Some(Value::Object(map)) => Some(map),
        _ => None,
    }
}

/// Escapes control characters that stand raw inside JSON strings; `None` where one
/// follows a backslash, since what was meant there cannot be known.
pub fn escape_controls(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len() + 16);
    let (mut in_string, mut escaped) = (false, false);
    for c in text.chars() {
        if in_string && u32::from(c) < 0x20 {
            if escaped {
                return None;
            }
            match c {
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                _ => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            }
            continue;
        }
        if c == '"' && !escaped {
            in_string = !in_string;
        }
        escaped = c == '\\' && !escaped && in_string;
        out.push(c);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_pi_json_and_keep_unknown_fields() {
        let rows = [
            r#"{"type":"text","text":"hi"}"#,
            r#"{"type":"text","text":"hi","textSignature":"s"}"#,
            r#"{"type":"thinking","thinking":"hm","thinkingSignature":"s","redacted":true}"#,
            r#"{"type":"image","data":"AA==","mimeType":"image/png"}"#,
            r#"{"type":"toolCall","id":"c1","name":"read","arguments":{"path":"a","n":1.5},"thoughtSignature":"t"}"#,
            r#"{"type":"text","text":"hi","later":{"x":[1]}}"#,
            r#"{"type":"video","frames":[1,2]}"#,
        ];
        for json in rows {
            let block: Content = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::to_string(&block).unwrap(), json);
        }
        let unknown: Content = serde_json::from_str(rows[6]).unwrap();
        assert!(matches!(unknown, Content::Unknown(_)));
    }

    #[test]
    fn argument_text() {
        let rows = [
            (r#"{"a":1}"#, r#"{"a":1}"#, false),
            ("", "{}", false),
            ("  ", "{}", false),
            (r#"{"command":"x"#, "{}", true),
            (r#""""#, "{}", true),
            ("[1]", "{}", true),
            (r#""str""#, "{}", true),
            (
                "{\"a\":\"x\ny\tz\u{1}\"}",
                r#"{"a":"x\ny\tz\u0001"}"#,
                false,
            ),
            (r#"{"a":"q\"w"}"#, r#"{"a":"q\"w"}"#, false),
            ("{\"a\":\"x\\\\\ny\"}", r#"{"a":"x\\\ny"}"#, false),
            ("{\"a\":\"x \\\ny\"}", "{}", true),
            ("{\"a\":\"x\\\n\"}", "{}", true),
        ];
        for (text, arguments, malformed) in rows {
            let call = ToolCall::from_text("c", "t", text);
            assert_eq!(
                serde_json::to_string(&call.arguments).unwrap(),
                arguments,
                "{text:?}"
            );
            assert_eq!(
                call.raw_arguments.as_deref(),
                malformed.then_some(text),
                "{text:?}"
            );
        }
    }
}
