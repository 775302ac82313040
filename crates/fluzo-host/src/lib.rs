//! The agent session: one session, one agent, one model in use. Assembles prompts,
//! chooses models and keys, and serves `fluzo-protocol`.

mod broadcast;
mod claim;
mod interrupted;
mod jsonc;
mod models;
mod models_file;
mod models_schema;
mod notices;
mod opened;
mod pattern;
mod prompt;
mod session;

pub use models::{ModelRegistry, Resolved, Usable};
pub use models_file::Problem;
pub use opened::OpenedSession;
pub use prompt::{SystemPrompt, system_prompt};
pub use session::{AgentSession, SessionParts};
