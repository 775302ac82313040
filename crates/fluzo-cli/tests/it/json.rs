//! JSON mode.

use std::process::Stdio;

use fluzo_sim::{Completion, Delivery, Pieces, Point, Reply};
use serde_json::{Value, json};

use crate::support::*;

fn names(lines: &[Value]) -> Vec<&str> {
    lines
        .iter()
        .map(|line| line["type"].as_str().unwrap())
        .collect()
}

#[test]
fn the_header_is_first_then_every_event() {
    let simulator = simulator(scenario().step(Reply::text("Hello")));
    let stage = Stage::with_fake(&simulator);
    let ran = stage.pi(&["--mode", "json", "hi"]);
    assert_eq!((ran.code(), ran.err().as_str()), (0, ""));
    let lines = ran.lines();
    assert_eq!(
        names(&lines),
        [
            "session",
            "agent_start",
            "turn_start",
            "message_start",
            "message_end",
            "message_start",
            "message_update",
            "message_update",
            "message_update",
            "message_end",
            "turn_end",
            "agent_end"
        ]
    );
    let first = ran.out().lines().next().unwrap().to_owned();
    assert!(
        first.starts_with(r#"{"type":"session","version":3,"id":""#),
        "{first}"
    );
    assert_eq!(lines[0], entries(&stage.session())[0]);
    let end = lines.last().unwrap();
    assert_eq!(end["willRetry"], false);
    assert_eq!(end["messages"].as_array().unwrap().len(), 2);
    approve(simulator);
}

#[test]
fn an_update_has_the_message_twice_in_the_order_of_the_reference() {
    let reply = Reply::completion(Completion {
        text: Some("Hello".into()),
        pieces: Pieces::Chars(2),
        ..Completion::default()
    });
    let simulator = simulator(scenario().step(reply));
    let stage = Stage::with_fake(&simulator);
    let ran = stage.pi(&["--mode", "json", "hi"]);
    let out = ran.out();
    let line = out
        .lines()
        .find(|line| line.contains("text_delta"))
        .unwrap();
    let start = r#"{"type":"message_update","assistantMessageEvent":{"type":"text_delta","contentIndex":0,"delta":"He","partial":{"#;
    assert!(line.starts_with(start), "{line}");
    let deltas: String = ran
        .lines()
        .iter()
        .filter_map(|line| {
            line["assistantMessageEvent"]["delta"]
                .as_str()
                .map(str::to_owned)
        })
        .collect();
    assert_eq!(deltas, "Hello");
    for line in ran
        .lines()
        .iter()
        .filter(|line| line["type"] == "message_update")
    {
        assert_eq!(line["message"], line["assistantMessageEvent"]["partial"]);
    }
    approve(simulator);
}

/// The transcript can be rebuilt from the lines alone.
#[test]
fn a_tool_call_is_told_in_full_and_without_a_session_as_well() {
    let script = scenario()
        .step(Reply::calls([bash("c1", "echo out; exit 3")]))
        .step(Reply::text("done"));
    let simulator = simulator(script);
    let stage = Stage::with_fake(&simulator);
    let ran = stage.pi(&["--mode", "json", "--no-session", "hi"]);
    assert_eq!(ran.code(), 0);
    let lines = ran.lines();
    assert_eq!(lines[0]["type"], "session");
    let of = |name: &str| {
        lines
            .iter()
            .filter(move |l| l["type"] == name)
            .cloned()
            .collect::<Vec<_>>()
    };
    let start = &of("tool_execution_start")[0];
    assert_eq!(
        *start,
        json!({"type": "tool_execution_start", "toolCallId": "c1", "toolName": "bash", "args": {"command": "echo out; exit 3"}})
    );
    let end = &of("tool_execution_end")[0];
    assert_eq!(
        (&end["toolCallId"], &end["isError"]),
        (&json!("c1"), &json!(true))
    );
    let turns = of("turn_end");
    assert_eq!(turns[0]["toolResults"].as_array().unwrap().len(), 1);
    let told: Vec<Value> = of("message_end")
        .iter()
        .map(|l| l["message"].clone())
        .collect();
    let last = of("agent_end")[0].clone();
    assert_eq!(Value::Array(told), last["messages"]);
    assert!(stage.sessions().is_empty());
    approve(simulator);
}

#[test]
fn further_messages_run_after_the_run_before() {
    let simulator = simulator(scenario().step(Reply::text("1")).step(Reply::text("2")));
    let stage = Stage::with_fake(&simulator);
    let ran = stage.pi(&["--mode", "json", "a", "b"]);
    let lines = ran.lines();
    let frames: Vec<&str> = names(&lines)
        .into_iter()
        .filter(|name| name.starts_with("agent_") || *name == "session")
        .collect();
    assert_eq!(
        frames,
        [
            "session",
            "agent_start",
            "agent_end",
            "agent_start",
            "agent_end"
        ]
    );
    approve(simulator);
}

#[test]
fn an_attempt_that_is_made_again_is_told() {
    let script = scenario()
        .step(Reply::error(503, "overloaded"))
        .step(Reply::text("there"));
    let simulator = simulator(script);
    let stage = Stage::with_fake(&simulator);
    stage.settings(&json!({"retry": {"baseDelayMs": 1}}));
    let ran = stage.pi(&["--mode", "json", "hi"]);
    assert_eq!(ran.code(), 0);
    let lines = ran.lines();
    let shown: Vec<&Value> = lines
        .iter()
        .filter(|l| {
            matches!(
                l["type"].as_str(),
                Some("agent_end" | "auto_retry_start" | "auto_retry_end")
            )
        })
        .collect();
    assert_eq!(shown[0]["willRetry"], true);
    assert_eq!(
        (
            &shown[1]["attempt"],
            &shown[1]["maxAttempts"],
            &shown[1]["delayMs"]
        ),
        (&json!(1), &json!(3), &json!(1))
    );
    assert!(
        shown[1]["errorMessage"]
            .as_str()
            .unwrap()
            .contains("overloaded")
    );
    assert_eq!(
        *shown[2],
        json!({"type": "auto_retry_end", "success": true, "attempt": 1})
    );
    assert_eq!(shown[3]["willRetry"], false);
    approve(simulator);
}

/// A reader that goes away ends the run, although the provider would never end its answer.
#[test]
fn a_reader_that_goes_away_ends_the_program() {
    let slow = Reply::completion(Completion {
        text: Some("a".repeat(20_000)),
        pieces: Pieces::Chars(100),
        ..Completion::default()
    })
    .delivered(Delivery {
        stall: Some(Point::Events(150)),
        ..Delivery::default()
    });
    let simulator = simulator(scenario().step(slow));
    let stage = Stage::with_fake(&simulator);
    let mut live = Live::start(
        stage.command(&["pi", "--mode", "json", "hi"]),
        Stdio::null(),
    );
    live.until(|line| line["type"] == "message_update");
    assert_eq!(live.leave().wait().unwrap().code(), Some(1));
    approve(simulator);
}
