//! Which part of a branch that is left is summarised.

use std::sync::Arc;

use fluzo_llm::Message;

use super::tokens::estimate;

/// One message of a branch.
#[derive(Debug, Clone, PartialEq)]
pub struct BranchItem {
    /// The message.
    pub message: Arc<Message>,
    /// Whether it is itself a summary of something longer.
    pub is_summary: bool,
}

/// Takes the newest messages of a branch as far as they fit.
#[derive(Debug, Clone, PartialEq)]
pub struct BranchSelection {
    budget: u64,
    tokens: u64,
    /// Newest first.
    messages: Vec<Arc<Message>>,
}

impl BranchSelection {
    /// Nothing yet, of at most `budget` estimated tokens.
    pub fn within(budget: u64) -> Self {
        Self {
            budget,
            tokens: 0,
            messages: Vec::new(),
        }
    }

    /// Takes `item`, offered newest first, if it fits; returns whether an older one may still.
    ///
    /// Tool results are passed over. The first item that no longer fits ends the selection; if
    /// it is a summary it is still taken while less than nine tenths are used, since it stands
    /// for much.
    pub fn offer(&mut self, item: &BranchItem) -> bool {
        if item.message.as_tool_result().is_some() {
            return true;
        }
        let tokens = estimate(&item.message);
        let fits = self.tokens.saturating_add(tokens) <= self.budget;
        let has_room = u128::from(self.tokens) * 10 < u128::from(self.budget) * 9;
        if fits || (item.is_summary && has_room) {
            self.messages.push(Arc::clone(&item.message));
            self.tokens = self.tokens.saturating_add(tokens);
        }
        fits
    }

    /// The messages, oldest first, and their estimated tokens.
    pub fn finish(mut self) -> (Vec<Arc<Message>>, u64) {
        self.messages.reverse();
        (self.messages, self.tokens)
    }
}
