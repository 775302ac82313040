//! The pattern language of resource lists: `glob` takes in, `!glob` leaves out, `+path` takes in and `-path` leaves out exactly
//! that path, each stronger than what stands before it in this list.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};

use crate::walk::SKILL_FILE;

/// Whether an entry of a list is a pattern rather than a path.
pub fn is_pattern(entry: &str) -> bool {
    is_override(entry) || entry.contains(['*', '?'])
}

/// Whether an entry changes what was found anyway: it begins with `!`, `+` or `-`.
pub fn is_override(entry: &str) -> bool {
    entry.starts_with(['!', '+', '-'])
}

/// Patterns of one list.
///
/// A glob is compared with the path relative to the base folder, with the file name, and with the absolute path; `*` and `?` stop at
/// `/`. A `SKILL.md` is also matched by what matches its folder. Without a plain glob everything is taken in at first.
#[derive(Debug, Default)]
pub struct Patterns {
    included: Vec<GlobMatcher>,
    excluded: Vec<GlobMatcher>,
    forced_in: Vec<String>,
    forced_out: Vec<String>,
    problems: Vec<String>,
}

impl Patterns {
    /// Patterns of `entries`. One that is no valid glob matches nothing and is a [problem](Self::problems).
    pub fn new<'a>(entries: impl IntoIterator<Item = &'a str>) -> Self {
        let mut patterns = Self::default();
        for entry in entries {
            match entry.as_bytes().first() {
                Some(b'+') => patterns.forced_in.push(exact(&entry[1..])),
                Some(b'-') => patterns.forced_out.push(exact(&entry[1..])),
                Some(b'!') => patterns.glob(&entry[1..], |patterns| &mut patterns.excluded),
                _ => patterns.glob(entry, |patterns| &mut patterns.included),
            }
        }
        patterns
    }

    /// What is wrong with globs that cannot be used.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Whether the file at `path` is taken; `base` is what relative patterns start at.
    pub fn selects(&self, path: &Path, base: &Path) -> bool {
        let names = Names::of(path, base);
        if names.equal_any(&self.forced_out) {
            return false;
        }
        if names.equal_any(&self.forced_in) {
            return true;
        }
        let included = self.included.is_empty() || names.match_any(&self.included);
        included && !names.match_any(&self.excluded)
    }

    fn glob(&mut self, text: &str, list: impl Fn(&mut Self) -> &mut Vec<GlobMatcher>) {
        let built = GlobBuilder::new(without_dot(text))
            .literal_separator(true)
            .build();
        match built {
            Ok(glob) => list(self).push(glob.compile_matcher()),
            Err(error) => self
                .problems
                .push(format!("pattern `{text}` cannot be used: {}", error.kind())),
        }
    }
}

/// What a path is called in patterns.
#[derive(Default)]
struct Names {
    /// Absolute and relative paths.
    places: Vec<String>,
    /// File names.
    bare: Vec<String>,
}

impl Names {
    fn of(path: &Path, base: &Path) -> Self {
        let mut names = Self::default();
        names.add(path, base);
        if path.file_name().is_some_and(|name| name == SKILL_FILE)
            && let Some(folder) = path.parent()
        {
            names.add(folder, base);
        }
        names
    }

    fn add(&mut self, path: &Path, base: &Path) {
        self.places.push(path.to_string_lossy().into_owned());
        if let Ok(relative) = path.strip_prefix(base) {
            self.places.push(relative.to_string_lossy().into_owned());
        }
        if let Some(name) = path.file_name() {
            self.bare.push(name.to_string_lossy().into_owned());
        }
    }

    fn match_any(&self, globs: &[GlobMatcher]) -> bool {
        let mut names = self.places.iter().chain(&self.bare);
        names.any(|name| globs.iter().any(|glob| glob.is_match(name)))
    }

    fn equal_any(&self, paths: &[String]) -> bool {
        self.places.iter().any(|place| paths.contains(place))
    }
}

fn exact(text: &str) -> String {
    without_dot(text).trim_end_matches('/').to_owned()
}

fn without_dot(text: &str) -> &str {
    text.strip_prefix("./").unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_pattern() {
        for entry in ["*.md", "!a", "+a/b", "-a", "x?"] {
            assert!(is_pattern(entry), "{entry}");
        }
        for entry in ["skills", "../a/b.md", "~/x", "/abs/dir"] {
            assert!(!is_pattern(entry), "{entry}");
        }
    }

    #[test]
    fn later_kinds_of_patterns_are_stronger() {
        let paths = [
            "/b/skills/one/SKILL.md",
            "/b/skills/two/SKILL.md",
            "/b/x.md",
        ];
        let check = |patterns: &[&str], expected: &[&str]| {
            let own = Patterns::new(patterns.iter().copied());
            assert!(own.problems().is_empty(), "{patterns:?}");
            let taken = paths
                .iter()
                .filter(|path| own.selects(Path::new(path), Path::new("/b")));
            let taken: Vec<&str> = taken.copied().collect();
            assert_eq!(taken, expected, "{patterns:?}");
        };
        check(&[], &paths);
        check(&["*.md"], &paths);
        check(&["x.md"], &paths[2..]);
        check(&["skills/*"], &paths[..2]);
        check(&["skills/**"], &paths[..2]);
        check(&["one"], &paths[..1]);
        check(&["/b/skills/*/SKILL.md"], &paths[..2]);
        check(&["!one"], &paths[1..]);
        check(
            &["!skills/**", "+skills/one"],
            &["/b/skills/one/SKILL.md", "/b/x.md"],
        );
        check(
            &["!skills/**", "+./skills/one/SKILL.md"],
            &["/b/skills/one/SKILL.md", "/b/x.md"],
        );
        check(&["+skills/one", "-skills/one"], &paths[1..]);
        check(
            &["-skills/two/SKILL.md"],
            &["/b/skills/one/SKILL.md", "/b/x.md"],
        );
        check(&["-/b/x.md"], &paths[..2]);
        // Exact is exact: neither a name alone nor a glob.
        check(&["-one"], &paths);
        check(&["-skills/*"], &paths);
        check(&["x.md", "+skills/two"], &paths[1..]);
    }

    #[test]
    fn a_broken_glob_is_told() {
        let patterns = Patterns::new(["[a", "!{x"]);
        assert_eq!(patterns.problems().len(), 2, "{patterns:?}");
        assert!(patterns.problems()[0].starts_with("pattern `[a` cannot be used: "));
    }
}
