//! The program from outside.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods
)]

#[path = "../../../fluzo-credentials/tests/it/authority.rs"]
mod authority;
mod credentials;
mod demo;
mod discover;
mod engine;
mod export;
mod flags;
mod hosts;
mod inputs;
mod json;
mod old_places;
mod packages;
mod print;
mod profile;
mod quirks;
mod recorder;
mod requests;
mod resources;
mod rpc;
mod secrets;
mod sessions;
mod settings;
mod signals;
mod signatures;
mod silence;
mod support;
mod trust;
mod variables;
