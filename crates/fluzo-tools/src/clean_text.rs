//! Takes escape sequences and control characters out of a stream of text.
//!
//! A sequence may be split between two pieces. What begins like one and is none (it breaks
//! off, or goes on for too long) is text after all, but for its control characters.

/// Characters after which a sequence that has not ended is taken for text.
const LONGEST: usize = 4096;

const ESCAPE: char = '\u{1b}';
const BELL: char = '\u{7}';
/// Introduces a control sequence in one character.
const C1_CONTROL: char = '\u{9b}';
/// Ends a control string in one character.
const C1_TERMINATOR: char = '\u{9c}';

/// Cleans text that comes in pieces. Newlines and tabs stay; carriage returns and all other
/// control characters go, and so do sequences as ECMA-48 defines them.
#[derive(Debug, Default)]
pub(crate) struct Cleaner {
    state: State,
    /// What has come of a sequence, its introducer left out; at most [`LONGEST`] characters.
    pending: String,
    length: usize,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// After an escape character.
    Escape,
    /// Intermediate characters of a short sequence.
    Short,
    /// Parameters of a control sequence.
    Control,
    /// A control string, such as a title or a link.
    String,
    /// An escape character within a control string.
    StringEscape,
}

impl Cleaner {
    /// Adds what is text of `piece` to `out`.
    pub(crate) fn push(&mut self, piece: &str, out: &mut String) {
        for c in piece.chars() {
            self.take(c, out);
        }
    }

    /// Nothing more will come: a sequence without its end is text.
    pub(crate) fn finish(&mut self, out: &mut String) {
        self.give_up(out);
    }

    fn take(&mut self, c: char, out: &mut String) {
        let next = match (self.state, c) {
            (State::Text, ESCAPE) => State::Escape,
            (State::Text, C1_CONTROL) => State::Control,
            (State::Text, c) => return keep(c, out),
            (State::Escape, '[') => State::Control,
            (State::Escape, ']' | 'P' | 'X' | '^' | '_') => State::String,
            (State::Escape | State::Short, ' '..='/') => State::Short,
            (State::Escape | State::Short, '0'..='~') => return self.end(),
            (State::Control, ' '..='?') => State::Control,
            (State::Control, '@'..='~') => return self.end(),
            (State::String, BELL | C1_TERMINATOR) => return self.end(),
            (State::StringEscape, '\\') => return self.end(),
            (State::String, ESCAPE) => State::StringEscape,
            (State::String, c) if c != '\n' => State::String,
            _ => {
                self.give_up(out);
                // What broke a control string off may begin another sequence.
                return self.take(c, out);
            }
        };
        let begins = self.state == State::Text;
        self.state = next;
        if begins || next == State::StringEscape {
            return;
        }
        self.pending.push(c);
        self.length += 1;
        if self.length >= LONGEST {
            self.give_up(out);
        }
    }

    /// Drops a whole sequence.
    fn end(&mut self) {
        self.state = State::Text;
        self.pending.clear();
        self.length = 0;
    }

    fn give_up(&mut self, out: &mut String) {
        let broken = self.state == State::StringEscape;
        for c in self.pending.chars() {
            keep(c, out);
        }
        self.end();
        if broken {
            self.state = State::Escape;
        }
    }
}

fn keep(c: char, out: &mut String) {
    // The interlinear annotation marks are no text either, and screens fail to place them.
    let dropped = c.is_control() || matches!(c, '\u{fff9}'..='\u{fffb}');
    if matches!(c, '\n' | '\t') || !dropped {
        out.push(c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned<'a>(pieces: impl IntoIterator<Item = &'a str>) -> String {
        let (mut cleaner, mut out) = (Cleaner::default(), String::new());
        for piece in pieces {
            cleaner.push(piece, &mut out);
        }
        cleaner.finish(&mut out);
        out
    }

    /// Whole, and split at every place.
    fn check(raw: &str, expected: &str) {
        assert_eq!(cleaned([raw]), expected, "{raw:?}");
        for (at, _) in raw.char_indices() {
            let (head, tail) = raw.split_at(at);
            assert_eq!(cleaned([head, tail]), expected, "{raw:?} split at {at}");
        }
    }

    #[test]
    fn sequences_go_and_text_stays() {
        let rows = [
            ("plain\ttext\n", "plain\ttext\n"),
            ("\u{1b}[1;31mred\u{1b}[0m", "red"),
            ("\u{1b}[?25l\u{1b}[2K\u{1b}[10Gx", "x"),
            ("\u{9b}2Jx", "x"),
            ("\u{1b}(B\u{1b}7\u{1b}=x", "x"),
            ("\u{1b}]0;title\u{7}x", "x"),
            ("\u{1b}]8;;http://h\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}Pq#0\u{1b}\\x\u{1b}_y\u{9c}z", "xz"),
            ("a\r\nb\rc\u{8}d\u{7f}\0\u{85}e", "a\nbcde"),
            ("漢é\u{fffd}\u{fff9}\u{1f600}", "漢é\u{fffd}\u{1f600}"),
        ];
        for (raw, expected) in rows {
            check(raw, expected);
        }
    }

    #[test]
    fn what_only_begins_like_a_sequence_is_text() {
        let rows = [
            ("\u{1b}]0;title\nnext", "]0;title\nnext"),
            ("\u{1b}[12", "[12"),
            ("\u{1b}[1漢", "[1漢"),
            ("\u{1b}\nx", "\nx"),
            ("x\u{1b}", "x"),
            ("\u{1b}]a\u{1b}[31mb", "]ab"),
            ("\u{1b}\u{1b}[31mb", "b"),
            ("\u{1b}]a\u{1b}", "]a"),
        ];
        for (raw, expected) in rows {
            check(raw, expected);
        }
    }

    #[test]
    fn a_string_without_end_is_held_up_for_a_bounded_length() {
        let mut cleaner = Cleaner::default();
        let mut out = String::new();
        cleaner.push("\u{1b}]", &mut out);
        cleaner.push(&"x".repeat(3 * LONGEST), &mut out);
        assert_eq!(out.len(), 3 * LONGEST + 1);
        assert!(cleaner.pending.is_empty());
    }
}
