//! The turn at the end of a session that another process may still be in.

use std::collections::HashSet;
use std::sync::Arc;

use crate::{Entry, Index, NodeKind, Role, tree};

/// Position from which on the entries belong to a turn that is not finished: a user message
/// without an answer, a response whose calls lack results. None when the history is whole.
///
/// Only entries that stand one behind the other at the end count, since this is how a
/// process writes its turn. `read` gives the entry at a position.
pub(super) fn unfinished(
    index: &Index,
    mut read: impl FnMut(usize) -> Option<Entry>,
) -> Option<usize> {
    let mut cut = None;
    let mut answered = HashSet::new();
    let mut expected = index.raw().len().checked_sub(1)?;
    for node in tree::up(index, &index.last()?.id) {
        if index.position(&node.id) != Some(expected) {
            break;
        }
        match node.kind {
            NodeKind::Message(Role::User) => {
                cut = Some(expected);
                answered.clear();
            }
            NodeKind::Message(Role::ToolResult) => answered.extend(answers(read(expected))),
            NodeKind::Message(Role::Assistant) if lacks(read(expected), &answered) => {
                cut = Some(expected);
                answered.clear();
            }
            NodeKind::Message(Role::Assistant) | NodeKind::Compaction(_) => break,
            _ => {}
        }
        let Some(before) = expected.checked_sub(1) else {
            break;
        };
        expected = before;
    }
    cut
}

/// What of a session was not taken along, and where its conversation goes on.
pub(super) struct LeftOut {
    pub(super) ids: HashSet<Arc<str>>,
    pub(super) leaf: Option<Arc<str>>,
}

impl LeftOut {
    /// The entries of `index` from `cut` on.
    pub(super) fn of(index: &Index, cut: usize) -> Self {
        let left = index.raw().get(cut..).unwrap_or_default();
        Self {
            ids: left.iter().map(|node| Arc::clone(&node.id)).collect(),
            leaf: left.first().and_then(|node| node.parent.clone()),
        }
    }

    /// Puts an entry that would follow one of these where the conversation goes on; returns
    /// whether it was one.
    pub(super) fn adopt(&self, entry: &mut Entry) -> bool {
        let parent = entry.parent_id.as_deref();
        let follows = parent.is_some_and(|parent| self.ids.contains(parent));
        if follows {
            entry.parent_id = self.leaf.as_deref().map(str::to_owned);
        }
        follows
    }
}

fn answers(entry: Option<Entry>) -> Option<String> {
    let entry = entry?;
    let result = entry.message()?.as_tool_result()?;
    Some(result.tool_call_id.clone())
}

/// Whether a call of the response in `entry` has no answer. A failed response has no calls
/// that anything would come of.
fn lacks(entry: Option<Entry>, answered: &HashSet<String>) -> bool {
    let message = entry.as_ref().and_then(Entry::message);
    let assistant = message.and_then(|message| message.as_assistant());
    assistant.is_some_and(|assistant| {
        !assistant.failed()
            && assistant
                .tool_calls()
                .any(|call| !answered.contains(&call.id))
    })
}
