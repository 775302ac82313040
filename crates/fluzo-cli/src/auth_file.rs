//! `auth.json` on disk: readable by its owner only, replaced as a whole, changed in turn.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use fluzo_credentials::outside::{CredentialFile, ReservedFile, StoredText};
use tempfile::NamedTempFile;

const FILE: &str = "auth.json";
const LOCK: &str = "auth.lock";
/// Name of files that are written and have not taken their place yet.
const UNFINISHED: (&str, &str) = (".auth-", ".tmp");
const OWNER_ONLY: u32 = 0o600;
const FOLDER_OWNER_ONLY: u32 = 0o700;
/// Far more than any set of keys needs.
const LARGEST: u64 = 16 << 20;

/// `auth.json` of an agent folder.
pub(crate) struct AuthFile {
    folder: PathBuf,
}

impl AuthFile {
    pub(crate) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.join(FILE)
    }

    fn make_folder(&self) -> io::Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(FOLDER_OWNER_ONLY)
            .create(&self.folder)
    }
}

impl CredentialFile for AuthFile {
    fn path(&self) -> String {
        self.file().display().to_string()
    }

    fn read(&self) -> io::Result<Option<StoredText>> {
        let meta = match fs::metadata(self.file()) {
            Ok(meta) => meta,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
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
        File::open(self.file())?
            .take(LARGEST)
            .read_to_end(&mut bytes)?;
        Ok(Some(StoredText {
            bytes,
            mode: meta.permissions().mode() & 0o7777,
        }))
    }

    fn try_lock(&self) -> io::Result<Option<Box<dyn Send>>> {
        self.make_folder()?;
        let path = self.folder.join(LOCK);
        // To open a pipe is to wait for its reader, which may never come.
        if fs::metadata(&path).is_ok_and(|meta| !meta.is_file()) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "its lock `auth.lock` is no regular file; remove it",
            ));
        }
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(OWNER_ONLY)
            .open(path)?;
        match lock.try_lock() {
            // Closing the file gives the lock back, and so does the end of the process.
            Ok(()) => Ok(Some(Box::new(lock))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn reserve(&self, bytes: usize) -> io::Result<Box<dyn ReservedFile>> {
        self.make_folder()?;
        // A link stays one; what it leads to is replaced.
        let target = match self.file().canonicalize() {
            Ok(target) => target,
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.file(),
            Err(error) => return Err(error),
        };
        let parent = target.parent().unwrap_or(&self.folder).to_owned();
        remove_unfinished(&parent);
        let mut temporary = tempfile::Builder::new()
            .prefix(UNFINISHED.0)
            .suffix(UNFINISHED.1)
            .permissions(fs::Permissions::from_mode(OWNER_ONLY))
            .tempfile_in(&parent)?;
        temporary.write_all(&vec![b' '; bytes])?;
        temporary.as_file().sync_all()?;
        Ok(Box::new(Room {
            temporary,
            parent,
            target,
        }))
    }
}

/// What a process left that was killed while it wrote; the lock says that no other is writing.
fn remove_unfinished(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(UNFINISHED.0) && name.ends_with(UNFINISHED.1) {
            // One that cannot be removed does no harm.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// A temporary file beside the one that it will replace, as large as its content may become.
struct Room {
    temporary: NamedTempFile,
    parent: PathBuf,
    target: PathBuf,
}

impl ReservedFile for Room {
    fn commit(self: Box<Self>, text: &str) -> io::Result<()> {
        let Self {
            mut temporary,
            parent,
            target,
        } = *self;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    /// A process that another test starts has the lock's file open until it runs its program.
    fn locked(file: &AuthFile) -> Box<dyn Send> {
        loop {
            match file.try_lock().unwrap() {
                Some(lock) => return lock,
                None => std::thread::yield_now(),
            }
        }
    }

    fn write(file: &AuthFile, text: &str) {
        let lock = locked(file);
        file.reserve(text.len() + 10).unwrap().commit(text).unwrap();
        drop(lock);
    }

    #[test]
    fn file_and_folder_are_made_for_the_owner_only() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("new/agent");
        let file = AuthFile::new(&folder);
        assert!(file.read().unwrap().is_none());
        write(&file, "{}");
        assert_eq!(mode(&folder), 0o700);
        for name in [FILE, LOCK] {
            assert_eq!(mode(&folder.join(name)), 0o600, "{name}");
        }
        assert_eq!(file.read().unwrap().unwrap().bytes, b"{}");
        // One that others could read is closed with the next change.
        fs::set_permissions(folder.join(FILE), fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(file.read().unwrap().unwrap().mode, 0o644);
        write(&file, "{\"a\": 1}");
        assert_eq!(mode(&folder.join(FILE)), 0o600);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
    }

    #[test]
    fn the_lock_is_one_and_room_that_is_not_used_leaves_nothing() {
        let place = tempfile::tempdir().unwrap();
        let file = AuthFile::new(place.path());
        write(&file, "old");
        let lock = locked(&file);
        assert!(AuthFile::new(place.path()).try_lock().unwrap().is_none());
        let room = file.reserve(100).unwrap();
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 3);
        drop(room);
        fs::write(place.path().join(".auth-killed.tmp"), "x").unwrap();
        file.reserve(1).unwrap().commit("new").unwrap();
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2);
        assert_eq!(file.read().unwrap().unwrap().bytes, b"new");
        drop(lock);
        drop(locked(&file));
    }

    #[test]
    fn a_lock_that_is_no_file_is_refused_and_not_waited_for() {
        let place = tempfile::tempdir().unwrap();
        let made = std::process::Command::new("mkfifo")
            .arg(place.path().join(LOCK))
            .status();
        assert!(made.unwrap().success());
        let refused = AuthFile::new(place.path()).try_lock().err().unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_link_stays_one_and_what_is_no_file_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let (real, folder) = (place.path().join("real"), place.path().join("agent"));
        fs::create_dir_all(&real).unwrap();
        fs::create_dir_all(&folder).unwrap();
        fs::write(real.join("a.json"), "{}").unwrap();
        std::os::unix::fs::symlink(real.join("a.json"), folder.join(FILE)).unwrap();
        let file = AuthFile::new(&folder);
        write(&file, "[1]");
        assert!(folder.join(FILE).is_symlink());
        assert_eq!(fs::read(real.join("a.json")).unwrap(), b"[1]");
        fs::remove_file(folder.join(FILE)).unwrap();
        fs::create_dir(folder.join(FILE)).unwrap();
        assert!(file.read().is_err());
    }
}
