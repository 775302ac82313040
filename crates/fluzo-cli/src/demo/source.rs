//! What an implementation file may contain.
//!
//! A repair is plain computation. Whatever could tell a test run from another one, reach outside, or change how the
//! crate is built is refused before anything is compiled, whether or not it would be harmless.

use std::iter::Peekable;
use std::str::Chars;

/// Modules of the standard library that compute and do nothing else.
const PLAIN_MODULES: [&str; 18] = [
    "borrow",
    "cell",
    "clone",
    "cmp",
    "collections",
    "convert",
    "default",
    "fmt",
    "iter",
    "marker",
    "mem",
    "num",
    "ops",
    "option",
    "result",
    "slice",
    "u32",
    "vec",
];
const PLAIN_MACROS: [&str; 14] = [
    "assert",
    "assert_eq",
    "assert_ne",
    "debug_assert",
    "debug_assert_eq",
    "debug_assert_ne",
    "format",
    "matches",
    "panic",
    "todo",
    "unimplemented",
    "unreachable",
    "vec",
    "write",
];
const PLAIN_ATTRIBUTES: [&str; 7] = [
    "allow", "default", "derive", "doc", "expect", "inline", "must_use",
];
const REFUSED_WORDS: [&str; 14] = [
    "unsafe",
    "extern",
    "static",
    "mod",
    "macro_rules",
    "macro",
    "cfg",
    "cfg_attr",
    "env",
    "option_env",
    "include",
    "include_str",
    "include_bytes",
    "process",
];
/// Words after which `!` is the operator.
const KEYWORDS: [&str; 12] = [
    "if", "while", "match", "return", "in", "else", "break", "as", "move", "let", "ref", "mut",
];

/// Says what in `text` is refused, or nothing.
pub(crate) fn refusal(text: &str) -> Option<String> {
    let tokens = match tokens(text) {
        Ok(tokens) => tokens,
        Err(problem) => return Some(problem.to_owned()),
    };
    (0..tokens.len()).find_map(|at| refused_at(&tokens, at))
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Sign(char),
}

fn refused_at(tokens: &[Token], at: usize) -> Option<String> {
    let sign = |offset: usize, c: char| tokens.get(at + offset) == Some(&Token::Sign(c));
    match tokens.get(at)? {
        Token::Sign('#') => refused_attribute(tokens, at),
        Token::Sign(_) => None,
        Token::Word(word) if REFUSED_WORDS.contains(&word.as_str()) => {
            Some(format!("the word `{word}`"))
        }
        Token::Word(word) if ["std", "core", "alloc"].contains(&word.as_str()) => {
            let path = sign(1, ':') && sign(2, ':');
            let rest = tokens.get(at + 3..).filter(|_| path).unwrap_or_default();
            refused_module(rest).map(|module| format!("`{word}{module}`"))
        }
        Token::Word(word) => {
            let opens = ['(', '[', '{'].iter().any(|open| sign(2, *open));
            let call = sign(1, '!') && opens && !KEYWORDS.contains(&word.as_str());
            let plain = PLAIN_MACROS.contains(&word.as_str());
            (call && !plain).then(|| format!("the macro `{word}!`"))
        }
    }
}

fn refused_attribute(tokens: &[Token], at: usize) -> Option<String> {
    match (tokens.get(at + 1), tokens.get(at + 2)) {
        (Some(Token::Sign('[')), Some(Token::Word(name)))
            if PLAIN_ATTRIBUTES.contains(&name.as_str()) =>
        {
            None
        }
        (Some(Token::Sign('[')), Some(Token::Word(name))) => {
            Some(format!("the attribute `{name}`"))
        }
        _ => Some("an attribute of the whole file".to_owned()),
    }
}

/// Looks at what follows `std::`: one module, or a group of them.
fn refused_module(rest: &[Token]) -> Option<String> {
    match rest.first() {
        Some(Token::Word(module)) => refused_name(module),
        Some(Token::Sign('{')) => {
            let mut depth = 0;
            let mut starts = false;
            for token in rest {
                match token {
                    Token::Sign('{') => (depth, starts) = (depth + 1, true),
                    Token::Sign('}') if depth == 1 => return None,
                    Token::Sign('}') => depth -= 1,
                    Token::Sign(',') => starts = true,
                    Token::Word(module) if depth == 1 && starts => {
                        starts = false;
                        if let Some(refused) = refused_name(module) {
                            return Some(refused);
                        }
                    }
                    Token::Sign(':') | Token::Word(_) => {}
                    Token::Sign(_) => return Some("::{…}".to_owned()),
                }
            }
            Some("::{…}".to_owned())
        }
        _ => Some(String::new()),
    }
}

fn refused_name(module: &str) -> Option<String> {
    (!PLAIN_MODULES.contains(&module)).then(|| format!("::{module}"))
}

/// Words and signs of Rust text, without comments, literals and white space.
fn tokens(text: &str) -> Result<Vec<Token>, &'static str> {
    let mut tokens = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '/' if chars.peek() == Some(&'/') => skip_line(&mut chars),
            '/' if chars.peek() == Some(&'*') => skip_block(&mut chars)?,
            '"' => skip_string(&mut chars)?,
            '\'' => skip_quote(&mut chars)?,
            c if c.is_whitespace() => {}
            c if c.is_ascii_alphanumeric() || c == '_' => {
                let mut word = c.to_string();
                while let Some(more) = chars.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
                    word.push(more);
                }
                let raw = ["r", "b", "br", "c", "cr"].contains(&word.as_str());
                if raw && matches!(chars.peek(), Some('"' | '#' | '\'')) {
                    return Err("a raw or byte literal, or a raw name");
                }
                tokens.push(Token::Word(word));
            }
            c if c.is_ascii() => tokens.push(Token::Sign(c)),
            _ => return Err("a letter outside ASCII"),
        }
    }
    Ok(tokens)
}

fn skip_line(chars: &mut Peekable<Chars<'_>>) {
    while chars.next_if(|c| *c != '\n').is_some() {}
}

fn skip_block(chars: &mut Peekable<Chars<'_>>) -> Result<(), &'static str> {
    let mut depth = 1;
    chars.next();
    while depth > 0 {
        match (
            chars.next().ok_or("a comment without an end")?,
            chars.peek(),
        ) {
            ('/', Some('*')) => {
                chars.next();
                depth += 1;
            }
            ('*', Some('/')) => {
                chars.next();
                depth -= 1;
            }
            _ => {}
        }
    }
    Ok(())
}

fn skip_string(chars: &mut Peekable<Chars<'_>>) -> Result<(), &'static str> {
    loop {
        match chars.next().ok_or("a string without an end")? {
            '"' => return Ok(()),
            '\\' => {
                chars.next();
            }
            _ => {}
        }
    }
}

/// A character literal or a lifetime.
fn skip_quote(chars: &mut Peekable<Chars<'_>>) -> Result<(), &'static str> {
    let mut ahead = chars.clone();
    match (ahead.next(), ahead.next()) {
        (Some('\\'), _) => {
            chars.next();
            chars.next();
            while chars.next().ok_or("a character without an end")? != '\'' {}
        }
        (Some(_), Some('\'')) => {
            chars.next();
            chars.next();
        }
        _ => {
            while chars
                .next_if(|c| c.is_ascii_alphanumeric() || *c == '_')
                .is_some()
            {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::fixture::FILES;

    #[test]
    fn plain_code_is_allowed() {
        let rows = [
            "let end = if !(a && b) { std::cmp::max(a, b) } else { core::mem::take(&mut c) };",
            "use std::{cmp::{self, Ordering}, collections::BTreeMap};",
            "#[derive(Debug)] #[must_use] pub struct A<'a>(&'a str); // std::process",
            "/* unsafe /* cfg */ env */ let c = 'x'; let q = '\\''; let s = \"std::fs \\\" mod\";",
            "assert!(a != b); vec![1, 2]; matches!(a, Some(_) if !b)",
            "last.end = u32::max(last.end, next.end)",
            "fn a<'a>(b: &'a [u8], c: &'static str) -> &'a [u8] { 'mod_: loop { break 'mod_; } }",
        ];
        for row in rows {
            assert_eq!(refusal(row), None, "{row}");
        }
        for (path, text) in FILES
            .iter()
            .filter(|(path, _)| path.ends_with("range.rs") || *path == "src/merge.rs")
        {
            assert!(
                path.starts_with("tests/") || refusal(text).is_none(),
                "{path}"
            );
        }
    }

    #[test]
    fn tricks_are_named() {
        let rows = [
            ("#[cfg(test)] fn f() {}", "`cfg`"),
            ("if cfg!(test) {}", "`cfg`"),
            ("#[cfg_attr(test, x)]", "`cfg_attr`"),
            ("#![allow(x)]", "whole file"),
            ("#![cfg(test)]", "whole file"),
            ("# ! [cfg(test)]", "whole file"),
            ("env!(\"A\")", "`env`"),
            ("option_env!(\"A\")", "`option_env`"),
            ("include!(\"x.rs\")", "`include`"),
            ("std::env::args()", "`std::env`"),
            ("::std :: process :: exit(0)", "`std::process`"),
            ("use std::{cmp, process};", "`std::process`"),
            ("use std::{cmp::{self}, fs as cmp};", "`std::fs`"),
            ("use std::*;", "`std`"),
            ("use std as s;", "`std`"),
            ("use std::{self as s};", "`std::self`"),
            ("use std::{*};", "::{"),
            ("use core::panic::Location;", "`core::panic`"),
            ("use process::exit;", "`process`"),
            ("println!(\"test a ... ok\")", "`println!`"),
            ("println ! [\"a\"]", "`println!`"),
            ("thread_local! {}", "`thread_local!`"),
            ("unsafe { x() }", "`unsafe`"),
            ("extern \"C\" { fn exit(); }", "`extern`"),
            ("#[no_mangle] fn f() {}", "`no_mangle`"),
            ("#[path = \"x\"] mod y;", "`path`"),
            ("mod y;", "`mod`"),
            ("static A: u32 = 1;", "`static`"),
            ("#[test] fn t() {}", "`test`"),
            ("r#unsafe", "raw"),
            ("r\"a\"", "raw"),
            ("let ä = 1;", "ASCII"),
            ("/* open", "comment"),
            ("\"open", "string"),
            ("'\\", "character"),
        ];
        for (row, word) in rows {
            let refused = refusal(row).unwrap_or_default();
            assert!(refused.contains(word), "{row}: {refused}");
        }
    }
}
