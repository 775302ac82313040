//! What a model gets to see of a session: the messages on one path, its thinking
//! level and its model.

use std::sync::Arc;

use fluzo_llm::message::{
    BranchSummaryMessage, CompactionSummaryMessage, CustomMessage, UserContent,
};
use fluzo_llm::{Extra, Message};
use fluzo_stdx::time::parse_iso;

use crate::store::{SessionStore, StoreError};
use crate::{Compaction, Entry, EntryKind, Index, NodeKind, Role, tree};

/// The context at a leaf.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionContext {
    /// The messages, oldest first, in internal roles.
    pub messages: Vec<Arc<Message>>,
    /// Name of the thinking level; `off` when none was ever set.
    pub thinking_level: String,
    /// Provider and id of the model; none when none was ever used.
    pub model: Option<(String, String)>,
    /// Ids of entries that should be here and could not be read.
    pub unreadable: Vec<String>,
}

impl Default for SessionContext {
    fn default() -> Self {
        Self {
            messages: Vec::new(),
            thinking_level: "off".to_owned(),
            model: None,
            unreadable: Vec::new(),
        }
    }
}

/// Builds the context at `leaf`; without a leaf it is empty.
///
/// Only entries that enter the context are read: with a compaction, none before the
/// first one it keeps, but for one that names the model. An entry that cannot be read is
/// left out and listed.
///
/// # Errors
///
/// When the store cannot be read at all.
pub fn build(store: &dyn SessionStore, leaf: Option<&str>) -> Result<SessionContext, StoreError> {
    let Some(leaf) = leaf else {
        return Ok(SessionContext::default());
    };
    let steps = store.look(|index| steps(index, leaf)).unwrap_or_default();
    let mut builder = Builder {
        store,
        context: SessionContext::default(),
    };
    let start = builder.begin(&steps)?;
    for step in steps.get(start..).unwrap_or_default() {
        builder.add(step)?;
    }
    builder.find_level(&steps);
    builder.find_model(&steps)?;
    Ok(builder.context)
}

/// One entry of the path.
#[derive(Clone)]
struct Step {
    id: Arc<str>,
    kind: NodeKind,
}

struct Builder<'a> {
    store: &'a dyn SessionStore,
    context: SessionContext,
}

fn steps(index: &Index, leaf: &str) -> Vec<Step> {
    let path = tree::path(index, leaf).into_iter();
    path.map(|node| Step {
        id: Arc::clone(&node.id),
        kind: node.kind.clone(),
    })
    .collect()
}

impl Builder<'_> {
    /// Puts what the latest compaction keeps in front; returns where the rest begins.
    fn begin(&mut self, steps: &[Step]) -> Result<usize, StoreError> {
        for (at, step) in steps.iter().enumerate().rev() {
            let NodeKind::Compaction(_) = &step.kind else {
                continue;
            };
            let Some(entry) = self.read(&step.id)? else {
                continue;
            };
            let EntryKind::Compaction(compaction) = &entry.kind else {
                continue;
            };
            self.push(compaction_summary(compaction, &entry));
            let before = steps.get(..at).unwrap_or_default();
            let kept = &*compaction.first_kept_entry_id;
            if let Some(first) = before.iter().position(|step| &*step.id == kept) {
                for step in before.get(first..).unwrap_or_default() {
                    self.add(step)?;
                }
            }
            return Ok(at + 1);
        }
        Ok(0)
    }

    fn add(&mut self, step: &Step) -> Result<(), StoreError> {
        let enters = match step.kind {
            NodeKind::Message(_) | NodeKind::BranchSummary | NodeKind::CustomMessage => true,
            NodeKind::ThinkingLevelChange(_)
            | NodeKind::ModelChange(_)
            | NodeKind::Compaction(_)
            | NodeKind::Custom
            | NodeKind::Label(_)
            | NodeKind::SessionInfo(_)
            | NodeKind::Unknown => false,
        };
        if enters && let Some(entry) = self.read(&step.id)? {
            context_message(&entry)
                .into_iter()
                .for_each(|message| self.push(message));
        }
        Ok(())
    }

    fn find_level(&mut self, steps: &[Step]) {
        let level = steps.iter().rev().find_map(|step| match &step.kind {
            NodeKind::ThinkingLevelChange(level) => Some(level.to_string()),
            _ => None,
        });
        if let Some(level) = level {
            self.context.thinking_level = level;
        }
    }

    fn find_model(&mut self, steps: &[Step]) -> Result<(), StoreError> {
        for step in steps.iter().rev() {
            match &step.kind {
                NodeKind::ModelChange(model) => {
                    self.context.model = Some((**model).clone());
                    return Ok(());
                }
                NodeKind::Message(Role::Assistant) => {
                    let entry = self.read(&step.id)?;
                    let message = entry.as_ref().and_then(|entry| entry.message());
                    if let Some(assistant) = message.and_then(|message| message.as_assistant()) {
                        self.context.model =
                            Some((assistant.provider.clone(), assistant.model.clone()));
                        return Ok(());
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads an entry; one that cannot be read is listed once.
    fn read(&mut self, id: &str) -> Result<Option<Arc<Entry>>, StoreError> {
        match self.store.payload(id) {
            Ok(entry) => Ok(Some(entry)),
            Err(StoreError::Unreadable { id }) => {
                if !self.context.unreadable.contains(&id) {
                    self.context.unreadable.push(id);
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn push(&mut self, message: Arc<Message>) {
        self.context.messages.push(message);
    }
}

/// The message that an entry puts into the context; none for one that is kept out of it.
pub fn context_message(entry: &Entry) -> Option<Arc<Message>> {
    match &entry.kind {
        EntryKind::Message(message) if matches!(**message, Message::Unknown(_)) => None,
        EntryKind::Message(message) => Some(Arc::clone(message)),
        EntryKind::BranchSummary {
            from_id, summary, ..
        } if !summary.is_empty() => Some(Arc::new(Message::BranchSummary(BranchSummaryMessage {
            summary: summary.clone(),
            from_id: from_id.clone(),
            timestamp: unix_ms(entry),
            extra: Extra::new(),
        }))),
        EntryKind::CustomMessage {
            custom_type,
            content,
            display,
            details,
        } => Some(Arc::new(Message::Custom(CustomMessage {
            custom_type: custom_type.clone(),
            content: UserContent::clone(content),
            display: *display,
            details: details.clone(),
            timestamp: unix_ms(entry),
            extra: Extra::new(),
        }))),
        _ => None,
    }
}

fn compaction_summary(compaction: &Compaction, entry: &Entry) -> Arc<Message> {
    Arc::new(Message::CompactionSummary(CompactionSummaryMessage {
        summary: compaction.summary.clone(),
        tokens_before: compaction.tokens_before,
        timestamp: unix_ms(entry),
        extra: Extra::new(),
    }))
}

/// When the entry was made, in Unix milliseconds; 0 when it does not say.
fn unix_ms(entry: &Entry) -> i64 {
    parse_iso(&entry.timestamp).unwrap_or(0)
}
