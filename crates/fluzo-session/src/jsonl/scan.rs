//! Opening: ids, parents and places of all entries in one pass over the file.

use std::io::{self, Read};
use std::sync::Arc;

use super::head::{self, Content, Head};
use super::lines::{Lines, RawLine};
use super::migrate;
use crate::store::{Damage, DamageReason, DamageReport};
use crate::{Header, Index, Node, NodeKind};

/// Where the JSON text of an entry stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) offset: u64,
    pub(super) len: u32,
}

/// How the file ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tail {
    /// With a line end, or there is nothing.
    Ended,
    /// With a whole line that lacks its end.
    NoLineEnd,
    /// With a part of a line, that is `filled` bytes long and NUL bytes from there on.
    Torn { offset: u64, filled: u64 },
}

/// What one pass over a file found.
#[derive(Debug)]
pub(super) struct Scan {
    pub(super) header: Header,
    pub(super) header_span: Span,
    pub(super) index: Index,
    /// One for each entry that was pushed to the index.
    pub(super) spans: Vec<Span>,
    pub(super) damage: DamageReport,
    /// Length of the file.
    pub(super) len: u64,
    pub(super) tail: Tail,
}

/// Reads `source`; none when it is no session.
pub(super) fn scan(source: impl Read, limit: usize) -> io::Result<Option<Scan>> {
    let mut lines = Lines::new(source, limit);
    let mut scanner = Scanner::default();
    while let Some(line) = lines.next_line()? {
        if !scanner.line(&line, limit) {
            return Ok(None);
        }
    }
    Ok(scanner.finish())
}

#[derive(Default)]
struct Scanner {
    header: Option<(Header, Span)>,
    index: Index,
    spans: Vec<Span>,
    damage: DamageReport,
    number: u64,
    /// Lines so far that are JSON, the header included.
    parsed: u64,
    len: u64,
    tail: Option<Tail>,
    linear: migrate::Linear,
}

impl Scanner {
    /// Takes one line; false when the file is no session.
    fn line(&mut self, raw: &RawLine<'_>, limit: usize) -> bool {
        self.number += 1;
        self.len = raw.offset + raw.len + u64::from(raw.ended);
        self.tail = Some(if raw.ended {
            Tail::Ended
        } else {
            Tail::NoLineEnd
        });
        if raw.is_skipped() || raw.bytes.len() > limit {
            self.damaged(raw, DamageReason::TooLong);
            return true;
        }
        let mut line = head::read_line(raw.bytes);
        if raw.nuls > 0 {
            line = line.behind_nuls();
        }
        // The limit of a line is far below 4 GiB.
        let span = Span {
            offset: raw.offset + raw.nuls + line.skip as u64,
            len: u32::try_from(line.len).unwrap_or(u32::MAX),
        };
        if let Some(reason) = line.blemish {
            self.report(raw, reason);
        }
        match line.content {
            Content::Blank => {}
            Content::Damaged(reason) => self.damaged(raw, reason),
            Content::Header(header) if self.header.is_none() => {
                self.parsed += 1;
                self.linear = migrate::Linear::new(&header);
                self.header = Some((header, span));
            }
            _ if self.header.is_none() => return false,
            Content::Header(_) => {
                self.parsed += 1;
                self.report(raw, DamageReason::SecondHeader);
            }
            Content::OddObject(reason) => {
                self.parsed += 1;
                self.report(raw, reason);
            }
            Content::Entry(head) => self.entry(raw, head, span),
        }
        true
    }

    fn entry(&mut self, raw: &RawLine<'_>, head: Head, span: Span) {
        let ordinal = self.parsed;
        self.parsed += 1;
        let node = if self.linear.applies() {
            self.linear
                .node(head, ordinal, |id| self.index.contains(id))
        } else {
            let Some(id) = head.id else {
                return self.report(raw, DamageReason::MissingId);
            };
            Node {
                id,
                parent: head.parent,
                kind: head.kind,
            }
        };
        if self.index.push(node) {
            self.report(raw, DamageReason::DuplicateId);
        }
        self.spans.push(span);
    }

    /// Counts a line that is no JSON. Without its end it is a part of one.
    fn damaged(&mut self, raw: &RawLine<'_>, reason: DamageReason) {
        if raw.ended || reason == DamageReason::NotAnObject {
            self.parsed += u64::from(reason == DamageReason::NotAnObject);
            self.report(raw, reason);
        } else {
            self.tail = Some(Tail::Torn {
                offset: raw.offset,
                filled: raw.filled(),
            });
            self.report(raw, DamageReason::TornTail);
        }
    }

    fn report(&mut self, raw: &RawLine<'_>, reason: DamageReason) {
        let (line, offset, len) = (self.number, raw.offset, raw.len);
        self.damage.push(Damage {
            line,
            offset,
            len,
            reason,
        });
    }

    fn finish(mut self) -> Option<Scan> {
        let (header, header_span) = self.header?;
        for (at, first_kept) in self.linear.first_kept() {
            self.index
                .set_kind(at, NodeKind::Compaction(Arc::clone(&first_kept)));
        }
        self.damage.joined = self.index.join_orphans();
        Some(Scan {
            header,
            header_span,
            index: self.index,
            spans: self.spans,
            damage: self.damage,
            len: self.len,
            tail: self.tail.unwrap_or(Tail::Ended),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_over_the_limit_is_counted_and_passed_over() {
        let entry = |id: &str, text: &str| {
            format!("{{\"type\":\"custom\",\"id\":\"{id}\",\"data\":\"{text}\"}}\n")
        };
        let long = "x".repeat(100);
        let header = "{\"type\":\"session\",\"id\":\"s\",\"version\":3}\n";
        let text = [header, &entry("a", ""), &entry("b", &long), &entry("c", "")].concat();
        let found = scan(text.as_bytes(), 80).unwrap().unwrap();
        let ids: Vec<&str> = found.index.iter().map(|node| &*node.id).collect();
        assert_eq!(ids, ["a", "c"]);
        let reasons: Vec<_> = found
            .damage
            .items
            .iter()
            .map(|d| (d.line, d.reason))
            .collect();
        assert_eq!(reasons, [(3, DamageReason::TooLong)]);
        assert_eq!((found.len, found.tail), (text.len() as u64, Tail::Ended));
    }
}
