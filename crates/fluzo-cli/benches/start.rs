//! The program as a whole: its start against `/bin/true`, one prompt, and 20 tool turns,
//! against the simulator in this process. Prints medians and ratios; judges nothing.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark starts processes and reads the clock"
)]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fluzo_sim::{Reply, Scenario, Simulator, Step, ToolCall};
use serde_json::json;

const ROUNDS: usize = 15;
const TURNS: usize = 20;

fn main() {
    let program = env!("CARGO_BIN_EXE_fluzo");
    let version = median(|| run(Command::new(program).arg("--version")));
    let nothing = median(|| run(&mut Command::new("/bin/true")));
    println!(
        "--version      {version:>10.2?}   /bin/true {nothing:.2?}   ratio {:.2}",
        ratio(version, nothing)
    );
    let once = median(|| prompt(program, 0));
    println!(
        "one prompt     {once:>10.2?}   ratio to --version {:.2}",
        ratio(once, version)
    );
    let turns = median(|| prompt(program, TURNS));
    let shells = median(|| {
        (0..TURNS)
            .map(|_| run(Command::new("/bin/bash").args(["-c", "true"])))
            .sum()
    });
    println!(
        "{TURNS} tool turns  {turns:>10.2?}   {TURNS} x bash -c true {shells:.2?}   ratio {:.2}",
        ratio(turns, shells)
    );
}

/// Runs a command with no input and its output thrown away.
fn run(command: &mut Command) -> Duration {
    let started = Instant::now();
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    let took = started.elapsed();
    assert!(status.success(), "{command:?}");
    took
}

/// One prompt whose answer comes after `calls` shell calls, each a turn of its own.
fn prompt(program: &str, calls: usize) -> Duration {
    let mut scenario = Scenario::new("bench").model("sim").max_connections(1);
    for n in 0..calls {
        let call = ToolCall::new(format!("c{n}"), "bash", json!({ "command": "true" }));
        scenario = scenario.step(Step::new(Reply::calls([call])));
    }
    let scenario = scenario.step(Step::new(Reply::text("done")));
    let simulator = Simulator::start(scenario).unwrap();
    let home = tempfile::tempdir().unwrap();
    configure(home.path(), &simulator.base_url());
    let mut command = Command::new(program);
    command.args(["pi", "--no-session", "-p", "go", "--model", "sim"]);
    command
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", home.path());
    command
        .env("PI_CODING_AGENT_DIR", home.path())
        .current_dir(home.path());
    let took = run(&mut command);
    assert!(simulator.finish().passed);
    took
}

fn configure(folder: &Path, base_url: &str) {
    let models = json!({ "providers": { "sim": {
        "baseUrl": base_url, "api": "openai-completions", "apiKey": "none", "models": [{ "id": "sim" }]
    } } });
    std::fs::write(folder.join("models.json"), models.to_string()).unwrap();
}

fn median(mut sample: impl FnMut() -> Duration) -> Duration {
    sample();
    let mut all: Vec<Duration> = (0..ROUNDS).map(|_| sample()).collect();
    all.sort_unstable();
    all[ROUNDS / 2]
}

fn ratio(a: Duration, b: Duration) -> f64 {
    a.as_secs_f64() / b.as_secs_f64()
}
