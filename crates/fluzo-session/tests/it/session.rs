//! The handle: leaf, branches, navigation, crash repair, threads.

use std::sync::Arc;

use fluzo_session::tree::{self, Forest, Target};
use fluzo_session::{Index, Session};

use crate::support::{
    NOW, assistant, calls, ids, memory_session, new_session, result, text, texts,
};

#[test]
fn a_branch_moves_the_leaf_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let session = new_session(folder.path());
    let one = session.append_message(text("one"), NOW).unwrap();
    let two = session.append_message(text("two"), NOW).unwrap();
    let path = session.path().unwrap();
    let before = std::fs::read(&path).unwrap();
    session.branch(&one.id).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let three = session.append_message(text("three"), NOW).unwrap();
    assert_eq!(
        (two.parent_id.as_ref(), three.parent_id.as_ref()),
        (Some(&one.id), Some(&one.id))
    );
    assert_eq!(texts(&session), ["one", "three"]);
    let children = |index: &Index| -> Vec<String> {
        Forest::of(index)
            .children(&one.id)
            .iter()
            .map(|node| node.id.to_string())
            .collect()
    };
    assert_eq!(
        session.store().look(children).unwrap(),
        [two.id.clone(), three.id.clone()]
    );
    let error = session.branch("nobody").unwrap_err().to_string();
    assert_eq!(error, "Entry nobody not found");
    assert_eq!(session.leaf_id(), Some(three.id.clone()));
}

#[test]
fn after_a_reset_the_next_entry_is_another_root() {
    let session = memory_session();
    session.append_message(text("one"), NOW).unwrap();
    session.reset_leaf();
    assert_eq!(session.leaf_id(), None);
    let root = session.append_message(text("two"), NOW).unwrap();
    assert_eq!(root.parent_id, None);
    assert_eq!(texts(&session), ["two"]);
    let roots = |index: &Index| Forest::of(index).roots.len();
    assert_eq!(session.store().look(roots), Some(2));
}

#[test]
fn a_summary_is_written_at_the_branch_point() {
    let session = memory_session();
    let one = session.append_message(text("one"), NOW).unwrap();
    session.append_message(text("two"), NOW).unwrap();
    let details = serde_json::json!({"readFiles": [], "modifiedFiles": []});
    let entry = session
        .branch_with_summary(Some(&one.id), "left", Some(details), Some(true), NOW)
        .unwrap();
    let want = format!(
        r#"{{"type":"branch_summary","id":"{}","parentId":"{}","timestamp":"2026-09-21T14:13:20.000Z","fromId":"{}","summary":"left","details":{{"readFiles":[],"modifiedFiles":[]}},"fromHook":true}}"#,
        entry.id, one.id, one.id
    );
    assert_eq!(entry.to_line().unwrap(), want);
    let root = session
        .branch_with_summary(None, "all left", None, None, NOW)
        .unwrap();
    assert_eq!(root.parent_id, None);
    assert!(root.to_line().unwrap().contains(r#""fromId":"root""#));
    let error = session
        .branch_with_summary(Some("nobody"), "", None, None, NOW)
        .unwrap_err();
    assert_eq!(error.to_string(), "Entry nobody not found");
    assert_eq!(session.leaf_id(), Some(root.id.clone()));
}

#[test]
fn navigation_goes_before_what_a_person_wrote_and_onto_anything_else() {
    let session = memory_session();
    let one = session.append_message(text("one"), NOW).unwrap();
    let answer = session.append_message(assistant("two"), NOW).unwrap();
    let three = session.append_message(text("three"), NOW).unwrap();
    let content = fluzo_llm::UserContent::Text("hint".to_owned());
    let custom = session
        .append_custom_message("x", content, true, None, NOW)
        .unwrap();
    let rows = [
        (&one, None, true),
        (&answer, Some(&answer), false),
        (&three, Some(&answer), true),
        (&custom, Some(&three), true),
    ];
    for (chosen, leaf, edit) in rows {
        let leaf = leaf.map(|entry| Arc::from(entry.id.as_str()));
        assert_eq!(
            session.navigation_target(&chosen.id).unwrap(),
            Target { leaf, edit }
        );
    }
    assert!(session.navigation_target("nobody").is_err());
}

#[test]
fn what_is_abandoned_lies_after_the_common_ancestor() {
    let session = memory_session();
    let one = session.append_message(text("one"), NOW).unwrap();
    let two = session.append_message(text("two"), NOW).unwrap();
    let three = session.append_message(text("three"), NOW).unwrap();
    session.branch(&one.id).unwrap();
    let side = session.append_message(text("side"), NOW).unwrap();
    let check = |from: &str, to: Option<&str>, want: &[&String]| {
        let left = |index: &Index| -> Vec<String> {
            tree::abandoned(index, from, to)
                .iter()
                .map(|node| node.id.to_string())
                .collect()
        };
        assert_eq!(
            session
                .store()
                .look(left)
                .unwrap()
                .iter()
                .collect::<Vec<_>>(),
            want
        );
    };
    check(&three.id, Some(&side.id), &[&two.id, &three.id]);
    check(&three.id, Some(&two.id), &[&three.id]);
    check(&three.id, None, &[&one.id, &two.id, &three.id]);
    check(&one.id, Some(&three.id), &[]);
}

#[test]
fn calls_without_a_result_are_found_after_a_crash() {
    let open = |session: &Session| -> Vec<String> {
        session
            .unanswered_calls()
            .unwrap()
            .into_iter()
            .map(|open| open.call.id)
            .collect()
    };
    let session = memory_session();
    assert!(open(&session).is_empty());
    session.append_message(text("go"), NOW).unwrap();
    assert!(open(&session).is_empty());
    let asked = session
        .append_message(calls(&["a", "b", "c"], "toolUse"), NOW)
        .unwrap();
    assert_eq!(open(&session), ["a", "b", "c"]);
    assert_eq!(session.unanswered_calls().unwrap()[0].entry_id, asked.id);
    session.append_message(result("b"), NOW).unwrap();
    session.append_session_info("name", NOW).unwrap();
    assert_eq!(open(&session), ["a", "c"]);
    session.append_message(result("a"), NOW).unwrap();
    session.append_message(result("c"), NOW).unwrap();
    assert!(open(&session).is_empty());
    session
        .append_message(calls(&["d"], "aborted"), NOW)
        .unwrap();
    assert!(
        open(&session).is_empty(),
        "calls of a failed response are never executed"
    );
    session
        .append_message(calls(&["e"], "toolUse"), NOW)
        .unwrap();
    session.append_message(text("something else"), NOW).unwrap();
    assert!(open(&session).is_empty());
}

#[test]
fn a_label_needs_its_target() {
    let session = memory_session();
    let error = session
        .append_label("nobody", Some("L"), NOW)
        .unwrap_err()
        .to_string();
    assert_eq!(error, "Entry nobody not found");
    let one = session.append_message(text("one"), NOW).unwrap();
    let label = session.append_label(&one.id, Some("L"), NOW).unwrap();
    assert_eq!(label.parent_id, Some(one.id.clone()));
    assert_eq!(session.leaf_id(), Some(label.id.clone()));
    assert_eq!(session.label(&one.id).as_deref(), Some("L"));
}

#[test]
fn threads_append_one_chain() {
    let folder = tempfile::tempdir().unwrap();
    let session = new_session(folder.path());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    session.append_message(text("x"), NOW).unwrap();
                    session.context().unwrap();
                }
            });
        }
    });
    assert_eq!(texts(&session).len(), 100);
    let path = session.path().unwrap();
    drop(session);
    assert_eq!(ids(&crate::support::open(&path).unwrap()).len(), 100);
}
