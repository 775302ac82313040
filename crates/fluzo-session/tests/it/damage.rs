//! Bytes that are no entry.

use std::fs;
use std::path::Path;

use fluzo_session::{Damage, DamageReason, DamageReport, SessionStore, StoreError};
use tempfile::TempDir;

use crate::support::{HEADER, NOW, file, ids, line, open, session, text, texts};

fn check(lines: &[&str], kept: &[&str], damage: &[(u64, DamageReason)]) {
    let folder = TempDir::new().unwrap();
    let path = file(&folder, lines);
    let before = fs::read(&path).unwrap();
    let resumed = session(&path);
    assert_eq!(ids(&**resumed.store()), kept);
    let found: Vec<_> = resumed
        .damage()
        .items
        .iter()
        .map(|d| (d.line, d.reason))
        .collect();
    assert_eq!(found, damage);
    let new = resumed.append_message(text("more"), NOW).unwrap();
    let after = fs::read(&path).unwrap();
    assert_eq!(
        after,
        [&before[..], new.to_line().unwrap().as_bytes(), b"\n"].concat()
    );
    drop(resumed);
    let again = open(&path).unwrap();
    assert_eq!(again.damage().total, damage.len() as u64);
    assert_eq!(ids(&again).len(), kept.len() + 1);
}

#[test]
fn malformed_lines_stay_and_are_counted() {
    let (a, b, c) = (line("a", None), line("b", Some("a")), line("c", Some("b")));
    check(
        &[
            &a,
            "{\"type\":",
            &b,
            "",
            "   ",
            "[1]",
            "\"x\"",
            "{\"type\":\"message\"}",
            "{}",
            &c,
        ],
        &["a", "b", "c"],
        &[
            (3, DamageReason::MalformedJson),
            (7, DamageReason::NotAnObject),
            (8, DamageReason::NotAnObject),
            (9, DamageReason::MissingId),
            (10, DamageReason::MissingType),
        ],
    );
}

/// A file of `lines` is read as the texts of `wanted`, also once more after an append, with
/// `joined` entries joined over a hole. What is in the file stays.
fn check_joined(lines: &[&str], wanted: &[&str], joined: u64) {
    let folder = TempDir::new().unwrap();
    let path = file(&folder, lines);
    let before = fs::read(&path).unwrap();
    let resumed = session(&path);
    assert_eq!(texts(&resumed), wanted);
    assert_eq!(resumed.damage().joined, joined);
    resumed.append_message(text("more"), NOW).unwrap();
    assert!(fs::read(&path).unwrap().starts_with(&before));
    drop(resumed);
    let again = session(&path);
    assert_eq!(texts(&again), [wanted, &["more"]].concat());
    assert_eq!(again.damage().joined, joined);
}

#[test]
fn a_lost_line_costs_nothing_before_it() {
    let (a, b) = (line("a", None), line("b", Some("a")));
    let (d, e) = (line("d", Some("lost")), line("e", Some("d")));
    check_joined(
        &[&a, &b, "{\"bad", &d, &e],
        &["text of a", "text of b", "text of d", "text of e"],
        1,
    );
    // Two lines in a row are lost, and the one entry that follows knows only the second.
    check_joined(
        &[&a, "{\"bad", "{\"bad", &d],
        &["text of a", "text of d"],
        1,
    );
    // The same without any damaged line.
    check_joined(&[&a, &d], &["text of a", "text of d"], 1);
    let own = line("s", Some("s"));
    check_joined(&[&a, &own], &["text of a", "text of s"], 1);
}

#[test]
fn branches_of_a_lost_line_stay_branches() {
    let (a, d, e) = (
        line("a", None),
        line("d", Some("lost")),
        line("e", Some("d")),
    );
    let other = line("o", Some("lost"));
    check_joined(
        &[&a, "{\"bad", &d, &e, &other],
        &["text of a", "text of o"],
        2,
    );
}

#[test]
fn a_second_root_and_an_entry_behind_nothing_are_roots() {
    let (a, root) = (line("a", None), line("r", None));
    check_joined(&[&a, &root], &["text of r"], 0);
    let orphan = line("o", Some("lost"));
    check_joined(&["{\"bad", &orphan, &a], &["text of a"], 0);
    check_joined(&["{\"bad", &orphan], &["text of o"], 0);
}

#[test]
fn what_was_joined_is_said() {
    let folder = TempDir::new().unwrap();
    let path = file(&folder, &[&line("a", None), &line("d", Some("lost"))]);
    let damage = open(&path).unwrap().damage();
    assert!(!damage.is_empty());
    assert_eq!(damage.to_string(), "1 entry joined over a hole");
    let path = file(
        &folder,
        &[&line("a", None), "{\"bad", &line("d", Some("lost"))],
    );
    let said = open(&path).unwrap().damage().to_string();
    assert!(
        said.starts_with("1 damaged line: line 3 at byte "),
        "{said}"
    );
    assert!(said.ends_with(", 1 entry joined over a hole"), "{said}");
}

#[test]
fn a_fork_before_an_entry_that_was_joined_keeps_what_stands_before() {
    let folder = TempDir::new().unwrap();
    let path = file(
        &folder,
        &[&line("a", None), "{\"bad", &line("d", Some("lost"))],
    );
    let fork = session(&path).fork(Some("d")).unwrap();
    let ids: Vec<&str> = fork.entries.iter().map(|entry| &*entry.id).collect();
    assert_eq!(ids, ["a"]);
}

#[test]
fn a_run_of_nul_bytes_hides_nothing() {
    let (a, b) = (line("a", None), line("b", Some("a")));
    let nul = "\0".repeat(300);
    check(&[&a, &nul, &b], &["a", "b"], &[(3, DamageReason::NulBytes)]);
    let glued = format!("{nul}{b}");
    check(&[&a, &glued], &["a", "b"], &[(3, DamageReason::NulBytes)]);
}

#[test]
fn equal_ids_and_second_headers_are_counted() {
    let (a, b) = (line("a", None), line("b", Some("a")));
    check(
        &[&a, HEADER, &b, &a],
        &["b", "a"],
        &[
            (3, DamageReason::SecondHeader),
            (5, DamageReason::DuplicateId),
        ],
    );
}

#[test]
fn a_bad_line_in_the_middle_and_half_a_character_at_the_end_lose_nothing_else() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("s.jsonl");
    let mut bytes = format!("{HEADER}\n").into_bytes();
    for at in 0..20 {
        let id = format!("e{at}");
        let text = if at == 9 {
            "{bad json".to_owned()
        } else {
            line(&id, None)
        };
        bytes.extend_from_slice(format!("{text}\n").as_bytes());
    }
    bytes.extend_from_slice(b"{\"type\":\"message\",\"text\":\"\xe4\xbd");
    fs::write(&path, &bytes).unwrap();
    let resumed = session(&path);
    let store = resumed.store();
    assert_eq!(ids(&**store).len(), 19);
    let damage = resumed.damage();
    let found: Vec<_> = damage.items.iter().map(|d| (d.line, d.reason)).collect();
    assert_eq!(
        found,
        [
            (11, DamageReason::MalformedJson),
            (22, DamageReason::TornTail)
        ]
    );
    let said = damage.to_string();
    assert!(
        said.starts_with("2 damaged lines: line 11 at byte "),
        "{said}"
    );
    assert!(said.ends_with("(cut off)"), "{said}");
    resumed.append_message(text("more"), NOW).unwrap();
    drop(resumed);
    let again = open(&path).unwrap();
    assert_eq!((ids(&again).len(), again.damage().total), (20, 1));
}

#[test]
fn invalid_utf8_in_the_middle_is_counted() {
    let folder = TempDir::new().unwrap();
    let path = file(&folder, &[&line("a", None)]);
    let mut bytes = fs::read(&path).unwrap();
    let offset = bytes.len() as u64;
    bytes.extend_from_slice(b"{\"type\":\"message\",\"id\":\"\xff\"}\n");
    bytes.extend_from_slice(format!("{}\n", line("b", Some("a"))).as_bytes());
    fs::write(&path, bytes).unwrap();
    let store = open(&path).unwrap();
    assert_eq!(ids(&store), ["a", "b"]);
    let reason = DamageReason::InvalidUtf8;
    assert_eq!(
        store.damage().items,
        [Damage {
            line: 3,
            offset,
            len: 27,
            reason
        }]
    );
}

#[test]
fn what_is_no_file_is_refused_without_waiting_for_it() {
    let folder = TempDir::new().unwrap();
    let pipe = folder.path().join("pipe.jsonl");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    for path in [folder.path(), Path::new("/dev/zero"), &pipe] {
        let error = open(path).map(|_| ()).unwrap_err();
        assert!(
            matches!(error, StoreError::NotASession { .. }),
            "{path:?}: {error}"
        );
        assert!(fluzo_session::jsonl::locate::header(path).is_none());
        assert!(fluzo_session::jsonl::list::info(path).unwrap().is_none());
    }
}

#[test]
fn a_file_that_is_no_session_is_refused_and_kept() {
    let rows = [
        "",
        "\n\n",
        "hello\n",
        "{\"type\":\"message\"}\n{\"foo\":1}\n",
        "{\"type\":\"session\",\"id\":7}\n",
        "{\"type\":\"session\"",
    ];
    let folder = TempDir::new().unwrap();
    for (at, text) in rows.iter().enumerate() {
        let path = folder.path().join(format!("{at}.jsonl"));
        fs::write(&path, text).unwrap();
        let error = open(&path).map(|_| ()).unwrap_err();
        assert!(matches!(error, StoreError::NotASession { .. }), "{text}");
        let want = format!("Session file is not a valid pi session: {}", path.display());
        assert_eq!(error.to_string(), want);
        assert_eq!(fs::read_to_string(&path).unwrap(), *text);
    }
}

#[test]
fn malformed_lines_before_the_header_are_counted() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("s.jsonl");
    fs::write(&path, format!("oops\n{HEADER}\n{}\n", line("a", None))).unwrap();
    let store = open(&path).unwrap();
    assert_eq!((ids(&store).len(), store.damage().total), (1, 1));
}

#[test]
fn a_report_lists_the_first_and_counts_all() {
    let mut report = DamageReport::default();
    for line in 0..1000 {
        let reason = DamageReason::MalformedJson;
        report.push(Damage {
            line,
            offset: line,
            len: 1,
            reason,
        });
    }
    assert_eq!(
        (report.total, report.items.len()),
        (1000, DamageReport::LISTED)
    );
    assert!(report.to_string().ends_with("; …"));
}
