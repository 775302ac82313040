//! Context files: what projects and users tell every agent that works in a folder.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use fluzo_stdx::size::format_size;

use crate::diagnostic::{Diagnostic, ResourceKind};
use crate::reading::{error_text, read_start};
use crate::sources::Sources;

/// The names in a folder; the first that can be read counts.
const NAMES: [&str; 5] = [
    "AGENTS.override.md",
    "AGENTS.md",
    "AGENTS.MD",
    "CLAUDE.md",
    "CLAUDE.MD",
];

/// A context file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextFile {
    /// Where it is, absolute.
    pub path: PathBuf,
    /// Its text, or the beginning of it with a note.
    pub content: String,
}

/// The context file of the agent folder, then those from the root of the file system down to the working folder. A file that
/// several names lead to is there once.
pub(crate) fn load(sources: &Sources, diagnostics: &mut Vec<Diagnostic>) -> Vec<ContextFile> {
    if !sources.discover.context_files {
        return Vec::new();
    }
    let mut folders: Vec<&Path> = sources.cwd.ancestors().collect();
    folders.push(&sources.agent_folder);
    let mut seen = HashSet::new();
    let found = folders.into_iter().rev();
    found
        .filter_map(|folder| of_folder(folder, sources, &mut seen, diagnostics))
        .collect()
}

fn of_folder(
    folder: &Path,
    sources: &Sources,
    seen: &mut HashSet<PathBuf>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<ContextFile> {
    for name in NAMES {
        let path = folder.join(name);
        match bounded(&path, ResourceKind::Context, sources, diagnostics) {
            Ok(content) => {
                let real = sources.files.canonicalize(&path);
                let new = seen.insert(real.unwrap_or_else(|_| path.clone()));
                return new.then_some(ContextFile { path, content });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => diagnostics.push(Diagnostic::warning(
                ResourceKind::Context,
                &path,
                format!("Could not read {}: {}", path.display(), error_text(&error)),
            )),
        }
    }
    None
}

/// The text of a file that goes into the system prompt. What is beyond the limit is cut off; the text and a diagnostic say so.
pub(crate) fn bounded(
    path: &Path,
    kind: ResourceKind,
    sources: &Sources,
    diagnostics: &mut Vec<Diagnostic>,
) -> io::Result<String> {
    let limit = sources.limits.context_bytes;
    let read = read_start(&*sources.files, path, limit)?;
    if !read.cut {
        return Ok(read.text);
    }
    let length = sources.files.metadata(path).map_or(limit, |meta| meta.len);
    let (limit, length) = (format_size(limit), format_size(length));
    diagnostics.push(Diagnostic::warning(
        kind,
        path,
        format!(
            "{} is {length} long, and only its first {limit} are used: shorten it, or move what is needed seldom into a skill",
            path.display()
        ),
    ));
    Ok(format!(
        "{}\n\n[Only the first {limit} of {length} are shown]",
        read.text
    ))
}

/// The block of the system prompt that holds `files`; empty without any. Neither paths nor texts are escaped.
pub fn project_context(files: &[ContextFile]) -> String {
    if files.is_empty() {
        return String::new();
    }
    let mut block =
        "\n\n<project_context>\n\nProject-specific instructions and guidelines:\n\n".to_owned();
    for file in files {
        block.push_str("<project_instructions path=\"");
        block.push_str(&file.path.to_string_lossy());
        block.push_str("\">\n");
        block.push_str(&file.content);
        block.push_str("\n</project_instructions>\n\n");
    }
    block.push_str("</project_context>\n");
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_is_not_escaped() {
        let file = |path: &str, content: &str| ContextFile {
            path: PathBuf::from(path),
            content: content.to_owned(),
        };
        assert_eq!(project_context(&[]), "");
        assert_eq!(
            project_context(&[file("/a&b/AGENTS.md", "<x> & \"y\""), file("/c", "d\n")]),
            "\n\n<project_context>\n\nProject-specific instructions and guidelines:\n\n<project_instructions path=\"/a&b/AGENTS.md\">\n<x> & \"y\"\n</project_instructions>\n\n<project_instructions path=\"/c\">\nd\n\n</project_instructions>\n\n</project_context>\n"
        );
    }
}
