//! Tests of sessions over both stores.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::disallowed_methods, reason = "tests make and damage files")]

mod conformance;
mod context;
mod crash;
mod cut;
mod damage;
mod file;
mod fork;
mod import;
mod life;
mod list;
mod locate;
mod migration;
mod random;
mod session;
mod stats;
mod support;
mod writers;
