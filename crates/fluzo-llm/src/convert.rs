//! From internal messages to what a model gets.

use std::sync::Arc;

use crate::message::{BashExecutionMessage, UserContent};
use crate::{Content, Message, UserMessage};

/// Turns every message into one of the three roles a model knows, in order.
///
/// Messages that are excluded from the context or have an unknown role are left out.
pub fn to_model_messages(messages: &[Arc<Message>]) -> Vec<Arc<Message>> {
    messages.iter().filter_map(convert).collect()
}

fn convert(message: &Arc<Message>) -> Option<Arc<Message>> {
    match &**message {
        Message::User(_) | Message::Assistant(_) | Message::ToolResult(_) => {
            Some(Arc::clone(message))
        }
        Message::BashExecution(run) if run.exclude_from_context == Some(true) => None,
        Message::BashExecution(run) => Some(user(bash_text(run), run.timestamp)),
        Message::Custom(custom) => Some(Arc::new(Message::User(UserMessage {
            content: blocks(&custom.content),
            timestamp: custom.timestamp,
            extra: crate::Extra::new(),
        }))),
        Message::BranchSummary(branch) => Some(user(
            format!(
                "The following is a summary of a branch that this conversation came back from:\n\n<summary>\n{}</summary>",
                branch.summary
            ),
            branch.timestamp,
        )),
        Message::CompactionSummary(compaction) => Some(user(
            format!(
                "The conversation history before this point was compacted into the following summary:\n\n<summary>\n{}\n</summary>",
                compaction.summary
            ),
            compaction.timestamp,
        )),
        Message::Unknown(_) => None,
    }
}

fn user(text: String, timestamp: i64) -> Arc<Message> {
    Arc::new(Message::user(text, timestamp))
}

fn blocks(content: &UserContent) -> UserContent {
    match content {
        UserContent::Text(text) => UserContent::Blocks(vec![Content::text(text.clone())]),
        UserContent::Blocks(blocks) => UserContent::Blocks(blocks.clone()),
    }
}

fn bash_text(run: &BashExecutionMessage) -> String {
    let mut text = format!("Ran `{}`\n", run.command);
    if run.output.is_empty() {
        text.push_str("(no output)");
    } else {
        text.push_str(&format!("```\n{}\n```", run.output));
    }
    if run.cancelled {
        text.push_str("\n\n(command cancelled)");
    } else if let Some(code) = run.exit_code.filter(|code| *code != 0) {
        text.push_str(&format!("\n\nCommand exited with code {code}"));
    }
    if let Some(path) = run.full_output_path.as_ref().filter(|_| run.truncated) {
        text.push_str(&format!("\n\n[Output truncated. Full output: {path}]"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(json: &str) -> Option<String> {
        let message: Message = serde_json::from_str(json).unwrap();
        let out = to_model_messages(&[Arc::new(message)]);
        out.first().map(|m| match &**m {
            Message::User(user) => user.content.text(),
            other => other.role().to_owned(),
        })
    }

    fn bash(fields: &str) -> String {
        format!(
            r#"{{"role":"bashExecution","command":"ls","cancelled":false,"truncated":false,"timestamp":1,{fields}}}"#
        )
    }

    #[test]
    fn bash_executions() {
        let rows = [
            (
                bash(r#""output":"a\nb","exitCode":0"#),
                Some("Ran `ls`\n```\na\nb\n```"),
            ),
            (bash(r#""output":"""#), Some("Ran `ls`\n(no output)")),
            (
                bash(r#""output":"x","exitCode":2"#),
                Some("Ran `ls`\n```\nx\n```\n\nCommand exited with code 2"),
            ),
            (
                bash(r#""output":"x""#).replace(r#""cancelled":false"#, r#""cancelled":true"#),
                Some("Ran `ls`\n```\nx\n```\n\n(command cancelled)"),
            ),
            (
                bash(r#""output":"x","fullOutputPath":"/t/f.log""#)
                    .replace(r#""truncated":false"#, r#""truncated":true"#),
                Some("Ran `ls`\n```\nx\n```\n\n[Output truncated. Full output: /t/f.log]"),
            ),
        ];
        for (json, text) in rows {
            assert_eq!(converted(&json).as_deref(), text);
        }
    }

    #[test]
    fn checklist_09_excluded_bash_execution_never_enters_the_context() {
        assert_eq!(
            converted(&bash(r#""output":"x","excludeFromContext":true"#)),
            None
        );
    }

    #[test]
    fn summaries_and_custom_messages_become_user_text() {
        let rows = [
            (
                r#"{"role":"compactionSummary","summary":"SUM","tokensBefore":1,"timestamp":1}"#,
                "The conversation history before this point was compacted into the following summary:\n\n<summary>\nSUM\n</summary>",
            ),
            (
                r#"{"role":"branchSummary","summary":"B","fromId":"x","timestamp":1}"#,
                "The following is a summary of a branch that this conversation came back from:\n\n<summary>\nB</summary>",
            ),
            (
                r#"{"role":"custom","customType":"t","content":"C","timestamp":1}"#,
                "C",
            ),
        ];
        for (json, text) in rows {
            assert_eq!(converted(json).as_deref(), Some(text));
        }
    }

    #[test]
    fn unknown_roles_are_left_out() {
        assert_eq!(converted(r#"{"role":"system","x":1}"#), None);
    }
}
