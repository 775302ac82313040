//! Text as HTML.
//!
//! Every piece of a session passes through here, so that it is shown and never obeyed.

/// Appends `text` so that a browser shows it as it is. Not for attributes: no text of a
/// session ever stands in one.
pub(crate) fn text(out: &mut String, text: &str) {
    let mut rest = text;
    while let Some(at) = rest.find(special) {
        let (plain, from) = rest.split_at(at);
        out.push_str(plain);
        let mut chars = from.chars();
        match chars.next() {
            Some('<') => out.push_str("&lt;"),
            Some('&') => out.push_str("&amp;"),
            // A browser reads a lone carriage return as a line end.
            Some('\r') if !chars.as_str().starts_with('\n') => out.push('\n'),
            Some('\r') | None => {}
            Some('\u{7f}') => out.push('\u{2421}'),
            // Other control characters have pictures.
            Some(c) => out.push(char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}')),
        }
        rest = chars.as_str();
    }
    out.push_str(rest);
}

/// [`text`] as a string of its own.
pub(crate) fn escaped(source: &str) -> String {
    let mut out = String::with_capacity(source.len() + source.len() / 16);
    text(&mut out, source);
    out
}

/// The beginning of `text` on one line, at most `max` characters, for a heading or a summary.
pub(crate) fn snippet(text: &str, max: usize) -> String {
    let mut out = String::new();
    let mut blank = false;
    let mut taken = 0;
    for c in text.chars().filter(|c| !reorders(*c)) {
        if c.is_whitespace() {
            blank = !out.is_empty();
            continue;
        }
        if taken >= max {
            out.push('…');
            break;
        }
        if std::mem::take(&mut blank) {
            out.push(' ');
            taken += 1;
        }
        out.push(c);
        taken += 1;
    }
    out
}

fn special(c: char) -> bool {
    match c {
        '<' | '&' => true,
        '\n' | '\t' => false,
        c => c < ' ' || c == '\u{7f}',
    }
}

/// Whether `c` changes the direction of the text around it.
fn reorders(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_obeyed() {
        let rows = [
            (
                "</script><img src=x onerror=alert(1)>",
                "&lt;/script>&lt;img src=x onerror=alert(1)>",
            ),
            ("a&lt;b", "a&amp;lt;b"),
            ("\u{1b}[31m\0\u{7f}", "␛[31m␀␡"),
            ("a\r\nb\rc\td", "a\nb\nc\td"),
            ("say \"it\"", "say \"it\""),
        ];
        for (source, want) in rows {
            assert_eq!(escaped(source), want);
        }
    }

    #[test]
    fn a_snippet_is_one_short_line() {
        let rows = [
            ("  a\n\n b\tc ", 20, "a b c"),
            ("abcdef", 3, "abc…"),
            ("abc", 3, "abc"),
            ("a\u{202e}b", 9, "ab"),
            ("", 9, ""),
        ];
        for (source, max, want) in rows {
            assert_eq!(snippet(source, max), want, "{source:?}");
        }
    }
}
