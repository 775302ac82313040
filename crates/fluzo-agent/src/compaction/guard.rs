//! When compacting again is of no use.

use std::fmt;
use std::sync::Arc;

use fluzo_llm::{Message, Model, ToolSpec};

use super::CompactionSettings;
use super::tokens::{estimate_all, length_of, text_tokens};

/// Counts compactions in a row that made no room, so that one which cannot help is not made
/// again and again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CompactionGuard {
    fruitless: u32,
}

impl CompactionGuard {
    /// Most compactions in a row that make no room.
    pub const MOST: u32 = 2;

    /// None made yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether another compaction may be made unasked.
    pub fn permits(&self) -> bool {
        self.fruitless < Self::MOST
    }

    /// Notes a compaction from an estimate of `before` tokens to one of `after`, where no more
    /// than `limit` are wanted. It made room when the context became smaller and is within
    /// the limit.
    pub fn note(&mut self, before: u64, after: u64, limit: u64) {
        if after < before && after <= limit {
            self.fruitless = 0;
        } else {
            self.fruitless = self.fruitless.saturating_add(1);
        }
    }

    /// Forgets what was counted: the context was found to be within its limit, or the model, the
    /// settings or the system prompt are others.
    pub fn reset(&mut self) {
        self.fruitless = 0;
    }
}

/// What fills a context window, in estimated tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Breakdown {
    /// The window.
    pub window: u64,
    /// What is kept free of it.
    pub reserve: u64,
    /// The system prompt, project rules included.
    pub system_prompt: u64,
    /// Descriptions of the tools.
    pub tools: u64,
    /// The summary of what was compacted.
    pub summary: u64,
    /// The other messages.
    pub messages: u64,
}

impl Breakdown {
    /// What fills the window of `model` in a request of `system_prompt`, `tools` and `messages`.
    pub fn of(
        system_prompt: &str,
        tools: &[ToolSpec],
        messages: &[Arc<Message>],
        model: &Model,
        settings: &CompactionSettings,
    ) -> Self {
        let (summary, rest) = match messages.split_first() {
            Some((first, rest)) if matches!(**first, Message::CompactionSummary(_)) => {
                (estimate_all([first]), rest)
            }
            _ => (0, messages),
        };
        let of_tool = |tool: &ToolSpec| {
            let parameters = tool.parameters.to_string();
            (length_of(&tool.name) + length_of(&tool.description) + length_of(&parameters))
                .div_ceil(4)
        };
        Self {
            window: model.context_window,
            reserve: settings.reserve_in(model.context_window),
            system_prompt: text_tokens(system_prompt),
            tools: tools.iter().map(of_tool).sum(),
            summary,
            messages: estimate_all(rest),
        }
    }
}

impl fmt::Display for Breakdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "compaction makes no room: of {} tokens {} are reserved for the answer; system prompt {}, tools {}, summary {}, messages {}. \
             Shorten the project rules, turn tools off, choose a model with a larger window, or begin a new session",
            self.window, self.reserve, self.system_prompt, self.tools, self.summary, self.messages
        )
    }
}
