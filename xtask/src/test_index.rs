//! Which tests exist, found in the source text, so that documents can name them.
//!
//! A test is named `crate::module::path::name`, with the name of the test target before the module
//! path for integration tests, as `cargo test -- --list` prints it. A documentation test is named
//! `crate::doc::module::path::Item`. Tests that a `macro_rules!` macro makes are found where the
//! macro is called: by the names in its body, or by the names handed to it.

use crate::Error;
use crate::lexer;
use crate::metadata::Package;
use crate::repo::Repo;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

mod scan;

use scan::Scan;

/// How deep one macro may call another.
const MACRO_DEPTH: usize = 8;

/// The tests of a workspace.
#[derive(Debug, Clone, Default)]
pub struct TestIndex {
    tests: BTreeSet<String>,
    macros: BTreeMap<String, MacroTests>,
    calls: Vec<(String, Call)>,
}

/// What a macro makes where it is called.
#[derive(Debug, Clone, Default)]
struct MacroTests {
    names: BTreeSet<String>,
    modules: BTreeSet<String>,
    by_argument: bool,
    calls: Vec<Call>,
}

/// One call of a macro: which, and the names handed to it.
#[derive(Debug, Clone)]
struct Call {
    name: String,
    arguments: BTreeSet<String>,
}

impl TestIndex {
    /// Reads the sources of all given crates.
    ///
    /// # Errors
    /// When a source file cannot be read.
    pub fn read(repo: &Repo, packages: &[Package]) -> Result<Self, Error> {
        let mut index = Self::default();
        for package in packages {
            for target in &package.targets {
                let kind = target.kind.first().map_or("", String::as_str);
                let prefix = match kind {
                    "lib" | "rlib" | "proc-macro" | "bin" => package.name.clone(),
                    "test" => format!("{}::{}", package.name, target.name),
                    _ => continue,
                };
                let reader = Reader {
                    repo,
                    index: &mut index,
                    krate: &package.name,
                };
                let folder = target.src_path.parent().unwrap_or(Path::new("")).to_owned();
                reader.file(&target.src_path, &prefix, &folder)?;
            }
        }
        Ok(index)
    }

    /// The tests of one text, as if it were the root file of `krate`; for tests of the index.
    pub fn of_text(krate: &str, text: &str) -> Self {
        let mut index = Self::default();
        let tokens = lexer::tokens(text);
        Scan::new(&tokens, krate, krate).run(&mut index);
        index
    }

    /// Whether a test of this name exists.
    pub fn contains(&self, path: &str) -> bool {
        self.tests.contains(path)
            || self.calls.iter().any(|(module, call)| {
                let rest = path
                    .strip_prefix(module.as_str())
                    .and_then(|r| r.strip_prefix("::"));
                rest.is_some_and(|rest| self.makes(call, rest, &BTreeSet::new(), MACRO_DEPTH))
            })
    }

    /// How many tests were found by name.
    pub fn len(&self) -> usize {
        self.tests.len()
    }

    /// Whether no test was found.
    pub fn is_empty(&self) -> bool {
        self.tests.is_empty() && self.calls.is_empty()
    }

    /// Whether a macro call makes the test `rest`, a path below the calling module.
    fn makes(&self, call: &Call, rest: &str, outer: &BTreeSet<String>, depth: usize) -> bool {
        let Some(found) = self.macros.get(&call.name).filter(|_| depth > 0) else {
            return false;
        };
        let handed: BTreeSet<String> = call.arguments.union(outer).cloned().collect();
        let mut segments: Vec<&str> = rest.split("::").collect();
        let Some(name) = segments.pop() else {
            return false;
        };
        let named = found.names.contains(name) || (found.by_argument && handed.contains(name));
        let modules = segments
            .iter()
            .all(|m| found.modules.contains(*m) || handed.contains(*m));
        named && modules
            || found
                .calls
                .iter()
                .any(|c| self.makes(c, rest, &handed, depth - 1))
    }
}

/// Follows the module tree of one target.
struct Reader<'a> {
    repo: &'a Repo,
    index: &'a mut TestIndex,
    krate: &'a str,
}

impl Reader<'_> {
    /// Reads the root file of a target and every module file below it.
    fn file(self, file: &Path, module: &str, folder: &Path) -> Result<(), Error> {
        let mut waiting = vec![(file.to_owned(), module.to_owned(), folder.to_owned())];
        let mut seen = BTreeSet::new();
        while let Some((file, module, folder)) = waiting.pop() {
            let Some(text) = self.repo.read_if_exists(&self.repo.relative(&file))? else {
                continue;
            };
            if !seen.insert((file.clone(), module.clone())) {
                continue;
            }
            let tokens = lexer::tokens(&text);
            for child in Scan::new(&tokens, self.krate, &module).run(self.index) {
                waiting.push(child.locate(&file, &folder));
            }
        }
        Ok(())
    }
}

/// A module declared with `mod name;`.
struct ChildModule {
    /// Inline modules around the declaration, then its own name.
    inside: Vec<String>,
    module: String,
    given: Option<String>,
}

impl ChildModule {
    /// Its file, its module path, and the folder of its own children.
    fn locate(self, parent: &Path, folder: &Path) -> (PathBuf, String, PathBuf) {
        if let Some(given) = self.given {
            let file = parent.parent().unwrap_or(folder).join(given);
            let folder = file.parent().unwrap_or(folder).to_owned();
            return (file, self.module, folder);
        }
        let stem: PathBuf = self.inside.iter().fold(folder.to_owned(), |p, s| p.join(s));
        let nested = stem.join("mod.rs");
        let file = if nested.is_file() {
            nested
        } else {
            stem.with_extension("rs")
        };
        (file, self.module, stem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, present: &[&str], absent: &[&str]) {
        let index = TestIndex::of_text("c", text);
        for path in present {
            assert!(index.contains(path), "{path} in {:?}", index.tests);
        }
        for path in absent {
            assert!(!index.contains(path), "{path}");
        }
    }

    #[test]
    fn finds_marked_functions_by_module_path() {
        check(
            "fn helper() {} mod a { mod b { #[test] #[ignore] fn x() { if true {} } } #[tokio::test(flavor = \"x\")] async fn y() {} }
             #[cfg(test)] mod t { #[test] fn z() {} fn not() {} } proptest! { #[test] fn p(n in 0..3) {} }",
            &["c::a::b::x", "c::a::y", "c::t::z", "c::p"],
            &["c::helper", "c::x", "c::t::not", "c::a::x", "c::a::b"],
        );
    }

    #[test]
    fn finds_tests_that_macros_make() {
        let text = "macro_rules! suite { ($make:expr) => { #[test] fn one() {} mod deep { #[test] fn two() {} } } }
             macro_rules! case { ($name:ident, $e:expr) => { #[test] fn $name() {} } }
             macro_rules! both { () => { case!(three, 1); } }
             mod native { suite!(make_it); } case!(four, 4); mod m { both! {} }";
        check(
            text,
            &[
                "c::native::one",
                "c::native::deep::two",
                "c::four",
                "c::m::three",
            ],
            &[
                "c::one",
                "c::native::three",
                "c::native::make_it",
                "c::five",
            ],
        );
    }

    #[test]
    fn finds_documentation_tests() {
        let text = "//! Top.\n//! ```\n//! a\n//! ```\nmod gate {\n/// x\n/// ```compile_fail\n/// y\n/// ```\npub struct Permit;
             /// ```text\n/// ```\nstruct Plain; impl<T: A> Gate<T> { /// ```\n /// ```\n pub const unsafe fn judge() {} } }";
        check(
            text,
            &[
                "c::doc",
                "c::doc::gate::Permit",
                "c::doc::gate::Gate::judge",
            ],
            &["c::doc::gate::Plain", "c::doc::gate"],
        );
    }
}
