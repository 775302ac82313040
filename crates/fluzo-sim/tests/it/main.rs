//! The simulator from outside: pure history rules, and raw sockets against the running server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod client;
mod completions;
mod connections;
mod expectations;
mod faults;
mod gemini;
mod history;
mod independence;
mod lists;
mod messages;
mod poisoned;
mod quirks;
mod refusals;
mod responses;
mod scenario;
