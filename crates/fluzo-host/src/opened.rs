//! A session that has been opened: its context, read once.

use std::sync::Arc;

use fluzo_llm::{Message, ThinkingLevel};
use fluzo_session::{Node, NodeKind, Session, SessionStore, StoreError, tree};
use fluzo_stdx::ids::IdSource;

/// A session with what it says about how it goes on.
pub struct OpenedSession {
    /// The session, at the entry that was written last.
    pub session: Arc<Session>,
    /// The messages at that entry.
    pub messages: Vec<Arc<Message>>,
    /// Provider and id of the model in use there.
    pub model: Option<(String, String)>,
    /// The thinking level in use there, if one was ever chosen.
    pub thinking: Option<ThinkingLevel>,
}

impl OpenedSession {
    /// Reads the context of the session in `store`. Nothing is stored.
    ///
    /// # Errors
    ///
    /// When the session cannot be read.
    pub fn new(store: Arc<dyn SessionStore>, ids: Arc<dyn IdSource>) -> Result<Self, StoreError> {
        let session = Arc::new(Session::new(store, ids));
        let context = session.context()?;
        let is_level = |node: &Node| matches!(node.kind, NodeKind::ThinkingLevelChange(_));
        let leaf = session.leaf_id();
        let chosen = session.store().look(|index| {
            let mut path = leaf.iter().flat_map(|leaf| tree::ancestors(index, leaf));
            path.any(is_level)
        });
        let thinking = ThinkingLevel::parse(&context.thinking_level);
        Ok(Self {
            messages: context.messages,
            model: context.model,
            thinking: thinking.filter(|_| chosen == Some(true)),
            session,
        })
    }
}
