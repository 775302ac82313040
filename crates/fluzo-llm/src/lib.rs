//! The language of the system: messages, models, usage, the provider stream
//! contract, and the agent's events with the reducer that turns them into state.
//!
//! The JSON form of everything here is pi's (session format 3), used by session
//! files, JSON mode and RPC alike. Unknown fields, blocks, roles and stop reasons
//! survive a round trip.

pub mod auth;
pub mod content;
pub mod convert;
pub mod event;
pub mod form;
pub mod given_up;
pub mod message;
pub mod model;
mod number;
pub mod redirect;
pub mod state;
pub mod stream;
pub mod tool;
pub mod transcript;
pub mod usage;

use std::future::Future;
use std::pin::Pin;

pub use auth::{CredentialError, Credentials, RequestAuth, Secret};
pub use content::{Content, ImageContent, TextContent, ThinkingContent, ToolCall};
pub use event::AgentEvent;
pub use form::FormSwitch;
pub use given_up::GivenUp;
pub use message::{
    AssistantMessage, Message, StopReason, ToolResultMessage, UserContent, UserMessage,
};
pub use model::{InputKind, Model, ThinkingLevel};
pub use redirect::{RedirectBlocked, RedirectDestination};
pub use state::{AgentState, Phase, StateCell};
pub use stream::{
    CacheRetention, EventStream, Finish, ModelRequest, Provider, RequestOptions, StreamError,
    StreamErrorKind, StreamEvent,
};
pub use tool::{ToolOutput, ToolSpec};
pub use transcript::{ModelMessage, Transcript, TranscriptError};
pub use usage::{Cost, Usage};

/// A boxed future that may borrow.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Tells running work to stop. Cloning gives another handle on the same signal;
/// a child signal fires with its parent but not the other way round.
pub type AbortSignal = tokio_util::sync::CancellationToken;

/// The unknown fields of a JSON object, kept in their order.
pub type Extra = serde_json::Map<String, serde_json::Value>;
