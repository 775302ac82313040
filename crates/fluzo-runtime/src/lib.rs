//! The run operation: an agent's run over effects that are recorded, traced and,
//! in tests, driven by hand.
//!
//! [`compose`](compose::compose) fixes the order of the wrappers around the base
//! effects; nothing else puts effects together.

pub mod attempts;
pub mod branch_summary;
pub mod clock;
pub mod compact;
pub mod compose;
pub mod drive;
pub mod forms;
pub mod journal;
pub mod model;
pub mod operation;
pub mod provider_attempts;
pub mod retry;
pub mod spans;
mod summary;
