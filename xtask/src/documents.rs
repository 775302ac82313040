//! Documents that name tests: the README's table of what works, intended differences, and any
//! other Markdown page.

use crate::Error;
use crate::repo::{Repo, SourceFile};
use crate::test_index::TestIndex;

/// The page that must have a table of what works.
pub const README: &str = "README.md";
/// Intended differences from the reference.
pub const INTENDED: &str = "docs/conformance/intended.txt";
/// The line before the code block that holds the test command.
pub const TEST_COMMAND: &str = "<!-- test-command -->";

/// The Markdown pages at the root and below `docs/`.
///
/// # Errors
/// When one cannot be read.
pub fn pages(repo: &Repo) -> Result<Vec<SourceFile>, Error> {
    let mut pages = repo.files("docs", "md")?;
    for name in [
        "README.md",
        "ARCHITECTURE.md",
        "GLOSSARY.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
    ] {
        if let Some(text) = repo.read_if_exists(name)? {
            pages.push(SourceFile {
                path: name.to_owned(),
                text,
            });
        }
    }
    Ok(pages)
}

/// Backticked names such as `crate::module::test` that name no test. Only names that begin with a
/// crate's own spelling (`fluzo-exec::…`) count: Rust paths have an underscore there.
pub fn check_mentions(page: &SourceFile, index: &TestIndex) -> Vec<String> {
    let mut findings = Vec::new();
    for (number, line) in page.text.lines().enumerate() {
        let inside = line.split('`').skip(1).step_by(2);
        for name in inside.filter(|n| is_test_name(n) && !index.contains(n)) {
            findings.push(format!("{}:{}: `{name}` is no test", page.path, number + 1));
        }
    }
    findings
}

fn is_test_name(text: &str) -> bool {
    let ours = text.starts_with("fluzo-") || text.starts_with("xtask::it::");
    ours && text.contains("::") && !text.contains(char::is_whitespace)
}

/// Rows of the README's tables of what works (last column `Test`) whose last cell is not one
/// existing test in backticks; also when there is no such table.
pub fn check_table(readme: &str, index: &TestIndex) -> Vec<String> {
    let mut findings = Vec::new();
    let mut inside = false;
    let mut rows = 0;
    for (number, line) in readme.lines().enumerate() {
        let Some(cell) = last_cell(line) else {
            inside = false;
            continue;
        };
        if cell.eq_ignore_ascii_case("test") {
            inside = true;
        } else if inside && !is_rule(cell) {
            rows += 1;
            let named = cell.strip_prefix('`').and_then(|c| c.strip_suffix('`'));
            if !named.is_some_and(|name| index.contains(name)) {
                findings.push(format!(
                    "{README}:{}: {cell} is not one existing test in backticks",
                    number + 1
                ));
            }
        }
    }
    if rows == 0 {
        findings.push(format!(
            "{README} has no table of what works with a last column `Test`"
        ));
    }
    findings
}

/// Whether a cell belongs to the line between head and rows.
fn is_rule(cell: &str) -> bool {
    cell.contains("--") && cell.chars().all(|c| matches!(c, '-' | ':' | ' '))
}

fn last_cell(line: &str) -> Option<&str> {
    let row = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    row.rsplit('|').next().map(str::trim)
}

/// Lines of the list of intended differences without reason or without an existing test.
pub fn check_intended(text: &str, index: &TestIndex) -> Vec<String> {
    let mut findings = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        if let Err(why) = check_difference(line, index) {
            findings.push(format!("{INTENDED}:{}: {why}", number + 1));
        }
    }
    findings
}

/// `ID reason (test: crate::path::test)`.
fn check_difference(line: &str, index: &TestIndex) -> Result<(), String> {
    let inside = line
        .trim_end()
        .strip_suffix(')')
        .and_then(|l| l.rsplit_once("(test: "));
    let (start, test) = inside.ok_or("it does not end in `(test: crate::path::test)`")?;
    let reason = start
        .split_once(char::is_whitespace)
        .map_or("", |(_, reason)| reason.trim());
    if reason.is_empty() {
        return Err("it gives no reason".to_owned());
    }
    if !index.contains(test.trim()) {
        return Err(format!("`{}` is no test", test.trim()));
    }
    Ok(())
}

/// The command in the code block after the mark, if the page has one.
pub fn test_command(readme: &str) -> Option<String> {
    let (_, after) = readme.split_once(TEST_COMMAND)?;
    let mut lines = after
        .lines()
        .skip_while(|l| !l.trim_start().starts_with("```"))
        .skip(1);
    let command: Vec<&str> = lines
        .by_ref()
        .take_while(|l| !l.trim_start().starts_with("```"))
        .collect();
    let command = command.join("\n").trim().to_owned();
    (!command.is_empty()).then_some(command)
}
