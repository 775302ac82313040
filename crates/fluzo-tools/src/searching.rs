//! What `grep` and `find` share: running a blocking search, its errors, and a result of which
//! only the beginning is kept.

use std::path::Path;
use std::sync::Arc;

use fluzo_agent::ToolError;
use fluzo_exec::{SearchError, TreeSearch, blocking, errno_text};
use fluzo_llm::{AbortSignal, Content, ToolOutput};
use fluzo_stdx::truncate::Truncation;

use crate::notices::truncate_bytes;
use crate::{ToolEnv, paths, shown};

/// Runs `work` on a worker thread. The search ends soon after `abort` fires or the future is
/// dropped. `given` is the path argument as the model wrote it and `root` what it means; when
/// that has another name on disk the result ends with it.
///
/// # Errors
///
/// The text for the model.
pub(crate) async fn search(
    env: &Arc<ToolEnv>,
    given: &str,
    root: &Path,
    abort: &AbortSignal,
    work: impl FnOnce(&dyn TreeSearch, &AbortSignal) -> Result<ToolOutput, SearchError> + Send + 'static,
) -> Result<ToolOutput, ToolError> {
    let cancel = abort.child_token();
    let _cancel_when_dropped = cancel.clone().drop_guard();
    let (shared, given) = (Arc::clone(env), given.to_owned());
    let real_name = paths::real_name(env, &given, root);
    let done = blocking(move || {
        work(&*shared.search, &cancel).map_err(|error| failed(&shared, &given, error))
    });
    let mut output = done
        .await
        .map_err(|error| ToolError::new(format!("Search failed: {error}")))??;
    if let (Some(name), Some(Content::Text(block))) = (real_name, output.content.last_mut()) {
        block.text.push('\n');
        block.text.push_str(&name);
    }
    Ok(output)
}

fn failed(env: &ToolEnv, given: &str, error: SearchError) -> ToolError {
    ToolError::new(match error {
        SearchError::Pattern { message } | SearchError::Glob { message } => {
            shown::bounded(&message).into_owned()
        }
        SearchError::Cancelled => "Operation aborted".into(),
        SearchError::Root { path, source } => root_failed(env, given, &path, &source),
    })
}

fn root_failed(env: &ToolEnv, given: &str, path: &Path, source: &std::io::Error) -> String {
    let path = shown::path(path);
    match source.kind() {
        std::io::ErrorKind::NotFound => {
            let ambiguity = paths::ambiguity(env, given);
            let hint = ambiguity.map_or_else(String::new, |hint| format!("\n{hint}"));
            format!("Path not found: {path}{hint}")
        }
        std::io::ErrorKind::NotADirectory => format!("Not a directory: {path}"),
        _ => format!("Cannot search {path}: {}", errno_text(source)),
    }
}

/// Text that is built line by line. Beyond a byte limit lines are counted but not kept.
pub(crate) struct HeadText {
    text: String,
    max_bytes: usize,
    lines: usize,
    bytes: usize,
}

impl HeadText {
    /// Nothing yet.
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self {
            text: String::new(),
            max_bytes,
            lines: 0,
            bytes: 0,
        }
    }

    /// Whether there is no line.
    pub(crate) fn is_empty(&self) -> bool {
        self.lines == 0
    }

    /// Adds a line; its parts are put together here.
    pub(crate) fn push(&mut self, parts: &[&str]) {
        let newline = usize::from(self.lines > 0);
        let length: usize = parts.iter().map(|part| part.len()).sum();
        // One line too many is kept, so that the truncation sees that there is one.
        if self.text.len() <= self.max_bytes {
            if newline == 1 {
                self.text.push('\n');
            }
            parts.iter().for_each(|part| self.text.push_str(part));
        }
        self.lines += 1;
        self.bytes += newline + length;
    }

    /// Whole lines from the start within the limit, with counts of everything.
    pub(crate) fn truncate(&self) -> Truncation {
        let mut truncation = truncate_bytes(&self.text, self.max_bytes);
        truncation.total_lines = self.lines;
        truncation.total_bytes = self.bytes;
        truncation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_go_on_where_the_text_stops() {
        let mut head = HeadText::new(7);
        assert!(head.is_empty());
        for _ in 0..1000 {
            head.push(&["ab", "c"]);
        }
        assert!(head.text.len() < 20);
        let t = head.truncate();
        assert_eq!((t.content.as_str(), t.truncated), ("abc\nabc", true));
        assert_eq!((t.output_lines, t.output_bytes), (2, 7));
        assert_eq!((t.total_lines, t.total_bytes), (1000, 3999));
        assert_eq!(t.max_lines, 9_007_199_254_740_991);
    }

    #[test]
    fn text_within_the_limit_is_whole() {
        let mut head = HeadText::new(7);
        head.push(&["abc"]);
        head.push(&["def"]);
        let t = head.truncate();
        assert_eq!((t.content.as_str(), t.truncated), ("abc\ndef", false));
        assert_eq!((t.total_lines, t.total_bytes), (2, 7));
    }
}
