//! Names and arguments that would spoil a result.

use fluzo_tools::registry::builtin;
use serde_json::{Value, json};

use crate::support::{call, env, text_of, tree};

async fn outcome(dir: &tempfile::TempDir, tool: &str, args: Value) -> String {
    text_of(&call(builtin(tool, &env(dir.path())).unwrap(), args).await)
}

#[tokio::test]
async fn names_with_control_characters_stay_on_their_line() {
    let dir = tree(&[("a\nb\u{1b}[2J.txt", "hit\n"), ("d\u{7}/x", "hit\n")]);
    let rows = [
        ("ls", json!({}), "a\\nb\\x1b[2J.txt\nd\\x07/"),
        ("find", json!({"pattern": "*.txt"}), "a\\nb\\x1b[2J.txt"),
        ("find", json!({"pattern": "x"}), "d\\x07/x"),
        (
            "grep",
            json!({"pattern": "hit"}),
            "a\\nb\\x1b[2J.txt:1: hit\nd\\x07/x:1: hit",
        ),
        (
            "read",
            json!({"path": "."}),
            "a\\nb\\x1b[2J.txt\nd\\x07/\n  x",
        ),
    ];
    for (tool, args, expected) in rows {
        assert_eq!(outcome(&dir, tool, args).await, expected, "{tool}");
    }
}

#[tokio::test]
async fn errors_repeat_only_the_begin_of_long_arguments() {
    let dir = tree(&[("f", "a\n")]);
    let long = "x".repeat(300_000);
    let rows = [
        ("edit", json!({"path": "f", "edits": format!("[{{{long}")})),
        ("edit", json!({"path": "f", "file_path": long, "edits": []})),
        (
            "edit",
            json!({"path": long, "oldText": "a", "newText": "b"}),
        ),
        ("read", json!({"path": long})),
        ("write", json!({"path": long, "content": ""})),
        ("ls", json!({"path": long})),
        ("find", json!({"path": long, "pattern": "*"})),
        ("find", json!({"pattern": format!("{{{long}")})),
        ("grep", json!({"path": long, "pattern": "a"})),
        ("grep", json!({"pattern": format!("({long}")})),
        ("grep", json!({"pattern": "a", "glob": format!("{{{long}")})),
    ];
    for (tool, args) in rows {
        let error = outcome(&dir, tool, args).await;
        let short: String = error.chars().take(200).collect();
        assert!(error.starts_with("error: "), "{tool} {short}");
        assert!(error.len() < 3000, "{tool} {} {short}", error.len());
        assert!(error.contains("more characters]"), "{tool} {short}");
    }
}
