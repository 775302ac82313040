//! What becomes of a call's arguments before the tool sees them.

use fluzo_agent::{RunEnd, ToolError};
use fluzo_testkit::{FakeTool, Reply, reply};
use serde_json::{Value, json};

use crate::stage::{Stage, error, good, result, tool};

fn schema() -> Value {
    json!({"type": "object", "required": ["path"], "properties": {"path": {"type": "string"}, "n": {"type": "number"}}})
}

/// One call of `read` with this argument text: its result, and what the tool got.
fn call(read: FakeTool, text: &str) -> ((String, bool), Vec<Value>) {
    let read = tool(read);
    let replies = [Reply::new().call("c1", "read", text), reply::text(["ok"])];
    let stage = Stage::new(replies, [read.clone()]);
    let outcome = stage.run();
    assert_eq!(outcome.end, RunEnd::Completed);
    let got = read.runs().into_iter().map(|run| run.arguments).collect();
    (result(&outcome, "c1"), got)
}

#[test]
fn an_unknown_tool_is_named_in_the_result() {
    let replies = [
        reply::calls([("c1", "nope", json!({"a": 1}))]),
        reply::text(["ok"]),
    ];
    let stage = Stage::new(replies, []);
    assert_eq!(result(&stage.run(), "c1"), error("Tool nope not found"));
}

#[test]
fn invalid_arguments_do_not_run_the_tool() {
    let (result, got) = call(FakeTool::new("read").schema(schema()), r#"{"n": 1}"#);
    let text = "Validation failed for tool \"read\":\n  - path: must have required properties path\n\nReceived arguments:\n{\n  \"n\": 1\n}";
    assert_eq!(result, error(text));
    assert!(got.is_empty());
}

#[test]
fn a_tool_gets_coerced_arguments() {
    let (result, got) = call(
        FakeTool::new("read").schema(schema()),
        r#"{"path": 5, "n": "2"}"#,
    );
    assert_eq!(result, good("read"));
    assert_eq!(got, [json!({"path": "5", "n": 2})]);
}

#[test]
fn arguments_are_prepared_before_they_are_validated() {
    let renames = |mut arguments: Value| {
        if let Some(path) = arguments.as_object_mut().and_then(|map| map.remove("file")) {
            arguments["path"] = path;
        }
        Ok(arguments)
    };
    let (result, got) = call(
        FakeTool::new("read").schema(schema()).prepares(renames),
        r#"{"file": "a"}"#,
    );
    assert_eq!(result, good("read"));
    assert_eq!(got, [json!({"path": "a"})]);
}

#[test]
fn arguments_that_cannot_be_prepared_are_an_error_result() {
    let refuses = |_| Err(ToolError::new("`path` and `file` differ"));
    let (result, got) = call(FakeTool::new("read").prepares(refuses), "{}");
    assert_eq!(result, error("`path` and `file` differ"));
    assert!(got.is_empty());
}

/// Arguments that are no JSON object: the tool does not run, the model is told, the raw
/// text stays in the journal, and the next request carries an object.
#[test]
fn malformed_arguments_never_run_and_never_poison_the_history() {
    for text in [
        r#"{"command":"x"#,
        r#""""#,
        "[1]",
        r#""str""#,
        "null",
        r#"{"a":1}{"#,
    ] {
        let read = tool(FakeTool::new("read"));
        let replies = [Reply::new().call("c1", "read", text), reply::text(["ok"])];
        let stage = Stage::new(replies, [read.clone()]);
        let outcome = stage.run();
        assert_eq!(outcome.end, RunEnd::Completed, "{text}");
        let (said, is_error) = result(&outcome, "c1");
        assert!(
            is_error && said.ends_with(&format!("Received:\n{text}")),
            "{said}"
        );
        assert!(read.runs().is_empty(), "{text}");
        let stored = outcome.messages[1].as_assistant().unwrap();
        assert_eq!(
            stored.tool_calls().next().unwrap().raw_arguments.as_deref(),
            Some(text)
        );
        let sent = serde_json::to_value(&outcome.messages[1]).unwrap();
        assert_eq!(sent["content"][0]["arguments"], json!({}), "{text}");
        assert_eq!(stage.world.model.requests()[1].transcript.len(), 3);
    }
}

/// A call that the model left open in a response that is otherwise complete.
#[test]
fn a_call_cut_off_in_its_arguments_is_never_run() {
    let read = tool(FakeTool::new("read"));
    let open = Reply::new().open_call("c1", "read", [r#"{"command":"rm -r bui"#]);
    let stage = Stage::new([open, reply::text(["ok"])], [read.clone()]);
    let outcome = stage.run();
    let (said, is_error) = result(&outcome, "c1");
    assert!(
        is_error && said.contains("not a complete JSON object"),
        "{said}"
    );
    assert!(read.runs().is_empty());
}

#[test]
fn raw_control_characters_in_strings_are_mended() {
    let (result, got) = call(FakeTool::new("read"), "{\"path\":\"a\nb\tc\"}");
    assert_eq!(result, good("read"));
    assert_eq!(got, [json!({"path": "a\nb\tc"})]);
}

/// What the model sent is not sent back to it in full when it is refused.
#[test]
fn refusals_repeat_a_bounded_part_of_what_was_sent() {
    let huge = "x".repeat(3_000_000);
    let refused = call(
        FakeTool::new("read").schema(schema()),
        &format!(r#"{{"other": "{huge}"}}"#),
    );
    let unknown = Stage::new(
        [
            reply::calls([("c1", huge.as_str(), json!({}))]),
            reply::text(["ok"]),
        ],
        [],
    );
    for (text, is_error) in [refused.0, result(&unknown.run(), "c1")] {
        assert!(is_error && text.len() < 20_000, "{}", text.len());
        assert!(text.ends_with("more bytes left out]"));
    }
}

/// A tool that fails keeps its own limits: a failing command's output is not cut again.
#[test]
fn what_a_failing_tool_says_is_not_cut() {
    let long = "y".repeat(100_000);
    let (said, _) = call(FakeTool::new("read").fails(&long), "{}");
    assert_eq!(said, error(&long));
}
