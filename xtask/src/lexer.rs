//! A lexer for Rust source text, as far as the checks need one.
//!
//! It tells identifiers, punctuation, string literals and doc comments apart and drops the other
//! comments, so that a rule about code never fires on prose. Text that is no valid Rust yields
//! some tokens and never fails: the compiler is the judge of that.

/// What a token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// An identifier or keyword, without `r#`.
    Ident(String),
    /// One character of punctuation.
    Punct(char),
    /// The inside of a string literal as written, escapes not decoded.
    Text(String),
    /// A number, a character literal or a lifetime.
    Other,
    /// A line or block of documentation, for the item that follows or (`inner`) the enclosing one.
    Doc {
        /// The text without the comment marks.
        text: String,
        /// Whether it documents the enclosing item.
        inner: bool,
    },
}

/// A token and the line that it begins on, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// Where it begins.
    pub line: usize,
}

impl Token {
    /// The identifier, if it is one.
    pub fn ident(&self) -> Option<&str> {
        match &self.kind {
            Kind::Ident(name) => Some(name),
            _ => None,
        }
    }

    /// Whether it is this punctuation character.
    pub fn is(&self, punct: char) -> bool {
        self.kind == Kind::Punct(punct)
    }
}

/// Splits source text into tokens.
pub fn tokens(text: &str) -> Vec<Token> {
    let mut lexer = Lexer {
        chars: text.chars().collect(),
        at: 0,
        line: 1,
        out: Vec::new(),
    };
    while let Some(c) = lexer.peek(0) {
        lexer.step(c);
    }
    lexer.out
}

struct Lexer {
    chars: Vec<char>,
    at: usize,
    line: usize,
    out: Vec<Token>,
}

impl Lexer {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek(0)?;
        self.at += 1;
        self.line += usize::from(c == '\n');
        Some(c)
    }

    fn push(&mut self, line: usize, kind: Kind) {
        self.out.push(Token { kind, line });
    }

    fn step(&mut self, c: char) {
        let line = self.line;
        if c == '/' && self.peek(1) == Some('/') {
            self.line_comment(line);
        } else if c == '/' && self.peek(1) == Some('*') {
            self.block_comment(line);
        } else if c == '"' {
            self.bump();
            let text = self.quoted('"');
            self.push(line, Kind::Text(text));
        } else if c == '\'' {
            self.bump();
            self.char_or_lifetime();
            self.push(line, Kind::Other);
        } else if c == '_' || c.is_alphabetic() {
            self.word(line);
        } else if c.is_ascii_digit() {
            self.number();
            self.push(line, Kind::Other);
        } else {
            self.bump();
            if !c.is_whitespace() {
                self.push(line, Kind::Punct(c));
            }
        }
    }

    fn line_comment(&mut self, line: usize) {
        let start = self.at;
        while self.peek(0).is_some_and(|c| c != '\n') {
            self.at += 1;
        }
        let comment: String = self.chars[start..self.at].iter().collect();
        self.doc(line, &comment, "///", "//!", "////");
    }

    fn block_comment(&mut self, line: usize) {
        let start = self.at;
        let mut depth = 0_usize;
        while let Some(c) = self.bump() {
            match (c, self.peek(0)) {
                ('/', Some('*')) => depth += 1,
                ('*', Some('/')) => depth -= 1,
                _ => continue,
            }
            self.bump();
            if depth == 0 {
                break;
            }
        }
        let comment: String = self.chars[start..self.at].iter().collect();
        let body = comment.strip_suffix("*/").unwrap_or(&comment).to_owned();
        self.doc(line, &body, "/**", "/*!", "/***");
    }

    fn doc(&mut self, line: usize, comment: &str, outer: &str, inner: &str, plain: &str) {
        if comment.starts_with(plain) {
            return;
        }
        let (text, inner) = match (comment.strip_prefix(outer), comment.strip_prefix(inner)) {
            (Some(text), _) => (text.to_owned(), false),
            (None, Some(text)) => (text.to_owned(), true),
            (None, None) => return,
        };
        self.push(line, Kind::Doc { text, inner });
    }

    /// The rest of a literal with escapes, up to and with its closing mark.
    fn quoted(&mut self, close: char) -> String {
        let mut text = String::new();
        while let Some(c) = self.bump() {
            if c == close {
                break;
            }
            text.push(c);
            if c == '\\' {
                text.extend(self.bump());
            }
        }
        text
    }

    fn char_or_lifetime(&mut self) {
        let is_char = self.peek(0) == Some('\\') || self.peek(1) == Some('\'');
        if is_char {
            self.quoted('\'');
            return;
        }
        while self
            .peek(0)
            .is_some_and(|c| c == '_' || c.is_alphanumeric())
        {
            self.at += 1;
        }
    }

    fn number(&mut self) {
        while let Some(c) = self.peek(0) {
            let fraction = c == '.' && self.peek(1).is_some_and(|d| d.is_ascii_digit());
            if !(fraction || c == '_' || c.is_alphanumeric()) {
                break;
            }
            self.at += 1;
        }
    }

    /// An identifier, or the literal whose prefix it turns out to be.
    fn word(&mut self, line: usize) {
        let start = self.at;
        while self
            .peek(0)
            .is_some_and(|c| c == '_' || c.is_alphanumeric())
        {
            self.at += 1;
        }
        let word: String = self.chars[start..self.at].iter().collect();
        match (word.as_str(), self.peek(0)) {
            ("b" | "c", Some('"')) => {
                self.bump();
                let text = self.quoted('"');
                self.push(line, Kind::Text(text));
            }
            ("b", Some('\'')) => {
                self.bump();
                self.quoted('\'');
                self.push(line, Kind::Other);
            }
            ("r" | "br" | "cr", Some('"' | '#')) => self.raw(line, word),
            _ => self.push(line, Kind::Ident(word)),
        }
    }

    /// A raw string, or a raw identifier, after its prefix.
    fn raw(&mut self, line: usize, prefix: String) {
        let hashes = (0..).take_while(|n| self.peek(*n) == Some('#')).count();
        if self.peek(hashes) != Some('"') {
            if prefix == "r" && hashes == 1 {
                self.at += 1;
            } else {
                self.push(line, Kind::Ident(prefix));
            }
            return;
        }
        self.at += hashes + 1;
        let mut text = String::new();
        while let Some(c) = self.bump() {
            let closes = c == '"' && (0..hashes).all(|n| self.peek(n) == Some('#'));
            if closes {
                self.at += hashes;
                break;
            }
            text.push(c);
        }
        self.push(line, Kind::Text(text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, expected: &[&str]) {
        let shown: Vec<String> = tokens(source)
            .into_iter()
            .map(|t| match t.kind {
                Kind::Ident(name) => name,
                Kind::Punct(c) => c.to_string(),
                Kind::Text(text) => format!("\"{text}\""),
                Kind::Other => "·".to_owned(),
                Kind::Doc { text, inner } => format!("doc{}{text}", if inner { "!" } else { "" }),
            })
            .collect();
        assert_eq!(shown, expected, "{source}");
    }

    #[test]
    fn tells_literals_comments_and_lifetimes_apart() {
        check("a // libc::x\nb", &["a", "b"]);
        check("a /* x /* y */ z */ b", &["a", "b"]);
        check("let s = \"a\\\"b\";", &["let", "s", "=", "\"a\\\"b\"", ";"]);
        check("r#\"a\"b\"# x", &["\"a\"b\"", "x"]);
        check("br\"\\\" b'\"' c\"q\"", &["\"\\\"", "·", "\"q\""]);
        check(
            "'a' '\\'' '\"' &'static str",
            &["·", "·", "·", "&", "·", "str"],
        );
        check("r#type 1.5e3 0..2", &["type", "·", "·", ".", ".", "·"]);
        check(
            "/// one\n//! two\n//// three\nfn",
            &["doc one", "doc! two", "fn"],
        );
        check("\"open", &["\"open\""]);
    }

    #[test]
    fn counts_lines_through_every_literal() {
        let found = tokens("\"a\nb\" /* \n */ r#\"\n\"# end");
        assert_eq!(found.last().map(|t| t.line), Some(4));
    }
}
