//! Sessions and pages for tests.

use std::sync::Arc;

use fluzo_export::{Extras, Report, write_page};
use fluzo_llm::Message;
use fluzo_session::{Entry, EntryKind, Header, MemoryStore, SessionStore};
use serde_json::{Value, json};

/// A session that is built entry by entry.
pub struct Built {
    pub entries: Vec<Entry>,
    last: Option<String>,
}

impl Built {
    pub fn new() -> Self {
        Self {
            entries: Vec::new(),
            last: None,
        }
    }

    /// Adds an entry behind the last one; returns its id.
    pub fn add(&mut self, kind: EntryKind) -> String {
        let id = format!(
            "{:08x}",
            0xa000_0000_u32 + u32::try_from(self.entries.len()).unwrap()
        );
        let parent = self.last.replace(id.clone());
        self.entries
            .push(Entry::new(&*id, parent, "2026-12-01T08:37:28.123Z", kind));
        id
    }

    pub fn message(&mut self, value: Value) -> String {
        let message: Message = serde_json::from_value(value).unwrap();
        self.add(EntryKind::Message(Arc::new(message)))
    }

    pub fn user(&mut self, text: &str) -> String {
        self.message(
            json!({"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 1}),
        )
    }

    pub fn assistant(&mut self, blocks: Value) -> String {
        self.message(response(blocks))
    }

    pub fn says(&mut self, text: &str) -> String {
        self.assistant(json!([{"type": "text", "text": text}]))
    }

    pub fn result(&mut self, call: &str, tool: &str, text: &str) -> String {
        self.message(
            json!({"role": "toolResult", "toolCallId": call, "toolName": tool,
            "content": [{"type": "text", "text": text}], "isError": false, "timestamp": 3}),
        )
    }

    pub fn call(&mut self, tool: &str, arguments: Value, result: &str) -> String {
        let id = format!("c{}", self.entries.len());
        self.assistant(
            json!([{"type": "toolCall", "id": id, "name": tool, "arguments": arguments}]),
        );
        self.result(&id, tool, result)
    }

    /// The next entry follows this one.
    pub fn back_to(&mut self, id: Option<&str>) {
        self.last = id.map(str::to_owned);
    }

    /// Bytes of the entries as lines.
    pub fn bytes(&self) -> usize {
        self.entries
            .iter()
            .map(|entry| entry.to_line().unwrap().len() + 1)
            .sum()
    }

    pub fn page(&self) -> String {
        self.page_at(self.last.as_deref()).0
    }

    pub fn page_at(&self, leaf: Option<&str>) -> (String, Report) {
        let header = Header::new("s-1", "2026-12-01T08:37:28.123Z", "/work");
        let store = MemoryStore::with_entries(header, self.entries.clone());
        page(&store, leaf, &Extras::default())
    }
}

pub fn page(store: &dyn SessionStore, leaf: Option<&str>, extras: &Extras<'_>) -> (String, Report) {
    let mut out = Vec::new();
    let report = write_page(store, leaf, extras, &mut out).unwrap();
    (String::from_utf8(out).unwrap(), report)
}

pub fn response(blocks: Value) -> Value {
    json!({"role": "assistant", "content": blocks, "api": "a", "provider": "p", "model": "m",
        "usage": {"input": 10, "output": 2, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 12,
            "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0.5}},
        "stopReason": "stop", "timestamp": 2})
}
