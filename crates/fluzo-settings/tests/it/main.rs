//! Settings as other crates use them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods
)]

mod keys;
mod merge;
mod page;
