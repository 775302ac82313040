//! A process that ends at any byte.

use std::fs;
use std::path::Path;

use fluzo_session::{DamageReason, Notice, SessionStore, StoreError};

use crate::support::{NOW, ids, line, new_session, open, session, text};

/// A session file of four entries, the last of them with wide characters.
fn written(folder: &Path) -> Vec<u8> {
    let session = new_session(folder);
    for message in ["one", "two \"quoted\"\n", "three", "vier: ä 漢字 🦀"] {
        session.append_message(text(message), NOW).unwrap();
    }
    fs::read(session.path().unwrap()).unwrap()
}

/// Ids of the entries whose whole text is in `bytes`.
fn whole_entries(bytes: &[u8]) -> Vec<String> {
    let lines = bytes.split(|byte| *byte == b'\n').skip(1);
    let value = |line: &[u8]| serde_json::from_slice::<serde_json::Value>(line).ok();
    lines
        .filter_map(value)
        .map(|value| value["id"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn append_survives_a_kill_at_every_byte() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = written(folder.path());
    let header = bytes.iter().position(|byte| *byte == b'\n').unwrap();
    for cut in 0..=bytes.len() {
        let path = folder.path().join(format!("cut-{cut}.jsonl"));
        fs::write(&path, &bytes[..cut]).unwrap();
        if cut < header {
            let refused = open(&path).map(|_| ()).unwrap_err();
            assert!(matches!(refused, StoreError::NotASession { .. }), "{cut}");
            assert_eq!(fs::read(&path).unwrap(), &bytes[..cut], "{cut}");
            continue;
        }
        let kept = whole_entries(&bytes[..cut]);
        let resumed = session(&path);
        assert_eq!(ids(&**resumed.store()), kept, "{cut}");
        let new = resumed
            .append_message(text("after the crash"), NOW)
            .unwrap();
        assert_eq!(new.parent_id.as_ref(), kept.last(), "{cut}");
        drop(resumed);
        let again = open(&path).unwrap();
        let mut want = kept;
        want.push(new.id.clone());
        assert_eq!(ids(&again), want, "{cut}");
        assert!(again.damage().is_empty(), "{cut}");
        for id in want {
            again.payload(&id).unwrap();
        }
    }
}

#[test]
fn a_torn_last_line_is_moved_aside_before_the_first_append_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.jsonl");
    let torn = r#"{"type":"message","id":"x","pa"#;
    let sound = format!("{}\n{}\n", crate::support::HEADER, line("a", None));
    fs::write(&path, format!("{sound}{torn}")).unwrap();
    let resumed = session(&path);
    let damage = resumed.damage();
    assert_eq!(
        (damage.total, damage.items[0].reason),
        (1, DamageReason::TornTail)
    );
    assert_eq!(
        (damage.items[0].line, damage.items[0].offset),
        (3, sound.len() as u64)
    );
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        format!("{sound}{torn}"),
        "opening writes"
    );
    assert!(resumed.notices().is_empty());
    let new = resumed.append_message(text("hi"), NOW).unwrap();
    let aside = folder.path().join("s.jsonl.damaged");
    assert_eq!(fs::read_to_string(&aside).unwrap(), torn);
    let bytes = torn.len() as u64;
    assert_eq!(resumed.notices(), [Notice::TailMoved { to: aside, bytes }]);
    let want = format!("{sound}{}\n", new.to_line().unwrap());
    assert_eq!(fs::read_to_string(&path).unwrap(), want);
    drop(resumed);
    assert!(open(&path).unwrap().damage().is_empty());
}

/// A file that ends with `torn` and `nuls` NUL bytes is opened and appended to; `torn` is
/// then in the file beside it, as long as the notice says.
fn check_nul_tail(torn: &str, nuls: u64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.jsonl");
    let sound = format!("{}\n{}\n", crate::support::HEADER, line("a", None));
    fs::write(&path, format!("{sound}{torn}")).unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    let filled = (sound.len() + torn.len()) as u64;
    file.set_len(filled + nuls).unwrap();
    let resumed = session(&path);
    let damage = resumed.damage().items[0];
    assert_eq!(
        (damage.reason, damage.len),
        (DamageReason::TornTail, torn.len() as u64 + nuls)
    );
    let new = resumed.append_message(text("hi"), NOW).unwrap();
    let want = format!("{sound}{}\n", new.to_line().unwrap());
    assert_eq!(fs::read_to_string(&path).unwrap(), want);
    let to = folder.path().join("s.jsonl.damaged");
    let mut notices = vec![Notice::NulBytesCut { bytes: nuls }];
    if torn.is_empty() {
        assert!(!to.exists());
    } else {
        assert_eq!(fs::read_to_string(&to).unwrap(), torn);
        let bytes = torn.len() as u64;
        notices.insert(0, Notice::TailMoved { to, bytes });
    }
    assert_eq!(resumed.notices(), notices);
}

#[test]
fn nul_bytes_at_the_end_are_cut_off_and_not_copied() {
    check_nul_tail("", 300);
    check_nul_tail("", 1 << 30);
    check_nul_tail("{\"type\":\"mess", 300);
    check_nul_tail("{\"type\":\"mess", 100 << 20);
}

#[test]
fn a_torn_line_longer_than_any_entry_stays_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.jsonl");
    let sound = format!("{}\n{}\n", crate::support::HEADER, line("a", None));
    let torn = format!("{{{}", "x".repeat(64 << 20));
    fs::write(&path, format!("{sound}{torn}\0\0")).unwrap();
    let resumed = session(&path);
    let new = resumed.append_message(text("hi"), NOW).unwrap();
    assert_eq!(resumed.notices(), [Notice::NulBytesCut { bytes: 2 }]);
    let want = format!("{sound}{torn}\n{}\n", new.to_line().unwrap());
    assert!(fs::read_to_string(&path).unwrap() == want);
    drop(resumed);
    let again = open(&path).unwrap();
    assert_eq!(again.damage().items[0].reason, DamageReason::TooLong);
    assert_eq!(ids(&again), ["a".to_owned(), new.id.clone()]);
}

#[test]
fn torn_lines_moved_aside_stand_on_lines_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.jsonl");
    let sound = format!("{}\n{}\n", crate::support::HEADER, line("a", None));
    for torn in ["{\"one", "{\"two"] {
        fs::write(&path, format!("{sound}{torn}")).unwrap();
        session(&path).append_message(text("hi"), NOW).unwrap();
    }
    let aside = fs::read_to_string(folder.path().join("s.jsonl.damaged")).unwrap();
    assert_eq!(aside, "{\"one\n{\"two");
}

#[test]
fn a_whole_last_line_without_its_end_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.jsonl");
    fs::write(
        &path,
        format!("{}\n{}", crate::support::HEADER, line("a", None)),
    )
    .unwrap();
    let resumed = session(&path);
    assert!(resumed.damage().is_empty());
    let new = resumed.append_message(text("hi"), NOW).unwrap();
    assert!(resumed.notices().is_empty());
    drop(resumed);
    assert_eq!(ids(&open(&path).unwrap()), ["a".to_owned(), new.id.clone()]);
}
