//! Settings as other crates use them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod keys;
mod merge;
mod page;
