//! How many tokens a context has: what the last response reported, and estimates.

use std::sync::Arc;

use fluzo_llm::message::UserContent;
use fluzo_llm::{AssistantMessage, Content, Message, Usage};

/// The length that an image counts as.
pub const IMAGE_LENGTH: u64 = 4800;

/// The size of a context.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ContextTokens {
    /// All of it.
    pub tokens: u64,
    /// How much of that was reported with the last good response; 0 without one.
    pub reported: u64,
    /// How much of it is estimated.
    pub estimated: u64,
}

impl ContextTokens {
    /// Whether some of it was reported. Right after a compaction nothing is.
    pub fn is_reported(&self) -> bool {
        self.reported > 0
    }
}

/// The size of the context that is made of `messages`.
///
/// The base is what the last response reported that neither failed nor was aborted; what came
/// after it is estimated. A response that is older than the summary at the beginning reported
/// the context as it was before, and a report of no tokens is none: both are passed over.
pub fn context_tokens(messages: &[Arc<Message>]) -> ContextTokens {
    let compacted_at = match messages.first().map(|message| &**message) {
        Some(Message::CompactionSummary(summary)) => Some(summary.timestamp),
        _ => None,
    };
    let reported = |message: &Arc<Message>| {
        let assistant = message.as_assistant().filter(|it| !it.failed())?;
        let stale = compacted_at.is_some_and(|at| assistant.timestamp <= at);
        let tokens = usage_tokens(&assistant.usage);
        (!stale && tokens > 0).then_some(tokens)
    };
    let found = messages
        .iter()
        .enumerate()
        .rev()
        .find_map(|(at, message)| Some((at, reported(message)?)));
    let (reported, rest) = match found {
        Some((at, tokens)) => (tokens, messages.get(at + 1..).unwrap_or_default()),
        None => (0, messages),
    };
    let estimated = estimate_all(rest);
    ContextTokens {
        tokens: reported.saturating_add(estimated),
        reported,
        estimated,
    }
}

/// The estimated tokens of `messages`.
pub fn estimate_all<'a>(messages: impl IntoIterator<Item = &'a Arc<Message>>) -> u64 {
    messages
        .into_iter()
        .map(|message| estimate(message))
        .fold(0, u64::saturating_add)
}

/// The estimated tokens of one message: a quarter of its length, rounded up. What never
/// enters the context has none.
pub fn estimate(message: &Message) -> u64 {
    let length = match message {
        Message::User(user) => content_length(&user.content),
        Message::Assistant(assistant) => assistant_length(assistant),
        Message::ToolResult(result) => blocks_length(&result.content),
        Message::BashExecution(run) if run.exclude_from_context == Some(true) => 0,
        Message::BashExecution(run) => length_of(&run.command) + length_of(&run.output),
        Message::Custom(custom) => content_length(&custom.content),
        Message::BranchSummary(branch) => length_of(&branch.summary),
        Message::CompactionSummary(compaction) => length_of(&compaction.summary),
        Message::Unknown(_) => 0,
    };
    length.div_ceil(4)
}

/// The estimated tokens of `text`.
pub fn text_tokens(text: &str) -> u64 {
    length_of(text).div_ceil(4)
}

/// The length of `text` as estimates and limits count it: in UTF-16 units, the characters of
/// JavaScript.
pub fn length_of(text: &str) -> u64 {
    // A character has one byte that does not continue another; those that need two units
    // begin with a byte from 0xF0 on.
    let units = |byte: u8| u64::from(byte & 0xC0 != 0x80) + u64::from(byte >= 0xF0);
    text.bytes().map(units).sum()
}

fn usage_tokens(usage: &Usage) -> u64 {
    if usage.total_tokens > 0 {
        return usage.total_tokens;
    }
    usage
        .input
        .saturating_add(usage.output)
        .saturating_add(usage.cache_read)
        .saturating_add(usage.cache_write)
}

fn content_length(content: &UserContent) -> u64 {
    match content {
        UserContent::Text(text) => length_of(text),
        UserContent::Blocks(blocks) => blocks_length(blocks),
    }
}

fn blocks_length(blocks: &[Content]) -> u64 {
    let length = |block: &Content| match block {
        Content::Text(text) => length_of(&text.text),
        Content::Image(_) => IMAGE_LENGTH,
        Content::Thinking(_) | Content::ToolCall(_) | Content::Unknown(_) => 0,
    };
    blocks.iter().map(length).sum()
}

fn assistant_length(assistant: &AssistantMessage) -> u64 {
    let length = |block: &Content| match block {
        Content::Text(text) => length_of(&text.text),
        Content::Thinking(thinking) => length_of(&thinking.thinking),
        Content::ToolCall(call) => {
            // A map of JSON values is always written.
            let arguments = serde_json::to_string(&call.arguments).unwrap_or_default();
            length_of(&call.name) + length_of(&arguments)
        }
        Content::Image(_) | Content::Unknown(_) => 0,
    };
    assistant.content.iter().map(length).sum()
}
