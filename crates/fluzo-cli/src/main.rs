//! The program `fluzo`: reads arguments and environment, puts everything together, and
//! turns what came of it into an exit code.
//!
//! The only crate that reads environment, home, working folder and wall clock, and the
//! only one that names concrete providers, stores and agents.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this crate owns environment, clock, files and standard streams"
)]

mod access;
mod agent_folder;
mod arguments;
mod auth_file;
mod choose;
mod choose_model;
mod commands;
mod demo;
mod discover;
mod dispatch;
mod export;
mod flags;
mod gist;
mod help;
mod inputs;
mod kept_file;
mod list_models;
mod man;
mod network;
mod old_places;
mod open_profile;
mod output;
mod packages;
mod pi;
mod reference;
mod resource_sources;
mod session_exports;
mod session_folder;
mod session_services;
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "what stores settings in a session is built on it")
)]
mod settings_file;
mod surroundings;
mod trust;
mod unavailable;
mod variables;
mod wiring;

use std::process::ExitCode;

fn main() -> ExitCode {
    let code = dispatch::dispatch(&surroundings::Surroundings::read());
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
