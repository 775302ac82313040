//! Names from the disk and arguments of the model, in a form fit for a line of a result.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::Path;

/// Most characters of an argument that an error repeats.
const MOST: usize = 2000;

/// `name` with its control characters written out, so that a name cannot pass for several lines
/// or steer a terminal.
pub(crate) fn name(name: &str) -> Cow<'_, str> {
    if !name.contains(char::is_control) {
        return name.into();
    }
    let mut out = String::with_capacity(name.len() + 8);
    for c in name.chars() {
        // Writing to a string does not fail.
        let _ = match c {
            '\n' | '\r' | '\t' => write!(out, "{}", c.escape_default()),
            c if c.is_ascii_control() => write!(out, "\\x{:02x}", u32::from(c)),
            c if c.is_control() => write!(out, "{}", c.escape_unicode()),
            c => write!(out, "{c}"),
        };
    }
    out.into()
}

/// `text`, or its first characters and a word on the rest.
pub(crate) fn bounded(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MOST) {
        None => text.into(),
        Some((at, _)) => {
            let rest = text[at..].chars().count();
            format!("{}… [{rest} more characters]", &text[..at]).into()
        }
    }
}

/// The same of a path.
pub(crate) fn path(path: &Path) -> String {
    bounded(&path.to_string_lossy()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_in_names_are_written_out() {
        let rows = [
            ("plain ü.txt", "plain ü.txt"),
            (r"back\nslash", r"back\nslash"),
            ("a\nb\tc\rd", r"a\nb\tc\rd"),
            ("\u{1b}[31mred\u{7f}", r"\x1b[31mred\x7f"),
            ("\u{9b}2J", r"\u{9b}2J"),
        ];
        for (raw, expected) in rows {
            assert_eq!(name(raw), expected);
        }
    }

    #[test]
    fn long_arguments_are_repeated_in_part() {
        assert_eq!(bounded(&"é".repeat(MOST)), "é".repeat(MOST));
        let long = bounded(&"é".repeat(MOST + 7)).into_owned();
        assert!(long.ends_with("é… [7 more characters]"), "{long}");
        assert_eq!(
            long.chars().count(),
            MOST + "… [7 more characters]".chars().count()
        );
    }
}
