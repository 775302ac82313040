//! The state of a session at one moment.

use serde::Serialize;

use fluzo_llm::Model;

/// The state of a session; its JSON form is the data of `get_state`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// The model in use, without its headers and without user, password and
    /// query of its base URL, which may be secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
    /// The thinking level.
    pub thinking_level: String,
    /// Whether a prompt without a queue would be refused: one is accepted or running, or
    /// a further attempt is waited for.
    pub is_streaming: bool,
    /// Whether a compaction is active.
    pub is_compacting: bool,
    /// How the steering queue drains.
    pub steering_mode: String,
    /// How the follow-up queue drains.
    pub follow_up_mode: String,
    /// The session's file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_file: Option<String>,
    /// The session's id.
    pub session_id: String,
    /// The session's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_name: Option<String>,
    /// Whether a session that grows too large is compacted by itself.
    pub auto_compaction_enabled: bool,
    /// Number of messages in the context.
    pub message_count: usize,
    /// Number of messages in the queues.
    pub pending_message_count: usize,
    /// What the agent is doing: `idle`, `thinking`, `streaming`, `executing_tool`.
    pub phase: String,
    /// Processes that finished commands left running.
    pub background_processes: Vec<u32>,
}
