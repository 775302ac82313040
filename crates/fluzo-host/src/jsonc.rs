//! JSON with `//` comments and trailing commas, as people write configuration.

use serde_json::Value;

/// Parses `text`. Line and column of an error are those of `text`.
///
/// # Errors
///
/// What the JSON parser says.
pub(crate) fn parse(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(&blank_extras(text))
}

/// The line, from 1, on which the value at `path` begins; of the deepest part of the path that
/// is there. Object keys and array indices are given as texts. `text` must be one that
/// [`parse`] takes.
pub(crate) fn line_of(text: &str, path: &[String]) -> usize {
    let text = blank_extras(text);
    let mut reader = Reader {
        bytes: text.as_bytes(),
        at: 0,
    };
    let place = reader.find(path).min(text.len());
    1 + reader.bytes[..place]
        .iter()
        .filter(|b| **b == b'\n')
        .count()
}

/// The last name of a member that begins before `line` and `column` (both from 1), if it is
/// one of `known`.
pub(crate) fn key_before<'a>(
    text: &str,
    (line, column): (usize, usize),
    known: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    let text = blank_extras(text);
    let before = text.split_inclusive('\n').take(line.saturating_sub(1));
    let start: usize = before.map(str::len).sum();
    let end = (start + column).min(text.len());
    let read = &text.as_bytes()[..end];
    let places = known.filter_map(|name| {
        let quoted = format!("\"{name}\"");
        let at = memchr_last(read, quoted.as_bytes())?;
        let rest = text.get(at + quoted.len()..)?;
        rest.trim_start().starts_with(':').then_some((at, name))
    });
    places.max().map(|(_, name)| name)
}

fn memchr_last(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).rposition(|part| part == wanted)
}

/// Walks over JSON that is known to be valid.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    /// Where the value at `path` begins, counted from the value that comes next.
    fn find(&mut self, path: &[String]) -> usize {
        self.space();
        let here = self.at;
        let Some((first, rest)) = path.split_first() else {
            return here;
        };
        let (close, is_object) = match self.peek() {
            Some(b'{') => (b'}', true),
            Some(b'[') => (b']', false),
            _ => return here,
        };
        self.at += 1;
        let mut index = 0_usize;
        loop {
            self.space();
            match self.peek() {
                None => return here,
                Some(c) if c == close => return here,
                Some(b',') => {
                    self.at += 1;
                    continue;
                }
                Some(_) => {}
            }
            let key_at = self.at;
            let name = if is_object {
                let name = self.name();
                self.space();
                self.at += 1;
                name
            } else {
                index.to_string()
            };
            if name == *first {
                let place = self.find(rest);
                return if rest.is_empty() && is_object {
                    key_at
                } else {
                    place
                };
            }
            self.skip();
            index += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while self.peek().is_some_and(|c| c.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// Reads a string and gives what it means.
    fn name(&mut self) -> String {
        let start = self.at;
        self.string();
        serde_json::from_slice(&self.bytes[start..self.at]).unwrap_or_default()
    }

    fn string(&mut self) {
        self.at += 1;
        while let Some(c) = self.peek() {
            self.at += 1;
            match c {
                b'"' => return,
                b'\\' => self.at = (self.at + 1).min(self.bytes.len()),
                _ => {}
            }
        }
    }

    /// Passes over the value that comes next.
    fn skip(&mut self) {
        let mut depth = 0_usize;
        loop {
            self.space();
            match self.peek() {
                None => return,
                Some(b'"') => self.string(),
                Some(b'{' | b'[') => {
                    depth += 1;
                    self.at += 1;
                    continue;
                }
                Some(b'}' | b']') => {
                    depth = depth.saturating_sub(1);
                    self.at += 1;
                }
                Some(b',' | b':') => {
                    self.at += 1;
                    continue;
                }
                Some(_) => self.word(),
            }
            if depth == 0 {
                return;
            }
        }
    }

    /// A number or a literal.
    fn word(&mut self) {
        while self
            .peek()
            .is_some_and(|c| !c.is_ascii_whitespace() && !b",:]}".contains(&c))
        {
            self.at += 1;
        }
    }
}

/// Replaces comments and trailing commas by spaces, so that places stay the same.
fn blank_extras(text: &str) -> String {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut out: Vec<char> = Vec::with_capacity(text.len());
    let (mut in_string, mut escaped, mut in_comment) = (false, false, false);
    let mut comma: Option<usize> = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if in_comment {
            in_comment = c != '\n';
            out.push(if in_comment { ' ' } else { c });
            continue;
        }
        if in_string {
            in_string = c != '"' || escaped;
            escaped = c == '\\' && !escaped;
            out.push(c);
            continue;
        }
        match c {
            '/' if chars.peek() == Some(&'/') => {
                in_comment = true;
                out.push(' ');
                continue;
            }
            '"' => (in_string, comma) = (true, None),
            ',' => comma = Some(out.len()),
            '}' | ']' => {
                if let Some(at) = comma.take() {
                    out[at] = ' ';
                }
            }
            c if c.is_whitespace() => {}
            _ => comma = None,
        }
        out.push(c);
    }
    out.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn comments_and_trailing_commas() {
        let text = "{ // note\n \"a\": \"x//y,]\", \"b\": [1, 2, ],\n // end\n}";
        assert_eq!(parse(text).unwrap(), json!({"a": "x//y,]", "b": [1, 2]}));
        assert!(parse("{ /* no */ }").is_err());
    }

    #[test]
    fn errors_name_the_place_in_the_original() {
        let error = parse("{ // c\n \"a\": }").unwrap_err();
        assert_eq!((error.line(), error.column()), (2, 7));
    }

    #[test]
    fn lines_of_values() {
        let text = "{ // a, \"b\"\n \"a\": {\"x\": [1, {\"y\": \"}\\\"\"},\n  [2,\n 3, ] ] },\n \"b.c\": true,\n \"d\": -1.5e3, \"e\\u0041\":\n null\n}";
        parse(text).unwrap();
        let rows: [(&[&str], usize); 10] = [
            (&[], 1),
            (&["a"], 2),
            (&["a", "x", "1", "y"], 2),
            (&["a", "x", "2"], 3),
            (&["a", "x", "2", "1"], 4),
            (&["b.c"], 5),
            (&["d"], 6),
            (&["eA"], 6),
            // What is not there: the deepest part that is.
            (&["a", "nosuch"], 2),
            (&["d", "nosuch"], 6),
        ];
        for (path, line) in rows {
            let path: Vec<String> = path.iter().map(|part| (*part).to_owned()).collect();
            assert_eq!(line_of(text, &path), line, "{path:?}");
        }
    }

    #[test]
    fn the_key_before_an_error() {
        let text = "{\"providers\": {\n \"p\": {\"baseUrl\": \"apiKey\", \"api\" oops";
        let error = parse(text).unwrap_err();
        let known = ["providers", "baseUrl", "apiKey", "api"];
        let key = key_before(text, (error.line(), error.column()), known.into_iter());
        assert_eq!(key, Some("baseUrl"));
        assert_eq!(key_before("{ broken", (1, 3), known.into_iter()), None);
    }

    proptest::proptest! {
        /// Whatever stands in the file: no panic, and lines within the text.
        #[test]
        fn any_text_is_survived(text in r#"[\[\]{}",:/\\ a1\n]{0,60}"#) {
            let path = ["a".to_owned(), "1".to_owned()];
            let line = line_of(&text, &path);
            assert!(line <= text.lines().count().max(1) + 1);
            let _ = key_before(&text, (2, 3), ["a"].into_iter());
        }
    }
}
