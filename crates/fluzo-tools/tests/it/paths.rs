//! Path arguments: forms, the exact name first, look-alikes only when they are the only one.

use std::fs;
use std::path::Path;

use fluzo_agent::Tool;
use fluzo_exec::LocalFileSystem;
use fluzo_policy::{Access, PathOperation};
use fluzo_tools::paths::{Places, several_names};
use fluzo_tools::registry::builtin;
use serde_json::json;

use crate::support::{call, env, text_of};

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    dir
}

async fn read(dir: &tempfile::TempDir, path: &str) -> String {
    text_of(
        &call(
            builtin("read", &env(dir.path())).unwrap(),
            json!({"path": path}),
        )
        .await,
    )
}

#[tokio::test]
async fn forms_of_one_path() {
    let dir = folder(&[
        ("a b.txt", "X"),
        ("home/h.txt", "H"),
        ("@scope/p.txt", "P"),
        ("@own.txt", "O"),
    ]);
    let at = dir.path().display();
    let rows = [
        ("a b.txt".to_owned(), "X"),
        ("./sub/../a b.txt".to_owned(), "X"),
        ("@a b.txt".to_owned(), "X"),
        (format!("{at}/a b.txt"), "X"),
        (format!("file://{at}/a%20b.txt"), "X"),
        (format!("file://localhost{at}/a%20b.txt"), "X"),
        ("~/h.txt".to_owned(), "H"),
        ("@~/h.txt".to_owned(), "H"),
        ("@scope/p.txt".to_owned(), "P"),
        ("@own.txt".to_owned(), "O"),
    ];
    for (path, content) in rows {
        assert_eq!(read(&dir, &path).await, content, "{path}");
    }
}

#[tokio::test]
async fn look_alike_names_resolve_and_are_reported() {
    let shot = "Shot at 3.00.00\u{202f}p.m..png.txt";
    let accent = "e\u{301}cran l\u{2019}a.txt";
    let dir = folder(&[
        (shot, "SHOT"),
        (accent, "ACCENT"),
        ("d\u{a0}r/in\u{3000}ner", "DEEP"),
    ]);
    let rows = [
        ("Shot at 3.00.00 p.m..png.txt", shot, "SHOT"),
        ("\u{e9}cran l'a.txt", accent, "ACCENT"),
        ("d r/in ner", "in\u{3000}ner", "DEEP"),
    ];
    for (asked, real, content) in rows {
        assert_eq!(
            read(&dir, asked).await,
            format!("[Name on disk: {real}]\n{content}")
        );
    }
}

#[tokio::test]
async fn the_exact_name_wins_and_ambiguity_is_refused() {
    let dir = folder(&[("a\u{a0}b.txt", "ONE"), ("a b.txt", "TWO")]);
    assert_eq!(read(&dir, "a\u{a0}b.txt").await, "ONE");
    assert_eq!(read(&dir, "a b.txt").await, "TWO");
    let at = dir.path().display();
    assert_eq!(
        read(&dir, "a\u{2009}b.txt").await,
        format!(
            "error: ENOENT: no such file or directory, access '{at}/a\u{2009}b.txt'\nSeveral names look the same: \"a b.txt\", \"a\\u{{a0}}b.txt\". Use the exact one."
        )
    );
}

#[tokio::test]
async fn an_edit_reaches_the_look_alike_and_a_write_makes_the_exact_name() {
    let dir = folder(&[("a\u{a0}b.txt", "one")]);
    let env = env(dir.path());
    let edit = json!({"path": "a b.txt", "oldText": "one", "newText": "two"});
    let said = text_of(&call(builtin("edit", &env).unwrap(), edit).await);
    assert_eq!(
        said,
        "Successfully replaced 1 block(s) in a b.txt.\n[Name on disk: a\u{a0}b.txt]"
    );
    assert_eq!(
        fs::read_to_string(dir.path().join("a\u{a0}b.txt")).unwrap(),
        "two"
    );
    let write = json!({"path": "a b.txt", "content": "new"});
    call(builtin("write", &env).unwrap(), write).await.unwrap();
    assert_eq!(
        fs::read_to_string(dir.path().join("a b.txt")).unwrap(),
        "new"
    );
    assert_eq!(
        fs::read_to_string(dir.path().join("a\u{a0}b.txt")).unwrap(),
        "two"
    );
}

#[test]
fn calls_state_the_path_they_touch() {
    let dir = folder(&[("a\u{a0}b", "")]);
    let env = env(dir.path());
    let check = |name: &str, path: &str, operation, expected: &str| {
        let tool = builtin(name, &env).unwrap();
        let path_access = Access::Path {
            operation,
            path: dir.path().join(expected),
        };
        assert_eq!(
            Tool::accesses(&*tool, &json!({"path": path})),
            [path_access],
            "{name} {path}"
        );
    };
    check("read", "x/../y", PathOperation::Read, "y");
    check("read", "a b", PathOperation::Read, "a\u{a0}b");
    check("edit", "a b", PathOperation::Write, "a\u{a0}b");
    check("write", "a b", PathOperation::Write, "a b");
    check("ls", ".", PathOperation::Read, "");
    let tool = builtin("read", &env).unwrap();
    let outside = Access::Path {
        operation: PathOperation::Read,
        path: Path::new("/etc/hosts").into(),
    };
    assert_eq!(tool.accesses(&json!({"path": "/etc/./hosts"})), [outside]);
}

#[test]
fn arguments_of_the_user_are_found_in_the_same_way() {
    let dir = folder(&[
        ("at 9\u{202f}AM.txt", "X"),
        ("d\u{2019}a.txt", "X"),
        ("home/h.txt", "X"),
        ("two\u{a0}x", "X"),
        ("two\u{3000}x", "X"),
    ]);
    let places = Places {
        cwd: dir.path(),
        home: Some(&dir.path().join("home")),
        fs: &LocalFileSystem,
    };
    let address = format!("file://{}/home/h.txt", dir.path().display());
    let rows = [
        ("at 9 AM.txt", "at 9\u{202f}AM.txt"),
        ("d'a.txt", "d\u{2019}a.txt"),
        ("~/h.txt", "home/h.txt"),
        (address.as_str(), "home/h.txt"),
        ("sub/../none", "none"),
    ];
    for (given, expected) in rows {
        assert_eq!(places.find(given), Ok(dir.path().join(expected)), "{given}");
    }
    let names = places.find("two x").unwrap_err();
    assert_eq!(names, ["two\u{a0}x", "two\u{3000}x"]);
    assert!(several_names(&names).starts_with("Several names look the same: "));
}
