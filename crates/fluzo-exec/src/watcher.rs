//! A small helper process that ends running commands when this process is killed.
//!
//! It waits in a blocking read on a pipe whose other end only this process holds. However this process ends, the read ends
//! too, and the helper kills the groups and the bearers of the marks that are registered at that moment.

use std::collections::BTreeMap;
use std::io::{self, PipeWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use crate::proc_tree::{CallTree, ProcessId};
use crate::session::in_new_session;

/// Lines read: `+ MARK PID START` and `- MARK`. Each call is a variable of the shell, so that a line costs the same however
/// many calls run.
///
/// A group is left alone when another process has its leader's id. Members are stopped as they are found, by group, session,
/// parent or mark, until a look around finds no new one; killing the first at once would part its children from it. Grep
/// alone reads files with NUL bytes portably; not every shell's kill takes `--` after `-KILL`.
const SCRIPT: &str = r#"
trap '' INT TERM HUP QUIT TSTP TTIN TTOU USR1 USR2
while read -r sign mark pid start; do
  case $sign in
    +) eval "call_$mark=$pid:$start" ;;
    -) unset "call_$mark" ;;
  esac
done
exec 2>/dev/null

look() {
  whole=
  while read -r part || [ -n "$part" ]; do whole="$whole $part"; done < "/proc/$1/stat"
  set -- ${whole##*) }
  [ $# -ge 20 ] || return 1
  parent=$2 group=$3 session=$4 start=${20}
}

groups=' ' members=' ' marks=
for mark in $(set | while IFS== read -r name value; do
  case $name in call_*) echo "${name#call_}" ;; esac
done); do
  eval "call=\$call_$mark"
  marks="$marks -e $mark"
  pid=${call%%:*}
  if look "$pid"; then
    [ "$start" = "${call#*:}" ] || continue
    kill -STOP "$pid"
    members="$members$pid "
  fi
  groups="$groups$pid "
done
[ -n "$marks" ] || exit 0

rounds=0 before=
while [ "$members" != "$before" ] && [ $rounds -lt 32 ]; do
  before=$members rounds=$((rounds + 1))
  marked=" $(grep -laF $marks /proc/[0-9]*/environ) "
  marked=$(echo $marked)
  for folder in /proc/[0-9]*; do
    pid=${folder#/proc/}
    case $members in *" $pid "*) continue ;; esac
    case " $marked " in
      *" /proc/$pid/environ "*) ;;
      *)
        look "$pid" || continue
        case $groups in
          *" $group "* | *" $session "*) ;;
          *) case $members in *" $parent "*) ;; *) continue ;; esac ;;
        esac
        ;;
    esac
    kill -STOP "$pid"
    members="$members$pid "
  done
done
for pid in $members; do kill -KILL "$pid"; done
"#;

/// The helper, started with the first registration and again should it have died.
#[derive(Debug)]
pub(crate) struct Watcher {
    shell: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    helper: Option<Helper>,
    calls: BTreeMap<Arc<str>, ProcessId>,
}

#[derive(Debug)]
struct Helper {
    child: Child,
    lines: PipeWriter,
}

/// Keeps one call registered until dropped.
#[derive(Debug)]
pub(crate) struct Registration {
    watcher: Arc<Watcher>,
    mark: Arc<str>,
}

impl Watcher {
    pub(crate) fn new(shell: PathBuf) -> Arc<Self> {
        Arc::new(Self {
            shell,
            state: Mutex::default(),
        })
    }

    pub(crate) fn shell(&self) -> &Path {
        &self.shell
    }

    pub(crate) fn register(self: &Arc<Self>, tree: &CallTree) -> io::Result<Registration> {
        let mark: Arc<str> = Arc::from(tree.mark());
        let registration = Registration {
            watcher: Arc::clone(self),
            mark: Arc::clone(&mark),
        };
        self.with_state(|state| {
            state.calls.insert(Arc::clone(&mark), tree.root());
            if state.send(&line_of(&mark, tree.root())).is_ok() {
                return Ok(());
            }
            state.restart(&self.shell)
        })?;
        Ok(registration)
    }

    /// Process id of the helper while it is thought to run.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.with_state(|state| state.helper.as_ref().map(|helper| helper.child.id()))
    }

    fn with_state<T>(&self, action: impl FnOnce(&mut State) -> T) -> T {
        action(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.watcher.with_state(|state| {
            state.calls.remove(&self.mark);
            // A dead helper watches nothing; the next registration starts another.
            let _ = state.send(&format!("- {}\n", self.mark));
        });
    }
}

impl State {
    fn send(&mut self, line: &str) -> io::Result<()> {
        let Some(helper) = &mut self.helper else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        // Far below PIPE_BUF, so the line goes in whole or not at all; a full pipe is a helper that reads no more.
        helper.lines.write_all(line.as_bytes())
    }

    fn restart(&mut self, shell: &Path) -> io::Result<()> {
        if let Some(mut old) = self.helper.take() {
            let _ = old.child.kill();
            let _ = old.child.wait();
        }
        self.helper = Some(Helper::start(shell)?);
        let lines: String = self
            .calls
            .iter()
            .map(|(mark, root)| line_of(mark, *root))
            .collect();
        self.send(&lines)
    }
}

impl Helper {
    fn start(shell: &Path) -> io::Result<Self> {
        let (reader, lines) = io::pipe()?;
        rustix::io::ioctl_fionbio(&lines, true)?;
        let mut command = Command::new(shell);
        command
            .args(["-c", SCRIPT, "fluzo-watcher"])
            .current_dir("/")
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .stdin(reader)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = in_new_session(&mut command).spawn()?;
        Ok(Self { child, lines })
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if let Some(Helper { mut child, lines }) = self.helper.take() {
            drop(lines);
            // Only to reap it; without a thread it stays a zombie until this process ends.
            let _ = std::thread::Builder::new().spawn(move || child.wait());
        }
    }
}

fn line_of(mark: &str, root: ProcessId) -> String {
    format!("+ {mark} {} {}\n", root.pid, root.start)
}
