//! The provider against the simulator, over real connections on loopback.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods
)]

mod anthropic;
mod authority;
mod calls;
mod conformance;
mod connection;
mod content;
mod discovery;
mod faults;
mod gemini;
mod network;
mod preview;
mod quirks;
mod raw;
mod responses;
mod secrets;
mod support;
