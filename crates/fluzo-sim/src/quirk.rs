//! Habits in which servers of the Chat Completions dialect differ.

use serde::{Deserialize, Serialize};

/// A habit of the scenario's server. The first group refuses requests that other servers take, with the status and the
/// text that such servers use; the second group is about how tool calls and ends look in the answer.
///
/// A request that is refused for a quirk plays no step; whether it breaks a rule is decided by
/// [`RunExpectation::max_quirk_refusals`](crate::RunExpectation::max_quirk_refusals).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Quirk {
    /// Refuses an assistant message with calls whose `content` is null or missing.
    RefusesNullContent,
    /// Refuses an assistant message with calls whose `content` is the empty string.
    RefusesEmptyContent,
    /// Refuses content that is a list of text parts.
    RefusesTextParts,
    /// Refuses `reasoning_content`, `reasoning` and `reasoning_text` on messages.
    RefusesReasoning,
    /// Demands `reasoning_content` on assistant messages with calls; what this server's model thought must be unaltered.
    DemandsReasoning,
    /// Refuses `stream_options`.
    RefusesStreamOptions,
    /// Refuses `max_completion_tokens`.
    RefusesMaxCompletionTokens,
    /// Refuses `max_tokens`.
    RefusesMaxTokens,
    /// Refuses the role `developer`.
    RefusesDeveloperRole,
    /// Refuses `store`.
    RefusesStore,
    /// Refuses `strict` in tools.
    RefusesStrict,
    /// Refuses `reasoning_effort`.
    RefusesReasoningEffort,
    /// Refuses `prompt_cache_key`.
    RefusesPromptCacheKey,
    /// Refuses `parallel_tool_calls`.
    RefusesParallelToolCalls,
    /// Refuses a user message directly after a tool result.
    RefusesUserAfterTool,
    /// Demands ids of tool calls of exactly nine letters and digits.
    DemandsNineCharacterIds,
    /// Leaves `index` out of the deltas of tool calls.
    OmitsIndex,
    /// Repeats the id of a tool call in each of its deltas.
    RepeatsIds,
    /// Sends the name of a tool call in pieces, before the arguments.
    SplitsNames,
    /// Ends with `eos` in place of `stop`, and with `function_call` in place of `tool_calls`.
    OddFinishReasons,
    /// Counts cached tokens as `prompt_cache_hit_tokens` and `prompt_cache_miss_tokens`, without details.
    CountsCacheHits,
    /// Puts the usage into the last choice instead of the chunk.
    UsageInChoice,
}

impl Quirk {
    /// Whether the habit is one of refusing requests.
    #[must_use]
    pub fn refuses(self) -> bool {
        !matches!(
            self,
            Self::OmitsIndex
                | Self::RepeatsIds
                | Self::SplitsNames
                | Self::OddFinishReasons
                | Self::CountsCacheHits
                | Self::UsageInChoice
        )
    }
}
