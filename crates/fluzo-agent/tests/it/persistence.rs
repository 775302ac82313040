//! What is stored comes first, and what cannot be stored stops everything.

use std::sync::Arc;

use fluzo_agent::{Agent, AgentOptions, ExecutionMode, Halt, NoHooks, Record, RunEnd};
use fluzo_llm::{AgentEvent, Message, Phase};
use fluzo_testkit::polling::poll_until_stalled;
use fluzo_testkit::{
    Ending, FakeTool, Reply, Switch, World, assert_valid_history, poll_to_end, reply,
};
use serde_json::json;

use crate::stage::{Stage, said, tool};

fn two_calls() -> Reply {
    reply::calls([("c1", "read", json!({})), ("c2", "read", json!({}))])
}

/// What had happened when append number `at` failed: appends, requests, tool runs.
fn counts(at: usize, execution: ExecutionMode) -> (usize, usize, usize) {
    let world = World::new([two_calls(), reply::text(["ok"])]);
    world.journal.fail_at(at);
    let options = AgentOptions {
        execution,
        ..AgentOptions::default()
    };
    let read = tool(FakeTool::new("read"));
    let stage = Stage::with(world, NoHooks, options, [read.clone()]);
    let outcome = poll_to_end(stage.start());
    assert!(
        matches!(outcome.end, RunEnd::Halted(Halt::Append(_))),
        "{:?}",
        outcome.end
    );
    // Everything the run says it added is stored, and nothing more was tried.
    assert_eq!(outcome.messages, stage.world.journal.messages());
    assert_eq!(stage.world.journal.attempts(), at + 1);
    let shown = stage
        .log
        .names()
        .iter()
        .filter(|name| name.starts_with("message_end"))
        .count();
    assert_eq!(shown, at, "only what is stored is shown as complete");
    assert_eq!(
        stage.log.names().last().map(String::as_str),
        Some("agent_end")
    );
    stage.agent.state().read(|state| {
        assert_eq!(state.phase(), Phase::Idle);
        assert_eq!(state.messages, outcome.messages);
        let error = state.error_message.as_deref().unwrap();
        assert!(
            error.starts_with("the session could not be saved: "),
            "{error}"
        );
    });
    (at, stage.world.model.requests().len(), read.runs().len())
}

#[test]
fn a_failed_append_stops_the_run_before_any_further_effect() {
    // prompt, response, result of c1, result of c2, response
    let rows = [(0, 0, 0), (1, 1, 0), (2, 1, 2), (3, 1, 2), (4, 2, 2)];
    for row in rows {
        assert_eq!(counts(row.0, ExecutionMode::Parallel), row);
    }
    let rows = [(0, 0, 0), (1, 1, 0), (2, 1, 1), (3, 1, 2), (4, 2, 2)];
    for row in rows {
        assert_eq!(counts(row.0, ExecutionMode::Sequential), row);
    }
}

#[test]
fn a_message_is_stored_before_it_is_shown() {
    struct Compare(World);
    impl fluzo_agent::Listener for Compare {
        fn on_event<'a>(
            &'a self,
            event: &'a AgentEvent,
            state: &'a fluzo_llm::StateCell,
        ) -> fluzo_llm::BoxFuture<'a, ()> {
            let stored = self.0.journal.messages();
            if let AgentEvent::MessageEnd { message } = event {
                assert_eq!(stored.last(), Some(message));
                state.read(|state| assert_eq!(state.messages, stored));
            }
            if let AgentEvent::ToolExecutionStart { .. } = event {
                assert!(stored.last().unwrap().as_assistant().is_some());
            }
            Box::pin(std::future::ready(()))
        }
    }
    let stage = Stage::new(
        [two_calls(), reply::text(["ok"])],
        [tool(FakeTool::new("read"))],
    );
    let _subscription = stage
        .agent
        .subscribe(Arc::new(Compare(stage.world.clone())));
    stage.run();
}

#[test]
fn the_loop_appends_messages_only() {
    let stage = Stage::new(
        [two_calls(), reply::text(["ok"])],
        [tool(FakeTool::new("read"))],
    );
    stage.run();
    let records = stage.world.journal.records();
    assert!(
        records
            .iter()
            .all(|record| matches!(record, Record::Message(_)))
    );
    assert_eq!(records.len(), 5);
}

#[test]
fn a_run_can_start_after_a_halt() {
    let world = World::new([reply::text(["a"]), reply::text(["b"])]);
    world.journal.fail_at(1);
    let stage = Stage::with(world, NoHooks, AgentOptions::default(), []);
    assert!(matches!(poll_to_end(stage.start()).end, RunEnd::Halted(_)));
    assert_eq!(poll_to_end(stage.start()).end, RunEnd::Completed);
    stage
        .agent
        .state()
        .read(|state| assert_eq!(state.error_message, None));
}

#[test]
fn a_halt_of_one_call_ends_a_sibling_that_hangs() {
    for hangs in [
        FakeTool::new("hangs").until_abort(),
        FakeTool::new("hangs").forever(),
    ] {
        let hangs = tool(hangs);
        let calls = [
            ("c1", "hangs", json!({})),
            ("c2", "halts", json!({})),
            ("c3", "hangs", json!({})),
        ];
        let halts = tool(FakeTool::new("halts"));
        let stage = Stage::new([reply::calls(calls)], [hangs.clone(), halts.clone()]);
        let now = Switch::new();
        let halt = Halt::Stopped("the budget is used up".into());
        stage.world.tools.halt("c2", &now, halt.clone());
        let mut run = stage.start();
        assert!(poll_until_stalled(&mut run).is_pending());
        assert_eq!(hangs.endings(), [Ending::Running; 2]);
        now.flip();
        let outcome = poll_to_end(run);
        assert_eq!(outcome.end, RunEnd::Halted(halt));
        assert!(!hangs.endings().contains(&Ending::Running));
        assert!(halts.runs().is_empty());
        assert_eq!(said(&stage.world.journal.messages()), "hi |");
        stage.agent.state().read(|state| {
            assert_eq!(state.phase(), Phase::Idle);
            assert!(state.pending_tool_calls.is_empty());
        });
        assert_eq!(
            stage.log.names().last().map(String::as_str),
            Some("agent_end")
        );
    }
}

#[test]
fn a_halt_instead_of_a_request_sends_nothing() {
    let stage = Stage::new(
        [two_calls(), reply::text(["ok"])],
        [tool(FakeTool::new("read"))],
    );
    stage
        .world
        .model
        .halt_at(1, Halt::Stopped("no slot".into()));
    let outcome = poll_to_end(stage.start());
    assert_eq!(outcome.end, RunEnd::Halted(Halt::Stopped("no slot".into())));
    assert_eq!(stage.world.model.requests().len(), 1);
    assert_valid_history(&stage.world.journal.messages());
    assert_eq!(said(&outcome.messages), "hi | =c1 =c2");
}

#[test]
fn a_dropped_run_ends_its_tools_and_its_request() {
    let hangs = tool(FakeTool::new("hangs").forever());
    let replies = [
        reply::calls([("c1", "hangs", json!({}))]),
        reply::text(["ok"]),
    ];
    let stage = Stage::new(replies, [hangs.clone()]);
    let mut run = stage.start();
    assert!(poll_until_stalled(&mut run).is_pending());
    assert_eq!(stage.agent.state().phase(), Phase::ExecutingTool);
    drop(run);
    assert_eq!(hangs.endings(), [Ending::Dropped]);
    assert!(stage.world.model.aborts()[0].is_cancelled());
    stage.agent.state().read(|state| {
        assert_eq!(state.phase(), Phase::Idle);
        assert!(state.pending_tool_calls.is_empty() && state.streaming_message.is_none());
    });
    // What was stored stays; the next request is valid all the same.
    let mut again = fluzo_testkit::spec("next", stage.tools.clone());
    again.context.messages = stage.world.journal.messages();
    assert_eq!(said(&again.context.messages), "hi |");
    let run = stage.agent.start(again).unwrap();
    assert_eq!(poll_to_end(run).end, RunEnd::Completed);
    // user, call, a result that stands in, user
    assert_eq!(stage.world.model.requests()[1].transcript.len(), 4);
}

#[test]
fn timestamps_come_from_the_time_effect() {
    let stage = Stage::new([reply::text(["a"])], []);
    stage
        .world
        .time
        .advance(std::time::Duration::from_millis(5));
    let outcome = stage.run();
    let Message::Assistant(response) = &*outcome.messages[1] else {
        panic!("a response");
    };
    assert_eq!(response.timestamp, 1_700_000_000_005);
}
