//! Everything a user can do, at any moment and in any order, while effects happen in any
//! order: the session stays whole.

use std::sync::Arc;

use fluzo_llm::{Model, StreamErrorKind};
use fluzo_protocol::{Command, Endpoint, Prompt, QueueBehavior, Submitted};
use fluzo_runtime::compact::CompactionSettings;
use fluzo_runtime::drive::ManualDrive;
use fluzo_runtime::retry::RetryPolicy;
use fluzo_testkit::reply::{calls, failing, text};
use fluzo_testkit::{FakeTool, Reply, poll_to_end};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::life::{Kind, Place, Setup};
use crate::races::TWO_MODELS;
use crate::stage::{Stage, reporting};

/// Something that happens.
#[derive(Debug, Clone)]
enum Step {
    /// The effect at this place, as many as wait taken round, happens.
    Effect(usize),
    Prompt(Option<QueueBehavior>),
    Command(Command),
    /// A move to the entry at this place among those that end or begin a turn.
    Move(usize, bool),
}

fn step() -> impl Strategy<Value = Step> {
    let queue = prop_oneof![
        Just(None),
        Just(Some(QueueBehavior::Steer)),
        Just(Some(QueueBehavior::FollowUp)),
    ];
    prop_oneof![
        12 => (0_usize..4).prop_map(Step::Effect),
        4 => queue.prop_map(Step::Prompt),
        6 => command().prop_map(Step::Command),
        1 => (0_usize..20, any::<bool>()).prop_map(|(at, summarize)| Step::Move(at, summarize)),
    ]
}

fn command() -> impl Strategy<Value = Command> {
    let rows = [
        json!({"type": "abort"}),
        json!({"type": "compact"}),
        json!({"type": "abort_compaction"}),
        json!({"type": "abort_retry"}),
        json!({"type": "abort_branch_summary"}),
        json!({"type": "bash", "command": "ls"}),
        json!({"type": "bash", "command": "ls", "excludeFromContext": true}),
        json!({"type": "set_model", "provider": "fake", "modelId": "one"}),
        json!({"type": "set_model", "provider": "fake", "modelId": "two"}),
        json!({"type": "set_thinking_level", "level": "high"}),
        json!({"type": "set_session_name", "name": "n"}),
        json!({"type": "steer", "message": "S"}),
        json!({"type": "follow_up", "message": "F"}),
        json!({"type": "clear_queue"}),
        json!({"type": "set_steering_mode", "mode": "all"}),
        json!({"type": "get_request"}),
    ];
    let commands = rows.map(|row| serde_json::from_value::<Command>(row).unwrap());
    proptest::sample::select(commands.to_vec())
}

/// Reply number `at` of the kind `number`: any may come to any request.
fn reply(at: usize, number: u8) -> Reply {
    let (one, two) = (format!("c{at}a"), format!("c{at}b"));
    match number % 8 {
        0 => text(["short"]),
        1 => reporting(&"word ".repeat(200), 900),
        2 => calls([(&*one, "one", json!({}))]),
        3 => calls([(&*one, "one", json!({})), (&*two, "one", json!({}))]),
        4 => failing(StreamErrorKind::Transient, "503 overloaded"),
        5 => failing(StreamErrorKind::Overflow, "400 too long"),
        6 => failing(StreamErrorKind::InvalidRequest, "400 no"),
        _ => text(["longer ", "text"]),
    }
}

/// Ids of the entries that a user may move to so that no call loses its result.
fn places(stage: &mut Stage) -> Vec<String> {
    let data = stage.execute(Command::GetEntries { since: None }).unwrap();
    let whole = |entry: &&Value| {
        let message = &entry["message"];
        let user = message["role"] == "user";
        user || (message["role"] == "assistant" && message["stopReason"] == "stop")
    };
    let entries = data["entries"].as_array().unwrap();
    let ids = entries.iter().filter(whole);
    ids.map(|entry| entry["id"].as_str().unwrap().to_owned())
        .collect()
}

fn take(stage: &mut Stage, drive: &ManualDrive, step: &Step) {
    match step {
        Step::Effect(at) => {
            let parked = drive.parked();
            if let Some(name) = parked.get(at % parked.len().max(1)) {
                stage.release(name);
            }
        }
        Step::Prompt(queue) => {
            let prompt = Prompt {
                text: "go".into(),
                queue: *queue,
                ..Prompt::default()
            };
            let submitted = poll_to_end(stage.life.session.prompt(prompt));
            if let Ok(Submitted::Run(run)) = submitted {
                stage.life.attend(run);
                stage.settle();
            }
        }
        Step::Command(command) => stage.start(command.clone()),
        Step::Move(at, summarize) => {
            let ids = places(stage);
            if let Some(entry_id) = ids.get(at % ids.len().max(1)) {
                stage.start(Command::NavigateTree {
                    entry_id: entry_id.clone(),
                    summarize: *summarize,
                    custom_instructions: None,
                    replace_instructions: false,
                    label: None,
                });
            }
        }
    }
}

/// More replies than a storm can use.
const REPLIES: usize = 120;

fn check(replies: &[u8], steps: &[Step]) {
    let place = Place::new(Kind::Jsonl);
    let tool = Arc::new(FakeTool::new("one"));
    let drive = ManualDrive::new();
    let model = Model {
        context_window: 1000,
        ..fluzo_testkit::model()
    };
    let retry = RetryPolicy {
        max_retries: 1,
        ..RetryPolicy::default()
    };
    let compaction = CompactionSettings {
        keep_recent_tokens: 50,
        ..CompactionSettings::default()
    };
    let kinds = replies.iter().cycle().take(REPLIES).enumerate();
    let given = kinds.map(|(at, number)| reply(at, *number));
    let setup = Setup {
        tools: vec![&tool],
        drive: Some(drive.clone()),
        models_json: Some(TWO_MODELS),
        model,
        retry,
        compaction,
        ..Setup::new(given)
    };
    let mut stage = Stage::begin(&place, setup);
    for step in steps {
        take(&mut stage, &drive, step);
    }
    stage.run_out();
    // What was moved to is stored with the next prompt; it may fail, as any other may.
    stage.execute(Command::ClearQueue).unwrap();
    stage.prompt("one more");
    stage.run_out();
    stage.check_whole(&place);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_session_stays_whole_whatever_happens(
        replies in prop::collection::vec(any::<u8>(), 1..12),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        check(&replies, &steps);
    }
}
