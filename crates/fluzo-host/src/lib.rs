//! The agent session: one session, one agent, one model in use. Assembles prompts,
//! chooses models and keys, and serves `fluzo-protocol`.

mod abort_slot;
mod broadcast;
mod choice;
mod claim;
mod commands;
mod compacting;
mod core;
pub mod hooks;
mod input;
mod interrupted;
mod jsonc;
mod keys;
mod live;
mod models;
mod models_file;
mod models_schema;
mod navigate;
mod notices;
mod opened;
mod pattern;
mod progress;
mod prompt;
mod scope;
mod services;
mod session;
mod switching;
mod user_shell;

pub use broadcast::Sinks;
pub use choice::{PromptMaker, Scoped};
pub use compacting::{CompactionParts, ModelSizes};
pub use hooks::{NoSessionHooks, SessionHooks};
pub use live::Live;
pub use models::{ModelRegistry, Resolved, Usable};
pub use models_file::Problem;
pub use opened::OpenedSession;
pub use prompt::{DocHint, SystemPrompt, system_prompt};
pub use services::{
    Export, Exporter, ImagesAsGiven, PreparedImages, SettingsStore, Shared, UserImages, UserShell,
};
pub use session::{AgentSession, RequestPreview, SessionParts};
pub use switching::{SessionFactory, SessionHost};
