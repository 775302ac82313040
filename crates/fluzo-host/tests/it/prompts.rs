//! Prompts, queues and what a session tells.

use std::sync::Arc;
use std::task::Poll;

use fluzo_llm::ImageContent;
use fluzo_protocol::{Command, Endpoint, Prompt, QueueBehavior, Submitted};
use fluzo_runtime::drive::ManualDrive;
use fluzo_testkit::reply::{calls, text};
use fluzo_testkit::{FakeTool, poll_to_end};
use serde_json::json;

use crate::doubles::NoImages;
use crate::life::{Kind, Life, Place, Setup};

#[test]
fn a_new_session_begins_with_model_and_thinking_level() {
    let place = Place::new(Kind::Jsonl);
    let mut life = Life::begin(&place, Setup::new([text(["ok"])]));
    life.prompt("hi");
    life.finish();
    let file = std::fs::read_to_string(life.session.session().path().unwrap()).unwrap();
    let kinds: Vec<String> = file
        .lines()
        .map(|line| {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            let role = value["message"]["role"].as_str().unwrap_or_default();
            format!("{}{role}", value["type"].as_str().unwrap())
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "session",
            "model_change",
            "thinking_level_change",
            "messageuser",
            "messageassistant"
        ]
    );
}

#[test]
fn the_second_request_holds_the_first_exchange_after_reopening() {
    let place = Place::new(Kind::Jsonl);
    let mut life = Life::begin(&place, Setup::new([text(["one"])]));
    life.prompt("first");
    life.finish();
    drop(life);
    let mut life = Life::begin(&place, Setup::new([text(["two"])]));
    life.prompt("second");
    life.finish();
    assert_eq!(life.world.model.requests()[0].transcript.len(), 3);
}

#[test]
fn during_a_run_a_prompt_needs_a_queue_and_the_queue_is_shown() {
    let place = Place::new(Kind::Memory);
    let tool = Arc::new(FakeTool::new("one"));
    let drive = ManualDrive::new();
    let replies = [calls([("c1", "one", json!({}))]), text(["a"]), text(["b"])];
    let mut life = Life::begin(
        &place,
        Setup {
            tools: vec![&tool],
            drive: Some(drive.clone()),
            ..Setup::new(replies)
        },
    );
    life.prompt("go");
    while !life.parked().iter().any(|name| name == "run_tool:c1") {
        let first = drive.parked().remove(0);
        drive.release(&first);
    }
    let prompt = |queue| Prompt {
        text: "later".into(),
        queue,
        ..Prompt::default()
    };
    let refused = poll_to_end(life.session.prompt(prompt(None)));
    assert!(refused.is_err_and(|error| error.starts_with("Agent is already processing. Specify")));
    let queued = poll_to_end(life.session.prompt(prompt(Some(QueueBehavior::FollowUp)))).unwrap();
    assert!(matches!(queued, Submitted::Queued));
    assert_eq!(life.session.snapshot().pending_message_count, 1);
    assert_eq!(life.session.snapshot().phase, "executing_tool");
    life.finish();
    let updates = life
        .log
        .names()
        .iter()
        .filter(|name| *name == "queue_update")
        .count();
    assert_eq!(updates, 2, "when it came in and when it was taken");
    assert_eq!(life.world.model.requests().len(), 3);
    assert_eq!(life.session.snapshot().phase, "idle");
}

/// The place is taken before the run is polled for the first time.
#[test]
fn a_session_is_busy_from_the_acceptance_of_a_prompt() {
    let place = Place::new(Kind::Memory);
    let mut life = Life::begin(&place, Setup::new([text(["ok"])]));
    assert!(!life.session.snapshot().is_streaming);
    life.prompt("go");
    assert!(life.session.snapshot().is_streaming);
    life.finish();
    assert!(!life.session.snapshot().is_streaming);
}

#[test]
fn an_abort_during_a_call_leaves_a_whole_history() {
    let place = Place::new(Kind::Jsonl);
    let tool = Arc::new(FakeTool::new("one").until_abort());
    let mut life = Life::begin(
        &place,
        Setup {
            tools: vec![&tool],
            ..Setup::new([calls([("c1", "one", json!({}))])])
        },
    );
    life.prompt("go");
    assert!(matches!(life.poll(), Poll::Pending));
    life.session.abort();
    let report = life.finish();
    assert!(report.last.unwrap().as_assistant().unwrap().failed());
    fluzo_testkit::assert_valid_history(&place.messages());
    assert_eq!(
        life.world.model.requests().len(),
        1,
        "nothing is sent after an abort"
    );
}

#[test]
fn an_abort_without_a_run_does_nothing() {
    let place = Place::new(Kind::Memory);
    let life = Life::begin(&place, Setup::new([]));
    assert!(poll_to_end(life.session.execute(Command::Abort)).is_ok());
}

#[test]
fn damage_is_told_once() {
    let place = Place::new(Kind::Jsonl);
    let mut life = Life::begin(&place, Setup::new([text(["ok"])]));
    life.prompt("hi");
    life.finish();
    let path = life.session.session().path().unwrap();
    drop(life);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend_from_slice(b"not json\n");
    std::fs::write(&path, bytes).unwrap();
    let life = Life::begin(&place, Setup::new([]));
    let notices = life.session.take_notices();
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(notices[0].contains("1 line is not readable"), "{notices:?}");
    assert!(notices[0].ends_with(": malformed JSON"), "{notices:?}");
    assert!(life.session.take_notices().is_empty());
}

#[test]
fn images_are_made_ready_and_the_model_is_told_about_them() {
    let image = |data: &str| ImageContent {
        data: data.into(),
        mime_type: "image/png".into(),
        ..ImageContent::default()
    };
    let place = Place::new(Kind::Memory);
    let setup = Setup {
        images: Arc::new(NoImages),
        ..Setup::new([text(["ok"])])
    };
    let mut life = Life::begin(&place, setup);
    let with = |image| Prompt {
        text: "look".into(),
        images: vec![image],
        ..Prompt::default()
    };
    assert_eq!(life.submit(with(image(""))), Err("no image".to_owned()));
    life.submit(with(image("data"))).unwrap();
    life.finish();
    let sent = format!("{:?}", life.world.model.requests()[0].transcript);
    assert!(sent.contains(r"look\n[1 dropped]"), "{sent}");
    assert_eq!(life.world.model.requests()[0].transcript.len(), 1);
}
