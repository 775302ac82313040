use super::*;
use crate::demo::fixture;
use crate::demo::timeline::TestRun;
use crate::demo::tree::Entry;

const MERGE: &str = "src/merge.rs";

fn spec() -> TestSpec {
    TestSpec::from_json(fixture::SPEC).unwrap()
}

fn with(changes: &[(&str, &str)]) -> Tree {
    let mut tree = fixture::tree();
    for (path, text) in changes {
        tree.put(
            path,
            Entry::File {
                bytes: text.as_bytes().to_vec(),
                executable: false,
            },
        );
    }
    tree
}

fn text(path: &str) -> &'static str {
    fixture::FILES
        .iter()
        .find(|(known, _)| *known == path)
        .unwrap()
        .1
}

fn failed(checks: &[Check]) -> Vec<&'static str> {
    checks
        .iter()
        .filter(|check| check.outcome != Verdict::Passed)
        .map(|check| check.name)
        .collect()
}

fn check_files(tree: &Tree, expected: &[&str]) {
    let checks = of_files(&spec(), &fixture::tree(), tree);
    assert_eq!(failed(&checks), expected, "{checks:#?}");
}

#[test]
fn equivalent_repairs_are_allowed() {
    let repairs = [
        ("last.end = next.end", "last.end = last.end.max(next.end)"),
        (
            "last.end = next.end",
            "last.end = std::cmp::max(last.end, next.end)",
        ),
        (
            "=> last.end = next.end,",
            "=> { if next.end > last.end { last.end = next.end; } }",
        ),
    ];
    for (old, new) in repairs {
        check_files(&with(&[(MERGE, &text(MERGE).replace(old, new))]), &[]);
    }
    let range =
        text("src/range.rs").replace("impl Range {", "impl Range {\n    pub fn join(self) {}");
    check_files(&with(&[("src/range.rs", &range)]), &[]);
}

#[test]
fn tampered_trees_are_refused_by_name() {
    let test = text("tests/merge.rs");
    let ignored = test.replace("#[test]", "#[test]\n#[ignore]");
    let repaired = text(MERGE).replace("= next.end", "= last.end.max(next.end)");
    type Row<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str]);
    let rows: [Row<'_>; 14] = [
        (&[], &["implementation_changed"]),
        (
            &[("tests/merge.rs", &ignored)],
            &["tests_unchanged", "implementation_changed"],
        ),
        (
            &[("tests/merge.rs", &ignored), (MERGE, &repaired)],
            &["tests_unchanged"],
        ),
        (
            &[("tests/more.rs", ""), (MERGE, &repaired)],
            &["tests_unchanged"],
        ),
        (
            &[("Cargo.toml", "x"), (MERGE, &repaired)],
            &["build_files_unchanged"],
        ),
        (
            &[("Cargo.lock", "x"), (MERGE, &repaired)],
            &["build_files_unchanged"],
        ),
        (
            &[("build.rs", "fn main() {}"), (MERGE, &repaired)],
            &["build_files_unchanged"],
        ),
        (
            &[(".cargo/config.toml", ""), (MERGE, &repaired)],
            &["build_files_unchanged"],
        ),
        (
            &[(".cargo/config", ""), (MERGE, &repaired)],
            &["build_files_unchanged"],
        ),
        (
            &[("rust-toolchain.toml", ""), (MERGE, &repaired)],
            &["build_files_unchanged"],
        ),
        (
            &[("patched/Cargo.toml", ""), (MERGE, &repaired)],
            &["build_files_unchanged"],
        ),
        (
            &[("src/lib.rs", ""), (MERGE, &repaired)],
            &["no_unrelated_changes"],
        ),
        (
            &[("notes.txt", ""), (MERGE, &repaired)],
            &["no_unrelated_changes"],
        ),
        (
            &[("target/debug/x", ""), (MERGE, &repaired)],
            &["no_unrelated_changes"],
        ),
    ];
    for (changes, expected) in rows {
        check_files(&with(changes), expected);
    }
}

#[test]
fn removed_files_links_and_modes_are_seen() {
    let repaired = text(MERGE).replace("= next.end", "= last.end.max(next.end)");
    let mut linked = with(&[(MERGE, &repaired)]);
    linked.put("tests/merge.rs", Entry::Odd);
    check_files(&linked, &["tests_unchanged"]);
    let mut executable = with(&[(MERGE, &repaired)]);
    executable.put(
        "Cargo.toml",
        Entry::File {
            bytes: text("Cargo.toml").into(),
            executable: true,
        },
    );
    check_files(&executable, &["build_files_unchanged"]);
    let without = with(&[(MERGE, &repaired)]).part(|path| path != "tests/range.rs");
    check_files(&without, &["tests_unchanged"]);
    let gone = fixture::tree().part(|path| path != MERGE);
    check_files(
        &gone,
        &[
            "no_unrelated_changes",
            "implementation_changed",
            "implementation_plain",
        ],
    );
}

#[test]
fn tricks_in_the_implementation_are_refused() {
    let tricks = [
        "#[cfg(test)]\nfn x() {}",
        "fn x() { std::process::exit(0) }",
        "fn x() { if std::env::args().count() > 1 {} }",
        "fn x() { if cfg!(debug_assertions) {} }",
        "fn x() { option_env!(\"A\"); }",
        "include!(\"../tests/x.rs\");",
    ];
    for trick in tricks {
        let tree = with(&[(MERGE, &format!("{}{trick}", text(MERGE)))]);
        check_files(&tree, &["implementation_plain"]);
    }
}

fn git(head: &str, config: &str, index: &str) -> GitState {
    let file = |path: &str, text: &str| -> Tree {
        [(path.to_owned(), text.as_bytes().to_vec())]
            .into_iter()
            .collect()
    };
    GitState {
        references: file("HEAD", head),
        settings: file("config", config),
        index: index.to_owned(),
    }
}

#[test]
fn commits_stages_and_settings_are_seen() {
    let before = git("a", "c", "i");
    let rows: [(GitState, &[&str]); 4] = [
        (git("a", "c", "i"), &[]),
        (git("b", "c", "i"), &["nothing_committed"]),
        (git("a", "c", "j"), &["nothing_staged"]),
        (
            git("a", "d", ""),
            &["nothing_staged", "git_settings_unchanged"],
        ),
    ];
    for (after, expected) in rows {
        assert_eq!(failed(&of_git(&before, &after)), expected);
    }
}

#[test]
fn processes_that_still_run_are_named() {
    assert_eq!(of_processes(&[]).outcome, Verdict::Passed);
    let check = of_processes(&[7, 12]);
    assert_eq!(check.outcome, Verdict::Failed);
    assert!(check.detail.contains("7, 12"));
}

#[test]
fn the_course_is_judged_by_what_ran_when() {
    let spec = spec();
    let after = with(&[(MERGE, "x")]);
    let failure = format!(
        "test {} ... FAILED\n{}",
        spec.suite.failing[0], spec.suite.failure
    );
    let run = |untouched: bool, succeeded: bool, output: &str, files: &Tree| TestRun {
        untouched,
        succeeded,
        output: output.to_owned(),
        files: files.clone(),
    };
    let before = fixture::tree();
    let first = run(true, false, &failure, &before);
    let last = run(false, true, "", &after);
    let both = ["failure_seen_before_edit", "rerun_after_edit"];
    let rows: [(Vec<TestRun>, &[&str]); 8] = [
        (vec![first.clone(), last.clone()], &[]),
        (vec![], &both),
        (vec![last.clone()], &["failure_seen_before_edit"]),
        (vec![first.clone()], &["rerun_after_edit"]),
        (
            vec![run(true, true, &failure, &before), last.clone()],
            &["failure_seen_before_edit"],
        ),
        (
            vec![
                run(true, false, "error: no such command", &before),
                last.clone(),
            ],
            &["failure_seen_before_edit"],
        ),
        (
            vec![first.clone(), run(false, false, "", &after)],
            &["rerun_after_edit"],
        ),
        (
            vec![first, run(false, true, "", &before)],
            &["rerun_after_edit"],
        ),
    ];
    for (runs, expected) in rows {
        let timeline = Timeline::of_test_runs(runs);
        assert_eq!(failed(&of_course(&spec, &timeline, &after)), expected);
    }
}
