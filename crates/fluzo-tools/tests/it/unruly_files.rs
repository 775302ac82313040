//! A file system that refuses access, or holds a change until it is let go.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use fluzo_agent::Tool;
use fluzo_exec::{DirEntry, FileMeta, FileSystem, LocalFileSystem, ReadSeek, SpillFile};
use fluzo_tools::registry::builtin;
use serde_json::{Value, json};

use crate::support::{call, plain_env, text_of};

#[derive(Default)]
struct Unruly {
    refuses_read: bool,
    refuses_write: bool,
    /// Told of the first change; that one then waits for word.
    held: Mutex<Option<(Sender<()>, Receiver<()>)>>,
}

impl FileSystem for Unruly {
    fn metadata(&self, path: &Path) -> io::Result<FileMeta> {
        LocalFileSystem.metadata(path)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadSeek>> {
        LocalFileSystem.open(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        LocalFileSystem.read_dir(path)
    }

    fn check_access(&self, path: &Path, read: bool, write: bool) -> io::Result<()> {
        if read && self.refuses_read || write && self.refuses_write {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        LocalFileSystem.check_access(path, read, write)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        LocalFileSystem.create_dir_all(path)
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        if let Some((begun, go_on)) = self.held.lock().unwrap().take() {
            begun.send(()).unwrap();
            go_on.recv().unwrap();
        }
        LocalFileSystem.replace(path, bytes)
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        LocalFileSystem.canonicalize(path)
    }

    fn create_spill(&self, folder: &Path, prefix: &str) -> io::Result<SpillFile> {
        LocalFileSystem.create_spill(folder, prefix)
    }
}

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("f"), "a\nb\n").unwrap();
    dir
}

fn tool(dir: &tempfile::TempDir, name: &str, files: Unruly) -> Arc<dyn Tool> {
    let mut env = plain_env(dir.path());
    env.fs = Arc::new(files);
    builtin(name, &Arc::new(env)).unwrap()
}

fn edit(old: &str, new: &str) -> Value {
    json!({"path": "f", "oldText": old, "newText": new})
}

#[tokio::test]
async fn a_file_that_may_not_be_read_or_written_is_refused() {
    let dir = folder();
    let refuses_read = || Unruly {
        refuses_read: true,
        ..Unruly::default()
    };
    let result = call(tool(&dir, "read", refuses_read()), json!({"path": "f"})).await;
    let at = dir.path().display();
    assert_eq!(
        text_of(&result),
        format!("error: EACCES: permission denied, access '{at}/f'")
    );
    let result = call(tool(&dir, "edit", refuses_read()), edit("a", "A")).await;
    assert_eq!(
        text_of(&result),
        "error: Could not edit file: f. Error code: EACCES."
    );
    let refuses_write = Unruly {
        refuses_write: true,
        ..Unruly::default()
    };
    let result = call(tool(&dir, "edit", refuses_write), edit("a", "A")).await;
    assert_eq!(
        text_of(&result),
        "error: Could not edit file: f. Error code: EACCES."
    );
    assert_eq!(fs::read_to_string(dir.path().join("f")).unwrap(), "a\nb\n");
}

#[tokio::test]
async fn a_dropped_call_keeps_its_file_locked_until_the_change_is_made() {
    let dir = folder();
    let ((begun, has_begun), (go_on, waits)) = (channel(), channel());
    let held = Mutex::new(Some((begun, waits)));
    let tool = tool(
        &dir,
        "edit",
        Unruly {
            held,
            ..Unruly::default()
        },
    );
    let mut context = Context::from_waker(Waker::noop());
    let mut first = Box::pin(call(Arc::clone(&tool), edit("a", "A")));
    assert_eq!(first.as_mut().poll(&mut context).map(|_| ()), Poll::Pending);
    has_begun.recv().unwrap();
    drop(first);
    let mut second = Box::pin(call(tool, edit("b", "B")));
    assert_eq!(
        second.as_mut().poll(&mut context).map(|_| ()),
        Poll::Pending
    );
    go_on.send(()).unwrap();
    second.await.unwrap();
    assert_eq!(fs::read_to_string(dir.path().join("f")).unwrap(), "A\nB\n");
}
