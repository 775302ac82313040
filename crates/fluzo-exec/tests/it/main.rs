//! Integration tests of the plain implementations.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods
)]

mod callback;
mod files;
mod kill;
mod process;
mod search;
mod support;
