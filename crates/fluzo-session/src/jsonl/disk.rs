//! One session file: its lock, what others did to it, its end, and appending to it.

use std::fs::{self, File, Metadata, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::lines::MAX_LINE;
use super::scan::{Span, Tail};
use crate::store::{Change, Durability, Notice, StoreError};

/// An open session file.
///
/// The lock is advisory, on the file itself, taken before the first append and held until
/// the file is closed; reading needs none. Programs that know no lock are noticed by what
/// they leave: before each append length, time of change and identity must be what they
/// were after the last one.
#[derive(Debug)]
pub(super) struct Disk {
    path: PathBuf,
    reader: File,
    writer: Option<File>,
    stamp: Stamp,
    /// Length of the file as far as it is ours.
    len: u64,
    tail: Tail,
    /// A part of a line may stand behind `len` because cutting it off failed.
    ragged: bool,
}

/// Whether the file may be written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// It may.
    Ours,
    /// It may; the file system has no locks, for this reason.
    Unlocked(String),
    /// Another process writes it.
    Busy,
    /// Someone changed it.
    Changed(Change),
}

/// What tells one state of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    len: u64,
    modified: Option<SystemTime>,
    created: Option<SystemTime>,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            len: metadata.len(),
            modified: metadata.modified().ok(),
            created: metadata.created().ok(),
        }
    }

    fn change(self, now: Self) -> Option<Change> {
        if self.created != now.created {
            return Some(Change::Replaced);
        }
        if self.len != now.len {
            return Some(Change::Resized);
        }
        (self.modified != now.modified).then_some(Change::Touched)
    }
}

impl Disk {
    /// A file that was opened for reading, `reader` being anywhere in it; `scanned` is what
    /// the file was like before it was read.
    pub(super) fn opened(
        path: PathBuf,
        reader: File,
        scanned: &Metadata,
        len: u64,
        tail: Tail,
    ) -> Self {
        let stamp = Stamp {
            len,
            ..Stamp::of(scanned)
        };
        Self {
            path,
            reader,
            writer: None,
            stamp,
            len,
            tail,
            ragged: false,
        }
    }

    /// A file that this process has just made and written.
    pub(super) fn written(path: PathBuf, writer: File) -> Result<Self, StoreError> {
        let reader = File::open(&path).map_err(refused("open", &path))?;
        let metadata = writer.metadata().map_err(refused("read", &path))?;
        let stamp = Stamp::of(&metadata);
        let len = metadata.len();
        Ok(Self {
            path,
            reader,
            writer: Some(writer),
            stamp,
            len,
            tail: Tail::Ended,
            ragged: false,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Length of the file without a part of a line at its end.
    pub(super) fn sound_len(&self) -> u64 {
        match self.tail {
            Tail::Torn { offset, .. } => offset,
            Tail::Ended | Tail::NoLineEnd => self.len,
        }
    }

    pub(super) fn reader(&mut self) -> &mut File {
        &mut self.reader
    }

    /// Reads the text at `span`. None when it is not there or no text.
    pub(super) fn text(&mut self, span: Span) -> Option<String> {
        read_text(&mut self.reader, span)
    }

    /// Whether another process, or another handle, holds the lock. Takes none itself.
    pub(super) fn is_busy(&self) -> bool {
        // A handle of its own, so that closing it lets go of what it got.
        let probe = File::open(&self.path);
        probe.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// Makes sure that this process alone may append.
    pub(super) fn claim(&mut self) -> Result<Claim, StoreError> {
        if self.ragged {
            self.cut_off(self.len)?;
        }
        let change = self.change()?;
        if self.writer.is_none() {
            return self.take(change);
        }
        match change {
            None => Ok(Claim::Ours),
            Some(change) => {
                self.writer = None;
                Ok(Claim::Changed(change))
            }
        }
    }

    /// Opens the file for writing, locks it, and looks once more for changes. `change` is
    /// what was seen before.
    fn take(&mut self, change: Option<Change>) -> Result<Claim, StoreError> {
        let writer = match append_to(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Claim::Changed(Change::Removed));
            }
            opened => opened.map_err(refused("open", &self.path))?,
        };
        let claim = match lock(&writer) {
            Lock::Held => Claim::Ours,
            Lock::Busy => return Ok(Claim::Busy),
            Lock::Unavailable(reason) => Claim::Unlocked(reason),
        };
        if let Some(change) = change {
            return Ok(Claim::Changed(change));
        }
        // On a layered file system opening for writing makes another file of it, which
        // keeps length and time of change. What is read from now on must be that one.
        let reader = File::open(&self.path).map_err(refused("open", &self.path))?;
        let stamp = |file: &File| file.metadata().map(|metadata| Stamp::of(&metadata));
        let now = stamp(&writer).map_err(refused("read", &self.path))?;
        if now != stamp(&reader).map_err(refused("read", &self.path))? {
            return Ok(Claim::Changed(Change::Replaced));
        }
        if let Some(change) = self.stamp.change(Stamp {
            created: self.stamp.created,
            ..now
        }) {
            return Ok(Claim::Changed(change));
        }
        (self.reader, self.writer, self.stamp) = (reader, Some(writer), now);
        Ok(claim)
    }

    /// Moves a part of a line at the end to `<file>.damaged`, and cuts off NUL bytes behind
    /// it. A part that is longer than any entry stays, as a line of its own. The file must
    /// be claimed.
    pub(super) fn mend_tail(&mut self, durability: Durability) -> Result<Vec<Notice>, StoreError> {
        let Tail::Torn { offset, filled } = self.tail else {
            return Ok(Vec::new());
        };
        let notices = self.save_tail(durability)?;
        if filled > MAX_LINE as u64 {
            self.cut_off(offset + filled)?;
            self.tail = Tail::NoLineEnd;
        } else {
            self.cut_off(offset)?;
            self.tail = Tail::Ended;
        }
        Ok(notices)
    }

    /// Copies a part of a line at the end to `<file>.damaged`, without NUL bytes behind it.
    /// One that is longer than any entry is not copied.
    pub(super) fn save_tail(&mut self, durability: Durability) -> Result<Vec<Notice>, StoreError> {
        let Tail::Torn { offset, filled } = self.tail else {
            return Ok(Vec::new());
        };
        let mut notices = Vec::new();
        if (1..=MAX_LINE as u64).contains(&filled) {
            let to = self.copy_aside(offset, filled, durability)?;
            notices.push(Notice::TailMoved { to, bytes: filled });
        }
        let bytes = self.len.saturating_sub(offset + filled);
        if bytes > 0 {
            notices.push(Notice::NulBytesCut { bytes });
        }
        Ok(notices)
    }

    /// Appends `len` bytes from `offset` on to `<file>.damaged`, on a line of their own.
    fn copy_aside(
        &mut self,
        offset: u64,
        len: u64,
        durability: Durability,
    ) -> Result<PathBuf, StoreError> {
        let to = beside(&self.path, "damaged");
        let open = File::options().append(true).create(true).open(&to);
        let mut aside = open.map_err(refused("write", &to))?;
        self.reader
            .seek(SeekFrom::Start(offset))
            .map_err(refused("read", &self.path))?;
        let before = aside.metadata().map_err(refused("read", &to))?.len();
        if before > 0 {
            aside.write_all(b"\n").map_err(refused("write", &to))?;
        }
        let mut torn = (&mut self.reader).take(len);
        io::copy(&mut torn, &mut aside).map_err(refused("write", &to))?;
        if durability == Durability::Synced {
            aside.sync_data().map_err(refused("write", &to))?;
        }
        Ok(to)
    }

    /// Appends one line in one write. The file must be claimed and its tail mended.
    pub(super) fn append(
        &mut self,
        line: &str,
        durability: Durability,
    ) -> Result<Span, StoreError> {
        let mut bytes = Vec::with_capacity(line.len() + 2);
        if self.tail == Tail::NoLineEnd {
            bytes.push(b'\n');
        }
        let offset = self.len + bytes.len() as u64;
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
        if let Err(error) = self.write(&bytes, durability) {
            // What was written of the line must go, or the next one would be glued to it.
            self.ragged = self.cut_off(self.len).is_err();
            return Err(error);
        }
        self.len += bytes.len() as u64;
        self.tail = Tail::Ended;
        let len = u32::try_from(line.len()).unwrap_or(u32::MAX);
        Ok(Span { offset, len })
    }

    fn write(&mut self, bytes: &[u8], durability: Durability) -> Result<(), StoreError> {
        let after = (|| {
            let writer = self.writer.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            writer.write_all(bytes)?;
            if durability == Durability::Synced {
                writer.sync_data()?;
            }
            writer.metadata()
        })();
        self.stamp = Stamp::of(&after.map_err(refused("write", &self.path))?);
        Ok(())
    }

    fn cut_off(&mut self, len: u64) -> Result<(), StoreError> {
        let cut = (|| {
            let writer = self.writer.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            writer.set_len(len)?;
            writer.metadata()
        })();
        self.stamp = Stamp::of(&cut.map_err(refused("write", &self.path))?);
        self.len = len;
        self.ragged = false;
        Ok(())
    }

    fn change(&self) -> Result<Option<Change>, StoreError> {
        match fs::metadata(&self.path) {
            Ok(now) => Ok(self.stamp.change(Stamp::of(&now))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Some(Change::Removed)),
            Err(error) => Err(refused("read", &self.path)(error)),
        }
    }
}

/// What came of asking for a lock.
#[derive(Debug)]
pub(super) enum Lock {
    Held,
    Busy,
    Unavailable(String),
}

/// Asks for the lock on a session file.
pub(super) fn lock(file: &File) -> Lock {
    match file.try_lock() {
        Ok(()) => Lock::Held,
        Err(TryLockError::WouldBlock) => Lock::Busy,
        Err(TryLockError::Error(error)) => Lock::Unavailable(error.to_string()),
    }
}

/// Opens a file for appending that exists.
pub(super) fn append_to(path: &Path) -> io::Result<File> {
    File::options().append(true).open(path)
}

/// Makes a new file for appending.
pub(super) fn create_new(path: &Path) -> io::Result<File> {
    File::options().append(true).create_new(true).open(path)
}

/// The path of a companion file: the session file's with `.suffix` behind it.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

/// Names what was tried on which file.
pub(super) fn refused(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    move |source| StoreError::Io {
        action,
        path: path.to_owned(),
        source,
    }
}

/// Reads the text at `span` of `file`. None when it is not there or no text.
pub(super) fn read_text(file: &mut File, span: Span) -> Option<String> {
    let mut bytes = vec![0; span.len as usize];
    file.seek(SeekFrom::Start(span.offset)).ok()?;
    file.read_exact(&mut bytes).ok()?;
    String::from_utf8(bytes).ok()
}
