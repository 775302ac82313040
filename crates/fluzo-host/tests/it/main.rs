//! The agent session over both stores and both drives.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods
)]

mod crash;
mod doubles;
mod drives;
mod keys;
mod life;
mod prompts;
