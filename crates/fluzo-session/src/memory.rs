//! A session in memory only.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::store::{DamageReport, Durability, Notice, SessionStore, StoreError};
use crate::{Entry, Header, Index, Node};

/// Keeps a session for as long as it lives itself.
#[derive(Debug)]
pub struct MemoryStore {
    header: Header,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    index: Index,
    entries: Vec<Arc<Entry>>,
    joined: u64,
}

impl MemoryStore {
    /// A session without entries.
    pub fn new(header: Header) -> Self {
        Self::with_entries(header, Vec::new())
    }

    /// A session of `entries`, taken as they are: as when a file is opened, a parent may be
    /// unknown (the entry is joined to one before it), and of several entries with one id the last counts.
    pub fn with_entries(header: Header, entries: Vec<Entry>) -> Self {
        let mut kept = Kept::default();
        for entry in entries {
            kept.push(Arc::new(entry));
        }
        kept.joined = kept.index.join_orphans();
        Self {
            header,
            kept: Mutex::new(kept),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // No change panics half-way; a poisoned store is still a whole one.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn push(&mut self, entry: Arc<Entry>) {
        self.index.push(Node::of(&entry));
        self.entries.push(entry);
    }
}

impl SessionStore for MemoryStore {
    fn header(&self) -> Header {
        self.header.clone()
    }

    fn append(&self, entry: Entry, _: Durability) -> Result<Arc<Entry>, StoreError> {
        let mut kept = self.lock();
        kept.index.admits(&entry)?;
        let entry = Arc::new(entry);
        kept.push(Arc::clone(&entry));
        Ok(entry)
    }

    fn read_index(&self, look: &mut dyn FnMut(&Index)) {
        look(&self.lock().index);
    }

    fn payload(&self, id: &str) -> Result<Arc<Entry>, StoreError> {
        let kept = self.lock();
        let entry = kept.index.position(id).and_then(|at| kept.entries.get(at));
        entry
            .cloned()
            .ok_or_else(|| StoreError::EntryNotFound { id: id.to_owned() })
    }

    fn damage(&self) -> DamageReport {
        DamageReport {
            joined: self.lock().joined,
            ..DamageReport::default()
        }
    }

    fn notices(&self) -> Vec<Notice> {
        Vec::new()
    }

    fn path(&self) -> Option<PathBuf> {
        None
    }

    fn saved(&self) -> bool {
        true
    }
}
