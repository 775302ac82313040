//! How long files and functions are.

use crate::lexer;
use crate::repo::SourceFile;
use crate::syntax::{self, Function};
use crate::table::Table;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Lines above which a file is named in the report.
pub const LONG_FILE: usize = 500;
/// Lines above which a file needs a reason in `layers.toml`.
pub const TOO_LONG_FILE: usize = 800;
/// Lines within which 95 of 100 functions stay.
pub const LONG_FUNCTION: usize = 60;
/// Lines above which a function needs a reason of its own.
pub const TOO_LONG_FUNCTION: usize = 100;

/// What was measured.
#[derive(Debug, Clone, Default)]
pub struct Sizes {
    /// Lines of each file, by path.
    pub files: BTreeMap<String, usize>,
    /// The functions outside tests, each with its file.
    pub functions: Vec<(String, Function)>,
}

/// Measures the given files. Functions in tests are left out, their files are not.
pub fn measure(files: &[SourceFile]) -> Sizes {
    let mut sizes = Sizes::default();
    for file in files {
        sizes
            .files
            .insert(file.path.clone(), file.text.lines().count());
        if !file.path.contains("/src/") {
            continue;
        }
        let shipped = syntax::without_tests(&lexer::tokens(&file.text));
        let functions = syntax::functions(&shipped.tokens);
        sizes
            .functions
            .extend(functions.into_iter().map(|f| (file.path.clone(), f)));
    }
    sizes
}

impl Sizes {
    /// The length that 95 of 100 functions do not exceed; 0 without functions.
    pub fn p95(&self) -> usize {
        let mut lengths: Vec<usize> = self.functions.iter().map(|(_, f)| f.lines).collect();
        lengths.sort_unstable();
        let rank = (lengths.len() * 95).div_ceil(100);
        rank.checked_sub(1)
            .and_then(|i| lengths.get(i))
            .copied()
            .unwrap_or(0)
    }

    /// Files over the hard limit without a reason, reasons without such a file, and a 95th
    /// percentile over its limit.
    pub fn check(&self, table: &Table) -> Vec<String> {
        let mut findings = Vec::new();
        for (path, lines) in self
            .files
            .iter()
            .filter(|(_, lines)| **lines > TOO_LONG_FILE)
        {
            if !table.large_files.contains_key(path) {
                findings.push(format!("{path}: {lines} lines, more than {TOO_LONG_FILE} without a reason in layers.toml"));
            }
        }
        for path in table.large_files.keys() {
            if self
                .files
                .get(path)
                .is_none_or(|lines| *lines <= TOO_LONG_FILE)
            {
                findings.push(format!(
                    "layers.toml gives a reason for `{path}`, which needs none"
                ));
            }
        }
        let p95 = self.p95();
        if p95 > LONG_FUNCTION {
            findings.push(format!(
                "95 of 100 functions stay within {p95} lines, not {LONG_FUNCTION}"
            ));
        }
        findings
    }

    /// The report for people: totals per crate, then what is long.
    pub fn report(&self) -> String {
        let mut crates: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for (path, lines) in &self.files {
            let total = crates.entry(crate_of(path)).or_default();
            *total = (total.0 + 1, total.1 + lines);
        }
        let mut out = String::new();
        // Writing to a string cannot fail.
        for (name, (files, lines)) in crates {
            let _ = writeln!(out, "{lines:>7} lines {files:>4} files  {name}");
        }
        let _ = writeln!(
            out,
            "{:>7} functions, p95 {} lines",
            self.functions.len(),
            self.p95()
        );
        for (path, lines) in self.files.iter().filter(|(_, lines)| **lines > LONG_FILE) {
            let _ = writeln!(out, "{lines:>7} lines  {path}");
        }
        let mut long: Vec<_> = self
            .functions
            .iter()
            .filter(|(_, f)| f.lines > LONG_FUNCTION)
            .collect();
        long.sort_by_key(|(_, f)| std::cmp::Reverse(f.lines));
        for (path, function) in long {
            let mark = if function.lines > TOO_LONG_FUNCTION {
                "!"
            } else {
                " "
            };
            let _ = writeln!(
                out,
                "{:>7} lines {mark}{path}:{} fn {}",
                function.lines, function.line, function.name
            );
        }
        out
    }
}

fn crate_of(path: &str) -> &str {
    let inside = path.strip_prefix("crates/").unwrap_or(path);
    inside.split('/').next().unwrap_or(inside)
}
