//! Making a conversation shorter that does not fit the window of the model that is to
//! summarise it.

use super::serialise::{Part, beginning};
use super::tokens::length_of;

/// What stands for a tool result that was left out.
const RESULT_LEFT_OUT: &str = "[Tool result]: [left out]";

/// What was taken away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Trimmed {
    /// Number of tool results.
    pub results: usize,
    /// Number of parts.
    pub parts: usize,
    /// Whether the newest part was cut off.
    pub newest: bool,
}

/// Shortens `parts` to at most `length` (as [`length_of`] counts): first the oldest tool results
/// go, then the oldest parts of any kind. The newest part stays, and is cut off where it alone
/// is too long. A note in place of what is gone may make the text a little longer again.
pub fn trim(parts: &mut Vec<Part>, length: u64) -> Trimmed {
    let mut trimmed = Trimmed::default();
    let mut now: u64 = parts.iter().map(part_length).sum();
    for part in parts.iter_mut() {
        if now <= length {
            return trimmed;
        }
        let before = part_length(part);
        if part.is_result && before > length_of(RESULT_LEFT_OUT) + SEPARATOR {
            part.text = RESULT_LEFT_OUT.to_owned();
            now -= before - part_length(part);
            trimmed.results += 1;
        }
    }
    let mut gone = 0;
    while now > length && gone + 1 < parts.len() {
        now -= parts.get(gone).map_or(0, part_length);
        gone += 1;
    }
    parts.drain(..gone);
    if let Some(newest) = parts.last_mut().filter(|_| now > length) {
        newest.text = format!("{} [cut off]", beginning(&newest.text, length));
        trimmed.newest = true;
    }
    if gone > 0 {
        trimmed.parts = gone;
        let text = format!("[{gone} earlier parts of the conversation were left out]");
        parts.insert(
            0,
            Part {
                text,
                is_result: false,
            },
        );
    }
    trimmed
}

/// The blank line between two parts.
const SEPARATOR: u64 = 2;

fn part_length(part: &Part) -> u64 {
    length_of(&part.text) + SEPARATOR
}
