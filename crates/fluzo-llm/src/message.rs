//! Messages of the transcript.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::content::joined_text;
use crate::{Content, Extra, ToolCall, Usage};

/// A transcript item: what a model sends and gets, and Fluzo's own roles.
// Messages live behind an `Arc`, so the size of the largest variant is paid once each.
#[allow(clippy::large_enum_variant)]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "camelCase")]
pub enum Message {
    /// What the user said.
    User(UserMessage),
    /// What the model answered.
    Assistant(AssistantMessage),
    /// What a tool returned.
    ToolResult(ToolResultMessage),
    /// A shell command the user ran.
    BashExecution(BashExecutionMessage),
    /// A context message of an extension.
    Custom(CustomMessage),
    /// Summary of a branch that was left.
    BranchSummary(BranchSummaryMessage),
    /// Summary that stands for compacted messages.
    CompactionSummary(CompactionSummaryMessage),
    /// A role this version does not know; kept as it is.
    #[serde(untagged)]
    Unknown(Value),
}

/// Text, or text and image blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum UserContent {
    /// Plain text.
    Text(String),
    /// Blocks.
    Blocks(Vec<Content>),
}

/// What the user said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UserMessage {
    /// The content.
    pub content: UserContent,
    /// Unix milliseconds.
    pub timestamp: i64,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// What the model answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AssistantMessage {
    /// Text, thinking and tool calls in the order they came.
    pub content: Vec<Content>,
    /// Wire dialect it came through.
    pub api: String,
    /// Provider that served it.
    pub provider: String,
    /// Model that was asked.
    pub model: String,
    /// Tokens and cost.
    pub usage: Usage,
    /// Why it ended.
    pub stop_reason: StopReason,
    /// Unix milliseconds.
    pub timestamp: i64,
    /// What went wrong, when it ended in `error` or `aborted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// The provider's id of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
    /// The model that answered, when it is not the one asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_model: Option<String>,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Why a response ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StopReason {
    /// The model was done.
    Stop,
    /// The output limit was reached.
    Length,
    /// The model wants tools to run.
    ToolUse,
    /// The request or the response failed.
    Error,
    /// The user stopped it.
    Aborted,
    /// A reason this version does not know; kept as it is.
    #[serde(untagged)]
    Other(String),
}

/// What a tool returned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResultMessage {
    /// Id of the call it answers.
    pub tool_call_id: String,
    /// Name of the tool.
    pub tool_name: String,
    /// What the model gets.
    pub content: Vec<Content>,
    /// Structured facts for front ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// Whether the call failed.
    pub is_error: bool,
    /// Unix milliseconds.
    pub timestamp: i64,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A shell command the user ran outside the model's turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BashExecutionMessage {
    /// The command.
    pub command: String,
    /// Its cleaned output, perhaps truncated.
    pub output: String,
    /// Exit code; absent when cancelled or killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// The user stopped it.
    pub cancelled: bool,
    /// `output` is not all of it.
    pub truncated: bool,
    /// File with the whole output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_output_path: Option<String>,
    /// Never sent to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude_from_context: Option<bool>,
    /// Unix milliseconds.
    pub timestamp: i64,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A context message of an extension.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomMessage {
    /// The extension's name for it.
    pub custom_type: String,
    /// What the model gets.
    pub content: UserContent,
    /// Whether front ends show it.
    #[serde(default)]
    pub display: bool,
    /// Structured facts for the extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// Unix milliseconds.
    pub timestamp: i64,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Summary of a branch that was left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BranchSummaryMessage {
    /// The summary.
    pub summary: String,
    /// Entry the branch was left for, or `root`.
    pub from_id: String,
    /// Unix milliseconds.
    pub timestamp: i64,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Summary that stands for compacted messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompactionSummaryMessage {
    /// The summary.
    pub summary: String,
    /// Estimated tokens of the context before compaction.
    pub tokens_before: u64,
    /// Unix milliseconds.
    pub timestamp: i64,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Message {
    /// A user message of one text block.
    pub fn user(text: impl Into<String>, timestamp: i64) -> Self {
        Self::user_blocks(vec![Content::text(text)], timestamp)
    }

    /// A user message of `blocks`.
    pub fn user_blocks(blocks: Vec<Content>, timestamp: i64) -> Self {
        Self::User(UserMessage {
            content: UserContent::Blocks(blocks),
            timestamp,
            extra: Extra::new(),
        })
    }

    /// The role's name in JSON.
    pub fn role(&self) -> &str {
        match self {
            Self::User(_) => "user",
            Self::Assistant(_) => "assistant",
            Self::ToolResult(_) => "toolResult",
            Self::BashExecution(_) => "bashExecution",
            Self::Custom(_) => "custom",
            Self::BranchSummary(_) => "branchSummary",
            Self::CompactionSummary(_) => "compactionSummary",
            Self::Unknown(value) => value
                .get("role")
                .and_then(Value::as_str)
                .unwrap_or("unknown"),
        }
    }

    /// The assistant message, if it is one.
    pub fn as_assistant(&self) -> Option<&AssistantMessage> {
        match self {
            Self::Assistant(message) => Some(message),
            _ => None,
        }
    }

    /// The tool result, if it is one.
    pub fn as_tool_result(&self) -> Option<&ToolResultMessage> {
        match self {
            Self::ToolResult(message) => Some(message),
            _ => None,
        }
    }
}

impl UserContent {
    /// All text in it.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Blocks(blocks) => joined_text(blocks),
        }
    }
}

impl AssistantMessage {
    /// Its tool calls, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.iter().filter_map(|block| match block {
            Content::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// Whether it ended in an error or an abort.
    pub fn failed(&self) -> bool {
        matches!(self.stop_reason, StopReason::Error | StopReason::Aborted)
    }
}

impl StopReason {
    /// The name in JSON.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolUse => "toolUse",
            Self::Error => "error",
            Self::Aborted => "aborted",
            Self::Other(name) => name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USAGE: &str = r#"{"input":1,"output":2,"cacheRead":0,"cacheWrite":0,"totalTokens":3,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}"#;

    #[test]
    fn messages_have_pi_json_and_survive_a_round_trip() {
        let assistant = format!(
            r#"{{"role":"assistant","content":[{{"type":"text","text":"ok"}}],"api":"a","provider":"p","model":"m","usage":{USAGE},"stopReason":"toolUse","timestamp":1,"errorMessage":"e","responseId":"r"}}"#
        );
        let odd_stop = assistant
            .replace("toolUse", "pending")
            .replace(r#""timestamp":1"#, r#""timestamp":1,"durationMs":9"#);
        let rows = [
            r#"{"role":"user","content":"hi","timestamp":1}"#,
            r#"{"role":"user","content":[{"type":"text","text":"hi"}],"timestamp":1}"#,
            &assistant,
            r#"{"role":"toolResult","toolCallId":"c","toolName":"read","content":[],"details":{"a":1},"isError":false,"timestamp":1}"#,
            r#"{"role":"bashExecution","command":"ls","output":"a","exitCode":0,"cancelled":false,"truncated":true,"fullOutputPath":"f","excludeFromContext":true,"timestamp":1}"#,
            r#"{"role":"custom","customType":"x","content":"t","display":true,"timestamp":1}"#,
            r#"{"role":"branchSummary","summary":"s","fromId":"root","timestamp":1}"#,
            r#"{"role":"compactionSummary","summary":"s","tokensBefore":7,"timestamp":1}"#,
            r#"{"role":"system","sections":[1]}"#,
        ];
        for json in rows {
            let message: Message = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::to_string(&message).unwrap(), json);
        }
        // An optional field that stands before an unknown one is written first; nothing is lost.
        let message: Message = serde_json::from_str(&odd_stop).unwrap();
        let again: Value = serde_json::to_value(&message).unwrap();
        assert_eq!(again, serde_json::from_str::<Value>(&odd_stop).unwrap());
        assert_eq!(
            message.as_assistant().unwrap().stop_reason,
            StopReason::Other("pending".into())
        );
    }

    #[test]
    fn unknown_roles_are_kept() {
        let message: Message = serde_json::from_str(r#"{"role":"system","x":1}"#).unwrap();
        assert_eq!(message.role(), "system");
    }
}
