//! Ends what commands of the agent left running, before anything is verified.
//!
//! A process is known by the throw-away folder: all that the agent starts carry its path in their environment. One that
//! drops its environment and works elsewhere is known by nothing; that needs a sandbox, which the open profile has not.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use super::programs::Programs;

/// How often killed processes are looked for again.
const ROUNDS: u32 = 100;
/// How long the looks are apart.
const PAUSE: Duration = Duration::from_millis(20);

/// Kills the processes `known` and all that belong to the folder `root`, and waits until they are gone. Returns the ids of
/// all that still ran.
///
/// # Errors
/// They could not be found, or not be ended.
pub(crate) async fn end(
    programs: &Programs,
    root: &Path,
    known: &[u32],
) -> Result<Vec<u32>, String> {
    let mut ended: BTreeSet<u32> = known.iter().copied().collect();
    let mut now = ended.clone();
    for _ in 0..ROUNDS {
        let found =
            belonging_to(root).map_err(|error| format!("`/proc` cannot be read: {error}"))?;
        now.extend(&found);
        if now.is_empty() {
            return Ok(ended.into_iter().collect());
        }
        ended.extend(&now);
        programs.kill(&now).await;
        tokio::time::sleep(PAUSE).await;
        now.clear();
    }
    Err("processes of the agent could not be ended".to_owned())
}

/// The processes, other than this one, that have `root` in their environment or arguments, or work or lie below it.
fn belonging_to(root: &Path) -> io::Result<BTreeSet<u32>> {
    let own = std::process::id();
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir("/proc")? {
        let entry = entry?;
        let id = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        if let Some(id) = id.filter(|id| *id != own)
            && belongs(&entry.path(), root)
        {
            found.insert(id);
        }
    }
    Ok(found)
}

fn belongs(process: &Path, root: &Path) -> bool {
    let name = root.as_os_str().as_bytes();
    // Of processes of other users, and of those on their way out, nothing can be read.
    let holds = |file: &str| {
        let bytes = std::fs::read(process.join(file)).unwrap_or_default();
        bytes.windows(name.len()).any(|part| part == name)
    };
    let below = |link: &str| {
        let target = std::fs::read_link(process.join(link));
        target.is_ok_and(|target| target.starts_with(root))
    };
    holds("environ") || holds("cmdline") || below("cwd") || below("exe")
}
