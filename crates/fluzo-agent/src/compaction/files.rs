//! Which files the summarised part of a conversation read and changed.

use std::collections::BTreeSet;

use fluzo_llm::{Extra, Message};
use serde_json::{Value, json};

const READ_FILES: &str = "readFiles";
const MODIFIED_FILES: &str = "modifiedFiles";

/// Paths that were read and paths that were written or edited, as the calls name them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileOperations {
    read: BTreeSet<String>,
    modified: BTreeSet<String>,
}

impl FileOperations {
    /// Adds what the calls of `message` touch.
    pub fn add_message(&mut self, message: &Message) {
        let Some(assistant) = message.as_assistant() else {
            return;
        };
        for call in assistant.tool_calls() {
            let files = match call.name.as_str() {
                "read" => &mut self.read,
                "write" | "edit" => &mut self.modified,
                _ => continue,
            };
            files.extend(path_of(&call.arguments));
        }
    }

    /// Adds what the details of an earlier summary list. Anything else in them is passed over.
    pub fn add_details(&mut self, details: &Value) {
        let listed = |key: &str| {
            let list = details.get(key).and_then(Value::as_array);
            let texts = list.into_iter().flatten().filter_map(Value::as_str);
            texts.map(str::to_owned).collect::<Vec<_>>()
        };
        self.read.extend(listed(READ_FILES));
        self.modified.extend(listed(MODIFIED_FILES));
    }

    /// Paths that were read and not changed, sorted.
    pub fn read_files(&self) -> Vec<&str> {
        let read = self.read.difference(&self.modified);
        read.map(String::as_str).collect()
    }

    /// Paths that were changed, sorted.
    pub fn modified_files(&self) -> Vec<&str> {
        self.modified.iter().map(String::as_str).collect()
    }

    /// The lists as they stand in the details of an entry.
    pub fn details(&self) -> Value {
        json!({ READ_FILES: self.read_files(), MODIFIED_FILES: self.modified_files() })
    }

    /// The lists as they follow a summary; empty when there are none.
    pub fn tags(&self) -> String {
        let mut text = tag("read-files", &self.read_files());
        text.push_str(&tag("modified-files", &self.modified_files()));
        text
    }

    /// `summary` without the lists that [`tags`](Self::tags) put behind it.
    pub fn without_tags(summary: &str) -> &str {
        let mut text = summary;
        for name in ["modified-files", "read-files"] {
            let inner = text.strip_suffix(&format!("\n</{name}>"));
            let start = inner.and_then(|inner| inner.rfind(&format!("\n\n<{name}>\n")));
            if let Some(start) = start {
                text = text.get(..start).unwrap_or(text);
            }
        }
        text
    }
}

fn path_of(arguments: &Extra) -> Option<String> {
    let path = arguments.get("path")?.as_str()?;
    (!path.is_empty()).then(|| path.to_owned())
}

fn tag(name: &str, files: &[&str]) -> String {
    if files.is_empty() {
        return String::new();
    }
    format!("\n\n<{name}>\n{}\n</{name}>", files.join("\n"))
}
