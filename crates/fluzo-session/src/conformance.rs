//! What every store must do, as one suite of checks. For tests only: a check panics where
//! a store does not do it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "checks of tests"
)]

use std::sync::Arc;

use fluzo_llm::Message;
use fluzo_llm::message::UserContent;
use serde_json::json;

use crate::store::{Durability, SessionStore, StoreError};
use crate::{Compaction, Entry, EntryKind, Header, Index, context, tree};

/// Makes stores of one kind.
pub trait Factory {
    /// A session that begins with `entries`.
    fn create(&self, header: Header, entries: Vec<Entry>) -> Arc<dyn SessionStore>;

    /// The same session after a new start of the program. Nothing else holds `store`.
    fn reopen(&self, store: Arc<dyn SessionStore>) -> Arc<dyn SessionStore>;
}

/// One check of a store.
pub type Check = fn(&dyn Factory);

/// All checks by name.
pub const CHECKS: &[(&str, Check)] = &[
    ("every kind comes back", every_kind_comes_back),
    ("unknown fields come back", unknown_fields_come_back),
    ("a taken id is refused", a_taken_id_is_refused),
    ("an unknown parent is refused", an_unknown_parent_is_refused),
    ("an unknown id is not found", an_unknown_id_is_not_found),
    (
        "the last label and name count",
        the_last_label_and_name_count,
    ),
    ("of equal ids the last counts", of_equal_ids_the_last_counts),
    ("orphans and cycles are kept", orphans_and_cycles_are_kept),
    ("durable entries come back", durable_entries_come_back),
    (
        "a sound session has no damage",
        a_sound_session_has_no_damage,
    ),
];

/// Runs all checks and prints the name of each, so that a failed one is known by it.
pub fn run(factory: &dyn Factory, print: &dyn Fn(&str)) {
    for (name, check) in CHECKS {
        print(name);
        check(factory);
    }
}

/// The header of the sessions that are checked.
pub fn header() -> Header {
    Header::new(
        "01a230c2-0000-7000-8000-000000000001",
        "2026-12-01T08:37:28.123Z",
        "/w",
    )
}

/// An entry with the id `id` behind `parent`.
pub fn entry(id: &str, parent: Option<&str>, kind: EntryKind) -> Entry {
    Entry::new(
        id,
        parent.map(str::to_owned),
        "2026-12-01T08:37:29.000Z",
        kind,
    )
}

/// A user message as an entry.
pub fn user(id: &str, parent: Option<&str>, text: &str) -> Entry {
    entry(
        id,
        parent,
        EntryKind::Message(Arc::new(Message::user(text, 1))),
    )
}

/// One entry of every kind, each behind the one before.
pub fn one_of_each() -> Vec<Entry> {
    let text = |text: &str| text.to_owned();
    let kinds = vec![
        EntryKind::ModelChange {
            provider: text("p"),
            model_id: text("m"),
        },
        EntryKind::ThinkingLevelChange {
            level: text("high"),
        },
        EntryKind::Message(Arc::new(Message::user("first", 1))),
        EntryKind::Custom {
            custom_type: text("c"),
            data: Some(json!({"a": [1, 2.5]})),
        },
        EntryKind::CustomMessage {
            custom_type: text("c"),
            content: UserContent::Text(text("from an extension")),
            display: true,
            details: None,
        },
        EntryKind::BranchSummary {
            from_id: text("root"),
            summary: text("left"),
            details: None,
            from_hook: Some(true),
        },
        EntryKind::Label {
            target_id: text("e2"),
            label: Some(text("here")),
        },
        EntryKind::SessionInfo {
            name: text("named"),
        },
        EntryKind::Compaction(Compaction {
            summary: text("so far"),
            first_kept_entry_id: text("e2"),
            tokens_before: 7,
            details: Some(json!({"readFiles": []})),
            from_hook: None,
        }),
        EntryKind::Unknown {
            type_name: text("usage"),
        },
    ];
    let mut entries: Vec<Entry> = Vec::new();
    for (at, kind) in kinds.into_iter().enumerate() {
        let parent = entries.last().map(|last| last.id.clone());
        entries.push(entry(&format!("e{at}"), parent.as_deref(), kind));
    }
    entries
}

/// All ids in the order they were written.
pub fn ids(store: &dyn SessionStore) -> Vec<String> {
    let of = |index: &Index| index.iter().map(|node| node.id.to_string()).collect();
    store.look(of).unwrap_or_default()
}

fn append_all(store: &dyn SessionStore, entries: &[Entry]) {
    for entry in entries {
        let kept = store
            .append(entry.clone(), Durability::Buffered)
            .expect("appended");
        assert_eq!(*kept, *entry);
    }
}

fn same(store: &dyn SessionStore, entries: &[Entry]) {
    let wanted: Vec<&str> = entries.iter().map(|entry| &*entry.id).collect();
    assert_eq!(ids(store), wanted);
    for entry in entries {
        assert_eq!(*store.payload(&entry.id).expect("payload"), *entry);
    }
}

fn every_kind_comes_back(factory: &dyn Factory) {
    let entries = one_of_each();
    let store = factory.create(header(), Vec::new());
    append_all(&*store, &entries);
    same(&*store, &entries);
    let before = context::build(&*store, Some("e9")).expect("context");
    let store = factory.reopen(store);
    same(&*store, &entries);
    assert_eq!(store.header(), header());
    assert_eq!(
        context::build(&*store, Some("e9")).expect("context"),
        before
    );
    assert_eq!(before.model, Some(("p".to_owned(), "m".to_owned())));
    assert_eq!(before.thinking_level, "high");
}

fn unknown_fields_come_back(factory: &dyn Factory) {
    let mut entries = one_of_each();
    for entry in &mut entries {
        entry
            .extra
            .insert("later".to_owned(), json!({"b": 1, "a": [true, null]}));
    }
    let mut header = header();
    header.extra.insert("x".to_owned(), json!(1));
    let store = factory.reopen(factory.create(header.clone(), entries.clone()));
    same(&*store, &entries);
    assert_eq!(store.header(), header);
}

fn a_taken_id_is_refused(factory: &dyn Factory) {
    let store = factory.create(header(), vec![user("a", None, "one")]);
    let again = store.append(user("a", None, "two"), Durability::Buffered);
    assert!(matches!(again, Err(StoreError::DuplicateId { .. })));
    let store = factory.reopen(store);
    same(&*store, &[user("a", None, "one")]);
}

fn an_unknown_parent_is_refused(factory: &dyn Factory) {
    let store = factory.create(header(), vec![user("a", None, "one")]);
    let orphan = store.append(user("b", Some("nobody"), "two"), Durability::Buffered);
    assert_eq!(
        orphan.expect_err("refused").to_string(),
        "Entry nobody not found"
    );
    assert_eq!(ids(&*factory.reopen(store)), ["a"]);
}

fn an_unknown_id_is_not_found(factory: &dyn Factory) {
    let store = factory.create(header(), vec![user("a", None, "one")]);
    let missing = store.payload("b").expect_err("missing").to_string();
    assert_eq!(missing, "Entry b not found");
}

fn the_last_label_and_name_count(factory: &dyn Factory) {
    let label = |id: &str, target: &str, label: Option<&str>| {
        let label = label.map(str::to_owned);
        entry(
            id,
            Some("a"),
            EntryKind::Label {
                target_id: target.to_owned(),
                label,
            },
        )
    };
    let name =
        |id: &str, name: &str| entry(id, Some("a"), EntryKind::SessionInfo { name: name.into() });
    let state = |store: &dyn SessionStore| {
        let of = |index: &Index| {
            let owned = |text: Option<&str>| text.map(str::to_owned);
            [
                owned(index.label("a")),
                owned(index.label("b")),
                owned(index.name()),
            ]
        };
        store.look(of).expect("index")
    };
    let some = |text: &str| Some(text.to_owned());
    let store = factory.create(
        header(),
        vec![user("a", None, "one"), user("b", Some("a"), "two")],
    );
    append_all(
        &*store,
        &[
            label("l1", "a", Some("x")),
            label("l2", "b", Some("y")),
            label("l3", "a", Some("z")),
            name("n1", "first"),
            name("n2", "second"),
        ],
    );
    assert_eq!(state(&*store), [some("z"), some("y"), some("second")]);
    let store = factory.reopen(store);
    assert_eq!(state(&*store), [some("z"), some("y"), some("second")]);
    append_all(
        &*store,
        &[
            label("l4", "a", None),
            label("l5", "b", Some("")),
            name("n3", ""),
        ],
    );
    assert_eq!(state(&*store), [None, None, None]);
    assert_eq!(state(&*factory.reopen(store)), [None, None, None]);
}

fn of_equal_ids_the_last_counts(factory: &dyn Factory) {
    let entries = vec![
        user("a", None, "one"),
        user("b", Some("a"), "two"),
        user("a", None, "three"),
    ];
    let store = factory.reopen(factory.create(header(), entries));
    assert_eq!(ids(&*store), ["b", "a"]);
    assert_eq!(
        *store.payload("a").expect("payload"),
        user("a", None, "three")
    );
    let path = store.look(|index| tree::path(index, "b").len());
    assert_eq!(path, Some(2));
}

fn orphans_and_cycles_are_kept(factory: &dyn Factory) {
    let entries = vec![
        user("a", None, "one"),
        user("orphan", Some("gone"), "two"),
        user("c1", Some("c2"), "three"),
        user("c2", Some("c1"), "four"),
        user("self", Some("self"), "five"),
    ];
    let store = factory.reopen(factory.create(header(), entries.clone()));
    same(&*store, &entries);
    let roots = |index: &Index| -> Vec<String> {
        tree::Forest::of(index)
            .roots
            .iter()
            .map(|node| node.id.to_string())
            .collect()
    };
    assert_eq!(store.look(roots).expect("index"), ["a", "c1"]);
    assert_eq!(store.damage().joined, 2);
    for (leaf, messages) in [("a", 1), ("orphan", 2), ("c1", 2), ("c2", 2), ("self", 3)] {
        let context = context::build(&*store, Some(leaf)).expect("context");
        assert_eq!(context.messages.len(), messages, "{leaf}");
    }
}

fn durable_entries_come_back(factory: &dyn Factory) {
    let store = factory.create(header(), Vec::new());
    for (id, parent) in [("a", None), ("b", Some("a"))] {
        store
            .append(user(id, parent, id), Durability::Synced)
            .expect("appended");
    }
    assert!(store.saved());
    assert_eq!(ids(&*factory.reopen(store)), ["a", "b"]);
}

fn a_sound_session_has_no_damage(factory: &dyn Factory) {
    let store = factory.reopen(factory.create(header(), one_of_each()));
    append_all(&*store, &[user("more", Some("e9"), "more")]);
    assert!(store.damage().is_empty());
    assert!(store.notices().is_empty());
}
