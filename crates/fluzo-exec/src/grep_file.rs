//! Searching one file for text.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::path::Path;

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use tokio_util::sync::CancellationToken;

use crate::local_fs::open_regular;
use crate::search::{GrepLineKind, GrepQuery, LINE_BOUND, SearchError};

/// A file whose single line needs more memory than this is given up as unreadable.
const HEAP_BOUND: usize = 64 * 1024 * 1024;
/// Bytes of a compiled pattern. Nested counted repetition grows beyond any use, and the time for one character grows with
/// it; a hundred Unicode classes in a row still fit.
const PATTERN_BOUND: usize = 10 * 1024 * 1024;
/// Bytes each thread keeps of what it worked out about a pattern so far.
const CACHE_BOUND: usize = 10 * 1024 * 1024;

/// One line as found, in the order of the file.
#[derive(Debug)]
pub(crate) struct FoundLine {
    pub(crate) line: u64,
    pub(crate) kind: GrepLineKind,
    pub(crate) bytes: Vec<u8>,
}

/// What one file gave.
#[derive(Debug, Default)]
pub(crate) struct FileLines {
    pub(crate) lines: Vec<FoundLine>,
    pub(crate) matches: usize,
}

impl FileLines {
    /// Keeps the first `limit` matches with their context; a match within the context of the last one becomes context.
    pub(crate) fn cut(&mut self, limit: usize, context: usize) {
        let mut seen = 0;
        let mut last = u64::MAX;
        let context = u64::try_from(context).unwrap_or(u64::MAX);
        self.lines.retain_mut(|line| {
            if seen == limit {
                line.kind = GrepLineKind::Context;
                return line.line <= last.saturating_add(context);
            }
            if line.kind == GrepLineKind::Match {
                seen += 1;
                last = line.line;
            }
            true
        });
        self.matches = seen;
    }
}

/// Compiles the pattern as ripgrep does, within tighter bounds: one that needs more memory is refused.
pub(crate) fn matcher(query: &GrepQuery) -> Result<RegexMatcher, SearchError> {
    RegexMatcherBuilder::new()
        .case_insensitive(query.ignore_case)
        .fixed_strings(query.literal)
        .multi_line(true)
        .unicode(true)
        .octal(false)
        .line_terminator(Some(b'\n'))
        .size_limit(PATTERN_BOUND)
        .dfa_size_limit(CACHE_BOUND)
        .build(&query.pattern)
        .map_err(|error| SearchError::Pattern {
            message: error.to_string(),
        })
}

/// A searcher for files met on a walk, which are given up at their first NUL byte, or for one `named` by the caller, in
/// which NUL bytes count as line ends.
pub(crate) fn searcher(query: &GrepQuery, named: bool) -> Searcher {
    let binary = if named {
        BinaryDetection::convert(0)
    } else {
        BinaryDetection::quit(0)
    };
    SearcherBuilder::new()
        .line_number(true)
        .before_context(query.context)
        .after_context(query.context)
        .binary_detection(binary)
        .heap_limit(Some(HEAP_BOUND))
        .max_matches(Some(u64::try_from(query.limit.max(1)).unwrap_or(u64::MAX)))
        .build()
}

/// Searches a regular file. Cancellation is an error like any other here; the caller knows its token.
pub(crate) fn search_file(
    path: &Path,
    matcher: &RegexMatcher,
    searcher: &mut Searcher,
    cancel: &CancellationToken,
    found: &mut FileLines,
) -> io::Result<()> {
    let file = open_regular(path, OpenOptions::new().read(true))?;
    searcher.search_reader(
        matcher,
        Cancellable { file, cancel },
        Collect { found, cancel },
    )
}

fn go_on(cancel: &CancellationToken) -> io::Result<()> {
    if cancel.is_cancelled() {
        return Err(io::Error::other("cancelled"));
    }
    Ok(())
}

struct Cancellable<'a, R> {
    file: R,
    cancel: &'a CancellationToken,
}

impl<R: Read> Read for Cancellable<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        go_on(self.cancel)?;
        self.file.read(buffer)
    }
}

struct Collect<'a> {
    found: &'a mut FileLines,
    cancel: &'a CancellationToken,
}

impl Collect<'_> {
    fn push(&mut self, number: Option<u64>, kind: GrepLineKind, bytes: &[u8]) {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let bytes = bytes[..bytes.len().min(LINE_BOUND)].to_vec();
        self.found.lines.push(FoundLine {
            line: number.unwrap_or_default(),
            kind,
            bytes,
        });
    }
}

impl Sink for Collect<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        go_on(self.cancel)?;
        self.found.matches += 1;
        self.push(found.line_number(), GrepLineKind::Match, found.bytes());
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, near: &SinkContext<'_>) -> io::Result<bool> {
        go_on(self.cancel)?;
        self.push(near.line_number(), GrepLineKind::Context, near.bytes());
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    struct CancelsAtEnd<'a> {
        lines: &'a [u8],
        cancel: &'a CancellationToken,
    }

    impl Read for CancelsAtEnd<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.cancel.cancel();
            self.lines.read(buffer)
        }
    }

    #[test]
    fn cancelling_is_heard_at_the_next_line_of_a_buffer() {
        let query = GrepQuery {
            pattern: "hit".into(),
            root: "/".into(),
            glob: None,
            ignore_case: false,
            literal: false,
            limit: 100,
            context: 0,
        };
        let cancel = CancellationToken::new();
        let mut found = FileLines::default();
        let done = searcher(&query, true).search_reader(
            matcher(&query).unwrap(),
            CancelsAtEnd {
                lines: b"hit\nhit\n",
                cancel: &cancel,
            },
            Collect {
                found: &mut found,
                cancel: &cancel,
            },
        );
        assert_eq!(
            (done.unwrap_err().to_string().as_str(), found.matches),
            ("cancelled", 0)
        );
    }
}
