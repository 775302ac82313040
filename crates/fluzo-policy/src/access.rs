//! Accesses: what a tool call touches, stated before it runs.

use std::path::PathBuf;

use serde::Serialize;

/// One thing that a tool call touches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Access {
    /// A file or folder.
    Path {
        /// What is done to it.
        operation: PathOperation,
        /// Absolute path, not yet resolved through links.
        path: PathBuf,
    },
    /// A shell command.
    Command {
        /// The text given to the shell.
        command: String,
        /// Working folder.
        cwd: PathBuf,
    },
    /// A network host.
    Host {
        /// Name or address, with port when known.
        host: String,
    },
    /// Anything at all: the tool cannot say.
    Anything,
}

/// What is done to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PathOperation {
    /// Read a file or list a folder.
    Read,
    /// Search below a folder.
    Search,
    /// Create or change a file, with missing folders.
    Write,
}
