//! Sizes: the measure on made-up files, then the limits over the repository.

use super::{assert_clean, assert_findings, source};
use xtask::repo::Repo;
use xtask::sizes;
use xtask::table::Table;

fn lines(count: usize) -> String {
    "x;\n".repeat(count)
}

#[test]
fn long_files_need_a_reason_and_reasons_need_a_long_file() {
    let files = [
        source("crates/a/src/long.rs", &lines(801)),
        source("crates/a/src/b.rs", &lines(800)),
    ];
    let measured = sizes::measure(&files);
    let check = |table: &str, expected: &[&str]| {
        assert_findings(&measured.check(&Table::parse(table).unwrap()), expected);
    };
    check("", &["crates/a/src/long.rs: 801 lines"]);
    check(
        "[large_files]\n\"crates/a/src/long.rs\" = \"one table\"",
        &[],
    );
    let stale = "[large_files]\n\"crates/a/src/long.rs\" = \"r\"\n\"crates/a/src/b.rs\" = \"r\"";
    check(stale, &["`crates/a/src/b.rs`, which needs none"]);
}

#[test]
fn most_functions_are_short() {
    let long = format!("fn long() {{\n{}}}\n", lines(100));
    let text = format!("{}{long}", "fn a() {}\n".repeat(9));
    let measured = sizes::measure(&[source("crates/a/src/b.rs", &text)]);
    assert_eq!(measured.p95(), 102);
    assert_findings(&measured.check(&Table::default()), &["within 102 lines"]);
    assert!(
        measured
            .report()
            .contains("102 lines !crates/a/src/b.rs:10 fn long")
    );
    let tests = format!("#[cfg(test)] mod t {{ {long} }}");
    let files = [
        source("crates/a/src/b.rs", &tests),
        source("crates/a/tests/it/b.rs", &long),
    ];
    assert_eq!(sizes::measure(&files).p95(), 0);
}

#[test]
fn this_repository_keeps_its_sizes() {
    let files = xtask::code_files(&Repo::here()).unwrap();
    let measured = sizes::measure(&files);
    println!("{}", measured.report());
    assert_clean(&measured.check(&super::table()));
}
