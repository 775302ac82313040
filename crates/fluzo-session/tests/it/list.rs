//! Lists of many and of large sessions.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use fluzo_session::jsonl::list::{FIRST_MESSAGE, SessionInfo, WHOLE, info, list, list_all};
use tempfile::TempDir;

use crate::support::{HEADER, USAGE, session, text};

const USER: &str = r#"{"type":"message","id":"u0000001","parentId":null,"timestamp":"2026-12-01T08:37:29.000Z","message":{"role":"user","content":[{"type":"text","text":"TEXT"}],"timestamp":1000}}"#;

fn answer(at: i64) -> String {
    format!(
        r#"{{"type":"message","id":"a{at:07}","parentId":"u0000001","timestamp":"2026-12-01T08:37:29.000Z","message":{{"role":"assistant","content":[{{"type":"text","text":"ok"}}],"api":"a","provider":"p","model":"m","usage":{USAGE},"stopReason":"stop","timestamp":{at}}}}}"#
    )
}

/// A file of `len` bytes: header, first message, a hole without a line end, and `end`.
fn large(path: &Path, first: &str, len: u64, end: &str) {
    let mut file = File::create(path).unwrap();
    let first = USER.replace("TEXT", first);
    file.write_all(format!("{HEADER}\n{first}\n").as_bytes())
        .unwrap();
    file.set_len(len).unwrap();
    file.seek(SeekFrom::End(0)).unwrap();
    file.write_all(format!("\n{end}\n").as_bytes()).unwrap();
}

/// Bytes of the file that were read by this process while `look` ran.
fn read_bytes(look: impl FnOnce()) -> u64 {
    let count = || -> u64 {
        let io = fs::read_to_string("/proc/thread-self/io").unwrap();
        let line = io.lines().find_map(|line| line.strip_prefix("rchar: "));
        line.unwrap().parse().unwrap()
    };
    let before = count();
    look();
    count() - before
}

fn one(path: &Path) -> SessionInfo {
    info(path).unwrap().unwrap()
}

#[test]
fn a_file_of_two_gigabytes_is_listed_by_its_ends() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("large.jsonl");
    large(&path, "hello", 2 << 30, &answer(77_000));
    let mut listed = Vec::new();
    let read = read_bytes(|| listed = list(folder.path()).unwrap());
    assert!(read < 1 << 20, "{read} bytes were read");
    let [info] = listed.as_slice() else {
        panic!("{listed:?}");
    };
    assert_eq!(info.first_message.as_deref(), Some("hello"));
    assert_eq!((info.modified_ms, info.message_count), (77_000, None));
    assert!(info.bytes > 2 << 30);
}

#[test]
fn an_end_without_a_message_leaves_the_time_of_the_file() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("large.jsonl");
    large(&path, "hello", WHOLE * 4, "");
    let written = fs::metadata(&path).unwrap().modified().unwrap();
    let since = written.duration_since(std::time::UNIX_EPOCH).unwrap();
    let info = one(&path);
    assert_eq!(u128::try_from(info.modified_ms).unwrap(), since.as_millis());
}

#[test]
fn a_first_message_longer_than_what_is_read_shows_its_beginning() {
    let folder = TempDir::new().unwrap();
    let check = |text: &str, want: &str| {
        let path = folder.path().join("s.jsonl");
        large(&path, text, WHOLE * 8, &answer(5));
        let got = one(&path).first_message.unwrap_or_default();
        assert!(got.len() <= FIRST_MESSAGE);
        assert!(got.starts_with(want), "{got:?}");
    };
    let long = "x".repeat(usize::try_from(WHOLE).unwrap() * 2);
    check(&format!("begin {long}"), "begin xxx");
    check(
        &format!(r#"a \"quoted\"\nline {long}"#),
        "a \"quoted\"\nline x",
    );
    check(&r"\u00e9".repeat(100_000), "éé");
    check(&"é".repeat(200_000), "éé");
    check("short", "short");
}

#[test]
fn of_a_folder_of_ten_thousand_sessions_little_is_read() {
    let folder = TempDir::new().unwrap();
    let message = USER.replace("TEXT", &"word ".repeat(2_400));
    let content = format!("{HEADER}\n{message}\n{}\n", answer(2_000));
    let first = folder.path().join("0.jsonl");
    fs::write(&first, &content).unwrap();
    let count = 10_000;
    for number in 1..count {
        // Another name is as good as another file, and made sooner.
        fs::hard_link(&first, folder.path().join(format!("{number}.jsonl"))).unwrap();
    }
    let bytes = (content.len() * count) as u64;
    let mut listed = Vec::new();
    let read = read_bytes(|| listed = list(folder.path()).unwrap());
    assert_eq!(listed.len(), count);
    assert!(bytes > 110 << 20 && read < bytes, "{read} of {bytes}");
    assert!(listed.iter().all(|info| info.modified_ms == 2_000));
    let whole = listed.iter().filter(|info| info.message_count.is_some());
    assert!(whole.count() > 1_000);
    let kept: usize = listed
        .iter()
        .map(|info| info.first_message.as_ref().map_or(0, String::len))
        .sum();
    assert!(kept <= listed.len() * FIRST_MESSAGE);
}

#[test]
fn a_session_whose_folder_is_gone_is_marked() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let there = folder.path().to_string_lossy().into_owned();
    let rows = [
        (there.clone(), false),
        (format!("{there}/none"), true),
        (file.to_string_lossy().into_owned(), true),
        (format!("{}/below", file.display()), true),
        ("work".to_owned(), false),
        (String::new(), false),
    ];
    for (cwd, gone) in rows {
        let path: PathBuf = folder.path().join("s.jsonl");
        fs::write(&path, HEADER.replace("/w", &cwd) + "\n").unwrap();
        assert_eq!(one(&path).folder_gone, gone, "{cwd:?}");
        let listed = list(folder.path()).unwrap();
        assert_eq!(listed[0].folder_gone, gone, "{cwd:?}");
    }
}

#[test]
fn all_folders_are_one_list() {
    let root = TempDir::new().unwrap();
    for (name, at) in [("a", 1), ("b", 3), ("c", 2)] {
        fs::create_dir(root.path().join(name)).unwrap();
        let text = format!("{HEADER}\n{}\n", answer(at));
        fs::write(root.path().join(name).join("s.jsonl"), text).unwrap();
    }
    let listed = list_all(root.path()).unwrap();
    let times: Vec<i64> = listed.iter().map(|info| info.modified_ms).collect();
    assert_eq!(times, [3, 2, 1]);
    assert!(list_all(&root.path().join("none")).unwrap().is_empty());
}

/// A file of 100 MB: turns of a message, and of a result of 20 kB, and a compaction that
/// keeps the last ten of them.
fn hundred_megabytes(path: &Path) {
    let mut file = std::io::BufWriter::new(File::create(path).unwrap());
    let long = "word ".repeat(4_000);
    writeln!(file, "{HEADER}").unwrap();
    let mut parent = "null".to_owned();
    let mut kept = String::new();
    for number in 0..10_000 {
        let id = format!("{number:08}");
        let said = if number % 2 == 0 { "go on" } else { &long };
        let line = USER
            .replace("u0000001", &id)
            .replace("null", &parent)
            .replace("TEXT", said);
        writeln!(file, "{line}").unwrap();
        parent = format!("\"{id}\"");
        if number == 9_990 {
            kept.clone_from(&id);
        }
    }
    let compaction = format!(
        r#"{{"type":"compaction","id":"c0000000","parentId":{parent},"timestamp":"2026-12-01T08:37:29.000Z","summary":"so far","firstKeptEntryId":"{kept}","tokensBefore":9}}"#
    );
    writeln!(file, "{compaction}").unwrap();
    file.flush().unwrap();
}

#[test]
fn a_session_of_a_hundred_megabytes_is_read_once_and_only_its_context_is_kept() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("large.jsonl");
    hundred_megabytes(&path);
    let len = fs::metadata(&path).unwrap().len();
    assert!(len > 100_000_000);
    let read = read_bytes(|| assert_eq!(list(folder.path()).unwrap().len(), 1));
    assert!(read < 1 << 20, "{read} bytes were read for the list");
    let mut opened = None;
    let read = read_bytes(|| opened = Some(session(&path)));
    assert!(read < len + (1 << 20), "{read} bytes of {len} were read");
    let session = opened.unwrap();
    // The summary, and what was kept: ten messages, half of them long.
    let read = read_bytes(|| assert_eq!(session.context().unwrap().messages.len(), 11));
    assert!(read < 200_000, "{read} bytes were read for the context");
    let read = read_bytes(|| {
        session.append_message(text("more"), 0).unwrap();
        assert_eq!(session.context().unwrap().messages.len(), 12);
    });
    assert!(read < 200_000, "{read} bytes were read to go on");
    assert!(fs::metadata(&path).unwrap().len() < len + 1_000);
}
