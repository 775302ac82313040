//! The same text of a test under both drives.

use std::sync::Arc;
use std::time::Duration;

use fluzo_llm::{ModelMessage, ModelRequest, StreamErrorKind, content::joined_text};
use fluzo_protocol::{Endpoint, Prompt, QueueBehavior, RunReport, Submitted};
use fluzo_runtime::compact::CompactionSettings;
use fluzo_runtime::drive::ManualDrive;
use fluzo_runtime::retry::RetryPolicy;
use fluzo_testkit::reply::{calls, failing, text};
use fluzo_testkit::{FakeTool, Reply, Switch, assert_valid_history, poll_to_end};
use serde_json::json;

use crate::life::{Kind, Life, Place, Setup};

fn under_both(check: impl Fn(Option<ManualDrive>)) {
    check(None);
    check(Some(ManualDrive::new()));
}

#[test]
fn checklist_01_a_simple_prompt() {
    under_both(|drive| {
        let place = Place::new(Kind::Jsonl);
        let mut life = Life::begin(
            &place,
            Setup {
                drive,
                ..Setup::new([text(["He", "llo"])])
            },
        );
        life.prompt("hi");
        life.pass("append:user");
        life.pass("request_model");
        for item in [
            "start",
            "text_start",
            "text_delta",
            "text_delta",
            "text_end",
            "done",
        ] {
            life.pass(&format!("stream:{item}"));
        }
        life.pass("append:assistant");
        let report = life.finish();
        let last = report.last.unwrap();
        assert_eq!(joined_text(&last.as_assistant().unwrap().content), "Hello");
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
            "turn_end",
            "agent_end",
        ];
        assert_eq!(life.log.names(), expected);
        assert_eq!(place.messages().len(), 2);
    });
}

#[test]
fn checklist_02_and_03_calls_run_and_their_results_come_in_source_order() {
    under_both(|drive| {
        let place = Place::new(Kind::Memory);
        let (one, two) = (
            Arc::new(FakeTool::new("one")),
            Arc::new(FakeTool::new("two")),
        );
        let replies = [
            calls([("c1", "one", json!({})), ("c2", "two", json!({}))]),
            text(["ok"]),
        ];
        let mut life = Life::begin(
            &place,
            Setup {
                tools: vec![&one, &two],
                drive,
                ..Setup::new(replies)
            },
        );
        life.prompt("go");
        life.finish();
        assert_eq!(
            (one.ran(), two.ran()),
            (vec!["c1".to_owned()], vec!["c2".to_owned()])
        );
        let stored = place.messages();
        assert_valid_history(&stored);
        let results: Vec<&str> = stored
            .iter()
            .filter_map(|m| m.as_tool_result().map(|r| r.tool_call_id.as_str()))
            .collect();
        assert_eq!(results, ["c1", "c2"]);
        assert_eq!(
            life.world.model.requests().len(),
            2,
            "another request follows"
        );
    });
}

/// The roles of the second request after `queue` took a message during a call.
fn roles_after_queueing(
    drive: Option<ManualDrive>,
    queue: QueueBehavior,
) -> Vec<Vec<&'static str>> {
    let place = Place::new(Kind::Memory);
    let switch = Switch::new();
    let tool = Arc::new(FakeTool::new("one").wait(&switch));
    let replies = [calls([("c1", "one", json!({}))]), text(["a"]), text(["b"])];
    let setup = Setup {
        tools: vec![&tool],
        drive,
        ..Setup::new(replies)
    };
    let mut life = Life::begin(&place, setup);
    life.prompt("go");
    while tool.runs().is_empty() {
        life.step();
    }
    let prompt = Prompt {
        text: "later".into(),
        queue: Some(queue),
        ..Prompt::default()
    };
    assert!(matches!(
        poll_to_end(life.session.prompt(prompt)),
        Ok(Submitted::Queued)
    ));
    switch.flip();
    life.finish();
    let roles = |request: &ModelRequest| {
        let role = |message| match message {
            ModelMessage::User(_) => "user",
            ModelMessage::Assistant(_) => "assistant",
            ModelMessage::ToolResult(_) => "result",
        };
        request.transcript.iter().map(role).collect()
    };
    life.world.model.requests().iter().map(roles).collect()
}

#[test]
fn checklist_04_steering_enters_after_the_turn_and_before_the_stop() {
    under_both(|drive| {
        let requests = roles_after_queueing(drive, QueueBehavior::Steer);
        assert_eq!(requests[1], ["user", "assistant", "result", "user"]);
        assert_eq!(requests.len(), 2);
    });
}

#[test]
fn checklist_05_follow_up_waits_until_nothing_is_left() {
    under_both(|drive| {
        let requests = roles_after_queueing(drive, QueueBehavior::FollowUp);
        assert_eq!(requests[1], ["user", "assistant", "result"]);
        assert_eq!(
            requests[2],
            ["user", "assistant", "result", "assistant", "user"]
        );
    });
}

#[test]
fn a_failed_response_is_tried_again_after_a_wait() {
    under_both(|drive| {
        let place = Place::new(Kind::Jsonl);
        let retry = RetryPolicy {
            max_retries: 2,
            base_delay: Duration::from_millis(50),
            ..RetryPolicy::default()
        };
        let replies = [
            failing(StreamErrorKind::Transient, "503 overloaded"),
            text(["ok"]),
        ];
        let mut life = Life::begin(
            &place,
            Setup {
                drive,
                retry,
                ..Setup::new(replies)
            },
        );
        life.prompt("go");
        let report = life.finish();
        assert!(!report.last.unwrap().as_assistant().unwrap().failed());
        let frame: Vec<String> = life
            .log
            .names()
            .into_iter()
            .filter(|n| !n.starts_with("message_update"))
            .collect();
        let expected = [
            "agent_start",
            "turn_start",
            "message_start(user)",
            "message_end(user)",
            "message_start(assistant)",
            "message_end(assistant)",
            "turn_end",
            "agent_end(retry)",
            "auto_retry_start",
            "agent_start",
            "turn_start",
            "message_start(assistant)",
            "message_end(assistant)",
            "auto_retry_end",
            "turn_end",
            "agent_end",
        ];
        assert_eq!(frame, expected);
        // The failed response stays in the session and is not sent again.
        assert_eq!(place.messages().len(), 3);
        assert_eq!(life.world.model.requests()[1].transcript.len(), 1);
    });
}

const TOO_LONG: &str = "400 maximum context length is 100 tokens";

/// A session with one long turn, and a second prompt whose first request does not fit.
fn after_an_overflow(drive: Option<ManualDrive>, second_try: Reply) -> (Place, Life, RunReport) {
    let place = Place::new(Kind::Jsonl);
    let long = "word ".repeat(200);
    let overflow = failing(StreamErrorKind::Overflow, TOO_LONG);
    let replies = [text([&*long]), overflow, text(["SUMMARY"]), second_try];
    let setup = Setup {
        drive,
        retry: RetryPolicy::default(),
        compaction: CompactionSettings {
            keep_recent_tokens: 10,
            ..CompactionSettings::default()
        },
        ..Setup::new(replies)
    };
    let mut life = Life::begin(&place, setup);
    life.prompt("first");
    life.finish();
    life.prompt("go");
    let report = life.finish();
    (place, life, report)
}

#[test]
fn checklist_12_an_overflow_leads_to_one_compaction_and_one_further_request() {
    under_both(|drive| {
        let (place, life, report) = after_an_overflow(drive, text(["done"]));
        let last = report.last.unwrap();
        assert_eq!(joined_text(&last.as_assistant().unwrap().content), "done");
        let names = life.log.names();
        let end = names.iter().rposition(|name| name == "compaction_end");
        let around: Vec<&str> = names[end.unwrap() - 2..end.unwrap() + 2]
            .iter()
            .map(String::as_str)
            .collect();
        assert_eq!(
            around,
            [
                "agent_end",
                "compaction_start",
                "compaction_end",
                "agent_start"
            ]
        );
        let requests = life.world.model.requests();
        assert_eq!(requests.len(), 4);
        let sent: Vec<_> = requests[3].transcript.iter().collect();
        assert!(matches!(sent[0], ModelMessage::User { .. }), "the summary");
        assert_valid_history(&place.messages());
    });
}

#[test]
fn checklist_12_a_second_overflow_surfaces() {
    under_both(|drive| {
        let again = failing(StreamErrorKind::Overflow, TOO_LONG);
        let (_place, life, report) = after_an_overflow(drive, again);
        let last = report.last.unwrap();
        let error = last.as_assistant().unwrap().error_message.clone();
        assert_eq!(error.as_deref(), Some(TOO_LONG));
        let names = life.log.names();
        assert!(!names.iter().any(|name| name.contains("retry")));
        let starts = names.iter().filter(|name| *name == "compaction_start");
        assert_eq!(starts.count(), 1);
        assert_eq!(names.last().unwrap(), "compaction_end");
        assert_eq!(life.world.model.requests().len(), 4);
    });
}

fn failing_twice(drive: &ManualDrive) -> Life {
    let place = Place::new(Kind::Memory);
    let retry = RetryPolicy {
        max_retries: 2,
        ..RetryPolicy::default()
    };
    let fail = || failing(StreamErrorKind::Transient, "503 overloaded");
    let setup = Setup {
        drive: Some(drive.clone()),
        retry,
        ..Setup::new([fail(), fail(), text(["never"])])
    };
    let mut life = Life::begin(&place, setup);
    life.prompt("go");
    while !life.parked().iter().any(|name| name == "sleep") {
        life.step();
    }
    life
}

#[test]
fn a_wait_before_a_further_attempt_can_be_aborted() {
    let drive = ManualDrive::new();
    let mut life = failing_twice(&drive);
    life.session.abort();
    let report = life.finish();
    assert!(report.last.unwrap().as_assistant().unwrap().failed());
    assert_eq!(
        life.log.names().last().map(String::as_str),
        Some("auto_retry_end")
    );
    assert_eq!(life.world.model.requests().len(), 1);
}

#[test]
fn an_abort_during_a_further_attempt_ends_the_series() {
    let drive = ManualDrive::new();
    let mut life = failing_twice(&drive);
    life.step();
    while !life.parked().iter().any(|name| name == "request_model") {
        life.step();
    }
    life.session.abort();
    life.finish();
    let names = life.log.names();
    assert_eq!(
        names.last().map(String::as_str),
        Some("auto_retry_end"),
        "{names:?}"
    );
    assert_eq!(life.world.model.requests().len(), 1);
}

#[test]
fn a_run_that_is_dropped_during_a_wait_leaves_the_session_idle() {
    let drive = ManualDrive::new();
    let mut life = failing_twice(&drive);
    life.drop_run();
    assert!(drive.parked().is_empty());
    let prompt = Prompt {
        text: "again".into(),
        ..Prompt::default()
    };
    assert!(matches!(
        poll_to_end(life.session.prompt(prompt)),
        Ok(Submitted::Run(_))
    ));
}
