//! What a store of session entries must do.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::{Entry, Header, Index};

/// Keeps the entries of one session.
///
/// Calls are synchronous: one line into the page cache takes microseconds and cannot
/// be dropped half-way. Every store passes the suite in `conformance`.
pub trait SessionStore: Send + Sync {
    /// The header. It changes when the store forks to a new session.
    fn header(&self) -> Header;

    /// Adds an entry behind all others.
    ///
    /// # Errors
    ///
    /// When the id is taken, the parent unknown, or the entry cannot be written. Then
    /// the store is as it was before and the call may be repeated.
    fn append(&self, entry: Entry, durability: Durability) -> Result<Arc<Entry>, StoreError>;

    /// Makes sure, before anything is appended, that this process alone writes the session.
    /// A session that another process writes goes on in a new file that begins at
    /// `timestamp` (ISO 8601), without the turn that the other may still be in.
    ///
    /// # Errors
    ///
    /// When the session cannot be written. Then the store is as it was before.
    fn claim(&self, timestamp: &str) -> Result<Claimed, StoreError> {
        let _ = timestamp;
        Ok(Claimed::Whole)
    }

    /// Lends the index for as long as `look` runs, which must not call the store.
    fn read_index(&self, look: &mut dyn FnMut(&Index));

    /// The entry with this id.
    ///
    /// # Errors
    ///
    /// When there is none, or it cannot be read.
    fn payload(&self, id: &str) -> Result<Arc<Entry>, StoreError>;

    /// What was found that is no entry.
    fn damage(&self) -> DamageReport;

    /// What the user should know, oldest first; only ever grows.
    fn notices(&self) -> Vec<Notice>;

    /// Where the session is or will be kept; none in memory.
    fn path(&self) -> Option<PathBuf>;

    /// Whether what was appended would be there after a new start of the program, or,
    /// in memory, for as long as the store lives.
    fn saved(&self) -> bool;
}

impl dyn SessionStore + '_ {
    /// Lends the index to `look`, which must not call the store, and returns its answer.
    pub fn look<R>(&self, look: impl FnOnce(&Index) -> R) -> Option<R> {
        let mut look = Some(look);
        let mut answer = None;
        self.read_index(&mut |index| answer = look.take().map(|look| look(index)));
        answer
    }
}

/// What there is of a session that was claimed for writing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// All of it.
    Whole,
    /// All but the unfinished turn of another process. What would have followed that turn
    /// follows `leaf`, or is a root.
    CutBack {
        /// The entry before that turn.
        leaf: Option<Arc<str>>,
    },
}

/// How safe an entry is when `append` returns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// It survives the end of this process, however that comes.
    #[default]
    Buffered,
    /// It survives a power cut, once the session has a file.
    Synced,
}

/// Why a store did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No entry has this id.
    #[error("Entry {id} not found")]
    EntryNotFound {
        /// The id.
        id: String,
    },
    /// Another entry has this id.
    #[error("entry id `{id}` is taken")]
    DuplicateId {
        /// The id.
        id: String,
    },
    /// The payload is not what the index says; the session was changed from outside.
    #[error("entry `{id}` can no longer be read")]
    Unreadable {
        /// The id.
        id: String,
    },
    /// The file has no session header.
    #[error("Session file is not a valid pi session: {}", path.display())]
    NotASession {
        /// The file.
        path: PathBuf,
    },
    /// The entry cannot be written as JSON.
    #[error("entry `{id}` cannot be written as JSON")]
    Encode {
        /// The id.
        id: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// The entry is longer than any that would be read again.
    #[error("entry `{id}` is too long to be kept: {bytes} bytes")]
    TooLong {
        /// The id.
        id: String,
        /// Its length.
        bytes: usize,
    },
    /// The file system refused.
    #[error("cannot {action} `{}`", path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The refusal.
        source: io::Error,
    },
}

/// Something the user should know about the store of this session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// Another process writes this session; from now on it is kept in a new file.
    ForkedBecauseBusy {
        /// The file that is busy.
        from: PathBuf,
        /// The new file.
        to: PathBuf,
    },
    /// What another process is still writing was not taken into the new file.
    TurnLeftOut {
        /// The file that holds it.
        from: PathBuf,
        /// Number of entries.
        entries: usize,
    },
    /// The file was changed by someone else; from now on the session is kept in a new one.
    ForkedBecauseChanged {
        /// The file that was changed.
        from: PathBuf,
        /// The new file.
        to: PathBuf,
        /// What happened to it.
        change: Change,
        /// Entries that were gone and could not be copied.
        lost: usize,
    },
    /// A last line that was cut off was moved aside.
    TailMoved {
        /// Where it is now.
        to: PathBuf,
        /// Its length in bytes.
        bytes: u64,
    },
    /// The file is of a later version of the format than this program knows.
    NewerVersion {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u64,
    },
    /// NUL bytes at the end, as a power cut leaves them, were cut off.
    NulBytesCut {
        /// Their number.
        bytes: u64,
    },
    /// The file was rewritten in the current version of the format.
    Migrated {
        /// The version it had.
        from_version: u64,
        /// Where the old file is now.
        backup: PathBuf,
    },
    /// The file system has no locks: a second writer is noticed only by what it writes.
    LockUnavailable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
}

/// What someone else did to a session file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It is gone.
    Removed,
    /// Another file stands in its place.
    Replaced,
    /// It has another length.
    Resized,
    /// It has another time of change.
    Touched,
}

/// What was found in a session that is no entry. The bytes stay where they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DamageReport {
    /// The first findings, [`DamageReport::LISTED`] at most.
    pub items: Vec<Damage>,
    /// Number of all findings.
    pub total: u64,
    /// Number of entries that name a parent which is not there, and were joined to an entry
    /// that stands before them.
    pub joined: u64,
}

/// One line that is no entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damage {
    /// Its number, from 1.
    pub line: u64,
    /// Where it begins, in bytes from the start of the file.
    pub offset: u64,
    /// Its length in bytes without the line end.
    pub len: u64,
    /// What is wrong with it.
    pub reason: DamageReason,
}

/// Why a line is no entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DamageReason {
    /// It is not JSON.
    MalformedJson,
    /// It is JSON, but no object.
    NotAnObject,
    /// It holds NUL bytes, as a power cut leaves them. An entry behind them is still read.
    NulBytes,
    /// It is not UTF-8.
    InvalidUtf8,
    /// It has no id.
    MissingId,
    /// It has no type.
    MissingType,
    /// It is a second header.
    SecondHeader,
    /// A later entry has the same id and counts instead.
    DuplicateId,
    /// It is longer than any entry may be.
    TooLong,
    /// It is the last line and was cut off.
    TornTail,
}

impl DamageReport {
    /// How many findings are listed one by one.
    pub const LISTED: usize = 100;

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.total == 0 && self.joined == 0
    }

    /// Adds a finding.
    pub fn push(&mut self, damage: Damage) {
        self.total += 1;
        if self.items.len() < Self::LISTED {
            self.items.push(damage);
        }
    }
}

impl fmt::Display for DamageReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.total > 0 || self.joined == 0 {
            let lines = if self.total == 1 { "line" } else { "lines" };
            write!(f, "{} damaged {lines}", self.total)?;
        }
        for (at, damage) in self.items.iter().take(3).enumerate() {
            write!(f, "{}{damage}", if at == 0 { ": " } else { "; " })?;
        }
        if self.total > 3 {
            f.write_str("; …")?;
        }
        if self.joined == 0 {
            return Ok(());
        }
        let comma = if self.total > 0 { ", " } else { "" };
        let entries = if self.joined == 1 { "entry" } else { "entries" };
        write!(f, "{comma}{} {entries} joined over a hole", self.joined)
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {} at byte {} ({})",
            self.line, self.offset, self.reason
        )
    }
}

impl fmt::Display for DamageReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MalformedJson => "malformed JSON",
            Self::NotAnObject => "not an object",
            Self::NulBytes => "NUL bytes",
            Self::InvalidUtf8 => "invalid UTF-8",
            Self::MissingId => "no id",
            Self::MissingType => "no type",
            Self::SecondHeader => "second header",
            Self::DuplicateId => "id used again",
            Self::TooLong => "too long",
            Self::TornTail => "cut off",
        })
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ForkedBecauseBusy { from, to } => write!(
                f,
                "session `{}` is in use by another process; continuing in `{}`",
                from.display(),
                to.display()
            ),
            Self::TurnLeftOut { from, entries } => write!(
                f,
                "the unfinished turn of the process that writes `{}` was left out ({})",
                from.display(),
                entries_text(*entries)
            ),
            Self::ForkedBecauseChanged {
                from,
                to,
                change,
                lost,
            } => {
                write!(
                    f,
                    "session `{}` was {change} by someone else; continuing in `{}`",
                    from.display(),
                    to.display()
                )?;
                if *lost > 0 {
                    write!(f, "; {lost} entries were gone")
                } else {
                    Ok(())
                }
            }
            Self::TailMoved { to, bytes } => write!(
                f,
                "the last line of the session was cut off; its {bytes} bytes are in `{}`",
                to.display()
            ),
            Self::NewerVersion { path, version } => write!(
                f,
                "session `{}` has version {version} of the format, of which this program may not know all",
                path.display()
            ),
            Self::NulBytesCut { bytes } => write!(
                f,
                "{bytes} NUL bytes were cut off from the end of the session"
            ),
            Self::Migrated {
                from_version,
                backup,
            } => write!(
                f,
                "session rewritten from version {from_version}; the old file is `{}`",
                backup.display()
            ),
            Self::LockUnavailable { path, reason } => {
                write!(f, "cannot lock session `{}`: {reason}", path.display())
            }
        }
    }
}

fn entries_text(count: usize) -> String {
    match count {
        1 => "1 entry".to_owned(),
        count => format!("{count} entries"),
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Removed => "removed",
            Self::Replaced => "replaced",
            Self::Resized | Self::Touched => "changed",
        })
    }
}
