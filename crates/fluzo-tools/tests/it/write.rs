//! `write`: what ends up on disk and what is said.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use fluzo_tools::registry::builtin;
use serde_json::{Value, json};

use crate::support::{call, env, text_of};

async fn write(dir: &tempfile::TempDir, args: Value) -> String {
    text_of(&call(builtin("write", &env(dir.path())).unwrap(), args).await)
}

#[tokio::test]
async fn parents_are_made_and_length_is_in_utf16_units() {
    let dir = tempfile::tempdir().unwrap();
    let said = write(&dir, json!({"path": "n/e/w.txt", "content": "héé😀"})).await;
    assert_eq!(said, "Successfully wrote 5 bytes to n/e/w.txt");
    assert_eq!(
        fs::read(dir.path().join("n/e/w.txt")).unwrap(),
        "héé😀".as_bytes()
    );
}

#[tokio::test]
async fn content_is_written_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    for content in ["\u{201c}A\u{201d}\n", "", "a\r\nb\tc", "\u{feff}x"] {
        write(&dir, json!({"path": "q.txt", "content": content})).await;
        assert_eq!(
            fs::read(dir.path().join("q.txt")).unwrap(),
            content.as_bytes()
        );
        fs::remove_file(dir.path().join("q.txt")).unwrap();
    }
}

#[tokio::test]
async fn overwriting_keeps_mode_and_byte_order_mark() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("b.ps1");
    fs::write(&path, "\u{feff}hello\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let said = write(&dir, json!({"file_path": "b.ps1", "content": "new\n"})).await;
    assert_eq!(said, "Successfully wrote 4 bytes to b.ps1");
    assert_eq!(fs::read(&path).unwrap(), "\u{feff}new\n".as_bytes());
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o7777,
        0o640
    );
    write(&dir, json!({"path": "b.ps1", "content": "\u{feff}again\n"})).await;
    assert_eq!(fs::read(&path).unwrap(), "\u{feff}again\n".as_bytes());
}

#[tokio::test]
async fn absolute_and_home_paths() {
    let dir = tempfile::tempdir().unwrap();
    for path in [
        dir.path().join("abs").to_str().unwrap(),
        "~/x",
        "@at",
        "file://./odd",
    ] {
        assert!(
            write(&dir, json!({"path": path, "content": "1"}))
                .await
                .ends_with(path),
            "{path}"
        );
    }
    for path in ["abs", "home/x", "at", "file:/odd"] {
        assert_eq!(fs::read(dir.path().join(path)).unwrap(), b"1", "{path}");
    }
}

#[tokio::test]
async fn what_cannot_be_written_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().display();
    fs::write(dir.path().join("file"), "").unwrap();
    let said = write(&dir, json!({"path": ".", "content": ""})).await;
    assert_eq!(
        said,
        format!("error: EISDIR: illegal operation on a directory, open '{at}'")
    );
    let said = write(&dir, json!({"path": "file/x", "content": ""})).await;
    assert_eq!(
        said,
        format!("error: EEXIST: file already exists, mkdir '{at}/file'")
    );
}

#[tokio::test]
async fn writes_of_one_file_do_not_mix() {
    let dir = tempfile::tempdir().unwrap();
    let tool = builtin("write", &env(dir.path())).unwrap();
    let contents = ["a", "b", "c", "d"].map(|letter| letter.repeat(100_000));
    let calls = contents
        .iter()
        .map(|content| call(tool.clone(), json!({"path": "f", "content": content})));
    let results = futures_util::future::join_all(calls).await;
    assert!(results.iter().all(Result::is_ok));
    let written = fs::read_to_string(dir.path().join("f")).unwrap();
    assert!(contents.contains(&written));
}

#[test]
fn the_description_sends_small_changes_to_edit() {
    let dir = tempfile::tempdir().unwrap();
    let tool = builtin("write", &env(dir.path())).unwrap();
    assert!(
        tool.spec()
            .description
            .contains("For small changes of an existing file use edit")
    );
    assert!(
        tool.prompt_guidelines()
            .iter()
            .any(|line| line.contains("edit for small changes"))
    );
}
