//! A crash before and after every effect of a run with two parallel calls, in both
//! orders of completion and over both stores.

use std::sync::Arc;

use fluzo_llm::Transcript;
use fluzo_llm::convert::to_model_messages;
use fluzo_runtime::drive::ManualDrive;
use fluzo_testkit::reply::{calls, text};
use fluzo_testkit::{FakeTool, assert_valid_history};
use serde_json::json;

use crate::life::{Kind, Life, Place, Setup};

/// Which of two parked tool runs goes first.
const ORDERS: [[&str; 2]; 2] = [
    ["run_tool:c1", "run_tool:c2"],
    ["run_tool:c2", "run_tool:c1"],
];

fn two_calls() -> Vec<fluzo_testkit::Reply> {
    let both = [("c1", "one", json!({})), ("c2", "two", json!({}))];
    vec![calls(both), text(["done"])]
}

/// Releases `steps` effects, then drops the run. Returns how many there were.
fn live_and_crash(
    place: &Place,
    tools: &[Arc<FakeTool>; 2],
    order: [&str; 2],
    record: bool,
    steps: usize,
) -> usize {
    let drive = ManualDrive::new();
    let mut life = Life::begin(
        place,
        Setup {
            tools: tools.iter().collect(),
            drive: Some(drive.clone()),
            record,
            ..Setup::new(two_calls())
        },
    );
    life.prompt("go");
    for done in 0..steps {
        let parked = life.parked();
        let first = order.iter().find(|name| parked.iter().any(|p| p == *name));
        let next = first.copied().or(parked.first().map(String::as_str));
        match next {
            Some(name) => assert!(drive.release(name)),
            None => return done,
        }
    }
    // Lets what was released happen, and nothing more.
    life.parked();
    steps
}

/// Opens the session again and goes on: what is stored and what is sent must be whole.
fn go_on(place: &Place, tools: &[Arc<FakeTool>; 2], context: &str) {
    let mut life = Life::begin(
        place,
        Setup {
            tools: tools.iter().collect(),
            ..Setup::new([text(["ok"])])
        },
    );
    life.prompt("again");
    let report = life.finish();
    assert!(report.halted.is_none(), "{context}");
    let stored = place.messages();
    assert_valid_history(&stored);
    assert!(
        Transcript::new(to_model_messages(&stored)).is_ok(),
        "{context}"
    );
    for tool in tools {
        assert!(tool.ran().len() <= 1, "{context}: executed twice");
    }
}

fn check(kind: Kind, order: [&str; 2], record: bool) {
    for steps in 0.. {
        let place = Place::new(kind);
        let tools = [
            Arc::new(FakeTool::new("one")),
            Arc::new(FakeTool::new("two")),
        ];
        let context = format!("{kind:?} {order:?} crash after {steps}");
        let done = live_and_crash(&place, &tools, order, record, steps);
        go_on(&place, &tools, &context);
        if done < steps {
            assert!(steps > 10, "{context}: too few effects");
            return;
        }
    }
}

#[test]
fn at_every_boundary_in_memory() {
    for order in ORDERS {
        check(Kind::Memory, order, false);
    }
}

#[test]
fn at_every_boundary_in_a_file() {
    for order in ORDERS {
        check(Kind::Jsonl, order, false);
    }
}

#[test]
fn at_every_boundary_with_intents_and_outcomes() {
    for order in ORDERS {
        check(Kind::Jsonl, order, true);
    }
}

/// What each call of an unfinished batch is told after a crash.
#[test]
fn unfinished_calls_are_interrupted_with_unknown_outcome() {
    let place = Place::new(Kind::Jsonl);
    let tools = [
        Arc::new(FakeTool::new("one")),
        Arc::new(FakeTool::new("two")),
    ];
    let drive = ManualDrive::new();
    let mut life = Life::begin(
        &place,
        Setup {
            tools: tools.iter().collect(),
            drive: Some(drive.clone()),
            ..Setup::new(two_calls())
        },
    );
    life.prompt("go");
    loop {
        let parked = life.parked();
        if parked == ["run_tool:c1", "run_tool:c2"] {
            break;
        }
        assert!(drive.release(&parked[0]));
    }
    drop(life);
    go_on(&place, &tools, "after");
    let texts: Vec<String> = place
        .messages()
        .iter()
        .filter_map(|m| {
            m.as_tool_result()
                .map(|r| fluzo_llm::content::joined_text(&r.content))
        })
        .collect();
    assert_eq!(texts.len(), 2);
    assert!(
        texts
            .iter()
            .all(|text| text.starts_with("interrupted, outcome unknown")),
        "{texts:?}"
    );
    assert!(tools.iter().all(|tool| tool.ran().is_empty()));
}

/// A second process on a session whose first one is in the middle of its calls.
#[test]
fn calls_of_a_live_process_are_not_taken_for_interrupted() {
    let place = Place::new(Kind::Jsonl);
    let tools = [
        Arc::new(FakeTool::new("one")),
        Arc::new(FakeTool::new("two")),
    ];
    let mut first = Life::begin(
        &place,
        Setup {
            tools: tools.iter().collect(),
            drive: Some(ManualDrive::new()),
            ..Setup::new(two_calls())
        },
    );
    first.prompt("go");
    while first.parked() != ["run_tool:c1", "run_tool:c2"] {
        first.step();
    }
    let mut second = Life::begin(&place, Setup::new([text(["ok"])]));
    second.prompt("again");
    assert!(second.finish().halted.is_none());
    let session = second.session.session();
    let roles = |messages: &[Arc<fluzo_llm::Message>]| -> Vec<String> {
        messages.iter().map(|m| m.role().to_owned()).collect()
    };
    let stored = session.context().unwrap().messages;
    assert_eq!(roles(&stored), ["user", "assistant"]);
    let sent = second.world.model.requests();
    assert_eq!(sent[0].transcript.iter().count(), 1);
    assert_eq!(session.notices().len(), 2);
    // The first goes on in its own file.
    let report = first.finish();
    assert!(report.halted.is_none());
    let all = ["user", "assistant", "toolResult", "toolResult", "assistant"];
    assert_eq!(roles(&place.messages()), all);
}

/// An effect that is dropped neither happens nor returns.
#[test]
fn a_dropped_effect_does_not_happen() {
    let place = Place::new(Kind::Memory);
    let tools = [
        Arc::new(FakeTool::new("one")),
        Arc::new(FakeTool::new("two")),
    ];
    let drive = ManualDrive::new();
    let mut life = Life::begin(
        &place,
        Setup {
            tools: tools.iter().collect(),
            drive: Some(drive.clone()),
            ..Setup::new(two_calls())
        },
    );
    life.prompt("go");
    loop {
        let parked = life.parked();
        if parked.iter().any(|name| name == "run_tool:c1") {
            break;
        }
        assert!(drive.release(&parked[0]));
    }
    assert!(drive.drop_effect("run_tool:c1"));
    assert!(drive.release("run_tool:c2"));
    assert!(
        life.parked().is_empty(),
        "nothing else waits and the run does not end"
    );
    assert!(tools[0].ran().is_empty());
    assert_eq!(tools[1].ran(), ["c2"]);
    drop(life);
    go_on(&place, &tools, "dropped");
}

/// Every append that fails halts the run: no effect follows, and the session goes on.
#[test]
fn an_append_that_fails_halts_the_run_without_further_effects() {
    for steps in 0.. {
        let place = Place::new(Kind::Jsonl);
        let tools = [
            Arc::new(FakeTool::new("one")),
            Arc::new(FakeTool::new("two")),
        ];
        let drive = ManualDrive::new();
        let mut life = Life::begin(
            &place,
            Setup {
                tools: tools.iter().collect(),
                drive: Some(drive.clone()),
                ..Setup::new(two_calls())
            },
        );
        life.prompt("go");
        let mut appends = 0;
        let failed = loop {
            let parked = life.parked();
            let Some(name) = parked.first() else {
                break false;
            };
            if name.starts_with("append:") {
                if appends == steps {
                    assert!(drive.fail(name, "disk full"));
                    break true;
                }
                appends += 1;
            }
            assert!(drive.release(name));
        };
        if !failed {
            assert!(steps >= 5, "user, assistant, two results, assistant");
            return;
        }
        let report = life.finish();
        assert_eq!(
            report.halted.as_deref(),
            Some("the session could not be saved: disk full")
        );
        assert!(drive.parked().is_empty());
        drop(life);
        go_on(&place, &tools, &format!("append {steps} failed"));
    }
}
