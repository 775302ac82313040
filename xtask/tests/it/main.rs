//! The checks on small made-up inputs, then once over the repository itself.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::disallowed_methods, clippy::print_stdout)]

mod documents;
mod layers;
mod license;
mod owned;
mod register;
mod script;
mod sizes;
mod supply;
mod tripwire;

use xtask::metadata::{self, Package};
use xtask::repo::{Repo, SourceFile};
use xtask::table::Table;
use xtask::test_index::TestIndex;

fn packages() -> Vec<Package> {
    metadata::packages(&Repo::here()).unwrap()
}

fn table() -> Table {
    Table::read(&Repo::here()).unwrap()
}

fn index() -> TestIndex {
    TestIndex::read(&Repo::here(), &packages()).unwrap()
}

fn source(path: &str, text: &str) -> SourceFile {
    SourceFile {
        path: path.to_owned(),
        text: text.to_owned(),
    }
}

fn assert_clean(findings: &[String]) {
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

/// Each expected text is part of one finding, in order, and there are no more findings.
fn assert_findings(findings: &[String], expected: &[&str]) {
    assert_eq!(findings.len(), expected.len(), "{findings:#?}");
    for (finding, part) in findings.iter().zip(expected) {
        assert!(finding.contains(part), "{finding} does not contain {part}");
    }
}
