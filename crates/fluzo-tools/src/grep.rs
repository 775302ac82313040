//! The `grep` tool: searches file contents.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fluzo_agent::{Permit, Tool, ToolContext, ToolError};
use fluzo_exec::{
    GrepLine, GrepLineKind, GrepQuery, GrepReport, IGNORED_BOUND, LINE_BOUND, SearchError,
};
use fluzo_llm::{AbortSignal, BoxFuture, ToolOutput, ToolSpec};
use fluzo_policy::{Access, PathOperation};
use fluzo_stdx::truncate::cut_utf16;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::notices::{self, size};
use crate::searching::{HeadText, search};
use crate::{ToolEnv, ToolLimits, args, paths, shown};

/// Matches when the model names no limit.
const DEFAULT_LIMIT: usize = 100;
/// Most context lines; more than anybody reads.
const MAX_CONTEXT: usize = 10_000;
/// Mark after a line that was cut.
const CUT_MARK: &str = "... [truncated]";

/// Searches file contents below a folder, or one file. Aborting or dropping a call ends the
/// search soon.
pub struct GrepTool {
    env: Arc<ToolEnv>,
    spec: ToolSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Arguments {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    #[serde(default)]
    ignore_case: bool,
    #[serde(default)]
    literal: bool,
    context: Option<f64>,
    limit: Option<f64>,
}

impl GrepTool {
    /// The tool over `env`.
    pub fn new(env: Arc<ToolEnv>) -> Self {
        let spec = ToolSpec {
            name: "grep".into(),
            description: format!(
                "Search file contents for a pattern. Returns matching lines with paths and line \
                 numbers: at most {DEFAULT_LIMIT} matches or {}, lines cut at {} characters. \
                 Respects .gitignore.",
                size(env.limits.text.max_bytes),
                env.limits.grep_line,
            ),
            parameters: schema(),
        };
        Self { env, spec }
    }

    async fn run_call(
        &self,
        arguments: Arguments,
        root: PathBuf,
        abort: &AbortSignal,
    ) -> Result<ToolOutput, ToolError> {
        let limits = self.env.limits;
        let given = arguments.path.unwrap_or_else(|| ".".into());
        let query = GrepQuery {
            pattern: arguments.pattern,
            root: root.clone(),
            glob: arguments.glob.filter(|glob| !glob.is_empty()),
            ignore_case: arguments.ignore_case,
            literal: arguments.literal,
            limit: args::count(arguments.limit, DEFAULT_LIMIT),
            context: context(arguments.context),
        };
        search(&self.env, &given, &root, abort, move |tree, cancel| {
            let report = tree.grep(&query, cancel)?;
            result(&query, &report, limits, cancel)
        })
        .await
    }
}

impl Tool for GrepTool {
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
        Some("Search file contents (respects .gitignore)")
    }
}

fn context(lines: Option<f64>) -> usize {
    // The cast ends at zero and at the largest number.
    lines.map_or(0, |lines| (lines as usize).min(MAX_CONTEXT))
}

fn schema() -> Value {
    json!({
        "type": "object",
        "required": ["pattern"],
        "properties": {
            "pattern": {"type": "string", "description": "Regular expression or literal text"},
            "path": {"type": "string", "description": "Folder or file (default: working directory)"},
            "glob": {"type": "string", "description": "Only files like this, e.g. '*.ts'"},
            "ignoreCase": {"type": "boolean"},
            "literal": {"type": "boolean", "description": "Pattern is plain text"},
            "context": {"type": "number", "description": "Lines before and after each match (default: 0)"},
            "limit": {"type": "number", "description": "Most matches (default: 100)"},
        },
    })
}

fn result(
    query: &GrepQuery,
    report: &GrepReport,
    limits: ToolLimits,
    cancel: &AbortSignal,
) -> Result<ToolOutput, SearchError> {
    let mut page = Page {
        text: HeadText::new(limits.text.max_bytes),
        line_limit: limits.grep_line,
        cut_lines: false,
    };
    for file in report.lines.chunk_by(|a, b| a.path == b.path) {
        page.file(&query.root, file, query.context, cancel)?;
    }
    if page.text.is_empty() {
        return Ok(ToolOutput::text(notices::nothing(
            "No matches found",
            notices::hidden(report.ignored_files, IGNORED_BOUND, "searched"),
            report.unreadable,
        )));
    }
    let mut notes = Vec::new();
    let mut details = Map::new();
    if report.limit_reached {
        notes.push(notices::count_limit_reached(query.limit, "matches"));
        details.insert("matchLimitReached".into(), query.limit.into());
    }
    let truncation = page.text.truncate();
    if truncation.truncated {
        notes.push(notices::byte_limit_reached(truncation.max_bytes));
        let value = serde_json::to_value(&truncation).unwrap_or_default();
        details.insert("truncation".into(), value);
    }
    if page.cut_lines {
        notes.push(format!(
            "Some lines truncated to {} chars. Use read tool to see full lines",
            limits.grep_line
        ));
        details.insert("linesTruncated".into(), true.into());
    }
    notes.extend(notices::unreadable(report.unreadable));
    let mut text = truncation.content;
    notices::append(&mut text, &notes);
    Ok(ToolOutput {
        details: (!details.is_empty()).then(|| Value::Object(details)),
        ..ToolOutput::text(text)
    })
}

struct Page {
    text: HeadText,
    line_limit: usize,
    cut_lines: bool,
}

impl Page {
    /// Adds the lines of one file: each match with its own context, so that contexts which
    /// overlap are repeated.
    fn file(
        &mut self,
        root: &Path,
        lines: &[GrepLine],
        context: usize,
        cancel: &AbortSignal,
    ) -> Result<(), SearchError> {
        let Some(first) = lines.first() else {
            return Ok(());
        };
        let label = label(root, &first.path);
        let context = context as u64;
        for (at, line) in lines.iter().enumerate() {
            if line.kind != GrepLineKind::Match {
                continue;
            }
            if cancel.is_cancelled() {
                return Err(SearchError::Cancelled);
            }
            let from = lines[..at].partition_point(|near| near.line + context < line.line);
            let after = lines[at..].partition_point(|near| near.line <= line.line + context);
            for near in &lines[from..at + after] {
                let mark = if near.line == line.line { ":" } else { "-" };
                self.line(&label, mark, near);
            }
        }
        Ok(())
    }

    fn line(&mut self, label: &str, mark: &str, line: &GrepLine) {
        let text = String::from_utf8_lossy(&line.bytes);
        let (shown, cut) = cut_utf16(&text, self.line_limit);
        let cut = cut || line.bytes.len() >= LINE_BOUND;
        self.cut_lines |= cut;
        let number = line.line.to_string();
        let end = if cut { CUT_MARK } else { "" };
        self.text
            .push(&[label, mark, &number, mark, " ", shown, end]);
    }
}

/// The way from `root`, or the name of a file that is the root itself, fit for a line.
fn label(root: &Path, path: &Path) -> String {
    let way = match path.strip_prefix(root) {
        Ok(way) if !way.as_os_str().is_empty() => way.as_os_str(),
        _ => path.file_name().unwrap_or_default(),
    };
    shown::name(&way.to_string_lossy()).into_owned()
}
