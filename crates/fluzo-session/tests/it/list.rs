//! Lists of many and of large sessions.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use fluzo_session::jsonl::list::{FIRST_MESSAGE, SessionInfo, WHOLE, info, list, list_all};
use tempfile::TempDir;

use crate::support::{HEADER, USAGE};

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
    let text = USER.replace("TEXT", &"word ".repeat(2_000));
    let (count, mut bytes) = (10_000, 0);
    for number in 0..count {
        let header = HEADER.replace(r#""id":"s""#, &format!(r#""id":"s{number}""#));
        let content = format!("{header}\n{text}\n{}\n", answer(number));
        bytes += content.len() as u64;
        fs::write(folder.path().join(format!("{number}.jsonl")), content).unwrap();
    }
    let mut listed = Vec::new();
    let read = read_bytes(|| listed = list(folder.path()).unwrap());
    assert_eq!(listed.len(), usize::try_from(count).unwrap());
    assert!(bytes > 100 << 20 && read < bytes, "{read} of {bytes}");
    assert_eq!(listed[0].modified_ms, count - 1);
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
