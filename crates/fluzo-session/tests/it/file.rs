//! What is written, byte for byte, and when.

use std::fs;

use fluzo_session::conformance::{ids, one_of_each};
use fluzo_session::{Durability, EntryKind, Header, JsonlStore, Session, SessionStore, StoreError};
use tempfile::TempDir;

use crate::support::{
    NOW, assistant, counting_ids, file, header, new_session, open, random_ids, session, text,
};

#[test]
fn the_file_appears_with_the_first_user_message() {
    let folder = TempDir::new().unwrap();
    let session = new_session(folder.path());
    session.append_model_change("p", "m", NOW).unwrap();
    session.append_thinking_level_change("off", NOW).unwrap();
    let path = session.path().unwrap();
    assert!(!path.exists());
    assert!(!session.store().saved());
    session.append_message(text("hi"), NOW).unwrap();
    assert!(session.store().saved());
    session.append_message(assistant("ok"), NOW).unwrap();
    let written = fs::read_to_string(&path).unwrap();
    let types: Vec<String> = written
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|value| value["type"].as_str().unwrap().to_owned())
        .collect();
    let want = [
        "session",
        "model_change",
        "thinking_level_change",
        "message",
        "message",
    ];
    assert_eq!(types, want);
    assert!(written.ends_with('\n'));
    let name = path.file_name().unwrap().to_str().unwrap();
    assert_eq!(
        name,
        "2026-12-01T08-37-28-123Z_01a230c2-0000-7000-8000-000000000001.jsonl"
    );
}

#[test]
fn a_session_without_a_message_leaves_no_file() {
    let folder = TempDir::new().unwrap();
    let session = new_session(folder.path());
    session.append_session_info("name", NOW).unwrap();
    session.append_custom("x", None, NOW).unwrap();
    drop(session);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn lines_are_pi_bytes() {
    let folder = TempDir::new().unwrap();
    let header = Header::new("s", "2026-12-01T08:37:28.123Z", "/w");
    let store = JsonlStore::create_in(folder.path(), header, Vec::new(), random_ids()).unwrap();
    let session = Session::new(std::sync::Arc::new(store), counting_ids());
    session.append_message(text("hi"), NOW).unwrap();
    session.append_label("00000000", Some("L1"), NOW).unwrap();
    session.append_label("00000000", Some(""), NOW).unwrap();
    session.append_session_info("  My\nName ", NOW).unwrap();
    let want = concat!(
        r#"{"type":"session","version":3,"id":"s","timestamp":"2026-12-01T08:37:28.123Z","cwd":"/w"}"#,
        "\n",
        r#"{"type":"message","id":"00000000","parentId":null,"timestamp":"2026-09-21T14:13:20.000Z","message":{"role":"user","content":[{"type":"text","text":"hi"}],"timestamp":1790000000000}}"#,
        "\n",
        r#"{"type":"label","id":"00000001","parentId":"00000000","timestamp":"2026-09-21T14:13:20.000Z","targetId":"00000000","label":"L1"}"#,
        "\n",
        r#"{"type":"label","id":"00000002","parentId":"00000001","timestamp":"2026-09-21T14:13:20.000Z","targetId":"00000000"}"#,
        "\n",
        r#"{"type":"session_info","id":"00000003","parentId":"00000002","timestamp":"2026-09-21T14:13:20.000Z","name":"My Name"}"#,
        "\n",
    );
    assert_eq!(fs::read_to_string(session.path().unwrap()).unwrap(), want);
    assert_eq!(
        (session.label("00000000"), session.name()),
        (None, Some("My Name".to_owned()))
    );
}

#[test]
fn a_session_is_never_rewritten() {
    let folder = TempDir::new().unwrap();
    // Key order, spaces and fields as no version of ours would write them.
    let odd = r#"{ "message":{"timestamp":1,"role":"user","content":"x","z":1e3}, "id":"a","type":"message","n":18446744073709551616 }"#;
    let path = file(
        &folder,
        &[
            odd,
            r#"{"id":"b","type":"usage","parentId":"a","usage":{}}"#,
        ],
    );
    let before = fs::read_to_string(&path).unwrap();
    let session = session(&path);
    assert_eq!(session.leaf_id().as_deref(), Some("b"));
    session.append_message(text("hi"), NOW).unwrap();
    session.append_label("a", Some("L"), NOW).unwrap();
    assert!(fs::read_to_string(&path).unwrap().starts_with(&before));
}

#[test]
fn the_leaf_of_an_opened_session_is_its_last_entry() {
    let folder = TempDir::new().unwrap();
    let session = new_session(folder.path());
    let first = session.append_message(text("one"), NOW).unwrap();
    session.append_message(assistant("two"), NOW).unwrap();
    let label = session.append_label(&first.id, Some("L"), NOW).unwrap();
    let path = session.path().unwrap();
    drop(session);
    let session = crate::support::session(&path);
    assert_eq!(session.leaf_id(), Some(label.id.clone()));
}

#[test]
fn a_line_of_twelve_megabytes_is_opened_and_read() {
    let folder = TempDir::new().unwrap();
    let session = new_session(folder.path());
    let long = "long text ".repeat(1_200_000);
    session.append_message(text(&long), NOW).unwrap();
    session.append_message(assistant("short"), NOW).unwrap();
    let path = session.path().unwrap();
    drop(session);
    let session = crate::support::session(&path);
    assert_eq!(crate::support::texts(&session), [long]);
}

#[test]
fn a_refused_append_leaves_everything_as_it_was() {
    let folder = TempDir::new().unwrap();
    let inner = folder.path().join("inner");
    let session = new_session(&inner);
    session.append_message(text("one"), NOW).unwrap();
    let before = ids(&**session.store());
    let leaf = session.leaf_id();
    // Neither the file nor a new one beside it can be written.
    let away = folder.path().join("away");
    fs::rename(&inner, &away).unwrap();
    fs::write(&inner, "in the way").unwrap();
    for _ in 0..2 {
        let error = session.append_message(text("two"), NOW).unwrap_err();
        assert!(matches!(error, StoreError::Io { .. }), "{error}");
        assert_eq!(
            (ids(&**session.store()), session.leaf_id()),
            (before.clone(), leaf.clone())
        );
    }
    fs::remove_file(&inner).unwrap();
    fs::rename(&away, &inner).unwrap();
    session.append_message(text("three"), NOW).unwrap();
    assert_eq!(crate::support::texts(&session), ["one", "three"]);
    assert_eq!(ids(&open(&session.path().unwrap()).unwrap()).len(), 2);
}

#[test]
fn a_first_message_that_cannot_be_saved_is_refused_and_can_be_tried_again() {
    let folder = TempDir::new().unwrap();
    let inner = folder.path().join("inner");
    let session = new_session(&inner);
    session.append_model_change("p", "m", NOW).unwrap();
    fs::remove_dir(&inner).unwrap();
    fs::write(&inner, "in the way").unwrap();
    assert!(session.append_message(text("one"), NOW).is_err());
    assert_eq!(ids(&**session.store()).len(), 1);
    assert!(!session.store().saved());
    fs::remove_file(&inner).unwrap();
    session.append_message(text("one"), NOW).unwrap();
    assert_eq!(ids(&open(&session.path().unwrap()).unwrap()).len(), 2);
}

#[test]
fn durability_does_not_change_what_is_written() {
    let folder = TempDir::new().unwrap();
    let store = JsonlStore::create_in(folder.path(), header(), Vec::new(), random_ids()).unwrap();
    for entry in one_of_each() {
        store.append(entry, Durability::Synced).unwrap();
    }
    let path = store.path().unwrap();
    let mut want = header().to_line().unwrap() + "\n";
    for entry in one_of_each() {
        want += &(entry.to_line().unwrap() + "\n");
    }
    assert_eq!(fs::read_to_string(path).unwrap(), want);
}

#[test]
fn unknown_kinds_keep_their_fields() {
    let folder = TempDir::new().unwrap();
    let line = r#"{"type":"context_edit","id":"a","parentId":null,"timestamp":"t","targetId":"x","replacement":[1]}"#;
    let store = open(&file(&folder, &[line])).unwrap();
    let entry = store.payload("a").unwrap();
    assert!(matches!(&entry.kind, EntryKind::Unknown { type_name } if type_name == "context_edit"));
    assert_eq!(entry.to_line().unwrap(), line);
}
