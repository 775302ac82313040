//! The points of the requirement's compatibility checklist that the loop answers for.

use fluzo_agent::{Agent, Input, RunEnd, StartError};
use fluzo_testkit::{FakeTool, Switch, poll_to_end, polling, reply, spec, user};
use serde_json::json;

use crate::stage::{Stage, good, result, said, tool};

#[test]
fn checklist_01_simple_prompt() {
    let stage = Stage::new([reply::text(["Hel", "lo"])], []);
    assert_eq!(stage.run().end, RunEnd::Completed);
    let expected = [
        "agent_start",
        "turn_start",
        "message_start(user)",
        "message_end(user)",
        "message_start(assistant)",
        "message_update:text_start",
        "message_update:text_delta",
        "message_update:text_delta",
        "message_update:text_end",
        "message_end(assistant)",
        "turn_end([])",
        "agent_end",
    ];
    assert_eq!(stage.log.names(), expected);
}

#[test]
fn checklist_02_tool_call_then_another_request() {
    let read = tool(FakeTool::new("read").update("half"));
    let replies = [
        reply::calls([("c1", "read", json!({"path": "a"}))]),
        reply::text(["done"]),
    ];
    let stage = Stage::new(replies, [read.clone()]);
    let outcome = stage.run();
    assert_eq!(read.runs()[0].arguments, json!({"path": "a"}));
    assert_eq!(
        stage.events("tool_execution"),
        [
            "tool_execution_start(c1)",
            "tool_execution_update(c1)",
            "tool_execution_end(c1)"
        ]
    );
    assert_eq!(result(&outcome, "c1"), good("read"));
    let requests = stage.world.model.requests();
    assert_eq!(requests.len(), 2);
    // user, call, result
    assert_eq!(requests[1].transcript.len(), 3);
}

#[test]
fn checklist_03_parallel_results_in_source_order() {
    let fast_is_done = Switch::new();
    let slow = tool(FakeTool::new("slow").wait(&fast_is_done));
    let fast = tool(FakeTool::new("fast").flip(&fast_is_done));
    let calls = [("c1", "slow", json!({})), ("c2", "fast", json!({}))];
    let stage = Stage::new([reply::calls(calls), reply::text(["done"])], [slow, fast]);
    let outcome = stage.run();
    assert_eq!(
        stage.events("tool_execution_end"),
        ["tool_execution_end(c2)", "tool_execution_end(c1)"]
    );
    assert_eq!(said(&outcome.messages), "hi | =c1 =c2 |");
}

#[test]
fn checklist_04_steering_enters_after_the_current_turn() {
    let (held, go) = (Switch::new(), Switch::new());
    let slow = tool(FakeTool::new("slow").flip(&held).wait(&go));
    let replies = [
        reply::calls([("c1", "slow", json!({}))]),
        reply::text(["after steering"]),
    ];
    let stage = Stage::new(replies, [slow]);
    let mut run = stage.start();
    assert!(polling::poll_until_stalled(&mut run).is_pending() && held.is_on());
    stage.agent.send(Input::Steer(user("S")));
    go.flip();
    let outcome = poll_to_end(run);
    assert_eq!(said(&outcome.messages), "hi | =c1 S |");
    let frame = stage.log.frame();
    let after = frame
        .iter()
        .skip_while(|name| *name != "turn_end([c1])")
        .take(4);
    assert!(after.eq([
        "turn_end([c1])",
        "turn_start",
        "message_start(user)",
        "message_end(user)"
    ]));
}

#[test]
fn checklist_05_follow_up_waits_for_tools_and_steering() {
    let (held, go) = (Switch::new(), Switch::new());
    let slow = tool(FakeTool::new("slow").flip(&held).wait(&go));
    let replies = [
        reply::calls([("c1", "slow", json!({}))]),
        reply::text(["to S"]),
        reply::text(["to F"]),
    ];
    let stage = Stage::new(replies, [slow]);
    let mut run = stage.start();
    assert!(polling::poll_until_stalled(&mut run).is_pending() && held.is_on());
    stage.agent.send(Input::FollowUp(user("F")));
    stage.agent.send(Input::Steer(user("S")));
    go.flip();
    assert_eq!(said(&poll_to_end(run).messages), "hi | =c1 S | F |");
}

#[test]
fn checklist_06_continue_after_a_response_needs_queued_input() {
    let stage = Stage::new(
        [reply::text(["a"]), reply::text(["b"]), reply::text(["c"])],
        [],
    );
    let messages = stage.run().messages;
    let mut again = spec("", stage.tools.clone());
    again.context.messages = messages;
    let refused = stage.agent.resume(again.clone()).err();
    assert_eq!(refused, Some(StartError::ContinueFromAssistant));
    for input in [Input::FollowUp(user("F")), Input::Steer(user("S"))] {
        stage.agent.send(input);
        let run = stage.agent.resume(again.clone()).unwrap();
        let said = said(&poll_to_end(run).messages);
        assert!(["F |", "S |"].contains(&said.as_str()), "{said}");
    }
}

#[test]
fn checklist_15_listeners_are_awaited_before_the_run_is_idle() {
    // The suite of agents holds a listener of `agent_end` and looks at `idle`.
    let checks = fluzo_testkit::conformance::agent_checks();
    let (_, check) = checks
        .into_iter()
        .find(|(name, _)| *name == "idle waits for listeners of the end")
        .unwrap();
    check(&|script| std::sync::Arc::new(fluzo_testkit::World::new(script.replies).native()));
}
