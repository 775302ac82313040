//! The bytes that take the place of a match.
//!
//! What an edit leaves as it was keeps the bytes of the file, even where the model wrote
//! another character or line end for it.

use std::ops::Range;

use similar::{Algorithm, DiffOp, capture_diff_slices};

use crate::edit_match::{Edit, Haystack, Place};
use crate::folded::{Folded, lines};

/// Word pairs up to which old and new text are compared in full; beyond, only what they begin
/// and end with is taken to be the same.
const MOST_PAIRS: usize = 1 << 22;

/// What is to stand in the place of `place`.
pub(crate) fn replacement(haystack: &Haystack<'_>, place: &Place, edit: &Edit) -> Vec<u8> {
    let source = haystack.source;
    let found = &source[place.source.clone()];
    let style = line_end_near(source, &place.source);
    let mut out = Vec::with_capacity(edit.new.len());
    let exact = found == edit.old.as_bytes();
    if exact && line_ends(found).all(|end| end == style) {
        push_literal(&mut out, &edit.new, &[], style);
        return out;
    }
    let kept = match exact {
        true => Kept::Same(place.source.start),
        false => Kept::Alike(groups(haystack.form(place), place, &edit.old)),
    };
    let (mut done, mut source_done) = (0, place.source.start);
    for (old, new) in same_parts(&edit.old, &edit.new) {
        let at = kept.source_of(&old, source_done);
        let changed = &source[source_done..at.start];
        push_literal(&mut out, &edit.new[done..new.start], changed, style);
        kept.push(&mut out, haystack, edit, old, style);
        (done, source_done) = (new.end, at.end);
    }
    let changed = &source[source_done..place.source.end];
    push_literal(&mut out, &edit.new[done..], changed, style);
    out
}

/// How the old text lies on the bytes of the file.
enum Kept {
    /// Byte for byte, from this place on.
    Same(usize),
    /// Part for part.
    Alike(Vec<Group>),
}

impl Kept {
    /// Where `old` is in the file; nothing at `at` when that is not known.
    fn source_of(&self, old: &Range<usize>, at: usize) -> Range<usize> {
        match self {
            Self::Same(start) => start + old.start..start + old.end,
            Self::Alike(groups) => match inside(groups, old) {
                [] => at..at,
                [only] => only.source.clone(),
                [first, .., last] => first.source.start..last.source.end,
            },
        }
    }

    /// Adds what the file has for `old`, a part that the edit leaves as it was.
    fn push(
        &self,
        out: &mut Vec<u8>,
        haystack: &Haystack<'_>,
        edit: &Edit,
        old: Range<usize>,
        style: &[u8],
    ) {
        let mut at = old.start;
        let groups = match self {
            Self::Same(start) => {
                return out.extend_from_slice(&haystack.source[start + old.start..start + old.end]);
            }
            Self::Alike(groups) => inside(groups, &old),
        };
        for group in groups {
            push_literal(out, &edit.old[at..group.old.start], &[], style);
            out.extend_from_slice(&haystack.source[group.source.clone()]);
            at = group.old.end;
        }
        push_literal(out, &edit.old[at..old.end], &[], style);
    }
}

/// The groups that lie wholly in `old`.
fn inside<'a>(groups: &'a [Group], old: &Range<usize>) -> &'a [Group] {
    let from = groups.partition_point(|group| group.old.start < old.start);
    let to = groups.partition_point(|group| group.old.end <= old.end);
    groups.get(from..to).unwrap_or_default()
}

/// Parts of the old text and of the file that fold to the same and cannot be divided.
struct Group {
    old: Range<usize>,
    source: Range<usize>,
}

fn groups(file: &Folded, place: &Place, old: &str) -> Vec<Group> {
    let form = if place.alike {
        Folded::look_alikes
    } else {
        Folded::line_ends
    };
    let folded_old = form(old.as_bytes());
    let mut left = folded_old
        .units(0..folded_old.text.len())
        .into_iter()
        .peekable();
    let mut right = file
        .units(place.folded.clone())
        .into_iter()
        .filter(|unit| unit.len > 0);
    let mut out = Vec::new();
    while let Some(first) = left.next() {
        let mut old = first.source;
        if first.len == 0 {
            let at = out
                .last()
                .map_or(place.source.start, |group: &Group| group.source.end);
            out.push(Group {
                old,
                source: at..at,
            });
            continue;
        }
        let Some(other) = right.next() else { break };
        let (mut a, mut b, mut source) = (first.len, other.len, other.source);
        while a != b {
            let (shorter, range, units): (
                &mut usize,
                &mut Range<usize>,
                &mut dyn Iterator<Item = _>,
            ) = if a < b {
                (&mut a, &mut old, &mut left)
            } else {
                (&mut b, &mut source, &mut right)
            };
            let Some(more) = units.next() else { return out };
            *shorter += more.len;
            range.end = more.source.end;
        }
        out.push(Group { old, source });
    }
    out
}

/// Parts that two texts share, in order: where they are in each. Words are not divided, so
/// that a changed word is wholly the new one; `\r\n` is the same as `\n`.
fn same_parts(old: &str, new: &str) -> Vec<(Range<usize>, Range<usize>)> {
    let (whole_a, whole_b) = (words(old), words(new));
    let (a, b) = (compared(&whole_a), compared(&whole_b));
    let same = |pair: &(&&str, &&str)| pair.0 == pair.1;
    let head = a.iter().zip(&b).take_while(same).count();
    let ends = a[head..].iter().rev().zip(b[head..].iter().rev());
    let tail = ends.take_while(same).count();
    let (middle_a, middle_b) = (&a[head..a.len() - tail], &b[head..b.len() - tail]);
    let mut parts = vec![(0, 0, head)];
    if middle_a.len().saturating_mul(middle_b.len()) <= MOST_PAIRS {
        for op in capture_diff_slices(Algorithm::Myers, middle_a, middle_b) {
            if let DiffOp::Equal {
                old_index,
                new_index,
                len,
            } = op
            {
                parts.push((head + old_index, head + new_index, len));
            }
        }
    }
    parts.push((a.len() - tail, b.len() - tail, tail));
    let (a, b) = (offsets(&whole_a), offsets(&whole_b));
    let filled = parts.into_iter().filter(|part| part.2 > 0);
    filled
        .map(|(i, j, len)| (a[i]..a[i + len], b[j]..b[j + len]))
        .collect()
}

fn compared<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let line_end = |word: &&'a str| if *word == "\r\n" { "\n" } else { *word };
    words.iter().map(line_end).collect()
}

/// Words, line ends, and every other character alone.
fn words(text: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let len = match rest.find(|c| !is_word(c)) {
            Some(0) if rest.starts_with("\r\n") => 2,
            Some(0) => first.len_utf8(),
            Some(len) => len,
            None => rest.len(),
        };
        let (word, after) = rest.split_at(len);
        out.push(word);
        rest = after;
    }
    out
}

/// Where each word starts, and where the last ends.
fn offsets(words: &[&str]) -> Vec<usize> {
    let mut at = 0;
    let ends = words.iter().map(|word| {
        at += word.len();
        at
    });
    std::iter::once(0).chain(ends).collect()
}

/// `text` with the line ends of `changed`, the bytes it takes the place of, one by one, and
/// with `style` where `changed` has no more.
fn push_literal(out: &mut Vec<u8>, text: &str, changed: &[u8], style: &[u8]) {
    let mut ends = line_ends(changed);
    for line in lines(text.as_bytes()) {
        out.extend_from_slice(&text.as_bytes()[line.body.clone()]);
        if line.body.end < line.end {
            let end = ends.next().filter(|end| *end != b"\r");
            out.extend_from_slice(end.unwrap_or(style));
        }
    }
}

fn line_ends(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    lines(text)
        .filter(|line| line.body.end < line.end)
        .map(|line| &text[line.body.end..line.end])
}

/// The end of the line in which `place` ends, else of the line before it, else of any line.
/// A lone `\r` is a character of a line where there is any other line end.
fn line_end_near<'a>(source: &'a [u8], place: &Range<usize>) -> &'a [u8] {
    let own = line_ends(&source[place.end..]).next();
    if let Some(end) = own.filter(|end| *end != b"\r") {
        return end;
    }
    let before = memchr::memrchr(b'\n', &source[..place.end]);
    let after = || memchr::memchr(b'\n', &source[place.end..]).map(|at| place.end + at);
    match before.or_else(after) {
        Some(at) if source[..at].ends_with(b"\r") => b"\r\n",
        Some(_) => b"\n",
        None if memchr::memchr(b'\r', source).is_some() => b"\r",
        None => b"\n",
    }
}
