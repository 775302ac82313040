//! Who owns what: words in the source text that only their owners may use.
//!
//! Clippy closes the side doors by name resolution but opens them crate by crate; this check says
//! which crate may open which, and covers what no lint sees (platform paths, who makes an agent).
//! Comments, `#[cfg(test)]` items and test modules in files of their own do not count.

use crate::lexer::{self, Kind, Token};
use crate::repo::SourceFile;
use crate::syntax::{self, PathUse};
use crate::table::{Owned, Table};
use std::collections::BTreeSet;

/// Where a word was found.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mention {
    word: String,
    line: usize,
}

/// Every use of an owned thing outside its owners, in files named `crates/CRATE/src/…`.
pub fn check(table: &Table, files: &[SourceFile]) -> Vec<String> {
    let parsed: Vec<(&str, syntax::Shipped)> = files
        .iter()
        .map(|f| {
            (
                f.path.as_str(),
                syntax::without_tests(&lexer::tokens(&f.text)),
            )
        })
        .collect();
    let tests: BTreeSet<String> = parsed
        .iter()
        .flat_map(|(path, s)| test_stems(path, s))
        .collect();
    let mut findings = Vec::new();
    for (path, shipped) in &parsed {
        if tests.iter().any(|stem| is_within(path, stem)) {
            continue;
        }
        for owned in &table.owned {
            if owned
                .owners
                .iter()
                .any(|owner| is_within(path, &format!("crates/{owner}")))
            {
                continue;
            }
            findings.extend(mentions(owned, &shipped.tokens).into_iter().map(|m| {
                let owners = owned.owners.join(", ");
                format!(
                    "{path}:{}: `{}`: {} belongs to {owners}",
                    m.line, m.word, owned.what
                )
            }));
        }
    }
    findings
}

/// Whether `path` is `place`, the file `place.rs`, or lies in the folder `place`.
fn is_within(path: &str, place: &str) -> bool {
    path.strip_prefix(place)
        .is_some_and(|rest| rest.is_empty() || rest == ".rs" || rest.starts_with('/'))
}

/// The paths, without extension, of modules that `path` declares for tests only.
fn test_stems(path: &str, shipped: &syntax::Shipped) -> Vec<String> {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let parent = match file {
        "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
        other => format!("{folder}/{}", other.trim_end_matches(".rs")),
    };
    shipped
        .test_modules
        .iter()
        .map(|m| format!("{parent}/{m}"))
        .collect()
}

fn mentions(owned: &Owned, tokens: &[Token]) -> Vec<Mention> {
    let mut found = Vec::new();
    let excepted = |used: &PathUse| owned.except.iter().any(|e| touches(e, used));
    for used in syntax::paths(tokens)
        .into_iter()
        .filter(|used| !excepted(used))
    {
        if let Some(word) = owned.paths.iter().find(|p| touches(p, &used)) {
            found.push(Mention {
                word: word.clone(),
                line: used.line,
            });
        }
    }
    for (at, token) in tokens.iter().enumerate() {
        if let Kind::Text(text) = &token.kind {
            let prefix = owned
                .string_prefixes
                .iter()
                .any(|p| text.starts_with(p.as_str()));
            if prefix || owned.strings.contains(text) {
                found.push(Mention {
                    word: format!("\"{text}\""),
                    line: token.line,
                });
            }
        }
        let opened = syntax::attribute(tokens, at)
            .map(|a| a.opened_lints())
            .unwrap_or_default();
        for lint in opened.into_iter().filter(|l| owned.lints.contains(l)) {
            found.push(Mention {
                word: lint,
                line: token.line,
            });
        }
    }
    found
}

/// Whether a path goes through another, at any place; a crate name counts at the front only.
fn touches(pattern: &str, used: &PathUse) -> bool {
    let wanted: Vec<&str> = pattern.split("::").collect();
    let segments: Vec<&str> = used.segments.iter().map(String::as_str).collect();
    match wanted.as_slice() {
        [name] => segments.first() == Some(name) && (used.imported || segments.len() > 1),
        _ => segments
            .windows(wanted.len())
            .any(|window| window == wanted),
    }
}
