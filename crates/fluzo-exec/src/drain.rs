//! Keeps the output pipe of a background process open for as long as somebody writes to it, also beyond this process.
//!
//! A pipe without a reader ends its writers at their next write. So the reader is a process of its own: it ends when the
//! last writer has closed the pipe.

use std::io;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use tokio::net::unix::pipe::Receiver;
use tokio::process::Command;

use crate::session::in_new_session;

/// Bytes read at once when this process has to read itself.
const CHUNK: usize = 64 * 1024;

/// Has everything that still comes read and thrown away. Where no reader can be started, this process reads as long as its
/// tokio runtime runs.
pub(crate) fn discard(output: Receiver) {
    let Ok(pipe) = output.into_blocking_fd() else {
        return;
    };
    let Ok(kept) = pipe.try_clone() else {
        return read_here(pipe);
    };
    if start_reader(pipe).is_err() {
        read_here(kept);
    }
}

fn start_reader(pipe: OwnedFd) -> io::Result<()> {
    let mut command = std::process::Command::new("cat");
    command
        .current_dir("/")
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .stdin(pipe)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    in_new_session(&mut command);
    // Dropped, it runs on; the runtime takes its status when it ends.
    Command::from(command).spawn().map(drop)
}

fn read_here(pipe: OwnedFd) {
    if let Ok(output) = Receiver::from_owned_fd(pipe) {
        tokio::spawn(read_to_end(output));
    }
}

async fn read_to_end(output: Receiver) {
    let mut buffer = vec![0; CHUNK];
    while output.readable().await.is_ok() {
        match output.try_read(&mut buffer) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}
