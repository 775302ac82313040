//! The seven tools against the schemas and notices of the requirement text.

use fluzo_llm::content::joined_text;
use fluzo_tools::registry::{ALL, builtin};
use serde_json::{Value, json};

use crate::support::{call, env};

/// Arguments with their types.
type Named = &'static [(&'static str, &'static str)];

/// Tool, its required and its optional arguments.
const SCHEMAS: [(&str, Named, Named); 7] = [
    (
        "read",
        &[("path", "string")],
        &[("offset", "number"), ("limit", "number")],
    ),
    ("bash", &[("command", "string")], &[("timeout", "number")]),
    ("edit", &[("path", "string"), ("edits", "array")], &[]),
    ("write", &[("path", "string"), ("content", "string")], &[]),
    (
        "grep",
        &[("pattern", "string")],
        &[
            ("path", "string"),
            ("glob", "string"),
            ("ignoreCase", "boolean"),
            ("literal", "boolean"),
            ("context", "number"),
            ("limit", "number"),
        ],
    ),
    (
        "find",
        &[("pattern", "string")],
        &[("path", "string"), ("limit", "number")],
    ),
    ("ls", &[], &[("path", "string"), ("limit", "number")]),
];

/// A call that runs into a limit or an end, and the notice that the text asks for.
fn notices() -> Vec<(&'static str, Value, &'static str)> {
    vec![
        (
            "read",
            json!({"path": "five", "limit": 2}),
            "[3 more lines in file. Use offset=3 to continue.]",
        ),
        ("bash", json!({"command": "true"}), "(no output)"),
        (
            "bash",
            json!({"command": "seq 5000"}),
            "[Showing lines 3001-5000 of 5000. Full output: ",
        ),
        (
            "edit",
            json!({"path": "five", "edits": [{"oldText": "l3", "newText": "L3"}]}),
            "Successfully replaced 1 block(s) in five.",
        ),
        (
            "write",
            json!({"path": "new", "content": "héé😀"}),
            "Successfully wrote 5 bytes to new",
        ),
        (
            "grep",
            json!({"pattern": "l", "limit": 1}),
            "[1 matches limit reached. Use limit=2 for more, or refine pattern]",
        ),
        ("grep", json!({"pattern": "absent"}), "No matches found"),
        (
            "find",
            json!({"pattern": "*", "limit": 1}),
            "[1 results limit reached. Use limit=2 for more, or refine pattern]",
        ),
        (
            "find",
            json!({"pattern": "absent"}),
            "No files found matching pattern",
        ),
        (
            "ls",
            json!({"limit": 1}),
            "[1 entries limit reached. Use limit=2 for more]",
        ),
    ]
}

#[tokio::test]
async fn checklist_10_seven_tools_with_the_schemas_and_notices_of_the_text() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("five"), "l1\nl2\nl3\nl4\nl5\n").unwrap();
    std::fs::write(dir.path().join("other"), "l\n").unwrap();
    let env = env(dir.path());
    assert_eq!(SCHEMAS.map(|(name, ..)| name), ALL);
    for (name, required, optional) in SCHEMAS {
        let parameters = builtin(name, &env).unwrap().spec().parameters.clone();
        let properties = parameters["properties"].as_object().unwrap();
        let expected: Vec<_> = required.iter().chain(optional).collect();
        assert_eq!(properties.len(), expected.len(), "{name}");
        for (argument, kind) in expected {
            assert_eq!(properties[*argument]["type"], *kind, "{name}.{argument}");
        }
        let names: Vec<&str> = required.iter().map(|(argument, _)| *argument).collect();
        assert_eq!(
            parameters.get("required").cloned().unwrap_or(json!([])),
            json!(names),
            "{name}"
        );
    }
    for (name, arguments, notice) in notices() {
        let output = call(builtin(name, &env).unwrap(), arguments).await.unwrap();
        let text = joined_text(&output.content);
        assert!(text.contains(notice), "{name}: {text}");
    }
}
