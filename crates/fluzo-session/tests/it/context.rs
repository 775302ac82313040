//! What a model gets to see.

use std::sync::Arc;

use fluzo_llm::Message;
use fluzo_llm::convert::to_model_messages;
use fluzo_llm::message::UserContent;
use fluzo_session::conformance::Factory;
use fluzo_session::{
    Compaction, Durability, EntryKind, Session, SessionContext, SessionStore, StoreError, context,
};

use crate::support::{
    Files, Memory, NOW, assistant, entry, header, memory_session, message, random_ids, roles, text,
    texts, user,
};

fn over_both(check: impl Fn(Session)) {
    let files = Files::new();
    for factory in [&files as &dyn Factory, &Memory] {
        check(Session::new(
            factory.create(header(), Vec::new()),
            random_ids(),
        ));
    }
}

fn compaction(first: &str, summary: &str) -> Compaction {
    Compaction {
        summary: summary.to_owned(),
        first_kept_entry_id: first.to_owned(),
        tokens_before: 9,
        ..Compaction::default()
    }
}

#[test]
fn checklist_07_branch_context_has_only_its_path() {
    over_both(|session| {
        let first = session.append_message(text("start"), NOW).unwrap();
        session.append_message(assistant("ok"), NOW).unwrap();
        session.append_message(text("bad idea"), NOW).unwrap();
        session
            .append_message(assistant("bad answer"), NOW)
            .unwrap();
        session
            .branch_with_summary(Some(&first.id), "tried a bad idea", None, None, NOW)
            .unwrap();
        session.append_message(text("better"), NOW).unwrap();
        assert_eq!(roles(&session), ["user", "branchSummary", "user"]);
        assert_eq!(texts(&session), ["start", "better"]);
        let sent = to_model_messages(&session.context().unwrap().messages);
        let Message::User(summary) = &*sent[1] else {
            panic!("user")
        };
        assert!(
            summary
                .content
                .text()
                .ends_with("<summary>\ntried a bad idea</summary>")
        );
    });
}

#[test]
fn checklist_08_context_after_compaction() {
    over_both(|session| {
        session.append_message(text("one"), NOW).unwrap();
        session.append_message(assistant("two"), NOW).unwrap();
        let kept = session.append_message(text("three"), NOW).unwrap();
        session.append_message(assistant("four"), NOW).unwrap();
        let entry = session
            .append_compaction(compaction(&kept.id, "SUM"), NOW + 5)
            .unwrap();
        session.append_message(text("five"), NOW).unwrap();
        assert_eq!(
            roles(&session),
            ["compactionSummary", "user", "assistant", "user"]
        );
        assert_eq!(texts(&session), ["three", "five"]);
        let context = session.context().unwrap();
        let Message::CompactionSummary(summary) = &*context.messages[0] else {
            panic!("summary")
        };
        assert_eq!((summary.tokens_before, summary.timestamp), (9, NOW + 5));
        assert_eq!(entry.timestamp, "2026-09-21T14:13:20.005Z");
        assert_eq!(context.thinking_level, "off");
        assert_eq!(context.model, Some(("p".to_owned(), "m".to_owned())));
    });
}

#[test]
fn only_the_latest_compaction_counts() {
    let session = memory_session();
    let one = session.append_message(text("one"), NOW).unwrap();
    session
        .append_compaction(compaction(&one.id, "first"), NOW)
        .unwrap();
    let two = session.append_message(text("two"), NOW).unwrap();
    session.append_message(text("three"), NOW).unwrap();
    session
        .append_compaction(compaction(&two.id, "second"), NOW)
        .unwrap();
    assert_eq!(roles(&session), ["compactionSummary", "user", "user"]);
    assert_eq!(texts(&session), ["two", "three"]);
    let context = serde_json::to_string(&session.context().unwrap().messages).unwrap();
    assert!(
        context.contains("second") && !context.contains("first"),
        "{context}"
    );
    // One that keeps an entry before an earlier compaction keeps what lies between, but not that.
    session
        .append_compaction(compaction(&one.id, "third"), NOW)
        .unwrap();
    assert_eq!(
        roles(&session),
        ["compactionSummary", "user", "user", "user"]
    );
}

#[test]
fn a_kept_entry_off_the_path_keeps_nothing_before() {
    let session = memory_session();
    session.append_message(text("one"), NOW).unwrap();
    session
        .append_compaction(compaction("elsewhere", "SUM"), NOW)
        .unwrap();
    session.append_message(text("two"), NOW).unwrap();
    assert_eq!(roles(&session), ["compactionSummary", "user"]);
    assert_eq!(texts(&session), ["two"]);
}

#[test]
fn without_a_leaf_the_context_is_empty() {
    let session = memory_session();
    session.append_model_change("p", "m", NOW).unwrap();
    session.append_thinking_level_change("high", NOW).unwrap();
    session.append_message(text("one"), NOW).unwrap();
    session.reset_leaf();
    let context = session.context().unwrap();
    assert_eq!(context, SessionContext::default());
    assert_eq!((&*context.thinking_level, context.model), ("off", None));
}

#[test]
fn the_latest_level_and_model_on_the_path_count() {
    let session = memory_session();
    let state = |session: &Session| {
        let context = session.context().unwrap();
        (
            context.thinking_level,
            context
                .model
                .map(|(provider, model)| provider + "/" + &model),
        )
    };
    session.append_thinking_level_change("low", NOW).unwrap();
    let fork = session.append_model_change("x", "y", NOW).unwrap();
    session.append_thinking_level_change("high", NOW).unwrap();
    assert_eq!(state(&session), ("high".to_owned(), Some("x/y".to_owned())));
    session.append_message(assistant("answer"), NOW).unwrap();
    assert_eq!(state(&session).1.as_deref(), Some("p/m"));
    session.append_model_change("x", "z", NOW).unwrap();
    assert_eq!(state(&session).1.as_deref(), Some("x/z"));
    session.branch(&fork.id).unwrap();
    assert_eq!(state(&session), ("low".to_owned(), Some("x/y".to_owned())));
}

#[test]
fn only_messages_and_summaries_enter_the_context() {
    let session = memory_session();
    let first = session.append_message(text("one"), NOW).unwrap();
    session.append_custom("state", Some(1.into()), NOW).unwrap();
    session.append_label(&first.id, Some("L"), NOW).unwrap();
    session.append_session_info("name", NOW).unwrap();
    session.append_model_change("p", "m", NOW).unwrap();
    session.append_thinking_level_change("low", NOW).unwrap();
    let unknown = EntryKind::Unknown {
        type_name: "context_edit".to_owned(),
    };
    session.append(unknown, Durability::Buffered, NOW).unwrap();
    session
        .append_message(message(r#"{"role":"system","sections":[]}"#), NOW)
        .unwrap();
    session
        .branch_with_summary(session.leaf_id().as_deref(), "", None, None, NOW)
        .unwrap();
    let content = UserContent::Text("hint".to_owned());
    session
        .append_custom_message("x", content, true, Some(2.into()), NOW)
        .unwrap();
    assert_eq!(roles(&session), ["user", "custom"]);
    let context = session.context().unwrap();
    let Message::Custom(custom) = &*context.messages[1] else {
        panic!("custom")
    };
    assert_eq!(
        (&*custom.custom_type, custom.display, custom.timestamp),
        ("x", true, NOW)
    );
    assert_eq!(custom.details, Some(2.into()));
}

/// Knows all entries, but lends the payloads of some only.
struct Partial(Arc<dyn SessionStore>, Vec<&'static str>);

impl SessionStore for Partial {
    fn header(&self) -> fluzo_session::Header {
        self.0.header()
    }
    fn append(
        &self,
        entry: fluzo_session::Entry,
        durability: Durability,
    ) -> Result<Arc<fluzo_session::Entry>, StoreError> {
        self.0.append(entry, durability)
    }
    fn read_index(&self, look: &mut dyn FnMut(&fluzo_session::Index)) {
        self.0.read_index(look);
    }
    fn payload(&self, id: &str) -> Result<Arc<fluzo_session::Entry>, StoreError> {
        if self.1.contains(&id) {
            return self.0.payload(id);
        }
        Err(StoreError::Unreadable { id: id.to_owned() })
    }
    fn damage(&self) -> fluzo_session::DamageReport {
        self.0.damage()
    }
    fn notices(&self) -> Vec<fluzo_session::Notice> {
        self.0.notices()
    }
    fn path(&self) -> Option<std::path::PathBuf> {
        None
    }
    fn saved(&self) -> bool {
        true
    }
}

fn compacted() -> Arc<dyn SessionStore> {
    let entries = vec![
        entry(
            "m",
            None,
            EntryKind::ModelChange {
                provider: "x".into(),
                model_id: "y".into(),
            },
        ),
        user("a", Some("m"), "before"),
        user("b", Some("a"), "kept"),
        entry(
            "c",
            Some("b"),
            EntryKind::Compaction(compaction("b", "SUM")),
        ),
        user("d", Some("c"), "after"),
    ];
    Memory.create(header(), entries)
}

#[test]
fn nothing_before_the_kept_entries_is_read() {
    let context = context::build(&Partial(compacted(), vec!["b", "c", "d"]), Some("d")).unwrap();
    assert!(context.unreadable.is_empty());
    assert_eq!(context.messages.len(), 3);
    assert_eq!(context.model, Some(("x".to_owned(), "y".to_owned())));
}

#[test]
fn an_entry_that_cannot_be_read_is_named() {
    let context = context::build(&Partial(compacted(), vec!["c", "d"]), Some("d")).unwrap();
    assert_eq!(context.unreadable, ["b"]);
    assert_eq!(context.messages.len(), 2);
}

#[test]
fn what_only_looks_like_a_compaction_or_an_answer_is_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let lines = [
        crate::support::line("a", None),
        r#"{"type":"message","id":"b","parentId":"a","message":{"role":"assistant","provider":7}}"#
            .to_owned(),
        r#"{"type":"compaction","id":"c","parentId":"b","summary":7,"firstKeptEntryId":"b"}"#
            .to_owned(),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let session = crate::support::session(&crate::support::file(&folder, &lines));
    assert_eq!(roles(&session), ["user"]);
    assert_eq!(session.context().unwrap().model, None);
}
