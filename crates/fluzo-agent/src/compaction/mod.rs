//! Decisions about compaction and branch summaries, all pure: how large a context is, when it
//! has to shrink, what a summary is asked for and with which words, and when to give up.

mod branch;
mod files;
mod guard;
mod prompts;
mod serialise;
mod tokens;
mod trim;

pub use branch::{BranchItem, BranchSelection};
pub use files::FileOperations;
pub use guard::{Breakdown, CompactionGuard};
pub use prompts::{
    BRANCH_PREAMBLE, BranchWords, NO_PRIOR_HISTORY, SUMMARY_SYSTEM_PROMPT, branch_prompt,
    history_prompt, merge_split_turn, turn_prefix_prompt,
};
pub use serialise::{MAX_RESULT_LENGTH, Part, parts_of, text_of};
pub use tokens::{
    ContextTokens, IMAGE_LENGTH, context_tokens, estimate, estimate_all, length_of, text_tokens,
};
pub use trim::{Trimmed, trim};

use std::sync::Arc;

use fluzo_llm::{Message, Model, ThinkingLevel};

/// Most output tokens of a branch summary, where the model has room for them.
pub const BRANCH_SUMMARY_TOKENS: u64 = 2048;

/// Below this many output tokens a summary is made without thinking, which would use them up.
pub const LEAST_TOKENS_FOR_THINKING: u64 = 4096;

/// How a session is compacted. All sizes are tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactionSettings {
    /// Whether a context that grows too large is compacted without being asked for.
    pub enabled: bool,
    /// What is kept free in the window for the next response.
    pub reserve_tokens: u64,
    /// How much of the newest messages stays as it is.
    pub keep_recent_tokens: u64,
}

impl Default for CompactionSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            reserve_tokens: 16_384,
            keep_recent_tokens: 20_000,
        }
    }
}

impl CompactionSettings {
    /// The reserve in a window of `window` tokens: a quarter of it at most, so that a small
    /// window is not all reserve. An unknown window, 0, changes nothing.
    pub fn reserve_in(&self, window: u64) -> u64 {
        at_most(self.reserve_tokens, window / 4, window)
    }

    /// What is kept in a window of `window` tokens: half of it at most.
    pub fn keep_in(&self, window: u64) -> u64 {
        at_most(self.keep_recent_tokens, window / 2, window)
    }

    /// What is kept in a window of `window` tokens where requests hold `beside` tokens that are
    /// no messages and a summary has `summary`: no more than the limit leaves, or compacting
    /// would make no room; but a sixteenth of the window at least.
    pub fn keep_beside(&self, window: u64, beside: u64, summary: u64) -> u64 {
        let keep = self.keep_in(window);
        let Some(limit) = self.limit_in(window) else {
            return keep;
        };
        let left = limit.saturating_sub(beside.saturating_add(summary));
        keep.min(left.max(window / 16))
    }

    /// The most tokens that a context may have in a window of `window` tokens; none when the
    /// window is not known, 0.
    pub fn limit_in(&self, window: u64) -> Option<u64> {
        (window > 0).then(|| window - self.reserve_in(window).min(window))
    }

    /// Most output tokens of a summary by `model`, in a reserve for `window` tokens.
    pub fn summary_cap(&self, window: u64, model: &Model) -> u64 {
        capped(self.reserve_in(window).saturating_mul(4) / 5, model)
    }

    /// Most output tokens of the summary of a split turn's beginning.
    pub fn turn_prefix_cap(&self, window: u64, model: &Model) -> u64 {
        capped(self.reserve_in(window) / 2, model)
    }
}

/// Most output tokens of a branch summary by `model`: a quarter of its window at most.
pub fn branch_summary_cap(model: &Model) -> u64 {
    let tokens = at_most(
        BRANCH_SUMMARY_TOKENS,
        model.context_window / 4,
        model.context_window,
    );
    capped(tokens, model)
}

/// Whether a context of `tokens` has to be compacted in a window of `window` tokens. Does not
/// ask whether that is enabled.
pub fn is_due(tokens: u64, window: u64, settings: &CompactionSettings) -> bool {
    settings
        .limit_in(window)
        .is_some_and(|limit| tokens > limit)
}

/// Whether `messages`, the context so far, are to be compacted for `model` unasked.
pub fn needs_compaction(
    messages: &[Arc<Message>],
    model: &Model,
    settings: &CompactionSettings,
) -> bool {
    settings.enabled
        && is_due(
            context_tokens(messages).tokens,
            model.context_window,
            settings,
        )
}

/// How much `model` thinks for a summary of at most `cap` tokens, where the session is at
/// `level`.
pub fn summary_thinking(model: &Model, level: ThinkingLevel, cap: u64) -> ThinkingLevel {
    if !model.reasoning || level == ThinkingLevel::Off || cap < LEAST_TOKENS_FOR_THINKING {
        return model.clamp(ThinkingLevel::Off);
    }
    model.clamp(level)
}

fn at_most(tokens: u64, most: u64, window: u64) -> u64 {
    if window == 0 {
        return tokens;
    }
    tokens.min(most)
}

/// No more than `model` can say, and than half of what it can read. At least one token: a
/// request for none is refused everywhere.
fn capped(tokens: u64, model: &Model) -> u64 {
    let known = |limit: u64| if limit == 0 { u64::MAX } else { limit };
    tokens
        .min(known(model.max_tokens))
        .min(known(model.context_window / 2))
        .max(1)
}

#[cfg(test)]
mod tests;
