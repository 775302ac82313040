//! What is known of all entries without their payloads.

use std::collections::HashMap;
use std::sync::Arc;

use fluzo_llm::Message;

use crate::store::StoreError;
use crate::{Entry, EntryKind};

/// Ids, parents and kinds of all entries in the order they were written.
#[derive(Debug, Clone, Default)]
pub struct Index {
    nodes: Vec<Node>,
    by_id: HashMap<Arc<str>, usize>,
    /// Position of each node's parent, as far as it was known when the node came.
    parents: Vec<Option<usize>>,
    /// An id came twice, or a parent was unknown: positions alone do not tell the parents.
    irregular: bool,
    /// Position of the label entry that counts, by target.
    labels: HashMap<Arc<str>, usize>,
    name: Option<Arc<str>>,
}

/// One entry without its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its id.
    pub id: Arc<str>,
    /// The entry before it, known or not. Of an entry whose own parent was lost, the one
    /// that it was joined to.
    pub parent: Option<Arc<str>>,
    /// What it holds, as far as the tree and the choice of payloads need it.
    pub kind: NodeKind,
}

/// Where the parent of an entry stands.
enum Backward {
    /// Nowhere, or it is its own.
    Root,
    /// Before it.
    To(usize),
    /// Behind it.
    No,
}

/// The kind of an entry, with the small fields that are state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeKind {
    /// A message.
    Message(Role),
    /// The thinking level that counts from here on.
    ThinkingLevelChange(Arc<str>),
    /// Provider and model id that count from here on.
    ModelChange(Arc<(String, String)>),
    /// A compaction, with the id of the first entry it keeps.
    Compaction(Arc<str>),
    /// A branch summary.
    BranchSummary,
    /// State of an extension.
    Custom,
    /// A context message of an extension.
    CustomMessage,
    /// A label: its target and its text, none to take it away.
    Label(Arc<(Arc<str>, Option<String>)>),
    /// The name of the session, empty to take it away.
    SessionInfo(Arc<str>),
    /// A type this version does not know.
    Unknown,
}

/// Who a message is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The user.
    User,
    /// The model.
    Assistant,
    /// A tool.
    ToolResult,
    /// Any other role.
    Other,
}

impl Index {
    /// All entries in the order they were written. Of several with one id only the
    /// last counts.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Node> {
        self.nodes
            .iter()
            .enumerate()
            .filter(|(at, node)| self.counts(*at, node))
            .map(|(_, n)| n)
    }

    /// The entry with this id.
    pub fn get(&self, id: &str) -> Option<&Node> {
        self.by_id.get(id).and_then(|at| self.nodes.get(*at))
    }

    /// Whether an entry has this id.
    pub fn contains(&self, id: &str) -> bool {
        self.by_id.contains_key(id)
    }

    /// The entry that was written last: the leaf of a session that is opened.
    pub fn last(&self) -> Option<&Node> {
        self.nodes.last()
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// The label on an entry.
    pub fn label(&self, target: &str) -> Option<&str> {
        let (_, label) = self.label_entry(target)?;
        Some(label)
    }

    /// The labels that count: their entry, the target and the text, in the order they were written.
    pub fn labels(&self) -> Vec<(&Node, &str, &str)> {
        let mut found: Vec<usize> = self.labels.values().copied().collect();
        found.sort_unstable();
        found
            .into_iter()
            .filter_map(|at| self.label_at(at))
            .collect()
    }

    /// The name of the session.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Checks that `entry` can be appended.
    ///
    /// # Errors
    ///
    /// When its id is taken or its parent unknown.
    pub fn admits(&self, entry: &Entry) -> Result<(), StoreError> {
        if self.contains(&entry.id) {
            return Err(StoreError::DuplicateId {
                id: entry.id.clone(),
            });
        }
        match &entry.parent_id {
            Some(parent) if !self.contains(parent) => {
                Err(StoreError::EntryNotFound { id: parent.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Adds a node; returns whether it took the id of an earlier one.
    pub fn push(&mut self, mut node: Node) -> bool {
        let mut parent_at = None;
        if let Some(parent) = &mut node.parent {
            match self.by_id.get_key_value(&**parent) {
                Some((known, at)) => (*parent, parent_at) = (Arc::clone(known), Some(*at)),
                None => self.irregular = true,
            }
        }
        let at = self.nodes.len();
        self.note_state(at, &node.kind);
        let shadows = self.by_id.insert(Arc::clone(&node.id), at).is_some();
        self.irregular |= shadows;
        self.nodes.push(node);
        self.parents.push(parent_at);
        shadows
    }

    /// Whether every parent stands before its children, so that no walk can go in circles.
    pub(crate) fn is_regular(&self) -> bool {
        !self.irregular
    }

    /// Joins every entry whose parent is unknown, or itself, to an entry before it: the
    /// line of the parent was lost, and what stands before it in the file is what it most
    /// likely followed. Entries that name the same lost parent are joined to the same entry.
    /// An entry without anything before it stays a root. Returns how many were joined.
    pub(crate) fn join_orphans(&mut self) -> u64 {
        if self.is_regular() {
            return 0;
        }
        let mut joined = 0;
        let mut over: HashMap<Arc<str>, usize> = HashMap::new();
        // Entries whose way to the root only leads backwards. Joined to one of these alone,
        // no entry becomes its own ancestor.
        let mut grounded = Vec::with_capacity(self.nodes.len());
        let mut nearest = None;
        for at in 0..self.nodes.len() {
            if let Some(lost) = self.lost_parent(at) {
                let target = over.get(&lost).copied().or(nearest);
                if let Some(target) = target {
                    over.entry(lost).or_insert(target);
                    self.join(at, target);
                    joined += 1;
                }
            }
            let back = self.backward_parent(at);
            let is_grounded = match back {
                Backward::Root => true,
                Backward::To(parent) => grounded.get(parent).copied().unwrap_or(false),
                Backward::No => false,
            };
            let counts = self.nodes.get(at).is_some_and(|node| self.counts(at, node));
            grounded.push(is_grounded);
            if counts && is_grounded {
                nearest = Some(at);
            }
        }
        joined
    }

    /// The parent that the entry at `at` names, when there is no other entry of that id.
    fn lost_parent(&self, at: usize) -> Option<Arc<str>> {
        let node = self.nodes.get(at)?;
        let parent = node.parent.as_ref()?;
        let lost = !self.contains(parent) || *parent == node.id;
        lost.then(|| Arc::clone(parent))
    }

    fn join(&mut self, at: usize, target: usize) {
        let id = self.nodes.get(target).map(|node| Arc::clone(&node.id));
        if let Some(node) = self.nodes.get_mut(at) {
            node.parent = id;
        }
        if let Some(parent) = self.parents.get_mut(at) {
            *parent = Some(target);
        }
    }

    fn backward_parent(&self, at: usize) -> Backward {
        let parent = self.nodes.get(at).and_then(|node| node.parent.as_deref());
        match parent.map(|parent| self.position(parent)) {
            None | Some(None) => Backward::Root,
            Some(Some(parent)) if parent == at => Backward::Root,
            Some(Some(parent)) if parent < at => Backward::To(parent),
            Some(Some(_)) => Backward::No,
        }
    }

    /// Position of the parent of the node at `at`, when it is known.
    pub(crate) fn parent_position(&self, at: usize) -> Option<usize> {
        if self.irregular {
            return self.position(self.nodes.get(at)?.parent.as_deref()?);
        }
        self.parents.get(at).copied().flatten()
    }

    /// Position of the entry with this id among all that were pushed.
    pub fn position(&self, id: &str) -> Option<usize> {
        self.by_id.get(id).copied()
    }

    /// All nodes that were pushed, those that no longer count included.
    pub(crate) fn raw(&self) -> &[Node] {
        &self.nodes
    }

    /// The first `len` entries that were pushed, as if there were no others.
    pub(crate) fn prefix(&self, len: usize) -> Self {
        let mut index = Self::default();
        for node in self.nodes.iter().take(len) {
            index.push(node.clone());
        }
        index
    }

    /// Replaces what is known of one entry's payload.
    pub(crate) fn set_kind(&mut self, at: usize, kind: NodeKind) {
        if let Some(node) = self.nodes.get_mut(at) {
            node.kind = kind;
        }
    }

    /// The payload of an entry is gone; what the index holds of its state stays.
    pub(crate) fn lose(&mut self, at: usize) {
        if let Some(node) = self.nodes.get_mut(at)
            && !matches!(
                node.kind,
                NodeKind::ThinkingLevelChange(_)
                    | NodeKind::ModelChange(_)
                    | NodeKind::Label(_)
                    | NodeKind::SessionInfo(_)
            )
        {
            node.kind = NodeKind::Unknown;
        }
    }

    fn counts(&self, at: usize, node: &Node) -> bool {
        self.by_id.get(&node.id) == Some(&at)
    }

    fn note_state(&mut self, at: usize, kind: &NodeKind) {
        match kind {
            NodeKind::Label(label) if label.1.as_ref().is_some_and(|text| !text.is_empty()) => {
                self.labels.insert(Arc::clone(&label.0), at);
            }
            NodeKind::Label(label) => {
                self.labels.remove(&label.0);
            }
            NodeKind::SessionInfo(name) => {
                self.name = (!name.is_empty()).then(|| Arc::clone(name));
            }
            _ => {}
        }
    }

    fn label_entry(&self, target: &str) -> Option<(&Node, &str)> {
        let (node, _, label) = self.label_at(*self.labels.get(target)?)?;
        Some((node, label))
    }

    fn label_at(&self, at: usize) -> Option<(&Node, &str, &str)> {
        let node = self.nodes.get(at)?;
        match &node.kind {
            NodeKind::Label(label) => Some((node, &label.0, label.1.as_deref()?)),
            _ => None,
        }
    }
}

impl Node {
    /// What is known of `entry` without its payload.
    pub fn of(entry: &Entry) -> Self {
        Self {
            id: entry.id.as_str().into(),
            parent: entry.parent_id.as_deref().map(Arc::from),
            kind: NodeKind::of(&entry.kind),
        }
    }
}

impl NodeKind {
    /// What is known of an entry that holds `kind`.
    pub fn of(kind: &EntryKind) -> Self {
        match kind {
            EntryKind::Message(message) => Self::Message(Role::of(message)),
            EntryKind::ThinkingLevelChange { level } => {
                Self::ThinkingLevelChange(level.as_str().into())
            }
            EntryKind::ModelChange { provider, model_id } => {
                Self::ModelChange(Arc::new((provider.clone(), model_id.clone())))
            }
            EntryKind::Compaction(compaction) => {
                Self::Compaction(compaction.first_kept_entry_id.as_str().into())
            }
            EntryKind::BranchSummary { .. } => Self::BranchSummary,
            EntryKind::Custom { .. } => Self::Custom,
            EntryKind::CustomMessage { .. } => Self::CustomMessage,
            EntryKind::Label { target_id, label } => {
                Self::Label(Arc::new((target_id.as_str().into(), label.clone())))
            }
            EntryKind::SessionInfo { name } => Self::SessionInfo(name.as_str().into()),
            EntryKind::Unknown { .. } => Self::Unknown,
        }
    }

    /// Whether it is a message of the user.
    pub fn is_user(&self) -> bool {
        matches!(self, Self::Message(Role::User))
    }
}

impl Role {
    /// The role of `message`.
    pub fn of(message: &Message) -> Self {
        Self::from_name(message.role())
    }

    /// The role with this name in JSON.
    pub fn from_name(name: &str) -> Self {
        match name {
            "user" => Self::User,
            "assistant" => Self::Assistant,
            "toolResult" => Self::ToolResult,
            _ => Self::Other,
        }
    }
}
