//! `bash`: texts, details, what ends with a call and what does not.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fluzo_agent::{Tool, ToolContext, ToolError, UpdateSink};
use fluzo_exec::Environment;
use fluzo_llm::{AbortSignal, ToolOutput};
use fluzo_policy::Access;
use fluzo_tools::{BashTool, SpillPolicy, ToolEnv, ToolLimits};
use serde_json::{Value, json};

use crate::support::{alone, call, call_in, peak_memory, plain_env, text, text_of};

type Outcome = Result<ToolOutput, ToolError>;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn tool(env: ToolEnv) -> Arc<dyn Tool> {
    Arc::new(BashTool::new(Arc::new(env)))
}

async fn bash_in(dir: &Path, args: Value) -> Outcome {
    call(tool(plain_env(dir)), args).await
}

async fn bash(command: &str) -> Outcome {
    let dir = folder();
    bash_in(dir.path(), json!({"command": command})).await
}

/// The pids that a call named as still running, checked against its text; they are killed.
fn background(outcome: &Outcome) -> Vec<u64> {
    let details = match outcome {
        Ok(output) => output.details.clone(),
        Err(error) => error.details.clone(),
    };
    let pids: Vec<u64> = details
        .and_then(|details| serde_json::from_value(details["background"].clone()).ok())
        .unwrap_or_default();
    let lines: Vec<_> = pids
        .iter()
        .map(|pid| format!("[Background process {pid} still running]"))
        .collect();
    assert!(text_of(outcome).ends_with(&lines.join("\n")));
    for pid in &pids {
        let kill = std::process::Command::new("kill")
            .args(["-9", &pid.to_string()])
            .status();
        assert!(kill.unwrap().success());
    }
    pids
}

#[tokio::test]
async fn texts() {
    let rows = [
        ("echo out; echo err >&2", "out\nerr\n"),
        ("true", "(no output)"),
        ("false", "error: (no output)\n\nCommand exited with code 1"),
        (
            "echo out; echo err >&2; exit 3",
            "error: out\nerr\n\n\nCommand exited with code 3",
        ),
        (
            "exec >/dev/null 2>&1; exit 3",
            "error: (no output)\n\nCommand exited with code 3",
        ),
        (
            "echo a; kill -9 $$",
            "error: a\n\n\nCommand terminated by signal 9",
        ),
        (
            "kill -TERM $$",
            "error: (no output)\n\nCommand terminated by signal 15",
        ),
        (
            r"printf '\033[31mred\033[0m\r\n\0\007end'",
            "\u{1b}[31mred\u{1b}[0m\r\n\0\u{7}end",
        ),
        (r"printf 'a\377b\303'", "a\u{fffd}b\u{fffd}"),
    ];
    for (command, expected) in rows {
        let outcome = bash(command).await;
        assert_eq!(text_of(&outcome), expected, "{command}");
        let details = outcome.map_or_else(|error| error.details, |output| output.details);
        assert_eq!(details, None, "{command}");
    }
}

#[tokio::test]
async fn both_streams_arrive_in_order() {
    let outcome = bash("for n in 1 2 3 4 5; do echo o$n; echo e$n >&2; done").await;
    let expected: String = (1..=5).map(|n| format!("o{n}\ne{n}\n")).collect();
    assert_eq!(text_of(&outcome), expected);
}

#[tokio::test]
async fn timeout_ends_the_whole_tree_and_keeps_the_output() {
    let dir = folder();
    let command = "mkfifo p; (echo $BASHPID > inner; echo hi; while :; do sleep 9; done) > p & \
                   cat p; touch late";
    let args = json!({"command": command, "timeout": 1.5});
    assert_eq!(
        text_of(&bash_in(dir.path(), args).await),
        "error: hi\n\n\nCommand timed out after 1.5 seconds"
    );
    let inner = fs::read_to_string(dir.path().join("inner")).unwrap();
    assert!(!is_running(inner.trim()));
    assert!(!dir.path().join("late").exists());
}

#[tokio::test]
async fn a_timeout_without_output_has_no_placeholder() {
    let dir = folder();
    let args = json!({"command": "sleep 600", "timeout": "1"});
    assert_eq!(
        text_of(&bash_in(dir.path(), args).await),
        "error: Command timed out after 1 seconds"
    );
}

#[tokio::test]
async fn timeouts_that_are_no_limit() {
    let dir = folder();
    for timeout in [json!(0), json!(-5), json!(1e300), json!(3_000_000_000_u64)] {
        let args = json!({"command": "echo ok", "timeout": timeout});
        assert_eq!(text_of(&bash_in(dir.path(), args).await), "ok\n");
    }
}

/// Whether a process runs; one that is dead but not yet collected does not.
fn is_running(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// A pipe named `ready` in `dir`: reading it waits until a command has written to it.
fn fifo(dir: &Path) -> PathBuf {
    let path = dir.join("ready");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    path
}

#[tokio::test]
async fn abort_ends_the_whole_tree_and_keeps_the_output() {
    let dir = folder();
    let abort = AbortSignal::new();
    let context = ToolContext {
        abort: abort.clone(),
        updates: UpdateSink::discarding(),
    };
    let ready = fifo(dir.path());
    let command = "echo started; setsid sleep 600 & echo $! > ready; wait";
    let cancel = async {
        let pid = tokio::task::spawn_blocking(move || fs::read_to_string(ready).unwrap());
        let pid = pid.await.unwrap();
        abort.cancel();
        pid
    };
    let run = call_in(
        tool(plain_env(dir.path())),
        json!({"command": command}),
        context,
    );
    let (outcome, pid) = tokio::join!(run, cancel);
    assert_eq!(text_of(&outcome), "error: started\n\n\nCommand aborted");
    assert!(!is_running(pid.trim()));
}

#[tokio::test]
async fn an_abort_before_the_start_starts_nothing() {
    let dir = folder();
    let abort = AbortSignal::new();
    abort.cancel();
    let context = ToolContext {
        abort,
        updates: UpdateSink::discarding(),
    };
    let args = json!({"command": "touch started"});
    let outcome = call_in(tool(plain_env(dir.path())), args, context).await;
    assert_eq!(text_of(&outcome), "error: Operation aborted");
    assert!(!dir.path().join("started").exists());
}

#[tokio::test]
async fn a_dropped_call_ends_its_tree() {
    let dir = folder();
    let ready = fifo(dir.path());
    // Each process of the tree holds the pipe open.
    let args = json!({"command": "exec 3> ready; setsid sleep 600 & echo go >&3; wait"});
    let run = bash_in(dir.path(), args);
    let started = tokio::task::spawn_blocking(move || {
        let mut pipe = BufReader::new(fs::File::open(ready).unwrap());
        assert_eq!(pipe.read_line(&mut String::new()).unwrap(), 3);
        pipe
    });
    let mut pipe = tokio::select! {
        pipe = started => pipe.unwrap(),
        outcome = run => panic!("{outcome:?}"),
    };
    // The call was dropped at the end of the choice; the last process closes the pipe.
    assert_eq!(pipe.read_to_end(&mut Vec::new()).unwrap(), 0);
}

#[tokio::test]
async fn background_processes_hold_nothing_and_are_named() {
    for command in [
        "sleep 600 & echo done",
        "(while :; do echo t; sleep 1; done) & echo done",
        "sleep 600 </dev/null >/dev/null 2>&1 & echo done",
    ] {
        let dir = folder();
        let env = Arc::new(plain_env(dir.path()));
        let tool = Arc::new(BashTool::new(Arc::clone(&env)));
        let outcome = call(tool, json!({"command": command})).await;
        let text = text_of(&outcome);
        assert!(text.contains("done\n") && !text.contains("error"), "{text}");
        let state = env.processes.background();
        let named = background(&outcome);
        assert_eq!(named.len(), 1, "{command}: {text}");
        assert_eq!(
            state.into_iter().map(u64::from).collect::<Vec<_>>(),
            named,
            "{command}"
        );
    }
}

#[tokio::test]
async fn background_processes_are_named_after_the_status() {
    let outcome = bash("sleep 600 & exit 3").await;
    let text = text_of(&outcome);
    let start = "error: (no output)\n\nCommand exited with code 3\n[Background process ";
    assert!(text.starts_with(start), "{text}");
    assert_eq!(background(&outcome).len(), 1);
}

#[tokio::test]
async fn input_is_empty_and_there_is_no_terminal() {
    for (command, expected) in [
        ("cat", "(no output)"),
        ("read x; echo \"[$x]\"", "[]\n"),
        ("readlink /proc/self/fd/0", "/dev/null\n"),
        (
            "if (: > /dev/tty) 2>/dev/null; then echo terminal; else echo none; fi",
            "none\n",
        ),
        (
            "read -r line < /proc/self/stat; set -- ${line##*) }; [ $3 = $4 ] && echo own session",
            "own session\n",
        ),
    ] {
        assert_eq!(text_of(&bash(command).await), expected, "{command}");
    }
}

#[tokio::test]
async fn the_shell_starts_anew_for_each_call() {
    let dir = folder();
    fs::create_dir(dir.path().join("sub")).unwrap();
    let tool = tool(plain_env(dir.path()));
    let first = json!({"command": "cd sub; export A=1; sleep 99", "timeout": 0.2});
    assert!(call(Arc::clone(&tool), first).await.is_err());
    let second = call(
        Arc::clone(&tool),
        json!({"command": "pwd -P; echo \"[$A]\""}),
    )
    .await;
    let here = dir.path().canonicalize().unwrap();
    assert_eq!(text_of(&second), format!("{}\n[]\n", here.display()));
    let said = &tool.spec().description;
    assert!(said.contains("variables do not persist"), "{said}");
}

#[tokio::test]
async fn shell_prefix_and_environment_are_those_handed_in() {
    let dir = folder();
    let shell = dir.path().join("shell");
    fs::write(&shell, "#!/bin/sh\necho custom\nexec /bin/bash \"$@\"\n").unwrap();
    fs::set_permissions(&shell, fs::Permissions::from_mode(0o755)).unwrap();
    let mut env = plain_env(dir.path());
    env.bash.shell = shell;
    env.bash.prefix = Some("export P=prefix".into());
    env.bash.environment = Environment::Exact(vec![
        ("PATH".into(), "/usr/bin:/bin".into()),
        ("E".into(), "exact".into()),
    ]);
    let outcome = call(tool(env), json!({"command": "echo $P $E [$HOME]"})).await;
    assert_eq!(text_of(&outcome), "custom\nprefix exact []\n");
}

#[tokio::test]
async fn what_cannot_be_started_is_named() {
    let dir = folder();
    let gone = dir.path().join("gone");
    assert_eq!(
        text_of(&bash_in(&gone, json!({"command": "true"})).await),
        format!(
            "error: Working directory does not exist: {}\nCannot execute bash commands.",
            gone.display()
        )
    );
    let mut env = plain_env(dir.path());
    env.bash.shell = gone.clone();
    assert_eq!(
        text_of(&call(tool(env), json!({"command": "true"})).await),
        format!("error: Custom shell path not found: {}", gone.display())
    );
    let long = "#".repeat(200_000);
    assert_eq!(
        text_of(&bash_in(dir.path(), json!({"command": long})).await),
        "error: Failed to run /bin/bash: the command is too long. Write it to a file and run that."
    );
    assert_eq!(
        text_of(&bash_in(dir.path(), json!({"command": "a\0b"})).await),
        "error: Failed to run /bin/bash: nul byte found in provided data"
    );
}

/// The file that a notice names; its folder is the working folder of the call.
fn whole_output(outcome: &Outcome) -> (String, PathBuf) {
    let text = text_of(outcome);
    let (before, rest) = text.rsplit_once(": /").unwrap();
    let path = PathBuf::from(format!("/{}", rest.split(']').next().unwrap()));
    let name = path.file_name().unwrap().to_str().unwrap();
    let digits = name
        .strip_prefix("pi-bash-")
        .and_then(|name| name.strip_suffix(".log"))
        .unwrap();
    assert!(digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_hexdigit()));
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    (before.to_owned(), path)
}

#[tokio::test]
async fn long_output_shows_its_last_lines_and_names_the_whole() {
    let dir = folder();
    let outcome = bash_in(dir.path(), json!({"command": "seq 1 20000"})).await;
    let (text, path) = whole_output(&outcome);
    assert!(text.starts_with("18001\n18002\n"));
    assert!(text.ends_with("\n20000\n\n[Showing lines 18001-20000 of 20000. Full output"));
    let whole: String = (1..=20_000).map(|n| format!("{n}\n")).collect();
    assert_eq!(fs::read_to_string(&path).unwrap(), whole);
    let details = outcome.unwrap().details.unwrap();
    assert_eq!(details["fullOutputPath"], path.to_str().unwrap());
    let shown: Vec<_> = (18_001..=20_000).map(|n| n.to_string()).collect();
    assert_eq!(
        details["truncation"],
        json!({
            "content": shown.join("\n"),
            "truncated": true,
            "truncatedBy": "lines",
            "totalLines": 20_000,
            "totalBytes": whole.len(),
            "outputLines": 2000,
            "outputBytes": 11_999,
            "lastLinePartial": false,
            "firstLineExceedsLimit": false,
            "maxLines": 2000,
            "maxBytes": 131_072,
        })
    );
}

#[tokio::test]
async fn byte_limit_and_huge_lines_have_notices_of_their_own() {
    let dir = folder();
    let line = "printf '%099d\\n' 0";
    let command = format!("for n in {{1..2000}}; do {line}; done");
    let (text, _) = whole_output(&bash_in(dir.path(), json!({"command": command})).await);
    let end = "[Showing lines 691-2000 of 2000 (128.0KB limit). Full output";
    assert!(text.ends_with(end), "{}", &text[text.len() - 90..]);

    let command = "head -c 200000 /dev/zero | tr '\\0' x";
    let (text, path) = whole_output(&bash_in(dir.path(), json!({"command": command})).await);
    let end = "x\n\n[Showing last 128.0KB of line 1 (line is 195.3KB). Full output";
    assert!(text.ends_with(end), "{}", &text[text.len() - 90..]);
    assert_eq!(fs::metadata(path).unwrap().len(), 200_000);
}

#[tokio::test]
async fn exactly_the_limit_is_not_truncated() {
    let dir = folder();
    for (command, bytes) in [
        ("seq 1 2000", 8893),
        ("head -c 131072 /dev/zero | tr '\\0' x", 131_072),
    ] {
        let output = bash_in(dir.path(), json!({"command": command}))
            .await
            .unwrap();
        assert_eq!((text(&output).len(), output.details), (bytes, None));
    }
    for command in ["seq 1 2001", "head -c 131073 /dev/zero | tr '\\0' x"] {
        let output = bash_in(dir.path(), json!({"command": command}))
            .await
            .unwrap();
        assert!(text(&output).contains("Full output: "), "{command}");
    }
}

#[tokio::test]
async fn a_command_that_fails_keeps_its_whole_output_too() {
    let dir = folder();
    let outcome = bash_in(dir.path(), json!({"command": "seq 1 3000; exit 2"})).await;
    let (_, path) = whole_output(&outcome);
    let error = outcome.unwrap_err();
    let end = format!("{}]\n\nCommand exited with code 2", path.display());
    assert!(error.message.ends_with(&end), "{}", error.message);
    assert_eq!(error.details.unwrap()["truncation"]["totalLines"], 3000);
}

#[tokio::test]
async fn what_is_not_kept_is_said() {
    let dir = folder();
    let rows = [
        (SpillPolicy::Drop, "of 3000]".to_owned()),
        (
            SpillPolicy::File {
                folder: dir.path().join("missing"),
                max_bytes: 1 << 20,
            },
            "of 3000. Full output not kept: no such file or directory]".to_owned(),
        ),
        (
            SpillPolicy::File {
                folder: dir.path().to_path_buf(),
                max_bytes: 2048,
            },
            format!(
                "of 3000. Full output (first 2.0KB): {}",
                dir.path().display()
            ),
        ),
    ];
    for (policy, expected) in rows {
        let mut env = plain_env(dir.path());
        env.bash.spill = policy;
        let outcome = call(tool(env), json!({"command": "seq 1 3000"})).await;
        let text = text_of(&outcome);
        assert!(text.contains(&expected), "{}", &text[text.len() - 120..]);
    }
}

#[tokio::test]
async fn limits_are_those_handed_in() {
    let dir = folder();
    let mut env = plain_env(dir.path());
    env.limits = ToolLimits {
        text: fluzo_stdx::truncate::TextLimits {
            max_lines: 3,
            max_bytes: 1024,
        },
        grep_line: 10,
    };
    env.bash.spill = SpillPolicy::Drop;
    let tool = tool(env);
    assert!(tool.spec().description.contains("3 lines or 1.0KB"));
    let outcome = call(tool, json!({"command": "seq 1 9"})).await;
    assert_eq!(text_of(&outcome), "7\n8\n9\n\n[Showing lines 7-9 of 9]");
}

#[tokio::test]
async fn a_flood_of_300_mb_needs_little_memory_and_a_bounded_file() {
    if !alone("bash::a_flood_of_300_mb_needs_little_memory_and_a_bounded_file") {
        return;
    }
    let dir = folder();
    let mut env = plain_env(dir.path());
    env.bash.spill = SpillPolicy::File {
        folder: dir.path().to_path_buf(),
        max_bytes: 10 << 20,
    };
    let before = peak_memory();
    let args = json!({"command": "yes AAAA | head -c 300000000"});
    let outcome = call(tool(env), args).await;
    let grown = peak_memory() - before;
    assert!(grown < 50 * 1024, "{grown} KiB");
    let (text, path) = whole_output(&outcome);
    let end = "-60000000 of 60000000. Full output (first 10.0MB)";
    assert!(text.ends_with(end), "{}", &text[text.len() - 90..]);
    assert_eq!(fs::metadata(path).unwrap().len(), 10 << 20);
}

#[test]
fn the_request_part_is_short_and_in_pis_form() {
    let dir = folder();
    let tool = tool(plain_env(dir.path()));
    let spec = serde_json::to_string(tool.spec()).unwrap();
    assert!(spec.len() <= 500, "{} bytes", spec.len());
    assert_eq!(
        tool.spec().parameters.to_string(),
        r#"{"type":"object","required":["command"],"properties":{"command":{"type":"string"},"timeout":{"type":"number","description":"Seconds; none by default"}}}"#
    );
    assert_eq!(
        tool.accesses(&json!({"command": "ls"})),
        [Access::Command {
            command: "ls".into(),
            cwd: dir.path().to_path_buf()
        }]
    );
}
