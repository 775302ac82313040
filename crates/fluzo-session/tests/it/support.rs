//! Sessions for tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fluzo_llm::Message;
use fluzo_session::conformance::Factory;
use fluzo_session::{Entry, Header, JsonlStore, MemoryStore, Session, SessionStore, StoreError};
use fluzo_stdx::ids::{CountingIds, IdSource, RandomIds};
use tempfile::TempDir;

pub use fluzo_session::conformance::{entry, header, ids, user};

pub const USAGE: &str = r#"{"input":1,"output":2,"cacheRead":0,"cacheWrite":0,"totalTokens":3,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}"#;

pub const HEADER: &str =
    r#"{"type":"session","version":3,"id":"s","timestamp":"2026-12-01T08:37:28.123Z","cwd":"/w"}"#;

/// A time in Unix milliseconds.
pub const NOW: i64 = 1_790_000_000_000;

pub fn random_ids() -> Arc<dyn IdSource> {
    Arc::new(RandomIds)
}

pub fn counting_ids() -> Arc<dyn IdSource> {
    Arc::new(CountingIds::default())
}

pub fn text(text: &str) -> Arc<Message> {
    Arc::new(Message::user(text, NOW))
}

pub fn message(json: &str) -> Arc<Message> {
    Arc::new(serde_json::from_str(json).unwrap())
}

pub fn assistant(text: &str) -> Arc<Message> {
    message(&format!(
        r#"{{"role":"assistant","content":[{{"type":"text","text":"{text}"}}],"api":"a","provider":"p","model":"m","usage":{USAGE},"stopReason":"stop","timestamp":2}}"#
    ))
}

/// An assistant message that asks for the calls with these ids.
pub fn calls(ids: &[&str], stop: &str) -> Arc<Message> {
    let blocks: Vec<String> = ids
        .iter()
        .map(|id| format!(r#"{{"type":"toolCall","id":"{id}","name":"read","arguments":{{}}}}"#))
        .collect();
    message(&format!(
        r#"{{"role":"assistant","content":[{}],"api":"a","provider":"p","model":"m","usage":{USAGE},"stopReason":"{stop}","timestamp":2}}"#,
        blocks.join(",")
    ))
}

pub fn result(id: &str) -> Arc<Message> {
    message(&format!(
        r#"{{"role":"toolResult","toolCallId":"{id}","toolName":"read","content":[],"isError":false,"timestamp":3}}"#
    ))
}

/// The line of a user message.
pub fn line(id: &str, parent: Option<&str>) -> String {
    user(id, parent, &format!("text of {id}"))
        .to_line()
        .unwrap()
}

pub fn open(path: &Path) -> Result<JsonlStore, StoreError> {
    JsonlStore::open(path, random_ids())
}

/// A session over the file at `path`.
pub fn session(path: &Path) -> Session {
    Session::new(Arc::new(open(path).unwrap()), random_ids())
}

pub fn memory_session() -> Session {
    Session::new(Arc::new(MemoryStore::new(header())), counting_ids())
}

/// A new session that is to be kept in `folder`.
pub fn new_session(folder: &Path) -> Session {
    let store = JsonlStore::create_in(folder, header(), Vec::new(), random_ids()).unwrap();
    Session::new(Arc::new(store), random_ids())
}

/// Writes a file of the header and `lines`, each with a line end.
pub fn file(folder: &TempDir, lines: &[&str]) -> PathBuf {
    let path = folder.path().join("session.jsonl");
    let mut text = format!("{HEADER}\n");
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
    fs::write(&path, text).unwrap();
    path
}

/// Roles of the messages in the context at the leaf.
pub fn roles(session: &Session) -> Vec<String> {
    session
        .context()
        .unwrap()
        .messages
        .iter()
        .map(|m| m.role().to_owned())
        .collect()
}

/// Texts of the user messages in the context at the leaf.
pub fn texts(session: &Session) -> Vec<String> {
    let context = session.context().unwrap();
    let user = |message: &Arc<Message>| match &**message {
        Message::User(user) => Some(user.content.text()),
        _ => None,
    };
    context.messages.iter().filter_map(user).collect()
}

/// Types and parents (as positions, -1 for one that is not there) of `entries`.
pub fn chain(entries: &[Entry]) -> Vec<(String, Option<i64>)> {
    let place = |id: &String| {
        let at = entries.iter().position(|entry| entry.id == *id);
        at.map_or(-1, |at| i64::try_from(at).unwrap())
    };
    let of = |entry: &Entry| {
        (
            entry.kind.type_name().to_owned(),
            entry.parent_id.as_ref().map(place),
        )
    };
    entries.iter().map(of).collect()
}

/// Makes stores in files.
pub struct Files(pub TempDir);

/// Makes stores in memory.
pub struct Memory;

impl Files {
    pub fn new() -> Self {
        Self(TempDir::new().unwrap())
    }
}

impl Factory for Files {
    fn create(&self, header: Header, entries: Vec<Entry>) -> Arc<dyn SessionStore> {
        let folder = tempfile::tempdir_in(self.0.path()).unwrap().keep();
        Arc::new(JsonlStore::create_in(&folder, header, entries, random_ids()).unwrap())
    }

    fn reopen(&self, store: Arc<dyn SessionStore>) -> Arc<dyn SessionStore> {
        let path = store.path().unwrap();
        drop(store);
        Arc::new(open(&path).unwrap())
    }
}

impl Factory for Memory {
    fn create(&self, header: Header, entries: Vec<Entry>) -> Arc<dyn SessionStore> {
        Arc::new(MemoryStore::with_entries(header, entries))
    }

    fn reopen(&self, store: Arc<dyn SessionStore>) -> Arc<dyn SessionStore> {
        store
    }
}
