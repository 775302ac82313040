//! Lists of sessions.
//!
//! Of each file a bounded part is read, whatever its size, and of a folder a bounded
//! number of files as a whole: a list of ten thousand sessions, or of one with gigabytes,
//! is there at once.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use fluzo_llm::Message;
use fluzo_stdx::time::parse_iso;
use serde::Deserialize;

use super::head::Text;
use super::locate::{files, folders, object, read_part};
use crate::Header;

/// What a list shows of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionInfo {
    /// The file.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Its header.
    pub header: Header,
    /// Its name. Of a file that was not read as a whole only if it stands near the
    /// beginning or the end.
    pub name: Option<String>,
    /// The beginning of the first message of the user, [`FIRST_MESSAGE`] bytes at most. Of
    /// a file that was not read as a whole only if it stands near the beginning.
    pub first_message: Option<String>,
    /// Time of the last message of user or model, else of the header, in Unix
    /// milliseconds. Of the file itself where neither is there, or the end holds no message.
    pub modified_ms: i64,
    /// Number of messages; none when the file was not read as a whole.
    pub message_count: Option<usize>,
    /// The working folder of the session no longer exists.
    pub folder_gone: bool,
}

/// No larger file is read as a whole.
pub const WHOLE: u64 = 256 << 10;

/// A first message is cut off after this many bytes.
pub const FIRST_MESSAGE: usize = 2 << 10;

/// So many bytes of a folder are spent on files read as a whole, the latest first. Of the
/// others only the ends are read.
const WHOLE_OF_A_FOLDER: u64 = 16 << 20;

/// So many files are worth a thread.
const FILES_OF_A_THREAD: usize = 1000;

/// Sizes of the parts that are read at either end, until one holds a message.
const PARTS: [u64; 2] = [4 << 10, 32 << 10];

/// The sessions in `folder`, the latest first. Files that are no sessions are passed over;
/// a folder that does not exist holds none.
///
/// # Errors
///
/// When the folder cannot be read.
pub fn list(folder: &Path) -> io::Result<Vec<SessionInfo>> {
    Ok(of_files(files(folder)?))
}

/// The sessions in all folders of `root`, the latest first.
///
/// # Errors
///
/// When a folder cannot be read.
pub fn list_all(root: &Path) -> io::Result<Vec<SessionInfo>> {
    let mut found = Vec::new();
    for folder in folders(root)? {
        found.extend(files(&folder)?);
    }
    Ok(of_files(found))
}

/// The sessions that lie in `agent_folder` itself, as they did before there was a folder for
/// each working folder, the latest first; with `cwd` only those of that working folder.
///
/// # Errors
///
/// When the folder cannot be read.
pub fn list_old(agent_folder: &Path, cwd: Option<&str>) -> io::Result<Vec<SessionInfo>> {
    let mut found = list(agent_folder)?;
    found.retain(|info| cwd.is_none_or(|cwd| info.header.cwd == cwd));
    Ok(found)
}

/// What a list shows of the session in `path`; none when it is no session.
///
/// # Errors
///
/// When the file cannot be read.
pub fn info(path: &Path) -> io::Result<Option<SessionInfo>> {
    let mut allowance = u64::MAX;
    let mut info = read_info(path, &mut allowance)?;
    if let Some(info) = &mut info {
        info.folder_gone = is_gone(&info.header.cwd);
    }
    Ok(info)
}

fn of_files(mut files: Vec<(PathBuf, SystemTime)>) -> Vec<SessionInfo> {
    files.sort_by_key(|file| std::cmp::Reverse(file.1));
    let mut found = read_all(&files);
    let mut gone: HashMap<String, bool> = HashMap::new();
    for info in &mut found {
        info.folder_gone = match gone.get(&info.header.cwd) {
            Some(gone) => *gone,
            None => {
                let is_gone = is_gone(&info.header.cwd);
                gone.insert(info.header.cwd.clone(), is_gone);
                is_gone
            }
        };
    }
    found.sort_by(|a, b| {
        b.modified_ms
            .cmp(&a.modified_ms)
            .then_with(|| b.path.cmp(&a.path))
    });
    found
}

/// Reads what a list needs of `files`, on several threads where there are many. A file that
/// cannot be read, or goes away meanwhile, is not among them.
fn read_all(files: &[(PathBuf, SystemTime)]) -> Vec<SessionInfo> {
    // The latest files come first when it is decided what is read as a whole.
    let mut allowance = WHOLE_OF_A_FOLDER;
    let some = |(path, _): &(PathBuf, SystemTime)| read_info(path, &mut allowance).ok().flatten();
    let (first, rest) = files.split_at(files.len().min(FILES_OF_A_THREAD));
    let mut found: Vec<SessionInfo> = first.iter().filter_map(some).collect();
    let most = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = rest.len().div_ceil(FILES_OF_A_THREAD).min(most);
    if threads == 0 {
        return found;
    }
    let share = allowance / threads as u64;
    let read = |files: &[(PathBuf, SystemTime)]| -> Vec<SessionInfo> {
        let mut share = share;
        let some = |(path, _): &(PathBuf, SystemTime)| read_info(path, &mut share).ok().flatten();
        files.iter().filter_map(some).collect()
    };
    let parts = rest.chunks(rest.len().div_ceil(threads));
    std::thread::scope(|scope| {
        let readers: Vec<_> = parts.map(|part| scope.spawn(move || read(part))).collect();
        for reader in readers {
            // Reading does not panic; a thread that ended so would have nothing to give.
            found.extend(reader.join().unwrap_or_default());
        }
    });
    found
}

/// Whether a working folder is known not to exist. One that may not be looked at, or that
/// is no whole path, may exist.
fn is_gone(cwd: &str) -> bool {
    let missing = |error: &io::Error| {
        matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
        )
    };
    let cwd = Path::new(cwd);
    cwd.is_absolute()
        && match fs::metadata(cwd) {
            Ok(metadata) => !metadata.is_dir(),
            Err(error) => missing(&error),
        }
}

/// Reads the file as a whole if it is small and `allowance` has room for it, else its ends.
fn read_info(path: &Path, allowance: &mut u64) -> io::Result<Option<SessionInfo>> {
    let metadata = fs::metadata(path)?;
    // A pipe would be waited for.
    if !metadata.is_file() {
        return Ok(None);
    }
    let mut file = File::open(path)?;
    let len = metadata.len();
    let whole = len <= WHOLE && len <= *allowance;
    let seen = if whole {
        *allowance -= len;
        let mut seen = Collected::default();
        seen.lines(&read_part(&mut file, 0, len)?);
        seen
    } else {
        read_ends(&mut file, len)?
    };
    let Some(header) = seen.header else {
        return Ok(None);
    };
    let written = || unix_ms(metadata.modified().ok());
    let begun = || whole.then(|| parse_iso(&header.timestamp)).flatten();
    Ok(Some(SessionInfo {
        path: path.to_owned(),
        bytes: len,
        name: seen.name.filter(|name| !name.is_empty()),
        first_message: seen.first_message.filter(|text| !text.is_empty()),
        modified_ms: seen.modified.or_else(begun).unwrap_or_else(written),
        message_count: whole.then_some(seen.messages),
        folder_gone: false,
        header,
    }))
}

/// Reads the beginning of a file until the first message of the user, and its end until
/// the last message, in steps that never reach far.
fn read_ends(file: &mut File, len: u64) -> io::Result<Collected> {
    let mut seen = Collected::default();
    for part in PARTS {
        let bytes = read_part(file, 0, part)?;
        let (lines, cut) = split(&bytes, memchr::memrchr(b'\n', &bytes));
        seen = Collected::default();
        seen.lines(lines);
        if seen.first_message.is_none() && seen.header.is_some() {
            seen.first_message = beginning_of_user_text(cut);
        }
        if seen.first_message.is_some() || seen.not_a_session || part >= len {
            break;
        }
    }
    if seen.header.is_none() {
        return Ok(seen);
    }
    // What stands near the end is neither the first message nor near the beginning.
    seen.first_message.get_or_insert_default();
    seen.modified = None;
    for part in PARTS {
        let bytes = read_part(file, len.saturating_sub(part), part)?;
        let from = if part >= len {
            Some(0)
        } else {
            memchr::memchr(b'\n', &bytes)
        };
        let (_, lines) = split(&bytes, from);
        seen.lines(lines);
        if seen.modified.is_some() || part >= len {
            break;
        }
    }
    Ok(seen)
}

/// What stands before and behind the place `at`; without one all stands before it.
fn split(bytes: &[u8], at: Option<usize>) -> (&[u8], &[u8]) {
    bytes
        .split_at_checked(at.unwrap_or(bytes.len()))
        .unwrap_or((bytes, &[]))
}

/// The text of a user message whose line was cut off, as far as it goes.
fn beginning_of_user_text(line: &[u8]) -> Option<String> {
    let line = String::from_utf8_lossy(line);
    let role = line.find(r#""role":"user""#)?;
    let rest = line.get(role..)?;
    let text = [r#""text":""#, r#""content":""#]
        .iter()
        .filter_map(|key| rest.find(key).map(|at| at + key.len()))
        .min()?;
    let mut end = 0;
    let mut escaped = false;
    for (at, c) in rest.get(text..)?.char_indices() {
        if (c == '"' && !escaped) || at > FIRST_MESSAGE * 2 {
            break;
        }
        escaped = c == '\\' && !escaped;
        end = at + c.len_utf8();
    }
    let mut raw = rest.get(text..text + end)?.trim_end_matches('\u{fffd}');
    // An escape that was cut off is at most six bytes long.
    for _ in 0..12 {
        if let Ok(text) = serde_json::from_str::<String>(&format!("\"{raw}\"")) {
            return Some(shortened(text));
        }
        let last = raw.chars().next_back()?;
        raw = raw.get(..raw.len() - last.len_utf8())?;
    }
    None
}

fn shortened(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(FIRST_MESSAGE));
    text.shrink_to_fit();
    text
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
            self.first_message = Some(shortened(user_text(line).unwrap_or_default()));
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
