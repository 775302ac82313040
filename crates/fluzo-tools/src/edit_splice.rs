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
    let found = &haystack.source[place.source.clone()];
    let line_end = line_end_near(haystack.source, &place.source);
    let mut out = Vec::with_capacity(edit.new.len());
    if found == edit.old.as_bytes() {
        push_literal(&mut out, &edit.new, line_end);
        return out;
    }
    let groups = groups(haystack.form(place), place, &edit.old);
    let mut done = 0;
    for (old, new) in same_parts(&edit.old, &edit.new) {
        push_literal(&mut out, &edit.new[done..new.start], line_end);
        let mut at = old.start;
        let inside = |group: &&Group| group.old.start >= old.start && group.old.end <= old.end;
        for group in groups.iter().filter(inside) {
            push_literal(&mut out, &edit.old[at..group.old.start], line_end);
            out.extend_from_slice(&haystack.source[group.source.clone()]);
            at = group.old.end;
        }
        push_literal(&mut out, &edit.old[at..old.end], line_end);
        done = new.end;
    }
    push_literal(&mut out, &edit.new[done..], line_end);
    out
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
/// that a changed word is wholly the new one.
fn same_parts(old: &str, new: &str) -> Vec<(Range<usize>, Range<usize>)> {
    let (a, b) = (words(old), words(new));
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
    let (a, b) = (offsets(&a), offsets(&b));
    let filled = parts.into_iter().filter(|part| part.2 > 0);
    filled
        .map(|(i, j, len)| (a[i]..a[i + len], b[j]..b[j + len]))
        .collect()
}

/// Words, and every other character alone.
fn words(text: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let len = match rest.find(|c| !is_word(c)) {
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

/// `text` with each line end as `line_end`.
fn push_literal(out: &mut Vec<u8>, text: &str, line_end: &[u8]) {
    for line in lines(text.as_bytes()) {
        out.extend_from_slice(&text.as_bytes()[line.body.clone()]);
        if line.body.end < line.end {
            out.extend_from_slice(line_end);
        }
    }
}

/// The end of the line in which `place` ends, else of the line before it, else `\n`.
fn line_end_near<'a>(source: &'a [u8], place: &Range<usize>) -> &'a [u8] {
    let own = lines(&source[place.end..]).next();
    if let Some(line) = own.filter(|line| line.body.end < line.end) {
        return &source[place.end + line.body.end..place.end + line.end];
    }
    match memchr::memrchr2(b'\n', b'\r', &source[..place.end]) {
        Some(at) if source[..=at].ends_with(b"\r\n") => b"\r\n",
        Some(at) => &source[at..=at],
        None => b"\n",
    }
}
