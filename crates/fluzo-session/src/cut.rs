//! Where a session is cut when it is compacted: what is summarised, and from which entry on
//! everything stays as it is.
//!
//! Payloads are read from the end back to the cut, and of the part that is to be summarised.
//! Nothing before the boundary of the compaction before is read.

use std::collections::HashSet;
use std::sync::Arc;

use fluzo_llm::{AssistantMessage, Message};

use crate::context::{context_message, enters};
use crate::store::{SessionStore, StoreError};
use crate::{Compaction, Entry, EntryKind, Index, NodeKind, Role, tree};

/// How much of the newest messages stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// At least this many estimated tokens.
    pub tokens: u64,
    /// But no more than half of what there is, where something has to go: for a context that did
    /// not fit although by its estimate it should have, or one whose oldest message is too large.
    pub at_most_half: bool,
}

/// A place to cut.
#[derive(Debug, Clone, PartialEq)]
pub struct Cut {
    /// The first entry that stays.
    pub first_kept_entry_id: String,
    /// What is summarised, oldest first.
    pub history: Vec<Arc<Message>>,
    /// The beginning of the turn that is cut through, summarised by itself; empty when the cut
    /// stands between turns.
    pub turn_prefix: Vec<Arc<Message>>,
    /// The compaction before, whose summary stands for what came before `history`.
    pub previous: Option<Compaction>,
}

/// Why there is no place to cut.
#[derive(Debug, thiserror::Error)]
pub enum CutError {
    /// Nothing was said since the last compaction.
    #[error("Already compacted")]
    AlreadyCompacted,
    /// Everything would stay.
    #[error("Nothing to compact (session too small)")]
    NothingToCompact,
    /// The session cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Finds where to cut the path to `leaf`, where `estimate` gives the tokens of a message.
///
/// Candidates are all messages since the boundary of the compaction before but tool results,
/// which have to follow their call, and failed responses, which no request holds: they do not
/// count, and nothing is cut for them. From the end backwards tokens are counted until there are
/// enough; the first candidate from there on is the cut, or the last one before when none
/// follows. Entries right before it that are no messages stay as well. A cut that does not stand at the beginning of a turn splits the turn.
/// Entries that cannot be read count as nothing.
///
/// # Errors
///
/// When there is nothing to summarise, or the store cannot be read.
pub fn cut(
    store: &dyn SessionStore,
    leaf: Option<&str>,
    keep: Keep,
    estimate: &dyn Fn(&Message) -> u64,
) -> Result<Cut, CutError> {
    let leaf = leaf.ok_or(CutError::NothingToCompact)?;
    let mut unfit = HashSet::new();
    loop {
        let range = store.look(|index| Range::of(index, leaf, &unfit));
        let range = range.unwrap_or_default();
        let previous = match &range.compaction {
            None => None,
            Some(id) => {
                let entry = read(store, id)?;
                let Some(EntryKind::Compaction(found)) = entry.as_deref().map(|e| &e.kind) else {
                    unfit.insert(Arc::clone(id));
                    continue;
                };
                Some(found.clone())
            }
        };
        if range.said_after == 0 {
            return Err(match previous {
                Some(_) => CutError::AlreadyCompacted,
                None => CutError::NothingToCompact,
            });
        }
        let mut reader = Reader::new(store, range.items, estimate);
        return reader.cut(keep, previous);
    }
}

/// The entries that may be cut, oldest first.
#[derive(Default)]
struct Range {
    items: Vec<Item>,
    /// The compaction before.
    compaction: Option<Arc<str>>,
    /// Number of entries of the context after it.
    said_after: usize,
}

struct Item {
    id: Arc<str>,
    kind: NodeKind,
}

impl Range {
    /// Walks from `leaf` to the boundary of the last compaction, or to the root without one.
    fn of(index: &Index, leaf: &str, unfit: &HashSet<Arc<str>>) -> Self {
        let mut range = Self::default();
        let mut first_kept: Option<Arc<str>> = None;
        let mut after = 0;
        for node in tree::up(index, leaf) {
            if let NodeKind::Compaction(first) = &node.kind
                && range.compaction.is_none()
                && !unfit.contains(&node.id)
            {
                range.compaction = Some(Arc::clone(&node.id));
                first_kept = Some(Arc::clone(first));
                after = range.items.len();
            }
            if range.compaction.is_none() && enters(&node.kind) {
                range.said_after += 1;
            }
            range.items.push(Item {
                id: Arc::clone(&node.id),
                kind: node.kind.clone(),
            });
            if first_kept.as_deref() == Some(&*node.id) {
                first_kept = None;
                after = range.items.len();
                break;
            }
        }
        if first_kept.is_some() {
            // What it keeps is not on the path: nothing before it counts.
            range.items.truncate(after);
        }
        range.items.reverse();
        range
    }
}

/// Reads messages where they are asked for, each once.
struct Reader<'a> {
    store: &'a dyn SessionStore,
    estimate: &'a dyn Fn(&Message) -> u64,
    items: Vec<Item>,
    messages: Vec<Option<Option<Arc<Message>>>>,
}

impl<'a> Reader<'a> {
    fn new(
        store: &'a dyn SessionStore,
        items: Vec<Item>,
        estimate: &'a dyn Fn(&Message) -> u64,
    ) -> Self {
        let messages = vec![None; items.len()];
        Self {
            store,
            estimate,
            items,
            messages,
        }
    }

    fn cut(&mut self, keep: Keep, previous: Option<Compaction>) -> Result<Cut, CutError> {
        let enough = if keep.at_most_half {
            keep.tokens.min(self.tokens(0, self.items.len())? / 2)
        } else {
            keep.tokens
        };
        let reached = self.walk_back(enough)?;
        let reached = reached.ok_or(CutError::NothingToCompact)?;
        let mut at = self.candidate(reached)?.ok_or(CutError::NothingToCompact)?;
        if keep.at_most_half && self.with_adjacent(at) == 0 {
            // The oldest message alone is more than may stay.
            let next = self.candidate(reached + 1)?;
            at = next.ok_or(CutError::NothingToCompact)?;
        }
        let first = self.with_adjacent(at);
        let turn = self.turn_start(at)?.filter(|turn| *turn < first);
        let history = self.range(0, turn.unwrap_or(first))?;
        let turn_prefix = match turn {
            Some(turn) => self.range(turn, first)?,
            None => Vec::new(),
        };
        let kept = self.items.get(first);
        match kept {
            Some(kept) if !history.is_empty() || !turn_prefix.is_empty() => Ok(Cut {
                first_kept_entry_id: kept.id.to_string(),
                history,
                turn_prefix,
                previous,
            }),
            _ => Err(CutError::NothingToCompact),
        }
    }

    /// The newest entry from which on there are at least `enough` tokens.
    fn walk_back(&mut self, enough: u64) -> Result<Option<usize>, StoreError> {
        let mut tokens: u64 = 0;
        for at in (0..self.items.len()).rev() {
            let Some(message) = self.message(at)?.filter(|message| !failed(message)) else {
                continue;
            };
            tokens = tokens.saturating_add((self.estimate)(&message));
            if tokens >= enough {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// The first entry from `at` on that may be the first one kept, or the last one before.
    fn candidate(&mut self, at: usize) -> Result<Option<usize>, StoreError> {
        for later in at..self.items.len() {
            if self.may_be_first(later)? {
                return Ok(Some(later));
            }
        }
        for earlier in (0..at).rev() {
            if self.may_be_first(earlier)? {
                return Ok(Some(earlier));
            }
        }
        Ok(None)
    }

    fn may_be_first(&mut self, at: usize) -> Result<bool, StoreError> {
        Ok(self.message(at)?.is_some_and(|message| {
            !matches!(*message, Message::ToolResult(_)) && !failed(&message)
        }))
    }

    /// The first of the entries before `at` that are neither messages nor a compaction and
    /// reach up to it.
    fn with_adjacent(&self, at: usize) -> usize {
        let mut first = at;
        while let Some(before) = first.checked_sub(1)
            && let Some(item) = self.items.get(before)
            && !matches!(item.kind, NodeKind::Message(_) | NodeKind::Compaction(_))
        {
            first = before;
        }
        first
    }

    /// The entry that began the turn which `at` belongs to; `at` itself, when it begins one.
    fn turn_start(&mut self, at: usize) -> Result<Option<usize>, StoreError> {
        for earlier in (0..=at).rev() {
            let begins = match self.items.get(earlier).map(|item| &item.kind) {
                Some(
                    NodeKind::Message(Role::User)
                    | NodeKind::BranchSummary
                    | NodeKind::CustomMessage,
                ) => self.message(earlier)?.is_some(),
                Some(NodeKind::Message(Role::Other)) => self
                    .message(earlier)?
                    .is_some_and(|message| matches!(*message, Message::BashExecution(_))),
                _ => false,
            };
            if begins {
                return Ok(Some(earlier));
            }
        }
        Ok(None)
    }

    fn tokens(&mut self, from: usize, to: usize) -> Result<u64, StoreError> {
        let messages = self.range(from, to)?;
        let sent = messages.iter().filter(|message| !failed(message));
        let tokens = sent.map(|message| (self.estimate)(message));
        Ok(tokens.fold(0, u64::saturating_add))
    }

    fn range(&mut self, from: usize, to: usize) -> Result<Vec<Arc<Message>>, StoreError> {
        let mut messages = Vec::new();
        for at in from..to {
            messages.extend(self.message(at)?);
        }
        Ok(messages)
    }

    /// The message that the entry at `at` puts into the context.
    fn message(&mut self, at: usize) -> Result<Option<Arc<Message>>, StoreError> {
        let Some(item) = self.items.get(at).filter(|item| enters(&item.kind)) else {
            return Ok(None);
        };
        if let Some(Some(known)) = self.messages.get(at) {
            return Ok(known.clone());
        }
        let message = read(self.store, &item.id)?
            .as_deref()
            .and_then(context_message);
        if let Some(slot) = self.messages.get_mut(at) {
            *slot = Some(message.clone());
        }
        Ok(message)
    }
}

/// Whether it is a response that failed. Requests leave it out.
fn failed(message: &Message) -> bool {
    message.as_assistant().is_some_and(AssistantMessage::failed)
}

/// The entry; none when it can no longer be read.
fn read(store: &dyn SessionStore, id: &str) -> Result<Option<Arc<Entry>>, StoreError> {
    match store.payload(id) {
        Ok(entry) => Ok(Some(entry)),
        Err(StoreError::Unreadable { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
