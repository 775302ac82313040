//! `write`: a whole new file, or a whole new content of one.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use fluzo_agent::{Permit, Tool, ToolContext, ToolError};
use fluzo_exec::{errno_name, errno_text};
use fluzo_llm::{BoxFuture, ToolOutput, ToolSpec};
use fluzo_policy::Access;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::text_form::UTF8_MARK;
use crate::{ToolEnv, args, file_change, paths, shown};

/// Writes whole files, with the folders they need. A file that exists keeps its mode and its
/// byte-order mark.
pub struct WriteTool {
    env: Arc<ToolEnv>,
    spec: ToolSpec,
}

#[derive(Deserialize)]
struct Arguments {
    path: String,
    content: String,
}

impl WriteTool {
    /// The tool over `env`.
    pub fn new(env: Arc<ToolEnv>) -> Self {
        let spec = ToolSpec {
            name: "write".into(),
            description: "Create or overwrite a file, with missing parent folders. For small changes of an existing file use edit.".into(),
            parameters: json!({
                "type": "object",
                "required": ["path", "content"],
                "properties": {"path": {"type": "string"}, "content": {"type": "string"}}
            }),
        };
        Self { env, spec }
    }
}

impl Tool for WriteTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare_arguments(&self, mut arguments: Value) -> Result<Value, ToolError> {
        args::rename("write", &mut arguments, "file_path", "path")?;
        Ok(arguments)
    }

    fn accesses(&self, arguments: &Value) -> Vec<Access> {
        let path = arguments
            .get("path")
            .and_then(Value::as_str)
            .unwrap_or_default();
        paths::access_to_make(&self.env, path)
    }

    fn run(
        self: Arc<Self>,
        permit: Permit,
        context: ToolContext,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let path = paths::judged(&permit)?;
            let arguments: Arguments = args::parse(permit.redeem(&*self)?)?;
            let env = Arc::clone(&self.env);
            file_change::in_turn(env, path, &context, move |env, path| {
                write_file(env, &path, &arguments)
            })
            .await
        })
    }

    fn prompt_snippet(&self) -> Option<&str> {
        Some("Create or overwrite a file")
    }

    fn prompt_guidelines(&self) -> &[&str] {
        &["Use write only for new files and complete rewrites, edit for small changes"]
    }
}

fn write_file(env: &ToolEnv, path: &Path, arguments: &Arguments) -> Result<ToolOutput, ToolError> {
    let folder = path.parent().unwrap_or(path);
    env.fs
        .create_dir_all(folder)
        .map_err(|error| failed(&error, "mkdir", folder))?;
    let content = arguments.content.as_bytes();
    let result = if has_mark(env, path) && !content.starts_with(UTF8_MARK) {
        env.fs.replace(path, &[UTF8_MARK, content].concat())
    } else {
        env.fs.replace(path, content)
    };
    result.map_err(|error| failed(&error, "open", path))?;
    let units = arguments.content.encode_utf16().count();
    Ok(ToolOutput::text(format!(
        "Successfully wrote {units} bytes to {}",
        arguments.path
    )))
}

fn has_mark(env: &ToolEnv, path: &Path) -> bool {
    let mut head = [0; 3];
    let file = env.fs.open(path);
    file.and_then(|mut file| file.read_exact(&mut head)).is_ok() && head == UTF8_MARK
}

fn failed(error: &std::io::Error, call: &str, path: &Path) -> ToolError {
    let (name, text) = (errno_name(error), errno_text(error));
    ToolError::new(format!("{name}: {text}, {call} '{}'", shown::path(path)))
}
