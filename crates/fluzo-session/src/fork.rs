//! Branches taken out of a session: the entries of a new one, and the linear export.
//!
//! Labels move to the end of the new session, and what followed one is chained to the
//! entry before it, so that the new session has the context of the old one.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use fluzo_llm::Message;
use fluzo_llm::message::UserContent;
use fluzo_stdx::ids::IdSource;

use crate::store::{SessionStore, StoreError};
use crate::{Entry, EntryKind, Index, NodeKind, tree};

/// What a fork is made of.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Fork {
    /// The entries of the new session; empty when the fork is before the first entry.
    pub entries: Vec<Entry>,
    /// The content of the user message the fork was made at, for the editor.
    pub content: Option<UserContent>,
}

/// Why a session cannot be forked.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    /// The entry is unknown or no user message.
    #[error("Invalid entry ID for forking")]
    InvalidEntry,
    /// There is nothing to clone.
    #[error("Cannot clone session: no current entry selected")]
    NoLeaf,
    /// The session has no file yet.
    #[error("This session has not been saved yet. Send a message before cloning or forking it.")]
    Unsaved,
    /// The file to fork has no entry or is no session.
    #[error("Cannot fork: source session file is empty or invalid: {}", path.display())]
    EmptySource {
        /// The file.
        path: PathBuf,
    },
    /// A store could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The fork before the user message `id`.
///
/// # Errors
///
/// When the entry is no user message, or cannot be read.
pub fn before_user(
    store: &dyn SessionStore,
    id: &str,
    ids: &dyn IdSource,
) -> Result<Fork, ForkError> {
    let is_user = |index: &Index| index.get(id).is_some_and(|node| node.kind.is_user());
    if !store.look(is_user).unwrap_or(false) {
        return Err(ForkError::InvalidEntry);
    }
    let entry = store.payload(id)?;
    let Some(Message::User(user)) = entry.message().map(|message| &**message) else {
        return Err(ForkError::InvalidEntry);
    };
    // The index also knows the parent of an entry that was joined over a hole.
    let known = |index: &Index| index.get(id).and_then(|node| node.parent.clone());
    let entries = match store.look(known).flatten() {
        Some(parent) => branch_entries(store, &parent, ids)?,
        None => Vec::new(),
    };
    Ok(Fork {
        entries,
        content: Some(user.content.clone()),
    })
}

/// The fork at `leaf`: a copy of the whole path.
///
/// # Errors
///
/// When there is no leaf, the session is not saved yet, or cannot be read.
pub fn at_leaf(
    store: &dyn SessionStore,
    leaf: Option<&str>,
    ids: &dyn IdSource,
) -> Result<Fork, ForkError> {
    let leaf = leaf.ok_or(ForkError::NoLeaf)?;
    if !store.saved() {
        return Err(ForkError::Unsaved);
    }
    Ok(Fork {
        entries: branch_entries(store, leaf, ids)?,
        content: None,
    })
}

/// The entries of a session that holds only the path to `leaf`: with their ids, without
/// the label entries among them, and with the labels of all of them at the end.
///
/// An unknown `leaf` gives none.
///
/// # Errors
///
/// When an entry cannot be read.
pub fn branch_entries(
    store: &dyn SessionStore,
    leaf: &str,
    ids: &dyn IdSource,
) -> Result<Vec<Entry>, StoreError> {
    let plan = store
        .look(|index| Plan::of(index, leaf))
        .unwrap_or_default();
    let mut entries = Vec::with_capacity(plan.kept.len() + plan.labels.len());
    let mut used: HashSet<String> = HashSet::new();
    for id in &plan.kept {
        let mut entry = Entry::clone(&*store.payload(id)?);
        entry.parent_id = entries.last().map(|last: &Entry| last.id.clone());
        if let EntryKind::Compaction(compaction) = &mut entry.kind
            && let Some(next) = plan.instead.get(&*compaction.first_kept_entry_id)
        {
            compaction.first_kept_entry_id = next.to_string();
        }
        used.insert(entry.id.clone());
        entries.push(entry);
    }
    for id in &plan.labels {
        let mut entry = Entry::clone(&*store.payload(id)?);
        entry.parent_id = entries.last().map(|last| last.id.clone());
        entry.id = fresh_id(ids, |id| used.contains(id));
        used.insert(entry.id.clone());
        entries.push(entry);
    }
    Ok(entries)
}

/// Writes the path to `leaf` as a linear session of its own: the header without its
/// parent session, then every entry chained to the one before it. Returns the number of entries.
///
/// # Errors
///
/// When an entry cannot be read, or `out` refuses.
pub fn export_linear(
    store: &dyn SessionStore,
    leaf: Option<&str>,
    out: &mut dyn io::Write,
) -> Result<usize, StoreError> {
    let mut header = store.header();
    header.parent_session = None;
    let encode = |id: &str, source| StoreError::Encode {
        id: id.to_owned(),
        source,
    };
    let line = header
        .to_line()
        .map_err(|error| encode(&header.id, error))?;
    write_line(out, &line)?;
    let path = leaf
        .and_then(|leaf| store.look(|index| path_ids(index, leaf)))
        .unwrap_or_default();
    let mut parent: Option<String> = None;
    for id in &path {
        let mut entry = Entry::clone(&*store.payload(id)?);
        entry.parent_id = parent.replace(entry.id.clone());
        write_line(out, &entry.to_line().map_err(|error| encode(id, error))?)?;
    }
    Ok(path.len())
}

/// An entry id that `taken` does not know: a short one, or after 100 tries a long one.
pub fn fresh_id(ids: &dyn IdSource, taken: impl Fn(&str) -> bool) -> String {
    let short = (0..100).map(|_| ids.entry_id()).find(|id| !taken(id));
    short.unwrap_or_else(|| ids.long_id())
}

/// What of a path goes into a new session.
#[derive(Default)]
struct Plan {
    kept: Vec<Arc<str>>,
    labels: Vec<Arc<str>>,
    /// For each label entry on the path the next entry that is kept.
    instead: HashMap<Arc<str>, Arc<str>>,
}

impl Plan {
    fn of(index: &Index, leaf: &str) -> Self {
        let mut plan = Self::default();
        let mut dropped = Vec::new();
        for node in tree::path(index, leaf) {
            if matches!(node.kind, NodeKind::Label(_)) {
                dropped.push(&node.id);
                continue;
            }
            let next = dropped
                .drain(..)
                .map(|label| (Arc::clone(label), Arc::clone(&node.id)));
            plan.instead.extend(next);
            plan.kept.push(Arc::clone(&node.id));
        }
        let on_path: HashSet<&str> = plan.kept.iter().map(|id| &**id).collect();
        let labels = index.labels().into_iter();
        let wanted = labels.filter(|(_, target, _)| on_path.contains(target));
        plan.labels = wanted.map(|(node, ..)| Arc::clone(&node.id)).collect();
        plan
    }
}

fn path_ids(index: &Index, leaf: &str) -> Vec<Arc<str>> {
    tree::path(index, leaf)
        .into_iter()
        .map(|node| Arc::clone(&node.id))
        .collect()
}

fn write_line(out: &mut dyn io::Write, line: &str) -> Result<(), StoreError> {
    let done = out
        .write_all(line.as_bytes())
        .and_then(|()| out.write_all(b"\n"));
    done.map_err(|source| StoreError::Io {
        action: "export to",
        path: PathBuf::new(),
        source,
    })
}
