//! The `bash` tool: runs a shell command and gives back the end of what it prints.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fluzo_agent::{Permit, Tool, ToolContext, ToolError};
use fluzo_exec::{CommandSpec, EndedBy, ExitStatus, ProcessError, ProcessReport, errno_text};
use fluzo_llm::{BoxFuture, ToolOutput, ToolSpec};
use fluzo_policy::Access;
use fluzo_stdx::size::format_size;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::bash_live;
use crate::bash_output::{Saved, Snapshot};
use crate::notices::size;
use crate::{ToolEnv, args};

/// Runs shell commands. Each call is a new shell in the session's working folder, with empty
/// input and without terminal. Abort, timeout and dropping the call end the whole process
/// tree; what a command leaves in the background by itself is named and left alone.
pub struct BashTool {
    env: Arc<ToolEnv>,
    spec: ToolSpec,
}

#[derive(Deserialize)]
struct Arguments {
    command: String,
    timeout: Option<f64>,
}

impl BashTool {
    /// The tool over `env`.
    pub fn new(env: Arc<ToolEnv>) -> Self {
        let limits = env.limits.text;
        let spec = ToolSpec {
            name: "bash".into(),
            description: format!(
                "Run a bash command. Returns stdout and stderr: the last {} lines or {}; longer \
                 output is kept in a file named in the result. Each command starts in the working \
                 directory; `cd` and variables do not persist.",
                limits.max_lines,
                size(limits.max_bytes),
            ),
            parameters: json!({
                "type": "object",
                "required": ["command"],
                "properties": {
                    "command": {"type": "string"},
                    "timeout": {"type": "number", "description": "Seconds; none by default"},
                },
            }),
        };
        Self { env, spec }
    }

    async fn run_call(
        &self,
        arguments: Arguments,
        context: ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        if context.abort.is_cancelled() {
            return Err(ToolError::new("Operation aborted"));
        }
        let env = &*self.env;
        let spec = CommandSpec {
            timeout: arguments.timeout.and_then(time_limit),
            ..env.shell_command(&arguments.command)
        };
        let show = |partial| context.updates.send(partial);
        let (report, snapshot) = bash_live::run(env, spec, context.abort.clone(), &show)
            .await
            .map_err(|error| ToolError::new(not_run(&error)))?;
        conclude(&report, snapshot, arguments.timeout)
    }
}

impl Tool for BashTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn accesses(&self, arguments: &Value) -> Vec<Access> {
        match arguments.get("command").and_then(Value::as_str) {
            Some(command) => vec![Access::Command {
                command: command.to_owned(),
                cwd: self.env.cwd.clone(),
            }],
            None => vec![Access::Anything],
        }
    }

    fn run(
        self: Arc<Self>,
        permit: Permit,
        context: ToolContext,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let arguments = args::parse(permit.redeem(&*self)?)?;
            self.run_call(arguments, context).await
        })
    }

    fn prompt_snippet(&self) -> Option<&str> {
        Some("Run shell commands")
    }
}

/// The limit that `seconds` asks for. Zero, less, and more than a duration can hold set none.
fn time_limit(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|limit| !limit.is_zero())
}

fn conclude(
    report: &ProcessReport,
    snapshot: Snapshot,
    timeout: Option<f64>,
) -> Result<ToolOutput, ToolError> {
    let mut details = bash_live::details(&snapshot);
    let notice = truncation_notice(&snapshot);
    let mut text = snapshot.truncation.content;
    if text.is_empty() && report.ended_by == EndedBy::Itself {
        text.push_str("(no output)");
    }
    text.push_str(&notice.unwrap_or_default());
    let failure = failure(report, timeout);
    if let Some(status) = &failure {
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(status);
    }
    name_background(&report.background, &mut text, &mut details);
    let details = (!details.is_empty()).then(|| Value::Object(details));
    match failure {
        None => Ok(ToolOutput {
            details,
            ..ToolOutput::text(text)
        }),
        Some(_) => Err(ToolError {
            message: text,
            details,
        }),
    }
}

/// The line about a command that did not succeed.
fn failure(report: &ProcessReport, timeout: Option<f64>) -> Option<String> {
    match (report.ended_by, report.status) {
        (EndedBy::Timeout, _) => {
            let seconds = timeout.unwrap_or_default();
            Some(format!("Command timed out after {seconds} seconds"))
        }
        (EndedBy::Abort, _) => Some("Command aborted".into()),
        (EndedBy::Itself, Some(ExitStatus::Code(0))) => None,
        (EndedBy::Itself, Some(ExitStatus::Code(code))) => {
            Some(format!("Command exited with code {code}"))
        }
        (EndedBy::Itself, Some(ExitStatus::Signal(signal))) => {
            Some(format!("Command terminated by signal {signal}"))
        }
        (EndedBy::Itself, None) => Some("Command ended with an unknown exit code".into()),
    }
}

fn truncation_notice(snapshot: &Snapshot) -> Option<String> {
    let t = &snapshot.truncation;
    if !t.truncated {
        return None;
    }
    let last = t.total_lines;
    let shown = if t.last_line_partial {
        let (part, line) = (size(t.output_bytes), size(snapshot.last_line));
        format!("Showing last {part} of line {last} (line is {line})")
    } else {
        let first = last + 1 - t.output_lines;
        let limit = match t.truncated_by {
            Some(fluzo_stdx::truncate::TruncatedBy::Bytes) => {
                format!(" ({} limit)", size(t.max_bytes))
            }
            _ => String::new(),
        };
        format!("Showing lines {first}-{last} of {last}{limit}")
    };
    Some(format!("\n\n[{shown}{}]", whole_output(&snapshot.saved)))
}

fn whole_output(saved: &Saved) -> String {
    match saved {
        Saved::Nowhere => String::new(),
        Saved::Whole(path) => format!(". Full output: {}", path.display()),
        Saved::First(path, kept) => {
            let kept = format_size(*kept);
            format!(". Full output (first {kept}): {}", path.display())
        }
        Saved::Failed(reason) => format!(". Full output not kept: {reason}"),
    }
}

fn name_background(pids: &[u32], text: &mut String, details: &mut Map<String, Value>) {
    if pids.is_empty() {
        return;
    }
    add_background_lines(pids, text);
    details.insert("background".into(), pids.into());
}

/// Adds a line for each process that a command left running.
pub(crate) fn add_background_lines(pids: &[u32], text: &mut String) {
    for pid in pids {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&format!("[Background process {pid} still running]"));
    }
}

/// Why a command could not be run, for who asked for it.
pub(crate) fn not_run(error: &ProcessError) -> String {
    match error {
        ProcessError::MissingCwd { cwd } => format!(
            "Working directory does not exist: {}\nCannot execute bash commands.",
            cwd.display()
        ),
        ProcessError::Spawn { program, source } => not_started(program, source),
        ProcessError::Watcher { shell, source } => not_started(shell, source),
        ProcessError::Io { program, source } => {
            format!("Lost contact with {}: {source}", program.display())
        }
    }
}

fn not_started(program: &Path, source: &std::io::Error) -> String {
    use std::io::ErrorKind;
    let program = program.display();
    match source.kind() {
        ErrorKind::NotFound => format!("Custom shell path not found: {program}"),
        ErrorKind::ArgumentListTooLong => format!(
            "Failed to run {program}: the command is too long. Write it to a file and run that."
        ),
        ErrorKind::InvalidInput => format!("Failed to run {program}: {source}"),
        _ => format!("Failed to run {program}: {}", errno_text(source)),
    }
}
