//! Code with colours, as far as they are worth their bytes and their time.

use std::sync::OnceLock;

use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};

use crate::escape;

/// How much code gets colours.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Bytes of one block.
    pub(crate) block: usize,
    /// Bytes of a page.
    pub(crate) page: usize,
    /// Bytes of a line.
    pub(crate) line: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            block: 48 << 10,
            page: 2 << 20,
            line: 2 << 10,
        }
    }
}

/// What tells the language of a piece of code.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Language<'a> {
    /// A name, such as that behind a fence.
    Name(&'a str),
    /// The path of the file.
    Path(&'a str),
}

/// Puts colours into code.
#[derive(Default)]
pub(crate) struct Highlighter {
    limits: Limits,
    spent: usize,
    /// Blocks of a known language that were too long for colours.
    pub(crate) plain: usize,
}

/// Elements of the page by the scopes that stand for them; the first that fits counts. An
/// empty name leaves the text as it is. The names are short because there are many of them;
/// the hyphen makes them valid without a meaning of their own.
const ELEMENTS: [(&str, &str); 13] = [
    ("comment", "c-"),
    ("constant.character.escape", "n-"),
    ("string", "s-"),
    ("constant", "n-"),
    ("keyword.operator", ""),
    ("keyword", "k-"),
    ("storage", "k-"),
    ("entity.name", "f-"),
    ("support.function", "f-"),
    ("support.type", "f-"),
    ("variable.function", "f-"),
    ("markup.heading", "f-"),
    ("meta.property-name", "f-"),
];

impl Highlighter {
    /// `code` as HTML, with colours if its language is known and they are not too many.
    pub(crate) fn code(&mut self, code: &str, language: Language<'_>) -> String {
        let plain = escape::escaped(code);
        if is_diff(language) {
            return diff(code);
        }
        let Some(syntax) = find(language) else {
            return plain;
        };
        let limits = self.limits;
        if code.len() > limits.block
            || self.spent + code.len() > limits.page
            || code.lines().any(|line| line.len() > limits.line)
        {
            self.plain += 1;
            return plain;
        }
        self.spent += code.len();
        let coloured = coloured(code, syntax).unwrap_or_default();
        if coloured.is_empty() || coloured.len() > most(code, &plain) {
            return plain;
        }
        coloured
    }
}

/// The most bytes that `source` may come to: its form without colours or structure is
/// always allowed.
pub(crate) fn most(source: &str, plain: &str) -> usize {
    plain.len().max(source.len() * 9 / 4 + 64)
}

/// A diff with its changed lines marked: those that begin with `+` or `-`.
pub(crate) fn diff(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let mut open = "";
    for line in text.split_inclusive('\n') {
        let element = match line.as_bytes().first() {
            Some(b'+') => "ins",
            Some(b'-') => "del",
            _ => "",
        };
        // Neighbours share one element.
        if element != open {
            close(&mut out, open);
            if !element.is_empty() {
                out.push_str(&format!("<{element}>"));
            }
            open = element;
        }
        escape::text(&mut out, line);
    }
    close(&mut out, open);
    let plain = escape::escaped(text);
    if out.len() > most(text, &plain) {
        plain
    } else {
        out
    }
}

fn close(out: &mut String, element: &str) {
    if !element.is_empty() {
        out.push_str(&format!("</{element}>"));
    }
}

fn is_diff(language: Language<'_>) -> bool {
    match language {
        Language::Name(name) => matches!(name, "diff" | "patch"),
        Language::Path(path) => [".diff", ".patch"].iter().any(|end| path.ends_with(end)),
    }
}

fn syntaxes() -> &'static SyntaxSet {
    static SET: OnceLock<SyntaxSet> = OnceLock::new();
    SET.get_or_init(two_face::syntax::extra_newlines)
}

fn scopes() -> &'static [(Scope, &'static str)] {
    static TABLE: OnceLock<Vec<(Scope, &'static str)>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let scope =
            |(name, element): &(&str, &'static str)| Some((Scope::new(name).ok()?, *element));
        ELEMENTS.iter().filter_map(scope).collect()
    })
}

fn find(language: Language<'_>) -> Option<&'static SyntaxReference> {
    let found = match language {
        Language::Name(name) if name.is_empty() || name.len() > 40 => None,
        Language::Name(name) => syntaxes().find_syntax_by_token(name),
        Language::Path(path) => {
            let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
            let extension = name
                .rsplit_once('.')
                .map_or(name, |(_, extension)| extension);
            syntaxes()
                .find_syntax_by_extension(name)
                .or_else(|| syntaxes().find_syntax_by_extension(extension))
        }
    };
    found.filter(|syntax| syntax.name != "Plain Text")
}

fn coloured(code: &str, syntax: &SyntaxReference) -> Option<String> {
    let mut out = String::with_capacity(code.len() * 2);
    let mut state = ParseState::new(syntax);
    let mut stack = ScopeStack::new();
    let mut open = "";
    for line in code.split_inclusive('\n') {
        let changes = state.parse_line(line, syntaxes()).ok()?;
        let mut from = 0;
        for (at, change) in &changes {
            push(&mut out, &mut open, line.get(from..*at)?, &stack);
            from = *at;
            stack.apply(change).ok()?;
        }
        push(&mut out, &mut open, line.get(from..)?, &stack);
    }
    close(&mut out, open);
    Some(out)
}

fn push(out: &mut String, open: &mut &'static str, piece: &str, stack: &ScopeStack) {
    if piece.is_empty() {
        return;
    }
    // Blanks have no colour and need no element of their own.
    let is_blank = piece.bytes().all(|byte| byte.is_ascii_whitespace());
    let wanted = if is_blank { *open } else { element(stack) };
    if wanted != *open {
        close(out, open);
        if !wanted.is_empty() {
            out.push('<');
            out.push_str(wanted);
            out.push('>');
        }
        *open = wanted;
    }
    escape::text(out, piece);
}

fn element(stack: &ScopeStack) -> &'static str {
    let of = |scope: &Scope| {
        let mut table = scopes().iter();
        table.find(|(prefix, _)| prefix.is_prefix_of(*scope))
    };
    let found = stack.as_slice().iter().rev().find_map(of);
    found.map_or("", |(_, element)| *element)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_languages_have_colours() {
        let rows = [
            (
                Language::Name("rust"),
                "let x = \"a\"; // b",
                "<k->let</k-> x = <s->\"a\"</s->; <c->// b</c->",
            ),
            (
                Language::Path("src/main.rs"),
                "fn a() {}",
                "<k->fn </k-><f->a</f->() {}",
            ),
            (
                Language::Path("x/Makefile"),
                "a: b",
                "<f->a</f->: <s->b</s->",
            ),
            (Language::Name("json"), "[1]", "[<n->1</n->]"),
            (Language::Name("nonesuch"), "a < b", "a &lt; b"),
            (Language::Name("text"), "let x", "let x"),
            (
                Language::Name("diff"),
                "+a\n+b\n-c\n d",
                "<ins>+a\n+b\n</ins><del>-c\n</del> d",
            ),
        ];
        for (language, code, want) in rows {
            let got = Highlighter::default().code(code, language);
            assert_eq!(got, want, "{language:?}");
        }
    }

    #[test]
    fn what_is_too_long_stays_plain_and_is_counted() {
        let mut highlighter = Highlighter {
            limits: Limits {
                block: 100,
                page: 150,
                line: 50,
            },
            ..Highlighter::default()
        };
        let line = "let x = 1;\n";
        let mut check = |code: &str, coloured: bool, plain: usize| {
            let html = highlighter.code(code, Language::Name("rust"));
            assert_eq!(html.contains("<k->"), coloured, "{code:?}");
            assert_eq!(highlighter.plain, plain);
        };
        check(&line.repeat(10), false, 1);
        check(&"a".repeat(60), false, 2);
        check(&line.repeat(9), true, 2);
        check(&line.repeat(9), false, 3);
        check(&line.repeat(2), true, 3);
    }

    #[test]
    fn colours_that_cost_too_much_are_left_out() {
        let code = "a=1;".repeat(400);
        let html = Highlighter::default().code(&code, Language::Name("rust"));
        assert!(html.len() <= code.len() * 9 / 4 + 64, "{}", html.len());
    }
}
