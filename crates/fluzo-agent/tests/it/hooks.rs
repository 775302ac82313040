//! Each hook, and each thing it may change.

use std::sync::{Arc, Mutex};

use fluzo_agent::{AfterToolCall, Agent, BeforeToolCall, Input, NextTurn, RunEnd};
use fluzo_llm::{Content, ThinkingLevel, content};
use fluzo_testkit::{
    FakeTool, Reply, ScriptedHooks, Switch, model, poll_to_end, polling, reply, tools, user,
};
use serde_json::{Value, json};

use crate::stage::{Stage, end_of, error, good, result, said, tool};

fn one_call() -> [Reply; 2] {
    [
        reply::calls([("c1", "read", json!({"path": "a"}))]),
        reply::text(["ok"]),
    ]
}

fn read() -> Arc<FakeTool> {
    let schema =
        json!({"type": "object", "required": ["path"], "properties": {"path": {"type": "string"}}});
    tool(FakeTool::new("read").schema(schema))
}

fn before(answer: BeforeToolCall) -> ((String, bool), Vec<Value>) {
    let read = read();
    let hooks = ScriptedHooks::new().before(move |_| answer.clone());
    let stage = Stage::hooked(one_call(), [read.clone()], hooks);
    let got = |read: &FakeTool| read.runs().into_iter().map(|run| run.arguments).collect();
    (result(&stage.run(), "c1"), got(&read))
}

#[test]
fn a_blocked_call_tells_the_reason() {
    let reason = Some("not on Fridays".to_owned());
    let (result, got) = before(BeforeToolCall::Block { reason });
    assert_eq!(result, error("not on Fridays"));
    assert!(got.is_empty());
}

#[test]
fn a_blocked_call_without_a_reason_has_the_standard_text() {
    let (result, got) = before(BeforeToolCall::Block { reason: None });
    assert_eq!(result, error("Tool execution was blocked"));
    assert!(got.is_empty());
}

#[test]
fn replaced_arguments_reach_the_tool_after_validation() {
    let (result, got) = before(BeforeToolCall::Replace(json!({"path": 7})));
    assert_eq!(result, good("read"));
    assert_eq!(got, [json!({"path": "7"})]);
}

#[test]
fn replaced_arguments_that_are_invalid_do_not_run() {
    let (result, got) = before(BeforeToolCall::Replace(json!({"file": "a"})));
    assert!(
        result.1 && result.0.starts_with("Validation failed for tool \"read\""),
        "{result:?}"
    );
    assert!(got.is_empty());
}

#[test]
fn the_before_hook_sees_validated_arguments() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let hooks = ScriptedHooks::new().before(move |call| {
        let what = (
            call.call_id.to_owned(),
            call.tool.to_owned(),
            call.arguments.clone(),
        );
        noted.lock().unwrap().push(what);
        BeforeToolCall::Proceed
    });
    let replies = [
        reply::calls([("c1", "read", json!({"path": 5}))]),
        reply::text(["ok"]),
    ];
    Stage::hooked(replies, [read()], hooks).run();
    assert_eq!(
        *seen.lock().unwrap(),
        [("c1".to_owned(), "read".to_owned(), json!({"path": "5"}))]
    );
}

#[test]
fn calls_that_fail_before_the_hook_do_not_reach_it() {
    let hooks = ScriptedHooks::new()
        .before(|call| panic!("{} was hooked", call.call_id))
        .after(|call, _, _| panic!("{} was hooked", call.call_id));
    let replies = [
        Reply::new()
            .call("c1", "missing", "{}")
            .call("c2", "read", "{}")
            .call("c3", "read", "["),
        reply::text(["ok"]),
    ];
    Stage::hooked(replies, [read()], hooks).run();
}

/// The result message of one call after this change, as JSON.
fn after(change: AfterToolCall) -> Value {
    let hooks = ScriptedHooks::new().after(move |_, _, _| change.clone());
    let stage = Stage::hooked(
        [one_call()[0].clone(), reply::text(["ok"])],
        [read()],
        hooks,
    );
    let outcome = stage.run();
    let message = outcome
        .messages
        .iter()
        .find(|m| m.as_tool_result().is_some())
        .unwrap();
    serde_json::to_value(message).unwrap()
}

#[test]
fn the_after_hook_replaces_each_field_alone() {
    let plain = after(AfterToolCall::default());
    let content = after(AfterToolCall {
        content: Some(vec![Content::text("other")]),
        ..AfterToolCall::default()
    });
    let details = after(AfterToolCall {
        details: Some(json!({"n": 1})),
        ..AfterToolCall::default()
    });
    let is_error = after(AfterToolCall {
        is_error: Some(true),
        ..AfterToolCall::default()
    });
    let differ = |one: &Value| -> Vec<String> {
        let keys = [
            "role",
            "toolCallId",
            "toolName",
            "content",
            "details",
            "isError",
            "timestamp",
        ];
        keys.iter()
            .filter(|key| one.get(**key) != plain.get(**key))
            .map(|key| (*key).to_owned())
            .collect()
    };
    assert_eq!(differ(&content), ["content"]);
    assert_eq!(content["content"][0]["text"], "other");
    assert_eq!(differ(&details), ["details"]);
    assert_eq!(details["details"], json!({"n": 1}));
    assert_eq!(differ(&is_error), ["isError"]);
    assert_eq!(is_error["isError"], true);
}

#[test]
fn the_after_hook_may_end_the_run() {
    let hooks = ScriptedHooks::new().after(|_, _, _| AfterToolCall {
        terminate: Some(true),
        ..AfterToolCall::default()
    });
    let stage = Stage::hooked([one_call()[0].clone()], [read()], hooks);
    assert_eq!(said(&stage.run().messages), "hi | =c1");
}

#[test]
fn the_after_hook_sees_failures_and_is_shown_in_the_end_of_the_call() {
    let bad = tool(FakeTool::new("read").fails("disk on fire"));
    let hooks = ScriptedHooks::new().after(|_, result, is_error| {
        assert!(is_error);
        assert_eq!(content::joined_text(&result.content), "disk on fire");
        AfterToolCall {
            content: Some(vec![Content::text("put out")]),
            is_error: Some(false),
            ..AfterToolCall::default()
        }
    });
    let stage = Stage::hooked(one_call(), [bad], hooks);
    assert_eq!(result(&stage.run(), "c1"), good("put out"));
    let fluzo_llm::AgentEvent::ToolExecutionEnd {
        result, is_error, ..
    } = end_of(&stage.log, "c1")
    else {
        panic!("an end");
    };
    assert!(!is_error);
    assert_eq!(content::joined_text(&result.content), "put out");
}

/// Two turns; what `next` says after the first shapes the second request.
fn second_request(next: NextTurn) -> fluzo_llm::ModelRequest {
    let next = Mutex::new(Some(next));
    let hooks = ScriptedHooks::new().next(move |_| next.lock().unwrap().take().unwrap_or_default());
    let stage = Stage::hooked(one_call(), [read()], hooks);
    stage.run();
    stage.world.model.requests().remove(1)
}

#[test]
fn prepare_next_turn_replaces_each_part_of_the_next_request() {
    let plain = second_request(NextTurn::default());
    assert_eq!(
        (&*plain.system_prompt, plain.model.id.as_str()),
        ("system", "m1")
    );
    assert_eq!((plain.transcript.len(), plain.tools.len()), (3, 1));
    let prompt = second_request(NextTurn {
        system_prompt: Some("other".into()),
        ..NextTurn::default()
    });
    assert_eq!(&*prompt.system_prompt, "other");
    let messages = second_request(NextTurn {
        messages: Some(vec![user("summary")]),
        ..NextTurn::default()
    });
    assert_eq!(messages.transcript.len(), 1);
    let no_tools = second_request(NextTurn {
        tools: Some(tools([])),
        ..NextTurn::default()
    });
    assert!(no_tools.tools.is_empty());
    let mut other = model();
    other.id = "m2".into();
    let other = second_request(NextTurn {
        model: Some(Arc::new(other)),
        ..NextTurn::default()
    });
    assert_eq!(other.model.id, "m2");
    let thinking = second_request(NextTurn {
        thinking: Some(ThinkingLevel::High),
        ..NextTurn::default()
    });
    assert_eq!(thinking.options.thinking, ThinkingLevel::High);
    assert_eq!(plain.options.thinking, ThinkingLevel::Off);
}

#[test]
fn a_replaced_transcript_is_the_state_as_well_and_the_next_hook_sees_it() {
    let hooks = ScriptedHooks::new()
        .next(|_| NextTurn {
            messages: Some(vec![user("summary")]),
            ..NextTurn::default()
        })
        .stop(|turn| {
            assert_eq!(said(turn.messages), "summary");
            true
        });
    let stage = Stage::hooked([one_call()[0].clone()], [read()], hooks);
    assert_eq!(stage.run().end, RunEnd::Stopped);
    stage
        .agent
        .state()
        .read(|state| assert_eq!(said(&state.messages), "summary"));
}

#[test]
fn hooks_of_a_turn_get_response_results_and_context() {
    let hooks = ScriptedHooks::new().next(|turn| {
        let calls = turn.message.as_assistant().unwrap().tool_calls().count();
        assert_eq!(calls, turn.tool_results.len());
        let context = if calls == 1 { "hi | =c1" } else { "hi | =c1 |" };
        assert_eq!(said(turn.messages), context);
        NextTurn::default()
    });
    Stage::hooked(one_call(), [read()], hooks).run();
}

#[test]
fn should_stop_ends_the_run_and_leaves_the_queues() {
    let hooks = ScriptedHooks::new().stop(|_| true);
    let (held, go) = (Switch::new(), Switch::new());
    let slow = tool(FakeTool::new("read").flip(&held).wait(&go));
    let stage = Stage::hooked([one_call()[0].clone()], [slow], hooks);
    let mut run = stage.start();
    stage.agent.send(Input::FollowUp(user("F")));
    assert!(polling::poll_until_stalled(&mut run).is_pending() && held.is_on());
    stage.agent.send(Input::Steer(user("S")));
    go.flip();
    let outcome = poll_to_end(run);
    assert_eq!(outcome.end, RunEnd::Stopped);
    assert_eq!(said(&outcome.messages), "hi | =c1");
    assert_eq!(stage.world.model.requests().len(), 1);
    let queued = stage.agent.queued();
    assert_eq!(
        (said(&queued.steering), said(&queued.follow_up)),
        ("S".into(), "F".into())
    );
    assert_eq!(
        stage.log.names().last().map(String::as_str),
        Some("agent_end")
    );
}

#[test]
fn a_failed_turn_asks_no_hook() {
    let hooks = ScriptedHooks::new()
        .next(|_| panic!("asked for the next turn"))
        .stop(|_| panic!("asked whether to stop"));
    let failing = reply::failing(fluzo_llm::StreamErrorKind::Quota, "used up");
    assert!(matches!(
        Stage::hooked([failing], [], hooks).run().end,
        RunEnd::Failed(_)
    ));
}
