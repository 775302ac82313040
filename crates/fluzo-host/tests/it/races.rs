//! Both orders of every race between what a user does and what goes on.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fluzo_llm::{Model, StreamErrorKind};
use fluzo_protocol::{Command, Endpoint, Event, QueueBehavior};
use fluzo_runtime::compact::CompactionSettings;
use fluzo_runtime::drive::ManualDrive;
use fluzo_runtime::retry::RetryPolicy;
use fluzo_testkit::reply::{calls, failing, never_ending, text};
use fluzo_testkit::{FakeTool, Reply, Switch};
use serde_json::{Value, json};

use crate::doubles::FakeShell;
use crate::life::{Kind, Place, Setup};
use crate::stage::{Holds, Stage, reporting};

/// Two models of a provider that can be used.
pub const TWO_MODELS: &str = r#"{"providers": {"fake": {"baseUrl": "http://localhost:1/v1",
    "api": "openai-completions", "apiKey": "k", "models": [
        {"id": "one", "contextWindow": 100000, "reasoning": true},
        {"id": "two", "contextWindow": 100000}]}}}"#;

pub fn manual(replies: impl IntoIterator<Item = Reply>) -> Setup<'static> {
    Setup {
        drive: Some(ManualDrive::new()),
        ..Setup::new(replies)
    }
}

/// A session with one long answer, which is enough to be compacted.
pub fn long(place: &Place, replies: impl IntoIterator<Item = Reply>, rest: Setup<'_>) -> Stage {
    let words = "word ".repeat(400);
    let first = text([&*words]);
    let setup = Setup {
        replies: std::iter::once(first).chain(replies).collect(),
        compaction: CompactionSettings {
            keep_recent_tokens: 10,
            ..CompactionSettings::default()
        },
        ..rest
    };
    let mut stage = Stage::begin(place, setup);
    stage.prompt("first");
    stage.run_out();
    stage.life.world.time.advance(Duration::from_secs(1));
    stage
}

pub fn compact() -> Command {
    Command::Compact {
        custom_instructions: None,
    }
}

fn bash() -> Command {
    Command::Bash {
        command: "ls".into(),
        exclude_from_context: false,
    }
}

fn set_model(id: &str) -> Command {
    Command::SetModel {
        provider: "fake".into(),
        model_id: id.into(),
    }
}

fn navigate(entry_id: &str, summarize: bool) -> Command {
    Command::NavigateTree {
        entry_id: entry_id.into(),
        summarize,
        custom_instructions: None,
        replace_instructions: false,
        label: None,
    }
}

/// Id of the first entry of that kind or role.
pub fn entry(stage: &mut Stage, kind: &str) -> String {
    let data = stage.execute(Command::GetEntries { since: None }).unwrap();
    let is = |e: &&Value| e["type"] == kind || e["message"]["role"] == kind;
    let entries = data["entries"].as_array().unwrap();
    entries.iter().find(is).unwrap()["id"]
        .as_str()
        .unwrap()
        .to_owned()
}

const QUEUES: [QueueBehavior; 2] = [QueueBehavior::Steer, QueueBehavior::FollowUp];

#[test]
fn a_message_queued_before_the_last_look_is_taken_into_the_run() {
    for queue in QUEUES {
        let place = Place::new(Kind::Jsonl);
        let mut stage = Stage::begin(&place, manual([text(["a"]), text(["b"])]));
        stage.prompt("go");
        stage.until("append:assistant");
        stage.queue("more", queue);
        stage.run_out();
        assert_eq!(stage.life.log.count("agent_start"), 1);
        assert_eq!(
            Stage::roles(&place),
            ["user", "assistant", "user", "assistant"]
        );
        stage.check(&place);
    }
}

#[test]
fn a_message_queued_after_the_last_look_is_answered_before_the_prompt_is_over() {
    for queue in QUEUES {
        let place = Place::new(Kind::Jsonl);
        let mut stage = Stage::begin(&place, Setup::new([text(["a"]), text(["b"])]));
        let holds = Holds::at("agent_end", &stage);
        stage.prompt("go");
        assert!(holds.reached.is_on());
        stage.queue("more", queue);
        holds.go_on.flip();
        stage.run_out();
        assert_eq!(stage.life.log.count("agent_start"), 2);
        assert_eq!(stage.life.log.count("queue_update"), 2);
        assert_eq!(
            Stage::roles(&place),
            ["user", "assistant", "user", "assistant"]
        );
        stage.check(&place);
    }
}

#[test]
fn a_message_queued_behind_a_failure_or_an_abort_waits_for_the_next_prompt() {
    for abort in [false, true] {
        let place = Place::new(Kind::Jsonl);
        let failure = failing(StreamErrorKind::InvalidRequest, "400 no");
        let reply = if abort { text(["a"]) } else { failure };
        let mut stage = Stage::begin(&place, Setup::new([reply]));
        let holds = Holds::at("agent_end", &stage);
        stage.prompt("go");
        stage.queue("more", QueueBehavior::Steer);
        if abort {
            stage.life.session.abort();
        }
        holds.go_on.flip();
        stage.run_out();
        assert_eq!(stage.life.session.snapshot().pending_message_count, 1);
        assert_eq!(stage.life.log.count("agent_start"), 1);
        let stage = stage.check(&place);
        assert_eq!(stage.life.session.snapshot().pending_message_count, 0);
    }
}

#[test]
fn an_abort_before_and_after_the_result_of_a_call() {
    // Before the tool runs, while it runs, and when its result is about to be stored.
    for at in ["run_tool:c1", "append:toolResult:c1"] {
        let place = Place::new(Kind::Jsonl);
        let tool = Arc::new(FakeTool::new("one"));
        let setup = Setup {
            tools: vec![&tool],
            ..manual([calls([("c1", "one", json!({}))])])
        };
        let mut stage = Stage::begin(&place, setup);
        stage.prompt("go");
        stage.until(at);
        stage.start(Command::Abort);
        assert!(
            stage.is_working("abort"),
            "answered before the run was over"
        );
        stage.run_out();
        assert_eq!(stage.answer("abort"), Ok(Value::Null));
        assert_eq!(
            Stage::roles(&place),
            ["user", "assistant", "toolResult", "assistant"]
        );
        assert_eq!(stage.life.world.model.requests().len(), 1);
        let stage = stage.check(&place);
        assert!(tool.ran().len() <= 1);
        assert_eq!(stage.life.world.model.requests().len(), 2);
    }
}

#[test]
fn an_abort_before_and_after_the_summary() {
    let place = Place::new(Kind::Jsonl);
    let mut stage = long(&place, [text(["SUMMARY"])], manual([]));
    stage.start(compact());
    stage.until("stream:done");
    stage.execute(Command::AbortCompaction).unwrap();
    stage.run_out();
    assert_eq!(stage.answer("compact"), Err("Compaction cancelled".into()));
    assert_eq!(Stage::roles(&place), ["user", "assistant"]);
    stage.check(&place);

    let place = Place::new(Kind::Jsonl);
    let mut stage = long(&place, [text(["SUMMARY"])], Setup::new([]));
    let holds = Holds::at("compaction_end", &stage);
    stage.start(compact());
    assert!(holds.reached.is_on());
    stage.execute(Command::AbortCompaction).unwrap();
    holds.go_on.flip();
    stage.run_out();
    let summary = stage.answer("compact").unwrap()["summary"].clone();
    assert!(summary.as_str().unwrap().ends_with("SUMMARY"));
    assert_eq!(Stage::roles(&place)[0], "compactionSummary");
    stage.check(&place);
}

#[test]
fn a_compaction_by_hand_ends_the_run_that_goes_on() {
    let place = Place::new(Kind::Jsonl);
    let replies = [never_ending(["some"]), text(["SUMMARY"])];
    let mut stage = long(&place, replies, Setup::new([]));
    stage.prompt("go");
    assert!(stage.life.is_running());
    stage.start(compact());
    stage.run_out();
    assert!(stage.answer("compact").is_ok());
    let last = stage.reports.last().unwrap().last.clone().unwrap();
    assert!(last.as_assistant().unwrap().failed());
    stage.check(&place);
}

#[test]
fn a_prompt_during_a_compaction_is_refused_or_answered_after_it() {
    for queue in QUEUES {
        let place = Place::new(Kind::Jsonl);
        let mut stage = long(&place, [text(["SUMMARY"]), text(["later"])], manual([]));
        stage.start(compact());
        stage.until("stream:done");
        let state = stage.life.session.snapshot();
        assert!(state.is_compacting && !state.is_streaming);
        let refused = stage.refusal("now").unwrap();
        assert!(
            refused.starts_with("Agent is already processing."),
            "{refused}"
        );
        stage.queue("then", queue);
        stage.run_out();
        assert!(stage.answer("compact").is_ok());
        let roles = Stage::roles(&place);
        assert_eq!(roles.first().unwrap(), "compactionSummary");
        assert_eq!(roles[roles.len() - 2..], ["user", "assistant"]);
        stage.check(&place);
    }
}

#[test]
fn what_was_queued_is_answered_although_the_compaction_failed() {
    let place = Place::new(Kind::Jsonl);
    let failure = failing(StreamErrorKind::InvalidRequest, "400 no");
    let mut stage = long(&place, [failure, text(["later"])], manual([]));
    stage.start(compact());
    stage.until("request_model");
    stage.queue("then", QueueBehavior::FollowUp);
    stage.run_out();
    let error = stage.answer("compact").unwrap_err();
    assert!(error.contains("ummarization failed: 400 no"), "{error}");
    let roles = Stage::roles(&place);
    assert_eq!(roles, ["user", "assistant", "user", "assistant"]);
    stage.check(&place);
}

#[test]
fn after_an_abort_what_was_queued_during_a_compaction_waits_on() {
    let place = Place::new(Kind::Jsonl);
    let mut stage = long(&place, [text(["SUMMARY"])], manual([]));
    stage.start(compact());
    stage.until("stream:done");
    stage.queue("then", QueueBehavior::Steer);
    // It ends what would run, not the compaction.
    assert!(stage.execute(Command::Abort).is_ok());
    stage.run_out();
    assert!(stage.answer("compact").is_ok());
    assert_eq!(stage.life.session.snapshot().pending_message_count, 1);
    stage.check(&place);
}

/// A session that waits before a further attempt, of the model `one`.
fn waiting(place: &Place, replies: impl IntoIterator<Item = Reply>) -> Stage {
    let failure = failing(StreamErrorKind::Transient, "503 overloaded");
    let setup = Setup {
        retry: RetryPolicy::default(),
        models_json: Some(TWO_MODELS),
        ..manual(std::iter::once(failure).chain(replies))
    };
    let mut stage = Stage::begin(place, setup);
    stage.execute(set_model("one")).unwrap();
    stage.prompt("go");
    stage.until("sleep");
    stage
}

fn models_asked(stage: &Stage) -> Vec<String> {
    let requests = stage.life.world.model.requests();
    requests.iter().map(|r| r.model.id.clone()).collect()
}

#[test]
fn a_model_chosen_during_the_wait_makes_the_further_attempt() {
    let place = Place::new(Kind::Jsonl);
    let mut stage = waiting(&place, [text(["ok"])]);
    stage.execute(set_model("two")).unwrap();
    stage.run_out();
    assert_eq!(models_asked(&stage), ["one", "two"]);
    let events = stage.life.log.events();
    let ended = events
        .iter()
        .any(|e| matches!(e, Event::AutoRetryEnd { success: true, .. }));
    assert!(ended);
    stage.check(&place);
}

#[test]
fn a_model_chosen_after_the_wait_makes_the_request_after() {
    let place = Place::new(Kind::Jsonl);
    let mut stage = waiting(&place, [text(["ok"])]);
    stage.release("sleep");
    stage.until("request_model");
    stage.execute(set_model("two")).unwrap();
    stage.run_out();
    assert_eq!(models_asked(&stage), ["one", "one"]);
    let stage = stage.check(&place);
    assert_eq!(models_asked(&stage), ["one", "one", "two"]);
}

#[test]
fn a_model_chosen_before_and_after_the_end_of_a_turn() {
    for (at, expected) in [
        ("append:toolResult:c1", ["one", "two"]),
        ("request_model", ["one", "one"]),
    ] {
        let place = Place::new(Kind::Jsonl);
        let tool = Arc::new(FakeTool::new("tool"));
        let setup = Setup {
            tools: vec![&tool],
            models_json: Some(TWO_MODELS),
            ..manual([calls([("c1", "tool", json!({}))]), text(["ok"])])
        };
        let mut stage = Stage::begin(&place, setup);
        stage.execute(set_model("one")).unwrap();
        stage.prompt("go");
        stage.until("append:toolResult:c1");
        if at == "request_model" {
            stage.until(at);
        }
        stage.execute(set_model("two")).unwrap();
        stage.run_out();
        assert_eq!(models_asked(&stage), expected, "{at}");
        stage.check(&place);
    }
}

/// A session whose first run fills the window, so that its compaction follows.
pub fn filling(place: &Place, replies: Vec<Reply>, rest: Setup<'_>) -> Stage {
    let words = "word ".repeat(100);
    let model = Model {
        context_window: 1000,
        ..fluzo_testkit::model()
    };
    let first = reporting(&words, 900);
    let setup = Setup {
        replies: std::iter::once(first).chain(replies).collect(),
        model,
        ..rest
    };
    let mut stage = Stage::begin(place, setup);
    stage.prompt("fill it");
    stage
}

#[test]
fn an_abort_before_and_after_the_summary_of_an_automatic_compaction() {
    let place = Place::new(Kind::Jsonl);
    let mut stage = filling(&place, vec![text(["SUMMARY"])], manual([]));
    stage.until("append:assistant");
    stage.release("append:assistant");
    stage.until("stream:done");
    stage.queue("more", QueueBehavior::FollowUp);
    stage.start(Command::Abort);
    stage.run_out();
    let events = stage.life.log.events();
    assert!(matches!(
        events.last(),
        Some(Event::CompactionEnd { aborted: true, .. })
    ));
    assert_eq!(stage.life.session.snapshot().pending_message_count, 1);
    assert_eq!(Stage::roles(&place), ["user", "assistant"]);
    stage.life.world.model.push(text(["SUMMARY"]));
    stage.life.world.model.push(text(["more"]));
    stage.check(&place);

    let place = Place::new(Kind::Jsonl);
    let mut stage = filling(&place, vec![text(["SUMMARY"])], manual([]));
    let holds = Holds::at("compaction_end", &stage);
    while !holds.reached.is_on() {
        let first = stage.life.drive.as_ref().unwrap().parked().remove(0);
        stage.release(&first);
    }
    stage.queue("more", QueueBehavior::FollowUp);
    stage.start(Command::Abort);
    holds.go_on.flip();
    stage.run_out();
    assert_eq!(stage.life.log.count("agent_start"), 1, "the queue waits");
    assert_eq!(Stage::roles(&place)[0], "compactionSummary");
    stage.life.world.model.push(text(["more"]));
    stage.check(&place);
}

#[test]
fn a_command_of_the_users_that_ends_before_and_after_the_run() {
    for first in ["command", "run"] {
        let place = Place::new(Kind::Jsonl);
        let (shell, answer) = (
            FakeShell {
                ready: Switch::new(),
            },
            Switch::new(),
        );
        let ready = shell.ready.clone();
        let setup = Setup {
            shell: Arc::new(shell),
            ..Setup::new([text(["a"]).wait(&answer)])
        };
        let mut stage = Stage::begin(&place, setup);
        stage.prompt("go");
        stage.start(bash());
        let (now, then) = if first == "command" {
            (ready, answer)
        } else {
            (answer, ready)
        };
        now.flip();
        stage.settle();
        assert_eq!(stage.is_working("bash"), first == "run");
        if first == "command" {
            assert_eq!(Stage::roles(&place), ["user"], "held back");
        }
        then.flip();
        stage.run_out();
        assert_eq!(Stage::roles(&place), ["user", "assistant", "bashExecution"]);
        stage.check(&place);
    }
}

#[test]
fn the_tree_stands_still_during_a_run_and_a_run_waits_for_a_move() {
    let place = Place::new(Kind::Jsonl);
    let replies = [text(["second"]), text(["SUMMARY"]), text(["ok"])];
    let mut stage = long(&place, replies, manual([]));
    let target = entry(&mut stage, "assistant");
    stage.prompt("go");
    stage.until("request_model");
    let refused = stage.execute(navigate(&target, false)).unwrap_err();
    assert!(
        refused.starts_with("Wait for the current response"),
        "{refused}"
    );
    stage.run_out();
    stage.start(navigate(&target, true));
    stage.until("stream:done");
    assert!(stage.refusal("now").is_some());
    stage.run_out();
    let moved = stage.answer("navigate_tree").unwrap();
    assert_eq!(moved["cancelled"], false);
    assert_eq!(moved["summaryEntry"]["type"], "branch_summary");
    assert_eq!(Stage::roles(&place), ["user", "assistant", "branchSummary"]);
    stage.check(&place);
}

#[test]
fn a_prompt_queued_during_a_move_is_answered_after_it() {
    for queue in QUEUES {
        let place = Place::new(Kind::Jsonl);
        let replies = [text(["second"]), text(["SUMMARY"]), text(["later"])];
        let mut stage = long(&place, replies, manual([]));
        let target = entry(&mut stage, "assistant");
        stage.prompt("go");
        stage.run_out();
        stage.start(navigate(&target, true));
        stage.until("stream:done");
        stage.queue("then", queue);
        stage.run_out();
        assert_eq!(stage.answer("navigate_tree").unwrap()["cancelled"], false);
        let roles = Stage::roles(&place);
        let expected = ["user", "assistant", "branchSummary", "user", "assistant"];
        assert_eq!(roles, expected);
        stage.check(&place);
    }
}

#[test]
fn what_waits_for_a_run_does_not_begin_when_the_session_ends() {
    let place = Place::new(Kind::Jsonl);
    let replies = [never_ending(["some"]), text(["SUMMARY"])];
    let mut stage = long(&place, replies, Setup::new([]));
    stage.prompt("go");
    assert!(stage.life.is_running());
    let session = stage.life.session.clone();
    let mut waits = session.execute(compact());
    let mut context = Context::from_waker(Waker::noop());
    assert!(waits.as_mut().poll(&mut context).is_pending());
    session.end();
    stage.run_out();
    match waits.as_mut().poll(&mut context) {
        Poll::Ready(Err(error)) => assert_eq!(error, "the session is ending"),
        _ => panic!("it waits on, or was carried out"),
    }
    let roles = Stage::roles(&place);
    assert_eq!(roles, ["user", "assistant", "user", "assistant"]);
}

#[test]
fn a_move_that_is_dropped_leaves_the_leaf_and_the_session_free() {
    let place = Place::new(Kind::Jsonl);
    let replies = [text(["second"]), text(["SUMMARY"])];
    let mut stage = long(&place, replies, manual([]));
    let target = entry(&mut stage, "assistant");
    stage.prompt("go");
    stage.run_out();
    stage.start(navigate(&target, true));
    stage.until("stream:done");
    stage.drop_command("navigate_tree");
    assert_eq!(Stage::roles(&place).len(), 4);
    stage.check(&place);
}
