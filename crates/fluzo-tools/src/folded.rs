//! Text in a form fit for comparing, with the way back to the bytes it came from.
//!
//! The folded form is a run of segments. A plain segment equals its source byte for byte; any
//! other is one unit that is matched and replaced as a whole.

use std::iter::once;
use std::ops::Range;

use unicode_normalization::char::canonical_combining_class;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use crate::paths::is_odd_space;

/// Text in a form fit for comparing.
pub(crate) struct Folded {
    /// The folded form.
    pub(crate) text: Vec<u8>,
    segments: Vec<Segment>,
}

/// Part of the folded form and of the source that cannot be divided.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    /// Bytes of the folded form.
    pub(crate) len: usize,
    /// Where it is in the source.
    pub(crate) source: Range<usize>,
}

struct Segment {
    at: usize,
    source: usize,
    plain: bool,
}

impl Folded {
    /// Every line end is `\n`; all else is as in the source.
    pub(crate) fn line_ends(source: &[u8]) -> Self {
        let mut folded = Self::empty();
        for line in lines(source) {
            folded.push_plain(&source[line.body.clone()], line.body.start);
            folded.push_line_end(source, line.body.end, &line);
        }
        folded.finished(source.len())
    }

    /// Line ends are `\n`, white space before them is gone, and characters that look alike are
    /// one: compatibility forms, quotes, dashes and spaces. A byte that is no UTF-8 is U+FFFD.
    pub(crate) fn look_alikes(source: &[u8]) -> Self {
        let mut folded = Self::empty();
        for line in lines(source) {
            let body = &source[line.body.clone()];
            let kept = if body.is_ascii() {
                let kept = body.iter().rposition(|&b| !is_js_space(char::from(b)));
                let kept = kept.map_or(0, |last| last + 1);
                folded.push_plain(&body[..kept], line.body.start);
                kept
            } else {
                folded.push_units(body, line.body.start)
            };
            folded.push_line_end(source, line.body.start + kept, &line);
        }
        folded.finished(source.len())
    }

    /// Where position `at` of the folded form is in the source; `None` inside a unit.
    pub(crate) fn source_of(&self, at: usize) -> Option<usize> {
        let next = self.segments.partition_point(|segment| segment.at < at);
        match self.segments.get(next) {
            Some(segment) if segment.at == at => Some(segment.source),
            _ => {
                let segment = &self.segments[next.checked_sub(1)?];
                segment.plain.then(|| segment.source + (at - segment.at))
            }
        }
    }

    /// The units of `range`, whose ends are not inside a unit. A plain character is a unit.
    pub(crate) fn units(&self, range: Range<usize>) -> Vec<Unit> {
        let first = self
            .segments
            .partition_point(|segment| segment.at <= range.start);
        let mut out = Vec::new();
        for pair in self.segments[first.saturating_sub(1)..].windows(2) {
            let (from, to) = (pair[0].at.max(range.start), pair[1].at.min(range.end));
            if pair[0].at >= range.end && !(to == from && range.end == self.text.len()) {
                break;
            }
            if pair[0].plain {
                let shift = pair[0].source;
                out.extend(characters(&self.text, from..to).map(|c| Unit {
                    source: shift + c.start - pair[0].at..shift + c.end - pair[0].at,
                    len: c.len(),
                }));
            } else {
                out.push(Unit {
                    len: to - from,
                    source: pair[0].source..pair[1].source,
                });
            }
        }
        out
    }

    fn empty() -> Self {
        Self {
            text: Vec::new(),
            segments: Vec::new(),
        }
    }

    fn finished(mut self, source_len: usize) -> Self {
        self.segments.push(Segment {
            at: self.text.len(),
            source: source_len,
            plain: false,
        });
        self
    }

    fn push_plain(&mut self, bytes: &[u8], source: usize) {
        if bytes.is_empty() {
            return;
        }
        let at = self.text.len();
        let goes_on = self
            .segments
            .last()
            .is_some_and(|last| last.plain && last.source + (at - last.at) == source);
        if !goes_on {
            self.segments.push(Segment {
                at,
                source,
                plain: true,
            });
        }
        self.text.extend_from_slice(bytes);
    }

    fn push_unit(&mut self, folded: &str, source: usize) {
        self.segments.push(Segment {
            at: self.text.len(),
            source,
            plain: false,
        });
        self.text.extend_from_slice(folded.as_bytes());
    }

    fn push_line_end(&mut self, source: &[u8], from: usize, line: &Line) {
        match &source[from..line.end] {
            b"" => {}
            b"\n" => self.push_plain(b"\n", from),
            _ if line.body.end < line.end => self.push_unit("\n", from),
            _ => self.push_unit("", from),
        }
    }

    /// Folds a line that is not plain; returns how much of it comes before its trailing space.
    fn push_units(&mut self, body: &[u8], base: usize) -> usize {
        let clusters = clusters(body);
        let kept = clusters
            .iter()
            .rposition(|c| !c.folded(body).chars().all(is_js_space));
        let kept = kept.map_or(0, |last| last + 1);
        for cluster in &clusters[..kept] {
            let source = &body[cluster.at.clone()];
            if source.is_ascii() {
                self.push_plain(source, base + cluster.at.start);
                continue;
            }
            let folded = cluster.folded(body);
            if folded.as_bytes() == source {
                self.push_plain(source, base + cluster.at.start);
            } else {
                self.push_unit(&folded, base + cluster.at.start);
            }
        }
        clusters
            .get(kept)
            .map_or(body.len(), |cluster| cluster.at.start)
    }
}

/// A line of bytes: without its end, and where its end ends.
pub(crate) struct Line {
    /// The line without its end.
    pub(crate) body: Range<usize>,
    /// One past its end.
    pub(crate) end: usize,
}

/// The lines of `source`; they end with `\n`, `\r\n` or a lone `\r`.
pub(crate) fn lines(source: &[u8]) -> impl Iterator<Item = Line> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = source.get(at..).filter(|rest| !rest.is_empty())?;
        let (body, end) = match memchr::memchr2(b'\n', b'\r', rest) {
            None => (rest.len(), rest.len()),
            Some(cut) if rest[cut..].starts_with(b"\r\n") => (cut, cut + 2),
            Some(cut) => (cut, cut + 1),
        };
        let line = Line {
            body: at..at + body,
            end: at + end,
        };
        at = line.end;
        Some(line)
    })
}

/// Characters that are normalised together.
struct Cluster {
    at: Range<usize>,
    valid: bool,
}

impl Cluster {
    fn folded(&self, body: &[u8]) -> String {
        match std::str::from_utf8(&body[self.at.clone()]) {
            Ok(text) if self.valid => text.nfkc().map(look_alike).collect(),
            _ => "\u{fffd}".to_owned(),
        }
    }
}

fn clusters(body: &[u8]) -> Vec<Cluster> {
    let mut out: Vec<Cluster> = Vec::new();
    let mut at = 0;
    for chunk in body.utf8_chunks() {
        for (index, c) in chunk.valid().char_indices() {
            let range = at + index..at + index + c.len_utf8();
            match out.last_mut() {
                Some(last) if last.valid && !starts_cluster(c) => last.at.end = range.end,
                _ => out.push(Cluster {
                    at: range,
                    valid: true,
                }),
            }
        }
        at += chunk.valid().len();
        if !chunk.invalid().is_empty() {
            out.push(Cluster {
                at: at..at + chunk.invalid().len(),
                valid: false,
            });
            at += chunk.invalid().len();
        }
    }
    out
}

/// Whether normalisation never joins `c` to what comes before it.
fn starts_cluster(c: char) -> bool {
    c.is_ascii()
        || (canonical_combining_class(c) == 0
            && !matches!(is_nfc_quick(once(c)), IsNormalized::Maybe)
            && once(c)
                .nfkd()
                .next()
                .is_none_or(|first| canonical_combining_class(first) == 0))
}

fn look_alike(c: char) -> char {
    match c {
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        c if is_odd_space(c) => ' ',
        c => c,
    }
}

/// White space as JavaScript's `trimEnd` has it.
fn is_js_space(c: char) -> bool {
    (c.is_whitespace() && c != '\u{85}') || c == '\u{feff}'
}

/// The characters of `range`; bytes that are no UTF-8 go alone.
fn characters(text: &[u8], range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        if at >= range.end {
            return None;
        }
        let start = at;
        at += 1;
        while at < range.end && text[at] & 0xc0 == 0x80 {
            at += 1;
        }
        Some(start..at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &[u8], folded: &str) {
        let got = Folded::look_alikes(source);
        assert_eq!(String::from_utf8_lossy(&got.text), folded, "{source:?}");
        let units = got.units(0..got.text.len());
        assert_eq!(
            units.iter().map(|unit| unit.len).sum::<usize>(),
            folded.len(),
            "{source:?}"
        );
        let mut next = 0;
        for unit in units {
            assert_eq!(unit.source.start, next, "{source:?}");
            next = unit.source.end;
        }
        assert_eq!(next, source.len(), "{source:?}");
    }

    #[test]
    fn folds_what_looks_alike() {
        check(b"", "");
        check(b"plain\nlines\n", "plain\nlines\n");
        check(b"a  \r\nb\rc\t", "a\nb\nc");
        check(
            "\u{201c}q\u{201d} \u{2014} \u{2018}s\u{2019}\u{a0}\n".as_bytes(),
            "\"q\" - 's'\n",
        );
        check("版本：１２".as_bytes(), "版本:12");
        check("e\u{301}cran".as_bytes(), "\u{e9}cran");
        check("\u{1100}\u{1161}\u{11a8}".as_bytes(), "\u{ac01}");
        check("\u{ff76}\u{ff9e}".as_bytes(), "\u{30ac}");
        check("x\u{2026}".as_bytes(), "x...");
        check(b"a\xffb\xe2\x80 \n", "a\u{fffd}b\u{fffd}\n");
        check("é   ".as_bytes(), "é");
    }

    #[test]
    fn folding_equals_normalising_the_whole() {
        let text = "Åﬁ①e\u{301}\u{327}ｶﾞ한글각 ≠ ﬀ ½ ™ \u{1e9b}\u{323} ㎏ नि ﷺ x\u{338}";
        let got = Folded::look_alikes(text.as_bytes());
        let whole: String = text.nfkc().map(look_alike).collect();
        assert_eq!(String::from_utf8(got.text).unwrap(), whole);
    }

    #[test]
    fn positions_lead_back() {
        let folded = Folded::look_alikes("a\u{2026}b  \r\nc".as_bytes());
        assert_eq!(folded.text, b"a...b\nc");
        let back: Vec<_> = (0..=7).map(|at| folded.source_of(at)).collect();
        let expected = [
            Some(0),
            Some(1),
            None,
            None,
            Some(4),
            Some(5),
            Some(9),
            Some(10),
        ];
        assert_eq!(back, expected);
    }
}
