//! The manual drive itself.

use std::sync::Arc;
use std::task::Poll;

use fluzo_agent::{Agent, AgentOptions, NativeAgent, NoHooks, RunEnd};
use fluzo_llm::Phase;
use fluzo_runtime::compose::{Layers, compose};
use fluzo_runtime::drive::ManualDrive;
use fluzo_testkit::polling::poll_until_stalled;
use fluzo_testkit::reply::{calls, text};
use fluzo_testkit::{EventLog, FakeTool, World, spec, tools};
use serde_json::json;

struct Stage {
    world: World,
    drive: ManualDrive,
    agent: NativeAgent,
}

fn stage(replies: impl IntoIterator<Item = fluzo_testkit::Reply>) -> Stage {
    let world = World::new(replies);
    let drive = ManualDrive::new();
    let effects = compose(
        world.effects(),
        &Layers {
            record: false,
            drive: Some(drive.clone()),
            ..Layers::default()
        },
    );
    let agent = NativeAgent::new(
        effects,
        world.gate(),
        Arc::new(NoHooks),
        AgentOptions::default(),
    );
    Stage {
        world,
        drive,
        agent,
    }
}

fn release_until(run: &mut fluzo_agent::Run, drive: &ManualDrive, wanted: &str) {
    loop {
        assert!(
            poll_until_stalled(run).is_pending(),
            "`{wanted}` never came"
        );
        let parked = drive.parked();
        if parked.iter().any(|name| name == wanted) {
            return;
        }
        assert!(drive.release(&parked[0]));
    }
}

fn to_end(run: &mut fluzo_agent::Run, drive: &ManualDrive) -> fluzo_agent::RunOutcome {
    loop {
        match poll_until_stalled(run) {
            Poll::Ready(outcome) => return outcome,
            Poll::Pending => {
                let parked = drive.parked();
                assert!(
                    parked.iter().any(|name| drive.release(name)),
                    "the run hangs"
                );
            }
        }
    }
}

#[test]
fn nothing_happens_before_it_is_released() {
    let stage = stage([text(["hi"])]);
    let mut run = stage.agent.start(spec("go", tools([]))).unwrap();
    release_until(&mut run, &stage.drive, "request_model");
    assert!(stage.world.model.requests().is_empty());
    assert_eq!(stage.world.journal.messages().len(), 1);
    assert_eq!(stage.agent.state().phase(), Phase::Thinking);
    assert_eq!(to_end(&mut run, &stage.drive).end, RunEnd::Completed);
}

#[test]
fn both_orders_of_two_parallel_calls_can_be_forced() {
    for (first, second) in [("c1", "c2"), ("c2", "c1")] {
        let stage = stage([
            calls([("c1", "one", json!({})), ("c2", "two", json!({}))]),
            text(["ok"]),
        ]);
        let (one, two) = (
            Arc::new(FakeTool::new("one")),
            Arc::new(FakeTool::new("two")),
        );
        let log = Arc::new(EventLog::new());
        let _listening = stage.agent.subscribe(Arc::clone(&log) as _);
        let mut run = stage.agent.start(spec("go", tools([&one, &two]))).unwrap();
        release_until(&mut run, &stage.drive, "run_tool:c1");
        for id in [first, second] {
            assert!(stage.drive.release(&format!("run_tool:{id}")));
            assert!(poll_until_stalled(&mut run).is_pending());
        }
        to_end(&mut run, &stage.drive);
        let ends: Vec<String> = log
            .names()
            .into_iter()
            .filter(|n| n.starts_with("tool_execution_end"))
            .collect();
        assert_eq!(
            ends,
            [
                format!("tool_execution_end({first})"),
                format!("tool_execution_end({second})")
            ]
        );
        let results: Vec<String> = stage
            .world
            .journal
            .messages()
            .iter()
            .filter_map(|m| m.as_tool_result().map(|r| r.tool_call_id.clone()))
            .collect();
        assert_eq!(results, ["c1", "c2"], "results stand in source order");
    }
}

#[test]
fn a_halt_of_one_call_does_not_wait_for_a_sibling_that_hangs() {
    let stage = stage([calls([("c1", "one", json!({})), ("c2", "two", json!({}))])]);
    let (one, hanging) = (
        Arc::new(FakeTool::new("one")),
        Arc::new(FakeTool::new("two").forever()),
    );
    let mut run = stage
        .agent
        .start(spec("go", tools([&one, &hanging])))
        .unwrap();
    release_until(&mut run, &stage.drive, "run_tool:c2");
    assert!(stage.drive.release("run_tool:c2"));
    assert!(poll_until_stalled(&mut run).is_pending());
    assert!(stage.drive.halt("run_tool:c1", "stop"));
    let outcome = to_end(&mut run, &stage.drive);
    assert!(
        matches!(outcome.end, RunEnd::Halted(_)),
        "{:?}",
        outcome.end
    );
    assert!(one.ran().is_empty());
    assert_eq!(stage.agent.state().phase(), Phase::Idle);
}

#[test]
fn a_failed_item_of_a_response_fails_the_response() {
    let stage = stage([text(["a", "b"])]);
    let mut run = stage.agent.start(spec("go", tools([]))).unwrap();
    release_until(&mut run, &stage.drive, "stream:text_delta");
    assert!(stage.drive.fail("stream:text_delta", "cut off"));
    let outcome = to_end(&mut run, &stage.drive);
    assert!(
        matches!(outcome.end, RunEnd::Failed(_)),
        "{:?}",
        outcome.end
    );
}

#[test]
fn an_abort_is_not_held_up_by_what_is_parked() {
    let stage = stage([text(["a", "b"])]);
    let mut run = stage.agent.start(spec("go", tools([]))).unwrap();
    release_until(&mut run, &stage.drive, "stream:text_delta");
    stage.agent.cancel();
    let outcome = to_end(&mut run, &stage.drive);
    assert_eq!(outcome.end, RunEnd::Aborted);
}

#[test]
fn an_abort_is_not_held_up_by_a_request_that_is_parked() {
    let stage = stage([]);
    let mut run = stage.agent.start(spec("go", tools([]))).unwrap();
    release_until(&mut run, &stage.drive, "request_model");
    stage.agent.cancel();
    assert!(
        poll_until_stalled(&mut run).is_pending(),
        "the response is stored"
    );
    assert_eq!(stage.drive.parked(), ["append:assistant"]);
    assert_eq!(to_end(&mut run, &stage.drive).end, RunEnd::Aborted);
    assert!(stage.world.model.requests().is_empty());
}

#[test]
fn a_run_that_is_dropped_leaves_nothing_parked() {
    let stage = stage([text(["a"])]);
    let mut run = stage.agent.start(spec("go", tools([]))).unwrap();
    release_until(&mut run, &stage.drive, "request_model");
    drop(run);
    assert!(stage.drive.parked().is_empty());
    assert_eq!(stage.agent.state().phase(), Phase::Idle);
}
