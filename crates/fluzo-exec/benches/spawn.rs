//! What a command costs beyond a plain start: `bash -c true` through the runner and through the standard library, in turns.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fluzo_exec::{
    CommandSpec, Environment, LocalProcesses, LocalProcessesConfig, OutputSink, ProcessRunner,
};
use tokio_util::sync::CancellationToken;

const ROUNDS: usize = 300;
const FLOOD: u64 = 3_000_000_000;

struct Count(u64);

impl OutputSink for Count {
    fn write(&mut self, chunk: &[u8]) {
        self.0 += chunk.len() as u64;
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let runner = LocalProcesses::new(LocalProcessesConfig::default());
    let cwd = std::env::current_dir().unwrap();
    let first = timed(|| ours(&runtime, &runner, &cwd, "true"));
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        without.push(timed(plain));
        with.push(timed(|| ours(&runtime, &runner, &cwd, "true")));
    }
    let best = |times: &[Duration]| times.iter().min().copied().unwrap_or_default();
    println!(
        "best of {ROUNDS}: plain {:?}, runner {:?}",
        best(&without),
        best(&with)
    );
    let (with, without) = (median(with), median(without));
    println!("bash -c true, plain     {without:?}");
    println!(
        "bash -c true, runner    {with:?}  (+{:?}, first call {first:?})",
        with.saturating_sub(without)
    );

    let script = format!("yes AAAA | head -c {FLOOD}");
    let piped = timed(|| {
        Command::new("/bin/bash")
            .args(["-c", &format!("{script} | cat > /dev/null")])
            .status()
            .unwrap();
    });
    let taken = timed(|| ours(&runtime, &runner, &cwd, &script));
    println!("flood of {FLOOD} bytes: into cat {piped:?}, into the runner {taken:?}");
}

fn ours(runtime: &tokio::runtime::Runtime, runner: &LocalProcesses, cwd: &Path, script: &str) {
    let spec = CommandSpec {
        program: PathBuf::from("/bin/bash"),
        args: vec!["-c".into(), script.into()],
        cwd: cwd.to_path_buf(),
        env: Environment::Inherit {
            set: Vec::new(),
            path_prefix: None,
        },
        timeout: None,
    };
    let mut count = Count(0);
    runtime
        .block_on(runner.run(spec, &mut count, CancellationToken::new()))
        .unwrap();
}

fn plain() {
    let output = Command::new("/bin/bash")
        .args(["-c", "true"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success());
}

fn timed(action: impl FnOnce()) -> Duration {
    let start = Instant::now();
    action();
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
