//! Where session files are: their names, lists of them, and finding one.
//!
//! A list reads a bounded part of each file, whatever its size.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use fluzo_llm::{Extra, Message};
use fluzo_stdx::time::parse_iso;
use serde::Deserialize;

use super::head::Text;
use crate::Header;
use crate::entry::parse_object;

/// What a list shows of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionInfo {
    /// The file.
    pub path: PathBuf,
    /// Its header.
    pub header: Header,
    /// Its name. Of a file over [`WHOLE`] bytes only if it stands near the beginning or the end.
    pub name: Option<String>,
    /// Text of the first message of the user. Of a large file only if it stands near the beginning.
    pub first_message: Option<String>,
    /// Time of the last message of user or model, else of the header, else of the file,
    /// in Unix milliseconds.
    pub modified_ms: i64,
    /// Number of messages; none for a large file, whose middle was not read.
    pub message_count: Option<usize>,
}

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

/// A file up to this many bytes is read as a whole for a list.
pub const WHOLE: u64 = 4 << 20;

/// Of a larger file this much is read at either end.
const PART: u64 = 256 << 10;

/// The name of the folder for the sessions of `cwd`, an absolute path.
pub fn folder_name(cwd: &str) -> String {
    let inner = cwd.strip_prefix(['/', '\\']).unwrap_or(cwd);
    format!("--{}--", inner.replace(['/', '\\', ':'], "-"))
}

/// The name of the file of a session that began at `timestamp` (ISO 8601).
pub fn file_name(timestamp: &str, id: &str) -> String {
    format!("{}_{id}.jsonl", timestamp.replace([':', '.'], "-"))
}

/// The sessions in `folder`, the latest first. Files that are no sessions are passed over;
/// a folder that does not exist holds none.
///
/// # Errors
///
/// When the folder cannot be read.
pub fn list(folder: &Path) -> io::Result<Vec<SessionInfo>> {
    let mut found: Vec<SessionInfo> = files(folder)?
        .into_iter()
        .filter_map(|(path, _)| info(&path).ok().flatten())
        .collect();
    found.sort_by(|a, b| {
        b.modified_ms
            .cmp(&a.modified_ms)
            .then_with(|| b.path.cmp(&a.path))
    });
    Ok(found)
}

/// What a list shows of the session in `path`; none when it is no session.
///
/// # Errors
///
/// When the file cannot be read.
pub fn info(path: &Path) -> io::Result<Option<SessionInfo>> {
    let mut file = File::open(path)?;
    let metadata = file.metadata()?;
    let mut collected = Collected::default();
    if metadata.len() <= WHOLE {
        collected.lines(&read_part(&mut file, 0, metadata.len())?);
    } else {
        collected.lines(whole_lines(&read_part(&mut file, 0, PART)?, false));
        // A message near the end is not the first one.
        collected.first_message.get_or_insert_default();
        collected.lines(whole_lines(
            &read_part(&mut file, metadata.len() - PART, PART)?,
            true,
        ));
    }
    let Some(header) = collected.header else {
        return Ok(None);
    };
    let modified = collected.modified.or_else(|| parse_iso(&header.timestamp));
    Ok(Some(SessionInfo {
        path: path.to_owned(),
        header,
        name: collected.name.filter(|name| !name.is_empty()),
        first_message: collected.first_message.filter(|text| !text.is_empty()),
        modified_ms: modified.unwrap_or_else(|| unix_ms(metadata.modified().ok())),
        message_count: (metadata.len() <= WHOLE).then_some(collected.messages),
    }))
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

/// The header of a session file, read from its first line; none when there is none.
pub fn header(path: &Path) -> Option<Header> {
    read_header(path).ok().flatten()
}

fn read_header(path: &Path) -> io::Result<Option<Header>> {
    let mut file = File::open(path)?;
    let start = read_part(&mut file, 0, 4 << 10)?;
    let start = if start.contains(&b'\n') {
        start
    } else {
        read_part(&mut file, 0, PART)?
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
fn files(folder: &Path) -> io::Result<Vec<(PathBuf, SystemTime)>> {
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

fn folders(root: &Path) -> io::Result<Vec<PathBuf>> {
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

fn read_part(file: &mut File, from: u64, len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(from))?;
    file.take(len).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The part of `bytes` that is whole lines, at the end or at the beginning of a file.
fn whole_lines(bytes: &[u8], at_end: bool) -> &[u8] {
    let cut = if at_end {
        memchr::memchr(b'\n', bytes)
    } else {
        memchr::memrchr(b'\n', bytes)
    };
    match cut {
        Some(cut) if at_end => bytes.get(cut + 1..).unwrap_or_default(),
        Some(cut) => bytes.get(..cut).unwrap_or_default(),
        None => &[],
    }
}

fn object(line: &[u8]) -> Option<Extra> {
    parse_object(std::str::from_utf8(line.trim_ascii()).ok()?).ok()
}

fn unix_ms(time: Option<SystemTime>) -> i64 {
    let since = time.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
    since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    })
}

/// What was seen of a session so far.
#[derive(Default)]
struct Collected {
    header: Option<Header>,
    not_a_session: bool,
    name: Option<String>,
    first_message: Option<String>,
    modified: Option<i64>,
    messages: usize,
}

/// What a list needs of a line, without building the rest.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Light<'a> {
    #[serde(rename = "type", borrow)]
    type_name: Option<Text<'a>>,
    #[serde(borrow)]
    name: Option<Text<'a>>,
    #[serde(borrow)]
    message: Option<LightMessage<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LightMessage<'a> {
    #[serde(borrow)]
    role: Option<Text<'a>>,
    timestamp: Option<i64>,
}

impl Collected {
    fn lines(&mut self, bytes: &[u8]) {
        for line in bytes.split(|byte| *byte == b'\n') {
            if self.not_a_session {
                return;
            }
            if self.header.is_some() {
                self.entry(line);
            } else if let Some(object) = object(line) {
                self.header = Header::from_object(object);
                self.not_a_session = self.header.is_none();
            }
        }
    }

    fn entry(&mut self, line: &[u8]) {
        let text = std::str::from_utf8(line.trim_ascii()).ok();
        // A line whose fields are not as they should be does not count in a list.
        let light = text.and_then(|text| serde_json::from_str::<Light<'_>>(text).ok());
        let Some(light) = light else { return };
        match light.type_name.as_deref() {
            Some("session_info") => {
                self.name = Some(light.name.as_deref().unwrap_or_default().to_owned());
            }
            Some("message") => self.message(light.message.unwrap_or_default(), line),
            _ => {}
        }
    }

    fn message(&mut self, message: LightMessage<'_>, line: &[u8]) {
        self.messages += 1;
        let role = message.role.as_deref().unwrap_or_default();
        if role == "user" && self.first_message.is_none() {
            self.first_message = Some(user_text(line).unwrap_or_default());
        }
        if role == "user" || role == "assistant" {
            self.modified = self.modified.max(message.timestamp);
        }
    }
}

/// The text of the user message in `line`.
fn user_text(line: &[u8]) -> Option<String> {
    let message = object(line)?.shift_remove("message")?;
    match serde_json::from_value(message).ok()? {
        Message::User(user) => Some(user.content.text()),
        _ => None,
    }
}
