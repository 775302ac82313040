//! Credentials against doubles of files, commands and servers, and against an authorisation
//! server on loopback.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods
)]

mod authority;
mod renewal;
mod ring;
mod secrets;
mod sign_in;
mod support;
