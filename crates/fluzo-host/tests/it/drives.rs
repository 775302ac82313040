//! The same text of a test under both drives.

use std::sync::Arc;
use std::time::Duration;

use fluzo_llm::{StreamErrorKind, content::joined_text};
use fluzo_runtime::drive::ManualDrive;
use fluzo_runtime::retry::RetryPolicy;
use fluzo_testkit::reply::{calls, failing, text};
use fluzo_testkit::{FakeTool, assert_valid_history};
use serde_json::json;

use crate::life::{Kind, Life, Place, Setup};

fn under_both(check: impl Fn(Option<ManualDrive>)) {
    check(None);
    check(Some(ManualDrive::new()));
}

#[test]
fn a_simple_prompt() {
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
        assert_eq!(
            life.log.names().first().map(String::as_str),
            Some("agent_start")
        );
        assert_eq!(
            life.log.names().last().map(String::as_str),
            Some("agent_end")
        );
        assert_eq!(place.messages().len(), 2);
    });
}

#[test]
fn two_parallel_calls() {
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
        assert_valid_history(&place.messages());
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

#[test]
fn an_overflow_is_not_tried_again() {
    under_both(|drive| {
        let place = Place::new(Kind::Jsonl);
        let retry = RetryPolicy::default();
        let text = "400 maximum context length is 100 tokens";
        let replies = [failing(StreamErrorKind::Overflow, text)];
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
        let last = report.last.unwrap();
        assert_eq!(
            last.as_assistant().unwrap().error_message.as_deref(),
            Some(text)
        );
        assert!(!life.log.names().iter().any(|name| name.contains("retry")));
        assert_eq!(life.world.model.requests().len(), 1);
    });
}
