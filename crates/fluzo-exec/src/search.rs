//! Searching a tree for text and for names: one object-safe trait and its value types.

use std::cmp::Ordering;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

/// What text to look for and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrepQuery {
    /// Regular expression, or plain text when `literal`.
    pub pattern: String,
    /// File or directory to search.
    pub root: PathBuf,
    /// Only files that this glob admits; one that starts with `!` excludes. Globs with `/` start at `root`. It does not
    /// apply to a root that is a file.
    pub glob: Option<String>,
    /// Whether letter case is ignored.
    pub ignore_case: bool,
    /// Whether the pattern is plain text.
    pub literal: bool,
    /// Most matching lines to report; zero counts as one.
    pub limit: usize,
    /// Lines to report before and after each match.
    pub context: usize,
}

/// Why a line is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrepLineKind {
    /// It matches.
    Match,
    /// It is near one that does.
    Context,
}

/// One reported line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrepLine {
    /// The file, as the root joined with the way to it.
    pub path: PathBuf,
    /// Line number from 1.
    pub line: u64,
    /// Why it is reported.
    pub kind: GrepLineKind,
    /// The line without its end (`\n` or `\r\n`), cut after [`LINE_BOUND`] bytes.
    pub bytes: Vec<u8>,
    /// Lines of one file that follow each other without a gap share this number; it grows through the report. Without
    /// context each run of adjacent matching lines is a block.
    pub block: u64,
}

/// Outcome of a text search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrepReport {
    /// Reported lines, ordered by path (component by component), then line. Overlapping contexts are merged.
    pub lines: Vec<GrepLine>,
    /// Whether as many matches as asked for were found. Those reported are the first in order, whatever the timing.
    pub limit_reached: bool,
    /// Only when nothing was found: how many files ignore rules kept from being searched, at most [`IGNORED_BOUND`].
    pub ignored_files: u64,
    /// Files and directories that could not be read.
    pub unreadable: u64,
}

/// What names to look for and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FindQuery {
    /// Glob over file names, or over whole absolute paths when it has a `/`. `*` does not pass `/`, `**` does. Letter case
    /// counts only when the pattern has an upper-case letter. An empty pattern finds everything.
    pub pattern: String,
    /// Directory to search.
    pub root: PathBuf,
    /// Most results to report; zero counts as one.
    pub limit: usize,
}

/// One found entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundPath {
    /// Path below the root.
    pub relative: PathBuf,
    /// Whether it is a directory; a link to one is not.
    pub is_dir: bool,
}

/// Outcome of a name search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FindReport {
    /// Found entries, ordered by path, component by component.
    pub paths: Vec<FoundPath>,
    /// Whether as many entries as asked for were found. Those reported are the first in order, whatever the timing.
    pub limit_reached: bool,
    /// Only when nothing was found: how many files that match are hidden by ignore rules, at most [`IGNORED_BOUND`].
    pub ignored_files: u64,
    /// Directories that could not be read.
    pub unreadable: u64,
}

/// Bytes kept of one line.
pub const LINE_BOUND: usize = 64 * 1024;

/// Counting of ignored files stops here.
pub const IGNORED_BOUND: u64 = 10_000;

/// Why a search gave no report.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The pattern is no valid regular expression.
    #[error("{message}")]
    Pattern {
        /// What is wrong with it, with the place; may have several lines.
        message: String,
    },
    /// The glob is not valid.
    #[error("{message}")]
    Glob {
        /// What is wrong with it.
        message: String,
    },
    /// The root could not be read.
    #[error("cannot search `{}`", path.display())]
    Root {
        /// The root.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The token was cancelled.
    #[error("search cancelled")]
    Cancelled,
}

/// Searches trees. Every method blocks; a cancelled token ends it within about one file's buffer.
pub trait TreeSearch: Send + Sync {
    /// Looks for text.
    fn grep(
        &self,
        query: &GrepQuery,
        cancel: &CancellationToken,
    ) -> Result<GrepReport, SearchError>;

    /// Looks for names.
    fn find(
        &self,
        query: &FindQuery,
        cancel: &CancellationToken,
    ) -> Result<FindReport, SearchError>;

    /// Lists the first `limit` entries below the directory `root`, at most `levels` deep, a directory before what is in
    /// it. Ignore rules hold as for [`TreeSearch::find`]; siblings are ordered by `compare`. What was hidden is not counted.
    fn list(
        &self,
        root: &Path,
        levels: usize,
        limit: usize,
        compare: fn(&OsStr, &OsStr) -> Ordering,
        cancel: &CancellationToken,
    ) -> Result<FindReport, SearchError>;
}
