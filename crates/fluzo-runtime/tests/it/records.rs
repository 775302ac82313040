//! Intents stand before effects and outcomes after them.

use std::sync::Arc;

use fluzo_agent::{Agent, AgentOptions, Intent, NativeAgent, NoHooks, Outcome, Record};
use fluzo_runtime::compose::{Layers, compose};
use fluzo_testkit::reply::{calls, text};
use fluzo_testkit::{FakeTool, World, poll_to_end, spec, tools};
use serde_json::json;

fn name(record: &Record) -> String {
    match record {
        Record::Message(message) => message.role().to_owned(),
        Record::Intent(Intent::RequestModel { model }) => format!("intent {model}"),
        Record::Intent(Intent::RunTool { call_id, .. }) => format!("intent {call_id}"),
        Record::Outcome(Outcome::RequestModel { ok }) => format!("outcome model {ok}"),
        Record::Outcome(Outcome::RunTool { call_id, ok }) => format!("outcome {call_id} {ok}"),
    }
}

#[test]
fn each_effect_is_framed_by_its_records() {
    let replies = [calls([("c1", "one", json!({}))]), text(["ok"])];
    let world = World::new(replies);
    let effects = compose(
        world.effects(),
        &Layers {
            record: true,
            drive: None,
            ..Layers::default()
        },
    );
    let agent = NativeAgent::new(
        effects,
        world.gate(),
        Arc::new(NoHooks),
        AgentOptions::default(),
    );
    let tool = Arc::new(FakeTool::new("one").fails("no"));
    poll_to_end(agent.start(spec("go", tools([&tool]))).unwrap());
    let names: Vec<String> = world.journal.records().iter().map(name).collect();
    let expected = [
        "user",
        "intent test/m1",
        "outcome model true",
        "assistant",
        "intent c1",
        "outcome c1 false",
        "toolResult",
        "intent test/m1",
        "outcome model true",
        "assistant",
    ];
    assert_eq!(names, expected);
}

#[test]
fn an_intent_that_cannot_be_stored_keeps_the_effect_from_happening() {
    let world = World::new([calls([("c1", "one", json!({}))])]);
    world
        .journal
        .fail_when(|_, record| matches!(record, Record::Intent(Intent::RunTool { .. })));
    let effects = compose(
        world.effects(),
        &Layers {
            record: true,
            drive: None,
            ..Layers::default()
        },
    );
    let agent = NativeAgent::new(
        effects,
        world.gate(),
        Arc::new(NoHooks),
        AgentOptions::default(),
    );
    let tool = Arc::new(FakeTool::new("one"));
    let outcome = poll_to_end(agent.start(spec("go", tools([&tool]))).unwrap());
    assert!(
        matches!(outcome.end, fluzo_agent::RunEnd::Halted(_)),
        "{:?}",
        outcome.end
    );
    assert!(tool.ran().is_empty());
}

#[test]
fn an_outcome_that_cannot_be_stored_halts_the_run() {
    let world = World::new([text(["hi"])]);
    world
        .journal
        .fail_when(|_, record| matches!(record, Record::Outcome(Outcome::RequestModel { .. })));
    let effects = compose(
        world.effects(),
        &Layers {
            record: true,
            drive: None,
            ..Layers::default()
        },
    );
    let agent = NativeAgent::new(
        effects,
        world.gate(),
        Arc::new(NoHooks),
        AgentOptions::default(),
    );
    let outcome = poll_to_end(agent.start(spec("go", tools([]))).unwrap());
    assert!(
        matches!(outcome.end, fluzo_agent::RunEnd::Halted(_)),
        "{:?}",
        outcome.end
    );
    assert_eq!(world.journal.messages().len(), 1, "no further effect");
}
