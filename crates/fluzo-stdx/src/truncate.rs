//! Truncation of text to a number of lines and bytes, from either end.
//!
//! A final newline ends the last line; it does not start another one.

use serde::Serialize;

/// How much text may be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextLimits {
    /// Most lines kept.
    pub max_lines: usize,
    /// Most bytes kept, newlines between kept lines included.
    pub max_bytes: usize,
}

/// Which limit cut the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TruncatedBy {
    /// The line limit.
    Lines,
    /// The byte limit.
    Bytes,
}

/// The outcome of a truncation; its JSON form is the `truncation` object of tool details.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Truncation {
    /// The kept text. Unchanged input when nothing was cut, else without a final newline.
    pub content: String,
    /// Whether anything was cut.
    pub truncated: bool,
    /// The limit that cut, if any.
    pub truncated_by: Option<TruncatedBy>,
    /// Lines of the input.
    pub total_lines: usize,
    /// Bytes of the input.
    pub total_bytes: usize,
    /// Lines kept.
    pub output_lines: usize,
    /// Bytes kept.
    pub output_bytes: usize,
    /// The kept text is the end of one line that alone exceeds the byte limit (tail only).
    pub last_line_partial: bool,
    /// The first line alone exceeds the byte limit, so nothing was kept (head only).
    pub first_line_exceeds_limit: bool,
    /// The line limit in force.
    pub max_lines: usize,
    /// The byte limit in force.
    pub max_bytes: usize,
}

/// Number of lines; a final newline adds none. Empty text has no line.
pub fn count_lines(text: &str) -> usize {
    lines_of(text).count()
}

/// Keeps whole lines from the start.
pub fn truncate_head(text: &str, limits: TextLimits) -> Truncation {
    let total_lines = count_lines(text);
    if let Some(whole) = fits(text, total_lines, limits) {
        return whole;
    }
    let (mut end, mut kept, mut by) = (0, 0, TruncatedBy::Lines);
    for line in lines_of(text) {
        if kept == limits.max_lines {
            break;
        }
        let next = if kept == 0 {
            line.len()
        } else {
            end + 1 + line.len()
        };
        if next > limits.max_bytes {
            by = TruncatedBy::Bytes;
            break;
        }
        end = next;
        kept += 1;
    }
    let first_too_big = kept == 0 && by == TruncatedBy::Bytes;
    cut(text, &text[..end], kept, total_lines, by, limits).first_too_big(first_too_big)
}

/// Keeps whole lines from the end; of a last line that alone is too big, its end.
pub fn truncate_tail(text: &str, limits: TextLimits) -> Truncation {
    let total_lines = count_lines(text);
    if let Some(whole) = fits(text, total_lines, limits) {
        return whole;
    }
    let body = text.strip_suffix('\n').unwrap_or(text);
    let (mut start, mut kept, mut by) = (body.len(), 0, TruncatedBy::Lines);
    for line in body.rsplit('\n') {
        if kept == limits.max_lines {
            break;
        }
        let begin = if kept == 0 {
            body.len() - line.len()
        } else {
            start - 1 - line.len()
        };
        if body.len() - begin > limits.max_bytes {
            by = TruncatedBy::Bytes;
            break;
        }
        start = begin;
        kept += 1;
    }
    if kept == 0 && by == TruncatedBy::Bytes {
        let from = ceil_boundary(body, body.len().saturating_sub(limits.max_bytes));
        let mut partial = cut(text, &body[from..], 1, total_lines, by, limits);
        partial.last_line_partial = true;
        return partial;
    }
    cut(text, &body[start..], kept, total_lines, by, limits)
}

/// The first `max` UTF-16 units of `line`, and whether anything was cut.
pub fn cut_utf16(line: &str, max: usize) -> (&str, bool) {
    // A byte is never less than half a unit, so most lines need no counting.
    if line.len() <= max {
        return (line, false);
    }
    let mut units = 0;
    for (at, c) in line.char_indices() {
        units += c.len_utf16();
        if units > max {
            return (&line[..at], true);
        }
    }
    (line, false)
}

impl Truncation {
    fn first_too_big(mut self, yes: bool) -> Self {
        self.first_line_exceeds_limit = yes;
        self
    }
}

fn lines_of(text: &str) -> impl Iterator<Item = &str> {
    let body = text.strip_suffix('\n').unwrap_or(text);
    body.split('\n')
        .take(if text.is_empty() { 0 } else { usize::MAX })
}

fn fits(text: &str, lines: usize, limits: TextLimits) -> Option<Truncation> {
    let within = lines <= limits.max_lines && text.len() <= limits.max_bytes;
    within.then(|| Truncation {
        content: text.to_owned(),
        truncated: false,
        truncated_by: None,
        total_lines: lines,
        total_bytes: text.len(),
        output_lines: lines,
        output_bytes: text.len(),
        last_line_partial: false,
        first_line_exceeds_limit: false,
        max_lines: limits.max_lines,
        max_bytes: limits.max_bytes,
    })
}

fn cut(
    text: &str,
    kept: &str,
    lines: usize,
    total: usize,
    by: TruncatedBy,
    limits: TextLimits,
) -> Truncation {
    Truncation {
        content: kept.to_owned(),
        truncated: true,
        truncated_by: Some(by),
        total_lines: total,
        total_bytes: text.len(),
        output_lines: lines,
        output_bytes: kept.len(),
        last_line_partial: false,
        first_line_exceeds_limit: false,
        max_lines: limits.max_lines,
        max_bytes: limits.max_bytes,
    }
}

fn ceil_boundary(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(max_lines: usize, max_bytes: usize) -> TextLimits {
        TextLimits {
            max_lines,
            max_bytes,
        }
    }

    #[test]
    fn text_within_both_limits_is_unchanged() {
        let t = truncate_head("a\nb\n", limits(2, 4));
        assert_eq!(
            (t.content.as_str(), t.truncated, t.total_lines),
            ("a\nb\n", false, 2)
        );
    }

    #[test]
    fn head_keeps_whole_lines() {
        let rows: &[(&str, usize, usize, &str, TruncatedBy)] = &[
            ("a\nb\nc\n", 2, 100, "a\nb", TruncatedBy::Lines),
            ("aaa\nbbb\nccc", 9, 7, "aaa\nbbb", TruncatedBy::Bytes),
            ("aaa\nbbb\nccc", 9, 6, "aaa", TruncatedBy::Bytes),
        ];
        for &(text, lines, bytes, kept, by) in rows {
            let t = truncate_head(text, limits(lines, bytes));
            assert_eq!(
                (t.content.as_str(), t.truncated_by),
                (kept, Some(by)),
                "{text:?}"
            );
        }
    }

    #[test]
    fn head_with_a_first_line_that_is_too_big_keeps_nothing() {
        let t = truncate_head("aaaa\nb", limits(9, 3));
        assert!(t.first_line_exceeds_limit && t.content.is_empty() && t.output_lines == 0);
    }

    #[test]
    fn tail_keeps_whole_lines() {
        let t = truncate_tail("a\nb\nc\n", limits(2, 100));
        assert_eq!(
            (t.content.as_str(), t.output_lines, t.total_lines),
            ("b\nc", 2, 3)
        );
        let t = truncate_tail("aaa\nbbb\nccc", limits(9, 7));
        assert_eq!(
            (t.content.as_str(), t.truncated_by),
            ("bbb\nccc", Some(TruncatedBy::Bytes))
        );
    }

    #[test]
    fn tail_of_one_huge_line_starts_at_a_character() {
        let t = truncate_tail("xx\u{e9}\u{e9}", limits(9, 3));
        assert_eq!((t.content.as_str(), t.last_line_partial), ("\u{e9}", true));
    }

    #[test]
    fn utf16_cut_counts_surrogate_pairs_as_two() {
        assert_eq!(cut_utf16("abc", 3), ("abc", false));
        assert_eq!(cut_utf16("a\u{1f600}b", 2), ("a", true));
        assert_eq!(cut_utf16("a\u{1f600}b", 4), ("a\u{1f600}b", false));
    }
}
