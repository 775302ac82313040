//! `--export`: session files as pages and as files of their own.

use std::fs;

use crate::support::Stage;

const SESSION: &str = r#"{"type":"session","version":3,"id":"s-1","timestamp":"2026-12-01T08:37:28.123Z","cwd":"/gone"}
{"type":"message","id":"a0000001","parentId":null,"timestamp":"2026-12-01T08:37:29.000Z","message":{"role":"user","content":[{"type":"text","text":"first <b>"}],"timestamp":1}}
{"type":"message","id":"a0000002","parentId":"a0000001","timestamp":"2026-12-01T08:37:30.000Z","message":{"role":"user","content":[{"type":"text","text":"left"}],"timestamp":2}}
{"type":"message","id":"a0000003","parentId":"a0000001","timestamp":"2026-12-01T08:37:31.000Z","message":{"role":"user","content":[{"type":"text","text":"right"}],"timestamp":3}}
"#;

/// Exports `arguments`, and what standard output says.
fn exported(stage: &Stage, arguments: &[&str]) -> String {
    let mut all = vec!["--export"];
    all.extend(arguments);
    let done = stage.pi(&all);
    assert_eq!((done.code(), done.err().as_str()), (0, ""), "{arguments:?}");
    done.out()
}

fn refused(stage: &Stage, arguments: &[&str]) -> String {
    let mut all = vec!["--export"];
    all.extend(arguments);
    let done = stage.pi(&all);
    assert_eq!((done.code(), done.out().as_str()), (1, ""), "{arguments:?}");
    done.err()
}

#[test]
fn a_session_file_becomes_a_page() {
    let stage = Stage::new();
    let source = stage.write("elsewhere/my one.jsonl", SESSION);
    let said = exported(&stage, &[source.to_str().unwrap()]);
    assert_eq!(said, "Exported to: pi-session-my one.html\n");
    let page = fs::read_to_string(stage.path("project/pi-session-my one.html")).unwrap();
    for part in [
        "<!doctype html>",
        "first &lt;b>",
        "Branch of 1 entry: left",
        "right",
        "</html>\n",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert_eq!(fs::read_to_string(&source).unwrap(), SESSION);
    // The first message names the file.
    let target = stage.path("tmp/out.html");
    let said = exported(
        &stage,
        &[source.to_str().unwrap(), target.to_str().unwrap()],
    );
    assert_eq!(said, format!("Exported to: {}\n", target.display()));
    assert_eq!(fs::read_to_string(&target).unwrap(), page);
}

#[test]
fn the_path_becomes_a_session_file() {
    let stage = Stage::new();
    stage.write("project/s.jsonl", SESSION);
    for _ in 0..2 {
        // An earlier export of the same session is replaced.
        exported(&stage, &["s.jsonl", "path.jsonl"]);
        let text = fs::read_to_string(stage.path("project/path.jsonl")).unwrap();
        assert_eq!(text.lines().count(), 3);
        assert!(text.contains(r#""id":"s-1""#) && !text.contains("left"));
        assert!(text.contains(r#""id":"a0000003","parentId":"a0000001""#));
    }
}

#[test]
fn no_session_is_written_over() {
    let stage = Stage::new();
    let one = stage.write("project/s.jsonl", SESSION);
    let other = stage.write("project/other.jsonl", SESSION.replace("s-1", "s-2"));
    for (target, path) in [
        ("s.jsonl", &one),
        ("./s.jsonl", &one),
        ("other.jsonl", &other),
    ] {
        let before = fs::read(path).unwrap();
        let said = refused(&stage, &["s.jsonl", target]);
        let want = format!(
            "Error: `{}` is a session and stays as it is\nhint: name another file\n",
            path.display()
        );
        assert_eq!(said, want);
        assert_eq!(fs::read(path).unwrap(), before);
    }
}

#[test]
fn what_cannot_be_exported_is_said() {
    let stage = Stage::new();
    let head = SESSION.lines().next().unwrap();
    stage.write("project/empty.jsonl", format!("{head}\n"));
    let bad = stage.write("project/bad.jsonl", "no session\n");
    let missing = stage.path("project/none.jsonl");
    let rows = [
        (
            "none.jsonl",
            format!("File not found: {}", missing.display()),
        ),
        (
            "bad.jsonl",
            format!("Session file is not a valid pi session: {}", bad.display()),
        ),
        (
            "empty.jsonl",
            "Nothing to export yet - start a conversation first".to_owned(),
        ),
    ];
    for (source, text) in rows {
        assert_eq!(refused(&stage, &[source]), format!("Error: {text}\n"));
    }
    stage.write("project/s.jsonl", SESSION);
    let said = refused(&stage, &["s.jsonl", "no/such/folder/x.html"]);
    assert!(said.starts_with("Error: cannot write `"), "{said}");
    let left: Vec<_> = fs::read_dir(stage.project()).unwrap().collect();
    assert_eq!(left.len(), 3);
}
