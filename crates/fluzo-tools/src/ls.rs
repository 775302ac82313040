//! `ls`: the entries of one folder.

use std::path::Path;
use std::sync::Arc;

use fluzo_agent::{Permit, Tool, ToolContext, ToolError};
use fluzo_exec::{FileKind, blocking, errno_text};
use fluzo_llm::{BoxFuture, ToolOutput, ToolSpec};
use fluzo_policy::{Access, PathOperation};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::name_order;
use crate::notices::{self, size};
use crate::{ToolEnv, args, paths, shown};

/// Entries listed when the model names no limit.
pub(crate) const DEFAULT_ENTRIES: usize = 500;

/// Lists one folder, hidden entries included. Entries that cannot be examined, such as links
/// that lead nowhere, are left out.
pub struct LsTool {
    env: Arc<ToolEnv>,
    spec: ToolSpec,
}

#[derive(Deserialize)]
struct Arguments {
    path: Option<String>,
    limit: Option<f64>,
}

impl LsTool {
    /// The tool over `env`.
    pub fn new(env: Arc<ToolEnv>) -> Self {
        let bytes = size(env.limits.text.max_bytes);
        let spec = ToolSpec {
            name: "ls".into(),
            description: format!(
                "List a folder, sorted, with / after folders and with hidden entries. At most {DEFAULT_ENTRIES} entries or {bytes}."
            ),
            parameters: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "Default: working folder"},
                    "limit": {"type": "number", "description": "Most entries"}
                }
            }),
        };
        Self { env, spec }
    }
}

impl Tool for LsTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn accesses(&self, arguments: &Value) -> Vec<Access> {
        let path = arguments.get("path").and_then(Value::as_str).unwrap_or(".");
        paths::access(&self.env, PathOperation::Read, path)
    }

    fn run(
        self: Arc<Self>,
        permit: Permit,
        context: ToolContext,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let path = paths::judged(&permit)?;
            let arguments: Arguments = args::parse(permit.redeem(&*self)?)?;
            if context.abort.is_cancelled() {
                return Err(ToolError::new("Operation aborted"));
            }
            let limit = args::count(arguments.limit, DEFAULT_ENTRIES);
            let given = arguments.path.unwrap_or_else(|| ".".into());
            let work = blocking(move || list(&self.env, &path, &given, limit));
            work.await
                .map_err(|error| ToolError::new(error.to_string()))?
        })
    }

    fn prompt_snippet(&self) -> Option<&str> {
        Some("List a folder")
    }
}

fn list(env: &ToolEnv, path: &Path, given: &str, limit: usize) -> Result<ToolOutput, ToolError> {
    let place = shown::path(path);
    let Ok(meta) = env.fs.metadata(path) else {
        let names = paths::ambiguity(env, given).map(|names| format!("\n{names}"));
        let names = names.unwrap_or_default();
        return Err(ToolError::new(format!("Path not found: {place}{names}")));
    };
    if meta.kind != FileKind::Directory {
        return Err(ToolError::new(format!("Not a directory: {place}")));
    }
    let entries = env.fs.read_dir(path).map_err(|error| {
        ToolError::new(format!("Cannot read directory: {}", errno_text(&error)))
    })?;
    let known = entries.into_iter().filter_map(|entry| {
        let slash = if entry.kind? == FileKind::Directory {
            "/"
        } else {
            ""
        };
        Some((entry.name.to_string_lossy().into_owned(), slash))
    });
    let mut names: Vec<_> = known.collect();
    names.sort_by(|a, b| name_order::compare(&a.0, &b.0));
    let lines = names
        .iter()
        .map(|(name, slash)| format!("{}{slash}", shown::name(name)))
        .collect();
    let mut output = listing(lines, limit, env.limits.text.max_bytes);
    if let (Some(name), Some(fluzo_llm::Content::Text(block))) = (
        paths::real_name(env, given, path),
        output.content.first_mut(),
    ) {
        block.text = format!("{}\n{name}", block.text);
    }
    Ok(output)
}

/// The result that shows the first of `lines`, within `limit` entries and `max_bytes`.
pub(crate) fn listing(mut lines: Vec<String>, limit: usize, max_bytes: usize) -> ToolOutput {
    if lines.is_empty() {
        return ToolOutput::text("(empty directory)");
    }
    let (mut details, mut notes) = (Map::new(), Vec::new());
    if lines.len() > limit {
        lines.truncate(limit);
        let more = limit.saturating_mul(2);
        notes.push(format!(
            "{limit} entries limit reached. Use limit={more} for more"
        ));
        details.insert("entryLimitReached".into(), json!(limit));
    }
    let kept = notices::truncate_bytes(&lines.join("\n"), max_bytes);
    let mut text = kept.content.clone();
    if kept.truncated {
        notes.push(notices::byte_limit_reached(max_bytes));
        details.insert("truncation".into(), json!(kept));
    }
    notices::append(&mut text, &notes);
    let output = ToolOutput::text(text);
    if details.is_empty() {
        output
    } else {
        output.with_details(Value::Object(details))
    }
}
