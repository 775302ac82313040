//! Folders as values: what is in them, and how two of them differ.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A longer file is only known to be too long.
const LONGEST_FILE: u64 = 1 << 20;
/// A folder with more files is not read.
const MOST_FILES: usize = 2000;

/// The files below a folder, by path with `/`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tree(BTreeMap<String, Entry>);

/// Something that is not a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A file.
    File {
        /// Its content.
        bytes: Vec<u8>,
        /// Whether anybody may execute it.
        executable: bool,
    },
    /// A link, a pipe, a file of more than a mebibyte.
    Odd,
}

/// How a path differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// It was not there before.
    Added,
    /// It is not there any more.
    Removed,
    /// It has other content or another kind.
    Changed,
}

impl Tree {
    /// Reads the files below `folder`. Links are not followed; entries of `folder` itself named in `skip` are left out.
    ///
    /// # Errors
    /// When something cannot be read, or there are too many files.
    pub(crate) fn read(folder: &Path, skip: &[&str]) -> io::Result<Self> {
        let mut tree = Self::default();
        tree.collect(folder, "", skip)?;
        Ok(tree)
    }

    /// All paths, sorted.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The content of the file at `path`.
    pub(crate) fn bytes(&self, path: &str) -> Option<&[u8]> {
        match self.0.get(path)? {
            Entry::File { bytes, .. } => Some(bytes),
            Entry::Odd => None,
        }
    }

    /// The files with their content; what is no file is left out.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().filter_map(|(path, entry)| match entry {
            Entry::File { bytes, .. } => Some((path.as_str(), bytes.as_slice())),
            Entry::Odd => None,
        })
    }

    /// The entries whose path is `wanted`.
    pub(crate) fn part(&self, wanted: impl Fn(&str) -> bool) -> Self {
        let entries = self.0.iter().filter(|(path, _)| wanted(path));
        Self(
            entries
                .map(|(path, entry)| (path.clone(), entry.clone()))
                .collect(),
        )
    }

    /// Puts a file at `path`, in place of what is there.
    pub(crate) fn put_file(&mut self, path: &str, bytes: &[u8]) {
        let entry = Entry::File {
            bytes: bytes.to_vec(),
            executable: false,
        };
        self.0.insert(path.to_owned(), entry);
    }

    /// Puts an entry at `path`, in place of what is there.
    #[cfg(test)]
    pub(crate) fn put(&mut self, path: &str, entry: Entry) {
        self.0.insert(path.to_owned(), entry);
    }

    /// What is different in `other`, by path.
    pub(crate) fn changes<'a>(&'a self, other: &'a Self) -> Vec<(&'a str, Change)> {
        let paths: BTreeSet<&str> = self.paths().chain(other.paths()).collect();
        let change = |path: &&'a str| match (self.0.get(*path), other.0.get(*path)) {
            (None, _) => Some(Change::Added),
            (_, None) => Some(Change::Removed),
            (before, after) => (before != after).then_some(Change::Changed),
        };
        paths
            .into_iter()
            .filter_map(|path| Some((path, change(&path)?)))
            .collect()
    }

    fn collect(&mut self, folder: &Path, prefix: &str, skip: &[&str]) -> io::Result<()> {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if skip.contains(&name.as_str()) {
                continue;
            }
            let path = format!("{prefix}{name}");
            let meta = entry.metadata()?;
            if meta.is_dir() {
                self.collect(&entry.path(), &format!("{path}/"), &[])?;
                continue;
            }
            let plain = meta.is_file() && meta.len() <= LONGEST_FILE;
            let read = if plain {
                Entry::File {
                    bytes: std::fs::read(entry.path())?,
                    executable: meta.permissions().mode() & 0o111 != 0,
                }
            } else {
                Entry::Odd
            };
            self.0.insert(path, read);
            if self.0.len() > MOST_FILES {
                return Err(io::Error::other(format!("more than {MOST_FILES} files")));
            }
        }
        Ok(())
    }
}

impl FromIterator<(String, Vec<u8>)> for Tree {
    fn from_iter<I: IntoIterator<Item = (String, Vec<u8>)>>(files: I) -> Self {
        let entry = |bytes| Entry::File {
            bytes,
            executable: false,
        };
        Self(
            files
                .into_iter()
                .map(|(path, bytes)| (path, entry(bytes)))
                .collect(),
        )
    }
}

impl Change {
    /// The word for it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Changed => "changed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_sees_links_modes_and_hidden_files() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        std::fs::create_dir_all(at("a/.b")).unwrap();
        std::fs::create_dir_all(at(".git")).unwrap();
        std::fs::write(at("a/.b/c"), "x").unwrap();
        std::fs::write(at(".git/config"), "x").unwrap();
        std::os::unix::fs::symlink("a", at("link")).unwrap();
        let before = Tree::read(folder.path(), &[".git"]).unwrap();
        assert_eq!(before.paths().collect::<Vec<_>>(), ["a/.b/c", "link"]);
        assert_eq!(before.bytes("link"), None);
        std::fs::set_permissions(at("a/.b/c"), PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::remove_file(at("link")).unwrap();
        std::fs::write(at("new"), "").unwrap();
        let after = Tree::read(folder.path(), &[".git"]).unwrap();
        let expected = [
            ("a/.b/c", Change::Changed),
            ("link", Change::Removed),
            ("new", Change::Added),
        ];
        assert_eq!(before.changes(&after), expected);
    }
}
