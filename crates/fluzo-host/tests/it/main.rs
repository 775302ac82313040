//! The agent session over both stores and both drives.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods
)]

mod aborts;
mod checklist;
mod choosing;
mod commands;
mod compactions;
mod crash;
mod doubles;
mod drives;
mod hooked;
mod hosts;
mod keys;
mod life;
mod prompts;
mod races;
mod stage;
mod storms;
