//! Owned things: the rule on made-up sources, then the sources of the product.

use super::{assert_clean, assert_findings, source};
use xtask::owned;
use xtask::repo::Repo;
use xtask::table::Table;

const TABLE: &str = r#"
    [[owned]]
    what = "the platform"
    paths = ["std::os::unix", "libc", "std::fs"]
    strings = ["sh", "/proc"]
    string_prefixes = ["/proc/"]
    owners = ["exec", "session/src/jsonl"]

    [[owned]]
    what = "making an agent"
    paths = ["NativeAgent::new"]
    lints = ["unsafe_code"]
    owners = ["cli"]
"#;

fn check_at(path: &str, text: &str, expected: &[&str]) {
    let table = Table::parse(TABLE).unwrap();
    assert_findings(&owned::check(&table, &[source(path, text)]), expected);
}

fn check(text: &str, expected: &[&str]) {
    check_at("crates/tools/src/a.rs", text, expected);
}

#[test]
fn finds_paths_however_they_are_written() {
    check(
        "use std::os::unix::fs::PermissionsExt;",
        &["a.rs:1: `std::os::unix`: the platform belongs to exec"],
    );
    check(
        "\nuse std::{env, os::{unix::ffi}};",
        &["a.rs:2: `std::os::unix`"],
    );
    check("use libc;", &["`libc`"]);
    check("fn f() { ::libc::kill(1, 9); }", &["`libc`"]);
    check("let libc = 1; x.libc();", &[]);
    check(
        "std::fs::read(p); std::fs::write(p, q)",
        &["`std::fs`", "`std::fs`"],
    );
    check(
        "use fluzo_agent::NativeAgent; let a = NativeAgent::new(x);",
        &["making an agent"],
    );
    check("use std::ffi::OsStr; NativeAgent::renew()", &[]);
}

#[test]
fn finds_strings_and_opened_lints() {
    check(
        r#"let a = "sh"; let b = "/proc/self"; let c = r"/proc";"#,
        &["\"sh\"", "\"/proc/self\"", "\"/proc\""],
    );
    check(
        r#"let a = "shell"; let b = "/process"; let c = "the sh";"#,
        &[],
    );
    check("#![allow(unsafe_code, reason = \"x\")]", &["`unsafe_code`"]);
    check("#[expect(unsafe_code)] fn f() {}", &["`unsafe_code`"]);
    check("#![deny(unsafe_code)]", &[]);
}

#[test]
fn comments_and_tests_do_not_count() {
    check(
        "// std::fs::read\n/* libc::x */ /// see std::fs::read\n fn f() {}",
        &[],
    );
    check(
        "#[cfg(test)] mod tests { use std::fs; fn x() { NativeAgent::new() } }",
        &[],
    );
    check("#[cfg(test)] mod tests {} use std::fs;", &["`std::fs`"]);
    let table = Table::parse(TABLE).unwrap();
    let files = [
        source("crates/a/src/lib.rs", "#[cfg(test)] mod checks; mod b;"),
        source("crates/a/src/checks.rs", "use std::fs; mod deep;"),
        source("crates/a/src/checks/deep.rs", "use std::fs;"),
        source("crates/a/src/b.rs", "#[cfg(test)] mod tests;"),
        source("crates/a/src/b/tests.rs", "use std::fs;"),
        source("crates/a/src/tests.rs", "use std::fs;"),
    ];
    assert_findings(&owned::check(&table, &files), &["crates/a/src/tests.rs:1"]);
}

#[test]
fn owners_are_crates_files_and_folders() {
    let text = "use std::fs;";
    check_at("crates/exec/src/deep/x.rs", text, &[]);
    check_at("crates/exec-too/src/x.rs", text, &["`std::fs`"]);
    check_at("crates/session/src/jsonl.rs", text, &[]);
    check_at("crates/session/src/jsonl/open.rs", text, &[]);
    check_at("crates/session/src/jsonl_two.rs", text, &["`std::fs`"]);
}

/// What the real table says about a line of source in `crates/CRATE/src/x.rs`.
fn real(krate: &str, text: &str) -> usize {
    let path = format!("crates/{krate}/src/x.rs");
    owned::check(&super::table(), &[source(&path, text)]).len()
}

#[test]
fn this_table_closes_the_platform_and_the_side_doors() {
    for text in [
        "use std::os::unix::process::CommandExt;",
        "libc::kill(1, 9)",
        "use rustix::fs;",
        "open(\"/proc/self/stat\")",
        "run(\"sh\")",
        "run(\"/bin/bash\")",
        "std::fs::read(p)",
        "std::env::var(v)",
        "use std::env;",
        "std::process::Command::new(p)",
        "NativeAgent::new(x)",
        "MockAgent::new(x)",
        "#![allow(clippy::disallowed_methods)]",
        "#[allow(unsafe_code)]",
    ] {
        assert_eq!(real("fluzo-host", text), 1, "{text}");
    }
    assert_eq!(
        real(
            "fluzo-exec",
            "use rustix::fs; run(\"sh\"); std::fs::read(p)"
        ),
        0
    );
    assert_eq!(real("fluzo-exec", "NativeAgent::new(x)"), 1);
    assert_eq!(real("fluzo-cli", "NativeAgent::new(x)"), 0);
}

#[test]
fn this_workspace_leaves_owned_things_to_their_owners() {
    let files = xtask::product_files(&Repo::here()).unwrap();
    assert!(
        files
            .iter()
            .any(|f| f.path == "crates/fluzo-agent/src/lib.rs")
    );
    assert_clean(&owned::check(&super::table(), &files));
}
