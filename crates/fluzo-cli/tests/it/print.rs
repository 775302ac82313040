//! Print mode: what stands on which stream, and the exit code.

use fluzo_sim::{Body, Completion, Reply, RequestExpectation, Scenario, Step, ToolCall};
use serde_json::json;

use crate::support::*;

#[test]
fn standard_output_holds_the_last_response_and_nothing_else() {
    let first = Reply::completion(Completion {
        text: Some("Let me look.".into()),
        thinking: Some("hm".into()),
        tool_calls: vec![bash("c1", "echo noise; echo more >&2")],
        ..Completion::default()
    });
    let simulator = simulator(scenario().step(first).step(Reply::text("It is\nso.")));
    let stage = Stage::with_fake(&simulator);
    stage.pi(&["-p", "hi"]).is(0, "It is\nso.\n", "");
    approve(simulator);
}

#[test]
fn several_messages_are_prompts_one_after_the_other() {
    let script = scenario()
        .step(Reply::text("one"))
        .step(Reply::text("two"))
        .step(Reply::text("three"));
    let simulator = simulator(script.max_connections(1));
    let stage = Stage::with_fake(&simulator);
    stage.pi(&["-p", "a", "b", "c"]).is(0, "three\n", "");
    assert_eq!(
        users(&simulator, 2),
        [text_block("a"), text_block("b"), text_block("c")]
    );
    approve(simulator);
}

/// A response that fails, in text and in JSON mode.
#[test]
fn a_failed_response_is_an_error_and_exit_code_one() {
    let bad = || Reply::error(400, "bad thing");
    let simulator = simulator(scenario().step(bad()).step(bad()));
    let stage = Stage::with_fake(&simulator);
    let text = stage.pi(&["-p", "hi"]);
    assert_eq!((text.code(), text.out().as_str()), (1, ""));
    assert!(text.err().contains("bad thing"), "{}", text.err());
    assert!(text.err().starts_with("400"), "{}", text.err());
    let json = stage.pi(&["--mode", "json", "hi"]);
    assert_eq!(json.code(), 1);
    assert_eq!(json.lines().last().unwrap()["type"], "agent_end");
    approve(simulator);
}

#[test]
fn a_failure_before_the_last_prompt_does_not_fail_the_run() {
    let script = scenario()
        .step(Reply::error(400, "bad thing"))
        .step(Reply::text("fine"));
    let simulator = simulator(script);
    let stage = Stage::with_fake(&simulator);
    let ran = stage.pi(&["-p", "a", "b"]);
    assert_eq!((ran.code(), ran.out().as_str()), (0, "fine\n"));
    approve(simulator);
}

#[test]
fn a_refused_attempt_is_made_again() {
    let busy = || Reply::error(503, "overloaded");
    let script = scenario()
        .step(busy())
        .step(busy())
        .step(Reply::text("there"));
    let simulator = simulator(script);
    let stage = Stage::with_fake(&simulator);
    stage.settings(&json!({"retry": {"baseDelayMs": 1}}));
    let waits = "503 overloaded; trying again in 1 s (1 of 3)\n503 overloaded; trying again in 1 s (2 of 3)\n";
    stage.pi(&["-p", "hi"]).is(0, "there\n", waits);
    let entries = entries(&stage.session());
    let roles = kinds(&entries);
    assert_eq!(
        roles[3..],
        ["user", "assistant", "assistant", "assistant"],
        "failed responses stay in the file"
    );
    assert_eq!(users(&simulator, 2), [text_block("hi")]);
    let body = &simulator.requests()[2].body;
    assert!(
        !body.to_string().contains("\"assistant\""),
        "and are not sent"
    );
    approve(simulator);
}

#[test]
fn attempts_end() {
    let busy = || Reply::error(503, "overloaded");
    let simulator = simulator(scenario().step(busy()).step(busy()));
    let stage = Stage::with_fake(&simulator);
    stage.settings(&json!({"retry": {"baseDelayMs": 1, "maxRetries": 1}}));
    let ran = stage.pi(&["-p", "hi"]);
    assert_eq!((ran.code(), ran.out().as_str()), (1, ""));
    assert!(ran.err().contains("overloaded"), "{}", ran.err());
    approve(simulator);
}

#[test]
fn without_a_message_there_is_nothing_to_do() {
    let ran = Stage::new().set("OPENAI_API_KEY", "k").pi(&["-p"]);
    assert_eq!((ran.code(), ran.out().as_str()), (1, ""));
    assert!(ran.err().contains("no message was given"), "{}", ran.err());
}

/// The order, the names and the size are part of what users pay for with each request.
#[test]
fn the_first_request_has_four_tools_and_is_small() {
    let expect = RequestExpectation {
        exact_tools: Some(
            ["read", "bash", "edit", "write"]
                .map(str::to_owned)
                .to_vec(),
        ),
        stream: Some(true),
        ..RequestExpectation::default()
    };
    let simulator = simulator(scenario().step(Step::new(Reply::text("ok")).expecting(expect)));
    let stage = Stage::with_fake(&simulator);
    stage.pi(&["-p", "hi"]).is(0, "ok\n", "");
    let body = &simulator.requests()[0].body;
    let size = body["tools"].to_string().len() + body["messages"][0].to_string().len();
    assert!(size <= 6_000, "{size} bytes");
    let keys: Vec<&str> = body
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    for key in [
        "model",
        "messages",
        "stream",
        "stream_options",
        "store",
        "tools",
    ] {
        assert!(keys.contains(&key), "{key}: {keys:?}");
    }
    assert_eq!(body["model"], "m1");
    assert_eq!(users(&simulator, 0), [text_block("hi")]);
    assert_eq!(
        simulator.requests()[0].header("authorization"),
        Some("Bearer sk-fake")
    );
    approve(simulator);
}

#[test]
fn the_four_tools_work_together() {
    let call = |id: &str, name: &str, arguments| Reply::calls([ToolCall::new(id, name, arguments)]);
    let script: Scenario = scenario()
        .step(call(
            "c1",
            "write",
            json!({"path": "a.txt", "content": "one\ntwo\n"}),
        ))
        .step(call(
            "c2",
            "edit",
            json!({"path": "a.txt", "edits": [{"oldText": "two", "newText": "TWO"}]}),
        ))
        .step(call("c3", "read", json!({"path": "a.txt"})))
        .step(call("c4", "bash", json!({"command": "pwd; cat a.txt"})))
        .step(Reply::text("done"));
    let simulator = simulator(script.max_connections(1));
    let stage = Stage::with_fake(&simulator);
    stage.pi(&["-p", "go"]).is(0, "done\n", "");
    let file = std::fs::read_to_string(stage.project().join("a.txt")).unwrap();
    assert_eq!(file, "one\nTWO\n");
    let last = &simulator.requests()[4].body["messages"];
    let result = last.as_array().unwrap().last().unwrap().to_string();
    let project = stage.project();
    assert!(
        result.contains(&format!("{}\\none\\nTWO", project.display())),
        "{result}"
    );
    approve(simulator);
}

/// Whatever the status, an allowance that is used up does not come back by asking again.
#[test]
fn a_used_up_allowance_is_not_asked_again() {
    let body = json!({"error": {"message": "used up", "type": "insufficient_quota", "code": "insufficient_quota"}});
    let script = scenario().step(Reply::with_body(429, Body::Json(body)));
    let simulator = simulator(script);
    let stage = Stage::with_fake(&simulator);
    stage.settings(&json!({"retry": {"baseDelayMs": 1}}));
    let ran = stage.pi(&["-p", "hi"]);
    assert_eq!((ran.code(), ran.out().as_str()), (1, ""));
    assert!(ran.err().contains("used up"), "{}", ran.err());
    assert_eq!(simulator.requests().len(), 1);
    approve(simulator);
}
