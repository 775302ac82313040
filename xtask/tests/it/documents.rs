//! Documents that name tests: the rules on made-up pages, then the pages of the repository.

use super::{assert_clean, assert_findings, source};
use xtask::documents;
use xtask::repo::Repo;
use xtask::test_index::TestIndex;

fn made_up() -> TestIndex {
    TestIndex::of_text("fluzo-c", "mod m { #[test] fn t() {} }")
}

#[test]
fn tables_of_what_works_name_one_existing_test_a_row() {
    let check = |rows: &str, expected: &[&str]| {
        let page = format!("# A\n\n| What | Test |\n| --- | --- |\n{rows}\n\n| other | `x` |\n");
        assert_findings(&documents::check_table(&page, &made_up()), expected);
    };
    check("| it works | `fluzo-c::m::t` |", &[]);
    check(
        "| it works | `fluzo-c::m::u` |",
        &["README.md:5: `fluzo-c::m::u`"],
    );
    check("| it works | |", &["README.md:5"]);
    check("| it works | fluzo-c::m::t |", &["README.md:5"]);
    check(
        "| it works | `fluzo-c::m::t`, `fluzo-c::m::t` |",
        &["README.md:5"],
    );
    check("", &["has no table"]);
}

#[test]
fn pages_name_existing_tests_only() {
    let page = source(
        "A.md",
        "see `fluzo-c::m::t`, `fluzo_c::M`\nand `fluzo-c::m::gone` or `fluzo-c`",
    );
    assert_findings(
        &documents::check_mentions(&page, &made_up()),
        &["A.md:2: `fluzo-c::m::gone`"],
    );
}

#[test]
fn intended_differences_have_reason_and_test() {
    let check = |line: &str, expected: &[&str]| {
        let text = format!("# head\n\n{line}\n");
        assert_findings(&documents::check_intended(&text, &made_up()), expected);
    };
    check("t17_1 lines are counted (test: fluzo-c::m::t)", &[]);
    check(
        "t17_1 lines are counted",
        &["intended.txt:3: it does not end in"],
    );
    check("t17_1 (test: fluzo-c::m::t)", &["gives no reason"]);
    check(
        "t17_1 why (test: fluzo-c::m::u)",
        &["`fluzo-c::m::u` is no test"],
    );
}

#[test]
fn test_command_is_the_block_after_its_mark() {
    let page = "```\nno\n```\n<!-- test-command -->\n\n```sh\ncargo test --workspace\n```\nx";
    assert_eq!(
        documents::test_command(page).as_deref(),
        Some("cargo test --workspace")
    );
    assert_eq!(documents::test_command("```\nno\n```"), None);
}

#[test]
fn readme_names_one_existing_test_for_each_thing_that_works() {
    let readme = Repo::here().read(documents::README).unwrap();
    assert_clean(&documents::check_table(&readme, &super::index()));
    assert!(documents::test_command(&readme).is_some());
}

#[test]
fn every_page_names_existing_tests() {
    let index = super::index();
    for page in documents::pages(&Repo::here()).unwrap() {
        assert_clean(&documents::check_mentions(&page, &index));
    }
}

#[test]
fn every_intended_difference_names_an_existing_test() {
    let text = Repo::here().read(documents::INTENDED).unwrap();
    assert_clean(&documents::check_intended(&text, &super::index()));
}
