//! Lines of a file by streaming: what is asked for is kept, the rest only counted.

use std::io::{self, Read};

use encoding_rs::{Decoder, UTF_16BE, UTF_16LE};
use fluzo_stdx::truncate::TextLimits;

use crate::text_form::TextForm;

/// Bytes read at once.
const CHUNK: usize = 256 * 1024;

/// Which lines are wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    /// Lines to pass over.
    pub(crate) skip: usize,
    /// Most lines to take.
    pub(crate) take: usize,
    /// How much to keep of them: one line and a few bytes more than this.
    pub(crate) keep: TextLimits,
}

/// What a file has, and what was kept of it. A final newline ends a line and starts none.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Lines {
    /// The beginning of the wanted lines.
    pub(crate) kept: Vec<u8>,
    /// Lines of the file.
    pub(crate) total: usize,
    /// Wanted lines there are.
    pub(crate) wanted: usize,
    /// Their bytes, without the newline of the last one when more lines follow.
    pub(crate) wanted_bytes: usize,
    /// Bytes of the first wanted line.
    pub(crate) first_bytes: usize,
    /// A NUL byte is in what was kept.
    pub(crate) has_nul: bool,
}

/// Reads `file`, which begins with `head`, to its end. `None` when `stop` says so.
pub(crate) fn read_lines(
    head: Vec<u8>,
    file: impl Read,
    window: Window,
    stop: impl Fn() -> bool,
) -> io::Result<Option<Lines>> {
    let mut reader = Chunks::new(head, file);
    let mut state = Counting {
        window,
        lines: Lines::default(),
        line: 0,
        open: false,
    };
    while let Some(text) = reader.next()? {
        if stop() {
            return Ok(None);
        }
        state.add(text);
    }
    Ok(Some(state.finished()))
}

struct Counting {
    window: Window,
    lines: Lines,
    /// Index of the line that the next byte belongs to.
    line: usize,
    /// That line has bytes already.
    open: bool,
}

impl Counting {
    fn add(&mut self, mut text: &[u8]) {
        let end = self.window.skip.saturating_add(self.window.take);
        while !text.is_empty() {
            if self.line < self.window.skip || self.line >= end {
                let stop = if self.line < self.window.skip {
                    self.window.skip
                } else {
                    usize::MAX
                };
                text = self.pass(text, stop);
                continue;
            }
            let newline = memchr::memchr(b'\n', text);
            let (line, rest) = text.split_at(newline.map_or(text.len(), |at| at + 1));
            self.take(line);
            text = rest;
        }
    }

    /// Counts lines up to line `stop`, and returns what is left.
    fn pass<'a>(&mut self, text: &'a [u8], stop: usize) -> &'a [u8] {
        for at in memchr::memchr_iter(b'\n', text) {
            self.line += 1;
            if self.line == stop {
                self.open = false;
                return &text[at + 1..];
            }
        }
        self.open = text.last() != Some(&b'\n');
        &[]
    }

    /// Takes a wanted line or a part of one.
    fn take(&mut self, part: &[u8]) {
        let lines = &mut self.lines;
        let index = self.line - self.window.skip;
        if !self.open {
            lines.wanted += 1;
        }
        let ends = part.last() == Some(&b'\n');
        lines.wanted_bytes += part.len();
        if index == 0 {
            lines.first_bytes += part.len() - usize::from(ends);
        }
        if index <= self.window.keep.max_lines {
            let room = (self.window.keep.max_bytes + 8).saturating_sub(lines.kept.len());
            let part = &part[..part.len().min(room)];
            lines.has_nul |= memchr::memchr(0, part).is_some();
            lines.kept.extend_from_slice(part);
        }
        self.open = !ends;
        self.line += usize::from(ends);
    }

    fn finished(mut self) -> Lines {
        let lines = &mut self.lines;
        lines.total = self.line + usize::from(self.open);
        let more = lines.total > self.window.skip + lines.wanted;
        if more && lines.wanted > 0 {
            lines.wanted_bytes -= 1;
            if lines.kept.len() > lines.wanted_bytes {
                lines.kept.truncate(lines.wanted_bytes);
            }
        }
        self.lines
    }
}

/// A file as UTF-8, chunk by chunk. Bytes of other encodings than UTF-16 pass as they are.
struct Chunks<R> {
    head: Option<Vec<u8>>,
    file: R,
    decoder: Option<Decoder>,
    raw: Vec<u8>,
    text: Vec<u8>,
}

impl<R: Read> Chunks<R> {
    fn new(head: Vec<u8>, file: R) -> Self {
        let decoder = match TextForm::of(&head) {
            TextForm::Utf16Le => Some(UTF_16LE.new_decoder_with_bom_removal()),
            TextForm::Utf16Be => Some(UTF_16BE.new_decoder_with_bom_removal()),
            TextForm::Utf8 { .. } => None,
        };
        Self {
            head: Some(head),
            file,
            decoder,
            raw: vec![0; CHUNK],
            text: Vec::new(),
        }
    }

    /// The next chunk, which may be empty; `None` at the end.
    fn next(&mut self) -> io::Result<Option<&[u8]>> {
        let (len, last) = match self.head.take() {
            Some(head) => {
                self.raw[..head.len()].copy_from_slice(&head);
                (head.len(), false)
            }
            None => {
                let len = read_some(&mut self.file, &mut self.raw)?;
                (len, len == 0)
            }
        };
        let raw = &self.raw[..len];
        let Some(decoder) = &mut self.decoder else {
            return Ok((!last).then_some(raw));
        };
        let room = decoder.max_utf8_buffer_length(len).unwrap_or(4 * CHUNK);
        self.text.resize(room, 0);
        let (_, _, written, _) = decoder.decode_to_utf8(raw, &mut self.text, last);
        if last {
            self.decoder = None;
        }
        Ok((!last || written > 0).then_some(&self.text[..written]))
    }
}

fn read_some(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(
        text: &[u8],
        skip: usize,
        take: usize,
        max_lines: usize,
        expected: (&str, usize, usize, usize),
    ) {
        let keep = TextLimits {
            max_lines,
            max_bytes: 100,
        };
        let window = Window { skip, take, keep };
        for cut in 0..=text.len() {
            let head = text[..cut].to_vec();
            let lines = read_lines(head, OneByOne(&text[cut..]), window, || false);
            let lines = lines.unwrap().unwrap();
            let kept = String::from_utf8_lossy(&lines.kept).into_owned();
            let got = (kept.as_str(), lines.total, lines.wanted, lines.wanted_bytes);
            assert_eq!(got, expected, "{text:?} {skip} {take}");
        }
    }

    struct OneByOne<'a>(&'a [u8]);

    impl Read for OneByOne<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let len = self.0.len().min(1);
            self.0.read(&mut buffer[..len])
        }
    }

    #[test]
    fn windows() {
        let all = usize::MAX;
        check(b"", 0, all, 9, ("", 0, 0, 0));
        check(b"a\nb\n", 0, all, 9, ("a\nb\n", 2, 2, 4));
        check(b"a\nb", 0, all, 9, ("a\nb", 2, 2, 3));
        check(b"a\nb\nc\n", 0, 2, 9, ("a\nb", 3, 2, 3));
        check(b"a\nb\nc\n", 1, 1, 9, ("b", 3, 1, 1));
        check(b"a\nb\nc\n", 1, 2, 9, ("b\nc\n", 3, 2, 4));
        check(b"a\nb\nc\n", 3, all, 9, ("", 3, 0, 0));
        check(b"\n\n\n", 1, 1, 9, ("", 3, 1, 0));
        check(b"a\nb\nc\nd\n", 0, all, 1, ("a\nb\n", 4, 4, 8));
    }

    #[test]
    fn utf16_in_pieces() {
        let bytes: Vec<u8> = "\u{feff}é\u{1f600}\nz"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        let keep = TextLimits {
            max_lines: 9,
            max_bytes: 99,
        };
        let window = Window {
            skip: 0,
            take: 9,
            keep,
        };
        let lines = read_lines(bytes[..3].to_vec(), OneByOne(&bytes[3..]), window, || false);
        let lines = lines.unwrap().unwrap();
        assert_eq!(
            (String::from_utf8(lines.kept).unwrap().as_str(), lines.total),
            ("é\u{1f600}\nz", 2)
        );
    }
}
