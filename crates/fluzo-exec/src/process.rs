//! Running a command: one object-safe trait and its value types.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use futures_core::future::BoxFuture;
use tokio_util::sync::CancellationToken;

/// Name of the variable that marks every process of a call, so that the tree is found again whatever it does to its groups
/// and sessions. Its value means nothing to the command.
pub const CALL_ID_VARIABLE: &str = "FLUZO_CALL_ID";

/// What to run.
#[derive(Clone, Debug)]
pub struct CommandSpec {
    /// Absolute path of the program, `/bin/bash` for one.
    pub program: PathBuf,
    /// Its arguments, the program's own name apart.
    pub args: Vec<OsString>,
    /// Working directory; must exist.
    pub cwd: PathBuf,
    /// Environment of the command; [`CALL_ID_VARIABLE`] is always added to it.
    pub env: Environment,
    /// Longest run time, measured from the start; `None` sets no limit.
    pub timeout: Option<Duration>,
}

/// Environment of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Environment {
    /// The environment of this process with changes.
    Inherit {
        /// Variables to set or replace.
        set: Vec<(OsString, OsString)>,
        /// Directory to put at the front of `PATH` unless it is in there already.
        path_prefix: Option<PathBuf>,
    },
    /// These variables and no others.
    Exact(Vec<(OsString, OsString)>),
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// It exited with this code.
    Code(i32),
    /// A signal of this number killed it.
    Signal(i32),
}

/// What brought the call to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedBy {
    /// The command ended by itself.
    Itself,
    /// Its time was over; the whole tree was killed.
    Timeout,
    /// The token was cancelled; the whole tree was killed.
    Abort,
}

/// Outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessReport {
    /// How the command itself ended; `None` when it never started, or died too slowly to be waited for.
    pub status: Option<ExitStatus>,
    /// What brought the call to its end.
    pub ended_by: EndedBy,
    /// Process ids of what the command left running, in ascending order. Of a tree left behind only its top is named.
    pub background: Vec<u32>,
}

/// Receives the output of a command.
pub trait OutputSink: Send {
    /// Takes the next bytes of standard output and standard error, merged in the order of arrival. A chunk may end inside a
    /// character. Called on the task that runs the command, so it must not wait; what it keeps is its own to bound.
    fn write(&mut self, chunk: &[u8]);
}

/// Why a command could not be run.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The working directory is missing or no directory. Nothing was started.
    #[error("working directory `{}` does not exist", cwd.display())]
    MissingCwd {
        /// The directory asked for.
        cwd: PathBuf,
    },
    /// The system refused to start the program. Nothing was started.
    #[error("cannot start `{}`", program.display())]
    Spawn {
        /// The program asked for.
        program: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The helper that ends commands when this process is killed could not be started; the command was killed.
    #[error("cannot start the watcher `{}`", shell.display())]
    Watcher {
        /// The shell that should have run it.
        shell: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Reading the output or waiting for the end failed; the command was killed.
    #[error("lost contact with `{}`", program.display())]
    Io {
        /// The program that ran.
        program: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

/// Runs commands.
pub trait ProcessRunner: Send + Sync {
    /// Runs one command to its end, its timeout or its abort, handing output to `sink` as it comes.
    ///
    /// A command that starts and fails is no error: see [`ProcessReport::status`]. Dropping the future kills the tree of the
    /// command at once. What the command leaves running when it ends by itself is neither waited for nor killed, and goes on
    /// when this process ends.
    fn run<'a>(
        &'a self,
        spec: CommandSpec,
        sink: &'a mut dyn OutputSink,
        abort: CancellationToken,
    ) -> BoxFuture<'a, Result<ProcessReport, ProcessError>>;

    /// Ids of all processes that earlier calls left running and that still run, in ascending order.
    fn background(&self) -> Vec<u32>;
}
