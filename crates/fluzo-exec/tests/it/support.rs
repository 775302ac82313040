//! What the process tests share: specs, sinks, and looking for processes without sleeping.

use std::ffi::OsString;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fluzo_exec::{
    CommandSpec, Environment, LocalProcesses, LocalProcessesConfig, OutputSink, ProcessReport,
    ProcessRunner,
};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal};
use tokio_util::sync::CancellationToken;

/// Against hanging for ever; never the thing a test is about.
pub const HANG: Duration = Duration::from_secs(20);

pub fn runner() -> LocalProcesses {
    LocalProcesses::new(LocalProcessesConfig::default())
}

pub fn bash(script: &str, cwd: &Path) -> CommandSpec {
    CommandSpec {
        program: PathBuf::from("/bin/bash"),
        args: vec!["-c".into(), script.into()],
        cwd: cwd.to_path_buf(),
        env: Environment::Inherit {
            set: Vec::new(),
            path_prefix: None,
        },
        timeout: None,
    }
}

/// A temporary folder known by its real path, as `/proc/PID/cwd` shows it.
pub fn folder() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap();
    (dir, path)
}

/// Keeps all output, and cancels a token once the output holds a text.
#[derive(Default)]
pub struct Output {
    pub bytes: Vec<u8>,
    pub cancel_on: Option<(&'static str, CancellationToken)>,
}

impl Output {
    pub fn cancelling(text: &'static str, token: &CancellationToken) -> Self {
        Self {
            bytes: Vec::new(),
            cancel_on: Some((text, token.clone())),
        }
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

impl OutputSink for Output {
    fn write(&mut self, chunk: &[u8]) {
        self.bytes.extend_from_slice(chunk);
        if let Some((text, token)) = &self.cancel_on
            && String::from_utf8_lossy(&self.bytes).contains(text)
        {
            token.cancel();
        }
    }
}

pub async fn run(runner: &LocalProcesses, spec: CommandSpec) -> (ProcessReport, String) {
    let mut output = Output::default();
    let report = runner
        .run(spec, &mut output, CancellationToken::new())
        .await
        .unwrap();
    (report, output.text())
}

/// Living processes whose working directory is `cwd` or below; the dead that nobody waited for have none.
pub fn living_in(cwd: &Path) -> Vec<u32> {
    let mut found: Vec<u32> = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|path| path.starts_with(cwd))
        })
        .collect();
    found.sort_unstable();
    found
}

/// A handle that turns readable when the process ends; `None` when it is gone already.
pub fn hold(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// Waits until a process has ended.
pub fn await_end(pid: u32) {
    if let Some(handle) = hold(pid) {
        let limit = Timespec {
            tv_sec: HANG.as_secs().cast_signed(),
            tv_nsec: 0,
        };
        let mut polled = [PollFd::new(&handle, PollFlags::IN)];
        assert_eq!(
            rustix::event::poll(&mut polled, Some(&limit)).unwrap(),
            1,
            "process {pid} did not end: {}",
            fs::read_to_string(format!("/proc/{pid}/cmdline"))
                .unwrap_or_default()
                .replace('\0', " ")
        );
    }
}

/// Waits until nothing lives in `cwd` any more.
pub fn await_empty(cwd: &Path) {
    let start = Instant::now();
    loop {
        let living = living_in(cwd);
        if living.is_empty() {
            return;
        }
        assert!(start.elapsed() < HANG, "still there: {living:?}");
        living.into_iter().for_each(await_end);
    }
}

pub fn kill(pid: u32) {
    if let Some(handle) = hold(pid) {
        let _ = rustix::process::pidfd_send_signal(&handle, Signal::KILL);
    }
}

const HOST: &str = "FLUZO_EXEC_TEST_HOST";

/// Starts this test binary again with one test only, which then plays the process named `role`.
pub fn as_host(role: &str, test: &str, cwd: &Path) -> Child {
    let mut role = OsString::from(format!("{role}:"));
    role.push(cwd);
    // A test run in the background, or under nohup, ignores signals, and so would the host.
    Command::new("env")
        .arg("--default-signal")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(HOST, role)
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The folder given by [`as_host`] when this process plays `role`; in an ordinary run there is none.
pub fn host_folder(role: &str) -> Option<PathBuf> {
    let given = std::env::var(HOST).ok()?;
    let (played, folder) = given.split_once(':')?;
    (played == role).then(|| PathBuf::from(folder))
}
