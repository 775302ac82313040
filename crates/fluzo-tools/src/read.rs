//! `read`: a text file, an image, or what is in a folder.

use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use fluzo_agent::{Permit, Tool, ToolContext, ToolError};
use fluzo_exec::{FileKind, ReadSeek, SearchError, blocking, errno_name, errno_text};
use fluzo_llm::{AbortSignal, BoxFuture, Content, ToolOutput, ToolSpec};
use fluzo_policy::{Access, PathOperation};
use fluzo_stdx::truncate::{TruncatedBy, Truncation, truncate_head};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::image_block::SendLimits;
use crate::image_kind::{ImageKind, kind_of};
use crate::ls::{DEFAULT_ENTRIES, listing};
use crate::notices::size;
use crate::read_lines::{Lines, Window, read_lines};
use crate::text_form::TextForm;
use crate::{ToolEnv, args, image_block, name_order, paths, shown};

/// Bytes from the start of a file that tell what it is.
pub(crate) const HEAD: usize = 4100;
/// Levels shown of a folder.
const LEVELS: usize = 2;

/// Reads text by lines without holding more of it than is shown, images scaled to what
/// providers take, and folders as a list of two levels. Aborting ends a long read soon.
pub struct ReadTool {
    env: Arc<ToolEnv>,
    spec: ToolSpec,
}

#[derive(Deserialize)]
struct Arguments {
    path: String,
    offset: Option<f64>,
    limit: Option<f64>,
}

impl ReadTool {
    /// The tool over `env`.
    pub fn new(env: Arc<ToolEnv>) -> Self {
        let limits = env.limits.text;
        let spec = ToolSpec {
            name: "read".into(),
            description: format!(
                "Read a text file, an image (jpg, png, gif, webp) or a folder listing. Text is cut to {} lines or {}: go on with offset and limit.",
                limits.max_lines,
                size(limits.max_bytes)
            ),
            parameters: json!({
                "type": "object",
                "required": ["path"],
                "properties": {
                    "path": {"type": "string"},
                    "offset": {"type": "number", "description": "First line, from 1"},
                    "limit": {"type": "number", "description": "Most lines"}
                }
            }),
        };
        Self { env, spec }
    }
}

impl Tool for ReadTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare_arguments(&self, mut arguments: Value) -> Result<Value, ToolError> {
        args::rename("read", &mut arguments, "file_path", "path")?;
        line_range(&mut arguments)?;
        Ok(arguments)
    }

    fn accesses(&self, arguments: &Value) -> Vec<Access> {
        let path = arguments
            .get("path")
            .and_then(Value::as_str)
            .unwrap_or_default();
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
            // The work cannot be cancelled from outside, so it is told when its call is gone.
            let gone = context.abort.child_token();
            let told = gone.clone().drop_guard();
            let work = blocking(move || {
                let reading = Reading {
                    env: &self.env,
                    path: &path,
                    arguments: &arguments,
                    abort: &gone,
                };
                reading.run()
            });
            let result = work
                .await
                .map_err(|error| ToolError::new(error.to_string()))?;
            drop(told);
            result
        })
    }

    fn prompt_snippet(&self) -> Option<&str> {
        Some("Read files, images and folders")
    }

    fn prompt_guidelines(&self) -> &[&str] {
        &["Use read to look at files instead of cat or sed"]
    }
}

/// `start_line` and `end_line` become `offset` and `limit`.
fn line_range(arguments: &mut Value) -> Result<(), ToolError> {
    let received = arguments.clone();
    args::rename("read", arguments, "start_line", "offset")?;
    let Some(map) = arguments.as_object_mut() else {
        return Ok(());
    };
    let Some(end) = map.shift_remove("end_line") else {
        return Ok(());
    };
    let number = |value: &Value| match value {
        Value::String(text) => text.trim().parse().ok(),
        value => value.as_f64(),
    };
    let invalid = |problem| Err(args::invalid("read", "end_line", problem, &received));
    let Some(last) = number(&end) else {
        return invalid("must be number");
    };
    let first = map.get("offset").and_then(number).unwrap_or(1.0).max(1.0);
    let limit = last - first + 1.0;
    if limit < 1.0 {
        return invalid("must not be before the first line");
    }
    match map.get("limit") {
        Some(given) if number(given) != Some(limit) => invalid("must not differ from limit"),
        _ => {
            map.insert("limit".into(), json!(limit));
            Ok(())
        }
    }
}

/// One call.
struct Reading<'a> {
    env: &'a ToolEnv,
    path: &'a Path,
    arguments: &'a Arguments,
    abort: &'a AbortSignal,
}

impl Reading<'_> {
    fn run(&self) -> Result<ToolOutput, ToolError> {
        if self.abort.is_cancelled() {
            return Err(aborted());
        }
        let fs = &self.env.fs;
        fs.check_access(self.path, true, false)
            .map_err(|error| self.no_access(&error))?;
        let meta = fs
            .metadata(self.path)
            .map_err(|error| self.no_access(&error))?;
        let mut output = if meta.kind == FileKind::Directory {
            self.folder()
        } else {
            self.file()
        }?;
        let name = paths::real_name(self.env, &self.arguments.path, self.path);
        if let Some(name) = name {
            output.content.insert(0, Content::text(format!("{name}\n")));
        }
        Ok(output)
    }

    fn file(&self) -> Result<ToolOutput, ToolError> {
        let mut file = self
            .env
            .fs
            .open(self.path)
            .map_err(|error| self.unreadable(&error))?;
        let mut head = Vec::with_capacity(HEAD);
        let begin = file.by_ref().take(HEAD as u64).read_to_end(&mut head);
        begin.map_err(|error| self.unreadable(&error))?;
        match kind_of(&head) {
            Some(ImageKind::Sent(mime)) => self.image(head, file, mime),
            Some(ImageKind::Refused(name)) => Err(ToolError::new(format!(
                "Cannot read {}: {name} images are not supported. Convert it to PNG or JPEG, with bash for example.",
                shown::bounded(&self.arguments.path)
            ))),
            None => self.text(head, file),
        }
    }

    fn text(&self, head: Vec<u8>, file: Box<dyn ReadSeek>) -> Result<ToolOutput, ToolError> {
        let bytes_are_text = matches!(TextForm::of(&head), TextForm::Utf8 { .. });
        if bytes_are_text && memchr::memchr(0, &head).is_some() {
            return Err(self.binary());
        }
        let skip = args::count(self.arguments.offset, 1) - 1;
        let take = args::count(self.arguments.limit, usize::MAX);
        let keep = self.env.limits.text;
        let lines = read_lines(head, file, Window { skip, take, keep }, || {
            self.abort.is_cancelled()
        });
        let lines = lines
            .map_err(|error| self.unreadable(&error))?
            .ok_or_else(aborted)?;
        if skip > 0 && skip >= lines.total {
            return Err(ToolError::new(format!(
                "Offset {} is beyond end of file ({} lines total)",
                skip + 1,
                lines.total
            )));
        }
        if lines.has_nul {
            return Err(self.binary());
        }
        Ok(self.shown(&lines, skip))
    }

    fn binary(&self) -> ToolError {
        ToolError::new(format!(
            "Cannot read {}: it has NUL bytes, so it is a binary file. Use bash, with file, strings or xxd for example.",
            shown::bounded(&self.arguments.path)
        ))
    }

    fn shown(&self, lines: &Lines, skip: usize) -> ToolOutput {
        let limits = self.env.limits.text;
        let kept = String::from_utf8_lossy(&lines.kept);
        let mut cut = truncate_head(&kept, limits);
        let first = skip + 1;
        if !cut.truncated {
            let next = skip + lines.wanted;
            let left = lines.total.saturating_sub(next);
            let mut text = cut.content;
            if left > 0 {
                text.push_str(&format!(
                    "\n\n[{left} more lines in file. Use offset={} to continue.]",
                    next + 1
                ));
            }
            return ToolOutput::text(text);
        }
        (cut.total_lines, cut.total_bytes) = (lines.wanted, lines.wanted_bytes);
        let text = self.cut_text(&cut, lines, first);
        ToolOutput::text(text).with_details(json!({"truncation": cut}))
    }

    fn cut_text(&self, cut: &Truncation, lines: &Lines, first: usize) -> String {
        let max_bytes = self.env.limits.text.max_bytes;
        let limit = size(max_bytes);
        if cut.first_line_exceeds_limit {
            return format!(
                "[Line {first} is {}, exceeds {limit} limit. Use bash: sed -n '{first}p' {} | head -c {max_bytes}]",
                size(lines.first_bytes),
                self.arguments.path
            );
        }
        let last = first + cut.output_lines - 1;
        let by = match cut.truncated_by {
            Some(TruncatedBy::Bytes) => format!(" ({limit} limit)"),
            _ => String::new(),
        };
        format!(
            "{}\n\n[Showing lines {first}-{last} of {}{by}. Use offset={} to continue.]",
            cut.content,
            lines.total,
            last + 1
        )
    }

    fn image(
        &self,
        mut bytes: Vec<u8>,
        file: Box<dyn ReadSeek>,
        mime: &'static str,
    ) -> Result<ToolOutput, ToolError> {
        let limit = image_block::MAX_FILE_BYTES;
        let rest = file.take(limit).read_to_end(&mut bytes);
        rest.map_err(|error| self.unreadable(&error))?;
        if self.abort.is_cancelled() {
            return Err(aborted());
        }
        let limits = self.env.resize_images.then_some(SendLimits::COMMON);
        let block = image_block::prepare(bytes, mime, limits);
        Ok(image_block::output(mime, block, self.env.takes_images()))
    }

    fn folder(&self) -> Result<ToolOutput, ToolError> {
        let skip = args::count(self.arguments.offset, 1) - 1;
        let limit = args::count(self.arguments.limit, DEFAULT_ENTRIES);
        let compare =
            |a: &OsStr, b: &OsStr| name_order::compare(&a.to_string_lossy(), &b.to_string_lossy());
        let most = skip.saturating_add(limit).saturating_add(1);
        let report = self
            .env
            .search
            .list(self.path, LEVELS, most, compare, self.abort);
        let report = report.map_err(|error| match error {
            SearchError::Root { source, .. } => self.unreadable(&source),
            SearchError::Cancelled => aborted(),
            other => ToolError::new(other.to_string()),
        })?;
        let lines = report.paths.iter().skip(skip).map(|found| {
            let depth = found.relative.components().count() - 1;
            let name = found
                .relative
                .file_name()
                .unwrap_or_default()
                .to_string_lossy();
            let slash = if found.is_dir { "/" } else { "" };
            format!("{}{}{slash}", "  ".repeat(depth), shown::name(&name))
        });
        Ok(listing(
            lines.collect(),
            limit,
            self.env.limits.text.max_bytes,
        ))
    }

    fn no_access(&self, error: &std::io::Error) -> ToolError {
        let mut text = system_text(error, "access", self.path);
        if let Some(names) = paths::ambiguity(self.env, &self.arguments.path) {
            text = format!("{text}\n{names}");
        }
        ToolError::new(text)
    }

    fn unreadable(&self, error: &std::io::Error) -> ToolError {
        match errno_name(error) {
            // The reason is in the error's own text: a pipe or a device.
            "EINVAL" | "UNKNOWN" => {
                let given = shown::bounded(&self.arguments.path);
                ToolError::new(format!("Cannot read {given}: {error}"))
            }
            _ => ToolError::new(system_text(error, "open", self.path)),
        }
    }
}

fn aborted() -> ToolError {
    ToolError::new("Operation aborted")
}

fn system_text(error: &std::io::Error, call: &str, path: &Path) -> String {
    format!(
        "{}: {}, {call} '{}'",
        errno_name(error),
        errno_text(error),
        shown::path(path)
    )
}
