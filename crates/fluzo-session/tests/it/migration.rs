//! Older versions of the format.

use std::fs;

use fluzo_session::{EntryKind, Notice, SessionStore};
use tempfile::TempDir;

use crate::support::{NOW, USAGE, chain, ids, open, roles, session, text};

const V1: &str = concat!(
    r#"{"type":"session","id":"old","timestamp":"2025-01-01T00:00:00.000Z","cwd":"/w"}"#,
    "\n",
    r#"{"type":"message","timestamp":"2025-01-01T00:00:01.000Z","message":{"role":"user","content":"one","timestamp":1}}"#,
    "\n",
    r#"{"type":"message","timestamp":"2025-01-01T00:00:02.000Z","message":{"role":"assistant","content":[],"api":"a","provider":"p","model":"m","usage":USAGE,"stopReason":"stop","timestamp":2}}"#,
    "\n",
    r#"{"type":"compaction","timestamp":"2025-01-01T00:00:03.000Z","summary":"SUM","firstKeptEntryIndex":2,"tokensBefore":5}"#,
    "\n",
    r#"{"type":"message","timestamp":"2025-01-01T00:00:04.000Z","message":{"role":"hookMessage","customType":"x","content":"c","display":true,"timestamp":3}}"#,
    "\n",
);

fn v1(folder: &TempDir, rest: &str) -> std::path::PathBuf {
    let path = folder.path().join("s.jsonl");
    fs::write(&path, V1.replace("USAGE", USAGE) + rest).unwrap();
    path
}

#[test]
fn version_1_gets_a_tree() {
    let folder = TempDir::new().unwrap();
    let path = v1(&folder, "");
    let store = open(&path).unwrap();
    assert_eq!(store.header().version, 3);
    let ids = ids(&store);
    assert!(ids.iter().all(|id| id.len() == 8), "{ids:?}");
    let entries: Vec<_> = ids
        .iter()
        .map(|id| (*store.payload(id).unwrap()).clone())
        .collect();
    let parents: Vec<_> = chain(&entries)
        .into_iter()
        .map(|(_, parent)| parent)
        .collect();
    assert_eq!(parents, [None, Some(0), Some(1), Some(2)]);
    let EntryKind::Compaction(compaction) = &entries[2].kind else {
        panic!("compaction")
    };
    assert_eq!(compaction.first_kept_entry_id, ids[1]);
    assert!(entries[2].extra.is_empty());
    assert_eq!(
        roles(&session(&path)),
        ["compactionSummary", "assistant", "custom"]
    );
}

#[test]
fn a_file_that_is_only_read_stays_and_has_the_same_ids_again() {
    let folder = TempDir::new().unwrap();
    let path = v1(&folder, "");
    let before = fs::read(&path).unwrap();
    let first = ids(&open(&path).unwrap());
    assert_eq!(ids(&open(&path).unwrap()), first);
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn the_first_append_rewrites_the_file_and_keeps_the_old_one() {
    let folder = TempDir::new().unwrap();
    let path = v1(&folder, "{\"type\":\"mess\n\n{\"type\":\"torn");
    let before = fs::read(&path).unwrap();
    let session = session(&path);
    let old = ids(&**session.store());
    assert_eq!(session.damage().total, 2);
    let new = session.append_message(text("more"), NOW).unwrap();
    let notices = session.notices();
    let backup = folder.path().join("s.jsonl.v1");
    let aside = folder.path().join("s.jsonl.damaged");
    assert_eq!(
        notices,
        [
            Notice::TailMoved {
                to: aside.clone(),
                bytes: 13
            },
            Notice::Migrated {
                from_version: 1,
                backup: backup.clone()
            }
        ]
    );
    assert_eq!(fs::read(&backup).unwrap(), before);
    assert_eq!(fs::read_to_string(&aside).unwrap(), "{\"type\":\"torn");
    let written = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = written.lines().collect();
    assert!(
        lines[0].starts_with(r#"{"type":"session","version":3,"id":"old","#),
        "{}",
        lines[0]
    );
    assert_eq!(lines[5], "{\"type\":\"mess", "damage stays in its place");
    assert_eq!(lines[6], new.to_line().unwrap());
    let kept = format!(r#""firstKeptEntryId":"{}","tokensBefore":5}}"#, old[1]);
    assert!(lines[3].ends_with(&kept), "{}", lines[3]);
    assert!(
        lines[4].contains(r#""message":{"role":"custom","#),
        "{}",
        lines[4]
    );
    session.append_message(text("and more"), NOW).unwrap();
    assert_eq!(session.path(), Some(path.clone()));
    drop(session);
    let again = open(&path).unwrap();
    assert_eq!(ids(&again)[..4], old);
    assert_eq!((ids(&again).len(), again.damage().total), (6, 1));
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        3,
        "nothing temporary stays"
    );
}

#[test]
fn version_2_renames_the_role_only() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("s.jsonl");
    let lines = concat!(
        r#"{"type":"session","version":2,"id":"old","timestamp":"t","cwd":"/w"}"#,
        "\n",
        r#"{"type":"message","id":"a","parentId":null,"timestamp":"t","message":{"role":"hookMessage","customType":"x","content":"c","display":false,"timestamp":3}}"#,
    );
    fs::write(&path, lines).unwrap();
    let session = session(&path);
    assert_eq!(roles(&session), ["custom"]);
    session.append_message(text("more"), NOW).unwrap();
    let want = lines
        .replace("hookMessage", "custom")
        .replace(r#""version":2"#, r#""version":3"#);
    assert!(
        fs::read_to_string(&path)
            .unwrap()
            .starts_with(&format!("{want}\n"))
    );
    assert!(folder.path().join("s.jsonl.v2").exists());
}

#[test]
fn a_newer_version_is_kept() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("s.jsonl");
    fs::write(
        &path,
        "{\"type\":\"session\",\"version\":4,\"id\":\"new\"}\n",
    )
    .unwrap();
    let session = session(&path);
    assert_eq!(session.header().version, 4);
    session.append_message(text("more"), NOW).unwrap();
    let version = 4;
    assert_eq!(session.notices(), [Notice::NewerVersion { path, version }]);
}

#[test]
fn a_second_writer_of_an_old_file_forks() {
    let folder = TempDir::new().unwrap();
    let path = v1(&folder, "");
    let (one, two) = (session(&path), session(&path));
    one.append_message(text("one"), NOW).unwrap();
    two.append_message(text("two"), NOW).unwrap();
    assert_ne!(two.path(), Some(path.clone()));
    assert_eq!(
        ids(&open(&two.path().unwrap()).unwrap()),
        ids(&**two.store())
    );
    assert_eq!(crate::support::texts(&two), ["two"]);
    assert_eq!(
        roles(&two),
        ["compactionSummary", "assistant", "custom", "user"]
    );
    assert_eq!(crate::support::texts(&session(&path)), ["one"]);
}
