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

fn ok(value: Value) -> Answer {
    Ok(value)
}

fn refused(text: &str) -> Answer {
    Err(text.to_owned())
}

/// Commands that ask, and what they answer in a [`prepared`] session.
fn questions(ids: &[String]) -> Vec<(Value, Answer)> {
    let (first, second) = (&ids[0], &ids[1]);
    let usage = json!({ "tokens": 15, "contextWindow": 100_000, "percent": 0.015 });
    vec![
        (
            json!({"type": "get_state"}),
            ok(json!({
                "model": {"id": "m1", "provider": "test", "contextWindow": 100_000},
                "thinkingLevel": "off", "isStreaming": false, "isCompacting": false,
                "steeringMode": "one-at-a-time", "followUpMode": "one-at-a-time", "sessionId": "s",
                "autoCompactionEnabled": true, "messageCount": 6, "pendingMessageCount": 0,
            })),
        ),
        (
            json!({"type": "get_messages"}),
            ok(
                json!({"messages": [{"role": "user"}, {"role": "assistant"}, {"role": "toolResult"},
                {"role": "assistant"}, {"role": "user"}, {"role": "assistant"}]}),
            ),
        ),
        (
            json!({"type": "get_session_stats"}),
            ok(json!({
                "sessionId": "s", "userMessages": 2, "assistantMessages": 3, "toolCalls": 1,
                "toolResults": 1, "totalMessages": 6, "cost": 0.0, "contextUsage": usage,
                "tokens": {"input": 20, "output": 10, "cacheRead": 0, "cacheWrite": 0, "total": 30},
            })),
        ),
        (
            json!({"type": "get_fork_messages"}),
            ok(
                json!({"messages": [{"entryId": first, "text": "first"}, {"entryId": second, "text": "second"}]}),
            ),
        ),
        (
            json!({"type": "get_last_assistant_text"}),
            ok(json!({"text": "two"})),
        ),
        (
            json!({"type": "get_entries", "since": second}),
            ok(json!({"entries": [{"type": "message", "message": {"role": "assistant"}}]})),
        ),
        (
            json!({"type": "get_entries", "since": "nope"}),
            refused("Entry nope not found"),
        ),
        (
            json!({"type": "get_tree"}),
            ok(
                json!({"tree": [{"entry": {"type": "model_change"}, "children": [
                {"entry": {"type": "thinking_level_change"}}]}]}),
            ),
        ),
        (json!({"type": "get_commands"}), ok(json!({"commands": []}))),
        (
            json!({"type": "get_diagnostics"}),
            ok(json!({"diagnostics": []})),
        ),
        (
            json!({"type": "get_tools"}),
            ok(
                json!({"tools": [{"name": "look", "description": "test tool look", "active": true}]}),
            ),
        ),
        (
            json!({"type": "get_active_tools"}),
            ok(json!({"tools": ["look"]})),
        ),
        (
            json!({"type": "get_request"}),
            ok(json!({"model": "m1", "system": "system", "messages": 6})),
        ),
        (
            json!({"type": "get_available_models"}),
            ok(json!({"models": [{"id": "one", "provider": "fake"}, {"id": "two"}]})),
        ),
        (
            json!({"type": "get_scoped_models"}),
            ok(json!({"patterns": [], "models": []})),
        ),
        (
            json!({"type": "get_available_thinking_levels"}),
            ok(json!({"levels": ["off", "minimal", "low", "medium", "high"]})),
        ),
    ]
}

/// Commands that change something, one after the other.
fn changes(ids: &[String]) -> Vec<(Value, Answer)> {
    let elsewhere = || refused("this command needs the host of the session");
    let nothing = || ok(Value::Null);
    let (first, second) = (&ids[0], &ids[1]);
    vec![
        (
            json!({"type": "prompt", "message": "x"}),
            refused("a prompt is started, not executed"),
        ),
        (
            json!({"type": "steer", "message": " "}),
            refused("the message is empty"),
        ),
        (json!({"type": "steer", "message": "S"}), nothing()),
        (json!({"type": "follow_up", "message": "F"}), nothing()),
        (
            json!({"type": "get_state"}),
            ok(json!({"pendingMessageCount": 2})),
        ),
        (
            json!({"type": "clear_queue"}),
            ok(json!({"steering": ["S"], "followUp": ["F"]})),
        ),
        (json!({"type": "abort"}), nothing()),
        (json!({"type": "abort_retry"}), nothing()),
        (json!({"type": "abort_bash"}), nothing()),
        (json!({"type": "abort_compaction"}), nothing()),
        (json!({"type": "abort_branch_summary"}), nothing()),
        (json!({"type": "new_session"}), elsewhere()),
        (
            json!({"type": "switch_session", "sessionPath": "x"}),
            elsewhere(),
        ),
        (json!({"type": "import_session", "path": "x"}), elsewhere()),
        (json!({"type": "list_sessions"}), elsewhere()),
        (json!({"type": "fork", "entryId": first}), elsewhere()),
        (json!({"type": "clone"}), elsewhere()),
        (json!({"type": "reload"}), elsewhere()),
        (
            json!({"type": "set_model", "provider": "test", "modelId": "m1"}),
            refused("Model not found: test/m1"),
        ),
        (
            json!({"type": "set_model", "provider": "fake", "modelId": "no"}),
            refused("Model not found: fake/no"),
        ),
        (
            json!({"type": "set_model", "provider": "fake", "modelId": "one"}),
            ok(json!({"id": "one", "provider": "fake"})),
        ),
        (
            json!({"type": "cycle_thinking_level"}),
            ok(json!({"level": "minimal"})),
        ),
        (
            json!({"type": "set_thinking_level", "level": "xhigh"}),
            nothing(),
        ),
        (
            json!({"type": "get_state"}),
            ok(json!({"thinkingLevel": "high"})),
        ),
        (
            json!({"type": "cycle_model"}),
            ok(json!({"model": {"id": "two"}, "thinkingLevel": "off", "isScoped": false})),
        ),
        (json!({"type": "cycle_thinking_level"}), nothing()),
        (
            json!({"type": "set_scoped_models", "patterns": ["fake/one"]}),
            nothing(),
        ),
        (
            json!({"type": "cycle_model", "direction": "backward"}),
            nothing(),
        ),
        (
            json!({"type": "set_scoped_models", "patterns": []}),
            nothing(),
        ),
        (
            json!({"type": "set_steering_mode", "mode": "all"}),
            nothing(),
        ),
        (
            json!({"type": "set_follow_up_mode", "mode": "all"}),
            nothing(),
        ),
        (
            json!({"type": "set_auto_compaction", "enabled": false}),
            nothing(),
        ),
        (
            json!({"type": "set_auto_retry", "enabled": false}),
            nothing(),
        ),
        (
            json!({"type": "get_state"}),
            ok(
                json!({"steeringMode": "all", "followUpMode": "all", "autoCompactionEnabled": false}),
            ),
        ),
        (
            json!({"type": "set_active_tools", "names": ["look", "no"]}),
            refused("Unknown tool: no"),
        ),
        (json!({"type": "set_active_tools", "names": []}), nothing()),
        (
            json!({"type": "get_active_tools"}),
            ok(json!({"tools": []})),
        ),
        (
            json!({"type": "set_session_name", "name": " \n"}),
            refused("Session name cannot be empty"),
        ),
        (
            json!({"type": "set_session_name", "name": " my\nname "}),
            nothing(),
        ),
        (
            json!({"type": "get_state"}),
            ok(json!({"sessionName": "my name"})),
        ),
        (
            json!({"type": "set_label", "entryId": "nope", "label": "L"}),
            refused("Entry nope not found"),
        ),
        (
            json!({"type": "set_label", "entryId": first, "label": " L "}),
            nothing(),
        ),
        (
            json!({"type": "set_label", "entryId": second, "label": "M"}),
            nothing(),
        ),
        (json!({"type": "set_label", "entryId": second}), nothing()),
        (
            json!({"type": "bash", "command": "ls", "excludeFromContext": true}),
            ok(json!({"output": "out", "exitCode": 0, "cancelled": false, "truncated": false})),
        ),
        (
            json!({"type": "compact"}),
            refused("Nothing to compact (session too small)"),
        ),
        (
            json!({"type": "export_html", "outputPath": "a.html"}),
            ok(json!({"path": "a.html"})),
        ),
        (
            json!({"type": "export_jsonl", "outputPath": "a.jsonl"}),
            ok(json!({"path": "a.jsonl"})),
        ),
        (json!({"type": "share"}), refused("not here")),
        (
            json!({"type": "navigate_tree", "entryId": "nope"}),
            refused("Entry nope not found"),
        ),
        (
            json!({"type": "navigate_tree", "entryId": second}),
            ok(json!({"editorText": "second", "cancelled": false})),
        ),
        (
            json!({"type": "get_messages"}),
            ok(json!({"messages": [{}, {}, {}, {"role": "assistant"}]})),
        ),
    ]
}

#[test]
fn every_command_answers() {
    let place = Place::new(Kind::Memory);
    let settings = Arc::new(Remembers::default());
    let (mut stage, ids) = prepared(&place, &settings);
    let (questions, changes) = (questions(&ids), changes(&ids));
    let rows: Vec<_> = questions.into_iter().chain(changes).collect();
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
    let rows = [
        (json!({"type": "get_last_assistant_text"}), ok(json!({}))),
        (json!({"type": "get_messages"}), ok(json!({"messages": []}))),
        (
            json!({"type": "get_tree"}),
            ok(json!({"tree": [], "leafId": null})),
        ),
        (
            json!({"type": "get_entries"}),
            ok(json!({"entries": [], "leafId": null})),
        ),
        (
            json!({"type": "get_fork_messages"}),
            ok(json!({"messages": []})),
        ),
        (json!({"type": "cycle_model"}), ok(Value::Null)),
        (
            json!({"type": "compact"}),
            refused("Nothing to compact (session too small)"),
        ),
    ];
    for (json, expected) in &rows {
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
    assert_eq!(again, refused("Already compacted"));
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
