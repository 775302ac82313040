//! Where session files are: their names, and finding one. Lists of them are in `list`.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use fluzo_llm::Extra;

pub use super::list::{SessionInfo, WHOLE, info, list, list_all};
use crate::Header;
use crate::entry::parse_object;

/// What an argument that names a session stands for.
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    /// A path, which may not exist yet.
    Path(PathBuf),
    /// A session of this project.
    Here(PathBuf),
    /// A session of another project.
    Elsewhere {
        /// The file.
        path: PathBuf,
        /// Working folder of that project.
        cwd: String,
    },
    /// No session.
    Nothing,
}

/// What [`newest`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Newest {
    /// The session file that was written last.
    pub path: Option<PathBuf>,
    /// Files that were written after it and are no sessions, the latest first.
    pub skipped: Vec<Skipped>,
}

/// A file that was passed over although its name is that of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The file.
    pub path: PathBuf,
    /// Why it cannot be read; none when it has no session header.
    pub error: Option<String>,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.error {
            Some(error) => write!(f, "cannot read `{path}`: {error}"),
            None => write!(f, "`{path}` does not begin with a session header"),
        }
    }
}

/// So far the end of the first line is looked for.
const FIRST_LINE: u64 = 256 << 10;

/// The name of the folder for the sessions of `cwd`, an absolute path.
pub fn folder_name(cwd: &str) -> String {
    let inner = cwd.strip_prefix(['/', '\\']).unwrap_or(cwd);
    format!("--{}--", inner.replace(['/', '\\', ':'], "-"))
}

/// The name of the file of a session that began at `timestamp` (ISO 8601).
pub fn file_name(timestamp: &str, id: &str) -> String {
    format!("{}_{id}.jsonl", timestamp.replace([':', '.'], "-"))
}

/// The session file in `folder` that was written last, and the files written after it that
/// are no sessions; with `cwd` only sessions of that working folder count. A folder that
/// does not exist holds none.
///
/// # Errors
///
/// When the folder cannot be read.
pub fn newest(folder: &Path, cwd: Option<&str>) -> io::Result<Newest> {
    let mut candidates = files(folder)?;
    candidates.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| b.0.cmp(&a.0)));
    let mut newest = Newest::default();
    for (path, _) in candidates {
        match read_header(&path) {
            Ok(Some(header)) if cwd.is_none_or(|cwd| header.cwd == cwd) => {
                newest.path = Some(path);
                break;
            }
            Ok(Some(_)) => {}
            Ok(None) => newest.skipped.push(Skipped { path, error: None }),
            Err(error) => newest.skipped.push(Skipped {
                path,
                error: Some(error.to_string()),
            }),
        }
    }
    Ok(newest)
}

/// Whether an argument that names a session is a path and not an id.
pub fn is_path(argument: &str) -> bool {
    argument.contains(['/', '\\']) || argument.ends_with(".jsonl")
}

/// Finds the session that `argument` names: a path, or the beginning of an id, looked for
/// in `folder` first and then in all folders of `root`. An exact id goes before a longer
/// one, a later session before an earlier one.
///
/// # Errors
///
/// When a folder cannot be read.
pub fn find(argument: &str, folder: &Path, root: Option<&Path>) -> io::Result<Found> {
    if is_path(argument) {
        return Ok(Found::Path(argument.into()));
    }
    if argument.is_empty() {
        return Ok(Found::Nothing);
    }
    if let Some((path, _)) = by_id(argument, files(folder)?) {
        return Ok(Found::Here(path));
    }
    let mut others = Vec::new();
    for other in root.map_or(Ok(Vec::new()), folders)? {
        if other != folder {
            others.extend(files(&other)?);
        }
    }
    Ok(
        by_id(argument, others).map_or(Found::Nothing, |(path, header)| Found::Elsewhere {
            path,
            cwd: header.cwd,
        }),
    )
}

/// Finds the session whose id begins with `prefix` among those that lie in `agent_folder`
/// itself, as they did before there was a folder for each working folder. Those of `cwd` go
/// before others.
///
/// # Errors
///
/// When the folder cannot be read.
pub fn find_old(prefix: &str, agent_folder: &Path, cwd: &str) -> io::Result<Found> {
    if prefix.is_empty() || is_path(prefix) {
        return Ok(Found::Nothing);
    }
    let all = files(agent_folder)?;
    let is_here = |path: &Path| header(path).is_some_and(|header| header.cwd == cwd);
    let (here, elsewhere) = all.into_iter().partition(|(path, _)| is_here(path));
    if let Some((path, _)) = by_id(prefix, here) {
        return Ok(Found::Here(path));
    }
    let other = by_id(prefix, elsewhere);
    Ok(
        other.map_or(Found::Nothing, |(path, header)| Found::Elsewhere {
            path,
            cwd: header.cwd,
        }),
    )
}

/// The header of a session file, read from its first line; none when there is none.
pub fn header(path: &Path) -> Option<Header> {
    read_header(path).ok().flatten()
}

pub(super) fn read_header(path: &Path) -> io::Result<Option<Header>> {
    // A pipe would be waited for.
    if !fs::metadata(path)?.is_file() {
        return Ok(None);
    }
    let mut file = File::open(path)?;
    let start = read_part(&mut file, 0, 4 << 10)?;
    let start = if start.contains(&b'\n') {
        start
    } else {
        read_part(&mut file, 0, FIRST_LINE)?
    };
    let mut lines = start.split(|byte| *byte == b'\n');
    Ok(lines.find_map(object).and_then(Header::from_object))
}

fn by_id(prefix: &str, mut files: Vec<(PathBuf, SystemTime)>) -> Option<(PathBuf, Header)> {
    files.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| b.0.cmp(&a.0)));
    let named = files
        .into_iter()
        .filter_map(|(path, _)| Some((header(&path)?, path)));
    let mut matches: Vec<(Header, PathBuf)> = named
        .filter(|(header, _)| header.id.starts_with(prefix))
        .collect();
    let exact = matches
        .iter()
        .position(|(header, _)| header.id == prefix)
        .unwrap_or(0);
    (exact < matches.len())
        .then(|| matches.swap_remove(exact))
        .map(|(header, path)| (path, header))
}

/// The `.jsonl` files in `folder` with their times of change.
pub(super) fn files(folder: &Path) -> io::Result<Vec<(PathBuf, SystemTime)>> {
    let mut found = Vec::new();
    for entry in read_folder(folder)? {
        let path = entry?.path();
        if path
            .extension()
            .is_none_or(|extension| extension != "jsonl")
        {
            continue;
        }
        // A file that goes away meanwhile is not in the list.
        if let Ok(metadata) = fs::metadata(&path)
            && metadata.is_file()
        {
            found.push((path, metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH)));
        }
    }
    Ok(found)
}

pub(super) fn folders(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in read_folder(root)? {
        let path = entry?.path();
        if path.is_dir() {
            found.push(path);
        }
    }
    Ok(found)
}

fn read_folder(folder: &Path) -> io::Result<impl Iterator<Item = io::Result<fs::DirEntry>>> {
    match fs::read_dir(folder) {
        Ok(entries) => Ok(Some(entries).into_iter().flatten()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None.into_iter().flatten()),
        Err(error) => Err(error),
    }
}

pub(super) fn read_part(file: &mut File, from: u64, len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(from))?;
    file.take(len).read_to_end(&mut bytes)?;
    Ok(bytes)
}

pub(super) fn object(line: &[u8]) -> Option<Extra> {
    parse_object(std::str::from_utf8(line.trim_ascii()).ok()?).ok()
}
