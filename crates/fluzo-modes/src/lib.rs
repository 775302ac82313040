//! Front ends without a terminal interface: print, JSON and RPC.
//!
//! A mode knows a session only as an [`Endpoint`] and gets
//! its streams handed in.

mod json;
mod print;
mod pump;
mod rpc;

pub use json::json;
pub use print::{PrintOutput, print};
pub use pump::EventPump;
pub use rpc::rpc;

use std::io::Write;

use fluzo_llm::{Message, RedirectBlocked, StopReason};
use fluzo_protocol::{Endpoint, RunReport};
use fluzo_stdx::sanitize::terminal_text;

/// Everything went well.
const SUCCESS: i32 = 0;
/// A run failed, or could not start.
const FAILURE: i32 = 1;

/// Writes what the user should know about the session to `err`, once.
fn tell_notices(endpoint: &dyn Endpoint, err: &mut dyn Write) {
    for notice in endpoint.take_notices() {
        // Nobody is left to be told when standard error is closed.
        let _ = writeln!(err, "Warning: {}", terminal_text(&notice));
    }
}

/// Says on `err` why a run was stopped, if it was.
fn tell_halted(report: &RunReport, err: &mut dyn Write) {
    if let Some(halted) = &report.halted {
        let _ = writeln!(err, "Error: {}", terminal_text(halted));
    }
}

/// Why the run failed, in one line or more; `None` when it did not.
fn failure(report: &RunReport) -> Option<String> {
    if let Some(halted) = &report.halted {
        return Some(halted.clone());
    }
    let message = report.last.as_deref().and_then(Message::as_assistant)?;
    let text = |default: &str| {
        message
            .error_message
            .clone()
            .unwrap_or_else(|| default.to_owned())
    };
    match message.stop_reason {
        StopReason::Error => {
            let mut text = text("Request error");
            if let Some(redirect) = RedirectBlocked::of_message(message) {
                text.push('\n');
                text.push_str(&redirect.summary());
            }
            Some(text)
        }
        StopReason::Aborted => Some(text("Request aborted")),
        _ => None,
    }
}
