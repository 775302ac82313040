//! `edit`: exact replacements in one file.

use std::path::Path;
use std::sync::Arc;

use fluzo_agent::{Permit, Tool, ToolContext, ToolError};
use fluzo_exec::{FileKind, errno_name, errno_text};
use fluzo_llm::{BoxFuture, ToolOutput, ToolSpec};
use fluzo_policy::{Access, PathOperation};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::edit_apply::{Applied, apply};
use crate::edit_match::Edit;
use crate::{ToolEnv, args, file_change, paths, shown};

/// Files above this are not edited: their text is held in memory several times.
const MAX_BYTES: u64 = 512 << 20;

/// Replaces texts in one file. All edits of a call are found in the original and made at once
/// or not at all; bytes outside the matches stay.
pub struct EditTool {
    env: Arc<ToolEnv>,
    spec: ToolSpec,
}

#[derive(Deserialize)]
struct Arguments {
    path: String,
    edits: Vec<EditArgument>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EditArgument {
    old_text: String,
    new_text: String,
}

impl EditTool {
    /// The tool over `env`.
    pub fn new(env: Arc<ToolEnv>) -> Self {
        let text = json!({"type": "string"});
        let spec = ToolSpec {
            name: "edit".into(),
            description: "Replace exact text in one file. Each oldText must occur exactly once in the original file; edits must not overlap.".into(),
            parameters: json!({
                "type": "object",
                "required": ["path", "edits"],
                "properties": {
                    "path": {"type": "string"},
                    "edits": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["oldText", "newText"],
                            "properties": {"oldText": text, "newText": text},
                            "additionalProperties": false
                        }
                    }
                },
                "additionalProperties": false
            }),
        };
        Self { env, spec }
    }
}

impl Tool for EditTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn edits(&self) -> bool {
        true
    }

    fn prepare_arguments(&self, mut arguments: Value) -> Result<Value, ToolError> {
        args::rename("edit", &mut arguments, "file_path", "path")?;
        args::rename("edit", &mut arguments, "target_content", "oldText")?;
        args::rename("edit", &mut arguments, "replacement_content", "newText")?;
        parse_edits(&mut arguments)?;
        append_top_level(&mut arguments);
        Ok(arguments)
    }

    fn accesses(&self, arguments: &Value) -> Vec<Access> {
        let path = arguments
            .get("path")
            .and_then(Value::as_str)
            .unwrap_or_default();
        paths::access(&self.env, PathOperation::Write, path)
    }

    fn run(
        self: Arc<Self>,
        permit: Permit,
        context: ToolContext,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let path = paths::judged(&permit)?;
            let arguments: Arguments = args::parse(permit.redeem(&*self)?)?;
            if arguments.edits.is_empty() {
                return Err(ToolError::new(
                    "Edit tool input is invalid. edits must contain at least one replacement.",
                ));
            }
            let env = Arc::clone(&self.env);
            file_change::in_turn(env, path, &context, move |env, path| {
                edit_file(env, &path, &arguments)
            })
            .await
        })
    }

    fn prompt_snippet(&self) -> Option<&str> {
        Some("Replace exact text in a file, several places at once")
    }

    fn prompt_guidelines(&self) -> &[&str] {
        &[
            "Change files with edit; put all changes of one file in one call",
            "Keep oldText short but unique; it is matched against the original file",
        ]
    }
}

/// An `edits` that came as text is read as JSON.
fn parse_edits(arguments: &mut Value) -> Result<(), ToolError> {
    let Some(edits) = arguments.get_mut("edits") else {
        return Ok(());
    };
    let Value::String(text) = edits else {
        return Ok(());
    };
    let repaired = || {
        fluzo_llm::content::escape_controls(text).and_then(|text| serde_json::from_str(&text).ok())
    };
    match serde_json::from_str::<Value>(text).or_else(|error| repaired().ok_or(error)) {
        Ok(parsed) => {
            *edits = parsed;
            Ok(())
        }
        Err(error) => {
            let problem = format!("must be an array; this string is not valid JSON: {error}");
            Err(args::invalid("edit", "edits", &problem, arguments))
        }
    }
}

/// `oldText` and `newText` beside `edits` are one more edit.
fn append_top_level(arguments: &mut Value) {
    let Some(map) = arguments.as_object_mut() else {
        return;
    };
    let both = ["oldText", "newText"]
        .iter()
        .all(|key| map.get(*key).is_some_and(Value::is_string));
    if !both {
        return;
    }
    let (old, new) = (map.shift_remove("oldText"), map.shift_remove("newText"));
    let edit = json!({"oldText": old, "newText": new});
    match map.get_mut("edits") {
        Some(Value::Array(edits)) => edits.push(edit),
        Some(Value::Null) | None => {
            map.insert("edits".into(), json!([edit]));
        }
        Some(other) => *other = json!([other.take(), edit]),
    }
}

fn edit_file(env: &ToolEnv, path: &Path, arguments: &Arguments) -> Result<ToolOutput, ToolError> {
    let given = &arguments.path;
    let bytes = read_whole(env, path, given)?;
    let edits = arguments.edits.iter().map(|edit| Edit {
        old: edit.old_text.clone(),
        new: edit.new_text.clone(),
    });
    let edits: Vec<Edit> = edits.collect();
    let applied = apply(&bytes, given, edits).map_err(ToolError::new)?;
    let Some(Applied { bytes, details }) = applied else {
        let text = format!("No changes made to {given}: it is already in that state.");
        let details = json!({"diff": "", "patch": "", "changed": false});
        return Ok(ToolOutput::text(text).with_details(details));
    };
    env.fs
        .replace(path, &bytes)
        .map_err(|error| ToolError::new(not_editable(given, errno_name(&error))))?;
    let mut text = format!(
        "Successfully replaced {} block(s) in {given}.",
        arguments.edits.len()
    );
    if let Some(name) = paths::real_name(env, given, path) {
        text = format!("{text}\n{name}");
    }
    Ok(ToolOutput::text(text).with_details(details))
}

fn read_whole(env: &ToolEnv, path: &Path, given: &str) -> Result<Vec<u8>, ToolError> {
    env.fs.check_access(path, true, true).map_err(|error| {
        let text = not_editable(given, errno_name(&error));
        ToolError::new(match paths::ambiguity(env, given) {
            Some(names) => format!("{text}\n{names}"),
            None => text,
        })
    })?;
    let meta = env
        .fs
        .metadata(path)
        .map_err(|e| ToolError::new(not_editable(given, errno_name(&e))))?;
    if meta.kind == FileKind::File && meta.len > MAX_BYTES {
        return Err(ToolError::new(format!(
            "Could not edit file: {given}. It is larger than {}. Use bash, with sed for example.",
            fluzo_stdx::size::format_size(MAX_BYTES)
        )));
    }
    env.fs.read(path).map_err(|error| match errno_name(&error) {
        "EINVAL" | "UNKNOWN" => {
            ToolError::new(format!("Could not edit file: {given}. It is {error}."))
        }
        code => ToolError::new(format!("{code}: {}, read", errno_text(&error))),
    })
}

fn not_editable(given: &str, code: &str) -> String {
    let given = shown::bounded(given);
    format!("Could not edit file: {given}. Error code: {code}.")
}
