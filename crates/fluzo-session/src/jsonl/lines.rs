//! Lines of a file through a buffer that does not grow with the file.

use std::io::{self, Read};

/// Reads a file line by line. Memory: one buffer, and while it lasts the longest line.
pub(super) struct Lines<R> {
    source: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Place in the file of the byte at `start`.
    offset: u64,
    limit: usize,
}

/// One line without its line end.
pub(super) struct RawLine<'a> {
    /// Its bytes without the NUL bytes it begins with; empty when they are longer than the limit.
    pub(super) bytes: &'a [u8],
    /// Where it begins.
    pub(super) offset: u64,
    /// Its length in bytes.
    pub(super) len: u64,
    /// Number of NUL bytes it begins with.
    pub(super) nuls: u64,
    /// Whether a line end follows.
    pub(super) ended: bool,
    /// Of a line that was skipped, its length without the NUL bytes at its end.
    skipped: Option<u64>,
}

impl RawLine<'_> {
    /// Whether its bytes were not kept because they are longer than the limit.
    pub(super) fn is_skipped(&self) -> bool {
        self.skipped.is_some()
    }

    /// Its length without the NUL bytes at its end.
    pub(super) fn filled(&self) -> u64 {
        match (self.skipped, filled(self.bytes)) {
            (Some(filled), _) => filled,
            (None, 0) => 0,
            (None, bytes) => self.nuls + bytes as u64,
        }
    }
}

/// No entry is longer than this: no provider takes a request of such a size.
pub(super) const MAX_LINE: usize = 64 << 20;

const BUFFER: usize = 256 << 10;

/// Runs of NUL bytes are compared in pieces of this size.
const ZEROS: [u8; 4 << 10] = [0; 4 << 10];

impl<R: Read> Lines<R> {
    /// Reads `source`, which stands at its beginning. A line longer than `limit` is skipped.
    pub(super) fn new(source: R, limit: usize) -> Self {
        Self {
            source,
            buffer: vec![0; BUFFER],
            start: 0,
            end: 0,
            offset: 0,
            limit,
        }
    }

    /// The next line; none at the end.
    pub(super) fn next_line(&mut self) -> io::Result<Option<RawLine<'_>>> {
        let offset = self.offset;
        // A power cut may leave gigabytes of these; they are counted and not kept.
        let nuls = self.skip_nuls()?;
        let mut searched = 0;
        let found = loop {
            let open = self
                .buffer
                .get(self.start + searched..self.end)
                .unwrap_or_default();
            if let Some(at) = memchr::memchr(b'\n', open) {
                break Some(searched + at);
            }
            searched = self.end - self.start;
            if searched > self.limit {
                return self.skip_line(offset, nuls).map(Some);
            }
            if self.fill()? == 0 {
                break None;
            }
        };
        let ended = found.is_some();
        let len = found.unwrap_or(searched);
        if !ended && len == 0 && nuls == 0 {
            return Ok(None);
        }
        let from = self.start;
        self.consume(len + usize::from(ended));
        let bytes = self.buffer.get(from..from + len).unwrap_or_default();
        Ok(Some(RawLine {
            bytes,
            offset,
            len: nuls + len as u64,
            nuls,
            ended,
            skipped: None,
        }))
    }

    /// Reads more bytes behind those that are there; 0 at the end.
    fn fill(&mut self) -> io::Result<usize> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            if self.end < BUFFER / 2 && self.buffer.len() > BUFFER {
                self.buffer.truncate(BUFFER);
                self.buffer.shrink_to_fit();
            }
        }
        if self.end == self.buffer.len() {
            let most = self.limit.saturating_add(BUFFER);
            let grown = (self.buffer.len() * 2).min(most);
            self.buffer.resize(grown.max(self.end + BUFFER), 0);
        }
        loop {
            let free = self.buffer.get_mut(self.end..).unwrap_or_default();
            match self.source.read(free) {
                Ok(read) => {
                    self.end += read;
                    return Ok(read);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        self.offset += bytes as u64;
    }

    /// Passes over NUL bytes and counts them.
    fn skip_nuls(&mut self) -> io::Result<u64> {
        let begin = self.offset;
        loop {
            let open = self.buffer.get(self.start..self.end).unwrap_or_default();
            let (nuls, all) = (leading_nuls(open), open.len());
            self.consume(nuls);
            if nuls < all || self.fill()? == 0 {
                return Ok(self.offset - begin);
            }
        }
    }

    /// Passes over a line that is too long; it begins at `offset` with `nuls` NUL bytes.
    fn skip_line(&mut self, offset: u64, nuls: u64) -> io::Result<RawLine<'_>> {
        let mut last = 0;
        let line = |len, ended, last| RawLine {
            bytes: &[],
            offset,
            len,
            nuls,
            ended,
            skipped: Some(last),
        };
        loop {
            let open = self.buffer.get(self.start..self.end).unwrap_or_default();
            if let Some(at) = memchr::memchr(b'\n', open) {
                self.consume(at + 1);
                let len = self.offset - 1 - offset;
                return Ok(line(len, true, len));
            }
            let filled = filled(open) as u64;
            if filled > 0 {
                last = self.offset - offset + filled;
            }
            self.consume(self.end - self.start);
            if self.fill()? == 0 {
                return Ok(line(self.offset - offset, false, last));
            }
        }
    }
}

/// Number of NUL bytes that `bytes` begins with.
fn leading_nuls(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    while let Some(next) = rest.strip_prefix(&ZEROS) {
        rest = next;
    }
    let inner = rest.iter().position(|byte| *byte != 0);
    bytes.len() - rest.len() + inner.unwrap_or(rest.len())
}

/// Length of `bytes` without the NUL bytes at the end.
fn filled(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    while let Some(next) = rest.strip_suffix(&ZEROS) {
        rest = next;
    }
    rest.iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands out a few bytes at a time.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let n = self.1.min(self.0.len()).min(out.len());
            out[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    fn read(source: impl Read, limit: usize) -> Vec<(String, u64, u64, bool)> {
        let mut lines = Lines::new(source, limit);
        let mut out = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            let text = String::from_utf8(line.bytes.to_vec()).unwrap();
            out.push((text, line.offset, line.len, line.ended));
        }
        out
    }

    #[test]
    fn lines_are_the_same_however_the_bytes_arrive() {
        let text = b"a\n\nbcd\nlast";
        let want = vec![
            ("a".to_owned(), 0, 1, true),
            (String::new(), 2, 0, true),
            ("bcd".to_owned(), 3, 3, true),
            ("last".to_owned(), 7, 4, false),
        ];
        for step in 1..12 {
            assert_eq!(read(Slow(text, step), 100), want);
        }
    }

    #[test]
    fn a_line_longer_than_the_buffer_is_whole() {
        let long = "x".repeat(3 * BUFFER + 7);
        let text = format!("a\n{long}\nb\n");
        let lines = read(text.as_bytes(), MAX_LINE);
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[1].0, long);
        assert_eq!(lines[2], ("b".to_owned(), text.len() as u64 - 2, 1, true));
    }

    #[test]
    fn nul_bytes_before_a_line_are_counted_and_not_kept() {
        let run = "\0".repeat(3 * BUFFER + 5);
        let text = format!("a\n{run}b\n{run}");
        for step in [7777, usize::MAX] {
            let mut lines = Lines::new(Slow(text.as_bytes(), step), 10);
            let mut found = Vec::new();
            while let Some(line) = lines.next_line().unwrap() {
                found.push((line.bytes.to_vec(), line.len, line.nuls, line.filled()));
            }
            let nuls = run.len() as u64;
            let want = [
                (b"a".to_vec(), 1, 0, 1),
                (b"b".to_vec(), nuls + 1, nuls, nuls + 1),
                (Vec::new(), nuls, nuls, 0),
            ];
            assert_eq!(found, want);
            assert_eq!(lines.buffer.len(), BUFFER);
        }
    }

    #[test]
    fn nul_bytes_behind_a_part_of_a_line_are_not_kept() {
        let text = format!("abc{}", "\0".repeat(9 * BUFFER));
        let mut lines = Lines::new(text.as_bytes(), 2 * BUFFER);
        let line = lines.next_line().unwrap().unwrap();
        assert!(line.is_skipped());
        assert_eq!((line.len, line.filled()), (text.len() as u64, 3));
        assert!(lines.buffer.len() <= 3 * BUFFER);
    }

    #[test]
    fn a_line_over_the_limit_is_skipped_and_measured() {
        let text = format!("a\n{}\nb", "x".repeat(40));
        for step in [1, 7, 100] {
            let lines = read(Slow(text.as_bytes(), step), 10);
            let want = if step == 100 {
                "x".repeat(40)
            } else {
                String::new()
            };
            assert_eq!(lines[1], (want, 2, 40, true), "{step}");
            assert_eq!(lines[2], ("b".to_owned(), 43, 1, false));
        }
    }
}
