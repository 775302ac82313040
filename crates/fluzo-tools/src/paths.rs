//! What a path argument means: `@`, `~` and `file://` forms, and names that differ from the
//! ones on disk only in characters that look alike.
//!
//! The exact name always wins. Only when it does not exist is a sibling taken that is equal
//! once look-alikes are folded, and only when there is exactly one.

use std::path::{Component, Path, PathBuf};

use fluzo_agent::{Permit, ToolError};
use fluzo_exec::FileSystem;
use fluzo_policy::{Access, PathOperation};
use fluzo_stdx::lexical;
use unicode_normalization::UnicodeNormalization;

use crate::{ToolEnv, shown};

/// Where paths are looked for.
#[derive(Clone, Copy)]
pub struct Places<'a> {
    /// Folder that relative paths start from.
    pub cwd: &'a Path,
    /// Home folder, for `~`.
    pub home: Option<&'a Path>,
    /// Files.
    pub fs: &'a dyn FileSystem,
}

impl Places<'_> {
    /// The absolute path that a person means by `given`, found as the `read` tool finds its
    /// path. It need not exist. Blocks for a few system calls.
    ///
    /// # Errors
    ///
    /// The names that it could mean when it does not exist and several look the same.
    pub fn find(self, given: &str) -> Result<PathBuf, Vec<String>> {
        match locate(self, given) {
            Located::Exact(path) | Located::Folded(path) => Ok(path),
            Located::Ambiguous(_, names) => Err(names),
        }
    }
}

impl<'a> From<&'a ToolEnv> for Places<'a> {
    fn from(env: &'a ToolEnv) -> Self {
        Self {
            cwd: &env.cwd,
            home: env.home.as_deref(),
            fs: &*env.fs,
        }
    }
}

/// Where a path argument leads.
enum Located {
    /// It is spelled this way on disk, or nothing on disk is like it.
    Exact(PathBuf),
    /// Not on disk, but exactly one entry that looks the same.
    Folded(PathBuf),
    /// Not on disk, and several entries look the same: their names.
    Ambiguous(PathBuf, Vec<String>),
}

impl Located {
    /// The path to go on with; of an ambiguous one what was asked for.
    fn into_path(self) -> PathBuf {
        match self {
            Self::Exact(path) | Self::Folded(path) | Self::Ambiguous(path, _) => path,
        }
    }
}

/// The absolute path that `given` spells, without `.` and `..`, whether or not it exists.
fn absolute(places: Places<'_>, given: &str) -> PathBuf {
    let bare = match given.strip_prefix('@') {
        Some(bare) if !starts_with_real_name(places, given) => bare,
        _ => given,
    };
    if let Some(path) = from_file_url(bare) {
        return lexical::plain(Path::new(&path));
    }
    if let Some(home) = places.home {
        if bare == "~" {
            return home.to_path_buf();
        }
        if let Some(rest) = bare.strip_prefix("~/") {
            return lexical::plain(&home.join(rest.trim_start_matches('/')));
        }
    }
    lexical::plain(&places.cwd.join(bare))
}

/// Finds `given` on disk. Blocks for a few system calls; lists folders only when the exact
/// name does not exist.
fn locate(places: Places<'_>, given: &str) -> Located {
    let wanted = absolute(places, given);
    if exists(places, &wanted) {
        return Located::Exact(wanted);
    }
    let mut found = PathBuf::new();
    let mut folded = false;
    for part in wanted.components() {
        let next = found.join(part);
        let name = match part {
            Component::Normal(name) if !exists(places, &next) => name,
            _ => {
                found = next;
                continue;
            }
        };
        let mut alike = look_alikes(places, &found, &name.to_string_lossy());
        match (alike.pop(), alike.is_empty()) {
            (None, _) => return Located::Exact(wanted),
            (Some(only), true) => found.push(only),
            (Some(last), false) => {
                alike.push(last);
                alike.sort();
                return Located::Ambiguous(wanted, alike);
            }
        }
        folded = true;
    }
    if folded {
        Located::Folded(found)
    } else {
        Located::Exact(wanted)
    }
}

/// The access of a call that needs `given` to exist.
pub(crate) fn access(env: &ToolEnv, operation: PathOperation, given: &str) -> Vec<Access> {
    let path = locate(env.into(), given).into_path();
    vec![Access::Path { operation, path }]
}

/// The access of a call that makes `given`, by exactly this name.
pub(crate) fn access_to_make(env: &ToolEnv, given: &str) -> Vec<Access> {
    let (operation, path) = (PathOperation::Write, absolute(env.into(), given));
    vec![Access::Path { operation, path }]
}

/// The path that a permit was judged on, which is the only one its call may touch.
///
/// # Errors
///
/// The permit names no path.
pub(crate) fn judged(permit: &Permit) -> Result<PathBuf, ToolError> {
    let path = permit.accesses().iter().find_map(|access| match access {
        Access::Path { path, .. } => Some(path.clone()),
        _ => None,
    });
    path.ok_or_else(|| ToolError::new("this permit names no path"))
}

/// A line to add to the error about a path that does not exist: which names it could mean.
pub(crate) fn ambiguity(env: &ToolEnv, given: &str) -> Option<String> {
    Places::from(env)
        .find(given)
        .err()
        .map(|names| several_names(&names))
}

/// Asks for one of several names that look the same.
pub fn several_names(names: &[String]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("{name:?}")).collect();
    format!(
        "Several names look the same: {}. Use the exact one.",
        names.join(", ")
    )
}

/// A line that gives the name on disk when it is not the one asked for.
pub(crate) fn real_name(env: &ToolEnv, given: &str, path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy();
    (absolute(env.into(), given) != path).then(|| format!("[Name on disk: {}]", shown::name(&name)))
}

/// Spaces that file names and texts use instead of the plain one.
pub(crate) fn is_odd_space(c: char) -> bool {
    matches!(
        c,
        '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}'
    )
}

/// Whether the first part of a path with `@` is the name of something in the working folder.
fn starts_with_real_name(places: Places<'_>, given: &str) -> bool {
    let first = given.split('/').next().unwrap_or(given);
    first.len() > 1 && exists(places, &places.cwd.join(first))
}

fn exists(places: Places<'_>, path: &Path) -> bool {
    places.fs.check_access(path, false, false).is_ok()
}

fn look_alikes(places: Places<'_>, folder: &Path, name: &str) -> Vec<String> {
    let wanted = folded_name(name);
    let entries = places.fs.read_dir(folder).unwrap_or_default();
    let names = entries
        .into_iter()
        .filter_map(|entry| entry.name.into_string().ok());
    names.filter(|name| folded_name(name) == wanted).collect()
}

fn folded_name(name: &str) -> String {
    name.nfc()
        .map(|c| match c {
            '\u{2019}' => '\'',
            c if is_odd_space(c) => ' ',
            c => c,
        })
        .collect()
}

/// The path of a `file://` URL of this machine.
fn from_file_url(text: &str) -> Option<String> {
    let rest = text.strip_prefix("file://")?;
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    if !path.starts_with('/') {
        return None;
    }
    let path = path.split(['?', '#']).next().unwrap_or(path);
    percent_decoded(path)
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let decoded = match byte {
            b'%' => 16 * hex(bytes.next()?)? + hex(bytes.next()?)?,
            plain => plain,
        };
        out.push(decoded);
    }
    String::from_utf8(out).ok()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|value| u8::try_from(value).ok())
}
