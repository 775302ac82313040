//! Changes of one file: one after the other, and each to its end once it has begun.

use std::path::PathBuf;
use std::sync::Arc;

use fluzo_agent::{ToolContext, ToolError};
use fluzo_exec::blocking;
use fluzo_llm::ToolOutput;

use crate::ToolEnv;

/// Waits for its turn on `path`, then does `change` on a thread that may block. An abort
/// that comes before the turn does nothing to the file.
pub(crate) async fn in_turn(
    env: Arc<ToolEnv>,
    path: PathBuf,
    context: &ToolContext,
    change: impl FnOnce(&ToolEnv, PathBuf) -> Result<ToolOutput, ToolError> + Send + 'static,
) -> Result<ToolOutput, ToolError> {
    let guard = env.locks.lock(&*env.fs, &path).await;
    if context.abort.is_cancelled() {
        return Err(ToolError::new("Operation aborted"));
    }
    // The lock goes with the work, so that a dropped call does not let another in early.
    let work = blocking(move || {
        let _guard = guard;
        change(&env, path)
    });
    work.await
        .map_err(|error| ToolError::new(error.to_string()))?
}
