//! Exact sequences of events, as they were observed of the reference.

use fluzo_agent::{AgentOptions, BeforeToolCall, ExecutionMode, NoHooks, RunEnd};
use fluzo_llm::{StopReason, StreamError, StreamErrorKind};
use fluzo_testkit::{FakeTool, Reply, ScriptedHooks, Switch, World, reply};
use serde_json::json;

use crate::stage::{LAST_TURN, OPENING, Stage, good, result, tool};

fn two_calls(first: &str, second: &str) -> [Reply; 2] {
    let calls = [("c1", first, json!({})), ("c2", second, json!({}))];
    [reply::calls(calls), reply::text(["done"])]
}

/// Checks what comes after the opening; the run makes its calls in the first turn and
/// ends with a turn that only says something.
fn check(stage: &Stage, calls: &[&str]) {
    assert_eq!(stage.run().end, RunEnd::Completed);
    let expected = [&OPENING[..], &["message_end(assistant)"], calls, &LAST_TURN].concat();
    assert_eq!(stage.log.frame(), expected);
}

#[test]
fn one_tool_call() {
    let read = tool(FakeTool::new("read").update("u"));
    let stage = Stage::new(
        [
            reply::calls([("c1", "read", json!({}))]),
            reply::text(["ok"]),
        ],
        [read],
    );
    check(
        &stage,
        &[
            "tool_execution_start(c1)",
            "tool_execution_update(c1)",
            "tool_execution_end(c1)",
            "message_start(toolResult c1)",
            "message_end(toolResult c1)",
            "turn_end([c1])",
        ],
    );
}

#[test]
fn parallel_calls_end_in_completion_order_and_report_in_source_order() {
    let go = Switch::new();
    let slow = tool(FakeTool::new("slow").update("s").wait(&go));
    let fast = tool(FakeTool::new("fast").update("f").flip(&go));
    check(
        &Stage::new(two_calls("slow", "fast"), [slow, fast]),
        &[
            "tool_execution_start(c1)",
            "tool_execution_start(c2)",
            "tool_execution_update(c1)",
            "tool_execution_update(c2)",
            "tool_execution_end(c2)",
            "tool_execution_end(c1)",
            "message_start(toolResult c1)",
            "message_end(toolResult c1)",
            "message_start(toolResult c2)",
            "message_end(toolResult c2)",
            "turn_end([c1,c2])",
        ],
    );
}

#[test]
fn calls_that_fail_before_they_run_end_before_the_next_one_starts() {
    let strict = tool(FakeTool::new("strict").schema(json!({"type": "object", "required": ["x"]})));
    let fine = tool(FakeTool::new("fine"));
    let blocked = tool(FakeTool::new("blocked"));
    let hooks = ScriptedHooks::new().before(|call| match call.tool {
        "blocked" => BeforeToolCall::Block { reason: None },
        _ => BeforeToolCall::Proceed,
    });
    let calls = [
        ("c1", "missing", json!({})),
        ("c2", "strict", json!({})),
        ("c3", "blocked", json!({})),
        ("c4", "fine", json!({})),
    ];
    check(
        &Stage::hooked(
            [reply::calls(calls), reply::text(["ok"])],
            [strict, fine, blocked],
            hooks,
        ),
        &[
            "tool_execution_start(c1)",
            "tool_execution_end(c1)",
            "tool_execution_start(c2)",
            "tool_execution_end(c2)",
            "tool_execution_start(c3)",
            "tool_execution_end(c3)",
            "tool_execution_start(c4)",
            "tool_execution_end(c4)",
            "message_start(toolResult c1)",
            "message_end(toolResult c1)",
            "message_start(toolResult c2)",
            "message_end(toolResult c2)",
            "message_start(toolResult c3)",
            "message_end(toolResult c3)",
            "message_start(toolResult c4)",
            "message_end(toolResult c4)",
            "turn_end([c1,c2,c3,c4])",
        ],
    );
}

const ONE_BY_ONE: [&str; 9] = [
    "tool_execution_start(c1)",
    "tool_execution_end(c1)",
    "message_start(toolResult c1)",
    "message_end(toolResult c1)",
    "tool_execution_start(c2)",
    "tool_execution_end(c2)",
    "message_start(toolResult c2)",
    "message_end(toolResult c2)",
    "turn_end([c1,c2])",
];

#[test]
fn sequential_mode_finishes_each_call_before_the_next() {
    let options = AgentOptions {
        execution: ExecutionMode::Sequential,
        ..AgentOptions::default()
    };
    let fakes = ["a", "b"].map(|name| tool(FakeTool::new(name).pause()));
    check(
        &Stage::with(World::new(two_calls("a", "b")), NoHooks, options, fakes),
        &ONE_BY_ONE,
    );
}

#[test]
fn one_sequential_tool_makes_the_whole_batch_sequential() {
    let parallel = || tool(FakeTool::new("a").pause());
    let alone = || tool(FakeTool::new("b").sequential());
    check(
        &Stage::new(two_calls("a", "b"), [parallel(), alone()]),
        &ONE_BY_ONE,
    );
    check(
        &Stage::new(two_calls("b", "a"), [parallel(), alone()]),
        &ONE_BY_ONE,
    );
}

#[test]
fn length_with_calls_still_runs_the_tools() {
    let read = tool(FakeTool::new("read"));
    let long = Reply::new()
        .call("c1", "read", "{}")
        .done(StopReason::Length);
    let stage = Stage::new([long, reply::text(["ok"])], [read.clone()]);
    check(
        &stage,
        &[
            "tool_execution_start(c1)",
            "tool_execution_end(c1)",
            "message_start(toolResult c1)",
            "message_end(toolResult c1)",
            "turn_end([c1])",
        ],
    );
    assert_eq!(read.ran(), ["c1"]);
}

#[test]
fn a_failed_response_with_calls_runs_none_of_them() {
    let read = tool(FakeTool::new("read"));
    for kind in [StreamErrorKind::Transient, StreamErrorKind::Incomplete] {
        let failed = Reply::new()
            .call("c1", "read", "{}")
            .fail(StreamError::new(kind, "lost"));
        let stage = Stage::new([failed], [read.clone()]);
        assert!(matches!(stage.run().end, RunEnd::Failed(_)));
        let expected = [
            &OPENING[..],
            &["message_end(assistant error)", "turn_end([])", "agent_end"],
        ];
        assert_eq!(stage.log.frame(), expected.concat());
        assert!(read.runs().is_empty());
    }
}

/// So it is also when nothing could be sent, for want of a key.
#[test]
fn a_request_that_never_began_is_shown_as_what_it_ended_as() {
    for kind in [StreamErrorKind::Connect, StreamErrorKind::Authentication] {
        let failed = Reply::without_start().fail(StreamError::new(kind, "no route"));
        let stage = Stage::new([failed], []);
        assert!(matches!(stage.run().end, RunEnd::Failed(_)));
        let rest = [
            "message_start(assistant error)",
            "message_end(assistant error)",
            "turn_end([])",
            "agent_end",
        ];
        assert_eq!(stage.log.frame(), [&OPENING[..4], &rest].concat());
    }
}

#[test]
fn after_length_whole_calls_run_and_cut_off_ones_fail() {
    let read = tool(FakeTool::new("read"));
    let long = Reply::new()
        .call("c1", "read", r#"{"a":1}"#)
        .open_call("c2", "read", [r#"{"a":"#])
        .done(StopReason::Length);
    let stage = Stage::new([long, reply::text(["ok"])], [read.clone()]);
    let outcome = stage.run();
    assert_eq!(read.ran(), ["c1"]);
    assert_eq!(result(&outcome, "c1"), good("read"));
    assert!(result(&outcome, "c2").1);
}

#[test]
fn start_done_and_error_of_a_stream_are_never_updates() {
    let failed = || {
        Reply::new()
            .text(["a"])
            .fail(StreamError::new(StreamErrorKind::Transient, "lost"))
    };
    for reply in [reply::text(["a"]), failed(), reply::cut(["a"])] {
        let stage = Stage::new([reply], []);
        stage.run();
        let updates =
            ["text_start", "text_delta", "text_end"].map(|name| format!("message_update:{name}"));
        assert_eq!(stage.events("message_update"), updates);
    }
}
