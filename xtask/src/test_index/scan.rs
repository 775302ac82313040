//! One pass over the tokens of a file: modules, test functions, documented items, macros.

use super::{Call, ChildModule, MacroTests, TestIndex};
use crate::lexer::{Kind, Token};
use crate::syntax;

/// What braces belong to.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Scope {
    Module(String),
    /// A trait or an implementation: its items are documented below its name.
    Type(String),
    Other,
}

/// One pass over the tokens of a file, or of a macro's body.
pub(super) struct Scan<'a> {
    tokens: &'a [Token],
    krate: &'a str,
    module: &'a str,
    scopes: Vec<Scope>,
    marked: bool,
    docs: Vec<&'a str>,
    given: Option<String>,
    children: Vec<ChildModule>,
}

impl<'a> Scan<'a> {
    pub(super) fn new(tokens: &'a [Token], krate: &'a str, module: &'a str) -> Self {
        Self {
            tokens,
            krate,
            module,
            scopes: Vec::new(),
            marked: false,
            docs: Vec::new(),
            given: None,
            children: Vec::new(),
        }
    }

    pub(super) fn run(mut self, index: &mut TestIndex) -> Vec<ChildModule> {
        let mut at = 0;
        while at < self.tokens.len() {
            at = self.step(at, index);
        }
        self.children
    }

    fn step(&mut self, at: usize, index: &mut TestIndex) -> usize {
        if let Some(found) = syntax::attribute(self.tokens, at) {
            self.marked |= found.is_test_marker();
            if found.body.first().and_then(Token::ident) == Some("path") {
                self.given = text_of(found.body.get(2));
            }
            return found.end;
        }
        let tokens = self.tokens;
        match &tokens[at].kind {
            Kind::Doc { text, inner: false } => self.docs.push(text),
            Kind::Doc { text, inner: true } => return self.inner_docs(at, text, index),
            Kind::Punct('{') => {
                self.scopes.push(Scope::Other);
                self.forget();
            }
            Kind::Punct('}') => {
                self.scopes.pop();
                self.forget();
            }
            Kind::Punct(';' | ',') => self.forget(),
            Kind::Ident(word) => return self.word(at, word, index),
            _ => {}
        }
        at + 1
    }

    fn forget(&mut self) {
        self.marked = false;
        self.docs.clear();
        self.given = None;
    }

    /// The documentation of the enclosing module, from its first line to its last.
    fn inner_docs(&mut self, at: usize, first: &'a str, index: &mut TestIndex) -> usize {
        let mut lines = vec![first];
        let mut end = at + 1;
        while let Some(Token {
            kind: Kind::Doc { text, inner: true },
            ..
        }) = self.tokens.get(end)
        {
            lines.push(text);
            end += 1;
        }
        if has_doctest(&lines) {
            index.tests.insert(self.doc_name(None));
        }
        end
    }

    fn word(&mut self, at: usize, word: &str, index: &mut TestIndex) -> usize {
        let next = self.tokens.get(at + 1);
        let name = next.and_then(Token::ident);
        match (word, name) {
            ("mod", Some(name)) => return self.module(at, name, index),
            ("fn", Some(name)) => {
                if self.marked {
                    index.tests.insert(self.test_name(name));
                }
                self.item(name, index);
                return at + 2;
            }
            ("const", Some("fn" | "unsafe" | "async" | "extern")) => {}
            ("struct" | "enum" | "union" | "type" | "const" | "static", Some(name)) => {
                self.item(name, index);
            }
            ("trait", Some(name)) => {
                self.item(name, index);
                return self.open_type(at + 2, name.to_owned());
            }
            ("impl", _) if !self.marked => {
                self.forget();
                return self.implementation(at + 1);
            }
            _ if next.is_some_and(|t| t.is('!')) => return self.macro_call(at, word, index),
            _ => {}
        }
        at + 1
    }

    /// Notes the documentation test of the item `name`, and that its attributes are used up.
    fn item(&mut self, name: &str, index: &mut TestIndex) {
        if has_doctest(&self.docs) {
            index.tests.insert(self.doc_name(Some(name)));
        }
        self.forget();
    }

    fn module(&mut self, at: usize, name: &str, index: &mut TestIndex) -> usize {
        let given = self.given.take();
        self.item(name, index);
        match self.tokens.get(at + 2) {
            Some(t) if t.is('{') => {
                self.scopes.push(Scope::Module(name.to_owned()));
                at + 3
            }
            Some(t) if t.is(';') => {
                let mut inside = self.modules();
                inside.push(name.to_owned());
                let module = self.test_name(name);
                self.children.push(ChildModule {
                    inside,
                    module,
                    given,
                });
                at + 3
            }
            _ => at + 1,
        }
    }

    /// Opens the scope of a trait or type at the next brace.
    fn open_type(&mut self, mut at: usize, name: String) -> usize {
        while let Some(token) = self.tokens.get(at) {
            if token.is('{') {
                self.scopes.push(Scope::Type(name));
                return at + 1;
            }
            if token.is(';') || token.is('}') {
                return at;
            }
            at += 1;
        }
        at
    }

    /// `impl<…> Trait for Type<…> {`: the last name outside angle brackets is the type. Types in
    /// signatures (`impl Fn()`) run into something else than a brace and open no scope.
    fn implementation(&mut self, start: usize) -> usize {
        let mut depth = 0_i32;
        let mut name = String::new();
        for (at, token) in self.tokens.iter().enumerate().skip(start) {
            match &token.kind {
                Kind::Punct('<') => depth += 1,
                Kind::Punct('>') if !self.tokens[at - 1].is('-') => depth -= 1,
                Kind::Punct('{') => return self.open_type(at, name),
                Kind::Punct(';' | '}' | ')' | ',' | '=') if depth <= 0 => return start,
                Kind::Ident(word) if word == "where" => return self.open_type(at, name),
                Kind::Ident(word) if depth <= 0 && word != "for" => name.clone_from(word),
                _ => {}
            }
        }
        start
    }

    fn macro_call(&mut self, at: usize, word: &str, index: &mut TestIndex) -> usize {
        let tokens = self.tokens;
        let defines = (word == "macro_rules").then(|| tokens.get(at + 2).and_then(Token::ident));
        if let Some(Some(name)) = defines {
            self.forget();
            let end = syntax::after_group(tokens, at + 3);
            let body = tokens.get(at + 4..end).unwrap_or_default();
            index.macros.insert(name.to_owned(), macro_tests(body));
            return end;
        }
        if tokens
            .get(at + 2)
            .is_some_and(|t| t.is('(') || t.is('[') || t.is('{'))
        {
            index
                .calls
                .push((self.test_module(), call(tokens, at, word)));
        }
        at + 2
    }

    fn modules(&self) -> Vec<String> {
        let names = self.scopes.iter().filter_map(|s| match s {
            Scope::Module(name) => Some(name.clone()),
            _ => None,
        });
        names.collect()
    }

    fn test_module(&self) -> String {
        let inside = self.modules();
        std::iter::once(self.module.to_owned())
            .chain(inside)
            .collect::<Vec<_>>()
            .join("::")
    }

    fn test_name(&self, name: &str) -> String {
        format!("{}::{name}", self.test_module())
    }

    fn doc_name(&self, item: Option<&str>) -> String {
        let module = self.test_module();
        let below = module.strip_prefix(self.krate).unwrap_or(&module);
        let owner = self.scopes.iter().rev().find_map(|s| match s {
            Scope::Type(name) => Some(format!("::{name}")),
            _ => None,
        });
        let item = item.map(|i| format!("::{i}")).unwrap_or_default();
        format!(
            "{}::doc{below}{}{item}",
            self.krate,
            owner.unwrap_or_default()
        )
    }
}

fn text_of(token: Option<&Token>) -> Option<String> {
    match token.map(|t| &t.kind) {
        Some(Kind::Text(text)) => Some(text.clone()),
        _ => None,
    }
}

fn call(tokens: &[Token], at: usize, word: &str) -> Call {
    let end = syntax::after_group(tokens, at + 2);
    let inside = tokens.get(at + 3..end).unwrap_or_default();
    let arguments = inside
        .iter()
        .filter_map(Token::ident)
        .map(str::to_owned)
        .collect();
    Call {
        name: word.to_owned(),
        arguments,
    }
}

/// The tests that the body of a `macro_rules!` holds, of all its arms together.
fn macro_tests(body: &[Token]) -> MacroTests {
    let mut found = MacroTests::default();
    let mut marked = false;
    for (at, token) in body.iter().enumerate() {
        if let Some(attribute) = syntax::attribute(body, at) {
            marked |= attribute.is_test_marker();
        }
        let next = body.get(at + 1);
        let name = next.and_then(Token::ident).map(str::to_owned);
        match token.ident() {
            Some("fn") if marked => {
                found.by_argument |= name.is_none();
                found.names.extend(name);
                marked = false;
            }
            Some("mod") => found.modules.extend(name),
            Some(word) if next.is_some_and(|t| t.is('!')) => found.calls.push(call(body, at, word)),
            _ => {}
        }
    }
    found
}

/// Whether documentation holds a fenced block that rustdoc compiles.
fn has_doctest(lines: &[&str]) -> bool {
    let mut open = false;
    for line in lines.iter().flat_map(|block| block.lines()) {
        let line = line.trim_start_matches(['*', ' ', '\t']);
        let Some(info) = line.strip_prefix("```") else {
            continue;
        };
        let is_rust = |word: &str| {
            let known = ["", "rust", "compile_fail", "no_run", "should_panic"];
            known.contains(&word) || word.starts_with("edition") || word.starts_with('E')
        };
        if !open && info.split(',').all(|word| is_rust(word.trim())) {
            return true;
        }
        open = !open;
    }
    false
}
