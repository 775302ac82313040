//! Running commands to their own end: output, status, input, environment, background processes, memory.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use fluzo_exec::{
    EndedBy, Environment, ExitStatus, LocalProcesses, LocalProcessesConfig, OutputSink,
    ProcessError, ProcessRunner,
};
use tokio_util::sync::CancellationToken;

use crate::support::{
    Output, as_host, await_empty, await_end, bash, folder, host_folder, living_in, run, runner,
};

#[tokio::test]
async fn output_and_status() {
    let (_dir, cwd) = folder();
    let runner = runner();
    for (script, text, status) in [
        ("echo hi", "hi\n", ExitStatus::Code(0)),
        (
            "echo a; echo b >&2; echo c",
            "a\nb\nc\n",
            ExitStatus::Code(0),
        ),
        ("printf 'no end'; exit 3", "no end", ExitStatus::Code(3)),
        ("true", "", ExitStatus::Code(0)),
        ("false", "", ExitStatus::Code(1)),
        ("exec >/dev/null 2>&1; exit 3", "", ExitStatus::Code(3)),
        ("exec >&- 2>&-; exit 4", "", ExitStatus::Code(4)),
        ("echo x; kill -9 $$", "x\n", ExitStatus::Signal(9)),
        ("kill -TERM $$", "", ExitStatus::Signal(15)),
        (
            r"printf '\033[1m\0\377\r'",
            "\u{1b}[1m\0\u{fffd}\r",
            ExitStatus::Code(0),
        ),
    ] {
        let (report, output) = run(&runner, bash(script, &cwd)).await;
        assert_eq!(
            (output.as_str(), report.status),
            (text, Some(status)),
            "{script}"
        );
        assert_eq!(
            (report.ended_by, report.background),
            (EndedBy::Itself, vec![]),
            "{script}"
        );
    }
}

#[test]
fn both_kinds_of_runtime() {
    let (_dir, cwd) = folder();
    let check = |mut builder: tokio::runtime::Builder| {
        let runtime = builder.enable_all().build().unwrap();
        let runner = runner();
        let (report, output) = runtime.block_on(run(&runner, bash("echo hi; exit 2", &cwd)));
        assert_eq!(
            (output.as_str(), report.status),
            ("hi\n", Some(ExitStatus::Code(2)))
        );
    };
    check(tokio::runtime::Builder::new_current_thread());
    check(tokio::runtime::Builder::new_multi_thread());
}

#[tokio::test]
async fn stdout_and_stderr_arrive_in_order() {
    let (_dir, cwd) = folder();
    let script = "for i in $(seq 1 400); do echo out $i; echo err $i >&2; done";
    let (_, output) = run(&runner(), bash(script, &cwd)).await;
    let expected: String = (1..=400).map(|i| format!("out {i}\nerr {i}\n")).collect();
    assert_eq!(output, expected);
}

#[tokio::test]
async fn standard_input_is_at_its_end() {
    let (_dir, cwd) = folder();
    for (script, expected) in [
        ("cat", ""),
        ("read x; echo \"[$x]\"", "[]\n"),
        ("readlink /proc/self/fd/0", "/dev/null\n"),
        ("head -c 1 | wc -c", "0\n"),
    ] {
        let (_, output) = run(&runner(), bash(script, &cwd)).await;
        assert_eq!(output, expected, "{script}");
    }
}

#[tokio::test]
async fn no_terminal_can_be_opened() {
    let (_dir, cwd) = folder();
    let script = "(echo pw: > /dev/tty) 2>/dev/null || echo refused; (read a < /dev/tty) 2>/dev/null || echo refused; \
                  ps -o sid= -p $$ 2>/dev/null | tr -d ' ' >/dev/null; echo $(cut -d' ' -f6 /proc/$$/stat) $$";
    let (_, output) = run(&runner(), bash(script, &cwd)).await;
    let mut lines = output.lines();
    assert_eq!(
        (lines.next(), lines.next()),
        (Some("refused"), Some("refused")),
        "{output}"
    );
    let (session, shell) = lines.next().unwrap().split_once(' ').unwrap();
    assert_eq!(session, shell);
}

#[tokio::test]
async fn no_descriptor_leaks_into_the_command() {
    let (_dir, cwd) = folder();
    let runner = runner();
    run(&runner, bash("true", &cwd)).await;
    let (_, output) = run(&runner, bash("ls /proc/$$/fd; true", &cwd)).await;
    let fds: Vec<&str> = output
        .split_whitespace()
        .filter(|fd| *fd != "255")
        .collect();
    assert_eq!(fds, ["0", "1", "2"]);
}

#[tokio::test]
async fn what_cannot_start_is_a_typed_error() {
    let (_dir, cwd) = folder();
    fs::write(cwd.join("file"), "").unwrap();
    let runner = runner();
    let start = async |spec| {
        runner
            .run(spec, &mut Output::default(), CancellationToken::new())
            .await
            .unwrap_err()
    };
    for missing in ["gone", "file"] {
        let error = start(bash("true", &cwd.join(missing))).await;
        assert!(
            matches!(&error, ProcessError::MissingCwd { cwd: path } if *path == cwd.join(missing)),
            "{error:?}"
        );
    }
    for (program, kind) in [
        ("gone", std::io::ErrorKind::NotFound),
        ("file", std::io::ErrorKind::PermissionDenied),
    ] {
        let mut spec = bash("true", &cwd);
        spec.program = cwd.join(program);
        let error = start(spec).await;
        assert!(
            matches!(&error, ProcessError::Spawn { source, .. } if source.kind() == kind),
            "{error:?}"
        );
    }
    let broken = LocalProcesses::new(LocalProcessesConfig {
        watcher_shell: Some("/no/such/shell".into()),
    });
    let mut output = Output::default();
    let error = broken
        .run(
            bash("sleep 600", &cwd),
            &mut output,
            CancellationToken::new(),
        )
        .await
        .unwrap_err();
    assert!(matches!(error, ProcessError::Watcher { .. }), "{error:?}");
    await_empty(&cwd);
}

#[tokio::test]
async fn environments() {
    let (_dir, cwd) = folder();
    let runner = runner();
    let pairs = |list: &[(&str, &str)]| -> Vec<(OsString, OsString)> {
        list.iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect()
    };
    let mut spec = bash("", &cwd);
    spec.program = "/usr/bin/env".into();
    spec.args = Vec::new();
    spec.env = Environment::Exact(pairs(&[("A", "1"), ("B", "x y")]));
    let (_, output) = run(&runner, spec).await;
    let names: Vec<&str> = output
        .lines()
        .map(|line| line.split('=').next().unwrap())
        .collect();
    assert_eq!(names, ["A", "B", "FLUZO_CALL_ID"], "{output}");

    let mut spec = bash("echo $A:$HOME; echo $PATH", &cwd);
    spec.env = Environment::Inherit {
        set: pairs(&[("A", "1")]),
        path_prefix: Some("/pre/bin".into()),
    };
    let (_, output) = run(&runner, spec).await;
    let path = std::env::var("PATH").unwrap();
    assert_eq!(
        output,
        format!(
            "1:{}\n/pre/bin:{path}\n",
            std::env::var("HOME").unwrap_or_default()
        )
    );

    let mut spec = bash("echo $PATH", &cwd);
    spec.env = Environment::Inherit {
        set: pairs(&[("PATH", "/bin:/pre/bin")]),
        path_prefix: Some("/pre/bin".into()),
    };
    assert_eq!(run(&runner, spec).await.1, "/bin:/pre/bin\n");
}

#[tokio::test]
async fn a_background_child_holds_no_call_and_is_named() {
    for script in [
        "sleep 600 & echo done",
        "(while :; do echo t; sleep 1; done) & echo done",
        "sleep 600 </dev/null >/dev/null & echo done",
        "setsid sleep 600 >/dev/null 2>&1 & echo done",
        "(setsid sleep 600 &) ; echo done",
        "nohup sleep 600 >/dev/null 2>&1 & disown; echo done",
        "yes & echo done",
    ] {
        let (_dir, cwd) = folder();
        let runner = runner();
        let (report, output) = run(&runner, bash(script, &cwd)).await;
        assert!(output.contains("done\n"), "{script}: {}", output.len());
        assert_eq!(
            (report.status, report.ended_by),
            (Some(ExitStatus::Code(0)), EndedBy::Itself),
            "{script}"
        );
        assert_eq!(report.background.len(), 1, "{script}");
        assert!(living_in(&cwd).contains(&report.background[0]), "{script}");
        assert_eq!(runner.background(), report.background, "{script}");
        assert_eq!(runner.kill_background(), report.background, "{script}");
        assert_eq!(living_in(&cwd), [0_u32; 0], "{script}");
        assert_eq!(runner.background(), [0_u32; 0], "{script}");
    }
}

#[tokio::test]
async fn a_background_child_may_go_on_writing() {
    let (_dir, cwd) = folder();
    let runner = runner();
    let script = "mkfifo go; (read x < go; echo one; sleep 0; echo two; echo two >&2; echo fine > end) & echo done";
    let (report, _) = run(&runner, bash(script, &cwd)).await;
    let pid = report.background[0];
    let go = cwd.join("go");
    tokio::task::spawn_blocking(move || {
        fs::write(go, "x\n").unwrap();
        await_end(pid);
    })
    .await
    .unwrap();
    assert_eq!(fs::read_to_string(cwd.join("end")).unwrap(), "fine\n");
    assert_eq!(runner.background(), [0_u32; 0]);
}

/// Does nothing in an ordinary run. Started by the test below, it leaves a background writer behind and ends.
#[tokio::test]
async fn plays_the_host_that_leaves_a_writer() {
    let Some(cwd) = host_folder("leaves") else {
        return;
    };
    let script = "mkfifo go; (read x < go; echo one; echo two >&2; echo fine > end) & echo done";
    let (report, _) = run(&runner(), bash(script, &cwd)).await;
    fs::write(cwd.join("pid"), report.background[0].to_string()).unwrap();
    if cwd.join("killed").exists() {
        crate::support::kill(std::process::id());
    }
}

#[test]
fn a_background_child_may_go_on_writing_after_the_end_of_its_host() {
    for killed in [false, true] {
        let (_dir, cwd) = folder();
        if killed {
            fs::write(cwd.join("killed"), "").unwrap();
        }
        let host = as_host(
            "leaves",
            "process::plays_the_host_that_leaves_a_writer",
            &cwd,
        );
        let status = host.wait_with_output().unwrap().status;
        assert_eq!(status.success(), !killed);
        let pid = fs::read_to_string(cwd.join("pid")).unwrap();
        assert_eq!(living_in(&cwd), [pid.parse::<u32>().unwrap()]);
        fs::write(cwd.join("go"), "x\n").unwrap();
        await_empty(&cwd);
        assert_eq!(fs::read_to_string(cwd.join("end")).unwrap(), "fine\n");
    }
}

#[tokio::test]
async fn each_call_of_a_batch_names_its_own_background_child() {
    let (_dir, cwd) = folder();
    let runner = std::sync::Arc::new(runner());
    let mut calls = tokio::task::JoinSet::new();
    for index in 0..40 {
        let (runner, cwd) = (std::sync::Arc::clone(&runner), cwd.clone());
        calls.spawn(async move {
            let script = match index % 4 {
                0 => "sleep 600 & echo $!",
                1 => "setsid sleep 600 >/dev/null 2>&1 & echo $!",
                _ => "true",
            };
            run(&runner, bash(script, &cwd)).await
        });
    }
    let mut all = Vec::new();
    for (report, output) in calls.join_all().await {
        let named: Vec<u32> = output.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(report.background, named);
        all.extend(named);
    }
    all.sort_unstable();
    assert_eq!((all.len(), runner.background()), (20, all));
    runner.kill_background();
    await_empty(&cwd);
}

#[tokio::test]
async fn later_calls_keep_the_list_of_background_processes() {
    let (_dir, cwd) = folder();
    let runner = runner();
    let (first, _) = run(&runner, bash("sleep 600 & sleep 600 & true", &cwd)).await;
    let (second, _) = run(&runner, bash("sleep 600 & true", &cwd)).await;
    assert_eq!((first.background.len(), second.background.len()), (2, 1));
    let mut all = [first.background, second.background].concat();
    all.sort_unstable();
    assert_eq!(runner.background(), all);
    crate::support::kill(all[0]);
    await_end(all[0]);
    assert_eq!(runner.background(), all[1..]);
    runner.kill_background();
    await_empty(&cwd);
}

#[tokio::test]
async fn each_call_starts_afresh() {
    let (_dir, cwd) = folder();
    fs::create_dir(cwd.join("sub")).unwrap();
    let runner = runner();
    run(&runner, bash("cd sub; export A=1", &cwd)).await;
    let (_, output) = run(&runner, bash("pwd; echo [$A]", &cwd)).await;
    assert_eq!(output, format!("{}\n[]\n", cwd.display()));
}

struct Count {
    bytes: u64,
    most_resident: u64,
}

impl OutputSink for Count {
    fn write(&mut self, chunk: &[u8]) {
        if self.bytes >> 24 != (self.bytes + chunk.len() as u64) >> 24 {
            self.most_resident = self.most_resident.max(resident());
        }
        self.bytes += chunk.len() as u64;
    }
}

/// Resident memory of this process in bytes.
fn resident() -> u64 {
    let status = fs::read_to_string(Path::new("/proc/self/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap()
        * 1024
}

#[tokio::test]
async fn plays_the_host_that_is_flooded() {
    let Some(cwd) = host_folder("flooded") else {
        return;
    };
    let mut count = Count {
        bytes: 0,
        most_resident: 0,
    };
    let before = resident();
    let spec = bash("yes AAAA | head -c 300000000", &cwd);
    let report = runner()
        .run(spec, &mut count, CancellationToken::new())
        .await
        .unwrap();
    assert_eq!(
        (report.status, count.bytes),
        (Some(ExitStatus::Code(0)), 300_000_000)
    );
    let growth = count.most_resident.saturating_sub(before);
    assert!(growth < 50_000_000, "{before} {}", count.most_resident);
}

/// In a process of its own, where no other test takes memory meanwhile.
#[test]
fn a_flood_costs_no_memory() {
    let (_dir, cwd) = folder();
    let host = as_host("flooded", "process::plays_the_host_that_is_flooded", &cwd);
    let output = host.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
