//! SYSTEM.md and APPEND_SYSTEM.md: files in the place of flags for the system prompt.

use std::io;
use std::path::PathBuf;

use crate::context_files::bounded;
use crate::diagnostic::{Diagnostic, ResourceKind};
use crate::reading::error_text;
use crate::sources::Sources;

/// Replaces the default system prompt.
pub(crate) const SYSTEM: &str = "SYSTEM.md";
/// Is put after the system prompt.
pub(crate) const APPEND: &str = "APPEND_SYSTEM.md";

/// A file for the system prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptFile {
    /// Where it is, absolute.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
}

/// The file of that name that counts: the project's when it is trusted, else that of the agent folder.
pub(crate) fn load(
    name: &str,
    sources: &Sources,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<PromptFile> {
    let project = sources.trusted.then(|| sources.project_folder());
    let folders = project.into_iter().chain([sources.agent_folder.clone()]);
    for path in folders.map(|folder| folder.join(name)) {
        match bounded(&path, ResourceKind::System, sources, diagnostics) {
            Ok(text) => return Some(PromptFile { path, text }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => diagnostics.push(Diagnostic::warning(
                ResourceKind::System,
                &path,
                format!(
                    "Could not read system prompt file {}: {}",
                    path.display(),
                    error_text(&error)
                ),
            )),
        }
    }
    None
}
