//! What a model gets to see of a session: the messages on one path, its thinking
//! level and its model.

use std::collections::HashSet;
use std::sync::Arc;

use fluzo_llm::message::{
    BranchSummaryMessage, CompactionSummaryMessage, CustomMessage, UserContent,
};
use fluzo_llm::{Extra, Message};
use fluzo_stdx::time::parse_iso;

use crate::store::{SessionStore, StoreError};
use crate::{Entry, EntryKind, Index, NodeKind, Role, tree};

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
    let mut builder = Builder {
        store,
        unfit: HashSet::new(),
        unreadable: Vec::new(),
    };
    loop {
        let plan = store
            .look(|index| Plan::of(index, leaf, &builder.unfit))
            .unwrap_or_default();
        if let Some(context) = builder.carry_out(&plan)? {
            return Ok(context);
        }
    }
}

/// Which entries make the context, as the index knows them; oldest first.
#[derive(Default)]
struct Plan {
    compaction: Option<Arc<str>>,
    /// What the compaction keeps.
    kept: Vec<Arc<str>>,
    /// What follows it, or everything without one.
    after: Vec<Arc<str>>,
    level: Option<Arc<str>>,
    model: Option<ModelFrom>,
}

/// Where the model stands.
enum ModelFrom {
    Change(Arc<(String, String)>),
    Assistant(Arc<str>),
}

impl Plan {
    /// Walks from `leaf` towards the root, no further than needed. Entries of `unfit` are
    /// not what the index takes them for.
    fn of(index: &Index, leaf: &str, unfit: &HashSet<Arc<str>>) -> Self {
        let mut plan = Self::default();
        let mut first_kept: Option<&str> = None;
        let (mut before, mut complete) = (Vec::new(), false);
        for node in tree::up(index, leaf) {
            let fit = !unfit.contains(&node.id);
            match &node.kind {
                NodeKind::Compaction(first) if fit && plan.compaction.is_none() => {
                    plan.compaction = Some(Arc::clone(&node.id));
                    first_kept = Some(first);
                    continue;
                }
                kind if !enters(kind) || complete => {}
                _ if plan.compaction.is_none() => plan.after.push(Arc::clone(&node.id)),
                _ => before.push(Arc::clone(&node.id)),
            }
            if plan.compaction.is_some() && first_kept == Some(&*node.id) {
                plan.kept = std::mem::take(&mut before);
                complete = true;
            }
            plan.note_state(&node.kind, &node.id, fit);
            if complete && plan.level.is_some() && plan.model.is_some() {
                break;
            }
        }
        plan.kept.reverse();
        plan.after.reverse();
        plan
    }

    fn note_state(&mut self, kind: &NodeKind, id: &Arc<str>, fit: bool) {
        match kind {
            NodeKind::ThinkingLevelChange(level) if self.level.is_none() => {
                self.level = Some(Arc::clone(level));
            }
            NodeKind::ModelChange(model) if self.model.is_none() => {
                self.model = Some(ModelFrom::Change(Arc::clone(model)));
            }
            NodeKind::Message(Role::Assistant) if fit && self.model.is_none() => {
                self.model = Some(ModelFrom::Assistant(Arc::clone(id)));
            }
            _ => {}
        }
    }
}

/// Whether an entry of this kind puts a message into the context.
pub(crate) fn enters(kind: &NodeKind) -> bool {
    match kind {
        NodeKind::Message(_) | NodeKind::BranchSummary | NodeKind::CustomMessage => true,
        NodeKind::ThinkingLevelChange(_)
        | NodeKind::ModelChange(_)
        | NodeKind::Compaction(_)
        | NodeKind::Custom
        | NodeKind::Label(_)
        | NodeKind::SessionInfo(_)
        | NodeKind::Unknown => false,
    }
}

struct Builder<'a> {
    store: &'a dyn SessionStore,
    /// Compactions and assistant messages that turned out to be none, or unreadable.
    unfit: HashSet<Arc<str>>,
    unreadable: Vec<String>,
}

impl Builder<'_> {
    /// Reads what the plan names. None when an entry it rests on is unfit: then another
    /// plan is needed, and since there is one unfit entry more, this comes to an end.
    fn carry_out(&mut self, plan: &Plan) -> Result<Option<SessionContext>, StoreError> {
        let mut context = SessionContext::default();
        if let Some(id) = &plan.compaction {
            let entry = self.read(id)?;
            let Some(summary) = entry.as_deref().and_then(compaction_summary) else {
                return Ok(self.give_up(id));
            };
            context.messages.push(summary);
        }
        context.model = match &plan.model {
            None => None,
            Some(ModelFrom::Change(model)) => Some((**model).clone()),
            Some(ModelFrom::Assistant(id)) => {
                let entry = self.read(id)?;
                let Some(model) = entry.as_deref().and_then(answering_model) else {
                    return Ok(self.give_up(id));
                };
                Some(model)
            }
        };
        for id in plan.kept.iter().chain(&plan.after) {
            let entry = self.read(id)?;
            context
                .messages
                .extend(entry.as_deref().and_then(context_message));
        }
        if let Some(level) = &plan.level {
            context.thinking_level = level.to_string();
        }
        context.unreadable = std::mem::take(&mut self.unreadable);
        Ok(Some(context))
    }

    fn give_up(&mut self, id: &Arc<str>) -> Option<SessionContext> {
        self.unfit.insert(Arc::clone(id));
        None
    }

    /// Reads an entry; one that cannot be read is listed once.
    fn read(&mut self, id: &str) -> Result<Option<Arc<Entry>>, StoreError> {
        match self.store.payload(id) {
            Ok(entry) => Ok(Some(entry)),
            Err(StoreError::Unreadable { id }) => {
                if !self.unreadable.contains(&id) {
                    self.unreadable.push(id);
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
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

/// The summary that a compaction puts into the context; none for any other entry.
pub fn compaction_summary(entry: &Entry) -> Option<Arc<Message>> {
    let EntryKind::Compaction(compaction) = &entry.kind else {
        return None;
    };
    Some(Arc::new(Message::CompactionSummary(
        CompactionSummaryMessage {
            summary: compaction.summary.clone(),
            tokens_before: compaction.tokens_before,
            timestamp: unix_ms(entry),
            extra: Extra::new(),
        },
    )))
}

/// Provider and id of the model that answered with this entry.
fn answering_model(entry: &Entry) -> Option<(String, String)> {
    let assistant = entry.message()?.as_assistant()?;
    Some((assistant.provider.clone(), assistant.model.clone()))
}

/// When the entry was made, in Unix milliseconds; 0 when it does not say.
fn unix_ms(entry: &Entry) -> i64 {
    parse_iso(&entry.timestamp).unwrap_or(0)
}
