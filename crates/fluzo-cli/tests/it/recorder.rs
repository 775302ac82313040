//! Runs a program, and all it starts, under ptrace and writes down every address that it
//! connects or sends to.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use libc::{c_int, c_long, pid_t};

/// What a program did.
#[derive(Debug, Default)]
pub struct Recording {
    /// Addresses of the internet families, in order, each as often as it was used.
    pub addresses: Vec<SocketAddr>,
    /// Other ways to the outside that were tried: sockets of the system by the program itself,
    /// other families, io_uring.
    pub others: Vec<String>,
    /// Exit code of the program itself, -1 for a signal.
    pub code: i32,
    /// The program itself.
    root: pid_t,
}

/// Starts `command` so that [`follow`] can watch it. Must be followed by the same thread.
///
/// # Panics
///
/// When the machine does not allow ptrace: then nothing can be recorded.
pub fn start(command: &mut Command) -> Child {
    // SAFETY: between fork and exec only one system call is made, which allocates nothing.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    command.spawn().unwrap_or_else(|error| {
        panic!("the program cannot be recorded, does the machine allow ptrace? {error}")
    })
}

/// Watches a program that was started with [`start`] to the end of all that it started.
pub fn follow(child: &Child) -> Recording {
    let mut recording = Recording::default();
    let root = pid_t::try_from(child.id()).unwrap();
    recording.root = root;
    let mut begun = false;
    while let Some((pid, status)) = wait() {
        if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
            if pid == root {
                let exited = libc::WIFEXITED(status);
                recording.code = if exited {
                    libc::WEXITSTATUS(status)
                } else {
                    -1
                };
            }
            continue;
        }
        let signal = libc::WSTOPSIG(status);
        if !std::mem::replace(&mut begun, true) {
            let options = libc::PTRACE_O_TRACESYSGOOD
                | libc::PTRACE_O_TRACECLONE
                | libc::PTRACE_O_TRACEFORK
                | libc::PTRACE_O_TRACEVFORK
                | libc::PTRACE_O_TRACEEXEC
                | libc::PTRACE_O_EXITKILL;
            let set = ptrace(libc::PTRACE_SETOPTIONS, pid, 0, c_long::from(options));
            assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
        }
        if signal == libc::SIGTRAP | 0x80 {
            note(pid, &mut recording);
        }
        // Stops of ptrace's own are not signals of the program.
        let own = signal == libc::SIGTRAP | 0x80 || signal == libc::SIGTRAP;
        let pass = if own || signal == libc::SIGSTOP {
            0
        } else {
            signal
        };
        // A process that was killed meanwhile is reported by the next wait.
        ptrace(libc::PTRACE_SYSCALL, pid, 0, c_long::from(pass));
    }
    recording
}

/// The next change of a process of this thread; `None` when there is none left.
fn wait() -> Option<(pid_t, c_int)> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is a valid place for the result. Children of other threads, which
        // belong to other tests, are left out.
        #[allow(unsafe_code)]
        let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
        if pid > 0 {
            return Some((pid, status));
        }
        let error = std::io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::ECHILD) => return None,
            _ => panic!("{error}"),
        }
    }
}

fn ptrace(request: libc::c_uint, pid: pid_t, address: c_long, data: c_long) -> c_long {
    // SAFETY: the requests used here take numbers, or a pointer to a whole `ptrace_syscall_info`
    // with its size; the kernel checks the process.
    #[allow(unsafe_code)]
    unsafe {
        libc::ptrace(request, pid, address, data)
    }
}

/// Looks at the system call that `pid` is about to make.
fn note(pid: pid_t, recording: &mut Recording) {
    // SAFETY: all zeroes is a valid value of this plain structure.
    #[allow(unsafe_code)]
    let mut info: libc::ptrace_syscall_info = unsafe { std::mem::zeroed() };
    let size = c_long::try_from(size_of_val(&info)).unwrap();
    let place = (&raw mut info) as c_long;
    let got = ptrace(libc::PTRACE_GET_SYSCALL_INFO, pid, size, place);
    if got <= 0 || info.op != libc::PTRACE_SYSCALL_INFO_ENTRY {
        return;
    }
    // SAFETY: the kernel says that it has filled in this variant.
    #[allow(unsafe_code)]
    let entry = unsafe { info.u.entry };
    let args = entry.args;
    match c_long::try_from(entry.nr).unwrap() {
        libc::SYS_connect => address(pid, args[1], args[2], recording),
        libc::SYS_sendto if args[4] != 0 => address(pid, args[4], args[5], recording),
        libc::SYS_sendmsg => message(pid, args[1], recording),
        libc::SYS_sendmmsg => {
            for n in 0..args[2] {
                message(pid, args[1] + n * 64, recording);
            }
        }
        libc::SYS_io_uring_setup => recording.others.push("io_uring".to_owned()),
        _ => {}
    }
}

/// Notes where a message goes that is not sent over a connection.
fn message(pid: pid_t, place: u64, recording: &mut Recording) {
    let head = memory(pid, place, 12);
    let name = u64::from_ne_bytes(head[..8].try_into().unwrap());
    let length = u32::from_ne_bytes(head[8..].try_into().unwrap());
    if name != 0 {
        address(pid, name, u64::from(length), recording);
    }
}

fn address(pid: pid_t, place: u64, length: u64, recording: &mut Recording) {
    let bytes = memory(pid, place, usize::try_from(length.min(128)).unwrap());
    let family = u16::from_ne_bytes([bytes[0], bytes[1]]);
    let port = || u16::from_be_bytes([bytes[2], bytes[3]]);
    match c_int::from(family) {
        libc::AF_INET => {
            let ip: [u8; 4] = bytes[4..8].try_into().unwrap();
            let ip = IpAddr::V4(Ipv4Addr::from(ip));
            recording.addresses.push(SocketAddr::new(ip, port()));
        }
        libc::AF_INET6 => {
            let ip: [u8; 16] = bytes[8..24].try_into().unwrap();
            let ip = IpAddr::V6(Ipv6Addr::from(ip));
            recording.addresses.push(SocketAddr::new(ip, port()));
        }
        libc::AF_UNSPEC => {}
        // A shell asks the system for the user's name this way; the program itself has no
        // reason to, unless it looks up a host.
        libc::AF_UNIX if !is_of(pid, recording.root) => {}
        libc::AF_UNIX => {
            let path = bytes[2..].split(|byte| *byte == 0).next().unwrap();
            recording
                .others
                .push(String::from_utf8_lossy(path).into_owned());
        }
        other => recording.others.push(format!("address family {other}")),
    }
}

/// Whether `pid` is a thread of the process `root`.
fn is_of(pid: pid_t, root: pid_t) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let group = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    group.unwrap().trim() == root.to_string()
}

fn memory(pid: pid_t, place: u64, length: usize) -> Vec<u8> {
    let file = File::open(format!("/proc/{pid}/mem")).unwrap();
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, place).unwrap();
    bytes
}
