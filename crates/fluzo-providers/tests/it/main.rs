//! The provider against the simulator, over real connections on loopback.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod connection;
mod content;
mod faults;
mod secrets;
mod support;
