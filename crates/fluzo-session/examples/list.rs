//! Lists the sessions of a folder: `list FOLDER`. For measuring; `scripts/big-session.sh` runs it.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a program for measuring"
)]

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1) else {
        return ExitCode::from(2);
    };
    let Ok(listed) = fluzo_session::jsonl::list::list(Path::new(&folder)) else {
        return ExitCode::FAILURE;
    };
    let counted = listed.iter().filter(|info| info.message_count.is_some());
    println!("{} sessions, {} counted", listed.len(), counted.count());
    ExitCode::SUCCESS
}
