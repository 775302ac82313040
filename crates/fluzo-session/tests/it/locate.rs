//! Names, lists and finding.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use fluzo_session::Session;
use fluzo_session::jsonl::locate::{
    self, Found, Newest, Skipped, WHOLE, file_name, find, folder_name, info, list, newest,
};
use fluzo_session::{Header, JsonlStore};
use tempfile::TempDir;

use crate::support::{assistant, random_ids, text};

fn saved(folder: &Path, id: &str, cwd: &str, age: u64) -> PathBuf {
    let header = Header::new(id, "2026-12-01T00:00:00.000Z", cwd);
    let store = JsonlStore::create_in(folder, header, Vec::new(), random_ids()).unwrap();
    let session = Session::new(std::sync::Arc::new(store), random_ids());
    session
        .append_message(text(&format!("first of {id}")), 0)
        .unwrap();
    let path = session.path().unwrap();
    drop(session);
    written(&path, age);
    path
}

/// Lets the file be written `age` seconds after the first.
fn written(path: &Path, age: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 + age);
    File::options()
        .append(true)
        .open(path)
        .unwrap()
        .set_modified(time)
        .unwrap();
}

#[test]
fn folder_names() {
    let rows = [
        ("/tmp/a b:c", "--tmp-a b-c--"),
        ("/", "----"),
        ("/home/me/work", "--home-me-work--"),
        ("C:\\x\\y", "--C--x-y--"),
        ("//double", "---double--"),
    ];
    for (cwd, name) in rows {
        assert_eq!(folder_name(cwd), name);
    }
}

#[test]
fn file_names() {
    let name = file_name("2026-12-01T08:37:28.123Z", "u-u");
    assert_eq!(name, "2026-12-01T08-37-28-123Z_u-u.jsonl");
}

#[test]
fn the_newest_file_with_a_header_is_continued() {
    let folder = TempDir::new().unwrap();
    let none = newest(&folder.path().join("none"), None).unwrap();
    assert_eq!(none, Newest::default());
    let old = saved(folder.path(), "old", "/a", 1);
    let new = saved(folder.path(), "new", "/b", 2);
    let bad = folder.path().join("bad.jsonl");
    fs::write(&bad, "{\"type\":\"message\"}\n").unwrap();
    written(&bad, 9);
    let other = folder.path().join("note.txt");
    fs::write(&other, fs::read(&old).unwrap()).unwrap();
    let worse = folder.path().join("empty.jsonl");
    fs::write(&worse, "").unwrap();
    written(&worse, 0);
    let skipped = |path: &PathBuf| Skipped {
        path: path.clone(),
        error: None,
    };
    let check = |cwd, path, skipped| {
        let found = newest(folder.path(), cwd).unwrap();
        assert_eq!(found, Newest { path, skipped });
    };
    check(None, Some(new), vec![skipped(&bad)]);
    check(Some("/a"), Some(old), vec![skipped(&bad)]);
    check(Some("/c"), None, vec![skipped(&bad), skipped(&worse)]);
    let said = skipped(&bad).to_string();
    assert!(
        said.ends_with("bad.jsonl` does not begin with a session header"),
        "{said}"
    );
}

#[test]
fn arguments_that_name_a_session() {
    let root = TempDir::new().unwrap();
    let (here, there) = (root.path().join("here"), root.path().join("there"));
    let exact = saved(&here, "abc", "/here", 1);
    let longer = saved(&here, "abcd", "/here", 2);
    let other = saved(&there, "xyz", "/there", 3);
    let check = |argument: &str, want: Found| {
        assert_eq!(
            find(argument, &here, Some(root.path())).unwrap(),
            want,
            "{argument}"
        );
    };
    check("abc", Found::Here(exact));
    check("ab", Found::Here(longer));
    check(
        "x",
        Found::Elsewhere {
            path: other,
            cwd: "/there".to_owned(),
        },
    );
    check("q", Found::Nothing);
    check("", Found::Nothing);
    for path in ["a/b", "a\\b", "x.jsonl", "./abc"] {
        check(path, Found::Path(path.into()));
    }
    assert_eq!(find("x", &here, None).unwrap(), Found::Nothing);
}

#[test]
fn a_list_has_the_latest_first() {
    let folder = TempDir::new().unwrap();
    let header = Header::new("full", "2026-12-01T00:00:00.000Z", "/w");
    let store = JsonlStore::create_in(folder.path(), header, Vec::new(), random_ids()).unwrap();
    let session = Session::new(std::sync::Arc::new(store), random_ids());
    session.append_message(text("hello"), 0).unwrap();
    session.append_message(assistant("answer"), 0).unwrap();
    session.append_session_info("Name", 0).unwrap();
    drop(session);
    let empty = folder.path().join("empty.jsonl");
    let head = r#"{"type":"session","version":3,"id":"e","timestamp":"2027-01-01T00:00:00.000Z","cwd":"/w"}"#;
    fs::write(&empty, format!("{head}\n")).unwrap();
    fs::write(folder.path().join("bad.jsonl"), "no session\n").unwrap();
    let listed = list(folder.path()).unwrap();
    let ids: Vec<&str> = listed.iter().map(|info| &*info.header.id).collect();
    assert_eq!(ids, ["e", "full"]);
    assert_eq!(
        (&listed[0].first_message, listed[0].message_count),
        (&None, Some(0))
    );
    assert_eq!(listed[0].modified_ms, 1_798_761_600_000);
    let full = &listed[1];
    assert_eq!(
        (full.name.as_deref(), full.message_count),
        (Some("Name"), Some(2))
    );
    assert_eq!(full.first_message.as_deref(), Some("hello"));
    assert_eq!(full.modified_ms, crate::support::NOW);
    assert!(list(&folder.path().join("none")).unwrap().is_empty());
}

#[test]
fn of_a_large_file_only_the_ends_are_read() {
    let folder = TempDir::new().unwrap();
    let header = Header::new("large", "2026-12-01T00:00:00.000Z", "/w");
    let store = JsonlStore::create_in(folder.path(), header, Vec::new(), random_ids()).unwrap();
    let session = Session::new(std::sync::Arc::new(store), random_ids());
    session.append_message(text("hello"), 0).unwrap();
    let long = "x".repeat(usize::try_from(WHOLE).unwrap());
    session.append_message(text(&long), 0).unwrap();
    session.append_session_info("Name", 0).unwrap();
    let info = info(&session.path().unwrap()).unwrap().unwrap();
    assert_eq!(info.first_message.as_deref(), Some("hello"));
    assert_eq!(
        (info.name.as_deref(), info.message_count),
        (Some("Name"), None)
    );
    assert_eq!(locate::header(&info.path).unwrap().id, "large");
}
