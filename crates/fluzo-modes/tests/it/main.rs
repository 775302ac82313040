//! The modes over an endpoint that plays a script.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod endpoint;
mod lines;
mod print;
mod rpc;
