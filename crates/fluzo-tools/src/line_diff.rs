//! What an edit changed, line by line: the display diff and the unified patch.

use std::fmt::Write as _;
use std::ops::Range;

use similar::{Algorithm, DiffOp, capture_diff_slices};

use crate::folded::lines;

/// Unchanged lines shown on each side of a change.
const CONTEXT: usize = 4;
/// Line pairs up to which changed parts are compared line by line; beyond, a part is shown as
/// removed and added whole.
const MOST_PAIRS: usize = 1 << 24;

/// Two texts and the lines in which they differ.
pub(crate) struct LineDiff<'a> {
    old: Vec<Row<'a>>,
    new: Vec<Row<'a>>,
    changes: Vec<Change>,
}

/// A line without its end, and whether it has one.
type Row<'a> = (&'a [u8], bool);

#[derive(Debug, PartialEq, Eq)]
struct Change {
    old: Range<usize>,
    new: Range<usize>,
}

impl<'a> LineDiff<'a> {
    /// Compares `old` and `new`, which differ only in `parts`: byte ranges of both, in order.
    pub(crate) fn new(
        old: &'a [u8],
        new: &'a [u8],
        parts: &[(Range<usize>, Range<usize>)],
    ) -> Self {
        let (old_rows, old_ends) = rows(old);
        let (new_rows, new_ends) = rows(new);
        let mut regions: Vec<Change> = Vec::new();
        for (in_old, in_new) in parts {
            let old = lines_touched(&old_ends, in_old);
            let new = lines_touched(&new_ends, in_new);
            match regions.last_mut() {
                Some(last) if last.old.end >= old.start || last.new.end >= new.start => {
                    last.old.end = last.old.end.max(old.end);
                    last.new.end = last.new.end.max(new.end);
                }
                _ => regions.push(Change { old, new }),
            }
        }
        let compare = |region| changes_in(&old_rows, &new_rows, region);
        let changes = regions.iter().flat_map(compare).collect();
        Self {
            old: old_rows,
            new: new_rows,
            changes,
        }
    }

    /// Number, from 1, of the first line of the new text that is changed.
    pub(crate) fn first_changed_line(&self) -> Option<usize> {
        self.changes.first().map(|change| change.new.start + 1)
    }

    /// Changed lines with context, each with sign and number; no final newline.
    pub(crate) fn display(&self) -> String {
        let width = self.old.len().max(self.new.len()).to_string().len();
        let mut out = Display {
            text: String::new(),
            width,
        };
        let mut done = 0;
        for (index, change) in self.changes.iter().enumerate() {
            let gap = done..change.old.start;
            if index == 0 {
                out.context(self, gap, 0);
            } else {
                out.context(self, gap, CONTEXT);
            }
            out.rows('-', &self.old, change.old.clone());
            out.rows('+', &self.new, change.new.clone());
            done = change.old.end;
        }
        let rest = self.old.len() - done;
        let shown = done..done + rest.min(CONTEXT);
        if !self.changes.is_empty() {
            out.rows(' ', &self.old, shown);
            if rest > CONTEXT {
                out.skipped();
            }
        }
        out.text.pop();
        out.text
    }

    /// A unified patch of the file `path`; empty when nothing changed.
    pub(crate) fn patch(&self, path: &str) -> String {
        if self.changes.is_empty() {
            return String::new();
        }
        let mut out = format!("--- {path}\n+++ {path}\n");
        let mut first = 0;
        for last in 0..self.changes.len() {
            let end = self.changes[last].old.end;
            let next = self.changes.get(last + 1);
            if next.is_none_or(|next| next.old.start - end > 2 * CONTEXT) {
                self.push_hunk(&mut out, &self.changes[first..=last]);
                first = last + 1;
            }
        }
        out
    }

    fn push_hunk(&self, out: &mut String, changes: &[Change]) {
        let (Some(first), Some(last)) = (changes.first(), changes.last()) else {
            return;
        };
        let before = first.old.start.min(CONTEXT);
        let after = (self.old.len() - last.old.end).min(CONTEXT);
        let old = first.old.start - before..last.old.end + after;
        let new = first.new.start - before..last.new.end + after;
        let start = |range: &Range<usize>| range.start + usize::from(!range.is_empty());
        let _ = writeln!(
            out,
            "@@ -{},{} +{},{} @@",
            start(&old),
            old.len(),
            start(&new),
            new.len()
        );
        let mut done = old.start;
        for change in changes {
            push_patch_rows(out, ' ', &self.old[done..change.old.start]);
            push_patch_rows(out, '-', &self.old[change.old.clone()]);
            push_patch_rows(out, '+', &self.new[change.new.clone()]);
            done = change.old.end;
        }
        push_patch_rows(out, ' ', &self.old[done..old.end]);
    }
}

struct Display {
    text: String,
    width: usize,
}

impl Display {
    /// The end of the unchanged lines `gap`, and the first `head` of them.
    fn context(&mut self, diff: &LineDiff<'_>, gap: Range<usize>, head: usize) {
        if gap.len() <= head + CONTEXT {
            self.rows(' ', &diff.old, gap);
            return;
        }
        self.rows(' ', &diff.old, gap.start..gap.start + head);
        self.skipped();
        self.rows(' ', &diff.old, gap.end - CONTEXT..gap.end);
    }

    fn rows(&mut self, sign: char, rows: &[Row<'_>], range: Range<usize>) {
        let width = self.width;
        for index in range {
            let line = String::from_utf8_lossy(rows[index].0);
            let _ = writeln!(self.text, "{sign}{:>width$} {line}", index + 1);
        }
    }

    fn skipped(&mut self) {
        let width = self.width;
        let _ = writeln!(self.text, " {:width$} ...", "");
    }
}

fn push_patch_rows(out: &mut String, sign: char, rows: &[Row<'_>]) {
    for (line, has_end) in rows {
        let _ = writeln!(out, "{sign}{}", String::from_utf8_lossy(line));
        if !has_end {
            out.push_str("\\ No newline at end of file\n");
        }
    }
}

fn rows(text: &[u8]) -> (Vec<Row<'_>>, Vec<usize>) {
    let rows = lines(text).map(|line| {
        let row = (&text[line.body.clone()], line.body.end < line.end);
        (row, line.end)
    });
    rows.unzip()
}

/// The lines that a byte range touches, the one it ends in included.
fn lines_touched(ends: &[usize], range: &Range<usize>) -> Range<usize> {
    let line_of = |at: usize| ends.partition_point(|&end| end <= at);
    line_of(range.start)..(line_of(range.end) + 1).min(ends.len())
}

fn changes_in(old: &[Row<'_>], new: &[Row<'_>], region: &Change) -> Vec<Change> {
    let (a, b) = (&old[region.old.clone()], &new[region.new.clone()]);
    let head = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let tail = a[head..]
        .iter()
        .rev()
        .zip(b[head..].iter().rev())
        .take_while(|(a, b)| a == b);
    let tail = tail.count();
    let (a, b) = (&a[head..a.len() - tail], &b[head..b.len() - tail]);
    let (from_old, from_new) = (region.old.start + head, region.new.start + head);
    let whole = Change {
        old: from_old..from_old + a.len(),
        new: from_new..from_new + b.len(),
    };
    if a.is_empty() && b.is_empty() {
        return Vec::new();
    }
    if a.len().saturating_mul(b.len()) > MOST_PAIRS {
        return vec![whole];
    }
    let ops = capture_diff_slices(Algorithm::Myers, a, b);
    let changed = ops.iter().filter(|op| !matches!(op, DiffOp::Equal { .. }));
    changed
        .map(|op| Change {
            old: from_old + op.old_range().start..from_old + op.old_range().end,
            new: from_new + op.new_range().start..from_new + op.new_range().end,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares lines `1` to `last`, of which some are `replaced`, with both forms of the diff.
    fn check(last: usize, replaced: &[(usize, &str)], end: &str, display: &[&str], patch: &[&str]) {
        let (mut old, mut new, mut parts) = (String::new(), String::new(), Vec::new());
        for line in 1..=last {
            let text = format!("{line}{}", if line == last { end } else { "\n" });
            let other = replaced.iter().find(|row| row.0 == line);
            let (from_old, from_new) = (old.len(), new.len());
            old.push_str(&text);
            new.push_str(other.map_or(text.as_str(), |row| row.1));
            if other.is_some() {
                parts.push((from_old..old.len(), from_new..new.len()));
            }
        }
        let diff = LineDiff::new(old.as_bytes(), new.as_bytes(), &parts);
        assert_eq!(diff.display().split('\n').collect::<Vec<_>>(), display);
        let patch: String = patch.iter().map(|line| format!("{line}\n")).collect();
        assert_eq!(diff.patch("f"), format!("--- f\n+++ f\n{patch}"));
    }

    #[test]
    fn display_and_patch() {
        check(
            12,
            &[(7, "x\ny\n")],
            "\n",
            &[
                "    ...", "  3 3", "  4 4", "  5 5", "  6 6", "- 7 7", "+ 7 x", "+ 8 y", "  8 8",
                "  9 9", " 10 10", " 11 11", "    ...",
            ],
            &[
                "@@ -3,9 +3,10 @@",
                " 3",
                " 4",
                " 5",
                " 6",
                "-7",
                "+x",
                "+y",
                " 8",
                " 9",
                " 10",
                " 11",
            ],
        );
        check(
            9,
            &[(1, ""), (8, "b\n")],
            "\n",
            &[
                "-1 1", " 2 2", " 3 3", " 4 4", " 5 5", " 6 6", " 7 7", "-8 8", "+7 b", " 9 9",
            ],
            &[
                "@@ -1,9 +1,8 @@",
                "-1",
                " 2",
                " 3",
                " 4",
                " 5",
                " 6",
                " 7",
                "-8",
                "+b",
                " 9",
            ],
        );
        check(
            2,
            &[(2, "b")],
            "",
            &[" 1 1", "-2 2", "+2 b"],
            &[
                "@@ -1,2 +1,2 @@",
                " 1",
                "-2",
                "\\ No newline at end of file",
                "+b",
                "\\ No newline at end of file",
            ],
        );
    }

    #[test]
    fn distant_changes_have_hunks_of_their_own() {
        let replaced = [(1, "a\n"), (11, "b\n")];
        check(
            11,
            &replaced,
            "\n",
            &[
                "- 1 1", "+ 1 a", "  2 2", "  3 3", "  4 4", "  5 5", "    ...", "  7 7", "  8 8",
                "  9 9", " 10 10", "-11 11", "+11 b",
            ],
            &[
                "@@ -1,5 +1,5 @@",
                "-1",
                "+a",
                " 2",
                " 3",
                " 4",
                " 5",
                "@@ -7,5 +7,5 @@",
                " 7",
                " 8",
                " 9",
                " 10",
                "-11",
                "+b",
            ],
        );
    }

    #[test]
    fn a_new_first_text_has_an_empty_old_side() {
        let (old, new) = (b"", b"a\n");
        let diff = LineDiff::new(old, new, &[(0..0, 0..2)]);
        assert_eq!(diff.patch("f"), "--- f\n+++ f\n@@ -0,0 +1,1 @@\n+a\n");
        assert_eq!(diff.first_changed_line(), Some(1));
    }
}
