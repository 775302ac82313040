//! The `find` tool: finds files and folders by name.

use std::path::PathBuf;
use std::sync::Arc;

use fluzo_agent::{Permit, Tool, ToolContext, ToolError};
use fluzo_exec::{FindQuery, FindReport, FoundPath, IGNORED_BOUND};
use fluzo_llm::{AbortSignal, BoxFuture, ToolOutput, ToolSpec};
use fluzo_policy::{Access, PathOperation};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::notices::{self, size};
use crate::searching::{HeadText, search};
use crate::{ToolEnv, args, paths, shown};

/// Results when the model names no limit.
const DEFAULT_LIMIT: usize = 1000;

/// Finds files and folders below a folder by a glob. Aborting or dropping a call ends the
/// search soon.
pub struct FindTool {
    env: Arc<ToolEnv>,
    spec: ToolSpec,
}

#[derive(Deserialize)]
struct Arguments {
    pattern: String,
    path: Option<String>,
    limit: Option<f64>,
}

impl FindTool {
    /// The tool over `env`.
    pub fn new(env: Arc<ToolEnv>) -> Self {
        let spec = ToolSpec {
            name: "find".into(),
            description: format!(
                "Find files and folders by a glob pattern. Returns paths relative to the searched \
                 folder: at most {DEFAULT_LIMIT} results or {}. Respects .gitignore.",
                size(env.limits.text.max_bytes),
            ),
            parameters: json!({
                "type": "object",
                "required": ["pattern"],
                "properties": {
                    "pattern": {"type": "string", "description": "Glob, e.g. '*.ts' or 'src/**/*.rs'"},
                    "path": {"type": "string", "description": "Folder (default: working directory)"},
                    "limit": {"type": "number", "description": "Most results (default: 1000)"},
                },
            }),
        };
        Self { env, spec }
    }

    async fn run_call(
        &self,
        arguments: Arguments,
        root: PathBuf,
        abort: &AbortSignal,
    ) -> Result<ToolOutput, ToolError> {
        let max_bytes = self.env.limits.text.max_bytes;
        let given = arguments.path.unwrap_or_else(|| ".".into());
        let query = FindQuery {
            pattern: arguments.pattern,
            root: root.clone(),
            limit: args::count(arguments.limit, DEFAULT_LIMIT),
        };
        search(&self.env, &given, &root, abort, move |tree, cancel| {
            let report = tree.find(&query, cancel)?;
            Ok(result(&query, &report, max_bytes))
        })
        .await
    }
}

impl Tool for FindTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn accesses(&self, arguments: &Value) -> Vec<Access> {
        let given = arguments.get("path").and_then(Value::as_str);
        paths::access(&self.env, PathOperation::Search, given.unwrap_or("."))
    }

    fn run(
        self: Arc<Self>,
        permit: Permit,
        context: ToolContext,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let root = paths::judged(&permit)?;
            let arguments = args::parse(permit.redeem(&*self)?)?;
            self.run_call(arguments, root, &context.abort).await
        })
    }

    fn prompt_snippet(&self) -> Option<&str> {
        Some("Find files by glob pattern (respects .gitignore)")
    }
}

fn result(query: &FindQuery, report: &FindReport, max_bytes: usize) -> ToolOutput {
    let mut page = HeadText::new(max_bytes);
    for FoundPath { relative, is_dir } in &report.paths {
        let name = relative.to_string_lossy();
        page.push(&[&shown::name(&name), if *is_dir { "/" } else { "" }]);
    }
    if page.is_empty() {
        return ToolOutput::text(notices::nothing(
            "No files found matching pattern",
            notices::hidden(report.ignored_files, IGNORED_BOUND, "listed"),
            report.unreadable,
        ));
    }
    let mut notes = Vec::new();
    let mut details = Map::new();
    if report.limit_reached {
        notes.push(notices::count_limit_reached(query.limit, "results"));
        details.insert("resultLimitReached".into(), query.limit.into());
    }
    let truncation = page.truncate();
    if truncation.truncated {
        notes.push(notices::byte_limit_reached(max_bytes));
        let value = serde_json::to_value(&truncation).unwrap_or_default();
        details.insert("truncation".into(), value);
    }
    notes.extend(notices::unreadable(report.unreadable));
    let mut text = truncation.content;
    notices::append(&mut text, &notes);
    ToolOutput {
        details: (!details.is_empty()).then(|| Value::Object(details)),
        ..ToolOutput::text(text)
    }
}
