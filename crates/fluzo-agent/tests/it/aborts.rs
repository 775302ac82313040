//! Aborts at every place of a run.

use std::sync::Arc;

use fluzo_agent::{Agent, AgentOptions, ExecutionMode, Input, NoHooks, RunEnd, RunOutcome};
use fluzo_llm::content;
use fluzo_policy::Decision;
use fluzo_testkit::polling::poll_until_stalled;
use fluzo_testkit::{
    Ending, FakeTool, Reply, ScriptedHooks, ScriptedHuman, Switch, World, assert_valid_history,
    poll_to_end, reply, user,
};
use serde_json::json;

use crate::stage::{OPENING, Stage, error, good, result, said, tool};

/// Runs until the run waits for the test, aborts it, and runs it to the end.
fn abort(stage: &Stage) -> RunOutcome {
    let mut run = stage.start();
    assert!(poll_until_stalled(&mut run).is_pending());
    stage.agent.cancel();
    let outcome = poll_to_end(run);
    assert_eq!(outcome.messages, stage.world.journal.messages());
    assert_valid_history(&outcome.messages);
    outcome
}

/// The turn that follows an abort in a batch: no request, an empty response.
const ABORTED_TURN: [&str; 5] = [
    "turn_start",
    "message_start(assistant aborted)",
    "message_end(assistant aborted)",
    "turn_end([])",
    "agent_end",
];

#[test]
fn abort_while_streaming_keeps_the_partial_response() {
    let stage = Stage::new([reply::never_ending(["Hel", "lo"])], []);
    let outcome = abort(&stage);
    assert_eq!(outcome.end, RunEnd::Aborted);
    let rest = [
        "message_end(assistant aborted)",
        "turn_end([])",
        "agent_end",
    ];
    assert_eq!(stage.log.frame(), [&OPENING[..], &rest].concat());
    let last = outcome.messages.last().unwrap().as_assistant().unwrap();
    assert_eq!(content::joined_text(&last.content), "Hello");
    assert_eq!(last.error_message.as_deref(), Some("Request was aborted"));
}

#[test]
fn abort_while_a_call_is_streaming_never_runs_it() {
    let read = tool(FakeTool::new("read"));
    let half = Reply::new()
        .open_call("c1", "read", [r#"{"path": "/et"#])
        .until_abort();
    let stage = Stage::new([half], [read.clone()]);
    let outcome = abort(&stage);
    let last = outcome.messages.last().unwrap().as_assistant().unwrap();
    assert_eq!(
        last.tool_calls().next().unwrap().raw_arguments.as_deref(),
        Some(r#"{"path": "/et"#)
    );
    assert!(read.runs().is_empty());
}

#[test]
fn abort_during_a_tool_adds_an_aborted_turn_and_no_request() {
    let slow = tool(FakeTool::new("slow").until_abort());
    let stage = Stage::new([reply::calls([("c1", "slow", json!({}))])], [slow.clone()]);
    let outcome = abort(&stage);
    assert_eq!(outcome.end, RunEnd::Aborted);
    assert_eq!(stage.world.model.requests().len(), 1);
    let batch = [
        "message_end(assistant)",
        "tool_execution_start(c1)",
        "tool_execution_end(c1)",
        "message_start(toolResult c1)",
        "message_end(toolResult c1)",
        "turn_end([c1])",
    ];
    assert_eq!(
        stage.log.frame(),
        [&OPENING[..], &batch, &ABORTED_TURN].concat()
    );
    assert_eq!(result(&outcome, "c1"), error("the tool was aborted"));
    assert_eq!(slow.endings(), [Ending::Aborted]);
    let last = outcome.messages.last().unwrap().as_assistant().unwrap();
    assert!(last.content.is_empty());
    assert_eq!(last.error_message.as_deref(), Some("Request was aborted."));
}

#[test]
fn every_running_call_of_a_batch_sees_the_abort() {
    let slow = tool(FakeTool::new("slow").until_abort());
    let calls = [
        ("c1", "slow", json!({})),
        ("c2", "slow", json!({})),
        ("c3", "slow", json!({})),
    ];
    let stage = Stage::new([reply::calls(calls)], [slow.clone()]);
    let outcome = abort(&stage);
    assert_eq!(slow.endings(), [Ending::Aborted; 3]);
    assert_eq!(said(&outcome.messages), "hi | =c1 =c2 =c3 |");
}

#[test]
fn sequential_calls_after_an_abort_get_results_and_do_not_run() {
    let slow = tool(FakeTool::new("slow").until_abort());
    let later = tool(FakeTool::new("later"));
    let calls = [
        ("c1", "slow", json!({})),
        ("c2", "later", json!({})),
        ("c3", "missing", json!({})),
    ];
    let options = AgentOptions {
        execution: ExecutionMode::Sequential,
        ..AgentOptions::default()
    };
    let world = World::new([reply::calls(calls)]);
    let stage = Stage::with(world, NoHooks, options, [slow, later.clone()]);
    let outcome = abort(&stage);
    for id in ["c2", "c3"] {
        assert_eq!(result(&outcome, id), error("Operation aborted"));
    }
    assert!(later.runs().is_empty());
    assert_eq!(stage.world.tools.dispatched(), ["c1"]);
}

#[test]
fn abort_in_preflight_runs_neither_that_call_nor_those_before_it() {
    let read = tool(FakeTool::new("read"));
    // The hook never answers; the abort does not wait for it.
    let hooks = ScriptedHooks::new().hold("c2", &Switch::new());
    let calls = [
        ("c1", "read", json!({})),
        ("c2", "read", json!({})),
        ("c3", "read", json!({})),
    ];
    let stage = Stage::hooked([reply::calls(calls)], [read.clone()], hooks);
    let mut run = stage.start();
    assert!(poll_until_stalled(&mut run).is_pending());
    stage.agent.cancel();
    let outcome = poll_to_end(run);
    for id in ["c1", "c2", "c3"] {
        assert_eq!(result(&outcome, id), error("Operation aborted"), "{id}");
    }
    assert!(read.runs().is_empty());
    assert!(stage.world.tools.dispatched().is_empty());
}

#[test]
fn abort_withdraws_an_open_question() {
    let read = tool(FakeTool::new("read"));
    let world = World::with_human(
        [reply::calls([("c1", "read", json!({}))])],
        ScriptedHuman::silent(),
    );
    world.policy.set(
        "read",
        Decision::Ask {
            reason: "why".into(),
        },
    );
    let stage = Stage::with(world, NoHooks, AgentOptions::default(), [read.clone()]);
    let outcome = abort(&stage);
    assert_eq!(result(&outcome, "c1"), error("Operation aborted"));
    assert_eq!(stage.world.human.questions().len(), 1);
    assert!(read.runs().is_empty());
}

#[test]
fn a_tool_that_succeeds_in_spite_of_an_abort_keeps_its_result() {
    let (begun, go) = (Switch::new(), Switch::new());
    let stubborn = tool(FakeTool::new("stubborn").flip(&begun).wait(&go));
    let stage = Stage::new([reply::calls([("c1", "stubborn", json!({}))])], [stubborn]);
    let mut run = stage.start();
    assert!(poll_until_stalled(&mut run).is_pending() && begun.is_on());
    stage.agent.cancel();
    assert!(poll_until_stalled(&mut run).is_pending());
    go.flip();
    let outcome = poll_to_end(run);
    assert_eq!(result(&outcome, "c1"), good("stubborn"));
    assert_eq!(outcome.end, RunEnd::Aborted);
}

/// A tool that writes keeps its place until the write has settled; the loop waits for
/// it, and so does whoever comes next.
#[test]
fn abort_waits_until_a_write_has_settled() {
    let settled = Switch::new();
    let write = tool(FakeTool::new("write").wait(&settled));
    let stage = Stage::new(
        [reply::calls([("c1", "write", json!({}))])],
        [write.clone()],
    );
    let mut run = stage.start();
    assert!(poll_until_stalled(&mut run).is_pending());
    stage.agent.cancel();
    assert!(poll_until_stalled(&mut run).is_pending());
    assert_eq!(write.endings(), [Ending::Running]);
    assert!(stage.events("tool_execution_end").is_empty());
    settled.flip();
    let outcome = poll_to_end(run);
    assert_eq!(write.endings(), [Ending::Returned]);
    assert_eq!(result(&outcome, "c1"), good("write"));
}

#[test]
fn after_an_abort_nothing_is_taken_from_the_queues() {
    let (begun, go) = (Switch::new(), Switch::new());
    // The result ends the batch, so the loop would look at both queues.
    let stubborn = tool(
        FakeTool::new("stubborn")
            .flip(&begun)
            .wait(&go)
            .terminates("bye"),
    );
    let stage = Stage::new([reply::calls([("c1", "stubborn", json!({}))])], [stubborn]);
    let mut run = stage.start();
    assert!(poll_until_stalled(&mut run).is_pending());
    stage.agent.send(Input::Steer(user("S")));
    stage.agent.send(Input::FollowUp(user("F")));
    stage.agent.cancel();
    go.flip();
    let outcome = poll_to_end(run);
    assert_eq!(said(&outcome.messages), "hi | =c1");
    let queued = stage.agent.queued();
    assert_eq!(
        (said(&queued.steering), said(&queued.follow_up)),
        ("S".into(), "F".into())
    );
}

#[test]
fn each_request_of_a_run_shares_its_abort_and_no_other() {
    let read = tool(FakeTool::new("read"));
    let replies = [
        reply::calls([("c1", "read", json!({}))]),
        reply::never_ending(["a"]),
        reply::text(["b"]),
    ];
    let stage = Stage::new(replies, [read]);
    let mut run = stage.start();
    assert!(poll_until_stalled(&mut run).is_pending());
    let aborts = stage.world.model.aborts();
    assert!(aborts.iter().all(|abort| !abort.is_cancelled()));
    stage.agent.cancel();
    assert!(aborts.iter().all(|abort| abort.is_cancelled()));
    let _ = poll_to_end(run);
    let mut run = stage.start();
    assert!(poll_until_stalled(&mut run).is_ready());
}

#[test]
fn a_run_that_came_to_its_end_fires_no_abort() {
    let stage = Stage::new([reply::text(["a"])], []);
    stage.run();
    assert!(!stage.world.model.aborts()[0].is_cancelled());
    stage.agent.cancel();
    assert!(!stage.world.model.aborts()[0].is_cancelled());
}

#[test]
fn a_waker_may_look_at_the_agent_while_it_is_cancelled() {
    struct Nosy(Arc<dyn Agent>);
    impl std::task::Wake for Nosy {
        fn wake(self: Arc<Self>) {
            self.0.cancel();
            assert!(self.0.state().read(|state| state.is_streaming));
        }
    }
    let agent: Arc<dyn Agent> = Arc::new(World::new([reply::never_ending(["a"])]).native());
    let mut run = agent
        .start(fluzo_testkit::spec("hi", Default::default()))
        .unwrap();
    let waker = Arc::new(Nosy(Arc::clone(&agent))).into();
    let mut context = std::task::Context::from_waker(&waker);
    assert!(std::pin::pin!(&mut run).poll(&mut context).is_pending());
    agent.cancel();
    assert_eq!(poll_to_end(run).end, RunEnd::Aborted);
}
