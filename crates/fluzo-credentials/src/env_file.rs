//! Files of environment variables, as `.env` files usually look.
//!
//! A line is empty, a comment, or `NAME=VALUE`, perhaps after `export`. A value is bare, in
//! single quotes (taken as it is) or in double quotes (with `\n`, `\r`, `\t`, `\"`, `\\`);
//! one in quotes may span lines. A bare value ends before ` #`. Nothing is expanded.

use crate::secret_value::is_variable;

/// A line that cannot be read. The text of the line is not part of it: it may be a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct EnvFileError {
    /// Number of the line, from one.
    pub line: usize,
    /// What is wrong.
    pub problem: &'static str,
}

/// The variables of `text`, in the order of the file; a later one of the same name wins.
///
/// # Errors
///
/// The first line that has none of the known forms.
pub fn parse(text: &str) -> Result<Vec<(String, String)>, EnvFileError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut variables = Vec::new();
    let mut lines = Lines {
        rest: text,
        line: 0,
    };
    while let Some(line) = lines.next() {
        let trimmed = line.trim_start();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        let number = lines.line;
        let fail = |problem| EnvFileError {
            line: number,
            problem,
        };
        let assignment = match trimmed.strip_prefix("export") {
            Some(rest) if rest.starts_with([' ', '\t']) => rest.trim_start(),
            _ => trimmed,
        };
        let (name, value) = assignment
            .split_once('=')
            .ok_or_else(|| fail("expected `NAME=VALUE`"))?;
        let name = name.trim_end();
        if !is_variable(name) {
            return Err(fail("not a name of a variable"));
        }
        let value = lines.value(value.trim_start_matches([' ', '\t']));
        variables.push((name.to_owned(), value.map_err(fail)?));
    }
    Ok(variables)
}

struct Lines<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Lines<'a> {
    fn next(&mut self) -> Option<&'a str> {
        if self.rest.is_empty() {
            return None;
        }
        self.line += 1;
        let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
        self.rest = rest;
        Some(line.strip_suffix('\r').unwrap_or(line))
    }

    /// The value that begins with `text`, which may go on in the lines after it.
    fn value(&mut self, text: &'a str) -> Result<String, &'static str> {
        let quote = match text.chars().next() {
            Some(quote @ ('"' | '\'')) => quote,
            _ => return Ok(bare(text)),
        };
        let mut value = String::new();
        let mut text = &text[1..];
        loop {
            match quoted(text, quote, &mut value) {
                Some(after) => return end(after).map(|()| value),
                None => {
                    value.push('\n');
                    text = self.next().ok_or("a quote is not closed")?;
                }
            }
        }
    }
}

fn bare(text: &str) -> String {
    let comment = text
        .char_indices()
        .find(|(at, c)| *c == '#' && (*at == 0 || text[..*at].ends_with([' ', '\t'])));
    let value = comment.map_or(text, |(at, _)| &text[..at]);
    value.trim_end().to_owned()
}

/// Adds what stands before the closing quote to `value`; what comes after it is returned, and
/// nothing when the quote is not closed in this line.
fn quoted<'a>(text: &'a str, quote: char, value: &mut String) -> Option<&'a str> {
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            _ if c == quote => return Some(&text[at + 1..]),
            '\\' if quote == '"' => match chars.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, 'r')) => value.push('\r'),
                Some((_, 't')) => value.push('\t'),
                Some((_, c @ ('"' | '\\'))) => value.push(c),
                Some((_, c)) => value.extend(['\\', c]),
                None => value.push('\\'),
            },
            _ => value.push(c),
        }
    }
    None
}

fn end(after: &str) -> Result<(), &'static str> {
    let after = after.trim_start();
    if after.is_empty() || after.starts_with('#') {
        return Ok(());
    }
    Err("text after the closing quote")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(&str, &str)]) {
        let variables = parse(text).unwrap();
        let found: Vec<(&str, &str)> = variables
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn the_usual_forms() {
        check("A=1\nB=2", &[("A", "1"), ("B", "2")]);
        check(
            "\u{feff}A=1\r\n\r\n# c\r\n B = 2 \r\n",
            &[("A", "1"), ("B", "2")],
        );
        check("export A=1\nexport\tB=2", &[("A", "1"), ("B", "2")]);
        check("export=1", &[("export", "1")]);
        check(
            "A=x y # note\nB=x#y\nC=#\nD=",
            &[("A", "x y"), ("B", "x#y"), ("C", ""), ("D", "")],
        );
        check("A='x # $Y \\n'", &[("A", "x # $Y \\n")]);
        check(r#"A="x\ty\"\\\n\$Z" # note"#, &[("A", "x\ty\"\\\n\\$Z")]);
        check("A=\"x\ny\"\nB='1\n2'", &[("A", "x\ny"), ("B", "1\n2")]);
        check("A=$HOME", &[("A", "$HOME")]);
        check("A=a=b==", &[("A", "a=b==")]);
        check("", &[]);
    }

    #[test]
    fn a_line_that_is_none_is_named_without_its_text() {
        let rows = [
            ("A=1\nplanted", 2, "expected `NAME=VALUE`"),
            ("\n\n1A=planted", 3, "not a name of a variable"),
            ("export =planted", 1, "not a name of a variable"),
            ("A=1\nB=\"planted\nx", 2, "a quote is not closed"),
            ("A='x' planted", 1, "text after the closing quote"),
        ];
        for (text, line, problem) in rows {
            let error = parse(text).unwrap_err();
            assert_eq!(error, EnvFileError { line, problem });
            assert!(!error.to_string().contains("planted"));
        }
    }
}
