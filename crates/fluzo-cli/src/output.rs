//! Standard output of what is printed at once: help, versions, lists.

use std::io::{ErrorKind, Write};

/// Writes to standard output and returns the exit code. A reader that is gone is no failure
/// of ours; anything else that goes wrong is said on standard error.
pub(crate) fn write(bytes: &[u8]) -> i32 {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("error: standard output cannot be written: {error}");
            1
        }
        _ => 0,
    }
}
