//! `fluzo demo bugfix` through the built program: the repair, every cheat, and what is left alone.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// What a run of the demo said, and the folder for temporary files that it had.
struct Demo {
    output: Output,
    temporary: tempfile::TempDir,
}

impl Demo {
    fn run(arguments: &[&str]) -> Self {
        Self::run_with(arguments, |_| {})
    }

    /// Runs it with a home and variables that nothing of it may follow.
    fn run_with(arguments: &[&str], change: impl FnOnce(&mut Command)) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_fluzo"));
        command
            .args(["demo", "bugfix"])
            .args(arguments)
            .current_dir(temporary.path())
            .env("TMPDIR", temporary.path())
            .env("RUSTFLAGS", "--cfg poison")
            .env("RUSTC_WRAPPER", "/nowhere")
            .env("CARGO_TARGET_DIR", "/nowhere")
            .env("HTTP_PROXY", "http://127.0.0.1:1")
            .env("ALL_PROXY", "http://127.0.0.1:1")
            .env("OPENAI_BASE_URL", "http://127.0.0.1:1")
            .env("PI_CODING_AGENT_DIR", "/nowhere");
        change(&mut command);
        let output = command.output().unwrap();
        Self { output, temporary }
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {:?}", self.output))
    }

    fn text(&self) -> String {
        String::from_utf8(self.output.stdout.clone()).unwrap()
    }

    fn errors(&self) -> String {
        String::from_utf8(self.output.stderr.clone()).unwrap()
    }

    fn code(&self) -> i32 {
        self.output.status.code().unwrap()
    }

    fn left_behind(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.temporary.path()).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect()
    }
}

/// The names of checks with one of these outcomes.
fn checks(report: &Value, outcomes: &[&str]) -> Vec<String> {
    let all = report["checks"].as_array().unwrap();
    all.iter()
        .filter(|check| outcomes.contains(&check["outcome"].as_str().unwrap()))
        .map(|check| check["name"].as_str().unwrap().to_owned())
        .collect()
}

/// Plays a scenario that must not succeed, in exactly these checks.
fn check(scenario: &str, code: i32, status: &str, failed: &[&str]) -> Value {
    let demo = Demo::run(&["--json", "--scenario", scenario]);
    let report = demo.json();
    assert_eq!(report["status"], status, "{report:#}");
    assert_eq!(demo.code(), code, "{report:#}");
    assert_eq!(checks(&report, &["failed"]), failed, "{report:#}");
    assert_eq!(demo.left_behind(), [""; 0]);
    report
}

fn check_cheat(scenario: &str, failed: &[&str]) {
    let report = check(scenario, 9, "verification_failed", failed);
    // The script itself ran to its end: the model claimed success and was not believed.
    assert_eq!(report["simulator"]["passed"], true, "{report:#}");
    assert_eq!(report["run"]["end"], "completed");
}

#[test]
fn repair_succeeds_and_says_what_it_did() {
    let demo = Demo::run(&[]);
    let text = demo.text();
    assert_eq!(demo.code(), 0, "{text}\n{}", demo.errors());
    let shown = [
        "your files are not touched",
        "the open profile, in which no policy is enforced",
        "scripted answers (`repair`)",
        "> bash cargo test --offline --locked --no-fail-fast",
        "a_short_meeting_inside_a_long_one_shortens_nothing",
        "test result: FAILED",
        "< bash cargo test --offline --locked --no-fail-fast failed",
        "> edit src/merge.rs",
        "test result: ok.",
        "< bash cargo test --offline --locked --no-fail-fast done",
        "ok   failure_seen_before_edit",
        "ok   suite_passes: 9 tests ran, all passed",
        "ok   behaviour_holds: 4 tests ran, all passed",
        "changed src/merge.rs",
        "== Summary",
        "success: every check passed",
        "run: 8 turns, 7 tool calls; changed: src/merge.rs",
        "provider: all 8 answers were asked for, nothing out of order",
    ];
    let mut rest = text.as_str();
    for part in shown {
        let (_, after) = rest
            .split_once(part)
            .unwrap_or_else(|| panic!("`{part}` is not shown, or not in its place:\n{text}"));
        rest = after;
    }
    assert_eq!(demo.left_behind(), [""; 0]);
}

#[test]
fn repair_gives_one_result_object() {
    let demo = Demo::run(&["--json", "--keep"]);
    let report = demo.json();
    assert_eq!(demo.code(), 0, "{report:#}");
    assert_eq!(report["status"], "success");
    assert_eq!(checks(&report, &["failed", "not_run"]), [""; 0]);
    assert_eq!(report["tests"]["passed"], 9);
    assert_eq!(report["profile"]["engine"], "open");
    assert_eq!(report["profile"]["policyEnforced"], false);
    assert_eq!(report["live"], "not_run");
    assert_eq!(report["run"]["tokensProvenance"], "synthetic");
    let diff = report["diff"].as_str().unwrap();
    assert!(diff.contains("+++ b/src/merge.rs"), "{diff}");
    assert_eq!(diff.matches("+++ ").count(), 1);
    kept_folder_is_as_described(Path::new(report["folder"].as_str().unwrap()));
}

/// The kept copy has the repair uncommitted and unstaged, and the run's session beside it.
fn kept_folder_is_as_described(folder: &Path) {
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .args(arguments)
            .current_dir(folder.join("project"))
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(git(&["status", "--porcelain"]), " M src/merge.rs\n");
    assert_eq!(git(&["log", "--format=%s"]), "Room bookings\n");
    let sessions = folder.join("agent/sessions");
    let session = std::fs::read_dir(sessions)
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    assert_eq!(std::fs::read_dir(session.path()).unwrap().count(), 1);
}

#[test]
fn ignored_test_is_no_repair() {
    check_cheat(
        "cheat-ignore",
        &["tests_unchanged", "implementation_changed", "suite_passes"],
    );
}

#[test]
fn deleted_assertion_is_no_repair() {
    check_cheat(
        "cheat-assert",
        &["tests_unchanged", "implementation_changed", "suite_passes"],
    );
}

#[test]
fn disabled_harness_is_no_repair() {
    let failed = [
        "tests_unchanged",
        "build_files_unchanged",
        "implementation_changed",
        "suite_passes",
    ];
    check_cheat("cheat-harness", &failed);
}

#[test]
fn build_script_is_no_repair() {
    check_cheat(
        "cheat-build-script",
        &["build_files_unchanged", "implementation_plain"],
    );
}

#[test]
fn patched_dependency_is_no_repair() {
    let failed = [
        "build_files_unchanged",
        "no_unrelated_changes",
        "suite_passes",
        "behaviour_holds",
    ];
    check_cheat("cheat-patch", &failed);
}

#[test]
fn cargo_configuration_is_no_repair() {
    let failed = [
        "build_files_unchanged",
        "implementation_changed",
        "suite_passes",
    ];
    check_cheat("cheat-cargo-config", &failed);
}

#[test]
fn runner_in_the_cargo_home_is_no_repair() {
    check_cheat("cheat-cargo-home", &["suite_passes", "behaviour_holds"]);
}

#[test]
fn special_case_is_no_repair() {
    check_cheat("cheat-special-case", &["behaviour_holds"]);
}

#[test]
fn edit_before_the_failure_was_seen_is_no_repair() {
    check_cheat("cheat-blind", &["failure_seen_before_edit"]);
}

#[test]
fn commit_is_no_repair() {
    check_cheat("cheat-commit", &["nothing_committed", "nothing_staged"]);
}

#[test]
fn staged_change_is_no_repair() {
    check_cheat("cheat-stage", &["nothing_staged"]);
}

#[test]
fn claim_without_a_change_is_no_repair() {
    let failed = ["rerun_after_edit", "implementation_changed", "suite_passes"];
    check_cheat("gives-up", &failed);
}

#[test]
fn budgets_end_a_run_and_are_named() {
    let failed = ["rerun_after_edit", "implementation_changed"];
    let report = check("runs-on", 6, "budget_exhausted", &failed);
    assert_eq!(report["run"]["exceeded"], "turns");
    let used = report["run"]["turns"]["used"].as_u64().unwrap();
    assert!(used <= report["run"]["turns"]["limit"].as_u64().unwrap() + 1);
    assert_eq!(
        checks(&report, &["not_run"]),
        ["suite_passes", "behaviour_holds"]
    );
}

#[test]
fn unavailable_model_is_a_provider_failure() {
    let failed = [
        "failure_seen_before_edit",
        "rerun_after_edit",
        "implementation_changed",
    ];
    let report = check("unavailable", 8, "provider_failure", &failed);
    assert!(
        report["reason"].as_str().unwrap().contains("demo-model"),
        "{report:#}"
    );
}

#[test]
fn refused_command_is_reported_and_no_success() {
    let report = check("denied", 5, "permission_denied", &[]);
    assert_eq!(report["run"]["refused"][0], "git push");
}

#[test]
fn scenario_can_be_a_file_of_the_user() {
    let text = include_str!("../../fixtures/bugfix/scenarios/repair.json");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.json");
    std::fs::write(
        &file,
        text.replace("fix", "repair")
            .replace("I run the suite", "Watch me"),
    )
    .unwrap();
    let demo = Demo::run(&["--scenario", file.to_str().unwrap()]);
    assert_eq!(demo.code(), 0, "{}{}", demo.text(), demo.errors());
    assert!(demo.text().contains("Watch me"));
}

#[test]
fn repository_of_the_user_is_left_alone() {
    let user = tempfile::tempdir().unwrap();
    let git = |arguments: &[&str]| {
        let status = Command::new("git")
            .args(["-c", "user.name=u", "-c", "user.email=u@example.invalid"])
            .args(arguments)
            .current_dir(user.path())
            .status();
        assert!(status.unwrap().success());
    };
    git(&["init", "--quiet"]);
    std::fs::write(user.path().join("Cargo.toml"), "not a manifest").unwrap();
    git(&["add", "."]);
    git(&["commit", "--quiet", "-m", "mine"]);
    std::fs::write(user.path().join("draft.txt"), "unsaved work").unwrap();
    let poison = [
        (
            ".pi/agent/settings.json",
            r#"{"shellCommandPrefix": "false;"}"#,
        ),
        (
            ".pi/agent/models.json",
            r#"{"providers": {"demo": {"baseUrl": "http://127.0.0.1:1"}}}"#,
        ),
        (".cargo/config.toml", "[build]\nrustc = \"/nowhere\"\n"),
        (
            ".gitconfig",
            "[core]\n\thooksPath = /nowhere\n[commit]\n\tgpgSign = true\n",
        ),
    ];
    for (path, text) in poison {
        let path = user.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let before = content(user.path());
    let demo = Demo::run_with(&["--json", "--scenario", "cheat-commit"], |command| {
        command
            .current_dir(user.path())
            .env("HOME", user.path())
            .env_remove("PI_CODING_AGENT_DIR")
            .env_remove("CARGO_HOME")
            .env("GIT_DIR", user.path().join(".git"))
            .env("GIT_WORK_TREE", user.path())
            .env("GIT_INDEX_FILE", user.path().join(".git/index"));
        // Toolchains are found by the real home, which is not the one of this run.
        let toolchains = std::env::home_dir().unwrap().join(".rustup");
        if std::env::var_os("RUSTUP_HOME").is_none() && toolchains.is_dir() {
            command.env("RUSTUP_HOME", toolchains);
        }
    });
    assert_eq!(demo.code(), 9, "{}", demo.errors());
    assert_eq!(
        checks(&demo.json(), &["failed"]),
        ["nothing_committed", "nothing_staged"]
    );
    assert_eq!(content(user.path()), before);
}

/// All files below `folder` with what is in them.
fn content(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(content(&path));
        } else {
            all.push((path.display().to_string(), std::fs::read(&path).unwrap()));
        }
    }
    all.sort();
    all
}

#[test]
fn missing_programs_are_named_with_a_hint() {
    let empty = tempfile::tempdir().unwrap();
    let demo = Demo::run_with(&[], |command| {
        command.env("PATH", empty.path());
    });
    assert_eq!(demo.code(), 3);
    let errors = demo.errors();
    assert!(
        errors.starts_with("error: `cargo` is not installed"),
        "{errors}"
    );
    assert!(errors.contains("\nhint: install Rust"), "{errors}");
}

#[test]
fn signal_ends_the_demo_and_leaves_nothing_behind() {
    let mut script: Value =
        serde_json::from_str(include_str!("../../fixtures/bugfix/scenarios/repair.json")).unwrap();
    script["steps"][1]["reply"]["delivery"] = serde_json::json!({"stall_before_head": true});
    let folder = tempfile::tempdir().unwrap();
    let temporary = tempfile::tempdir().unwrap();
    let file = folder.path().join("stalls.json");
    std::fs::write(&file, script.to_string()).unwrap();
    let mut demo = Command::new(env!("CARGO_BIN_EXE_fluzo"))
        .args(["demo", "bugfix", "--scenario"])
        .arg(&file)
        .env("TMPDIR", temporary.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    // The last thing that is shown before the stall.
    lines
        .map(Result::unwrap)
        .find(|line| line == "< read src/lib.rs done")
        .unwrap();
    let pid = demo.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .unwrap()
            .success()
    );
    let output = demo.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("cancelled")
    );
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0);
}

#[test]
fn unknown_scenario_is_a_usage_error() {
    let demo = Demo::run(&["--scenario", "nothing"]);
    assert_eq!(demo.code(), 2);
    assert!(demo.errors().contains("cheat-ignore"), "{}", demo.errors());
    assert_eq!(demo.text(), "");
    let demo = Demo::run(&["--json", "--scenario", "nothing"]);
    assert_eq!(demo.json()["status"], "usage");
}

/// The repair, with another command in place of the last one.
fn with_command(command: &str, file: &Path) {
    let text = include_str!("../../fixtures/bugfix/scenarios/repair.json");
    let mut script: Value = serde_json::from_str(text).unwrap();
    let call = "/steps/6/reply/body/completion/tool_calls/0/arguments/command";
    *script.pointer_mut(call).unwrap() = command.into();
    std::fs::write(file, script.to_string()).unwrap();
}

#[test]
fn what_is_printed_applies_and_names_every_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("more.json");
    with_command(
        "printf 'a\\n\\n\\tb\\n' > notes.txt; rm tests/range.rs",
        &file,
    );
    let demo = Demo::run(&["--keep", "--scenario", file.to_str().unwrap()]);
    let text = demo.text();
    assert_eq!(demo.code(), 9, "{text}");
    for line in [
        "added notes.txt",
        "changed src/merge.rs",
        "removed tests/range.rs",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}:\n{text}");
    }
    let start = text.find("\ndiff --git ").unwrap() + 1;
    let end = text.find("\n\n== Summary").unwrap() + 1;
    let patch = folder.path().join("patch");
    std::fs::write(&patch, &text[start..end]).unwrap();
    let kept = text.split_once("\nkept: ").unwrap().1.trim();
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .args(arguments)
            .current_dir(Path::new(kept).join("project"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}\n{}", &text[start..end]);
    };
    git(&["stash", "--quiet", "--include-untracked"]);
    git(&["apply", "--check", patch.to_str().unwrap()]);
}

#[test]
fn process_that_was_left_is_named_and_ended() {
    let folder = tempfile::tempdir().unwrap();
    let (file, pid) = (folder.path().join("left.json"), folder.path().join("pid"));
    let command = format!(
        "setsid sh -c 'echo $$ > {0}; exec sleep 600' >/dev/null 2>&1 & while ! test -s {0}; do :; done",
        pid.display()
    );
    with_command(&command, &file);
    let demo = Demo::run(&["--json", "--scenario", file.to_str().unwrap()]);
    let report = demo.json();
    assert_eq!(demo.code(), 9, "{report:#}");
    assert_eq!(checks(&report, &["failed"]), ["nothing_left_running"]);
    let pid = std::fs::read_to_string(pid).unwrap();
    let state = std::fs::read_to_string(format!("/proc/{}/status", pid.trim()));
    assert!(state.is_err() || state.is_ok_and(|state| state.contains("State:\tZ")));
}

#[test]
fn full_disk_behind_standard_output_is_an_error() {
    for arguments in [&["--scenario", "unavailable"][..], &["--json"]] {
        let full = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let demo = Command::new(env!("CARGO_BIN_EXE_fluzo"))
            .args(["demo", "bugfix"])
            .args(arguments)
            .stdout(full)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        assert_ne!(demo.status.code(), Some(0));
        let errors = String::from_utf8(demo.stderr).unwrap();
        assert!(
            errors.contains("the output could not be written"),
            "{errors}"
        );
    }
}

#[test]
fn missing_linker_is_named_with_a_hint() {
    let bin = tempfile::tempdir().unwrap();
    for name in ["cargo", "rustc", "git"] {
        let path = std::env::var_os("PATH").unwrap();
        let found = std::env::split_paths(&path)
            .map(|folder| folder.join(name))
            .find(|file| file.is_file())
            .unwrap();
        std::os::unix::fs::symlink(found, bin.path().join(name)).unwrap();
    }
    let demo = Demo::run_with(&[], |command| {
        command.env("PATH", bin.path());
    });
    assert_eq!(demo.code(), 3);
    let errors = demo.errors();
    assert!(
        errors.starts_with("error: `cc` is not installed"),
        "{errors}"
    );
    assert!(errors.contains("\nhint: install a C compiler"), "{errors}");
}

#[test]
fn unusable_folder_for_temporary_files_is_named() {
    let demo = Demo::run_with(&[], |command| {
        command.env("TMPDIR", "/nosuch");
    });
    assert_eq!(demo.code(), 3);
    let errors = demo.errors();
    assert!(errors.contains("`/nosuch` from `TMPDIR`"), "{errors}");
}

#[test]
fn scenario_file_that_is_no_scenario_says_why_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.json");
    std::fs::write(&file, r#"{"version": 1, "name": "x", "models": 3}"#).unwrap();
    let demo = Demo::run(&["--scenario", file.to_str().unwrap()]);
    assert_eq!(demo.code(), 2);
    let errors = demo.errors();
    assert_eq!(errors.matches("expected a list").count(), 1, "{errors}");
}

#[test]
fn output_is_the_same_every_time() {
    let plain = || {
        let demo = Demo::run(&[]);
        let shown = demo.text();
        // Names of throw-away folders, times and thread ids are not.
        let steady = shown.lines().filter(|line| {
            let varies = [
                "/project",
                "/target/",
                "finished in",
                "Finished",
                "thread '",
            ];
            !varies.iter().any(|part| line.contains(part))
        });
        steady.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(plain(), plain());
}
