//! Commands of the user's: cleaned output, what is kept of it, and what ends a command.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use fluzo_exec::Environment;
use fluzo_llm::AbortSignal;
use fluzo_llm::message::BashExecutionMessage;
use fluzo_tools::{SpillPolicy, ToolEnv, user_shell};
use serde_json::json;

use crate::support::{alone, peak_memory, plain_env};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

async fn run_in(env: &ToolEnv, command: &str) -> BashExecutionMessage {
    let abort = AbortSignal::new();
    user_shell::run(env, command, &abort).await.unwrap()
}

async fn run(command: &str) -> BashExecutionMessage {
    let dir = folder();
    run_in(&plain_env(dir.path()), command).await
}

/// A pipe in `dir` through which a command says that it has begun.
fn fifo(dir: &Path) -> PathBuf {
    let path = dir.join("ready");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    path
}

/// The next line from the pipe; the command holds it open for as long as it lives.
async fn line_of(pipe: PathBuf) -> (String, BufReader<fs::File>) {
    let read = tokio::task::spawn_blocking(move || {
        let mut pipe = BufReader::new(fs::File::open(pipe).unwrap());
        let mut line = String::new();
        pipe.read_line(&mut line).unwrap();
        (line, pipe)
    });
    read.await.unwrap()
}

#[tokio::test]
async fn output_is_cleaned_and_only_a_command_that_ended_has_a_code() {
    let rows = [
        ("echo out; echo err >&2; exit 3", "out\nerr\n", Some(3)),
        ("true", "", Some(0)),
        (
            r"printf '\033[1;31mred\033[0m\r\n\0\007\033]0;title\007end'",
            "red\nend",
            Some(0),
        ),
        (r"printf 'a\377b\303'", "a\u{fffd}b\u{fffd}", Some(0)),
        ("echo a; kill -9 $$", "a\n", None),
    ];
    for (command, output, exit_code) in rows {
        let got = run(command).await;
        let expected = BashExecutionMessage {
            command: command.to_owned(),
            output: output.to_owned(),
            exit_code,
            ..BashExecutionMessage::default()
        };
        assert_eq!(got, expected);
    }
}

#[tokio::test]
async fn the_message_has_the_form_of_the_session() {
    let got = run("echo hi; exit 4").await;
    let expected = json!({
        "command": "echo hi; exit 4", "output": "hi\n", "exitCode": 4, "cancelled": false,
        "truncated": false, "timestamp": 0,
    });
    assert_eq!(serde_json::to_value(&got).unwrap(), expected);

    let got = BashExecutionMessage {
        exclude_from_context: Some(true),
        ..run("seq 1 2001").await
    };
    let json = serde_json::to_value(&got).unwrap();
    assert_eq!(json["truncated"], true);
    assert_eq!(json["excludeFromContext"], true);
    assert!(json["fullOutputPath"].is_string());
    let back: BashExecutionMessage = serde_json::from_value(json).unwrap();
    assert_eq!(back, got);
}

#[tokio::test]
async fn shell_prefix_and_environment_are_those_of_the_tool() {
    let dir = folder();
    let mut env = plain_env(dir.path());
    env.bash.prefix = Some("export P=prefix".into());
    env.bash.environment = Environment::Exact(vec![("E".into(), "exact".into())]);
    let command =
        "echo $P $E [$HOME]; pwd -P; readlink /proc/self/fd/0 || /bin/readlink /proc/self/fd/0";
    let got = run_in(&env, command).await;
    let here = dir.path().canonicalize().unwrap();
    let expected = format!("prefix exact []\n{}\n/dev/null\n", here.display());
    assert_eq!(got.output, expected);
}

#[tokio::test]
async fn the_end_of_long_output_is_kept_without_notice_and_the_whole_in_a_file() {
    let dir = folder();
    let env = plain_env(dir.path());
    let whole = |last: u32| (1..=last).map(|n| format!("{n}\n")).collect::<String>();
    let file = |got: &BashExecutionMessage| {
        fs::read_to_string(got.full_output_path.as_ref().unwrap()).unwrap()
    };

    let short = run_in(&env, "seq 1 2000").await;
    assert_eq!((short.output, short.truncated), (whole(2000), false));
    assert_eq!(short.full_output_path, None);

    // By lines; the file holds what was cleaned.
    let lines = run_in(&env, r"seq 1 3000 | sed 's/.*/\x1b[1m&\x1b[0m\r/'").await;
    assert!(lines.truncated);
    assert_eq!(lines.output.lines().next(), Some("1001"));
    assert_eq!(lines.output.lines().last(), Some("3000"));
    assert_eq!(file(&lines), whole(3000));

    // By bytes.
    let bytes = run_in(&env, "yes $(printf %099d 0) | head -c 60000").await;
    assert!(bytes.truncated);
    assert_eq!(bytes.output.trim_end().len(), 51_199);
    assert_eq!(file(&bytes).len(), 60_000);

    // More arrived than is kept, but little is left of it.
    let escapes = run_in(&env, r"yes $'\033[1m' | head -c 80000 | tr -d '\n'; echo x").await;
    assert_eq!((escapes.output.as_str(), escapes.truncated), ("x\n", false));
    assert_eq!(file(&escapes), "x\n");
}

#[tokio::test]
async fn a_flood_needs_little_memory_and_a_bounded_file() {
    if !alone("user_shell::a_flood_needs_little_memory_and_a_bounded_file") {
        return;
    }
    let dir = folder();
    let mut env = plain_env(dir.path());
    env.bash.spill = SpillPolicy::File {
        folder: dir.path().to_path_buf(),
        max_bytes: 1 << 20,
    };
    let before = peak_memory();
    // The second part is a title that never ends.
    let command =
        r"yes AAAA | head -c 50000000; printf '\033]'; yes B | head -c 50000000 | tr -d '\n'";
    let got = run_in(&env, command).await;
    let grown = peak_memory() - before;
    assert!(grown < 20 * 1024, "{grown} KiB");
    assert!(got.truncated && got.output.len() <= 50 * 1024);
    assert!(got.output.ends_with('B'));
    let file = fs::metadata(got.full_output_path.unwrap()).unwrap();
    assert_eq!(file.len(), 1 << 20);
}

#[tokio::test]
async fn an_abort_ends_a_tree_that_ignores_signals_and_keeps_the_output() {
    let dir = folder();
    let env = plain_env(dir.path());
    let abort = AbortSignal::new();
    let pipe = fifo(dir.path());
    let command = "trap '' TERM INT HUP; exec 3> ready; echo started; \
                   (trap '' TERM INT HUP; while :; do sleep 600; done) & echo go >&3; wait";
    let cancel = async {
        let (_, rest) = line_of(pipe).await;
        abort.cancel();
        rest
    };
    let (got, mut pipe) = tokio::join!(user_shell::run(&env, command, &abort), cancel);
    let got = got.unwrap();
    assert_eq!((got.output.as_str(), got.exit_code), ("started\n", None));
    assert!(got.cancelled && !got.truncated);
    // The last process of the tree closes the pipe.
    assert_eq!(pipe.read_to_end(&mut Vec::new()).unwrap(), 0);
}

#[tokio::test]
async fn an_abort_that_came_first_starts_nothing() {
    let dir = folder();
    let env = plain_env(dir.path());
    let abort = AbortSignal::new();
    abort.cancel();
    let got = user_shell::run(&env, "touch started", &abort).await;
    let got = got.unwrap();
    assert!(got.cancelled && got.output.is_empty() && got.exit_code.is_none());
    assert!(!dir.path().join("started").exists());
}

#[tokio::test]
async fn a_dropped_command_ends_its_tree() {
    let dir = folder();
    let env = plain_env(dir.path());
    let started = line_of(fifo(dir.path()));
    let run = run_in(&env, "exec 3> ready; setsid sleep 600 & echo go >&3; wait");
    let (_, mut pipe) = tokio::select! {
        started = started => started,
        got = run => panic!("{got:?}"),
    };
    assert_eq!(pipe.read_to_end(&mut Vec::new()).unwrap(), 0);
}

#[tokio::test]
async fn what_is_left_running_is_named() {
    let got = run("sleep 600 </dev/null >/dev/null 2>&1 & echo $!; echo -n done").await;
    let (pid, rest) = got.output.split_once('\n').unwrap();
    assert_eq!(
        rest,
        format!("done\n[Background process {pid} still running]")
    );
    let kill = std::process::Command::new("kill")
        .args(["-9", pid])
        .status();
    assert!(kill.unwrap().success());
}

#[tokio::test]
async fn what_cannot_be_started_says_why() {
    let dir = folder();
    let mut env = plain_env(dir.path());
    env.bash.shell = dir.path().join("none");
    let refused = user_shell::run(&env, "true", &AbortSignal::new()).await;
    let text = format!("Custom shell path not found: {}", env.bash.shell.display());
    assert_eq!(refused.unwrap_err().to_string(), text);

    let mut env = plain_env(dir.path());
    env.cwd = dir.path().join("gone");
    let refused = user_shell::run(&env, "true", &AbortSignal::new()).await;
    let text = refused.unwrap_err().to_string();
    assert!(
        text.starts_with("Working directory does not exist: "),
        "{text}"
    );
}
