//! Finding resource files in a folder: the walks end on cycles of links, on huge and on deep folders.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use fluzo_exec::{DirEntry, FileKind, FileSystem};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::diagnostic::{Diagnostic, ResourceKind};
use crate::reading::{error_text, read_whole};
use crate::sources::Limits;

/// What a skill's own folder holds.
pub(crate) const SKILL_FILE: &str = "SKILL.md";

/// Ignore files that count in every folder of skills, the later ones stronger.
const IGNORE_FILES: [&str; 4] = [".gitignore", ".ignore", ".fdignore", ".piignore"];

/// Files of one kind in `folder`, sorted by path.
///
/// Skills: the first `SKILL.md` on each way down, and markdown files of `folder` itself. Prompt templates and themes: files of
/// `folder` itself. Hidden entries, `node_modules` and broken links are passed over, links are followed. A folder that does not
/// exist holds nothing.
pub fn resource_files(
    kind: ResourceKind,
    folder: &Path,
    files: &dyn FileSystem,
    limits: &Limits,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<PathBuf> {
    find(kind, folder, true, files, limits, diagnostics)
}

/// As [`resource_files`]; without `loose` markdown files of the folder itself are no skills.
pub(crate) fn find(
    kind: ResourceKind,
    folder: &Path,
    loose: bool,
    files: &dyn FileSystem,
    limits: &Limits,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<PathBuf> {
    let mut walk = Walk {
        kind,
        root: folder,
        loose,
        files,
        limits,
        left: limits.entries,
        seen: HashSet::new(),
        rules: Vec::new(),
        found: Vec::new(),
        diagnostics,
    };
    walk.folder(folder, 0);
    walk.found
}

struct Walk<'a> {
    kind: ResourceKind,
    root: &'a Path,
    loose: bool,
    files: &'a dyn FileSystem,
    limits: &'a Limits,
    /// Entries that may still be looked at.
    left: usize,
    /// Folders that were entered, by device and inode.
    seen: HashSet<(u64, u64)>,
    /// Rules of the folders on the way, the innermost last.
    rules: Vec<Gitignore>,
    found: Vec<PathBuf>,
    diagnostics: &'a mut Vec<Diagnostic>,
}

impl Walk<'_> {
    fn folder(&mut self, folder: &Path, depth: usize) {
        match self.files.metadata(folder) {
            Ok(meta) if meta.kind == FileKind::Directory => {
                if !self.seen.insert(meta.identity) {
                    return;
                }
            }
            Ok(_) => return,
            Err(error) => return self.failed(folder, &error),
        }
        if depth > self.limits.depth {
            let text = format!(
                "folders below {} levels are not searched",
                self.limits.depth
            );
            return self.warn(folder, text);
        }
        let outer = self.rules.len();
        if self.kind == ResourceKind::Skill {
            self.read_rules(folder);
        }
        if self.kind != ResourceKind::Skill || !self.is_skill(folder) {
            self.entries(folder, depth);
        }
        self.rules.truncate(outer);
    }

    /// Takes `folder` as a skill if it is one.
    fn is_skill(&mut self, folder: &Path) -> bool {
        let file = folder.join(SKILL_FILE);
        match self.files.metadata(&file) {
            Ok(meta) if meta.kind == FileKind::File => {
                if !self.ignored(&file, false) {
                    self.found.push(file);
                }
                true
            }
            Ok(meta) if meta.kind == FileKind::Other => {
                self.warn(&file, "not a regular file".to_owned());
                true
            }
            _ => false,
        }
    }

    fn entries(&mut self, folder: &Path, depth: usize) {
        if self.left == 0 {
            return;
        }
        let (mut entries, more) = match self.files.read_dir_up_to(folder, self.left) {
            Ok(listed) => listed,
            Err(error) => return self.failed(folder, &error),
        };
        self.left -= entries.len();
        if more {
            self.left = 0;
        }
        if self.left == 0 {
            let text = format!(
                "only {} entries are looked at; what is beyond is not found",
                self.limits.entries
            );
            self.warn(self.root, text);
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        for entry in entries {
            self.entry(folder, &entry, depth);
        }
    }

    fn entry(&mut self, folder: &Path, entry: &DirEntry, depth: usize) {
        let name = entry.name.to_string_lossy();
        if name.starts_with('.') || name == "node_modules" {
            return;
        }
        let path = folder.join(&entry.name);
        let folder = entry.kind == Some(FileKind::Directory);
        if folder && self.kind == ResourceKind::Skill {
            if !self.ignored(&path, true) {
                self.folder(&path, depth + 1);
            }
        } else if entry.kind == Some(FileKind::File)
            && depth == 0
            && self.loose
            && has_form(self.kind, &path)
            && !self.ignored(&path, false)
        {
            self.found.push(path);
        }
    }

    fn read_rules(&mut self, folder: &Path) {
        let mut rules = GitignoreBuilder::new(folder);
        let mut any = false;
        for name in IGNORE_FILES {
            let path = folder.join(name);
            if self
                .files
                .metadata(&path)
                .is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
            {
                continue;
            }
            match read_whole(self.files, &path, self.limits.resource_bytes) {
                Ok(text) => {
                    any = true;
                    for line in text.lines() {
                        // Git passes over a line that it cannot use, too.
                        let _ = rules.add_line(None, line);
                    }
                }
                Err(text) => self.warn(&path, format!("the file is not used: {text}")),
            }
        }
        if any && let Ok(rules) = rules.build() {
            self.rules.push(rules);
        }
    }

    fn ignored(&self, path: &Path, is_folder: bool) -> bool {
        for rules in self.rules.iter().rev() {
            match rules.matched(path, is_folder) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        false
    }

    fn failed(&mut self, folder: &Path, error: &io::Error) {
        // Nothing there is nothing wrong: usual places need not exist.
        if error.kind() != io::ErrorKind::NotFound {
            self.warn(
                folder,
                format!("the folder could not be read: {}", error_text(error)),
            );
        }
    }

    fn warn(&mut self, path: &Path, text: String) {
        self.diagnostics
            .push(Diagnostic::warning(self.kind, path, text));
    }
}

/// Whether a file is called as files of its kind are.
pub(crate) fn has_form(kind: ResourceKind, path: &Path) -> bool {
    kind.form().is_none_or(|(extension, _)| {
        path.extension()
            .is_some_and(|own| own.eq_ignore_ascii_case(extension))
    })
}
