//! Finds the one place that each edit means.
//!
//! An exact match, line ends apart, is preferred; else characters that look alike count as
//! equal. All places are found in the original text.

use std::ops::Range;

use memchr::memmem;

use crate::folded::{Folded, lines};

/// One wanted replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edit {
    /// Text to replace.
    pub(crate) old: String,
    /// Text to put in its place.
    pub(crate) new: String,
}

/// A text in both forms in which it is searched.
pub(crate) struct Haystack<'a> {
    /// The text.
    pub(crate) source: &'a [u8],
    exact: Folded,
    alike: Folded,
}

/// Where an edit applies.
pub(crate) struct Place {
    /// Which edit.
    pub(crate) edit: usize,
    /// Bytes of the source.
    pub(crate) source: Range<usize>,
    /// The same in the form it was found in.
    pub(crate) folded: Range<usize>,
    /// It was found by look-alikes.
    pub(crate) alike: bool,
}

/// Why edits do not apply. Indices count from zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Misfit {
    /// The old text is empty.
    Empty(usize),
    /// The old text is nowhere.
    Absent(usize, Option<String>),
    /// The old text is in several places, at these lines.
    Several(usize, Vec<usize>),
    /// Two edits touch the same text.
    Overlap(usize, usize),
}

impl<'a> Haystack<'a> {
    /// Prepares `source`; takes time in proportion to its length.
    pub(crate) fn new(source: &'a [u8]) -> Self {
        let (exact, alike) = (Folded::line_ends(source), Folded::look_alikes(source));
        Self {
            source,
            exact,
            alike,
        }
    }

    /// The form in which `place` was found.
    pub(crate) fn form(&self, place: &Place) -> &Folded {
        if place.alike {
            &self.alike
        } else {
            &self.exact
        }
    }

    /// The places of all edits, in the order of the text.
    ///
    /// # Errors
    ///
    /// Why they do not apply. Nothing is partly applied.
    pub(crate) fn locate(&self, edits: &[Edit]) -> Result<Vec<Place>, Misfit> {
        if let Some(empty) = edits.iter().position(|edit| edit.old.is_empty()) {
            return Err(Misfit::Empty(empty));
        }
        let places = edits
            .iter()
            .enumerate()
            .map(|(index, edit)| self.place(index, &edit.old));
        let mut places: Vec<Place> = places.collect::<Result<_, _>>()?;
        places.sort_by_key(|place| place.source.start);
        match places
            .windows(2)
            .find(|pair| pair[0].source.end > pair[1].source.start)
        {
            Some(pair) => Err(Misfit::Overlap(pair[0].edit, pair[1].edit)),
            None => Ok(places),
        }
    }

    /// Whether all edits have been made before: each old text equals its new one, or is gone
    /// while the new one is there, once and between word limits.
    pub(crate) fn already_holds(&self, edits: &[Edit]) -> bool {
        edits.iter().all(|edit| {
            !edit.old.is_empty()
                && match self.place(0, &edit.old) {
                    Ok(_) => edit.old == edit.new,
                    Err(Misfit::Absent(..)) => self.has_one_like(&edit.new),
                    Err(_) => false,
                }
        })
    }

    fn place(&self, edit: usize, old: &str) -> Result<Place, Misfit> {
        let exact = Folded::line_ends(old.as_bytes()).text;
        let alike = Folded::look_alikes(old.as_bytes()).text;
        let mut occurrences = spans(&self.alike, &alike);
        if alike.is_empty() {
            occurrences = spans(&self.exact, &exact);
        }
        let exact = spans(&self.exact, &exact).into_iter().next();
        match (exact, &occurrences[..]) {
            (_, [_, _, ..]) => {
                let lines = occurrences
                    .iter()
                    .map(|(source, _)| self.line_of(source.start));
                Err(Misfit::Several(edit, lines.collect()))
            }
            (Some((source, folded)), _) => Ok(Place {
                edit,
                source,
                folded,
                alike: false,
            }),
            (None, [(source, folded)]) => {
                let (source, folded) = (source.clone(), folded.clone());
                Ok(Place {
                    edit,
                    source,
                    folded,
                    alike: true,
                })
            }
            (None, []) => Err(Misfit::Absent(edit, self.other_white_space(old))),
        }
    }

    /// Line number, from 1, of byte `at` of the source.
    fn line_of(&self, at: usize) -> usize {
        lines(&self.source[..at]).count() + usize::from(self.at_line_start(at))
    }

    fn at_line_start(&self, at: usize) -> bool {
        at == 0 || matches!(self.source[at - 1], b'\n' | b'\r')
    }

    fn has_one_like(&self, new: &str) -> bool {
        let new = Folded::look_alikes(new.as_bytes()).text;
        let solid = new
            .iter()
            .filter(|byte| !byte.is_ascii_whitespace())
            .count();
        match &spans(&self.alike, &new)[..] {
            [(_, folded)] if solid >= 3 => {
                let text = &self.alike.text;
                let joined = |left: usize| {
                    let pair = left.checked_sub(1).and_then(|from| text.get(from..=left));
                    pair.is_some_and(|pair| pair.iter().all(|&byte| is_word(byte)))
                };
                !joined(folded.start) && !joined(folded.end)
            }
            _ => false,
        }
    }

    /// A hint for text that is there but for the white space its lines begin with.
    fn other_white_space(&self, old: &str) -> Option<String> {
        let wanted: Vec<&[u8]> = bodies(old.as_bytes());
        let have: Vec<&[u8]> = bodies(self.source);
        if wanted.iter().all(|line| line.trim_ascii().is_empty()) {
            return None;
        }
        let same = |at: usize| {
            let here = have[at..].iter().zip(&wanted);
            here.clone().count() == wanted.len()
                && here.clone().all(|(a, b)| a.trim_ascii() == b.trim_ascii())
        };
        let at = (0..have.len()).find(|&at| same(at))?;
        let differs = |i: &usize| indentation(have[at + i]) != indentation(wanted[*i]);
        let first = (0..wanted.len()).find(differs)?;
        let tabs = |line: &[u8]| indentation(line).contains(&b'\t');
        let line = at + first + 1;
        Some(match (tabs(have[at + first]), tabs(wanted[first])) {
            (true, false) => {
                format!("Line {line} is the same but uses tabs where oldText has spaces.")
            }
            (false, true) => {
                format!("Line {line} is the same but uses spaces where oldText has tabs.")
            }
            _ => format!("Line {line} is the same but for its indentation."),
        })
    }
}

/// All places of `needle`, not overlapping: in the source and in the folded form.
fn spans(folded: &Folded, needle: &[u8]) -> Vec<(Range<usize>, Range<usize>)> {
    if needle.is_empty() {
        return Vec::new();
    }
    let found = memmem::find_iter(&folded.text, needle).map(|at| at..at + needle.len());
    found
        .filter_map(|range| {
            let source = folded.source_of(range.start)?..folded.source_of(range.end)?;
            Some((source, range))
        })
        .collect()
}

fn bodies(text: &[u8]) -> Vec<&[u8]> {
    lines(text).map(|line| &text[line.body]).collect()
}

fn indentation(line: &[u8]) -> &[u8] {
    &line[..line.len() - line.trim_ascii_start().len()]
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}
