//! File-system, search and process traits and their plain implementations; owner of `std::fs` and `Command`.
//!
//! What stands above reaches files and processes only through the traits here, so that confinement and remote execution
//! can take the place of the plain implementations. Linux is supported.

// The side doors that are closed everywhere else are what this crate is for.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod callback;
mod drain;
pub mod file_lock;
mod first_in_order;
pub mod fs;
mod grep_file;
pub mod local_fs;
pub mod local_processes;
pub mod local_search;
mod proc_tree;
pub mod process;
pub mod search;
mod session;
mod watcher;

pub use callback::CallbackListener;
pub use file_lock::{PathGuard, PathLocks};
pub use fs::{
    DirEntry, FileKind, FileMeta, FileSystem, ReadSeek, SpillFile, blocking, errno_name, errno_text,
};
pub use local_fs::LocalFileSystem;
pub use local_processes::{LocalProcesses, LocalProcessesConfig};
pub use local_search::{LocalSearch, LocalSearchConfig};
pub use process::{
    CALL_ID_VARIABLE, CommandSpec, EndedBy, Environment, ExitStatus, OutputSink, ProcessError,
    ProcessReport, ProcessRunner,
};
pub use search::{
    FindQuery, FindReport, FoundPath, GrepLine, GrepLineKind, GrepQuery, GrepReport, IGNORED_BOUND,
    LINE_BOUND, SearchError, TreeSearch,
};
