//! What tools are handed: folders, services and limits.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fluzo_agent::TimeEffect;
use fluzo_exec::{CommandSpec, Environment, FileSystem, PathLocks, ProcessRunner, TreeSearch};
use fluzo_stdx::truncate::TextLimits;

/// Everything that tools need. One value is shared by all tools of a session.
pub struct ToolEnv {
    /// Working folder of the session; relative paths start here.
    pub cwd: PathBuf,
    /// Home folder, for `~`.
    pub home: Option<PathBuf>,
    /// Files.
    pub fs: Arc<dyn FileSystem>,
    /// Searches.
    pub search: Arc<dyn TreeSearch>,
    /// Processes.
    pub processes: Arc<dyn ProcessRunner>,
    /// Serialises changes of one file.
    pub locks: PathLocks,
    /// Limits of outputs.
    pub limits: ToolLimits,
    /// How the shell is called.
    pub bash: BashEnvironment,
    /// Whether the current model takes images.
    pub model_takes_images: AtomicBool,
    /// Whether images are scaled to what providers accept.
    pub resize_images: bool,
}

/// Limits of what a tool gives to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolLimits {
    /// Lines and bytes of one result.
    pub text: TextLimits,
    /// UTF-16 units of one line of `grep`.
    pub grep_line: usize,
}

/// How the shell is called.
pub struct BashEnvironment {
    /// The shell, such as `/bin/bash`.
    pub shell: PathBuf,
    /// Text put before every command, on a line of its own.
    pub prefix: Option<String>,
    /// Environment of commands.
    pub environment: Environment,
    /// What becomes of output beyond the limits.
    pub spill: SpillPolicy,
    /// Paces partial results. Hand in the plain one: a wait here is no effect of a run.
    pub time: Arc<dyn TimeEffect>,
}

/// What becomes of output beyond the limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpillPolicy {
    /// It goes to a file of its own in `folder`, up to `max_bytes`.
    File {
        /// Folder of the file.
        folder: PathBuf,
        /// Most bytes kept.
        max_bytes: u64,
    },
    /// It is dropped.
    Drop,
}

impl ToolLimits {
    /// The limits of the open profile: 2000 lines, 128 KiB, 2000 characters.
    pub const OPEN: Self = Self {
        text: TextLimits {
            max_lines: 2000,
            max_bytes: 128 * 1024,
        },
        grep_line: 2000,
    };
}

impl SpillPolicy {
    /// The open profile's file size limit, 1 GiB.
    pub const OPEN_MAX_BYTES: u64 = 1 << 30;
}

impl ToolEnv {
    /// Whether the current model takes images.
    pub fn takes_images(&self) -> bool {
        self.model_takes_images.load(Ordering::Relaxed)
    }

    /// How the shell runs `command` in the working folder, without a limit in time.
    pub(crate) fn shell_command(&self, command: &str) -> CommandSpec {
        CommandSpec {
            program: self.bash.shell.clone(),
            args: self.bash.arguments(command),
            cwd: self.cwd.clone(),
            env: self.bash.environment.clone(),
            timeout: None,
        }
    }
}

impl BashEnvironment {
    /// Arguments of the shell for `command`.
    pub fn arguments(&self, command: &str) -> Vec<OsString> {
        let whole = match &self.prefix {
            Some(prefix) => format!("{prefix}\n{command}"),
            None => command.to_owned(),
        };
        vec!["-c".into(), whole.into()]
    }
}
