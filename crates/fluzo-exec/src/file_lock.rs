//! Serialises changes to one file within this process, whatever name the file is called by.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::fs::FileSystem;

type Table = Arc<Mutex<HashMap<PathBuf, Arc<AsyncMutex<()>>>>>;

/// A set of locks, one for each file that is being changed or waited for. Clones share the locks.
#[derive(Clone, Debug, Default)]
pub struct PathLocks {
    table: Table,
}

/// Holds the lock of one file until dropped.
#[derive(Debug)]
pub struct PathGuard {
    // Before the ticket, whose drop removes the entry when nobody else uses it.
    _lock: OwnedMutexGuard<()>,
    _ticket: Ticket,
}

impl PathLocks {
    /// Makes an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits for the lock of the file that `path` names; waiters are served in order of arrival. Dropping the future gives
    /// up the place. The path is resolved on the calling thread, which costs a few system calls.
    ///
    /// The key is the canonical path. A file that does not exist yet is known by its nearest existing directory, resolved,
    /// and the rest of the path.
    pub async fn lock(&self, fs: &dyn FileSystem, path: &Path) -> PathGuard {
        let ticket = self.ticket(key_of(fs, path));
        let lock = Arc::clone(&ticket.lock).lock_owned().await;
        PathGuard {
            _lock: lock,
            _ticket: ticket,
        }
    }

    fn ticket(&self, key: PathBuf) -> Ticket {
        let lock = Arc::clone(open(&self.table).entry(key.clone()).or_default());
        Ticket {
            table: Arc::clone(&self.table),
            key,
            lock,
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        open(&self.table).len()
    }
}

/// The interest of one holder or waiter in an entry.
#[derive(Debug)]
struct Ticket {
    table: Table,
    key: PathBuf,
    lock: Arc<AsyncMutex<()>>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut table = open(&self.table);
        // One reference is the table's, one is ours. New ones are made only under the table's lock.
        if Arc::strong_count(&self.lock) == 2 {
            table.remove(&self.key);
        }
    }
}

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn key_of(fs: &dyn FileSystem, path: &Path) -> PathBuf {
    if let Ok(real) = fs.canonicalize(path) {
        return real;
    }
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let mut rest: Vec<Component<'_>> = Vec::new();
    let mut base = absolute.as_path();
    while let (Some(parent), Some(last)) = (base.parent(), base.components().next_back()) {
        rest.push(last);
        if let Ok(real) = fs.canonicalize(parent) {
            return rest.iter().rev().fold(real, |path, part| path.join(part));
        }
        base = parent;
    }
    absolute
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::local_fs::LocalFileSystem;

    #[test]
    fn one_key_for_every_name_of_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        std::fs::create_dir(base.join("real")).unwrap();
        std::fs::write(base.join("real/f"), "x").unwrap();
        std::os::unix::fs::symlink("real", base.join("link")).unwrap();
        let check = |a: &str, b: &str| {
            assert_eq!(
                key_of(&LocalFileSystem, &base.join(a)),
                key_of(&LocalFileSystem, &base.join(b)),
                "{a} {b}"
            );
        };
        check("real/f", "link/f");
        check("real/new", "link/new");
        check("real/no/new", "link/no/new");
        check("real/../real/f", "link/./f");
    }

    #[tokio::test]
    async fn second_waits_and_the_table_empties() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let locks = PathLocks::new();
        let first = locks.lock(&LocalFileSystem, &path).await;
        let mut second = Box::pin(locks.lock(&LocalFileSystem, &path));
        let mut third = Box::pin(locks.lock(&LocalFileSystem, &path));
        assert!(poll_once(&mut second).is_none());
        assert!(poll_once(&mut third).is_none());
        let other = locks.lock(&LocalFileSystem, &dir.path().join("g")).await;
        assert_eq!(locks.len(), 2);
        drop(other);
        drop(first);
        drop(third);
        let second = second.await;
        assert_eq!(locks.len(), 1);
        drop(second);
        assert_eq!(locks.len(), 0);
    }

    #[tokio::test]
    async fn a_waiter_that_gives_up_leaves_nothing() {
        let locks = PathLocks::new();
        let path = Path::new("/nonexistent/f");
        let first = locks.lock(&LocalFileSystem, path).await;
        let mut second = Box::pin(locks.lock(&LocalFileSystem, path));
        assert!(poll_once(&mut second).is_none());
        drop(first);
        drop(second);
        assert_eq!(locks.len(), 0);
    }

    fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::Pin::new(future).poll(&mut context) {
            std::task::Poll::Ready(value) => Some(value),
            std::task::Poll::Pending => None,
        }
    }
}
