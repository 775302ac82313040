//! The agent session: one session, one agent, one model in use. Assembles prompts,
//! chooses models and keys, and serves `fluzo-protocol`.

mod broadcast;
mod catalogue;
mod claim;
mod interrupted;
mod jsonc;
mod models;
mod models_schema;
mod notices;
mod opened;
mod pattern;
mod prompt;
mod session;

pub use models::{ModelRegistry, Resolved};
pub use opened::OpenedSession;
pub use prompt::{SystemPrompt, system_prompt};
pub use session::{AgentSession, SessionParts};
