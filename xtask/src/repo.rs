//! Reading the repository: its root, its files, paths relative to it.

use crate::Error;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The checked-out repository.
#[derive(Debug, Clone)]
pub struct Repo {
    root: PathBuf,
}

/// One source file: where it is and what it holds.
#[derive(Debug, Clone)]
pub struct SourceFile {
    /// Path relative to the root, with `/`.
    pub path: String,
    /// The text.
    pub text: String,
}

impl Repo {
    /// The repository that cargo runs this program or test in; without cargo, the one that it was
    /// built from. Two checkouts may share a build folder, so the latter alone would not do.
    pub fn here() -> Self {
        let running = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let manifest = running.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
        let manifest = manifest.as_path();
        Self {
            root: manifest.parent().unwrap_or(manifest).to_owned(),
        }
    }

    /// A repository at a given root.
    pub fn at(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    /// The root folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The text of a file, named relative to the root.
    ///
    /// # Errors
    /// When the file cannot be read or is no UTF-8.
    pub fn read(&self, path: &str) -> Result<String, Error> {
        let full = self.root.join(path);
        fs::read_to_string(&full).map_err(|e| Error::io(&full, e))
    }

    /// Like [`Repo::read`], but `None` for a file that does not exist.
    ///
    /// # Errors
    /// When the file exists and cannot be read.
    pub fn read_if_exists(&self, path: &str) -> Result<Option<String>, Error> {
        let full = self.root.join(path);
        match fs::read_to_string(&full) {
            Ok(text) => Ok(Some(text)),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::io(&full, e)),
        }
    }

    /// Writes a file, named relative to the root.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, path: &str, text: &str) -> Result<(), Error> {
        let full = self.root.join(path);
        fs::write(&full, text).map_err(|e| Error::io(&full, e))
    }

    /// All files below `folder` whose name ends in `.extension`, sorted by path. A missing folder
    /// has no files. Symbolic links are not followed.
    ///
    /// # Errors
    /// When a folder or a file cannot be read.
    pub fn files(&self, folder: &str, extension: &str) -> Result<Vec<SourceFile>, Error> {
        let mut found = Vec::new();
        self.collect(&self.root.join(folder), extension, &mut found)?;
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    /// A path relative to the root, with `/`; unchanged when it lies elsewhere.
    pub fn relative(&self, path: &Path) -> String {
        let inside = path.strip_prefix(&self.root).unwrap_or(path);
        inside.to_string_lossy().into_owned()
    }

    fn collect(
        &self,
        folder: &Path,
        extension: &str,
        found: &mut Vec<SourceFile>,
    ) -> Result<(), Error> {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(Error::io(folder, e)),
        };
        for entry in entries {
            let entry = entry.map_err(|e| Error::io(folder, e))?;
            let path = entry.path();
            let kind = entry.file_type().map_err(|e| Error::io(&path, e))?;
            if kind.is_dir() {
                self.collect(&path, extension, found)?;
            } else if kind.is_file() && path.extension().is_some_and(|e| e == extension) {
                let text = fs::read_to_string(&path).map_err(|e| Error::io(&path, e))?;
                let path = self.relative(&path);
                found.push(SourceFile { path, text });
            }
        }
        Ok(())
    }
}
