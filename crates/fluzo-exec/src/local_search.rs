//! Search on this machine's files, in this process, with ripgrep's libraries.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use globset::{GlobBuilder, GlobMatcher};
use grep_regex::RegexMatcher;
use ignore::overrides::{Override, OverrideBuilder};
use ignore::{DirEntry, WalkBuilder, WalkState};
use tokio_util::sync::CancellationToken;

use crate::first_in_order::FirstInOrder;
use crate::grep_file::{self, FileLines};
use crate::search::{
    FindQuery, FindReport, FoundPath, GrepLine, GrepQuery, GrepReport, IGNORED_BOUND, SearchError,
    TreeSearch,
};

/// How [`LocalSearch`] works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalSearchConfig {
    /// Threads of one search; zero lets the library choose by the number of processors.
    pub threads: usize,
    /// Whether git's ignore file of the user applies too.
    pub user_gitignore: bool,
}

impl Default for LocalSearchConfig {
    fn default() -> Self {
        Self {
            threads: 0,
            user_gitignore: true,
        }
    }
}

/// Searches every path the process may read.
///
/// Hidden files are searched, `.git` directories below the root never; links are not followed. `grep` honours `.gitignore`
/// inside a git repository only, `find` everywhere; `.ignore` always counts, as does `.rgignore` for `grep` and `.fdignore`
/// for `find`. A file or directory named as the root is searched whatever the rules say about it.
///
/// A limit gives the first results in path order. Several threads work in any order; what lies beyond the last result still
/// needed is skipped, so that the outcome does not depend on timing.
#[derive(Clone, Debug, Default)]
pub struct LocalSearch {
    config: LocalSearchConfig,
}

/// Which ignore rules hold on a walk.
#[derive(Clone, Copy)]
enum Rules {
    Grep,
    Find,
    None,
}

impl LocalSearch {
    /// Makes a searcher. Threads exist only during a search.
    pub fn new(config: LocalSearchConfig) -> Self {
        Self { config }
    }

    fn walk(&self, root: &Path, rules: Rules) -> WalkBuilder {
        let honour = !matches!(rules, Rules::None);
        let mut walk = WalkBuilder::new(root);
        walk.hidden(false)
            .parents(honour)
            .ignore(honour)
            .git_ignore(honour)
            .git_exclude(honour)
            .git_global(honour && self.config.user_gitignore)
            .require_git(matches!(rules, Rules::Grep))
            .threads(self.config.threads)
            .filter_entry(|entry| !is_git_directory(entry));
        match rules {
            Rules::Grep => walk.add_custom_ignore_filename(".rgignore"),
            Rules::Find => walk.add_custom_ignore_filename(".fdignore"),
            Rules::None => &mut walk,
        };
        walk
    }

    fn grep_tree(
        &self,
        query: &GrepQuery,
        matcher: &RegexMatcher,
        cancel: &CancellationToken,
    ) -> Result<GrepReport, SearchError> {
        let globs = overrides(query)?;
        let first = FirstInOrder::new(query.limit);
        let (seen, unreadable) = (AtomicU64::new(0), AtomicU64::new(0));
        let searcher = grep_file::searcher(query, false);
        let mut walk = self.walk(&query.root, Rules::Grep);
        walk.overrides(globs.clone());
        walk.build_parallel().run(|| {
            let (matcher, mut searcher) = (matcher.clone(), searcher.clone());
            let (first, seen, unreadable) = (&first, &seen, &unreadable);
            Box::new(move |entry| {
                let Some(entry) = step(entry, unreadable) else {
                    return WalkState::Continue;
                };
                if cancel.is_cancelled() {
                    return WalkState::Quit;
                }
                if !first.wants(entry.path()) {
                    return WalkState::Skip;
                }
                if is_file(&entry) {
                    seen.fetch_add(1, Ordering::Relaxed);
                    let mut found = FileLines::default();
                    let done = grep_file::search_file(
                        entry.path(),
                        &matcher,
                        &mut searcher,
                        cancel,
                        &mut found,
                    );
                    unreadable.fetch_add(u64::from(done.is_err()), Ordering::Relaxed);
                    if found.matches > 0 {
                        first.add(entry.into_path(), found.matches, found);
                    }
                }
                WalkState::Continue
            })
        });
        not_cancelled(cancel)?;
        let (files, limit_reached) = first.finish();
        let ignored_files = if files.is_empty() {
            let seen = seen.into_inner();
            self.count_files(&query.root, globs, seen + IGNORED_BOUND, cancel, |_| true)?
                .saturating_sub(seen)
        } else {
            0
        };
        let lines = report_lines(files, query);
        Ok(GrepReport {
            lines,
            limit_reached,
            ignored_files,
            unreadable: unreadable.into_inner(),
        })
    }

    fn grep_one(
        query: &GrepQuery,
        matcher: &RegexMatcher,
        cancel: &CancellationToken,
    ) -> Result<GrepReport, SearchError> {
        let mut found = FileLines::default();
        let mut searcher = grep_file::searcher(query, true);
        let done = grep_file::search_file(&query.root, matcher, &mut searcher, cancel, &mut found);
        not_cancelled(cancel)?;
        done.map_err(|source| SearchError::Root {
            path: query.root.clone(),
            source,
        })?;
        let limit_reached = found.matches >= query.limit.max(1);
        let lines = report_lines(vec![(query.root.clone(), found)], query);
        Ok(GrepReport {
            lines,
            limit_reached,
            ..GrepReport::default()
        })
    }

    /// Counts regular files below `root` that pass, whatever ignore rules say, up to `bound`.
    fn count_files(
        &self,
        root: &Path,
        globs: Override,
        bound: u64,
        cancel: &CancellationToken,
        passes: impl Fn(&DirEntry) -> bool + Sync,
    ) -> Result<u64, SearchError> {
        let count = AtomicU64::new(0);
        self.walk(root, Rules::None)
            .overrides(globs)
            .build_parallel()
            .run(|| {
                Box::new(|entry| {
                    if cancel.is_cancelled() || count.load(Ordering::Relaxed) >= bound {
                        return WalkState::Quit;
                    }
                    if entry.is_ok_and(|entry| is_file(&entry) && passes(&entry)) {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    WalkState::Continue
                })
            });
        not_cancelled(cancel)?;
        Ok(count.into_inner().min(bound))
    }
}

impl TreeSearch for LocalSearch {
    fn grep(
        &self,
        query: &GrepQuery,
        cancel: &CancellationToken,
    ) -> Result<GrepReport, SearchError> {
        not_cancelled(cancel)?;
        let matcher = grep_file::matcher(query)?;
        overrides(query)?;
        if root_is_directory(&query.root)? {
            self.grep_tree(query, &matcher, cancel)
        } else {
            Self::grep_one(query, &matcher, cancel)
        }
    }

    fn find(
        &self,
        query: &FindQuery,
        cancel: &CancellationToken,
    ) -> Result<FindReport, SearchError> {
        not_cancelled(cancel)?;
        let names = Names::new(&query.pattern)?;
        let root =
            std::path::absolute(&query.root).map_err(|source| root_error(&query.root, source))?;
        if !root_is_directory(&root)? {
            return Err(root_error(&root, io::ErrorKind::NotADirectory.into()));
        }
        let first = FirstInOrder::new(query.limit);
        let unreadable = AtomicU64::new(0);
        self.walk(&root, Rules::Find).build_parallel().run(|| {
            Box::new(|entry| {
                let Some(entry) = step(entry, &unreadable) else {
                    return WalkState::Continue;
                };
                if cancel.is_cancelled() {
                    return WalkState::Quit;
                }
                if !first.wants(entry.path()) {
                    return WalkState::Skip;
                }
                if entry.depth() > 0 && names.admit(&entry) {
                    let is_dir = entry.file_type().is_some_and(|kind| kind.is_dir());
                    first.add(entry.into_path(), 1, is_dir);
                }
                WalkState::Continue
            })
        });
        not_cancelled(cancel)?;
        let (found, limit_reached) = first.finish();
        let ignored_files = if found.is_empty() {
            self.count_files(&root, Override::empty(), IGNORED_BOUND, cancel, |entry| {
                names.admit(entry)
            })?
        } else {
            0
        };
        let paths = found.into_iter().map(|(path, is_dir)| FoundPath {
            relative: path
                .strip_prefix(&root)
                .map(Path::to_path_buf)
                .unwrap_or(path),
            is_dir,
        });
        Ok(FindReport {
            paths: paths.collect(),
            limit_reached,
            ignored_files,
            unreadable: unreadable.into_inner(),
        })
    }

    fn list(
        &self,
        root: &Path,
        levels: usize,
        limit: usize,
        compare: fn(&OsStr, &OsStr) -> std::cmp::Ordering,
        cancel: &CancellationToken,
    ) -> Result<FindReport, SearchError> {
        if !root_is_directory(root)? {
            return Err(root_error(root, io::ErrorKind::NotADirectory.into()));
        }
        let mut walk = self.walk(root, Rules::Find);
        walk.max_depth(Some(levels)).sort_by_file_name(compare);
        let unreadable = AtomicU64::new(0);
        let mut report = FindReport::default();
        for entry in walk.build() {
            not_cancelled(cancel)?;
            let Some(entry) = step(entry, &unreadable).filter(|entry| entry.depth() > 0) else {
                continue;
            };
            if report.paths.len() >= limit {
                report.limit_reached = true;
                break;
            }
            let is_dir = entry.file_type().is_some_and(|kind| kind.is_dir());
            let relative = entry.path().strip_prefix(root).unwrap_or(entry.path());
            report.paths.push(FoundPath {
                relative: relative.to_path_buf(),
                is_dir,
            });
        }
        report.unreadable = unreadable.into_inner();
        Ok(report)
    }
}

/// A glob as `fd --glob` reads it.
struct Names {
    glob: Option<GlobMatcher>,
    whole_path: bool,
}

impl Names {
    fn new(pattern: &str) -> Result<Self, SearchError> {
        if pattern.is_empty() {
            return Ok(Self {
                glob: None,
                whole_path: false,
            });
        }
        let whole_path = pattern.contains('/');
        let anywhere = whole_path && !pattern.starts_with('/') && !pattern.starts_with("**/");
        let glob = if anywhere {
            format!("**/{pattern}")
        } else {
            pattern.to_owned()
        };
        let glob = GlobBuilder::new(&glob)
            .literal_separator(true)
            .case_insensitive(!pattern.chars().any(char::is_uppercase))
            .build()
            .map_err(|error| SearchError::Glob {
                message: error.to_string(),
            })?;
        Ok(Self {
            glob: Some(glob.compile_matcher()),
            whole_path,
        })
    }

    fn admit(&self, entry: &DirEntry) -> bool {
        let Some(glob) = &self.glob else { return true };
        if self.whole_path {
            glob.is_match(entry.path())
        } else {
            glob.is_match(entry.file_name())
        }
    }
}

fn overrides(query: &GrepQuery) -> Result<Override, SearchError> {
    let Some(glob) = &query.glob else {
        return Ok(Override::empty());
    };
    let wrong = |error: ignore::Error| SearchError::Glob {
        message: error.to_string(),
    };
    OverrideBuilder::new(&query.root)
        .add(glob)
        .map_err(wrong)?
        .build()
        .map_err(wrong)
}

fn report_lines(files: Vec<(PathBuf, FileLines)>, query: &GrepQuery) -> Vec<GrepLine> {
    let mut left = query.limit.max(1);
    let mut block = 0;
    let mut lines: Vec<GrepLine> = Vec::new();
    for (path, mut found) in files {
        found.cut(left, query.context);
        left -= found.matches;
        let mut next = None;
        for line in found.lines {
            if next != Some(line.line) && !lines.is_empty() {
                block += 1;
            }
            next = Some(line.line + 1);
            lines.push(GrepLine {
                path: path.clone(),
                line: line.line,
                kind: line.kind,
                bytes: line.bytes,
                block,
            });
        }
    }
    lines
}

/// The entry, unless it stands for something that could not be read.
fn step(entry: Result<DirEntry, ignore::Error>, unreadable: &AtomicU64) -> Option<DirEntry> {
    match entry {
        Ok(entry) => Some(entry),
        Err(_) => {
            unreadable.fetch_add(1, Ordering::Relaxed);
            None
        }
    }
}

fn is_file(entry: &DirEntry) -> bool {
    entry.file_type().is_some_and(|kind| kind.is_file())
}

fn is_git_directory(entry: &DirEntry) -> bool {
    entry.depth() > 0
        && entry.file_name() == ".git"
        && entry.file_type().is_some_and(|kind| kind.is_dir())
}

fn root_is_directory(root: &Path) -> Result<bool, SearchError> {
    fs::metadata(root)
        .map(|meta| meta.is_dir())
        .map_err(|source| root_error(root, source))
}

fn root_error(root: &Path, source: io::Error) -> SearchError {
    SearchError::Root {
        path: root.to_path_buf(),
        source,
    }
}

fn not_cancelled(cancel: &CancellationToken) -> Result<(), SearchError> {
    if cancel.is_cancelled() {
        Err(SearchError::Cancelled)
    } else {
        Ok(())
    }
}
