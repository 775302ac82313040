//! What stops a check before it can judge.

use std::path::{Path, PathBuf};

/// A reason why a check could not be made, as opposed to a finding of a check that was.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder could not be read or written.
    #[error("cannot access `{}`", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// `cargo metadata` failed or printed something unexpected.
    #[error("cannot read the output of `cargo metadata`: {0}")]
    Metadata(String),
    /// A file has content that its format does not allow.
    #[error("`{path}` is invalid: {reason}")]
    Format {
        /// The file, relative to the root.
        path: String,
        /// What is wrong, with the line where known.
        reason: String,
    },
    /// The command line names no known check.
    #[error("unknown command `{0}`")]
    Usage(String),
}

impl Error {
    /// An I/O error at `path`.
    pub fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            source,
        }
    }

    /// A format error in `path`, given relative to the root.
    pub fn format(path: &str, reason: impl ToString) -> Self {
        Self::Format {
            path: path.to_owned(),
            reason: reason.to_string(),
        }
    }
}
