//! The tools from outside, through the gate, on real files.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods
)]

mod bash;
mod checklist;
mod edit;
mod find;
mod grep;
mod ls;
mod paths;
mod read;
mod registry;
mod shown;
mod support;
mod unruly_files;
mod user_shell;
mod write;
