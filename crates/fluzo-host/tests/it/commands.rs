//! Every command of a session: what it is given, what it answers, what it leaves behind.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fluzo_protocol::{Command, Endpoint};
use fluzo_testkit::FakeTool;
use fluzo_testkit::reply::{calls, text};
use serde_json::{Value, json};

use crate::doubles::Remembers;
use crate::life::{Kind, Place, Setup};
use crate::races::TWO_MODELS;
use crate::stage::{Answer, Stage, reporting};

/// Whether `actual` says all that `expected` does: of objects the keys that are named.
fn says(actual: &Value, expected: &Value) -> bool {
    match (actual, expected) {
        (Value::Object(actual), Value::Object(expected)) => expected
            .iter()
            .all(|(key, value)| actual.get(key).is_some_and(|own| says(own, value))),
        (Value::Array(actual), Value::Array(expected)) => {
            let same = actual.len() == expected.len();
            same && actual.iter().zip(expected).all(|(a, e)| says(a, e))
        }
        _ => actual == expected,
    }
}

fn command(json: &Value) -> Command {
    serde_json::from_value(json.clone()).unwrap()
}

#[track_caller]
fn check(stage: &mut Stage, json: &Value, expected: &Answer) {
    let answer = match command(json) {
        Command::Prompt { .. } => stage.execute(command(json)),
        command => {
            let name = command.name();
            stage.start(command);
            stage.run_out();
            stage.answer(name)
        }
    };
    let fits = match (&answer, expected) {
        (Ok(actual), Ok(expected)) => says(actual, expected),
        (Err(actual), Err(expected)) => actual == expected,
        _ => false,
    };
    assert!(fits, "{json}: {answer:?}, not {expected:?}");
}

/// A session with a call, its result and two exchanges, and the ids of its user messages.
fn prepared(place: &Place, settings: &Arc<Remembers>) -> (Stage, Vec<String>) {
    let tool = Arc::new(FakeTool::new("look"));
    let replies = [
        calls([("c1", "look", json!({}))]),
        reporting("one", 15),
        reporting("two", 15),
    ];
    let setup = Setup {
        tools: vec![&tool],
        models_json: Some(TWO_MODELS),
        settings: Arc::clone(settings) as _,
        ..Setup::new(replies)
    };
    let mut stage = Stage::begin(place, setup);
    for prompt in ["first", "second"] {
        stage.prompt(prompt);
        stage.run_out();
    }
    let data = stage.execute(Command::GetForkMessages).unwrap();
    let messages = data["messages"].as_array().unwrap();
    let id = |message: &Value| message["entryId"].as_str().unwrap().to_owned();
    let ids = messages.iter().map(id).collect();
    (stage, ids)
}

/// Commands that ask, and what they answer in a [`prepared`] session. `=>` stands before data
/// and `!` before the text of a refusal; FIRST and SECOND are the user messages.
const QUESTIONS: &str = r#"
{"type": "get_state"} => {"model": {"id": "m1", "provider": "test", "contextWindow": 100000}, "thinkingLevel": "off", "isStreaming": false, "isCompacting": false, "steeringMode": "one-at-a-time", "followUpMode": "one-at-a-time", "sessionId": "s", "autoCompactionEnabled": true, "messageCount": 6, "pendingMessageCount": 0}
{"type": "get_messages"} => {"messages": [{"role": "user"}, {"role": "assistant"}, {"role": "toolResult"}, {"role": "assistant"}, {"role": "user"}, {"role": "assistant"}]}
{"type": "get_session_stats"} => {"sessionId": "s", "userMessages": 2, "assistantMessages": 3, "toolCalls": 1, "toolResults": 1, "totalMessages": 6, "cost": 0.0, "contextUsage": {"tokens": 15, "contextWindow": 100000, "percent": 0.015}, "tokens": {"input": 20, "output": 10, "cacheRead": 0, "cacheWrite": 0, "total": 30}}
{"type": "get_fork_messages"} => {"messages": [{"entryId": "FIRST", "text": "first"}, {"entryId": "SECOND", "text": "second"}]}
{"type": "get_last_assistant_text"} => {"text": "two"}
{"type": "get_entries", "since": "SECOND"} => {"entries": [{"type": "message", "message": {"role": "assistant"}}]}
{"type": "get_entries", "since": "nope"} ! Entry nope not found
{"type": "get_tree"} => {"tree": [{"entry": {"type": "model_change"}, "children": [{"entry": {"type": "thinking_level_change"}}]}]}
{"type": "get_commands"} => {"commands": []}
{"type": "get_diagnostics"} => {"diagnostics": []}
{"type": "get_tools"} => {"tools": [{"name": "look", "description": "test tool look", "active": true}]}
{"type": "get_active_tools"} => {"tools": ["look"]}
{"type": "get_request"} => {"model": "m1", "system": "system", "messages": 6}
{"type": "get_available_models"} => {"models": [{"id": "one", "provider": "fake"}, {"id": "two"}]}
{"type": "get_scoped_models"} => {"patterns": [], "models": []}
{"type": "get_available_thinking_levels"} => {"levels": ["off", "minimal", "low", "medium", "high"]}
"#;

/// Commands that change something, one after the other.
const CHANGES: &str = r#"
{"type": "prompt", "message": "x"} ! a prompt is started, not executed
{"type": "steer", "message": " "} ! the message is empty
{"type": "steer", "message": "S"} => null
{"type": "follow_up", "message": "F"} => null
{"type": "get_state"} => {"pendingMessageCount": 2}
{"type": "clear_queue"} => {"steering": ["S"], "followUp": ["F"]}
{"type": "abort"} => null
{"type": "abort_retry"} => null
{"type": "abort_bash"} => null
{"type": "abort_compaction"} => null
{"type": "abort_branch_summary"} => null
{"type": "abort_share"} => null
{"type": "new_session"} ! this command needs the host of the session
{"type": "switch_session", "sessionPath": "x"} ! this command needs the host of the session
{"type": "import_session", "path": "x"} ! this command needs the host of the session
{"type": "list_sessions"} ! this command needs the host of the session
{"type": "fork", "entryId": "FIRST"} ! this command needs the host of the session
{"type": "clone"} ! this command needs the host of the session
{"type": "reload"} ! this command needs the host of the session
{"type": "set_model", "provider": "test", "modelId": "m1"} ! Model not found: test/m1
{"type": "set_model", "provider": "fake", "modelId": "no"} ! Model not found: fake/no
{"type": "set_model", "provider": "fake", "modelId": "one"} => {"id": "one", "provider": "fake"}
{"type": "cycle_thinking_level"} => {"level": "minimal"}
{"type": "set_thinking_level", "level": "xhigh"} => null
{"type": "get_state"} => {"thinkingLevel": "high"}
{"type": "cycle_model"} => {"model": {"id": "two"}, "thinkingLevel": "off", "isScoped": false}
{"type": "cycle_thinking_level"} => null
{"type": "set_scoped_models", "patterns": ["fake/one"]} => null
{"type": "cycle_model", "direction": "backward"} => null
{"type": "set_scoped_models", "patterns": []} => null
{"type": "set_steering_mode", "mode": "all"} => null
{"type": "set_follow_up_mode", "mode": "all"} => null
{"type": "set_auto_compaction", "enabled": false} => null
{"type": "set_auto_retry", "enabled": false} => null
{"type": "get_state"} => {"steeringMode": "all", "followUpMode": "all", "autoCompactionEnabled": false}
{"type": "set_active_tools", "names": ["look", "no"]} ! Unknown tool: no
{"type": "set_active_tools", "names": []} => null
{"type": "get_active_tools"} => {"tools": []}
{"type": "set_session_name", "name": " \n"} ! Session name cannot be empty
{"type": "set_session_name", "name": " my\nname "} => null
{"type": "get_state"} => {"sessionName": "my name"}
{"type": "set_label", "entryId": "nope", "label": "L"} ! Entry nope not found
{"type": "set_label", "entryId": "FIRST", "label": " L "} => null
{"type": "set_label", "entryId": "SECOND", "label": "M"} => null
{"type": "set_label", "entryId": "SECOND"} => null
{"type": "bash", "command": "ls", "excludeFromContext": true} => {"output": "out", "exitCode": 0, "cancelled": false, "truncated": false}
{"type": "compact"} ! Nothing to compact (session too small)
{"type": "export_html", "outputPath": "a.html"} => {"path": "a.html"}
{"type": "export_jsonl", "outputPath": "a.jsonl"} => {"path": "a.jsonl"}
{"type": "share"} ! not here
{"type": "navigate_tree", "entryId": "nope"} ! Entry nope not found
{"type": "navigate_tree", "entryId": "SECOND"} => {"editorText": "second", "cancelled": false}
{"type": "get_messages"} => {"messages": [{}, {}, {}, {"role": "assistant"}]}
"#;

/// Commands of a session in which nothing was said.
const NEW: &str = r#"
{"type": "get_last_assistant_text"} => {}
{"type": "get_messages"} => {"messages": []}
{"type": "get_tree"} => {"tree": [], "leafId": null}
{"type": "get_entries"} => {"entries": [], "leafId": null}
{"type": "get_fork_messages"} => {"messages": []}
{"type": "cycle_model"} => null
{"type": "compact"} ! Nothing to compact (session too small)
"#;

/// The rows of a table, with the ids of the user messages in place.
fn rows(table: &str, ids: &[String]) -> Vec<(Value, Answer)> {
    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let row = |line: &str| match line.split_once(" => ") {
        Some((command, data)) => (read(command), Ok(read(data))),
        None => {
            let (command, refusal) = line.split_once(" ! ").unwrap();
            (read(command), Err(refusal.to_owned()))
        }
    };
    let mut table = table.to_owned();
    for (name, id) in ["FIRST", "SECOND"].into_iter().zip(ids) {
        table = table.replace(name, id);
    }
    table.trim().lines().map(row).collect()
}

#[test]
fn every_command_answers() {
    let place = Place::new(Kind::Memory);
    let settings = Arc::new(Remembers::default());
    let (mut stage, ids) = prepared(&place, &settings);
    let rows = [rows(QUESTIONS, &ids), rows(CHANGES, &ids)].concat();
    for (json, expected) in &rows {
        check(&mut stage, json, expected);
    }
    let named = rows.iter().map(|(json, _)| command(json).name());
    let named: BTreeSet<_> = named.collect();
    assert_eq!(named, Command::NAMES.iter().copied().collect());
    let kept = settings.0.lock().unwrap().clone();
    let expected = [
        ("defaultProvider", json!("fake")),
        ("defaultModel", json!("one")),
        ("defaultThinkingLevel", json!("minimal")),
        ("defaultThinkingLevel", json!("high")),
        ("defaultProvider", json!("fake")),
        ("defaultModel", json!("two")),
        ("enabledModels", json!(["fake/one"])),
        ("enabledModels", json!([])),
        ("steeringMode", json!("all")),
        ("followUpMode", json!("all")),
        ("compaction.enabled", json!(false)),
        ("retry.enabled", json!(false)),
    ];
    let expected = expected.map(|(key, value)| (key.to_owned(), value));
    assert_eq!(kept, expected);
    let stored = place.kinds();
    let expected = [
        "model_change",
        "thinking_level_change",
        "user",
        "assistant",
        "toolResult",
        "assistant",
        "user",
        "assistant",
        "model_change",
        "thinking_level_change",
        "thinking_level_change",
        "model_change",
        "thinking_level_change",
        "session_info",
        "label",
        "label",
        "label",
        "bashExecution",
    ];
    assert_eq!(stored, expected);
    let names = stage.life.log.names();
    let after =
        |name: &&String| matches!(&***name, "session_info_changed" | "thinking_level_changed");
    let shown: Vec<_> = names.iter().filter(after).collect();
    let expected = [
        "thinking_level_changed",
        "thinking_level_changed",
        "thinking_level_changed",
        "session_info_changed",
    ];
    assert_eq!(shown, expected);
    // The move in the tree is stored with what follows it.
    stage.life.world.model.push(text(["other"]));
    stage.prompt("instead");
    stage.run_out();
    stage.check(&place);
}

#[test]
fn a_new_session_answers_as_well() {
    let place = Place::new(Kind::Jsonl);
    let mut stage = Stage::begin(&place, Setup::new([]));
    for (json, expected) in &rows(NEW, &[]) {
        check(&mut stage, json, expected);
    }
    let state = stage.execute(Command::GetState).unwrap();
    let text = stage.execute(Command::GetLastAssistantText).unwrap();
    assert!(state.get("sessionName").is_none() && text.get("text").is_none());
    stage.check(&place);
}

/// The context is unknown right after a compaction, until a response reports it again.
#[test]
fn a_compaction_answers_and_leaves_the_context_unknown() {
    let place = Place::new(Kind::Jsonl);
    let mut stage = crate::races::long(&place, [text(["SUMMARY"])], Setup::new([]));
    let compacted = stage.execute(crate::races::compact()).unwrap();
    let keys: Vec<_> = compacted.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        ["summary", "firstKeptEntryId", "tokensBefore", "details"]
    );
    let (files, none) = (&compacted["details"], json!([]));
    assert_eq!(
        (&files["readFiles"], &files["modifiedFiles"]),
        (&none, &none)
    );
    let again = stage.execute(crate::races::compact());
    assert_eq!(again, Err("Already compacted".to_owned()));
    let stats = stage.execute(Command::GetSessionStats).unwrap();
    let usage = json!({"tokens": null, "contextWindow": 100_000, "percent": null});
    assert_eq!(stats["contextUsage"], usage);
    assert_eq!(
        stage.life.session.snapshot().message_count,
        place.messages().len()
    );
    stage.life.world.time.advance(Duration::from_secs(1));
    stage.life.world.model.push(reporting("more", 15));
    stage.prompt("more");
    stage.run_out();
    let stats = stage.execute(Command::GetSessionStats).unwrap();
    assert_eq!(stats["contextUsage"]["tokens"], 15);
    stage.check(&place);
}

#[test]
fn the_tree_of_a_session_may_be_of_any_depth() {
    let place = Place::new(Kind::Memory);
    let stored = place.stored();
    let depth = 20_000;
    for n in 0..depth {
        stored.append_session_info(&format!("n{n}"), n).unwrap();
    }
    let leaf = stored.leaf_id().unwrap();
    let stage = Stage::begin(&place, Setup::new([]));
    let executed = stage.life.session.execute(Command::GetTree);
    let executed = fluzo_testkit::poll_to_end(executed).unwrap();
    let data = executed.data.unwrap();
    assert_eq!(data.get().matches("\"children\":[").count(), 20_000);
    assert!(data.get().ends_with(&format!("],\"leafId\":\"{leaf}\"}}")));
}

#[test]
fn labels_stand_in_the_tree_and_branches_beside_each_other() {
    let place = Place::new(Kind::Memory);
    let settings = Arc::new(Remembers::default());
    let (mut stage, ids) = prepared(&place, &settings);
    let go = json!({"type": "navigate_tree", "entryId": ids[0], "label": "L"});
    stage.execute(command(&go)).unwrap();
    stage.life.world.model.push(text(["other"]));
    stage.prompt("instead");
    stage.run_out();
    let tree = stage.execute(Command::GetTree).unwrap();
    let level = &tree["tree"][0]["children"][0];
    let children = level["children"].as_array().unwrap();
    assert_eq!(children.len(), 2, "the old branch and the new one");
    assert_eq!(children[0]["label"], "L");
    assert_eq!(children[0]["entry"]["id"], json!(ids[0]));
    stage.check(&place);
}
