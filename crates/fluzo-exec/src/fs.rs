//! The file system as the tools see it: one object-safe trait, its value types, and the names and texts of errors.
//!
//! Everything here blocks. Async callers hop to a worker thread with [`blocking`].

use std::ffi::OsString;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// What an entry is once symbolic links are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A pipe, socket, device or anything else.
    Other,
}

/// Facts about one file, links followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileMeta {
    /// What it is.
    pub kind: FileKind,
    /// Length in bytes.
    pub len: u64,
    /// Permission bits, set-id and sticky bits included (`0o7777`).
    pub mode: u32,
    /// Time of the last content change, in milliseconds since the Unix epoch.
    pub modified_ms: i64,
    /// Device and inode number: equal for two paths that name one file.
    pub identity: (u64, u64),
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// File name without its directory.
    pub name: OsString,
    /// What the entry is, links followed; `None` when it could not be examined (a dangling link, for one).
    pub kind: Option<FileKind>,
    /// Whether the entry itself is a symbolic link.
    pub is_symlink: bool,
}

/// A readable, seekable, sendable stream of bytes.
pub trait ReadSeek: Read + Seek + Send {}

impl<T: Read + Seek + Send> ReadSeek for T {}

/// A new file for output that is too long to be shown. Writes go to it at once; nothing is buffered.
pub struct SpillFile {
    /// Where it is.
    pub path: PathBuf,
    /// Takes the content.
    pub writer: Box<dyn Write + Send>,
}

/// Access to files. Every method blocks and cannot be cancelled.
pub trait FileSystem: Send + Sync {
    /// Facts about `path`, links followed.
    fn metadata(&self, path: &Path) -> io::Result<FileMeta>;

    /// Opens a regular file for reading, without ever waiting on a pipe or device and without taking a terminal.
    /// A directory fails as `EISDIR`, any other kind as [`io::ErrorKind::InvalidInput`].
    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadSeek>>;

    /// The whole content of a regular file; fails as [`FileSystem::open`] does.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut file = self.open(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Entries of a directory in no particular order.
    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>>;

    /// At most `limit` entries of a directory in no particular order, and whether there are more.
    fn read_dir_up_to(&self, path: &Path, limit: usize) -> io::Result<(Vec<DirEntry>, bool)> {
        let mut entries = self.read_dir(path)?;
        let more = entries.len() > limit;
        entries.truncate(limit);
        Ok((entries, more))
    }

    /// Whether the process may read and write `path`, as `access(2)` decides it; neither asks only for existence.
    fn check_access(&self, path: &Path, read: bool, write: bool) -> io::Result<()>;

    /// Makes a directory and its missing parents; one that exists is fine.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;

    /// Makes `bytes` the whole content of `path`.
    ///
    /// Readers see the old or the new content, never a mixture. An existing file keeps its mode, owner and extended
    /// attributes; a new one gets `0666` less the umask. A link is resolved and its target replaced. What exists and is
    /// no regular file is refused, and so is a file that the process may not write.
    ///
    /// Three cases are rewritten in place instead, so that a reader may see a part: a file with several hard links, a
    /// file whose owner could not be kept, and a file in a directory that takes no new entry.
    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;

    /// The absolute path with every link resolved; fails when `path` does not exist.
    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf>;

    /// Makes an empty file in `folder`, named `prefix`, sixteen random hexadecimal digits and `.log`. It did not exist
    /// before, and nobody but its owner may read it. It is never removed here.
    fn create_spill(&self, folder: &Path, prefix: &str) -> io::Result<SpillFile>;
}

/// Runs blocking work on tokio's worker threads.
///
/// Once begun, the work runs to its end even when the returned future is dropped. Outside a tokio runtime, when the
/// runtime shuts down first, or when `work` panics, the result is an error of kind [`io::ErrorKind::Other`].
pub async fn blocking<T, F>(work: F) -> io::Result<T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let handle = tokio::runtime::Handle::try_current().map_err(io::Error::other)?;
    handle.spawn_blocking(work).await.map_err(io::Error::other)
}

/// Symbolic name of an error, such as `ENOENT`. `EIO` for a system error without a name here, `UNKNOWN` when the error did
/// not come from the system and its kind has no counterpart there.
pub fn errno_name(error: &io::Error) -> &'static str {
    describe(error).0
}

/// Plain lower-case text of an error, such as `no such file or directory`; `i/o error` or `unknown error` where
/// [`errno_name`] has no better name. The refusal of a pipe or device says which it is.
pub fn errno_text(error: &io::Error) -> &'static str {
    let special = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<NotRegular>());
    special.map_or_else(|| describe(error).1, |special| special.0)
}

/// Refusal of what is neither a regular file nor a directory; holds its text.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NotRegular(pub(crate) &'static str);

const NAMED: &[(i32, &str, &str)] = &[
    (libc::ENOENT, "ENOENT", "no such file or directory"),
    (libc::EACCES, "EACCES", "permission denied"),
    (libc::EPERM, "EPERM", "operation not permitted"),
    (libc::EISDIR, "EISDIR", "illegal operation on a directory"),
    (libc::ENOTDIR, "ENOTDIR", "not a directory"),
    (libc::EEXIST, "EEXIST", "file already exists"),
    (libc::ENOTEMPTY, "ENOTEMPTY", "directory not empty"),
    (libc::EINVAL, "EINVAL", "invalid argument"),
    (libc::ELOOP, "ELOOP", "too many symbolic links encountered"),
    (libc::ENAMETOOLONG, "ENAMETOOLONG", "name too long"),
    (libc::ENOSPC, "ENOSPC", "no space left on device"),
    (libc::EDQUOT, "EDQUOT", "disk quota exceeded"),
    (libc::EROFS, "EROFS", "read-only file system"),
    (libc::EFBIG, "EFBIG", "file too large"),
    (libc::EMFILE, "EMFILE", "too many open files"),
    (libc::ENFILE, "ENFILE", "file table overflow"),
    (libc::EBUSY, "EBUSY", "resource busy or locked"),
    (libc::ETXTBSY, "ETXTBSY", "text file is busy"),
    (libc::EXDEV, "EXDEV", "cross-device link not permitted"),
    (libc::ENXIO, "ENXIO", "no such device or address"),
    (libc::ENODEV, "ENODEV", "no such device"),
    (libc::EAGAIN, "EAGAIN", "resource temporarily unavailable"),
    (libc::EINTR, "EINTR", "interrupted system call"),
    (libc::EPIPE, "EPIPE", "broken pipe"),
    (libc::ENOMEM, "ENOMEM", "not enough memory"),
    (libc::ESTALE, "ESTALE", "stale file handle"),
    (libc::ETIMEDOUT, "ETIMEDOUT", "connection timed out"),
    (libc::EIO, "EIO", "i/o error"),
];

fn describe(error: &io::Error) -> (&'static str, &'static str) {
    let code = error.raw_os_error().or_else(|| code_of_kind(error.kind()));
    match code {
        Some(code) => NAMED
            .iter()
            .find(|named| named.0 == code)
            .map_or(("EIO", "i/o error"), |named| (named.1, named.2)),
        None => ("UNKNOWN", "unknown error"),
    }
}

/// The system's code for a kind of error, where one stands for it.
pub(crate) fn code_of_kind(kind: io::ErrorKind) -> Option<i32> {
    Some(match kind {
        io::ErrorKind::NotFound => libc::ENOENT,
        io::ErrorKind::PermissionDenied => libc::EACCES,
        io::ErrorKind::AlreadyExists => libc::EEXIST,
        io::ErrorKind::InvalidInput => libc::EINVAL,
        io::ErrorKind::IsADirectory => libc::EISDIR,
        io::ErrorKind::NotADirectory => libc::ENOTDIR,
        io::ErrorKind::StorageFull => libc::ENOSPC,
        io::ErrorKind::QuotaExceeded => libc::EDQUOT,
        io::ErrorKind::FileTooLarge => libc::EFBIG,
        io::ErrorKind::ReadOnlyFilesystem => libc::EROFS,
        io::ErrorKind::ResourceBusy => libc::EBUSY,
        io::ErrorKind::CrossesDevices => libc::EXDEV,
        io::ErrorKind::InvalidFilename => libc::ENAMETOOLONG,
        io::ErrorKind::BrokenPipe => libc::EPIPE,
        io::ErrorKind::OutOfMemory => libc::ENOMEM,
        io::ErrorKind::TimedOut => libc::ETIMEDOUT,
        io::ErrorKind::WouldBlock => libc::EAGAIN,
        io::ErrorKind::Interrupted => libc::EINTR,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_texts_of_errors() {
        let check = |error: io::Error, name: &str, text: &str| {
            assert_eq!(
                (errno_name(&error), errno_text(&error)),
                (name, text),
                "{error:?}"
            );
        };
        for (code, name, text) in NAMED {
            check(io::Error::from_raw_os_error(*code), name, text);
        }
        check(
            io::Error::from(io::ErrorKind::NotFound),
            "ENOENT",
            "no such file or directory",
        );
        check(
            io::Error::from_raw_os_error(libc::EKEYREJECTED),
            "EIO",
            "i/o error",
        );
        check(io::Error::other("odd"), "UNKNOWN", "unknown error");
    }
}
