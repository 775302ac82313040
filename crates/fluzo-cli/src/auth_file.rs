//! `auth.json` on disk: readable by its owner only, replaced as a whole, changed in turn.

use std::io;
use std::path::{Path, PathBuf};

use fluzo_credentials::outside::{CredentialFile, ReservedFile, StoredText};

use crate::kept_file::{self, OWNER_ONLY, Room};

const FILE: &str = "auth.json";
const LOCK: &str = "auth.lock";
/// Beginning of the names of temporary files.
const UNFINISHED: &str = ".auth-";
const FOLDER_OWNER_ONLY: u32 = 0o700;

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
        kept_file::make_folder(&self.folder, FOLDER_OWNER_ONLY)
    }
}

impl CredentialFile for AuthFile {
    fn path(&self) -> String {
        self.file().display().to_string()
    }

    fn read(&self) -> io::Result<Option<StoredText>> {
        let read = kept_file::read(&self.file())?;
        Ok(read.map(|(bytes, mode)| StoredText { bytes, mode }))
    }

    fn try_lock(&self) -> io::Result<Option<Box<dyn Send>>> {
        self.make_folder()?;
        let lock = kept_file::try_lock(&self.folder.join(LOCK))?;
        Ok(lock.map(|lock| Box::new(lock) as Box<dyn Send>))
    }

    fn reserve(&self, bytes: usize) -> io::Result<Box<dyn ReservedFile>> {
        self.make_folder()?;
        let room = Room::reserve(&self.file(), UNFINISHED, OWNER_ONLY, bytes)?;
        Ok(Box::new(room))
    }
}

impl ReservedFile for Room {
    fn commit(self: Box<Self>, text: &str) -> io::Result<()> {
        Room::commit(*self, text)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

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
