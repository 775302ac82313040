//! The register: its format and its checks, then the committed one.

use super::{assert_clean, assert_findings, source};
use std::collections::BTreeSet;
use xtask::register::{self, Row};
use xtask::repo::Repo;
use xtask::test_index::TestIndex;

fn rows(text: &str) -> Vec<Row> {
    register::parse(&source("part.tsv", text)).unwrap()
}

#[test]
fn malformed_lines_are_refused() {
    for (line, why) in [
        ("P001\tverified", "2 fields"),
        ("P001\tdone\tc::t\tx", "unknown status `done`"),
        ("P001\tverified\t-\tx", "verified by no test"),
        ("P001\tunverified\t-\t", "says not why"),
        ("P001\tawaiting owner\t-", "says not why"),
    ] {
        let refused = register::parse(&source("part.tsv", &format!("# c\n\n{line}\n")));
        let text = refused.unwrap_err().to_string();
        assert!(text.contains(why) && text.contains("line 3"), "{text}");
    }
}

#[test]
fn rows_are_rendered_under_one_header() {
    let text = register::render(&rows(
        "P002\tunverified\t\twhy\nP001\tverified\tc::t\tshows\n",
    ));
    assert_eq!(
        text,
        "id\tstatus\ttest\tnote\nP002\tunverified\t-\twhy\nP001\tverified\tc::t\tshows\n"
    );
}

#[test]
fn rows_name_existing_tests_and_ids_and_agree() {
    let index = TestIndex::of_text("c", "#[test] fn t() {}");
    let known: BTreeSet<String> = ["P001".to_owned(), "case:E01".to_owned()].into();
    let check = |text: &str, expected: &[&str]| {
        assert_findings(
            &register::check(&rows(text), &index, Some(&known)),
            expected,
        );
    };
    check(
        "P001\tverified\tc::t\tx\ncase:E01\tawaiting owner\t-\tx",
        &[],
    );
    check("P001\tverified\tc::t\tx\nP001\tawaiting owner\t-\tx", &[]);
    check(
        "P001\tverified\tc::u\tx",
        &["`P001` names `c::u`, which is no test"],
    );
    check(
        "P009\tverified\tc::t\tx",
        &["`P009` is no requirement and no case"],
    );
    check(
        "P001\tverified\tc::t\tx\nP001\tunverified\t-\tx",
        &["both verified and unverified"],
    );
}

#[test]
fn this_register_is_the_merge_of_its_parts_and_true() {
    let repo = Repo::here();
    let rows = register::read(&repo).unwrap();
    let known = register::known_ids(&repo).unwrap();
    if known.is_none() {
        println!("the requirement texts are absent: ids are not checked");
    }
    let mut findings = register::check(&rows, &super::index(), known.as_ref());
    findings.extend(register::check_merged(&repo, &rows).unwrap());
    assert_clean(&findings);
}

#[test]
fn this_workspace_index_finds_its_own_tests() {
    let index = super::index();
    for name in [
        "xtask::it::register::this_workspace_index_finds_its_own_tests",
        "xtask::lexer::tests::counts_lines_through_every_literal",
    ] {
        assert!(index.contains(name), "{name}");
    }
    assert!(!index.contains("xtask::it::register::rows"));
    assert!(!index.contains("xtask::register::this_workspace_index_finds_its_own_tests"));
}
