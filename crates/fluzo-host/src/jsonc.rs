//! JSON with `//` comments and trailing commas, as people write configuration.

use serde_json::Value;

/// Parses `text`. Line and column of an error are those of `text`.
///
/// # Errors
///
/// What the JSON parser says.
pub fn parse(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(&blank_extras(text))
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
    }

    #[test]
    fn errors_name_the_place_in_the_original() {
        let error = parse("{ // c\n \"a\": }").unwrap_err();
        assert_eq!((error.line(), error.column()), (2, 7));
    }
}
