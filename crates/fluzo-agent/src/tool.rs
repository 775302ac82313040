//! Tools: what a model may call.

use std::sync::Arc;

use fluzo_llm::{AbortSignal, BoxFuture, ToolOutput, ToolSpec};
use fluzo_policy::Access;
use serde_json::Value;

use crate::{Permit, UpdateSink};

/// A tool.
pub trait Tool: Send + Sync {
    /// Name, description and schema, as the model sees them.
    fn spec(&self) -> &ToolSpec;

    /// Whether it may run beside others of its batch.
    fn execution_mode(&self) -> ExecutionMode {
        ExecutionMode::Parallel
    }

    /// Whether a call changes a file from what it expects to find there, so that it fails the
    /// same way until the model looks again.
    fn edits(&self) -> bool {
        false
    }

    /// Brings arguments into the form of the schema, before validation.
    ///
    /// # Errors
    ///
    /// The text becomes the call's error result.
    fn prepare_arguments(&self, arguments: Value) -> Result<Value, ToolError> {
        Ok(arguments)
    }

    /// What a call with these validated arguments touches. A tool that cannot say
    /// touches anything.
    fn accesses(&self, _arguments: &Value) -> Vec<Access> {
        vec![Access::Anything]
    }

    /// Runs one call. `permit` holds the arguments; see [`Permit::redeem`].
    ///
    /// When `context.abort` fires the tool ends soon. Dropping the future ends what it
    /// started; a change of a file that has begun is completed.
    fn run(
        self: Arc<Self>,
        permit: Permit,
        context: ToolContext,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolError>>;

    /// One line for the system prompt's list of tools.
    fn prompt_snippet(&self) -> Option<&str> {
        None
    }

    /// Guidelines for the system prompt.
    fn prompt_guidelines(&self) -> &[&str] {
        &[]
    }
}

/// Whether tool calls of one response run side by side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ExecutionMode {
    /// Side by side.
    #[default]
    Parallel,
    /// One after the other.
    Sequential,
}

/// What a running tool gets besides its arguments.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// Fires when the call is to end.
    pub abort: AbortSignal,
    /// Takes partial results.
    pub updates: UpdateSink,
}

/// A tool failed. The text goes to the model.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    /// What the model is told.
    pub message: String,
    /// Structured facts for front ends.
    pub details: Option<Value>,
}

impl ToolError {
    /// A failure without details.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            details: None,
        }
    }
}

/// The tools of a run, in a stable order and with unique names.
#[derive(Clone, Default)]
pub struct ToolSet {
    tools: Arc<[Arc<dyn Tool>]>,
    specs: Arc<[ToolSpec]>,
}

impl ToolSet {
    /// A set of `tools`; of two with one name the later takes the earlier one's place.
    pub fn new(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        let mut unique: Vec<Arc<dyn Tool>> = Vec::new();
        for tool in tools {
            match unique
                .iter_mut()
                .find(|t| t.spec().name == tool.spec().name)
            {
                Some(place) => *place = tool,
                None => unique.push(tool),
            }
        }
        let specs = unique.iter().map(|tool| tool.spec().clone()).collect();
        Self {
            tools: unique.into(),
            specs,
        }
    }

    /// The tool of that name.
    pub fn find(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.tools
            .iter()
            .find(|tool| tool.spec().name == name)
            .cloned()
    }

    /// All tools.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.tools.iter()
    }

    /// What the model is told.
    pub fn specs(&self) -> Arc<[ToolSpec]> {
        Arc::clone(&self.specs)
    }
}
