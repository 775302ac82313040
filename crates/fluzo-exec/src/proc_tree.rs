//! The processes that belong to one call, found in `/proc` and ended without ever touching another.
//!
//! A process belongs to a call when it is in the session or group of the call's first process, when it carries the call's
//! mark in its environment, or when its parent belongs to the call. A process that leaves session and group, drops its
//! environment, and outlives its parent is out of reach.

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::process::CALL_ID_VARIABLE;

/// Flag of a process on its way out.
const EXITING: u64 = 0x4;

/// The few fields of `/proc/PID/stat` that decide where a process belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcStat {
    pub(crate) pid: u32,
    /// Whether it may still run code of its own. On its way out it has an id, but no files and no memory any more.
    alive: bool,
    parent: u32,
    group: u32,
    session: u32,
    /// Start time in clock ticks since boot; with the id it names a process for good.
    pub(crate) start: u64,
}

/// A process named for good: an id alone may be used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ProcessId {
    pub(crate) pid: u32,
    pub(crate) start: u64,
}

impl ProcessId {
    pub(crate) fn is_alive(self) -> bool {
        read_stat(self.pid).is_some_and(|stat| stat.start == self.start && stat.alive)
    }
}

/// The tree of one call.
#[derive(Clone, Debug)]
pub(crate) struct CallTree {
    root: ProcessId,
    mark: Arc<str>,
}

impl CallTree {
    /// `root` must still be a child that was not waited for, so that its id is certainly its own. `None` without a readable
    /// `/proc`, where no tree can be found.
    pub(crate) fn new(root: u32, mark: Arc<str>) -> Option<Self> {
        let start = read_stat(root)?.start;
        Some(Self {
            root: ProcessId { pid: root, start },
            mark,
        })
    }

    pub(crate) fn root(&self) -> ProcessId {
        self.root
    }

    pub(crate) fn mark(&self) -> &str {
        &self.mark
    }

    /// Kills every member. Waits up to `patience` for them to be gone; zero does not wait and makes one pass.
    pub(crate) fn kill(&self, patience: Duration) {
        const MAX_PASSES: usize = 8;
        let deadline = Instant::now() + patience;
        for _ in 0..MAX_PASSES {
            let members = self.freeze();
            if members.is_empty() {
                return;
            }
            let handles: Vec<OwnedFd> = members
                .iter()
                .filter_map(|id| signal(*id, Signal::KILL))
                .collect();
            if patience.is_zero() || !wait_for(&handles, deadline) {
                return;
            }
        }
    }

    /// Stops members until a look around finds no new one: what is stopped cannot fork, and its children keep their parent.
    fn freeze(&self) -> Vec<ProcessId> {
        const MAX_ROUNDS: usize = 32;
        let mut frozen = HashMap::new();
        for _ in 0..MAX_ROUNDS {
            let before = frozen.len();
            let processes = snapshot(self.root.start, |_| true);
            for id in self.members(&processes, |pid| carries(pid, &self.mark)) {
                frozen.entry(id.pid).or_insert_with(|| {
                    signal(id, Signal::STOP);
                    id
                });
            }
            if frozen.len() == before {
                break;
            }
        }
        frozen.into_values().collect()
    }

    /// What is left of the tree after its root has ended: the tops of its remaining parts.
    ///
    /// `brief` says that the call was so short that process ids cannot have come round; only ids given out since are read.
    pub(crate) fn survivors(&self, brief: bool) -> Vec<ProcessId> {
        let root = self.root.pid;
        let last = if brief { last_pid() } else { None };
        let processes = snapshot(self.root.start, |pid| match last {
            Some(last) if last >= root => pid > root && pid <= last,
            Some(last) => pid > root || pid <= last,
            None => true,
        });
        let members = self.members(&processes, |pid| carries(pid, &self.mark));
        tops(&processes, members)
    }

    /// As [`CallTree::survivors`], from a look around that began after the root's end.
    pub(crate) fn survivors_in(&self, look: &Look) -> Vec<ProcessId> {
        let members = self.members(&look.processes, |pid| {
            look.environments
                .get(&pid)
                .is_some_and(|environment| names_mark(environment, &self.mark))
        });
        tops(&look.processes, members)
    }
    /// Living members among `processes`, given which carry the mark.
    fn members(&self, processes: &[ProcStat], carries: impl Fn(u32) -> bool) -> Vec<ProcessId> {
        let root = read_stat(self.root.pid);
        // With another process under the root's id, groups and sessions of that number are another's too.
        let own_groups = root.is_none_or(|stat| stat.start == self.root.start);
        let in_group = |stat: &ProcStat| {
            own_groups && (stat.session == self.root.pid || stat.group == self.root.pid)
        };
        let mut inside: HashSet<u32> = HashSet::new();
        if root.is_some_and(|stat| stat.start == self.root.start) {
            inside.insert(self.root.pid);
        }
        inside.extend(
            processes
                .iter()
                .filter(|stat| in_group(stat) || (stat.alive && carries(stat.pid)))
                .map(|stat| stat.pid),
        );
        loop {
            let before = inside.len();
            let children = processes
                .iter()
                .filter(|stat| inside.contains(&stat.parent))
                .map(|stat| stat.pid);
            let children: Vec<u32> = children.collect();
            inside.extend(children);
            if inside.len() == before {
                break;
            }
        }
        processes
            .iter()
            .filter(|stat| stat.alive && inside.contains(&stat.pid))
            .map(|stat| ProcessId {
                pid: stat.pid,
                start: stat.start,
            })
            .collect()
    }
}

/// All processes of one moment, looked at once for many calls.
#[derive(Debug)]
pub(crate) struct Look {
    processes: Vec<ProcStat>,
    /// Environments that hold a mark, whoever's it is.
    environments: HashMap<u32, Vec<u8>>,
}

impl Look {
    /// Looks at processes not older than `since`.
    pub(crate) fn around(since: u64) -> Self {
        let processes = snapshot(since, |_| true);
        let environments = processes
            .iter()
            .filter(|stat| stat.alive)
            .filter_map(|stat| Some((stat.pid, environment(stat.pid)?)))
            .filter(|(_, environment)| {
                let name = CALL_ID_VARIABLE.as_bytes();
                environment.windows(name.len()).any(|part| part == name)
            })
            .collect();
        Self {
            processes,
            environments,
        }
    }
}

/// Members whose parent is none.
fn tops(processes: &[ProcStat], members: Vec<ProcessId>) -> Vec<ProcessId> {
    let ids: HashSet<u32> = members.iter().map(|id| id.pid).collect();
    let parents: HashMap<u32, u32> = processes
        .iter()
        .map(|stat| (stat.pid, stat.parent))
        .collect();
    let is_top = |id: &ProcessId| {
        parents
            .get(&id.pid)
            .is_none_or(|parent| !ids.contains(parent))
    };
    let mut tops: Vec<ProcessId> = members.into_iter().filter(is_top).collect();
    tops.sort_by_key(|id| id.pid);
    tops
}

/// Processes not older than `since` whose id passes `wanted`.
fn snapshot(since: u64, wanted: impl Fn(u32) -> bool) -> Vec<ProcStat> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| wanted(*pid))
        .filter_map(read_stat)
        .filter(|stat| stat.start >= since)
        .collect()
}

fn read_stat(pid: u32) -> Option<ProcStat> {
    parse_stat(pid, &std::fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// The name in parentheses may hold anything, so fields are counted from its last closing one.
fn parse_stat(pid: u32, line: &[u8]) -> Option<ProcStat> {
    let end = line.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(&line[end + 1..]).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let session = fields.next()?.parse().ok()?;
    let flags: u64 = fields.nth(2)?.parse().ok()?;
    let threads: u64 = fields.nth(10)?.parse().ok()?;
    let start = fields.nth(1)?.parse().ok()?;
    let ended = matches!(state, b'Z' | b'X' | b'x') || flags & EXITING != 0;
    // The line speaks of the first thread, which may end before the others.
    let alive = !ended || threads > 1;
    Some(ProcStat {
        pid,
        alive,
        parent,
        group,
        session,
        start,
    })
}

/// Id given out last in this pid namespace.
fn last_pid() -> Option<u32> {
    std::fs::read_to_string("/proc/loadavg")
        .ok()?
        .split_ascii_whitespace()
        .last()?
        .parse()
        .ok()
}

fn carries(pid: u32, mark: &str) -> bool {
    environment(pid).is_some_and(|environment| names_mark(&environment, mark))
}

fn environment(pid: u32) -> Option<Vec<u8>> {
    // Enough for a process that is preempted while it changes its program.
    const MAX_READS: usize = 500;
    const PAUSE: Duration = Duration::from_micros(200);
    for _ in 0..MAX_READS {
        match std::fs::read(format!("/proc/{pid}/environ")) {
            Ok(environment) if environment.is_empty() && is_changing(pid) => {
                std::thread::sleep(PAUSE)
            }
            Ok(environment) => return Some(environment),
            Err(_) => return None,
        }
    }
    None
}

/// Whether a process is between two programs. For that moment it has no environment at all, where one that was started
/// without variables has an empty one at some address.
fn is_changing(pid: u32) -> bool {
    const KERNEL_THREAD: u64 = 0x20_0000;
    let Ok(line) = std::fs::read(format!("/proc/{pid}/stat")) else {
        return false;
    };
    let Some(end) = line.iter().rposition(|byte| *byte == b')') else {
        return false;
    };
    let rest = String::from_utf8_lossy(&line[end + 1..]);
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next();
    let flags: Option<u64> = fields.nth(5).and_then(|flags| flags.parse().ok());
    let environment_end = fields.nth(41);
    !matches!(state, Some("Z" | "X" | "x") | None)
        && flags.is_some_and(|flags| flags & (EXITING | KERNEL_THREAD) == 0)
        && environment_end == Some("0")
}

fn names_mark(environment: &[u8], mark: &str) -> bool {
    environment
        .split(|byte| *byte == 0)
        .filter_map(|variable| {
            variable
                .strip_prefix(CALL_ID_VARIABLE.as_bytes())?
                .strip_prefix(b"=")
        })
        .any(|value| {
            value
                .split(|byte| *byte == b':')
                .any(|part| part == mark.as_bytes())
        })
}

/// Sends a signal to exactly this process and returns a handle on it. `None` when it is gone, or could not be held.
fn signal(id: ProcessId, signal: Signal) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(id.pid).ok()?)?;
    let handle = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => Some(handle),
        Err(Errno::SRCH) => return None,
        Err(_) => None,
    };
    // The handle was taken first: if the start time still fits now, the handle is on this process.
    if read_stat(id.pid).is_none_or(|stat| stat.start != id.start) {
        return None;
    }
    match &handle {
        Some(handle) => rustix::process::pidfd_send_signal(handle, signal).ok()?,
        // Out of handles, or a kernel without them: the check above leaves a window of microseconds.
        None => rustix::process::kill_process(pid, signal).ok()?,
    }
    handle
}

/// Whether all processes ended before the deadline.
fn wait_for(handles: &[OwnedFd], deadline: Instant) -> bool {
    handles.iter().all(|handle| {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec {
            tv_sec: left.as_secs().cast_signed(),
            tv_nsec: left.subsec_nanos().into(),
        };
        let mut polled = [PollFd::new(handle, PollFlags::IN)];
        matches!(rustix::event::poll(&mut polled, Some(&left)), Ok(ready) if ready > 0)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn reads_stat_lines() {
        let line = |name: &str, state: char, flags: u64, threads: u64| {
            format!(
                "7 ({name}) {state} 1 2 3 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 {threads} 0 4242 99 1\n"
            )
        };
        let check = |line: &str, alive: Option<bool>| {
            let expected = alive.map(|alive| ProcStat {
                pid: 7,
                alive,
                parent: 1,
                group: 2,
                session: 3,
                start: 4242,
            });
            assert_eq!(parse_stat(7, line.as_bytes()), expected, "{line}");
        };
        check(&line("sh", 'S', 0x40_0000, 1), Some(true));
        check(&line("a) b) (c", 'T', 0, 1), Some(true));
        check(&line("sh", 'Z', 0x40_0004, 1), Some(false));
        check(&line("sh", 'R', EXITING, 1), Some(false));
        check(&line("sh", 'Z', EXITING, 2), Some(true));
        check("7 (sh) S 1 2", None);
        check("7 sh", None);
        check("", None);
    }

    #[test]
    fn finds_marks_in_environments() {
        let check = |environment: &str, expected: bool| {
            assert_eq!(
                names_mark(environment.as_bytes(), "m1"),
                expected,
                "{environment:?}"
            );
        };
        check("A=1\0FLUZO_CALL_ID=m1\0B=2\0", true);
        check("FLUZO_CALL_ID=m0:m1\0", true);
        check("FLUZO_CALL_ID=m1:m2\0", true);
        check("FLUZO_CALL_ID=m11\0", false);
        check("XFLUZO_CALL_ID=m1\0", false);
        check("A=FLUZO_CALL_ID=m1\0", false);
        check("", false);
    }

    #[test]
    fn reads_itself() {
        let own = read_stat(std::process::id()).unwrap();
        assert!(own.alive && own.start > 0 && own.parent > 0);
        assert!(
            ProcessId {
                pid: own.pid,
                start: own.start
            }
            .is_alive()
        );
        assert!(
            !ProcessId {
                pid: own.pid,
                start: own.start + 1
            }
            .is_alive()
        );
        assert!(!is_changing(own.pid));
        let all = snapshot(own.start, |_| true);
        assert!(
            all.iter()
                .any(|stat| stat.pid == own.pid && stat.start == own.start)
        );
    }

    #[test]
    fn another_start_time_is_not_signalled() {
        let own = read_stat(std::process::id()).unwrap();
        let stranger = ProcessId {
            pid: own.pid,
            start: own.start + 1,
        };
        assert!(signal(stranger, Signal::KILL).is_none());
    }

    #[test]
    fn a_tree_whose_root_id_was_reused_has_no_groups() {
        let own = read_stat(std::process::id()).unwrap();
        let tree = CallTree {
            root: ProcessId {
                pid: own.group,
                start: 0,
            },
            mark: Arc::from("no-such-mark"),
        };
        assert!(tree.members(&[own], |_| false).is_empty());
    }
}
