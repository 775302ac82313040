//! Compactions that a session makes unasked.

use std::sync::Arc;
use std::time::Duration;

use fluzo_llm::{Model, ModelRequest, StreamErrorKind};
use fluzo_protocol::{Command, Event, QueueBehavior};
use fluzo_runtime::compact::OVERFLOW_AGAIN;
use fluzo_testkit::Reply;
use fluzo_testkit::reply::{failing, text};
use serde_json::json;

use crate::life::{Kind, Place, Setup};
use crate::races::{compact, filling, long, manual};
use crate::stage::{Stage, reporting};

const TOO_LONG: &str = "400 maximum context length is 100 tokens";
const RULES: &str = "# Project Context: always say please";

/// What was told at the end of each compaction that failed.
fn failures(stage: &Stage) -> Vec<String> {
    let error = |event: Event| match event {
        Event::CompactionEnd { error_message, .. } => error_message,
        _ => None,
    };
    let events = stage.life.log.events();
    events.into_iter().filter_map(error).collect()
}

fn window(tokens: u64) -> Model {
    Model {
        context_window: tokens,
        ..fluzo_testkit::model()
    }
}

fn texts(request: &ModelRequest) -> String {
    let messages: Vec<_> = request
        .transcript
        .iter()
        .map(|m| format!("{m:?}"))
        .collect();
    messages.join("\n")
}

/// One prompt that is answered, a moment after the one before.
fn exchange(stage: &mut Stage, prompt: &str, replies: impl IntoIterator<Item = Reply>) {
    stage.life.world.time.advance(Duration::from_secs(1));
    for reply in replies {
        stage.life.world.model.push(reply);
    }
    stage.prompt(prompt);
    stage.run_out();
}

/// Instructions alone exceed the limit, so that no compaction makes room.
#[test]
fn without_progress_compactions_end_with_what_fills_the_window() {
    for words in [1, 1500] {
        let place = Place::new(Kind::Jsonl);
        let rules = "rule ".repeat(12_800);
        let setup = Setup {
            model: window(20_000),
            system_prompt: Arc::new(move |_| rules.clone()),
            ..Setup::new([])
        };
        let mut stage = Stage::begin(&place, setup);
        for turn in 0..6 {
            // A response is as good as a summary, of which there may be some.
            let spare = 4 - stage.life.world.model.left().min(4);
            let replies = (0..spare).map(|_| reporting("ok", 17_000));
            exchange(&mut stage, &"word ".repeat(words), replies);
            assert!(stage.life.world.model.left() > 0, "turn {turn}");
        }
        let started = stage.life.log.count("compaction_start");
        assert_eq!(started, 2, "{words}");
        let told = failures(&stage);
        let last = told.last().unwrap();
        let begins = "compaction makes no room: of 20000 tokens 5000 are reserved for the answer; system prompt 16000,";
        assert!(last.starts_with(begins), "{last}");
        let same = told.iter().filter(|text| *text == last);
        assert_eq!(same.count(), 1, "told once");
    }
}

#[test]
fn project_rules_are_once_in_every_request_also_after_two_compactions() {
    let place = Place::new(Kind::Jsonl);
    let setup = Setup {
        system_prompt: Arc::new(|_| format!("You are an agent.\n\n{RULES}\n")),
        ..Setup::new([])
    };
    let mut stage = long(&place, [], setup);
    for _ in 0..2 {
        let words = "word ".repeat(400);
        stage.life.world.model.push(text(["SUMMARY"]));
        stage.life.world.model.push(text(["SUMMARY"]));
        stage.start(compact());
        stage.run_out();
        assert!(stage.answer("compact").is_ok());
        while stage.life.world.model.left() > 0 {
            exchange(&mut stage, "drain", []);
        }
        exchange(&mut stage, "go on", [text([&*words])]);
        let request = stage.life.world.model.requests().pop().unwrap();
        assert_eq!(request.system_prompt.matches(RULES).count(), 1);
        let said = texts(&request);
        assert!(!said.contains(RULES));
        assert_eq!(said.matches("<summary>").count(), 1, "{said}");
    }
    stage.check(&place);
}

#[test]
fn what_was_queued_goes_on_after_a_compaction() {
    for queue in [QueueBehavior::Steer, QueueBehavior::FollowUp] {
        let place = Place::new(Kind::Jsonl);
        let replies = vec![text(["SUMMARY"]), text(["more"])];
        let mut stage = filling(&place, replies, manual([]));
        stage.until("append:assistant");
        stage.release("append:assistant");
        stage.until("stream:done");
        stage.queue("then", queue);
        stage.run_out();
        let names = stage.life.log.names();
        let ended = names
            .iter()
            .position(|name| name == "compaction_end")
            .unwrap();
        assert!(names[ended..].iter().any(|name| name == "agent_start"));
        assert_eq!(
            Stage::roles(&place),
            ["compactionSummary", "assistant", "user", "assistant"]
        );
        stage.check(&place);
    }
}

/// A command of the user's that was stored behind the run is no response: what waits is said
/// before anything is asked.
#[test]
fn a_command_stored_behind_the_run_leads_to_no_request_of_its_own() {
    let place = Place::new(Kind::Jsonl);
    let replies = vec![text(["SUMMARY"]), text(["more"])];
    let mut stage = filling(&place, replies, manual([]));
    stage.until("append:assistant");
    stage
        .execute(Command::Bash {
            command: "ls".into(),
            exclude_from_context: false,
        })
        .unwrap();
    stage.release("append:assistant");
    stage.until("stream:done");
    stage.queue("then", QueueBehavior::FollowUp);
    stage.run_out();
    assert_eq!(
        Stage::roles(&place),
        [
            "compactionSummary",
            "assistant",
            "bashExecution",
            "user",
            "assistant"
        ]
    );
    stage.check(&place);
}

#[test]
fn switched_off_nothing_is_compacted_unasked() {
    let place = Place::new(Kind::Jsonl);
    let setup = Setup {
        model: window(1000),
        ..Setup::new([])
    };
    let mut stage = Stage::begin(&place, setup);
    stage
        .execute(Command::SetAutoCompaction { enabled: false })
        .unwrap();
    let words = "word ".repeat(100);
    exchange(&mut stage, "fill it", [reporting(&words, 900)]);
    exchange(
        &mut stage,
        "more",
        [failing(StreamErrorKind::Overflow, TOO_LONG)],
    );
    assert_eq!(stage.life.log.count("compaction_start"), 0);
    assert_eq!(stage.life.log.count("compaction_end"), 0);
    let last = stage.reports.last().unwrap().last.clone().unwrap();
    let error = last.as_assistant().unwrap().error_message.clone();
    assert_eq!(error.as_deref(), Some(TOO_LONG));
    stage.check(&place);
}

/// There is nothing to summarise but the prompt itself, which has to stay.
#[test]
fn a_prompt_that_does_not_fit_is_not_compacted_away() {
    for words in [1, 3000] {
        let place = Place::new(Kind::Jsonl);
        let mut stage = Stage::begin(&place, Setup::new([]));
        let overflow = failing(StreamErrorKind::Overflow, TOO_LONG);
        exchange(&mut stage, &"word ".repeat(words), [overflow]);
        let expected = "Context overflow recovery failed: Nothing to compact (session too small)";
        assert_eq!(failures(&stage), [expected]);
        assert_eq!(Stage::roles(&place), ["user", "assistant"]);
        assert_eq!(stage.life.world.model.requests().len(), 1);
        stage.check(&place);
    }
}

#[test]
fn an_overflow_is_recovered_once_in_each_prompt() {
    let place = Place::new(Kind::Jsonl);
    let overflow = || failing(StreamErrorKind::Overflow, TOO_LONG);
    let mut stage = long(&place, [], Setup::new([]));
    let replies = [overflow(), text(["SUMMARY"]), overflow()];
    exchange(&mut stage, "second", replies);
    assert_eq!(failures(&stage), [OVERFLOW_AGAIN]);
    let words = "word ".repeat(400);
    exchange(&mut stage, "third", [text([&*words])]);
    exchange(
        &mut stage,
        "fourth",
        [
            overflow(),
            text(["SUMMARY"]),
            text(["SUMMARY"]),
            text(["ok"]),
        ],
    );
    assert_eq!(failures(&stage).len(), 1);
    assert_eq!(stage.life.log.count("compaction_start"), 2);
    while stage.life.world.model.left() > 0 {
        exchange(&mut stage, "drain", []);
    }
    stage.check(&place);
}

/// A command of the user's that ended during the run is stored behind the response that
/// failed, which is left out of the further request all the same.
#[test]
fn an_overflow_is_recovered_also_behind_a_command_of_the_users() {
    let place = Place::new(Kind::Jsonl);
    let overflow = failing(StreamErrorKind::Overflow, TOO_LONG);
    let replies = [overflow, text(["SUMMARY"]), text(["ok"])];
    let mut stage = long(&place, replies, manual([]));
    stage.prompt("go");
    stage.until("request_model");
    stage
        .execute(Command::Bash {
            command: "ls".into(),
            exclude_from_context: false,
        })
        .unwrap();
    stage.run_out();
    let retried = stage.life.log.events().into_iter().any(|event| {
        matches!(
            event,
            Event::CompactionEnd {
                will_retry: true,
                ..
            }
        )
    });
    assert!(retried);
    let last = stage.reports.last().unwrap().last.clone().unwrap();
    assert!(!last.as_assistant().unwrap().failed());
    stage.check(&place);
}

/// The window that did not suffice is no longer that of the session.
#[test]
fn an_overflow_of_another_model_compacts_nothing() {
    let place = Place::new(Kind::Jsonl);
    let overflow = failing(StreamErrorKind::Overflow, TOO_LONG);
    let setup = Setup {
        models_json: Some(crate::races::TWO_MODELS),
        ..manual([])
    };
    let mut stage = long(&place, [overflow], setup);
    stage.prompt("go");
    stage.until("stream:error");
    let switch = json!({"type": "set_model", "provider": "fake", "modelId": "two"});
    let switch = serde_json::from_value(switch).unwrap();
    stage.execute(switch).unwrap();
    stage.run_out();
    assert_eq!(stage.life.log.count("compaction_start"), 0);
    stage.check(&place);
}

#[test]
fn a_session_that_was_left_too_large_is_compacted_before_the_first_request() {
    let place = Place::new(Kind::Jsonl);
    let words = "word ".repeat(100);
    let mut before = Stage::begin(&place, Setup::new([]));
    exchange(&mut before, "fill it", [reporting(&words, 900)]);
    drop(before);
    let setup = Setup {
        model: window(1000),
        ..Setup::new([text(["SUMMARY"]), text(["ok"])])
    };
    let mut stage = Stage::begin(&place, setup);
    stage.life.world.time.advance(Duration::from_secs(5));
    stage.prompt("go");
    stage.run_out();
    assert_eq!(
        stage.life.log.names()[..2],
        ["compaction_start", "compaction_end"]
    );
    let requests = stage.life.world.model.requests();
    assert_eq!(requests.len(), 2);
    assert!(texts(&requests[1]).contains("SUMMARY"));
    stage.check(&place);
}

#[test]
fn a_failure_of_the_summary_is_told_and_the_session_goes_on() {
    let place = Place::new(Kind::Jsonl);
    let failure = failing(StreamErrorKind::InvalidRequest, "400 no");
    let mut stage = filling(&place, vec![failure], Setup::new([]));
    stage.run_out();
    let told = failures(&stage);
    let expected = "Auto-compaction failed: Turn prefix summarization failed: 400 no";
    assert_eq!(told, [expected]);
    assert_eq!(Stage::roles(&place), ["user", "assistant"]);
    stage
        .execute(Command::SetAutoCompaction { enabled: false })
        .unwrap();
    stage.check(&place);
}

#[test]
fn a_command_of_the_users_is_stored_before_the_compaction_that_follows_the_run() {
    let place = Place::new(Kind::Jsonl);
    let mut stage = filling(&place, vec![text(["SUMMARY"])], manual([]));
    stage.until("append:assistant");
    let bash = Command::Bash {
        command: "ls".into(),
        exclude_from_context: true,
    };
    stage.execute(bash).unwrap();
    stage.run_out();
    let expected = [
        "model_change",
        "thinking_level_change",
        "user",
        "assistant",
        "bashExecution",
        "compaction",
    ];
    assert_eq!(place.kinds(), expected);
    let stage = stage.check(&place);
    let sent = texts(stage.life.world.model.requests().last().unwrap());
    assert!(!sent.contains("Ran `ls`"), "{sent}");
}
