//! What a prompt goes through, and what hooks may change.

use std::sync::Arc;
use std::task::Poll;

use fluzo_host::hooks::{BeforeRun, CompactionAction, Input, InputAction, NavigationAction};
use fluzo_llm::message::{CustomMessage, UserContent};
use fluzo_llm::{ModelRequest, StreamErrorKind};
use fluzo_protocol::{Command, Endpoint, Event, Prompt, QueueBehavior, Submitted};
use fluzo_runtime::retry::RetryPolicy;
use fluzo_session::Compaction;
use fluzo_testkit::reply::{calls, failing, text};
use fluzo_testkit::{FakeTool, Switch, poll_to_end};
use serde_json::json;

use crate::doubles::{Folder, ScriptedSessionHooks};
use crate::life::{Kind, Place, Setup};
use crate::races::{compact, entry, long};
use crate::stage::Stage;

fn hooked(hooks: &Arc<ScriptedSessionHooks>, folder: &Folder) -> Setup<'static> {
    Setup {
        hooks: Arc::clone(hooks) as _,
        resources: folder.resources(),
        ..Setup::new([])
    }
}

/// What the last message of a request says.
fn said(request: &ModelRequest) -> String {
    let last = request.transcript.iter().last().unwrap();
    let fluzo_llm::ModelMessage::User(user) = last else {
        panic!("{last:?}")
    };
    user.content.text()
}

fn go(text: &str) -> InputAction {
    InputAction::Go(Input {
        text: text.into(),
        images: Vec::new(),
    })
}

fn errors(stage: &Stage) -> Vec<(String, String, String)> {
    let error = |event: Event| match event {
        Event::ExtensionError { path, event, error } => Some((path, event, error)),
        _ => None,
    };
    let events = stage.life.log.events();
    events.into_iter().filter_map(error).collect()
}

fn skill_block(folder: &Folder, arguments: &str) -> String {
    let file = folder.skill_file().canonicalize().unwrap();
    let shown = file.display();
    let parent = file.parent().unwrap().display();
    let tail = if arguments.is_empty() {
        String::new()
    } else {
        format!("\n\n{arguments}")
    };
    format!(
        "<skill name=\"look\" location=\"{shown}\">\nReferences are relative to {parent}.\n\nLook at /greet first.\n</skill>{tail}"
    )
}

#[test]
fn a_prompt_is_looked_at_in_this_order_command_hook_skill_template() {
    let folder = Folder::new();
    let block = skill_block(&folder, "/greet you");
    let rows: [(&str, Option<InputAction>, &str); 7] = [
        ("hello", None, "hello"),
        ("/greet you all", None, "Greet you, not you all."),
        (
            "/greet $ARGUMENTS",
            None,
            "Greet $ARGUMENTS, not $ARGUMENTS.",
        ),
        ("/skill:look /greet you", None, &block),
        ("/skill:none x", None, "/skill:none x"),
        ("x", Some(go("/greet $1")), "Greet $1, not $1."),
        ("x", Some(go("/hook y")), "/hook y"),
    ];
    for (typed, hook, expected) in rows {
        let place = Place::new(Kind::Memory);
        let hooks = Arc::new(ScriptedSessionHooks::default());
        *hooks.input.lock().unwrap() = hook;
        let mut stage = Stage::begin(&place, hooked(&hooks, &folder));
        stage.life.world.model.push(text(["ok"]));
        stage.prompt(typed);
        let requests = stage.life.world.model.requests();
        assert_eq!(said(&requests[0]), expected, "{typed}");
        let called = hooks.called();
        assert_eq!(called[0], format!("input {typed}"));
        assert_eq!(called[1], format!("before_run {expected}"));
    }
}

#[test]
fn a_command_of_a_hook_and_a_hook_that_deals_with_input_ask_no_model() {
    let folder = Folder::new();
    let place = Place::new(Kind::Memory);
    let hooks = Arc::new(ScriptedSessionHooks::default());
    let stage = Stage::begin(&place, hooked(&hooks, &folder));
    let submit = |text: &str| {
        let prompt = Prompt {
            text: text.into(),
            ..Prompt::default()
        };
        poll_to_end(stage.life.session.prompt(prompt))
    };
    assert!(matches!(submit("/hook a b"), Ok(Submitted::Handled)));
    *hooks.input.lock().unwrap() = Some(InputAction::Handled);
    assert!(matches!(submit("hello"), Ok(Submitted::Handled)));
    assert_eq!(hooks.called(), ["command hook a b", "input hello"]);
    *hooks.fail.lock().unwrap() = true;
    assert!(matches!(submit("/hook"), Ok(Submitted::Handled)));
    let expected = ("command:hook", "command", "no");
    let expected = (expected.0.into(), expected.1.into(), expected.2.into());
    assert_eq!(errors(&stage), [expected]);
    assert!(place.messages().is_empty());
    stage.check(&place);
}

#[test]
fn a_literal_prompt_is_taken_as_it_is() {
    let folder = Folder::new();
    for typed in ["/hook x", "/greet you", "/skill:look"] {
        let place = Place::new(Kind::Memory);
        let hooks = Arc::new(ScriptedSessionHooks::default());
        let stage = Stage::begin(&place, hooked(&hooks, &folder));
        stage.life.world.model.push(text(["ok"]));
        let prompt = Prompt {
            text: typed.into(),
            literal: true,
            ..Prompt::default()
        };
        let Ok(Submitted::Run(run)) = poll_to_end(stage.life.session.prompt(prompt)) else {
            panic!("no run")
        };
        poll_to_end(run);
        assert_eq!(said(&stage.life.world.model.requests()[0]), typed);
        assert_eq!(hooks.called(), [format!("before_run {typed}")]);
        stage.check(&place);
    }
}

#[test]
fn messages_for_the_queues_are_expanded_and_commands_of_hooks_are_refused() {
    let folder = Folder::new();
    let block = skill_block(&folder, "");
    let steer = |message: &str| json!({"type": "steer", "message": message});
    let follow = |message: &str| json!({"type": "follow_up", "message": message});
    for make in [&steer as &dyn Fn(&str) -> _, &follow] {
        let place = Place::new(Kind::Memory);
        let hooks = Arc::new(ScriptedSessionHooks::default());
        let mut stage = Stage::begin(&place, hooked(&hooks, &folder));
        for message in ["/greet you", "/skill:look"] {
            let command = serde_json::from_value(make(message)).unwrap();
            stage.execute(command).unwrap();
        }
        let refused = stage.execute(serde_json::from_value(make("/hook x")).unwrap());
        let expected = "Extension command \"/hook\" cannot be queued. Use prompt() or execute the command when not streaming.";
        assert_eq!(refused, Err(expected.to_owned()));
        assert!(
            hooks.called().is_empty(),
            "hooks see what is typed as a prompt"
        );
        let queued = stage.execute(Command::ClearQueue).unwrap();
        let all = [&queued["steering"], &queued["followUp"]].map(|q| q.as_array().unwrap().clone());
        assert_eq!(all.concat(), ["Greet you, not you.", &block]);
    }
}

#[test]
fn a_prompt_for_a_queue_goes_the_whole_way() {
    let folder = Folder::new();
    let place = Place::new(Kind::Memory);
    let hooks = Arc::new(ScriptedSessionHooks::default());
    let answer = Switch::new();
    let setup = Setup {
        replies: vec![text(["a"]).wait(&answer), text(["b"])],
        ..hooked(&hooks, &folder)
    };
    let mut stage = Stage::begin(&place, setup);
    stage.prompt("go");
    *hooks.input.lock().unwrap() = Some(go("/greet you"));
    stage.queue("x", QueueBehavior::Steer);
    answer.flip();
    stage.run_out();
    let requests = stage.life.world.model.requests();
    assert_eq!(said(&requests[1]), "Greet you, not you.");
    stage.check(&place);
}

#[test]
fn hooks_that_fail_are_told_and_change_nothing() {
    let folder = Folder::new();
    let place = Place::new(Kind::Jsonl);
    let hooks = Arc::new(ScriptedSessionHooks::default());
    let mut stage = long(&place, [], hooked(&hooks, &folder));
    *hooks.fail.lock().unwrap() = true;
    *hooks.input.lock().unwrap() = Some(go("other"));
    for reply in ["ok", "SUMMARY", "ok"] {
        stage.life.world.model.push(text([reply]));
    }
    stage.prompt("go");
    assert_eq!(said(&stage.life.world.model.requests()[1]), "go");
    stage.start(compact());
    assert!(stage.answer("compact").is_ok());
    let entry_id = entry(&mut stage, "user");
    stage
        .execute(
            serde_json::from_value(json!({"type": "navigate_tree", "entryId": entry_id})).unwrap(),
        )
        .unwrap();
    let told: Vec<_> = errors(&stage)
        .into_iter()
        .map(|(_, event, _)| event)
        .collect();
    let expected = [
        "input",
        "before_agent_start",
        "session_before_compact",
        "session_before_tree",
    ];
    assert_eq!(told, expected);
    *hooks.fail.lock().unwrap() = false;
    stage.prompt("again");
    stage.run_out();
    stage.check(&place);
}

fn added() -> BeforeRun {
    let custom = json!({"customType": "note", "content": "NOTE", "display": false, "timestamp": 0});
    let custom: CustomMessage = serde_json::from_value(custom).unwrap();
    assert!(matches!(custom.content, UserContent::Text(_)));
    BeforeRun {
        messages: vec![custom],
        system_prompt: Some("of this run".into()),
    }
}

fn prompts(stage: &Stage) -> Vec<String> {
    let requests = stage.life.world.model.requests();
    requests
        .iter()
        .map(|r| r.system_prompt.to_string())
        .collect()
}

#[test]
fn messages_and_a_system_prompt_are_added_to_one_run_with_all_its_attempts() {
    let place = Place::new(Kind::Jsonl);
    let hooks = Arc::new(ScriptedSessionHooks::default());
    *hooks.before_run.lock().unwrap() = added();
    let tool = Arc::new(FakeTool::new("one"));
    let failure = failing(StreamErrorKind::Transient, "503");
    let setup = Setup {
        tools: vec![&tool],
        retry: RetryPolicy::default(),
        models_json: Some(crate::races::TWO_MODELS),
        hooks: Arc::clone(&hooks) as _,
        ..Setup::new([failure, calls([("c1", "one", json!({}))]), text(["ok"])])
    };
    let mut stage = Stage::begin(&place, setup);
    stage.prompt("go");
    stage.run_out();
    assert_eq!(Stage::roles(&place)[..2], ["user", "custom"]);
    let stage = stage.check(&place);
    let expected = ["of this run", "of this run", "of this run", "system"];
    assert_eq!(prompts(&stage), expected);
}

/// The model is switched while the run goes on, which tells the run what requests are made of.
#[test]
fn a_system_prompt_of_a_run_outlives_a_switch_of_the_model() {
    let place = Place::new(Kind::Jsonl);
    let hooks = Arc::new(ScriptedSessionHooks::default());
    *hooks.before_run.lock().unwrap() = added();
    let ready = Switch::new();
    let tool = Arc::new(FakeTool::new("one").wait(&ready));
    let setup = Setup {
        tools: vec![&tool],
        models_json: Some(crate::races::TWO_MODELS),
        hooks: Arc::clone(&hooks) as _,
        ..Setup::new([calls([("c1", "one", json!({}))]), text(["ok"])])
    };
    let mut stage = Stage::begin(&place, setup);
    stage.prompt("go");
    let switch = json!({"type": "set_model", "provider": "fake", "modelId": "two"});
    stage
        .execute(serde_json::from_value(switch).unwrap())
        .unwrap();
    ready.flip();
    stage.run_out();
    let stage = stage.check(&place);
    assert_eq!(prompts(&stage), ["of this run", "of this run", "system"]);
}

#[test]
fn an_abort_while_a_hook_is_asked_ends_the_prompt_before_any_request() {
    let place = Place::new(Kind::Jsonl);
    let hooks = Arc::new(ScriptedSessionHooks::default());
    *hooks.run_waits.lock().unwrap() = Some(Switch::new());
    let setup = Setup {
        hooks: Arc::clone(&hooks) as _,
        ..Setup::new([])
    };
    let mut stage = Stage::begin(&place, setup);
    stage.prompt("go");
    assert!(stage.life.is_running());
    stage.start(Command::Abort);
    stage.run_out();
    assert!(stage.life.world.model.requests().is_empty());
    assert_eq!(Stage::roles(&place), ["user", "assistant"]);
    stage.check(&place);
}

#[test]
fn a_hook_cancels_a_compaction_or_makes_it() {
    let place = Place::new(Kind::Jsonl);
    let hooks = Arc::new(ScriptedSessionHooks::default());
    let setup = Setup {
        hooks: Arc::clone(&hooks) as _,
        ..Setup::new([])
    };
    let mut stage = long(&place, [], setup);
    *hooks.compaction.lock().unwrap() = CompactionAction::Cancel;
    let cancelled = stage.execute(compact());
    assert_eq!(cancelled, Err("Compaction cancelled".into()));
    let events = stage.life.log.events();
    assert!(matches!(
        events.last(),
        Some(Event::CompactionEnd { aborted: true, .. })
    ));
    let own = Compaction {
        summary: "OWN".into(),
        first_kept_entry_id: entry(&mut stage, "assistant"),
        tokens_before: 7,
        details: Some(json!({"a": 1})),
        from_hook: None,
    };
    *hooks.compaction.lock().unwrap() = CompactionAction::Use(own);
    let made = stage.execute(compact()).unwrap();
    assert_eq!(
        (&made["summary"], &made["tokensBefore"]),
        (&json!("OWN"), &json!(7))
    );
    let stored = place.stored();
    let id = entry(&mut stage, "compaction");
    let line = stored.entry(&id).unwrap().to_line().unwrap();
    assert!(line.contains("\"fromHook\":true"), "{line}");
    assert_eq!(
        stage.life.world.model.requests().len(),
        1,
        "no model is asked"
    );
    stage.check(&place);
}

#[test]
fn a_hook_keeps_the_leaf_or_summarises_what_is_left() {
    let place = Place::new(Kind::Jsonl);
    let hooks = Arc::new(ScriptedSessionHooks::default());
    let setup = Setup {
        hooks: Arc::clone(&hooks) as _,
        ..Setup::new([])
    };
    let mut stage = long(&place, [text(["second"])], setup);
    let entry_id = entry(&mut stage, "assistant");
    stage.prompt("go");
    let navigate = json!({"type": "navigate_tree", "entryId": entry_id, "label": "L"});
    let navigate: Command = serde_json::from_value(navigate).unwrap();
    *hooks.navigation.lock().unwrap() = NavigationAction::Cancel;
    let kept = stage.execute(navigate.clone()).unwrap();
    assert_eq!(kept, json!({"cancelled": true}));
    assert_eq!(Stage::roles(&place).len(), 4);
    *hooks.navigation.lock().unwrap() = NavigationAction::Use {
        summary: "LEFT".into(),
        details: None,
    };
    let moved = stage.execute(navigate).unwrap();
    assert_eq!(moved["summaryEntry"]["summary"], "LEFT");
    assert_eq!(moved["summaryEntry"]["fromHook"], true);
    assert_eq!(Stage::roles(&place), ["user", "assistant", "branchSummary"]);
    let label = place
        .stored()
        .label(moved["summaryEntry"]["id"].as_str().unwrap());
    assert_eq!(label.as_deref(), Some("L"));
    stage.check(&place);
}

#[test]
fn commands_are_listed_in_order_with_their_sources() {
    let folder = Folder::new();
    let place = Place::new(Kind::Memory);
    let hooks = Arc::new(ScriptedSessionHooks::default());
    let mut stage = Stage::begin(&place, hooked(&hooks, &folder));
    let listed = stage.execute(Command::GetCommands).unwrap();
    let commands = listed["commands"].as_array().unwrap();
    let rows: Vec<_> = commands
        .iter()
        .map(|c| (c["name"].as_str().unwrap(), c["source"].as_str().unwrap()))
        .collect();
    let expected = [
        ("hook", "extension"),
        ("greet", "prompt"),
        ("skill:look", "skill"),
    ];
    assert_eq!(rows, expected);
    for command in commands {
        for key in ["path", "source", "scope", "origin"] {
            assert!(command["sourceInfo"][key].is_string(), "{command}");
        }
    }
}

/// A run that is dropped while a hook is asked leaves the session free.
#[test]
fn a_run_that_is_dropped_while_a_hook_is_asked_leaves_the_session_idle() {
    let place = Place::new(Kind::Memory);
    let hooks = Arc::new(ScriptedSessionHooks::default());
    *hooks.run_waits.lock().unwrap() = Some(Switch::new());
    let setup = Setup {
        hooks: Arc::clone(&hooks) as _,
        ..Setup::new([])
    };
    let mut stage = Stage::begin(&place, setup);
    stage.life.prompt("go");
    assert!(matches!(stage.life.poll(), Poll::Pending));
    stage.life.drop_run();
    stage.check(&place);
}
