//! Starting a program in a session of its own.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Makes the program the leader of a new session, so that it has no controlling terminal and a group of its own, and gives
/// it no descriptor but the three standard ones, not even those this process was itself given open.
#[allow(unsafe_code)]
pub(crate) fn in_new_session(command: &mut Command) -> &mut Command {
    // SAFETY: the closure runs between fork and exec and makes two plain system calls. They allocate nothing, take no lock
    // and touch no memory of the parent; building an error from a code does not allocate either. Descriptors are only
    // marked to close at exec, so those that the standard library still uses until then stay open.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid().map_err(io::Error::from)?;
            // A kernel without this call (before 5.11) hands down what was inherited without the mark.
            libc::syscall(
                libc::SYS_close_range,
                3,
                libc::c_uint::MAX,
                libc::CLOSE_RANGE_CLOEXEC,
            );
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn leads_a_session_without_a_terminal() {
        let script = r#"read -r line < /proc/self/stat; set -- ${line##*) }; echo "$$ $3 $4 $5""#;
        let output = in_new_session(Command::new("/bin/sh").args(["-c", script]))
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let fields: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(fields[0], fields[1], "group");
        assert_eq!(fields[0], fields[2], "session");
        assert_eq!(fields[3], "0", "terminal");
    }
}
