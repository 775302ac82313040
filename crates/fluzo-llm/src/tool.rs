//! What a model is told about a tool, and what a tool gives back.

use serde::Serialize;
use serde_json::Value;

use crate::Content;

/// A tool as the model sees it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolSpec {
    /// Unique name.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Value,
}

/// What a tool returns, complete or in part.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ToolOutput {
    /// What the model gets.
    pub content: Vec<Content>,
    /// Structured facts for front ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// Asks that no further model request follow this batch.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub terminate: bool,
}

impl ToolOutput {
    /// Output of one text block without details.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            content: vec![Content::text(text)],
            ..Self::default()
        }
    }

    /// The same output with `details`.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }
}
