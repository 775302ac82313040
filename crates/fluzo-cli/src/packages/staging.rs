//! Folders that are made aside and take their place as a whole: a reader sees the old package
//! or the new one, and what was not finished leaves nothing.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Name of folders in which something is made.
const PREFIX: &str = ".fluzo-";
/// Held while folders change their names, and while one is begun.
const TURN: &str = ".fluzo-lock";
/// In each folder; locked as long as its process works in it.
const ALIVE: &str = "alive";

/// A folder beside the installed packages of one kind, gone when dropped.
pub(super) struct Staging {
    root: PathBuf,
    folder: TempDir,
    /// Closing the file gives the lock back, and so does the end of the process.
    _alive: File,
}

impl Staging {
    /// Makes one in `root`, which is made as well, and removes those of processes that are
    /// gone. Blocks while another process moves a package.
    pub(super) fn new(root: &Path) -> io::Result<Self> {
        fs::create_dir_all(root)?;
        let _turn = turn(root)?;
        remove_left(root);
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(root)?;
        let alive = File::create(folder.path().join(ALIVE))?;
        alive.lock()?;
        Ok(Self {
            root: root.to_owned(),
            folder,
            _alive: alive,
        })
    }

    /// An empty folder to work in, made for `name`.
    pub(super) fn work(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.folder.path().join(name);
        fs::create_dir(&path)?;
        Ok(path)
    }

    /// Makes `from`, which is in this folder, what `place` holds. The old content goes away
    /// with this folder.
    pub(super) fn put(&self, from: &Path, place: &Path) -> io::Result<()> {
        let _turn = turn(&self.root)?;
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent)?;
        }
        let old = self.take(place)?;
        fs::rename(from, place).inspect_err(|_| {
            if let Some(old) = &old {
                // The first error says more.
                let _ = fs::rename(old, place);
            }
        })
    }

    /// Takes away what `place` holds, and the folders above it that it leaves empty.
    pub(super) fn remove(&self, place: &Path) -> io::Result<bool> {
        let _turn = turn(&self.root)?;
        let is_there = self.take(place)?.is_some();
        let above = place.ancestors().skip(1);
        for folder in
            above.take_while(|folder| folder.starts_with(&self.root) && **folder != *self.root)
        {
            if fs::remove_dir(folder).is_err() {
                break;
            }
        }
        Ok(is_there)
    }

    fn take(&self, place: &Path) -> io::Result<Option<PathBuf>> {
        let old = tempfile::Builder::new()
            .prefix("old-")
            .tempdir_in(self.folder.path())?
            .keep()
            .join("old");
        match fs::rename(place, &old) {
            Ok(()) => Ok(Some(old)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn turn(root: &Path) -> io::Result<File> {
    let path = root.join(TURN);
    // To open a pipe is to wait for its other end.
    if fs::metadata(&path).is_ok_and(|meta| !meta.is_file()) {
        return Err(io::Error::other(format!(
            "`{}` is no regular file; remove it",
            path.display()
        )));
    }
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)?;
    file.lock()?;
    Ok(file)
}

/// Removes what processes left that were killed; nobody begins a folder meanwhile.
fn remove_left(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let is_used = File::open(path.join(ALIVE)).is_ok_and(|alive| alive.try_lock().is_err());
        if is_ours && is_folder && !is_used {
            // One that cannot be removed does no harm.
            let _ = fs::remove_dir_all(path);
        }
    }
}

/// The first link on the way from `base` to `place`, without `place` itself.
pub(super) fn link_between(base: &Path, place: &Path) -> Option<PathBuf> {
    let mut above: Vec<_> = place
        .ancestors()
        .skip(1)
        .take_while(|folder| folder.starts_with(base))
        .collect();
    above.reverse();
    let link = above.into_iter().find(|folder| folder.is_symlink())?;
    Some(link.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != TURN)
            .collect();
        names.sort();
        names
    }

    fn made(staging: &Staging, text: &str) -> PathBuf {
        let folder = staging.work("new").unwrap();
        fs::write(folder.join("f"), text).unwrap();
        folder
    }

    #[test]
    fn a_package_takes_its_place_as_a_whole_and_goes_with_empty_folders() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("git");
        let target = root.join("host/u/r");
        for text in ["one", "two"] {
            let staging = Staging::new(&root).unwrap();
            let folder = made(&staging, text);
            staging.put(&folder, &target).unwrap();
            assert_eq!(fs::read_to_string(target.join("f")).unwrap(), text);
        }
        assert_eq!(names(&root), ["host"]);
        let staging = Staging::new(&root).unwrap();
        assert!(staging.remove(&target).unwrap());
        assert!(!staging.remove(&target).unwrap());
        drop(staging);
        assert!(names(&root).is_empty());
    }

    #[test]
    fn what_cannot_take_its_place_leaves_the_old() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("p");
        fs::create_dir(&target).unwrap();
        let staging = Staging::new(place.path()).unwrap();
        assert!(staging.put(&place.path().join("gone"), &target).is_err());
        assert!(target.is_dir());
    }

    #[test]
    fn what_a_killed_process_left_goes_and_what_another_makes_stays() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        fs::create_dir_all(root.join(".fluzo-killed/new")).unwrap();
        fs::write(root.join(".fluzo-killed").join(ALIVE), "").unwrap();
        fs::create_dir_all(root.join("other")).unwrap();
        let first = Staging::new(root).unwrap();
        let second = Staging::new(root).unwrap();
        assert_eq!(names(root).len(), 3);
        assert!(first.folder.path().is_dir());
        drop((first, second));
        assert_eq!(names(root), ["other"]);
    }

    #[test]
    fn links_on_the_way_are_found() {
        let place = tempfile::tempdir().unwrap();
        let base = place.path();
        fs::create_dir_all(base.join("npm")).unwrap();
        assert_eq!(link_between(base, &base.join("npm/node_modules/a")), None);
        std::os::unix::fs::symlink("/", base.join("npm/node_modules")).unwrap();
        let link = link_between(base, &base.join("npm/node_modules/a"));
        assert_eq!(link, Some(base.join("npm/node_modules")));
        assert_eq!(link_between(base, &base.join("npm/node_modules")), None);
    }
}
