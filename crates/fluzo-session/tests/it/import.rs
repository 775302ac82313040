//! Session files from elsewhere.

use std::fs;
use std::path::Path;

use fluzo_session::jsonl::import::{ImportError, Imported, import};
use tempfile::TempDir;

use crate::support::{HEADER, line, open};
use fluzo_session::SessionStore;

fn source(folder: &Path, name: &str, id: &str) -> std::path::PathBuf {
    let path = folder.join(name);
    let text = format!("{HEADER}\n{}\n", line(id, None));
    fs::write(&path, text).unwrap();
    path
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn a_session_is_copied_under_its_own_name() {
    let (from, to) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let path = source(from.path(), "a.jsonl", "one");
    let folder = to.path().join("new");
    let first = import(&path, &folder).unwrap();
    let want = folder.join("a.jsonl");
    assert_eq!(
        (&first.path, first.copied, first.notice()),
        (&want, true, None)
    );
    assert_eq!(fs::read(&want).unwrap(), fs::read(&path).unwrap());
    assert!(open(&want).unwrap().payload("one").is_ok());
    // The same file again is no second session.
    let again = import(&path, &folder).unwrap();
    assert_eq!((&again.path, again.copied), (&want, false));
    let inside = import(&want, &folder).unwrap();
    assert_eq!((&inside.path, inside.copied), (&want, false));
    assert_eq!(names(&folder), ["a.jsonl"]);
}

#[test]
fn another_session_of_that_name_stays_and_a_free_name_is_told() {
    let (from, to) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let there = source(to.path(), "a.jsonl", "there");
    let before = fs::read(&there).unwrap();
    let second = to.path().join("a-2.jsonl");
    fs::write(&second, "no session").unwrap();
    let path = source(from.path(), "a.jsonl", "one");
    let imported = import(&path, to.path()).unwrap();
    let want = Imported {
        path: to.path().join("a-3.jsonl"),
        taken: Some(there.clone()),
        copied: true,
    };
    assert_eq!(imported, want);
    let notice = imported.notice().unwrap();
    assert!(
        notice.contains("a.jsonl`; the imported one is in"),
        "{notice}"
    );
    assert_eq!(fs::read(&there).unwrap(), before);
    assert_eq!(names(to.path()), ["a-2.jsonl", "a-3.jsonl", "a.jsonl"]);
}

#[test]
fn a_name_without_its_ending_gets_it() {
    let (from, to) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let path = source(from.path(), "saved.txt", "one");
    let imported = import(&path, to.path()).unwrap();
    assert_eq!(imported.path, to.path().join("saved.txt.jsonl"));
}

#[test]
fn what_is_no_session_is_refused_and_leaves_nothing() {
    let (from, to) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let missing = from.path().join("none.jsonl");
    let error = import(&missing, to.path()).unwrap_err();
    assert!(matches!(error, ImportError::NotFound { .. }));
    assert_eq!(
        error.to_string(),
        format!("File not found: {}", missing.display())
    );
    let bad = from.path().join("bad.jsonl");
    fs::write(&bad, "{\"type\":\"message\"}\n").unwrap();
    for path in [bad.as_path(), from.path()] {
        let text = import(path, to.path()).unwrap_err().to_string();
        let want = format!("Session file is not a valid pi session: {}", path.display());
        assert_eq!(text, want);
    }
    assert!(names(to.path()).is_empty());
}
