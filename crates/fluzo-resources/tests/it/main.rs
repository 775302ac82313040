//! Loading from real folders.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods
)]

mod context;
mod hostile;
mod packages;
mod places;
mod skills;
mod support;
mod templates;
mod themes;
