//! Files that several processes change in turn: read within bounds, replaced as a whole,
//! guarded by locks.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::NamedTempFile;

/// Far more than any of these files needs.
const LARGEST: u64 = 16 << 20;
pub(crate) const OWNER_ONLY: u32 = 0o600;
/// End of the names of files that are written and have not taken their place yet.
const UNFINISHED: &str = ".tmp";
/// How often a lock folder is asked for, and how long apart.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(20);
/// A lock folder that was not touched for so long has no owner any more: pi touches its own
/// every five seconds, and ours are held for milliseconds.
const ABANDONED: Duration = Duration::from_secs(10);

/// The content and permission bits of a regular file; none when there is no file.
pub(crate) fn read(path: &Path) -> io::Result<Option<(Vec<u8>, u32)>> {
    let meta = match fs::metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    // A pipe that nobody writes to would be waited for without end.
    if !meta.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is no regular file",
        ));
    }
    if meta.len() > LARGEST {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(Some((bytes, meta.permissions().mode() & 0o7777)))
}

/// Makes a folder and those above it, for `mode`.
pub(crate) fn make_folder(folder: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(mode).create(folder)
}

/// Takes an advisory lock on the file `path`, or says with `None` that another process has it.
/// It ends with its process, however that dies.
pub(crate) fn try_lock(path: &Path) -> io::Result<Option<File>> {
    // To open a pipe is to wait for its reader, which may never come.
    if fs::metadata(path).is_ok_and(|meta| !meta.is_file()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let text = format!("its lock `{name}` is no regular file; remove it");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(OWNER_ONLY)
        .open(path)?;
    match lock.try_lock() {
        // Closing the file gives the lock back, and so does the end of the process.
        Ok(()) => Ok(Some(lock)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// The lock of a file that pi changes as well: a folder beside it, named as the file with
/// `.lock`. Dropping the value gives it back; a process that is killed leaves it behind.
pub(crate) struct LockFolder(PathBuf);

/// Why a lock folder was not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LockError {
    /// Somebody has it.
    #[error("another program is changing it; try again")]
    Held,
    /// Somebody had it and has probably died.
    #[error(
        "its lock `{lock}` was left behind {seconds} seconds ago; if no other program is running, remove it: `rmdir '{lock}'`"
    )]
    Abandoned { lock: String, seconds: u64 },
    /// None can be made.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl LockFolder {
    /// Takes the lock of `file`, and waits for it a fifth of a second at most.
    pub(crate) fn take(file: &Path) -> Result<Self, LockError> {
        let mut path = file.as_os_str().to_owned();
        path.push(".lock");
        let path = PathBuf::from(path);
        for tries in 1.. {
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(error.into());
                }
                Err(_) if tries < TRIES => std::thread::sleep(PAUSE),
                Err(_) => break,
            }
        }
        let age = fs::metadata(&path).and_then(|meta| meta.modified());
        let age = age.ok().and_then(|time| time.elapsed().ok());
        match age.filter(|age| *age > ABANDONED) {
            Some(age) => Err(LockError::Abandoned {
                lock: path.display().to_string(),
                seconds: age.as_secs(),
            }),
            None => Err(LockError::Held),
        }
    }
}

impl Drop for LockFolder {
    fn drop(&mut self) {
        // One that somebody has removed is gone all the same.
        let _ = fs::remove_dir(&self.0);
    }
}

/// A temporary file beside the one that it will replace, as large as its content may become.
/// Dropping it leaves nothing behind.
pub(crate) struct Room {
    temporary: NamedTempFile,
    parent: PathBuf,
    target: PathBuf,
}

impl Room {
    /// Makes sure that `bytes` can be written in the place of `file`, which will have `mode`.
    /// `prefix` begins the names of its temporary files; what a killed process left under it
    /// is removed, so the lock must be held.
    pub(crate) fn reserve(file: &Path, prefix: &str, mode: u32, bytes: usize) -> io::Result<Self> {
        // A link stays one; what it leads to is replaced.
        let target = match file.canonicalize() {
            Ok(target) => target,
            Err(error) if error.kind() == io::ErrorKind::NotFound => file.to_owned(),
            Err(error) => return Err(error),
        };
        let parent = target.parent().unwrap_or(Path::new("/")).to_owned();
        remove_unfinished(&parent, prefix);
        let mut temporary = tempfile::Builder::new()
            .prefix(prefix)
            .suffix(UNFINISHED)
            .permissions(fs::Permissions::from_mode(mode))
            .tempfile_in(&parent)?;
        temporary.write_all(&vec![b' '; bytes])?;
        temporary.as_file().sync_all()?;
        Ok(Self {
            temporary,
            parent,
            target,
        })
    }

    /// Puts `text` in the place of the file. Readers see the old or the new content and
    /// nothing else; when it returns, the new one outlives a loss of power.
    pub(crate) fn commit(self, text: &str) -> io::Result<()> {
        let Self {
            mut temporary,
            parent,
            target,
        } = self;
        temporary.rewind()?;
        temporary.write_all(text.as_bytes())?;
        temporary.as_file().set_len(text.len() as u64)?;
        temporary.as_file().sync_all()?;
        temporary.persist(&target).map_err(|error| error.error)?;
        // So that the new name outlives a loss of power, where the file system can do that.
        let _ = File::open(parent).and_then(|folder| folder.sync_all());
        Ok(())
    }
}

/// What a process left that was killed while it wrote; the lock says that no other is writing.
fn remove_unfinished(folder: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(prefix) && name.ends_with(UNFINISHED) {
            // One that cannot be removed does no harm.
            let _ = fs::remove_file(entry.path());
        }
    }
}
