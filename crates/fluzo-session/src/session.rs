//! The handle on an open session: its store, its current leaf, and what can be done.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fluzo_llm::message::UserContent;
use fluzo_llm::{Message, ToolCall};
use fluzo_stdx::ids::IdSource;
use fluzo_stdx::time::iso_utc;
use serde_json::Value;

use crate::fork::{self, Fork, ForkError};
use crate::store::{Claimed, DamageReport, Durability, Notice, SessionStore, StoreError};
use crate::tree::{self, Target};
use crate::{
    Compaction, Entry, EntryKind, Header, Index, NodeKind, Role, SessionContext, Stats, context,
};

/// An open session. May be shared between threads; appends happen one after the other,
/// each as a child of the one before.
///
/// Times are Unix milliseconds. No call waits for anything but the store.
pub struct Session {
    store: Arc<dyn SessionStore>,
    ids: Arc<dyn IdSource>,
    leaf: Mutex<Option<String>>,
}

/// A tool call without a result.
#[derive(Debug, Clone, PartialEq)]
pub struct UnansweredCall {
    /// Entry of the assistant message that asked for it.
    pub entry_id: String,
    /// The call.
    pub call: ToolCall,
}

impl Session {
    /// The session in `store`, at the entry that was written last.
    pub fn new(store: Arc<dyn SessionStore>, ids: Arc<dyn IdSource>) -> Self {
        let last = |index: &Index| index.last().map(|node| node.id.to_string());
        let leaf = Mutex::new(store.look(last).flatten());
        Self { store, ids, leaf }
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn SessionStore> {
        &self.store
    }

    /// The header.
    pub fn header(&self) -> Header {
        self.store.header()
    }

    /// Where the session is or will be kept; none in memory.
    pub fn path(&self) -> Option<PathBuf> {
        self.store.path()
    }

    /// What was found in the session that is no entry.
    pub fn damage(&self) -> DamageReport {
        self.store.damage()
    }

    /// What the user should know about the store, oldest first; only ever grows.
    pub fn notices(&self) -> Vec<Notice> {
        self.store.notices()
    }

    /// The name of the session.
    pub fn name(&self) -> Option<String> {
        self.store
            .look(|index| index.name().map(str::to_owned))
            .flatten()
    }

    /// The label on an entry.
    pub fn label(&self, id: &str) -> Option<String> {
        self.store
            .look(|index| index.label(id).map(str::to_owned))
            .flatten()
    }

    /// The current leaf; none before the first entry.
    pub fn leaf_id(&self) -> Option<String> {
        self.leaf().clone()
    }

    /// The entry with this id.
    ///
    /// # Errors
    ///
    /// When there is none, or it cannot be read.
    pub fn entry(&self, id: &str) -> Result<Arc<Entry>, StoreError> {
        self.store.payload(id)
    }

    /// The context at the current leaf.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub fn context(&self) -> Result<SessionContext, StoreError> {
        let leaf = self.leaf_id();
        context::build(&*self.store, leaf.as_deref())
    }

    /// The counts over the path to the current leaf. How full the context is, the caller
    /// knows and fills in.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub fn stats(&self) -> Result<Stats, StoreError> {
        let leaf = self.leaf_id();
        Stats::on_path(&*self.store, leaf.as_deref())
    }

    /// Makes sure, before anything is appended, that this process alone writes the session;
    /// when another one does, the session goes on in a new file. Returns whether the leaf had
    /// to move back, because the other process may still be in the turn that it was in.
    ///
    /// # Errors
    ///
    /// When the store cannot be written; session and leaf are then as before.
    pub fn claim(&self, now_ms: i64) -> Result<bool, StoreError> {
        let mut leaf = self.leaf();
        let Claimed::CutBack { leaf: before } = self.store.claim(&iso_utc(now_ms))? else {
            return Ok(false);
        };
        let gone = leaf
            .as_deref()
            .is_some_and(|leaf| self.require(leaf).is_err());
        if gone {
            *leaf = before.as_deref().map(str::to_owned);
        }
        Ok(gone)
    }

    /// Appends an entry of any kind as a child of the leaf and moves the leaf to it.
    ///
    /// # Errors
    ///
    /// When the store refuses; session and leaf are then as before.
    pub fn append(
        &self,
        kind: EntryKind,
        durability: Durability,
        now_ms: i64,
    ) -> Result<Arc<Entry>, StoreError> {
        let mut leaf = self.leaf();
        let entry = self.append_at(leaf.as_deref(), kind, durability, now_ms)?;
        *leaf = Some(entry.id.clone());
        Ok(entry)
    }

    /// Appends a message.
    ///
    /// # Errors
    ///
    /// As [`append`](Self::append).
    pub fn append_message(
        &self,
        message: Arc<Message>,
        now_ms: i64,
    ) -> Result<Arc<Entry>, StoreError> {
        self.append(EntryKind::Message(message), Durability::Buffered, now_ms)
    }

    /// Appends a change of the model.
    ///
    /// # Errors
    ///
    /// As [`append`](Self::append).
    pub fn append_model_change(
        &self,
        provider: &str,
        model_id: &str,
        now_ms: i64,
    ) -> Result<Arc<Entry>, StoreError> {
        let kind = EntryKind::ModelChange {
            provider: provider.to_owned(),
            model_id: model_id.to_owned(),
        };
        self.append(kind, Durability::Buffered, now_ms)
    }

    /// Appends a change of the thinking level.
    ///
    /// # Errors
    ///
    /// As [`append`](Self::append).
    pub fn append_thinking_level_change(
        &self,
        level: &str,
        now_ms: i64,
    ) -> Result<Arc<Entry>, StoreError> {
        let kind = EntryKind::ThinkingLevelChange {
            level: level.to_owned(),
        };
        self.append(kind, Durability::Buffered, now_ms)
    }

    /// Appends a compaction.
    ///
    /// # Errors
    ///
    /// As [`append`](Self::append).
    pub fn append_compaction(
        &self,
        compaction: Compaction,
        now_ms: i64,
    ) -> Result<Arc<Entry>, StoreError> {
        self.append(
            EntryKind::Compaction(compaction),
            Durability::Buffered,
            now_ms,
        )
    }

    /// Appends state of an extension.
    ///
    /// # Errors
    ///
    /// As [`append`](Self::append).
    pub fn append_custom(
        &self,
        custom_type: &str,
        data: Option<Value>,
        now_ms: i64,
    ) -> Result<Arc<Entry>, StoreError> {
        let kind = EntryKind::Custom {
            custom_type: custom_type.to_owned(),
            data,
        };
        self.append(kind, Durability::Buffered, now_ms)
    }

    /// Appends a context message of an extension.
    ///
    /// # Errors
    ///
    /// As [`append`](Self::append).
    pub fn append_custom_message(
        &self,
        custom_type: &str,
        content: UserContent,
        display: bool,
        details: Option<Value>,
        now_ms: i64,
    ) -> Result<Arc<Entry>, StoreError> {
        let custom_type = custom_type.to_owned();
        let kind = EntryKind::CustomMessage {
            custom_type,
            content,
            display,
            details,
        };
        self.append(kind, Durability::Buffered, now_ms)
    }

    /// Sets the label of an entry; none or an empty one takes it away.
    ///
    /// # Errors
    ///
    /// When the entry is unknown, or as [`append`](Self::append).
    pub fn append_label(
        &self,
        target_id: &str,
        label: Option<&str>,
        now_ms: i64,
    ) -> Result<Arc<Entry>, StoreError> {
        self.require(target_id)?;
        let label = label.filter(|label| !label.is_empty()).map(str::to_owned);
        let kind = EntryKind::Label {
            target_id: target_id.to_owned(),
            label,
        };
        self.append(kind, Durability::Buffered, now_ms)
    }

    /// Names the session. White space around the name goes, line ends become spaces; an
    /// empty name takes it away.
    ///
    /// # Errors
    ///
    /// As [`append`](Self::append).
    pub fn append_session_info(&self, name: &str, now_ms: i64) -> Result<Arc<Entry>, StoreError> {
        let lines: Vec<&str> = name.trim().lines().collect();
        let kind = EntryKind::SessionInfo {
            name: lines.join(" "),
        };
        self.append(kind, Durability::Buffered, now_ms)
    }

    /// Moves the leaf to an earlier entry. Nothing is written until the next append.
    ///
    /// # Errors
    ///
    /// When there is no such entry.
    pub fn branch(&self, id: &str) -> Result<(), StoreError> {
        self.require(id)?;
        *self.leaf() = Some(id.to_owned());
        Ok(())
    }

    /// Moves the leaf before the first entry: the next append makes another root.
    pub fn reset_leaf(&self) {
        *self.leaf() = None;
    }

    /// Moves the leaf to `id`, or before the first entry, and appends a summary of the
    /// branch that was left.
    ///
    /// # Errors
    ///
    /// When there is no such entry, or as [`append`](Self::append).
    pub fn branch_with_summary(
        &self,
        id: Option<&str>,
        summary: &str,
        details: Option<Value>,
        from_hook: Option<bool>,
        now_ms: i64,
    ) -> Result<Arc<Entry>, StoreError> {
        id.map_or(Ok(()), |id| self.require(id))?;
        let kind = EntryKind::BranchSummary {
            from_id: id.unwrap_or("root").to_owned(),
            summary: summary.to_owned(),
            details,
            from_hook,
        };
        let mut leaf = self.leaf();
        let entry = self.append_at(id, kind, Durability::Buffered, now_ms)?;
        *leaf = Some(entry.id.clone());
        Ok(entry)
    }

    /// Where choosing `id` in the tree leads. Moves nothing.
    ///
    /// # Errors
    ///
    /// When there is no such entry.
    pub fn navigation_target(&self, id: &str) -> Result<Target, StoreError> {
        let target = self.store.look(|index| tree::navigation_target(index, id));
        target.unwrap_or_else(|| Err(StoreError::EntryNotFound { id: id.to_owned() }))
    }

    /// The fork before the user message `id`, or of the whole path without one.
    ///
    /// # Errors
    ///
    /// When there is nothing to fork there, or the store cannot be read.
    pub fn fork(&self, before: Option<&str>) -> Result<Fork, ForkError> {
        match before {
            Some(id) => fork::before_user(&*self.store, id, &*self.ids),
            None => fork::at_leaf(&*self.store, self.leaf_id().as_deref(), &*self.ids),
        }
    }

    /// The calls of the last turn on the path that have no result, as a crash leaves them.
    ///
    /// A response that failed has none: its calls are never executed. A result that cannot be
    /// read any more counts as missing.
    ///
    /// # Errors
    ///
    /// When the store, or the response, cannot be read.
    pub fn unanswered_calls(&self) -> Result<Vec<UnansweredCall>, StoreError> {
        let Some(leaf) = self.leaf_id() else {
            return Ok(Vec::new());
        };
        let Some((asked, results)) = self.store.look(|index| last_turn(index, &leaf)).flatten()
        else {
            return Ok(Vec::new());
        };
        let entry = self.store.payload(&asked)?;
        let assistant = entry.message().and_then(|message| message.as_assistant());
        let Some(assistant) = assistant.filter(|assistant| !assistant.failed()) else {
            return Ok(Vec::new());
        };
        let mut open: Vec<&ToolCall> = assistant.tool_calls().collect();
        for id in results {
            let entry = match self.store.payload(&id) {
                Err(StoreError::Unreadable { .. }) => continue,
                entry => entry?,
            };
            if let Some(result) = entry.message().and_then(|message| message.as_tool_result()) {
                open.retain(|call| call.id != result.tool_call_id);
            }
        }
        let entry_id = &entry.id;
        let name = |call: &ToolCall| UnansweredCall {
            entry_id: entry_id.clone(),
            call: call.clone(),
        };
        Ok(open.into_iter().map(name).collect())
    }

    fn append_at(
        &self,
        parent: Option<&str>,
        kind: EntryKind,
        durability: Durability,
        now_ms: i64,
    ) -> Result<Arc<Entry>, StoreError> {
        let taken = |id: &str| self.store.look(|index| index.contains(id)).unwrap_or(false);
        let id = fork::fresh_id(&*self.ids, taken);
        let entry = Entry::new(id, parent.map(str::to_owned), iso_utc(now_ms), kind);
        self.store.append(entry, durability)
    }

    fn require(&self, id: &str) -> Result<(), StoreError> {
        if self.store.look(|index| index.contains(id)).unwrap_or(false) {
            return Ok(());
        }
        Err(StoreError::EntryNotFound { id: id.to_owned() })
    }

    fn leaf(&self) -> MutexGuard<'_, Option<String>> {
        // The leaf is set in one assignment; a poisoned one is still whole.
        self.leaf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The last assistant message above `leaf` and the results after it; none when something
/// else was said since.
fn last_turn(index: &Index, leaf: &str) -> Option<(String, Vec<String>)> {
    let mut results = Vec::new();
    for node in tree::up(index, leaf) {
        match node.kind {
            NodeKind::Message(Role::ToolResult) => results.push(node.id.to_string()),
            NodeKind::Message(Role::Assistant) => return Some((node.id.to_string(), results)),
            NodeKind::Message(Role::User) => return None,
            _ => {}
        }
    }
    None
}
