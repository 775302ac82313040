//! Ending the tree of a command: abort, timeout, a dropped future, and the death of this process itself.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use fluzo_exec::{
    CALL_ID_VARIABLE, EndedBy, ExitStatus, LocalProcesses, LocalProcessesConfig, ProcessReport,
    ProcessRunner,
};
use tokio_util::sync::CancellationToken;

use crate::support::{
    Output, as_host, await_empty, await_end, bash, folder, host_folder, kill, living_in, run,
    runner,
};

/// Runs until the output holds `ready`, then aborts.
async fn abort_when_ready(
    runner: &LocalProcesses,
    script: &str,
    cwd: &Path,
) -> (ProcessReport, String) {
    let token = CancellationToken::new();
    let mut output = Output::cancelling("ready", &token);
    let report = runner
        .run(bash(script, cwd), &mut output, token)
        .await
        .unwrap();
    (report, output.text())
}

/// Trees that try to get away, in ways that real commands use.
const TREES: &[&str] = &[
    "echo ready; sleep 600",
    "echo ready; exec sleep 600",
    "sleep 600 | cat & echo ready; sleep 600 | sleep 600",
    "mkfifo p; (while :; do echo c; sleep 1; done) > p & echo ready; cat p",
    "trap '' TERM INT HUP; echo ready; while :; do sleep 600; done",
    "setsid sleep 600 & echo ready; wait",
    "(setsid sleep 600 </dev/null >/dev/null 2>&1 &); echo ready; sleep 600",
    "setsid sh -c 'setsid sleep 600 & exec sleep 600' & echo ready; wait",
    "env -i setsid sleep 600 & echo ready; wait",
    "env -i sh -c '(sleep 600 &)'; echo ready; sleep 600",
    "set -m; sleep 600 & sleep 600 & echo ready; wait",
    "sleep 600 & echo ready; kill -STOP $$; sleep 600",
    "for i in $(seq 50); do (setsid sleep 600 &); done; echo ready; sleep 600",
];

#[tokio::test]
async fn abort_ends_the_whole_tree() {
    let runner = runner();
    for script in TREES {
        let (_dir, cwd) = folder();
        let (report, output) = abort_when_ready(&runner, script, &cwd).await;
        assert!(
            output.starts_with("ready") || output.contains("ready\n"),
            "{script}: {output}"
        );
        assert_eq!(report.ended_by, EndedBy::Abort, "{script}");
        assert_eq!(report.status, Some(ExitStatus::Signal(9)), "{script}");
        assert_eq!(report.background, [0_u32; 0], "{script}");
        assert_eq!(living_in(&cwd), [0_u32; 0], "{script}");
    }
}

#[tokio::test]
async fn timeout_ends_the_whole_tree_and_keeps_the_output() {
    let (_dir, cwd) = folder();
    for script in [
        "echo ready; sleep 600; touch late",
        "mkfifo p; (while :; do echo ready; sleep 1; done) > p & cat p",
        "echo ready; sh -c 'sleep 600; echo > late'",
    ] {
        let mut spec = bash(script, &cwd);
        spec.timeout = Some(Duration::from_millis(300));
        let (report, output) = run(&runner(), spec).await;
        assert_eq!(report.ended_by, EndedBy::Timeout, "{script}");
        assert_eq!(output, "ready\n", "{script}");
        assert_eq!(living_in(&cwd), [0_u32; 0], "{script}");
        let _ = fs::remove_file(cwd.join("p"));
    }
    assert!(!cwd.join("late").exists());
}

#[tokio::test]
async fn a_timeout_far_away_does_nothing() {
    let (_dir, cwd) = folder();
    let mut spec = bash("echo hi", &cwd);
    spec.timeout = Some(Duration::MAX);
    let (report, output) = run(&runner(), spec).await;
    assert_eq!(
        (report.ended_by, output.as_str()),
        (EndedBy::Itself, "hi\n")
    );
}

#[tokio::test]
async fn abort_in_a_flood_is_heard() {
    let (_dir, cwd) = folder();
    let (report, _) = abort_when_ready(&runner(), "yes ready", &cwd).await;
    assert_eq!(report.ended_by, EndedBy::Abort);
    assert_eq!(living_in(&cwd), [0_u32; 0]);
}

#[tokio::test]
async fn an_abort_before_the_start_starts_nothing() {
    let (_dir, cwd) = folder();
    let token = CancellationToken::new();
    token.cancel();
    let mut output = Output::default();
    let report = runner()
        .run(bash("touch started", &cwd), &mut output, token)
        .await
        .unwrap();
    assert_eq!((report.status, report.ended_by), (None, EndedBy::Abort));
    assert!(!cwd.join("started").exists());
}

#[tokio::test]
async fn a_dropped_future_ends_the_whole_tree() {
    let runner = runner();
    for script in TREES {
        let (_dir, cwd) = folder();
        let ready = CancellationToken::new();
        let mut output = Output::cancelling("ready", &ready);
        let call = runner.run(bash(script, &cwd), &mut output, CancellationToken::new());
        tokio::select! {
            biased;
            () = ready.cancelled() => {}
            report = call => panic!("{script}: {report:?}"),
        }
        await_empty(&cwd);
    }
}

#[tokio::test]
async fn nothing_else_is_killed() {
    let (_dir, cwd) = folder();
    let decoy = |variable: Option<&str>| {
        let mut command = Command::new("sleep");
        command.arg("600").current_dir("/").process_group(0);
        variable.map(|value| command.env(CALL_ID_VARIABLE, value));
        command.spawn().unwrap()
    };
    let mut decoys = vec![decoy(None), decoy(Some("another-call"))];
    let runner = runner();
    let (left, _) = run(&runner, bash("sleep 600 & true", &cwd)).await;
    let (_other_dir, other) = folder();
    let ready = CancellationToken::new();
    let release = other.join("release");
    let script = "mkfifo release; echo ready; read x < release; echo released";
    let mut output = Output::cancelling("ready", &ready);
    let neighbour = runner.run(bash(script, &other), &mut output, CancellationToken::new());
    let aborts = async {
        ready.cancelled().await;
        decoys.push(decoy(None));
        for script in TREES {
            let (_dir, cwd) = folder();
            abort_when_ready(&runner, script, &cwd).await;
        }
        tokio::task::spawn_blocking(move || fs::write(release, "x\n").unwrap())
            .await
            .unwrap();
    };
    let (report, ()) = tokio::join!(neighbour, aborts);
    assert_eq!(report.unwrap().status, Some(ExitStatus::Code(0)));
    assert_eq!(output.text(), "ready\nreleased\n");
    assert_eq!(runner.background(), left.background);
    for mut decoy in decoys {
        assert!(decoy.try_wait().unwrap().is_none(), "decoy was killed");
        decoy.kill().unwrap();
        decoy.wait().unwrap();
    }
    runner.kill_background();
}

#[tokio::test]
async fn a_dead_watcher_is_replaced() {
    let (_dir, cwd) = folder();
    let runner = runner();
    assert_eq!(runner.watcher_pid(), None);
    run(&runner, bash("true", &cwd)).await;
    let first = runner.watcher_pid().unwrap();
    kill(first);
    await_end(first);
    let (report, _) = run(&runner, bash("exit 5", &cwd)).await;
    assert_eq!(report.status, Some(ExitStatus::Code(5)));
    let second = runner.watcher_pid().unwrap();
    assert_ne!(first, second);
    drop(runner);
    await_end(second);
}

/// Does nothing in an ordinary run. Started by the tests below with a folder in its environment, it plays the process that is
/// killed: it leaves one background child behind, then runs a tree until its own end.
#[tokio::test]
async fn plays_the_host_that_is_killed() {
    let Some(cwd) = host_folder("killed") else {
        return;
    };
    let shell = fs::read_to_string(cwd.join("shell")).unwrap();
    let runner = LocalProcesses::new(LocalProcessesConfig {
        watcher_shell: Some(shell.into()),
    });
    let background = cwd.join("background");
    run(
        &runner,
        bash("sleep 600 >/dev/null 2>&1 & true", &background),
    )
    .await;
    struct Forward;
    impl fluzo_exec::OutputSink for Forward {
        fn write(&mut self, chunk: &[u8]) {
            std::io::stderr().write_all(chunk).unwrap();
        }
    }
    let script = r#"
        mkfifo up; exec 3<>up
        setsid sleep 600 & (setsid sleep 600 &); sleep 600 &
        (env -i sh -c 'sleep 600 & echo >&3; wait' &)
        env -i setsid -w sh -c 'echo >&3; exec sleep 600' &
        (setsid sh -c 'env -i setsid sh -c "echo >&3; exec sleep 600" & wait' &)
        trap '' TERM HUP INT
        for i in 1 2 3; do read x <&3; done
        echo; echo host-ready; wait"#;
    let spec = bash(script, &cwd.join("running"));
    runner
        .run(spec, &mut Forward, CancellationToken::new())
        .await
        .unwrap();
}

#[test]
fn the_tree_ends_with_a_killed_host() {
    for (signal, shell) in [
        ("KILL", "/bin/sh"),
        ("KILL", "/bin/bash"),
        ("TERM", "/bin/sh"),
        ("HUP", "/bin/sh"),
        ("INT", "/bin/sh"),
    ] {
        let (_dir, cwd) = folder();
        let (running, background) = (cwd.join("running"), cwd.join("background"));
        fs::create_dir(&running).unwrap();
        fs::create_dir(&background).unwrap();
        fs::write(cwd.join("shell"), shell).unwrap();
        let mut host = as_host("killed", "kill::plays_the_host_that_is_killed", &cwd);
        let mut lines = BufReader::new(host.stderr.take().unwrap()).lines();
        assert!(
            lines.any(|line| line.unwrap() == "host-ready"),
            "host never got ready"
        );
        assert!(living_in(&running).len() >= 8, "{:?}", living_in(&running));
        // The whole group of the host, as a terminal that closes would do it.
        let group = format!("-{}", host.id());
        assert!(
            Command::new("/bin/kill")
                .args(["-s", signal, "--", &group])
                .status()
                .unwrap()
                .success()
        );
        host.wait().unwrap();
        await_empty(&running);
        let left = living_in(&background);
        assert_eq!(
            left.len(),
            1,
            "background of a finished call, after {signal}"
        );
        left.into_iter().for_each(kill);
    }
}
