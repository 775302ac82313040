//! What an installed package brings: the files that its manifest names, or those of its four
//! folders, less what a filter leaves out.
//!
//! A package cannot bring what lies outside of it, neither by a path nor by a link, and cannot
//! make the walk over it endless.

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

use fluzo_exec::{FileKind, FileSystem};
use globset::{GlobBuilder, GlobMatcher};
use thiserror::Error;

use super::entry::Filters;
use super::manifest::{Manifest, ManifestError, PackagePart};
use crate::pattern::{Patterns, is_override};

/// Most entries of folders that are looked at in one package.
pub const LARGEST_WALK: usize = 10_000;
/// Most folders within each other.
const DEEPEST: usize = 32;
/// Most bytes of a `package.json`.
const LARGEST_MANIFEST: u64 = 1 << 20;
/// Most problems that are told of one package.
const MOST_PROBLEMS: usize = 20;
const SKILL: &str = "SKILL.md";

/// What a package brings, sorted within each entry of its manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    lists: [Vec<PathBuf>; 4],
    /// What could not be used, the first few.
    pub problems: Vec<ContentProblem>,
}

impl Contents {
    /// Files of one kind: of a skill its `SKILL.md` or its own file.
    pub fn of(&self, kind: PackagePart) -> &[PathBuf] {
        &self.lists[kind as usize]
    }
}

/// Why a part of a package is not used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ContentProblem {
    /// The package is not there.
    #[error("the package is not there")]
    Missing,
    /// Its manifest.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// Its manifest is too long, no file, or cannot be read.
    #[error("`package.json` was passed over: {0}")]
    Unreadable(String),
    /// A path or link that leads out of the package.
    #[error("`{0}` leads out of the package and was passed over")]
    Outside(String),
    /// A path of the manifest that is not there.
    #[error("`{0}` is named in `package.json` and not there")]
    NotThere(String),
    /// A pattern that cannot be used.
    #[error("{0}")]
    Pattern(String),
    /// A bound was met.
    #[error(
        "the package has more than {LARGEST_WALK} entries, or folders too deep in each other; the rest was passed over"
    )]
    TooMuch,
}

/// Looks up what the package in `root` brings.
///
/// A `root` that is a file is one extension. Nothing is read but `package.json` and folders.
pub fn contents(fs: &dyn FileSystem, root: &Path, filters: Option<&Filters>) -> Contents {
    let mut found = Contents::default();
    let (Ok(real), Ok(meta)) = (fs.canonicalize(root), fs.metadata(root)) else {
        found.problems.push(ContentProblem::Missing);
        return found;
    };
    if meta.kind != FileKind::Directory {
        if meta.kind == FileKind::File {
            found.lists[PackagePart::Extension as usize].push(root.to_owned());
        }
        return found;
    }
    let mut walk = Walk {
        fs,
        root,
        real,
        left: LARGEST_WALK,
        seen: HashSet::new(),
        problems: Vec::new(),
    };
    let manifest = walk.manifest(root);
    for kind in PackagePart::ALL {
        let all = match &manifest {
            Some(manifest) => walk.listed(kind, manifest.list(kind)),
            None => walk.folder(kind, &root.join(kind.key())),
        };
        let kept = match filters.and_then(|filters| filters.of(kind)) {
            None => all,
            Some(list) => {
                let patterns = walk.patterns(list.iter());
                all.into_iter()
                    // A list without entries takes nothing, not everything.
                    .filter(|path| !list.is_empty() && patterns.selects(path, root))
                    .collect()
            }
        };
        found.lists[kind as usize] = kept;
    }
    found.problems = walk.problems;
    found
}

struct Walk<'a> {
    fs: &'a dyn FileSystem,
    root: &'a Path,
    /// `root` with every link resolved.
    real: PathBuf,
    /// How many more entries are looked at.
    left: usize,
    /// Folders that the current walk was in, with every link resolved.
    seen: HashSet<PathBuf>,
    problems: Vec<ContentProblem>,
}

/// An entry of a folder that lies within the package.
struct Entry {
    path: PathBuf,
    name: String,
    kind: FileKind,
}

impl Walk<'_> {
    fn problem(&mut self, problem: ContentProblem) {
        if self.problems.len() < MOST_PROBLEMS && !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    fn outside(&mut self, path: &Path) {
        let shown = path.strip_prefix(self.root).unwrap_or(path);
        self.problem(ContentProblem::Outside(shown.display().to_string()));
    }

    fn manifest(&mut self, folder: &Path) -> Option<Manifest> {
        let path = folder.join("package.json");
        let meta = self.fs.metadata(&path).ok()?;
        if !self.is_inside(&path) {
            self.outside(&path);
            return None;
        }
        if meta.len > LARGEST_MANIFEST {
            self.problem(ContentProblem::Unreadable(format!(
                "longer than {LARGEST_MANIFEST} bytes"
            )));
            return None;
        }
        match self.fs.read(&path) {
            Ok(text) => Manifest::parse(&text).unwrap_or_else(|error| {
                self.problem(error.into());
                None
            }),
            Err(error) => {
                let reason = fluzo_exec::errno_text(&error).to_owned();
                self.problem(ContentProblem::Unreadable(reason));
                None
            }
        }
    }

    fn patterns<'a>(&mut self, list: impl Iterator<Item = &'a String>) -> Patterns {
        let patterns = Patterns::new(list.map(String::as_str));
        for problem in patterns.problems() {
            self.problem(ContentProblem::Pattern(problem.clone()));
        }
        patterns
    }

    /// What a list of a manifest names.
    fn listed(&mut self, kind: PackagePart, list: &[String]) -> Vec<PathBuf> {
        self.listed_in(kind, self.root, list)
    }

    fn listed_in(&mut self, kind: PackagePart, base: &Path, list: &[String]) -> Vec<PathBuf> {
        let (rules, named): (Vec<_>, Vec<_>) = list.iter().partition(|text| is_override(text));
        let mut found = Vec::new();
        for text in named {
            if leads_away(text) {
                self.problem(ContentProblem::Outside(text.clone()));
            } else if text.contains(['*', '?', '[', '{']) {
                found.extend(self.matching(kind, base, text));
            } else {
                found.extend(self.named(kind, &base.join(text), text));
            }
        }
        let rules = self.patterns(rules.into_iter());
        let mut seen = HashSet::new();
        found.retain(|path| rules.selects(path, base) && seen.insert(path.clone()));
        found
    }

    fn named(&mut self, kind: PackagePart, path: &Path, text: &str) -> Vec<PathBuf> {
        let Ok(meta) = self.fs.metadata(path) else {
            self.problem(ContentProblem::NotThere(text.to_owned()));
            return Vec::new();
        };
        if !self.is_inside(path) {
            self.outside(path);
            return Vec::new();
        }
        // So that `./skills/` and `skills` are one.
        let path: PathBuf = path.components().collect();
        match meta.kind {
            FileKind::Directory => self.folder(kind, &path),
            FileKind::File => vec![path],
            FileKind::Other => Vec::new(),
        }
    }

    /// Everything in the package that a glob of its manifest means.
    fn matching(&mut self, kind: PackagePart, base: &Path, glob: &str) -> Vec<PathBuf> {
        let matcher = match compiled(glob) {
            Ok(matcher) => matcher,
            Err(problem) => {
                self.problem(problem);
                return Vec::new();
            }
        };
        let mut found = Vec::new();
        let outer = std::mem::take(&mut self.seen);
        let mut folders = vec![(base.to_owned(), 0)];
        while let Some((folder, depth)) = folders.pop() {
            for entry in self.entries(&folder, depth) {
                let name = entry.path.strip_prefix(base).unwrap_or(&entry.path);
                let is_meant = matcher.is_match(name);
                match entry.kind {
                    FileKind::Directory if is_meant => found.extend(self.folder(kind, &entry.path)),
                    FileKind::Directory => folders.push((entry.path, depth + 1)),
                    FileKind::File if is_meant && has_ending(kind, &entry.name) => {
                        found.push(entry.path);
                    }
                    _ => {}
                }
            }
        }
        self.seen = outer;
        found.sort();
        found
    }

    /// What a folder of one kind holds.
    fn folder(&mut self, kind: PackagePart, folder: &Path) -> Vec<PathBuf> {
        if self.fs.metadata(folder).is_err() {
            return Vec::new();
        }
        if !self.is_inside(folder) {
            self.outside(folder);
            return Vec::new();
        }
        let mut found = Vec::new();
        let outer = std::mem::take(&mut self.seen);
        match kind {
            PackagePart::Skill => self.skills(folder, 0, &mut found),
            PackagePart::Extension => self.extensions(folder, &mut found),
            PackagePart::Prompt | PackagePart::Theme => self.files(kind, folder, 0, &mut found),
        }
        self.seen = outer;
        found
    }

    /// A folder with `SKILL.md` is a skill; files beside each other are skills at the top only.
    fn skills(&mut self, folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
        let entries = self.entries(folder, depth);
        let own = entries
            .iter()
            .find(|entry| entry.name == SKILL && entry.kind == FileKind::File);
        if let Some(own) = own {
            return found.push(own.path.clone());
        }
        for entry in entries {
            match entry.kind {
                FileKind::Directory => self.skills(&entry.path, depth + 1, found),
                FileKind::File if depth == 0 && has_ending(PackagePart::Skill, &entry.name) => {
                    found.push(entry.path);
                }
                _ => {}
            }
        }
    }

    /// Files of code, and folders with an own manifest or an index file.
    fn extensions(&mut self, folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in self.entries(folder, 0) {
            match entry.kind {
                FileKind::File if has_ending(PackagePart::Extension, &entry.name) => {
                    found.push(entry.path);
                }
                FileKind::Directory => {
                    let own = self.manifest(&entry.path);
                    let list = own.as_ref().map(|own| own.list(PackagePart::Extension));
                    match list {
                        Some(list) if !list.is_empty() => {
                            let list = list.to_vec();
                            found.extend(self.listed_in(
                                PackagePart::Extension,
                                &entry.path,
                                &list,
                            ));
                        }
                        _ => found.extend(self.index(&entry.path)),
                    }
                }
                _ => {}
            }
        }
    }

    fn index(&mut self, folder: &Path) -> Option<PathBuf> {
        let mut names = ["index.ts", "index.js"]
            .map(|name| folder.join(name))
            .into_iter();
        let path = names.find(|path| {
            let meta = self.fs.metadata(path);
            meta.is_ok_and(|meta| meta.kind == FileKind::File)
        })?;
        if self.is_inside(&path) {
            return Some(path);
        }
        self.outside(&path);
        None
    }

    fn files(&mut self, kind: PackagePart, folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
        for entry in self.entries(folder, depth) {
            match entry.kind {
                FileKind::Directory => self.files(kind, &entry.path, depth + 1, found),
                FileKind::File if has_ending(kind, &entry.name) => found.push(entry.path),
                _ => {}
            }
        }
    }

    /// Entries of a folder that count, by name; none of one that the walk was in before. What
    /// the bound leaves out is told once.
    fn entries(&mut self, folder: &Path, depth: usize) -> Vec<Entry> {
        if depth > DEEPEST {
            self.problem(ContentProblem::TooMuch);
            return Vec::new();
        }
        let real = self.fs.canonicalize(folder);
        if !real.is_ok_and(|real| self.seen.insert(real)) {
            return Vec::new();
        }
        let Ok(mut all) = self.fs.read_dir(folder) else {
            return Vec::new();
        };
        all.sort_by(|a, b| a.name.cmp(&b.name));
        let mut entries = Vec::new();
        for entry in all {
            if self.left == 0 {
                self.problem(ContentProblem::TooMuch);
                break;
            }
            self.left -= 1;
            let name = entry.name.to_string_lossy().into_owned();
            let path = folder.join(&entry.name);
            let Some(kind) = entry.kind else { continue };
            if name.starts_with('.') || name == "node_modules" {
                continue;
            }
            // What is no link lies where its folder lies.
            if entry.is_symlink && !self.is_inside(&path) {
                self.outside(&path);
                continue;
            }
            entries.push(Entry { path, name, kind });
        }
        entries
    }

    fn is_inside(&self, path: &Path) -> bool {
        self.fs
            .canonicalize(path)
            .is_ok_and(|real| real.starts_with(&self.real))
    }
}

/// A glob over paths within a package; `*` stays within a folder, `**` does not.
fn compiled(text: &str) -> Result<GlobMatcher, ContentProblem> {
    let mut glob = GlobBuilder::new(text.strip_prefix("./").unwrap_or(text));
    let built = glob.literal_separator(true).build();
    built.map(|glob| glob.compile_matcher()).map_err(|error| {
        ContentProblem::Pattern(format!("pattern `{text}` cannot be used: {}", error.kind()))
    })
}

/// Whether a path of a manifest is no path within the package.
fn leads_away(text: &str) -> bool {
    let mut parts = Path::new(text).components();
    text.starts_with('~')
        || parts.any(|part| !matches!(part, Component::Normal(_) | Component::CurDir))
}

fn has_ending(kind: PackagePart, name: &str) -> bool {
    let ending = Path::new(name).extension().and_then(|e| e.to_str());
    ending.is_some_and(|ending| kind.endings().contains(&ending))
}
