//! Makes untrusted text safe to show in a terminal.

use vte::{Parser, Perform};

/// Removes escape sequences and control characters; newline and tab stay.
///
/// Carriage returns are dropped, so text cannot overwrite what stands before it,
/// and bidirectional overrides are dropped, so it cannot be shown in another order.
pub fn terminal_text(text: &str) -> String {
    let mut sink = Sink(String::with_capacity(text.len()));
    Parser::new().advance(&mut sink, text.as_bytes());
    sink.0
}

struct Sink(String);

impl Perform for Sink {
    fn print(&mut self, c: char) {
        let overrides = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if !overrides && !c.is_control() {
            self.0.push(c);
        }
    }

    fn execute(&mut self, byte: u8) {
        if byte == b'\n' || byte == b'\t' {
            self.0.push(char::from(byte));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_and_controls_are_removed() {
        let rows = [
            ("plain\ttext\n", "plain\ttext\n"),
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{1b}]0;title\u{7}x", "x"),
            ("\u{1b}]52;c;YQ==\u{1b}\\y", "y"),
            ("a\rb\u{8}c\u{7f}", "abc"),
            ("\u{9b}2Jz", "2Jz"),
            ("a\u{202e}b", "ab"),
            ("漢✅", "漢✅"),
        ];
        for (raw, shown) in rows {
            assert_eq!(terminal_text(raw), shown, "{raw:?}");
        }
    }
}
