//! Runs commands on this machine, without confinement.

use std::ffi::OsString;
use std::future::pending;
use std::io::{self, PipeReader};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_core::future::BoxFuture;
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

use crate::drain;
use crate::fs::blocking;
use crate::proc_tree::{CallTree, Look, ProcessId};
use crate::process::{
    CALL_ID_VARIABLE, CommandSpec, EndedBy, Environment, ExitStatus, OutputSink, ProcessError,
    ProcessReport, ProcessRunner,
};
use crate::session::in_new_session;
use crate::watcher::{Registration, Watcher};

/// Bytes read at once.
const CHUNK: usize = 64 * 1024;
/// Bytes the output pipe may hold.
const PIPE: usize = 1024 * 1024;
/// After the command's end, output is waited for until this long nothing came.
const SILENCE: Duration = Duration::from_millis(100);
/// And never longer than this, however much a background process writes.
const LONGEST_DRAIN: Duration = Duration::from_millis(500);
/// How long killed processes are waited for.
const PATIENCE: Duration = Duration::from_secs(1);
/// A run shorter than this cannot have used up the process ids.
const BRIEF: Duration = Duration::from_secs(1);
/// With fewer calls at once than this, each looks for its own survivors.
const FEW: usize = 8;

/// How [`LocalProcesses`] works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalProcessesConfig {
    /// A POSIX shell for the helper that ends running commands when this process is killed. `None` goes without the helper:
    /// then commands outlive a killed parent.
    pub watcher_shell: Option<PathBuf>,
}

impl Default for LocalProcessesConfig {
    fn default() -> Self {
        Self {
            watcher_shell: Some(PathBuf::from("/bin/sh")),
        }
    }
}

/// Runs each command in a session of its own, without terminal and with empty input, and finds its whole tree again.
///
/// Needs a tokio runtime with its I/O and time drivers, of either flavour. A process that leaves session and group, drops its
/// environment, and outlives its parent is out of reach of the kill.
#[derive(Debug)]
pub struct LocalProcesses {
    watcher: Option<Arc<Watcher>>,
    left: Mutex<Vec<Left>>,
    /// Cloned by each call that runs, and so counts them.
    running: Arc<()>,
    /// Start time of the first call's root, in ticks since boot; no call has an older process.
    since: AtomicU64,
    /// The latest look around and when it began.
    look: tokio::sync::Mutex<Option<(Instant, Arc<Look>)>>,
}

/// What one call left running.
#[derive(Debug)]
struct Left {
    tree: CallTree,
    tops: Vec<ProcessId>,
}

impl LocalProcesses {
    /// Makes a runner. Nothing is started before the first command.
    pub fn new(config: LocalProcessesConfig) -> Self {
        Self {
            watcher: config.watcher_shell.map(Watcher::new),
            left: Mutex::default(),
            running: Arc::default(),
            since: AtomicU64::new(u64::MAX),
            look: tokio::sync::Mutex::default(),
        }
    }

    /// Kills everything that earlier calls left running, and waits up to a second for each call's processes to be gone.
    /// Blocks. Returns the ids that [`ProcessRunner::background`] would have named.
    pub fn kill_background(&self) -> Vec<u32> {
        let ids = self.background();
        let left = std::mem::take(&mut *self.left());
        left.iter().for_each(|left| left.tree.kill(PATIENCE));
        ids
    }

    /// Process id of the helper that watches over this process, once it was started.
    pub fn watcher_pid(&self) -> Option<u32> {
        self.watcher.as_ref()?.pid()
    }

    fn left(&self) -> std::sync::MutexGuard<'_, Vec<Left>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run_command(
        &self,
        spec: CommandSpec,
        sink: &mut dyn OutputSink,
        abort: CancellationToken,
    ) -> Result<ProcessReport, ProcessError> {
        if abort.is_cancelled() {
            return Ok(ProcessReport {
                status: None,
                ended_by: EndedBy::Abort,
                background: Vec::new(),
            });
        }
        let mut call = self.start(&spec)?;
        let lost = |source| ProcessError::Io {
            program: spec.program.clone(),
            source,
        };
        match call
            .follow(spec.timeout, sink, &abort)
            .await
            .map_err(lost)?
        {
            EndedBy::Itself => Ok(self.settle(call).await),
            ended_by => {
                call.kill(sink).await.map_err(lost)?;
                Ok(ProcessReport {
                    status: call.status,
                    ended_by,
                    background: Vec::new(),
                })
            }
        }
    }

    fn start(&self, spec: &CommandSpec) -> Result<Call, ProcessError> {
        require_directory(&spec.cwd)?;
        let started = Instant::now();
        let failed = |source| ProcessError::Spawn {
            program: spec.program.clone(),
            source,
        };
        let mark: Arc<str> = Arc::from(new_mark().map_err(failed)?);
        let (mut child, reader) = spawn(spec, &mark).map_err(|source| {
            // The system does not say whether the program or the directory is missing.
            require_directory(&spec.cwd)
                .err()
                .unwrap_or_else(|| failed(source))
        })?;
        let Some(tree) = child.id().and_then(|root| CallTree::new(root, mark)) else {
            let _ = child.start_kill();
            return Err(failed(io::Error::other("`/proc` cannot be read")));
        };
        self.since.fetch_min(tree.root().start, Ordering::Relaxed);
        let mut guard = Guard {
            tree,
            registration: None,
            armed: true,
        };
        if let Some(watcher) = &self.watcher {
            let registration = watcher.register(&guard.tree);
            guard.registration = Some(registration.map_err(|source| ProcessError::Watcher {
                shell: watcher.shell().to_path_buf(),
                source,
            })?);
        }
        let output = Receiver::from_owned_fd(OwnedFd::from(reader)).map_err(failed)?;
        Ok(Call {
            guard,
            child,
            output: Some(output),
            status: None,
            started,
            buffer: vec![0; CHUNK],
            _running: Arc::clone(&self.running),
        })
    }

    /// A look that began after this was called, shared by all that waited for it.
    async fn look_around(&self) -> Arc<Look> {
        let asked = Instant::now();
        let mut latest = self.look.lock().await;
        if let Some((begun, look)) = &*latest
            && *begun >= asked
        {
            return Arc::clone(look);
        }
        let begun = Instant::now();
        let since = self.since.load(Ordering::Relaxed);
        let look = match blocking(move || Look::around(since)).await {
            Ok(look) => look,
            Err(_) => Look::around(since),
        };
        let look = Arc::new(look);
        *latest = Some((begun, Arc::clone(&look)));
        look
    }

    /// Takes leave of a command that ended by itself.
    async fn settle(&self, mut call: Call) -> ProcessReport {
        // A batch shares its looks: one for each call would cost the square of their number.
        let tops = if Arc::strong_count(&self.running) > FEW {
            let look = self.look_around().await;
            call.guard.tree.survivors_in(&look)
        } else {
            call.guard.tree.survivors(call.started.elapsed() < BRIEF)
        };
        call.guard.armed = false;
        let background = tops.iter().map(|id| id.pid).collect();
        if !tops.is_empty() {
            self.left().push(Left {
                tree: call.guard.tree.clone(),
                tops,
            });
            if let Some(output) = call.output.take() {
                drain::discard(output);
            }
        }
        ProcessReport {
            status: call.status,
            ended_by: EndedBy::Itself,
            background,
        }
    }
}

impl ProcessRunner for LocalProcesses {
    fn run<'a>(
        &'a self,
        spec: CommandSpec,
        sink: &'a mut dyn OutputSink,
        abort: CancellationToken,
    ) -> BoxFuture<'a, Result<ProcessReport, ProcessError>> {
        Box::pin(self.run_command(spec, sink, abort))
    }

    fn background(&self) -> Vec<u32> {
        let mut left = self.left();
        for call in left.iter_mut() {
            call.tops.retain(|id| id.is_alive());
        }
        left.retain(|call| !call.tops.is_empty());
        let mut ids: Vec<u32> = left
            .iter()
            .flat_map(|call| &call.tops)
            .map(|id| id.pid)
            .collect();
        ids.sort_unstable();
        ids
    }
}

/// Kills the tree when dropped before the command has ended, then ends the registration.
struct Guard {
    tree: CallTree,
    registration: Option<Registration>,
    armed: bool,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.armed {
            self.tree.kill(Duration::ZERO);
        }
        self.registration = None;
    }
}

/// A command that was started. The guard comes before the child, which must not be reaped before the kill.
struct Call {
    guard: Guard,
    child: Child,
    /// `None` at the end of the output.
    output: Option<Receiver>,
    status: Option<ExitStatus>,
    started: Instant,
    buffer: Vec<u8>,
    _running: Arc<()>,
}

impl Call {
    /// Passes on output until the command has ended and its output too, or until it has to be killed.
    async fn follow(
        &mut self,
        timeout: Option<Duration>,
        sink: &mut dyn OutputSink,
        abort: &CancellationToken,
    ) -> io::Result<EndedBy> {
        let mut deadline = std::pin::pin!(sleep_if(timeout));
        while self.status.is_none() {
            tokio::select! {
                biased;
                () = abort.cancelled() => return Ok(EndedBy::Abort),
                () = &mut deadline => return Ok(EndedBy::Timeout),
                ended = self.child.wait() => self.status = Some(status_of(ended?)),
                ready = readable(&self.output) => self.pass_on(ready, sink)?,
            }
        }
        let mut longest = std::pin::pin!(tokio::time::sleep(LONGEST_DRAIN));
        while self.output.is_some() {
            tokio::select! {
                biased;
                () = abort.cancelled() => return Ok(EndedBy::Abort),
                () = &mut longest => break,
                ready = readable(&self.output) => self.pass_on(ready, sink)?,
                () = tokio::time::sleep(SILENCE) => break,
            }
        }
        Ok(EndedBy::Itself)
    }

    fn pass_on(&mut self, ready: io::Result<()>, sink: &mut dyn OutputSink) -> io::Result<()> {
        ready?;
        self.read_some(sink).map(drop)
    }

    /// Hands one chunk to the sink and says how long it was; zero when nothing was there.
    fn read_some(&mut self, sink: &mut dyn OutputSink) -> io::Result<usize> {
        let Some(output) = &self.output else {
            return Ok(0);
        };
        match output.try_read(&mut self.buffer) {
            Ok(0) => self.output = None,
            Ok(count) => {
                sink.write(&self.buffer[..count]);
                return Ok(count);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(0)
    }

    /// Kills the tree, then passes on what was still in the pipe and takes the status.
    async fn kill(&mut self, sink: &mut dyn OutputSink) -> io::Result<()> {
        let tree = self.guard.tree.clone();
        if blocking(move || tree.kill(PATIENCE)).await.is_err() {
            self.guard.tree.kill(PATIENCE);
        }
        if self.status.is_none()
            && let Ok(ended) = tokio::time::timeout(PATIENCE, self.child.wait()).await
        {
            self.status = Some(status_of(ended?));
        }
        self.guard.armed = false;
        // What an unreachable writer adds meanwhile is bounded by reading no more than a pipe can hold.
        let mut left = PIPE;
        while left > 0 {
            match self.read_some(sink)? {
                0 => break,
                count => left = left.saturating_sub(count),
            }
        }
        Ok(())
    }
}

async fn sleep_if(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => pending().await,
    }
}

async fn readable(output: &Option<Receiver>) -> io::Result<()> {
    match output {
        Some(output) => output.readable().await,
        None => pending().await,
    }
}

fn status_of(status: std::process::ExitStatus) -> ExitStatus {
    match (status.code(), status.signal()) {
        (Some(code), _) => ExitStatus::Code(code),
        (None, signal) => ExitStatus::Signal(signal.unwrap_or_default()),
    }
}

fn require_directory(cwd: &Path) -> Result<(), ProcessError> {
    match std::fs::metadata(cwd) {
        Ok(meta) if meta.is_dir() => Ok(()),
        _ => Err(ProcessError::MissingCwd {
            cwd: cwd.to_path_buf(),
        }),
    }
}

/// A name no other call has or had.
fn new_mark() -> io::Result<String> {
    let mut bytes = [0_u8; 16];
    rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

/// Starts the command with both outputs on one pipe, and returns the pipe's other end.
fn spawn(spec: &CommandSpec, mark: &str) -> io::Result<(Child, PipeReader)> {
    let (reader, writer) = io::pipe()?;
    // Saves most wake-ups of a flood. The system may refuse: a smaller pipe works as well.
    let _ = rustix::pipe::fcntl_setpipe_size(&reader, PIPE);
    let mut command = std::process::Command::new(&spec.program);
    command
        .args(&spec.args)
        .current_dir(&spec.cwd)
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer);
    set_environment(&mut command, &spec.env, mark);
    in_new_session(&mut command);
    // Dropped here, and with it our copies of the writing end.
    let child = Command::from(command).spawn()?;
    Ok((child, reader))
}

fn set_environment(command: &mut std::process::Command, env: &Environment, mark: &str) {
    match env {
        Environment::Inherit { set, path_prefix } => {
            if let Some(prefix) = path_prefix {
                let path = set
                    .iter()
                    .rev()
                    .find(|(name, _)| name == "PATH")
                    .map(|(_, value)| value.clone());
                command.envs(set.iter().map(|(name, value)| (name, value)));
                command.env(
                    "PATH",
                    prefixed(prefix, path.or_else(|| std::env::var_os("PATH"))),
                );
            } else {
                command.envs(set.iter().map(|(name, value)| (name, value)));
            }
        }
        Environment::Exact(all) => {
            command
                .env_clear()
                .envs(all.iter().map(|(name, value)| (name, value)));
        }
    }
    command.env(
        CALL_ID_VARIABLE,
        nested(std::env::var_os(CALL_ID_VARIABLE), mark),
    );
}

/// When this process is itself part of a call, its commands belong to that call as well.
fn nested(outer: Option<OsString>, mark: &str) -> OsString {
    let mut value =
        outer
            .filter(|outer| !outer.is_empty())
            .map_or_else(OsString::new, |mut outer| {
                outer.push(":");
                outer
            });
    value.push(mark);
    value
}

fn prefixed(prefix: &Path, path: Option<OsString>) -> OsString {
    let Some(path) = path.filter(|path| !path.is_empty()) else {
        return prefix.as_os_str().to_owned();
    };
    if std::env::split_paths(&path).any(|entry| entry == prefix) {
        return path;
    }
    let mut value = prefix.as_os_str().to_owned();
    value.push(":");
    value.push(path);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_gets_the_prefix_once() {
        let check = |path: Option<&str>, expected: &str| {
            assert_eq!(
                prefixed(Path::new("/a/bin"), path.map(OsString::from)),
                expected,
                "{path:?}"
            );
        };
        check(None, "/a/bin");
        check(Some(""), "/a/bin");
        check(Some("/usr/bin:/bin"), "/a/bin:/usr/bin:/bin");
        check(Some("/usr/bin:/a/bin"), "/usr/bin:/a/bin");
        check(Some("/a/binary"), "/a/bin:/a/binary");
    }

    #[test]
    fn marks_nest() {
        let check = |outer: Option<&str>, expected: &str| {
            assert_eq!(
                nested(outer.map(OsString::from), "m"),
                expected,
                "{outer:?}"
            );
        };
        check(None, "m");
        check(Some(""), "m");
        check(Some("o"), "o:m");
    }
}
