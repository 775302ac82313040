//! Structure in a token list: groups, attributes, test-only items, paths, functions.

use crate::lexer::{Kind, Token};

/// The index after the group that opens at `open`; the end of the list when it never closes.
pub fn after_group(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        match token.kind {
            Kind::Punct('(' | '[' | '{') => depth += 1,
            Kind::Punct(')' | ']' | '}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return index + 1;
        }
    }
    tokens.len()
}

/// An attribute: where it ends and what stands between its brackets.
#[derive(Debug, Clone, Copy)]
pub struct Attribute<'a> {
    /// Whether it is written `#![…]`.
    pub inner: bool,
    /// The tokens between the brackets.
    pub body: &'a [Token],
    /// The index after the closing bracket.
    pub end: usize,
}

/// The attribute that begins at `at`, if one does.
pub fn attribute(tokens: &[Token], at: usize) -> Option<Attribute<'_>> {
    if !tokens.get(at)?.is('#') {
        return None;
    }
    let inner = tokens.get(at + 1)?.is('!');
    let open = at + 1 + usize::from(inner);
    if !tokens.get(open)?.is('[') {
        return None;
    }
    let end = after_group(tokens, open);
    let body = tokens.get(open + 1..end - 1)?;
    Some(Attribute { inner, body, end })
}

impl Attribute<'_> {
    /// Whether it is a `cfg` that needs `test`.
    pub fn is_test_cfg(&self) -> bool {
        let idents: Vec<&str> = self.body.iter().filter_map(Token::ident).collect();
        idents.first() == Some(&"cfg") && idents.contains(&"test") && !idents.contains(&"not")
    }

    /// Whether it makes a function a test: `test`, `tokio::test` and the like.
    pub fn is_test_marker(&self) -> bool {
        let name = self
            .body
            .iter()
            .take_while(|t| t.ident().is_some() || t.is(':'));
        name.filter_map(Token::ident).last() == Some("test")
    }

    /// The lints that it allows or expects.
    pub fn opened_lints(&self) -> Vec<String> {
        let opens = |t: &Token| matches!(t.ident(), Some("allow" | "expect"));
        if !self.body.iter().any(opens) {
            return Vec::new();
        }
        paths(self.body)
            .into_iter()
            .map(|p| p.segments.join("::"))
            .collect()
    }
}

/// Source tokens without what exists in tests only.
#[derive(Debug, Clone, Default)]
pub struct Shipped {
    /// The remaining tokens.
    pub tokens: Vec<Token>,
    /// Modules declared as `#[cfg(test)] mod name;`, whose files are tests too.
    pub test_modules: Vec<String>,
}

/// Removes each item behind `#[cfg(test)]`, and everything behind `#![cfg(test)]`.
pub fn without_tests(tokens: &[Token]) -> Shipped {
    let mut shipped = Shipped::default();
    let mut at = 0;
    while at < tokens.len() {
        match attribute(tokens, at) {
            Some(found) if found.is_test_cfg() && found.inner => return shipped,
            Some(found) if found.is_test_cfg() => {
                let end = after_item(tokens, found.end);
                shipped
                    .test_modules
                    .extend(module_name(&tokens[found.end..end]));
                at = end;
            }
            _ => {
                shipped.tokens.push(tokens[at].clone());
                at += 1;
            }
        }
    }
    shipped
}

/// The index after the item, field or statement that begins at `at`, its attributes included.
fn after_item(tokens: &[Token], mut at: usize) -> usize {
    while let Some(found) = attribute(tokens, at) {
        at = found.end;
    }
    while let Some(token) = tokens.get(at) {
        match token.kind {
            Kind::Punct(';' | ',') => return at + 1,
            Kind::Punct('{') => return after_group(tokens, at),
            Kind::Punct('}' | ')' | ']') => return at,
            Kind::Punct('(' | '[') => at = after_group(tokens, at),
            _ => at += 1,
        }
    }
    at
}

fn module_name(item: &[Token]) -> Option<String> {
    let at = item.iter().position(|t| t.ident() == Some("mod"))?;
    let external = item.get(at + 2)?.is(';');
    let name = item.get(at + 1)?.ident()?;
    external.then(|| name.to_owned())
}

/// A path such as `std::fs::read`, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathUse {
    /// Its segments.
    pub segments: Vec<String>,
    /// The line of its first segment, counted from 1.
    pub line: usize,
    /// Whether a `use` declaration names it.
    pub imported: bool,
}

/// Every path in the tokens; the trees of `use` declarations are written out as whole paths.
pub fn paths(tokens: &[Token]) -> Vec<PathUse> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let token = &tokens[at];
        if token.ident() == Some("use") {
            at = use_tree(tokens, at + 1, &[], &mut found);
        } else if token.ident().is_some() {
            let (segments, end) = plain_path(tokens, at);
            let line = token.line;
            let imported = false;
            found.push(PathUse {
                segments,
                line,
                imported,
            });
            at = end;
        } else {
            at += 1;
        }
    }
    found
}

/// `a::b::c` from `at`, and the index after it.
fn plain_path(tokens: &[Token], mut at: usize) -> (Vec<String>, usize) {
    let mut segments = Vec::new();
    while let Some(name) = tokens.get(at).and_then(Token::ident) {
        segments.push(name.to_owned());
        at += 1;
        let continues =
            is_separator(tokens, at) && tokens.get(at + 2).is_some_and(|t| t.ident().is_some());
        if !continues {
            break;
        }
        at += 2;
    }
    (segments, at)
}

fn is_separator(tokens: &[Token], at: usize) -> bool {
    [at, at + 1]
        .iter()
        .all(|i| tokens.get(*i).is_some_and(|t| t.is(':')))
}

/// Reads one branch of a `use` tree from `at`; returns the index after it.
fn use_tree(tokens: &[Token], mut at: usize, prefix: &[String], found: &mut Vec<PathUse>) -> usize {
    if is_separator(tokens, at) {
        at += 2;
    }
    let line = tokens.get(at).map_or(0, |t| t.line);
    let (rest, mut at) = plain_path(tokens, at);
    let segments: Vec<String> = prefix.iter().cloned().chain(rest).collect();
    if is_separator(tokens, at) {
        at += 2;
    }
    if !tokens.get(at).is_some_and(|t| t.is('{')) {
        let imported = true;
        found.push(PathUse {
            segments,
            line,
            imported,
        });
        return after_branch(tokens, at);
    }
    let end = after_group(tokens, at);
    at += 1;
    while at + 1 < end {
        at = use_tree(tokens, at, &segments, found);
        at += usize::from(tokens.get(at).is_some_and(|t| t.is(',')));
    }
    end
}

/// Skips `as name` and `*` up to what ends a branch.
fn after_branch(tokens: &[Token], mut at: usize) -> usize {
    while tokens
        .get(at)
        .is_some_and(|t| !(t.is(',') || t.is('}') || t.is(';')))
    {
        at += 1;
    }
    at
}

/// A function with a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The line of `fn`, counted from 1.
    pub line: usize,
    /// Lines from `fn` to the closing brace, both included.
    pub lines: usize,
}

/// Every function with a body, nested ones too.
pub fn functions(tokens: &[Token]) -> Vec<Function> {
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let name = tokens.get(at + 1).and_then(Token::ident);
        let (Some("fn"), Some(name)) = (token.ident(), name) else {
            continue;
        };
        if let Some(last) = end_of_body(tokens, at + 2) {
            found.push(Function {
                name: name.to_owned(),
                line: token.line,
                lines: last + 1 - token.line,
            });
        }
    }
    found
}

/// The line that closes the body of the function whose signature goes on at `at`.
fn end_of_body(tokens: &[Token], mut at: usize) -> Option<usize> {
    loop {
        let token = tokens.get(at)?;
        match token.kind {
            Kind::Punct('(' | '[') => at = after_group(tokens, at),
            Kind::Punct('{') => {
                let end = after_group(tokens, at);
                return tokens.get(end.checked_sub(1)?).map(|t| t.line);
            }
            Kind::Punct(';' | '}' | ')') => return None,
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer;

    fn check_paths(source: &str, expected: &[&str]) {
        let found: Vec<String> = paths(&lexer::tokens(source))
            .into_iter()
            .filter(|p| p.imported || p.segments.len() > 1)
            .map(|p| p.segments.join("::"))
            .collect();
        assert_eq!(found, expected, "{source}");
    }

    #[test]
    fn writes_use_trees_out() {
        check_paths("use std::fs;", &["std::fs"]);
        check_paths("use ::libc as c;", &["libc"]);
        check_paths(
            "use std::{env, fs::{self, File}, io::*}; x::y();",
            &[
                "std::env",
                "std::fs::self",
                "std::fs::File",
                "std::io",
                "x::y",
            ],
        );
        check_paths("let a = std :: fs :: read::<P>(p);", &["std::fs::read"]);
        check_paths("use {a::b, c::d,}; e::f", &["a::b", "c::d", "e::f"]);
    }

    fn check_shipped(source: &str, expected: &str, modules: &[&str]) {
        let shipped = without_tests(&lexer::tokens(source));
        let kinds = |tokens: &[Token]| tokens.iter().map(|t| t.kind.clone()).collect::<Vec<_>>();
        assert_eq!(
            kinds(&shipped.tokens),
            kinds(&lexer::tokens(expected)),
            "{source}"
        );
        assert_eq!(shipped.test_modules, modules, "{source}");
    }

    #[test]
    fn removes_test_only_items() {
        check_shipped("a; #[cfg(test)] mod tests { fn b() {} } c;", "a; c;", &[]);
        check_shipped("#[cfg(test)]\nmod tests; c;", "c;", &["tests"]);
        check_shipped(
            "#[cfg(all(test, unix))] #[path = \"x\"] mod t; c;",
            "c;",
            &["t"],
        );
        check_shipped("#[cfg(test)] use a::{b, c};", ";", &[]);
        check_shipped("#[cfg(not(test))] a;", "#[cfg(not(test))] a;", &[]);
        check_shipped("#![cfg(test)] a;", "", &[]);
        check_shipped(
            "struct S { #[cfg(test)] a: [u8; 2], b: u8 }",
            "struct S { b: u8 }",
            &[],
        );
    }

    #[test]
    fn measures_functions() {
        let source = "trait T { fn a(&self); fn b(x: [u8; 2]) -> u8 {\n1\n} }\nfn c() {}";
        let found: Vec<(String, usize)> = functions(&lexer::tokens(source))
            .into_iter()
            .map(|f| (f.name, f.lines))
            .collect();
        assert_eq!(found, [("b".to_owned(), 3), ("c".to_owned(), 1)]);
    }

    #[test]
    fn reads_attributes() {
        let lints = |source: &str| {
            let tokens = lexer::tokens(source);
            attribute(&tokens, 0)
                .map(|a| a.opened_lints())
                .unwrap_or_default()
        };
        assert!(
            lints("#![allow(clippy::panic, reason = \"x\")]").contains(&"clippy::panic".to_owned())
        );
        assert!(
            lints("#[cfg_attr(unix, expect(unsafe_code))]").contains(&"unsafe_code".to_owned())
        );
        assert!(lints("#[deny(unsafe_code)]").is_empty());
    }
}
