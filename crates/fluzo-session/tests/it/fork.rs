//! Forks, clones and exports.

use std::fs;
use std::sync::Arc;

use fluzo_session::fork::{branch_entries, export_linear};
use fluzo_session::{
    Compaction, EntryKind, Header, JsonlStore, MemoryStore, Session, SessionStore,
};
use fluzo_stdx::ids::IdSource;
use tempfile::TempDir;

use crate::support::{
    HEADER, NOW, assistant, chain, counting_ids, file, header, ids, line, memory_session,
    new_session, open, random_ids, roles, text, texts,
};

fn reopened(entries: Vec<fluzo_session::Entry>) -> Session {
    let store = MemoryStore::with_entries(Header::new("f", "t", "/w"), entries);
    Session::new(Arc::new(store), random_ids())
}

#[test]
fn a_label_in_the_middle_costs_no_context() {
    let session = memory_session();
    session.append_message(text("one"), NOW).unwrap();
    let labelled = session.append_message(assistant("two"), NOW).unwrap();
    session
        .append_label(&labelled.id, Some("L"), NOW + 1)
        .unwrap();
    session.append_message(text("three"), NOW).unwrap();
    session.append_message(assistant("four"), NOW).unwrap();
    let before = session.context().unwrap();
    let fork = session.fork(None).unwrap();
    let want = [
        ("message", None),
        ("message", Some(0)),
        ("message", Some(1)),
        ("message", Some(2)),
        ("label", Some(3)),
    ];
    let want: Vec<_> = want
        .iter()
        .map(|(kind, at)| ((*kind).to_owned(), *at))
        .collect();
    assert_eq!(chain(&fork.entries), want);
    assert_eq!(fork.entries[4].timestamp, "2026-09-21T14:13:20.001Z");
    let forked = reopened(fork.entries);
    assert_eq!(forked.context().unwrap(), before);
    assert_eq!(before.messages.len(), 4);
    assert_eq!(forked.label(&labelled.id).as_deref(), Some("L"));
}

#[test]
fn labels_of_other_branches_on_kept_entries_are_kept() {
    let session = memory_session();
    let one = session.append_message(text("one"), NOW).unwrap();
    session.append_message(text("side"), NOW).unwrap();
    session
        .append_label(&one.id, Some("from the side"), NOW)
        .unwrap();
    session.branch(&one.id).unwrap();
    let two = session.append_message(text("two"), NOW).unwrap();
    let entries = branch_entries(&**session.store(), &two.id, &*random_ids()).unwrap();
    let forked = reopened(entries);
    assert_eq!(texts(&forked), ["one", "two"]);
    assert_eq!(forked.label(&one.id).as_deref(), Some("from the side"));
}

#[test]
fn a_compaction_that_keeps_from_a_label_on_keeps_the_same() {
    let session = memory_session();
    let one = session.append_message(text("one"), NOW).unwrap();
    let label = session.append_label(&one.id, Some("L"), NOW).unwrap();
    session.append_message(text("two"), NOW).unwrap();
    let compaction = Compaction {
        summary: "S".into(),
        first_kept_entry_id: label.id.clone(),
        ..Compaction::default()
    };
    session.append_compaction(compaction, NOW).unwrap();
    let before = session.context().unwrap();
    assert_eq!(before.messages.len(), 2);
    assert_eq!(
        reopened(session.fork(None).unwrap().entries)
            .context()
            .unwrap(),
        before
    );
}

#[test]
fn a_fork_before_a_user_message_gives_its_text_back() {
    let folder = TempDir::new().unwrap();
    let session = new_session(folder.path());
    let first = session.append_message(text("one"), NOW).unwrap();
    let answer = session.append_message(assistant("two"), NOW).unwrap();
    let second = session.append_message(text("three"), NOW).unwrap();
    let fork = session.fork(Some(&second.id)).unwrap();
    assert_eq!(fork.content.unwrap().text(), "three");
    let kept: Vec<&str> = fork.entries.iter().map(|entry| &*entry.id).collect();
    assert_eq!(kept, [&first.id, &answer.id]);
    let empty = session.fork(Some(&first.id)).unwrap();
    assert!(empty.entries.is_empty());
    for id in [&*answer.id, "nobody"] {
        let error = session.fork(Some(id)).unwrap_err().to_string();
        assert_eq!(error, "Invalid entry ID for forking");
    }
    // A fork that has a message of the user is written at once, one that has none is not.
    let mut header = Header::new("forked", "2026-12-02T00:00:00.000Z", "/w");
    header.parent_session = session.path().map(|path| path.display().to_string());
    let store =
        JsonlStore::create_in(folder.path(), header.clone(), fork.entries, random_ids()).unwrap();
    let written = fs::read_to_string(store.path().unwrap()).unwrap();
    assert_eq!(written.lines().count(), 3);
    assert!(
        written
            .lines()
            .next()
            .unwrap()
            .contains(r#""cwd":"/w","parentSession":""#)
    );
    header.id = "empty".to_owned();
    let store = JsonlStore::create_in(folder.path(), header, empty.entries, random_ids()).unwrap();
    assert!(!store.path().unwrap().exists());
}

#[test]
fn a_clone_needs_a_leaf_and_a_file() {
    let folder = TempDir::new().unwrap();
    let session = new_session(folder.path());
    let error = session.fork(None).unwrap_err().to_string();
    assert_eq!(error, "Cannot clone session: no current entry selected");
    session.append_model_change("p", "m", NOW).unwrap();
    let error = session.fork(None).unwrap_err().to_string();
    assert_eq!(
        error,
        "This session has not been saved yet. Send a message before cloning or forking it."
    );
    session.append_message(text("one"), NOW).unwrap();
    let fork = session.fork(None).unwrap();
    assert_eq!(fork.entries.len(), 2);
    assert_eq!(fork.content, None);
}

#[test]
fn fork_from_copies_every_entry_as_it_is() {
    let folder = TempDir::new().unwrap();
    let odd = r#"{"z":1, "type":"usage","id":"c","parentId":"nobody"}"#;
    let source = file(
        &folder,
        &[&line("a", None), "{bad", &line("b", Some("a")), odd],
    );
    let target = folder.path().join("sub/dir");
    let header = Header::new("new", "2026-12-02T00:00:00.000Z", "/elsewhere");
    let store = JsonlStore::fork_from(&source, &target, header, random_ids()).unwrap();
    let written = fs::read_to_string(store.path().unwrap()).unwrap();
    let source_name = source.display();
    let want = format!(
        "{{\"type\":\"session\",\"version\":3,\"id\":\"new\",\"timestamp\":\"2026-12-02T00:00:00.000Z\",\"cwd\":\"/elsewhere\",\"parentSession\":\"{source_name}\"}}\n{}\n{}\n{odd}\n",
        line("a", None),
        line("b", Some("a"))
    );
    assert_eq!(written, want);
    let session = Session::new(Arc::new(store), random_ids());
    session.append_message(text("more"), NOW).unwrap();
    assert!(fs::read_to_string(&source).unwrap().starts_with(HEADER));
}

#[test]
fn fork_from_needs_a_session() {
    let folder = TempDir::new().unwrap();
    let empty = folder.path().join("empty.jsonl");
    fs::write(&empty, "").unwrap();
    for source in [empty, folder.path().join("missing.jsonl")] {
        let header = Header::new("new", "t", "/w");
        let forked = JsonlStore::fork_from(&source, folder.path(), header, random_ids());
        let want = format!(
            "Cannot fork: source session file is empty or invalid: {}",
            source.display()
        );
        assert_eq!(forked.map(|_| ()).unwrap_err().to_string(), want);
    }
}

#[test]
fn an_export_is_the_path_in_one_line() {
    let session = memory_session();
    let one = session.append_message(text("one"), NOW).unwrap();
    session.append_message(text("side"), NOW).unwrap();
    session.branch(&one.id).unwrap();
    session.append_label(&one.id, Some("L"), NOW).unwrap();
    session.append_message(assistant("two"), NOW).unwrap();
    let mut out = Vec::new();
    let count = export_linear(&**session.store(), session.leaf_id().as_deref(), &mut out).unwrap();
    assert_eq!(count, 3);
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("out.jsonl");
    fs::write(&path, &out).unwrap();
    let exported = crate::support::session(&path);
    assert_eq!(exported.header(), header());
    assert_eq!(roles(&exported), ["user", "assistant"]);
    let store = open(&path).unwrap();
    let entries: Vec<_> = ids(&store)
        .iter()
        .map(|id| (*store.payload(id).unwrap()).clone())
        .collect();
    let parents: Vec<_> = chain(&entries)
        .into_iter()
        .map(|(_, parent)| parent)
        .collect();
    assert_eq!(parents, [None, Some(0), Some(1)]);
}

/// Always offers the same short id.
struct Stuck;

impl IdSource for Stuck {
    fn session_id(&self, _: i64) -> String {
        "s".to_owned()
    }
    fn entry_id(&self) -> String {
        "00000000".to_owned()
    }
    fn long_id(&self) -> String {
        "a-long-id".to_owned()
    }
}

#[test]
fn a_taken_id_is_asked_for_again_and_then_made_long() {
    let session = Session::new(Arc::new(MemoryStore::new(header())), Arc::new(Stuck));
    assert_eq!(
        session.append_message(text("one"), NOW).unwrap().id,
        "00000000"
    );
    assert_eq!(
        session.append_message(text("two"), NOW).unwrap().id,
        "a-long-id"
    );
    // A counting source comes back to ids that are there.
    let store = Arc::new(MemoryStore::new(header()));
    let first = Session::new(store.clone(), counting_ids());
    first.append_message(text("one"), NOW).unwrap();
    let second = Session::new(store, counting_ids());
    assert_eq!(
        second.append_message(text("two"), NOW).unwrap().id,
        "00000001"
    );
}

#[test]
fn unknown_kinds_are_forked_whole() {
    let folder = TempDir::new().unwrap();
    let odd = r#"{"type":"usage","id":"b","parentId":"a","timestamp":"t","usage":{"z":1}}"#;
    let session = crate::support::session(&file(&folder, &[&line("a", None), odd]));
    let fork = session.fork(None).unwrap();
    assert!(matches!(fork.entries[1].kind, EntryKind::Unknown { .. }));
    assert_eq!(fork.entries[1].to_line().unwrap(), odd);
}
