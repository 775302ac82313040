//! What a session came to: messages, tokens, money.
//!
//! Counts come from the index. Only responses of models are read, since they alone carry
//! tool calls and usage.

use std::fmt::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use fluzo_llm::Usage;
use serde::Serialize;

use crate::store::{SessionStore, StoreError};
use crate::{Index, NodeKind, Role, tree};

/// Counts over the whole path to a leaf, also over what a compaction left out of the
/// context. Serialised, this is the data of `get_session_stats`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stats {
    /// The file; none in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_file: Option<PathBuf>,
    /// Id of the session.
    pub session_id: String,
    /// Messages of the user.
    pub user_messages: usize,
    /// Responses of models.
    pub assistant_messages: usize,
    /// Tool calls in them.
    pub tool_calls: usize,
    /// Results of tools.
    pub tool_results: usize,
    /// Messages of every role.
    pub total_messages: usize,
    /// Tokens of all responses.
    pub tokens: Tokens,
    /// Money for them, in the currency of the models' prices.
    pub cost: f64,
    /// How full the context is; none without a model whose window is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_usage: Option<ContextUsage>,
    /// Responses that could not be read and are missing in tool calls, tokens and cost.
    #[serde(skip_serializing_if = "is_zero")]
    pub unreadable: usize,
}

/// Tokens of several responses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tokens {
    /// Input that was neither read from nor written to a cache.
    pub input: u64,
    /// Output, reasoning included.
    pub output: u64,
    /// Input read from a cache.
    pub cache_read: u64,
    /// Input written to a cache.
    pub cache_write: u64,
    /// Sum of the four.
    pub total: u64,
}

/// How full the context is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContextUsage {
    /// Tokens of the context; unknown after a compaction until the next response.
    pub tokens: Option<u64>,
    /// Size of the model's window in tokens.
    pub context_window: u64,
    /// Share of the window, 0 to 100.
    pub percent: Option<f64>,
}

impl ContextUsage {
    /// A context of `tokens`, if they are known, in a window of `context_window`.
    pub fn new(tokens: Option<u64>, context_window: u64) -> Self {
        let percent = |tokens: u64| tokens as f64 / context_window as f64 * 100.0;
        Self {
            tokens,
            context_window,
            percent: tokens.filter(|_| context_window > 0).map(percent),
        }
    }
}

impl Stats {
    /// The counts over the path to `leaf`; all zero without one.
    ///
    /// # Errors
    ///
    /// When the store fails other than by an entry that cannot be read.
    pub fn on_path(store: &dyn SessionStore, leaf: Option<&str>) -> Result<Self, StoreError> {
        Self::over(store, |index, see| {
            let path = leaf.map(|leaf| tree::up(index, leaf));
            path.into_iter().flatten().for_each(see);
        })
    }

    /// The counts over all entries of the session, whatever branch they are on.
    ///
    /// # Errors
    ///
    /// As [`on_path`](Self::on_path).
    pub fn of_all(store: &dyn SessionStore) -> Result<Self, StoreError> {
        Self::over(store, |index, see| index.iter().for_each(see))
    }

    fn over(
        store: &dyn SessionStore,
        walk: impl FnOnce(&Index, &mut dyn FnMut(&crate::Node)),
    ) -> Result<Self, StoreError> {
        let mut stats = Self {
            session_file: store.path().filter(|_| store.saved()),
            session_id: store.header().id,
            ..Self::default()
        };
        let mut responses: Vec<Arc<str>> = Vec::new();
        store.look(|index| {
            walk(index, &mut |node| {
                if let NodeKind::Message(role) = node.kind {
                    stats.count(role);
                    if role == Role::Assistant {
                        responses.push(Arc::clone(&node.id));
                    }
                }
            });
        });
        for id in responses {
            match store.payload(&id) {
                Ok(entry) => {
                    if let Some(response) = entry.message().and_then(|m| m.as_assistant()) {
                        stats.tool_calls += response.tool_calls().count();
                        stats.add(&response.usage);
                    }
                }
                Err(StoreError::Unreadable { .. }) => stats.unreadable += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(stats)
    }

    fn count(&mut self, role: Role) {
        self.total_messages += 1;
        match role {
            Role::User => self.user_messages += 1,
            Role::Assistant => self.assistant_messages += 1,
            Role::ToolResult => self.tool_results += 1,
            Role::Other => {}
        }
    }

    fn add(&mut self, usage: &Usage) {
        let tokens = &mut self.tokens;
        tokens.input = tokens.input.saturating_add(usage.input);
        tokens.output = tokens.output.saturating_add(usage.output);
        tokens.cache_read = tokens.cache_read.saturating_add(usage.cache_read);
        tokens.cache_write = tokens.cache_write.saturating_add(usage.cache_write);
        let parts = [
            usage.input,
            usage.output,
            usage.cache_read,
            usage.cache_write,
        ];
        tokens.total = parts
            .iter()
            .fold(tokens.total, |sum, n| sum.saturating_add(*n));
        self.cost += usage.cost.total;
    }

    /// The block that `/session` shows, with the `name` of the session.
    pub fn text(&self, name: Option<&str>) -> String {
        let mut text = String::from("Session Info\n\n");
        let mut line = |line: fmt::Arguments<'_>| {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{line}");
        };
        if let Some(name) = name {
            line(format_args!("Name: {name}"));
        }
        match &self.session_file {
            Some(file) => line(format_args!("File: {}", file.display())),
            None => line(format_args!("File: In-memory")),
        }
        line(format_args!("ID: {}\n\nMessages", self.session_id));
        line(format_args!("User: {}", grouped(self.user_messages as u64)));
        let rows = [
            ("Assistant", self.assistant_messages),
            ("Tool Calls", self.tool_calls),
            ("Tool Results", self.tool_results),
            ("Total", self.total_messages),
        ];
        for (what, count) in rows {
            line(format_args!("{what}: {}", grouped(count as u64)));
        }
        let tokens = &self.tokens;
        line(format_args!("\nTokens\nInput: {}", grouped(tokens.input)));
        line(format_args!("Output: {}", grouped(tokens.output)));
        for (what, count) in [
            ("Cache Read", tokens.cache_read),
            ("Cache Write", tokens.cache_write),
        ] {
            if count > 0 {
                line(format_args!("{what}: {}", grouped(count)));
            }
        }
        line(format_args!("Total: {}", grouped(tokens.total)));
        if self.cost > 0.0 {
            line(format_args!("\nCost\nTotal: {:.4}", self.cost));
        }
        if self.unreadable > 0 {
            line(format_args!(
                "\n{} responses cannot be read and are not counted in tokens and cost",
                self.unreadable
            ));
        }
        text
    }
}

/// A number with a comma between each three digits.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "the form that serde asks for"
)]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        let rows = [
            (0, "0"),
            (999, "999"),
            (1_234, "1,234"),
            (1_234_567, "1,234,567"),
        ];
        for (number, text) in rows {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn a_share_is_unknown_without_tokens_or_window() {
        assert_eq!(ContextUsage::new(Some(15), 100_000).percent, Some(0.015));
        assert_eq!(ContextUsage::new(None, 100_000).percent, None);
        assert_eq!(ContextUsage::new(Some(15), 0).percent, None);
    }
}
