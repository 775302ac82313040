//! Changing a file of settings: in turn with every other process, pi included; what is not
//! changed stays as it was written.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

use fluzo_stdx::raw_json::{Broken, NotAnObject, RawObject};
use serde_json::Value;

use crate::kept_file::{self, LockError, LockFolder, Room};

/// Beginning of the names of temporary files.
const UNFINISHED: &str = ".settings-";

/// A file of settings that is changed. Every method blocks for as long as a small file
/// takes, and up to a fifth of a second more while another process changes it.
#[derive(Debug, Clone)]
pub(crate) struct SettingsFile {
    path: PathBuf,
    /// Permission bits of a folder that has to be made for it.
    folder_mode: u32,
    /// Permission bits of a file that has to be made.
    mode: u32,
}

/// Why a file of settings was not changed. It is as it was.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsFileError {
    /// It cannot be read.
    #[error("`{path}` cannot be read: {reason}")]
    Unreadable { path: String, reason: io::Error },
    /// It is no document. It is left alone until a person has mended it.
    #[error("`{path}` {problem}, and is not changed before it is mended")]
    Broken { path: String, problem: String },
    /// A value on the way to the setting is no object.
    #[error("`{path}` is not changed: setting `{key}` must be an object there")]
    NoObject { path: String, key: String },
    /// Its lock was not taken.
    #[error("`{path}` is not changed: {reason}")]
    Locked { path: String, reason: LockError },
    /// Nothing can be written.
    #[error("`{path}` cannot be written: {reason}")]
    Unwritable { path: String, reason: io::Error },
}

impl SettingsFile {
    /// The user's settings, which may hold what is nobody else's business.
    pub(crate) fn of_user(agent_folder: &Path) -> Self {
        Self {
            path: agent_folder.join("settings.json"),
            folder_mode: 0o700,
            mode: kept_file::OWNER_ONLY,
        }
    }

    /// The settings of the project in `workspace`.
    pub(crate) fn of_project(workspace: &Path) -> Self {
        Self {
            path: workspace.join(".pi").join("settings.json"),
            folder_mode: 0o777,
            mode: 0o644,
        }
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Sets keys, whose dots lead into objects: all of them or none.
    ///
    /// # Errors
    ///
    /// Why they were not set.
    pub(crate) fn set(&self, values: &[(&str, Value)]) -> Result<(), SettingsFileError> {
        self.change(|settings| {
            let set = |(key, value): &(&str, Value)| settings.set_at(&path_of(key), value);
            values.iter().try_for_each(set)
        })
    }

    /// Takes `key` out, so that the layer below counts.
    ///
    /// # Errors
    ///
    /// Why it is still there.
    pub(crate) fn remove(&self, key: &str) -> Result<(), SettingsFileError> {
        if matches!(kept_file::read(&self.path), Ok(None)) {
            return Ok(());
        }
        self.change(|settings| settings.remove_at(&path_of(key)))
    }

    /// Reads the file as it is now, lets `change` change it, and writes it.
    ///
    /// # Errors
    ///
    /// Why it was not changed.
    pub(crate) fn change(
        &self,
        change: impl FnOnce(&mut RawObject) -> Result<(), NotAnObject>,
    ) -> Result<(), SettingsFileError> {
        let parent = self.path.parent().unwrap_or(Path::new("/"));
        kept_file::make_folder(parent, self.folder_mode).map_err(|e| self.unwritable(e))?;
        let _lock = LockFolder::take(&self.path).map_err(|reason| SettingsFileError::Locked {
            path: self.shown(),
            reason,
        })?;
        let read = kept_file::read(&self.path).map_err(|reason| SettingsFileError::Unreadable {
            path: self.shown(),
            reason,
        })?;
        let exists = read.is_some();
        let (bytes, mode) = read.unwrap_or((Vec::new(), self.mode));
        let mut settings = RawObject::parse(&bytes).map_err(|broken| self.broken(broken))?;
        change(&mut settings).map_err(|NotAnObject(key)| SettingsFileError::NoObject {
            path: self.shown(),
            key,
        })?;
        let text = settings.to_text(0) + "\n";
        if exists && text.as_bytes() == bytes {
            return Ok(());
        }
        self.replace(exists, mode, &text)
            .map_err(|error| self.unwritable(error))
    }

    fn replace(&self, exists: bool, mode: u32, text: &str) -> io::Result<()> {
        if exists {
            // A new name needs no right on the old file; without one it is left alone.
            OpenOptions::new().write(true).open(&self.path)?;
        }
        Room::reserve(&self.path, UNFINISHED, mode, text.len())?.commit(text)
    }

    fn shown(&self) -> String {
        self.path.display().to_string()
    }

    fn broken(&self, broken: Broken) -> SettingsFileError {
        let problem = match broken {
            Broken::Syntax { line, column } => {
                format!("is not valid JSON (line {line}, column {column})")
            }
            Broken::NoObject => "must be a JSON object".to_owned(),
            Broken::NoText => "is not UTF-8 text".to_owned(),
        };
        SettingsFileError::Broken {
            path: self.shown(),
            problem,
        }
    }

    fn unwritable(&self, reason: io::Error) -> SettingsFileError {
        SettingsFileError::Unwritable {
            path: self.shown(),
            reason,
        }
    }
}

fn path_of(key: &str) -> Vec<&str> {
    key.split('.').collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use serde_json::json;

    use super::*;

    fn user(folder: &Path) -> SettingsFile {
        SettingsFile::of_user(folder)
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn what_is_not_changed_stays_as_it_was() {
        let place = tempfile::tempdir().unwrap();
        let file = user(place.path());
        let text = "{\n  \"z\": 1.50,\n  \"mine\": {\"b\": [1,  2]},\n  \"retry\": {\"maxRetries\": 3, \"x\": 1}\n}";
        fs::write(file.path(), text).unwrap();
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o640)).unwrap();
        file.set(&[("retry.maxRetries", json!(5))]).unwrap();
        file.set(&[("theme", json!("dark"))]).unwrap();
        file.remove("z").unwrap();
        file.remove("never.there").unwrap();
        let expected = "{\n  \"mine\": {\"b\": [1,  2]},\n  \"retry\": {\n    \"maxRetries\": 5,\n    \"x\": 1\n  },\n  \"theme\": \"dark\"\n}\n";
        assert_eq!(fs::read_to_string(file.path()).unwrap(), expected);
        assert_eq!(mode(file.path()), 0o640);
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    }

    #[test]
    fn folder_and_file_are_made_for_the_owner_only() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("new/agent");
        let file = user(&folder);
        file.remove("theme").unwrap();
        assert!(!folder.exists());
        file.set(&[("compaction.enabled", json!(false))]).unwrap();
        assert_eq!((mode(&folder), mode(file.path())), (0o700, 0o600));
        let text = "{\n  \"compaction\": {\n    \"enabled\": false\n  }\n}\n";
        assert_eq!(fs::read_to_string(file.path()).unwrap(), text);
        let project = SettingsFile::of_project(place.path());
        project.set(&[("theme", json!("dark"))]).unwrap();
        assert_eq!(project.path(), place.path().join(".pi/settings.json"));
    }

    #[test]
    fn what_cannot_be_changed_is_told_and_stays() {
        let place = tempfile::tempdir().unwrap();
        let file = user(place.path());
        let rows = [
            (
                "{ broken",
                "theme",
                "is not valid JSON (line 1, column 3), and is not changed before it is mended",
            ),
            (
                "[1]",
                "theme",
                "must be a JSON object, and is not changed before it is mended",
            ),
            (
                "{\"retry\": 1}",
                "retry.enabled",
                "is not changed: setting `retry` must be an object there",
            ),
        ];
        for (text, key, said) in rows {
            fs::write(file.path(), text).unwrap();
            let told = file.set(&[(key, json!(true))]).unwrap_err().to_string();
            assert_eq!(told, format!("`{}` {said}", file.path().display()));
            assert_eq!(fs::read_to_string(file.path()).unwrap(), text);
        }
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_lock_that_stays_is_told_and_never_taken_away() {
        let place = tempfile::tempdir().unwrap();
        let file = user(place.path());
        let lock = place.path().join("settings.json.lock");
        fs::create_dir(&lock).unwrap();
        let told = file.set(&[("theme", json!("a"))]).unwrap_err().to_string();
        assert!(
            told.ends_with("another program is changing it; try again"),
            "{told}"
        );
        let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
        let opened = fs::File::open(&lock).unwrap();
        opened.set_modified(long_ago).unwrap();
        let told = file.set(&[("theme", json!("a"))]).unwrap_err().to_string();
        let left = format!("its lock `{}` was left behind 6", lock.display());
        assert!(told.contains(&left) && told.contains("`rmdir '"), "{told}");
        assert!(lock.exists() && !file.path().exists());
        fs::remove_dir(&lock).unwrap();
        file.set(&[("theme", json!("a"))]).unwrap();
        assert!(!lock.exists());
    }

    #[test]
    fn a_link_stays_one_and_a_file_that_is_not_to_be_written_stays_as_it_is() {
        let place = tempfile::tempdir().unwrap();
        let (real, folder) = (place.path().join("real"), place.path().join("agent"));
        fs::create_dir_all(&real).unwrap();
        fs::create_dir_all(&folder).unwrap();
        fs::write(real.join("s.json"), "{}").unwrap();
        let file = user(&folder);
        std::os::unix::fs::symlink(real.join("s.json"), file.path()).unwrap();
        file.set(&[("theme", json!("a"))]).unwrap();
        assert!(file.path().is_symlink());
        let text = fs::read_to_string(real.join("s.json")).unwrap();
        assert_eq!(text, "{\n  \"theme\": \"a\"\n}\n");
    }

    /// Each thread writes keys of its own; none is lost.
    #[test]
    fn writers_at_the_same_time_lose_nothing() {
        let place = tempfile::tempdir().unwrap();
        let file = user(place.path());
        let set = |key: &str, value: u32| {
            while let Err(error) = file.set(&[(key, json!(value))]) {
                assert!(
                    matches!(
                        error,
                        SettingsFileError::Locked {
                            reason: LockError::Held,
                            ..
                        }
                    ),
                    "{error}"
                );
            }
        };
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    for number in 0..10 {
                        set(&format!("t{thread}.n{number}"), number);
                    }
                });
            }
        });
        let text = fs::read(file.path()).unwrap();
        let object: Value = serde_json::from_slice(&text).unwrap();
        for thread in 0..4 {
            let own = object[format!("t{thread}")].as_object().unwrap();
            assert_eq!(own.len(), 10, "{own:?}");
        }
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    }
}
