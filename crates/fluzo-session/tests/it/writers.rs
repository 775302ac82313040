//! Two writers on one session, and changes from outside.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fluzo_llm::Message;
use fluzo_session::{Change, Header, JsonlStore, Notice, Session};
use tempfile::TempDir;

use crate::support::{
    NOW, assistant, calls, new_session, open, random_ids, result, roles, session, text, texts,
};

/// A session of one message, and its file.
fn started(folder: &TempDir) -> PathBuf {
    let session = new_session(folder.path());
    session.append_message(text("start"), NOW).unwrap();
    session.append_message(assistant("done"), NOW).unwrap();
    session.path().unwrap()
}

/// The session goes on in another file that holds all of it; `path` is as before.
fn check_forked(session: &Session, path: &Path, before: &[u8], want: &[&str]) -> PathBuf {
    let to = session.path().unwrap();
    assert_ne!(to, path);
    assert_eq!(fs::read(path).unwrap(), before);
    assert_eq!(texts(session), want);
    let opened = crate::support::session(&to);
    assert_eq!(texts(&opened), want);
    assert_eq!(
        opened.header().parent_session,
        Some(path.display().to_string())
    );
    assert_eq!(opened.header().id, session.header().id);
    to
}

#[test]
fn a_second_writer_forks_to_a_new_file_and_says_so() {
    let folder = TempDir::new().unwrap();
    let path = started(&folder);
    let (one, two) = (session(&path), session(&path));
    one.append_message(text("from one"), NOW).unwrap();
    let before = fs::read(&path).unwrap();
    two.append_message(text("from two"), NOW).unwrap();
    let to = check_forked(&two, &path, &before, &["start", "from two"]);
    assert_eq!(
        two.notices(),
        [Notice::ForkedBecauseBusy {
            from: path.clone(),
            to: to.clone()
        }]
    );
    assert!(one.notices().is_empty());
    // Both go on, each in its own file.
    one.append_message(text("one again"), NOW).unwrap();
    two.append_message(text("two again"), NOW).unwrap();
    drop((one, two));
    assert_eq!(texts(&session(&path)), ["start", "from one", "one again"]);
    assert_eq!(texts(&session(&to)), ["start", "from two", "two again"]);
}

/// A second handle on a session whose first handle has just written `turn` and is alive
/// goes on from what `roles` names, `left_out` entries of the turn being left out.
fn check_cut(turn: &[Arc<Message>], want: &[&str], left_out: usize) {
    let folder = TempDir::new().unwrap();
    let path = started(&folder);
    let live = session(&path);
    for message in turn {
        live.append_message(Arc::clone(message), NOW).unwrap();
    }
    let before = fs::read(&path).unwrap();
    let claimed = session(&path);
    assert_eq!(claimed.claim(NOW).unwrap(), left_out > 0);
    assert_eq!(roles(&claimed), want);
    assert!(claimed.unanswered_calls().unwrap().is_empty());
    assert!(!claimed.claim(NOW).unwrap());
    // Without a claim the first append does the same.
    let appended = session(&path);
    appended.append_message(text("mine"), NOW).unwrap();
    let more = [want, &["user"]].concat();
    assert_eq!(roles(&appended), more);
    assert_eq!(fs::read(&path).unwrap(), before);
    let from = path.clone();
    let to = appended.path().unwrap();
    let mut notices = vec![Notice::ForkedBecauseBusy { from, to }];
    if left_out > 0 {
        notices.push(Notice::TurnLeftOut {
            from: path.clone(),
            entries: left_out,
        });
    }
    assert_eq!(appended.notices(), notices);
    assert_eq!(roles(&session(&appended.path().unwrap())), more);
    // A fork by name, too.
    let header = Header::new("fork", "2026-12-02T00:00:00.000Z", "/w");
    let fork = JsonlStore::fork_from(&path, folder.path(), header, random_ids()).unwrap();
    let fork = Session::new(Arc::new(fork), random_ids());
    assert_eq!(roles(&fork), want);
    assert_eq!(fork.notices(), notices[1..]);
}

#[test]
fn the_unfinished_turn_of_a_live_writer_is_left_to_it() {
    let (user, done) = (text("next"), assistant("done"));
    let (call, answer) = (calls(&["c1", "c2"], "toolUse"), result("c1"));
    let both = result("c2");
    check_cut(&[], &["user", "assistant"], 0);
    check_cut(std::slice::from_ref(&user), &["user", "assistant"], 1);
    check_cut(&[user.clone(), call.clone()], &["user", "assistant"], 2);
    check_cut(
        &[user.clone(), call.clone(), answer.clone()],
        &["user", "assistant"],
        3,
    );
    let whole = [
        "user",
        "assistant",
        "user",
        "assistant",
        "toolResult",
        "toolResult",
    ];
    let calling = [user.clone(), call.clone(), answer, both];
    check_cut(&calling, &whole, 0);
    let again = [&calling[..], &[calls(&["c3"], "toolUse")]].concat();
    check_cut(&again, &whole, 1);
    check_cut(
        &[user.clone(), done],
        &["user", "assistant", "user", "assistant"],
        0,
    );
    let failed = calls(&["c1"], "error");
    check_cut(
        &[user, failed],
        &["user", "assistant", "user", "assistant"],
        0,
    );
}

#[test]
fn an_unfinished_turn_of_a_writer_that_ended_is_kept() {
    let folder = TempDir::new().unwrap();
    let path = started(&folder);
    let ended = session(&path);
    ended.append_message(text("next"), NOW).unwrap();
    ended
        .append_message(calls(&["c1"], "toolUse"), NOW)
        .unwrap();
    drop(ended);
    let session = session(&path);
    assert!(!session.claim(NOW).unwrap());
    assert_eq!(session.unanswered_calls().unwrap().len(), 1);
    assert!(session.notices().is_empty());
}

#[test]
fn a_writer_that_came_and_went_since_opening_is_noticed() {
    let folder = TempDir::new().unwrap();
    let path = started(&folder);
    let late = session(&path);
    let quick = session(&path);
    quick.append_message(text("quick"), NOW).unwrap();
    drop(quick);
    let before = fs::read(&path).unwrap();
    late.append_message(text("late"), NOW).unwrap();
    check_forked(&late, &path, &before, &["start", "late"]);
    let notices = late.notices();
    let Notice::ForkedBecauseChanged { change, lost, .. } = &notices[0] else {
        panic!("{notices:?}")
    };
    assert_eq!((*change, *lost), (Change::Resized, 0));
}

#[test]
fn a_file_changed_behind_the_process_is_left_and_the_session_goes_on_saved() {
    let folder = TempDir::new().unwrap();
    let path = started(&folder);
    let session = session(&path);
    session.append_message(text("one"), NOW).unwrap();
    let mut outside = fs::read_to_string(&path).unwrap();
    outside.push_str("{\"type\":\"custom\",\"id\":\"outside\",\"customType\":\"x\"}\n");
    fs::write(&path, &outside).unwrap();
    for message in ["two", "three", "four"] {
        session.append_message(text(message), NOW).unwrap();
    }
    check_forked(
        &session,
        &path,
        outside.as_bytes(),
        &["start", "one", "two", "three", "four"],
    );
    assert_eq!(session.notices().len(), 1);
    let said = session.notices()[0].to_string();
    assert!(
        said.contains("was changed by someone else; continuing in"),
        "{said}"
    );
}

#[test]
fn an_edit_of_equal_length_is_noticed() {
    let folder = TempDir::new().unwrap();
    let path = started(&folder);
    let session = session(&path);
    let file = File::options().write(true).open(&path).unwrap();
    let time = fs::metadata(&path).unwrap().modified().unwrap();
    file.set_modified(time + std::time::Duration::from_secs(7))
        .unwrap();
    session.append_message(text("one"), NOW).unwrap();
    let notices = session.notices();
    let Notice::ForkedBecauseChanged { change, .. } = &notices[0] else {
        panic!("{notices:?}")
    };
    assert_eq!(*change, Change::Touched);
}

#[test]
fn a_file_that_was_replaced_or_removed_is_copied_from_what_is_still_open() {
    let folder = TempDir::new().unwrap();
    let path = started(&folder);
    let replaced = session(&path);
    replaced.append_message(text("one"), NOW).unwrap();
    let copy = folder.path().join("copy");
    fs::copy(&path, &copy).unwrap();
    fs::rename(&copy, &path).unwrap();
    let before = fs::read(&path).unwrap();
    replaced.append_message(text("two"), NOW).unwrap();
    let second = check_forked(&replaced, &path, &before, &["start", "one", "two"]);
    fs::remove_file(&second).unwrap();
    replaced.append_message(text("three"), NOW).unwrap();
    let changes: Vec<Change> = replaced
        .notices()
        .iter()
        .map(|notice| match notice {
            Notice::ForkedBecauseChanged {
                change, lost: 0, ..
            } => *change,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(changes, [Change::Replaced, Change::Removed]);
    assert_eq!(
        texts(&session(&replaced.path().unwrap())),
        ["start", "one", "two", "three"]
    );
}

#[test]
fn a_folder_that_was_removed_is_made_again() {
    let parent = TempDir::new().unwrap();
    let folder = parent.path().join("sessions");
    let unborn = new_session(&folder);
    fs::remove_dir_all(&folder).unwrap();
    unborn.append_message(text("one"), NOW).unwrap();
    assert!(unborn.notices().is_empty());
    fs::remove_dir_all(&folder).unwrap();
    unborn.append_message(text("two"), NOW).unwrap();
    let notices = unborn.notices();
    let Notice::ForkedBecauseChanged { change, lost, .. } = &notices[0] else {
        panic!("{notices:?}")
    };
    assert_eq!((*change, *lost), (Change::Removed, 0));
    assert_eq!(texts(&session(&unborn.path().unwrap())), ["one", "two"]);
}

#[test]
fn entries_that_are_gone_keep_their_place_in_the_tree() {
    let folder = TempDir::new().unwrap();
    let path = started(&folder);
    let session = session(&path);
    session.append_model_change("p", "m", NOW).unwrap();
    session.append_message(text("one"), NOW).unwrap();
    fs::write(&path, "").unwrap();
    session.append_message(text("two"), NOW).unwrap();
    let notices = session.notices();
    let Notice::ForkedBecauseChanged { lost, .. } = &notices[0] else {
        panic!("{notices:?}")
    };
    assert_eq!(*lost, 4);
    assert!(notices[0].to_string().ends_with("; 4 entries were gone"));
    let opened = crate::support::session(&session.path().unwrap());
    assert_eq!(texts(&opened), ["two"]);
    assert_eq!(
        opened.context().unwrap().model,
        Some(("p".to_owned(), "m".to_owned()))
    );
    assert_eq!(texts(&session), ["two"]);
}

#[test]
fn a_new_session_does_not_take_over_a_file_that_appeared() {
    let folder = TempDir::new().unwrap();
    let session = new_session(folder.path());
    let path = session.path().unwrap();
    fs::write(&path, "someone's\n").unwrap();
    session.append_message(text("one"), NOW).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "someone's\n");
    assert!(matches!(
        &session.notices()[..],
        [Notice::ForkedBecauseBusy { .. }]
    ));
    assert_eq!(
        texts(&crate::support::session(&session.path().unwrap())),
        ["one"]
    );
}

#[test]
fn readers_do_not_stop_a_writer() {
    let folder = TempDir::new().unwrap();
    let path = started(&folder);
    let readers = [open(&path).unwrap(), open(&path).unwrap()];
    let writer = session(&path);
    writer.append_message(text("one"), NOW).unwrap();
    assert!(writer.notices().is_empty());
    assert_eq!(
        readers.map(|reader| crate::support::ids(&reader).len()),
        [2, 2]
    );
}
