//! RPC mode: commands as lines on standard input, answers and events on standard output.

use std::process::Stdio;

use fluzo_sim::{Completion, Delivery, Pieces, Point, Reply, Scenario, Simulator};
use serde_json::{Value, json};

use crate::support::*;

fn rpc(script: Scenario) -> (Simulator, Stage, Live) {
    let simulator = simulator(script);
    let stage = Stage::with_fake(&simulator);
    let live = begin(&stage);
    (simulator, stage, live)
}

fn begin(stage: &Stage) -> Live {
    Live::start(stage.command(&["pi", "--mode", "rpc"]), Stdio::piped())
}

fn is_end(line: &Value) -> bool {
    line["type"] == "agent_end"
}

/// A response that is held back after its first words.
fn stalled() -> Reply {
    Reply::completion(Completion {
        text: Some("many words in many pieces".to_owned()),
        pieces: Pieces::Chars(2),
        ..Completion::default()
    })
    .delivered(Delivery {
        stall: Some(Point::Events(5)),
        ..Delivery::default()
    })
}

#[test]
fn a_prompt_is_answered_before_its_events() {
    let (simulator, stage, mut live) = rpc(scenario().step(Reply::text("Hello")));
    live.command(&json!({"id": "1", "type": "prompt", "message": "hi"}));
    let seen = live.until(is_end);
    assert_eq!(
        seen[0],
        json!({"id": "1", "type": "response", "command": "prompt", "success": true})
    );
    assert_eq!(seen[1]["type"], "agent_start");
    live.command(&json!({"type": "get_messages"}));
    let messages = live.answer("get_messages");
    let messages = messages["data"]["messages"].as_array().unwrap();
    let file = entries(&stage.session());
    assert_eq!(messages.len(), 2);
    assert_eq!(
        (&messages[0], &messages[1]),
        (&file[3]["message"], &file[4]["message"])
    );
    let (code, rest, err) = live.end();
    assert_eq!((code, rest.len(), err.as_str()), (0, 0, ""));
    approve(simulator);
}

#[test]
fn the_state_of_a_new_session() {
    let (simulator, stage, mut live) = rpc(scenario());
    live.command(&json!({"type": "get_state"}));
    let answer = live.answer("get_state");
    let data = &answer["data"];
    let expected = json!({
        "thinkingLevel": "off", "isStreaming": false, "isCompacting": false,
        "autoCompactionEnabled": true,
        "steeringMode": "one-at-a-time", "followUpMode": "one-at-a-time",
        "messageCount": 0, "pendingMessageCount": 0, "phase": "idle", "backgroundProcesses": [],
    });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(data[key], *value, "{key}");
    }
    assert_eq!(data["model"]["id"], "m1");
    assert_eq!(data["model"]["contextWindow"], 100_000);
    let file = data["sessionFile"].as_str().unwrap();
    assert!(file.ends_with(&format!("{}.jsonl", data["sessionId"].as_str().unwrap())));
    assert_eq!(live.end().0, 0);
    assert!(stage.sessions().is_empty());
    approve(simulator);
}

#[test]
fn what_is_no_command_is_answered() {
    let (simulator, _stage, mut live) = rpc(scenario());
    live.send("{ broken\n");
    let parse = live.answer("parse");
    assert_eq!(parse["success"], false);
    assert!(
        parse["error"]
            .as_str()
            .unwrap()
            .starts_with("Failed to parse command: ")
    );
    let rows = [
        (
            r#"{"id":"u","type":"wat"}"#,
            json!({"id": "u", "type": "response", "command": "wat", "success": false, "error": "Unknown command: wat"}),
        ),
        (
            "{\"type\":\"wat\"}\r",
            json!({"type": "response", "command": "wat", "success": false, "error": "Unknown command: wat"}),
        ),
        (
            "[1]",
            json!({"type": "response", "command": "", "success": false, "error": "Unknown command: "}),
        ),
    ];
    for (line, answer) in rows {
        live.send(&format!("{line}\n"));
        assert_eq!(live.next().unwrap(), answer, "{line}");
    }
    live.send("{\"id\":7,\"type\":\"prompt\"}\n");
    let missing = live.answer("prompt");
    assert_eq!(
        (&missing["id"], &missing["success"]),
        (&json!(7), &json!(false))
    );
    live.send("\n  \n");
    assert_eq!(live.end().1, Vec::<Value>::new());
    approve(simulator);
}

/// Only LF ends a line; what looks like a line end to others is text.
#[test]
fn lines_end_with_lf_alone() {
    let (simulator, _stage, mut live) = rpc(scenario().step(Reply::text("a\u{2028}b\u{85}c")));
    live.send("{\"type\":\"prompt\",\"message\":\"x\u{2028}y\u{2029}z\"}\r\n");
    let seen = live.until(is_end);
    assert_eq!(seen[0]["success"], true);
    assert_eq!(users(&simulator, 0), [text_block("x\u{2028}y\u{2029}z")]);
    let end = seen.last().unwrap();
    assert_eq!(
        end["messages"][1]["content"][0]["text"],
        "a\u{2028}b\u{85}c"
    );
    assert_eq!(live.end().0, 0);
    approve(simulator);
}

#[test]
fn a_last_line_without_its_end_is_processed() {
    let (simulator, _stage, mut live) = rpc(scenario());
    live.send("{\"type\":\"get_state\"}\n");
    live.answer("get_state");
    live.send(r#"{"id":"last","type":"get_state"}"#);
    let (code, rest, _) = live.end();
    assert_eq!((code, rest.len()), (0, 1));
    assert_eq!(rest[0]["id"], "last");
    approve(simulator);
}

#[test]
fn during_a_run_prompts_are_refused_or_queued() {
    let script = scenario()
        .step(stalled())
        .step(Reply::text("Two"))
        .step(Reply::text("Three"));
    let (simulator, _stage, mut live) = rpc(script);
    live.command(&json!({"type": "prompt", "message": "A"}));
    // At once, before anything of the first run can have happened.
    live.command(&json!({"id": "no", "type": "prompt", "message": "B"}));
    let refused = live.until(|line| line["id"] == "no");
    let refused = refused.last().unwrap();
    assert_eq!(
        *refused,
        json!({
            "id": "no", "type": "response", "command": "prompt", "success": false,
            "error": "Agent is already processing. Specify streamingBehavior ('steer' or 'followUp') to queue the message.",
        })
    );
    live.until(|line| line["type"] == "message_update");
    live.command(&json!({"type": "get_state"}));
    assert_eq!(live.answer("get_state")["data"]["isStreaming"], true);
    live.command(&json!({"type": "prompt", "message": "F", "streamingBehavior": "followUp"}));
    live.command(&json!({"type": "steer", "message": "S"}));
    let queued = live.until(|line| line["command"] == "steer");
    let updates: Vec<&Value> = queued
        .iter()
        .filter(|l| l["type"] == "queue_update")
        .collect();
    assert_eq!(
        *updates[0],
        json!({"type": "queue_update", "steering": [], "followUp": ["F"]})
    );
    assert_eq!(
        *updates[1],
        json!({"type": "queue_update", "steering": ["S"], "followUp": ["F"]})
    );
    simulator.release_stall();
    live.until(is_end);
    assert_eq!(users(&simulator, 1), [text_block("A"), text_block("S")]);
    assert_eq!(
        users(&simulator, 2),
        [text_block("A"), text_block("S"), text_block("F")]
    );
    assert_eq!(live.end().0, 0);
    approve(simulator);
}

/// A transparent pixel.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// The endpoint refuses a text block without text.
#[test]
fn a_message_that_says_nothing_is_refused_and_an_image_may_stand_alone() {
    let simulator = simulator(scenario().step(Reply::text("ok")));
    let stage = Stage::with_fake(&simulator);
    let arguments = ["pi", "--mode", "rpc", "--model", "eyes"];
    let mut live = Live::start(stage.command(&arguments), Stdio::piped());
    for command in ["prompt", "steer", "follow_up"] {
        live.command(&json!({"type": command, "message": " "}));
        assert_eq!(live.answer(command)["error"], "the message is empty");
        live.command(&json!({"type": command, "message": "x", "images": [{"type": "text"}]}));
        let error = live.answer(command)["error"].to_string();
        assert!(error.contains("must be image blocks"), "{error}");
    }
    let image = json!({"type": "image", "data": PIXEL, "mimeType": "image/png"});
    live.command(&json!({"type": "prompt", "message": "", "images": [image]}));
    live.until(is_end);
    let content = users(&simulator, 0);
    let blocks = content[0].as_array().unwrap();
    assert_eq!((content.len(), blocks.len()), (1, 1), "{content:?}");
    assert_eq!(blocks[0]["type"], "image_url");
    assert_eq!(live.end().0, 0);
    approve(simulator);
}

/// Right after its acceptance, and without a header's value.
#[test]
fn the_state_says_busy_when_a_prompt_would_be_refused_and_keeps_secrets() {
    let mut script = scenario().step(Reply::head_only());
    script.expect.steps_may_remain = true;
    let simulator = simulator(script);
    let stage = Stage::new();
    let mut provider = fake(&simulator.base_url());
    provider["models"][0]["headers"] = json!({"X-Token": "planted-secret"});
    stage.models(&json!({"providers": {"fake": provider}}));
    let mut live = begin(&stage);
    live.send("{\"type\":\"prompt\",\"message\":\"A\"}\n{\"type\":\"get_state\"}\n");
    let state = live.answer("get_state");
    assert_eq!(state["data"]["isStreaming"], true);
    assert!(!state.to_string().contains("planted-secret"), "{state}");
    assert_eq!(live.end().0, 0);
    approve(simulator);
}

#[test]
fn steering_while_idle_comes_in_with_the_next_prompt() {
    let (simulator, _stage, mut live) = rpc(scenario().step(Reply::text("ok")));
    live.command(&json!({"type": "steer", "message": "S1"}));
    let seen = live.until(|line| line["command"] == "steer");
    assert_eq!(
        seen[0],
        json!({"type": "queue_update", "steering": ["S1"], "followUp": []})
    );
    assert_eq!(seen.len(), 2);
    live.command(&json!({"type": "prompt", "message": "P"}));
    let names: Vec<String> = live
        .until(is_end)
        .iter()
        .map(|line| line["type"].as_str().unwrap().to_owned())
        .filter(|name| name != "message_update")
        .collect();
    let message = ["message_start", "message_end"];
    let expected = [
        &["response", "agent_start", "turn_start"][..],
        &message,
        &["queue_update"],
        &message,
        &message,
        &["turn_end", "agent_end"],
    ]
    .concat();
    assert_eq!(names, expected);
    assert_eq!(users(&simulator, 0), [text_block("P"), text_block("S1")]);
    assert_eq!(live.end().0, 0);
    approve(simulator);
}

#[test]
fn an_abort_is_answered_when_the_run_has_ended() {
    let (simulator, stage, mut live) = rpc(scenario().step(stalled()).step(Reply::text("ok")));
    live.command(&json!({"type": "prompt", "message": "A"}));
    live.until(|line| line["type"] == "message_update");
    live.command(&json!({"type": "abort"}));
    let seen = live.until(|line| line["command"] == "abort");
    let end = &seen[seen.len() - 2];
    assert!(is_end(end), "{seen:#?}");
    let last = end["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(last["stopReason"], "aborted");
    live.command(&json!({"type": "prompt", "message": "B"}));
    live.until(is_end);
    assert_eq!(live.end().0, 0);
    let kinds = kinds(&entries(&stage.session()));
    assert_eq!(kinds[3..], ["user", "assistant", "user", "assistant"]);
    approve(simulator);
}

/// Nothing that was asked for right after a prompt is lost because the run has not begun.
#[test]
fn an_abort_right_after_a_prompt_reaches_it() {
    let mut script = scenario().step(Reply::head_only());
    script.expect.steps_may_remain = true;
    let (simulator, _stage, mut live) = rpc(script);
    live.send("{\"type\":\"prompt\",\"message\":\"A\"}\n{\"type\":\"abort\"}\n");
    let seen = live.until(|line| line["command"] == "abort");
    assert!(seen.iter().any(is_end), "{seen:#?}");
    assert_eq!(live.end().0, 0);
    approve(simulator);
}

#[test]
fn the_end_of_input_ends_a_prompt_that_was_its_last_line() {
    let mut script = scenario().step(Reply::head_only());
    script.expect.steps_may_remain = true;
    let simulator = simulator(script);
    let stage = Stage::with_fake(&simulator);
    let ran = stage.pi_with_input(&["--mode", "rpc"], r#"{"type":"prompt","message":"A"}"#);
    assert_eq!(ran.code(), 0);
    assert_eq!(ran.lines()[0]["command"], "prompt");
    assert!(is_end(ran.lines().last().unwrap()));
    approve(simulator);
}

#[test]
fn the_end_of_input_ends_a_running_command() {
    let stage = Stage::new();
    let fifo = Fifo::new(&stage);
    let simulator = simulator(scenario().step(Reply::calls([bash("c1", &fifo.stay())])));
    stage.models(&json!({"providers": {"fake": fake(&simulator.base_url())}}));
    let mut live = begin(&stage);
    live.command(&json!({"type": "prompt", "message": "A"}));
    let (pipe, _) = fifo.begun();
    live.close_input();
    gone(pipe);
    let (code, lines, _) = live.end();
    assert_eq!(code, 0);
    assert!(is_end(lines.last().unwrap()));
    let kinds = kinds(&entries(&stage.session()));
    assert_eq!(kinds[3..6], ["user", "assistant", "toolResult"]);
    approve(simulator);
}

#[test]
fn a_wait_before_another_attempt_can_be_ended() {
    let (simulator, stage, live) = rpc(scenario().step(Reply::error(503, "overloaded")));
    assert_eq!(live.end().0, 0);
    stage.settings(&json!({"retry": {"baseDelayMs": 3_600_000}}));
    let mut live = begin(&stage);
    live.command(&json!({"type": "prompt", "message": "A"}));
    live.until(|line| line["type"] == "auto_retry_start");
    live.command(&json!({"type": "abort_retry"}));
    let seen = live.until(|line| line["type"] == "auto_retry_end");
    assert_eq!(seen.last().unwrap()["finalError"], "Retry cancelled");
    assert_eq!(live.end().0, 0);
    approve(simulator);
}

/// A folder with a `gh` that is logged in and makes a gist.
fn fake_gh(stage: &Stage) -> String {
    let script = "#!/bin/sh\ncase $1 in\nauth) exit 0;;\ngist) echo https://gist.github.com/me/abc123;;\nesac\n";
    let gh = stage.write("bin/gh", script);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&gh, mode).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{}:{path}", gh.parent().unwrap().display())
}

#[test]
fn a_session_is_exported_and_shared_by_command() {
    let simulator = simulator(scenario().step(Reply::text("Hello & bye")));
    let stage = Stage::with_fake(&simulator);
    let path = fake_gh(&stage);
    let stage = stage
        .set("PATH", &path)
        .set("PI_SHARE_VIEWER_URL", "https://look.example/");
    let mut live = begin(&stage);
    live.command(&json!({"type": "export_html"}));
    assert_eq!(live.answer("export_html")["success"], false, "nothing yet");
    live.command(&json!({"type": "prompt", "message": "hi"}));
    live.until(is_end);
    live.command(&json!({"type": "export_html", "outputPath": "page.html"}));
    let written = live.answer("export_html");
    let page = stage.project().join("page.html");
    assert_eq!(written["data"]["path"], page.to_str().unwrap());
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("Hello &amp; bye") && page.contains("Available tools"));
    live.command(&json!({"type": "export_jsonl", "outputPath": "copy.jsonl"}));
    live.answer("export_jsonl");
    let copy = entries(&stage.project().join("copy.jsonl"));
    assert_eq!(copy, entries(&stage.session()));
    live.command(&json!({"type": "share"}));
    let shared = &live.answer("share")["data"];
    assert_eq!(shared["url"], "https://look.example/#abc123");
    assert_eq!(shared["gist"], "https://gist.github.com/me/abc123");
    assert_eq!(live.end().0, 0);
    approve(simulator);
}
