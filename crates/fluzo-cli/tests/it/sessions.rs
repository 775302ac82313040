//! Session files: what is in them, how one is found, and what is left alone.

use std::path::Path;

use fluzo_sim::{Reply, Simulator};
use serde_json::json;

use crate::support::*;

/// A simulator that answers `count` requests, and a stage for it.
fn answers(count: usize) -> (Simulator, Stage) {
    let script = (1..=count).fold(scenario(), |script, n| {
        script.step(Reply::text(format!("answer {n}")))
    });
    let simulator = simulator(script);
    let stage = Stage::with_fake(&simulator);
    (simulator, stage)
}

#[test]
fn a_new_file_has_its_entries_in_order() {
    let (simulator, stage) = answers(1);
    stage.pi(&["-p", "hi"]).is(0, "answer 1\n", "");
    let file = stage.session();
    let entries = entries(&file);
    assert_eq!(
        kinds(&entries),
        [
            "session",
            "model_change",
            "thinking_level_change",
            "user",
            "assistant"
        ]
    );
    assert_eq!(entries[0]["cwd"], stage.project().to_str().unwrap());
    assert_eq!(
        (&entries[1]["provider"], &entries[1]["modelId"]),
        (&json!("fake"), &json!("m1"))
    );
    assert_eq!(entries[2]["thinkingLevel"], "off");
    assert_eq!(entries[3]["message"]["content"], text_block("hi"));
    let folder = file
        .parent()
        .unwrap()
        .file_name()
        .unwrap()
        .to_str()
        .unwrap();
    let expected = stage.project().to_str().unwrap()[1..].replace('/', "-");
    assert_eq!(folder, format!("--{expected}--"));
    let name = file.file_name().unwrap().to_str().unwrap();
    let id = entries[0]["id"].as_str().unwrap();
    let time = entries[0]["timestamp"]
        .as_str()
        .unwrap()
        .replace([':', '.'], "-");
    assert_eq!(name, format!("{time}_{id}.jsonl"));
    approve(simulator);
}

/// Also when the response fails.
#[test]
fn the_file_appears_with_the_first_message_of_the_user() {
    let simulator = simulator(scenario().step(Reply::error(400, "bad")));
    let stage = Stage::with_fake(&simulator);
    assert_eq!(stage.pi(&["-p", "hi"]).code(), 1);
    let entries = entries(&stage.session());
    assert_eq!(kinds(&entries)[3..], ["user", "assistant"]);
    assert_eq!(entries[4]["message"]["stopReason"], "error");
    approve(simulator);
}

#[test]
fn to_continue_is_to_send_the_first_exchange_again() {
    let (simulator, stage) = answers(2);
    stage.pi(&["-p", "one"]).is(0, "answer 1\n", "");
    stage.pi(&["-c", "-p", "two"]).is(0, "answer 2\n", "");
    assert_eq!(users(&simulator, 1), [text_block("one"), text_block("two")]);
    let entries = entries(&stage.session());
    assert_eq!(
        kinds(&entries)[3..],
        ["user", "assistant", "user", "assistant"]
    );
    approve(simulator);
}

#[test]
fn to_continue_without_a_session_is_to_begin_one() {
    let (simulator, stage) = answers(1);
    stage.pi(&["-c", "-p", "one"]).is(0, "answer 1\n", "");
    assert_eq!(stage.sessions().len(), 1);
    approve(simulator);
}

#[test]
fn without_a_session_no_file_is_left() {
    let (simulator, stage) = answers(1);
    stage
        .pi(&["--no-session", "-p", "x"])
        .is(0, "answer 1\n", "");
    assert!(stage.sessions().is_empty());
    approve(simulator);
}

#[test]
fn a_path_opens_a_session_or_begins_one_there() {
    let (simulator, stage) = answers(2);
    let path = stage.path("sub/deep/mine.jsonl");
    let text = path.to_str().unwrap();
    stage
        .pi(&["--session", text, "-p", "one"])
        .is(0, "answer 1\n", "");
    assert_eq!(entries(&path).len(), 5);
    assert!(stage.sessions().is_empty());
    stage
        .pi(&["--session", text, "-p", "two"])
        .is(0, "answer 2\n", "");
    assert_eq!(entries(&path).len(), 7);
    assert_eq!(users(&simulator, 1), [text_block("one"), text_block("two")]);
    approve(simulator);
}

#[test]
fn the_beginning_of_an_id_opens_a_session_of_this_project() {
    let (simulator, stage) = answers(2);
    stage.pi(&["-p", "one"]).is(0, "answer 1\n", "");
    let id = entries(&stage.session())[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    stage
        .pi(&["--session", &id[..13], "-p", "two"])
        .is(0, "answer 2\n", "");
    assert_eq!(entries(&stage.session()).len(), 7);
    approve(simulator);
}

/// Every id of a session made now begins like the one before it.
#[test]
fn the_beginning_of_several_ids_opens_the_newest_and_says_so() {
    let (simulator, stage) = answers(3);
    stage.pi(&["-p", "one"]).is(0, "answer 1\n", "");
    stage.pi(&["-p", "two"]).is(0, "answer 2\n", "");
    let before: Vec<_> = stage.sessions().iter().map(|file| entries(file)).collect();
    let ran = stage.pi(&["--session", "0", "-p", "again"]);
    let ids: Vec<&str> = before
        .iter()
        .map(|e| e[0]["id"].as_str().unwrap())
        .collect();
    assert_eq!((ran.code(), ran.out().as_str()), (0, "answer 3\n"));
    let grown: Vec<bool> = stage
        .sessions()
        .iter()
        .zip(&before)
        .map(|(file, before)| entries(file).len() > before.len())
        .collect();
    assert_eq!(grown.iter().filter(|grown| **grown).count(), 1);
    let opened = ids[grown.iter().position(|grown| *grown).unwrap()];
    let warning =
        format!("Warning: '0' begins the ids of 2 sessions; opening the newest: {opened}\n");
    assert_eq!(ran.err(), warning);
    approve(simulator);
}

#[test]
fn a_session_of_another_project_is_named_and_left_alone() {
    let (simulator, stage) = answers(1);
    stage.write("other/file", "");
    let other = stage.path("other");
    let folder = other.to_str().unwrap();
    stage
        .pi(&["--workspace", folder, "-p", "one"])
        .is(0, "answer 1\n", "");
    let file = stage.session();
    let before = std::fs::read(&file).unwrap();
    let id = entries(&file)[0]["id"].as_str().unwrap().to_owned();
    let ran = stage.pi(&["--session", &id, "-p", "two"]);
    assert_eq!((ran.code(), ran.out().as_str()), (1, ""));
    let text = format!("Session found in different project: {folder}\n");
    assert!(ran.err().starts_with(&text), "{}", ran.err());
    assert_eq!(std::fs::read(&file).unwrap(), before);
    approve(simulator);
}

#[test]
fn a_session_of_another_project_can_be_forked_into_this_one() {
    let (simulator, stage) = answers(2);
    stage.write("other/file", "");
    let other = stage.path("other");
    stage
        .pi(&["--workspace", other.to_str().unwrap(), "-p", "one"])
        .is(0, "answer 1\n", "");
    let source = stage.session();
    let before = std::fs::read(&source).unwrap();
    let id = entries(&source)[0]["id"].as_str().unwrap().to_owned();
    stage
        .pi(&["--fork", &id[..20], "--session-id", "my.fork", "-p", "two"])
        .is(0, "answer 2\n", "");
    assert_eq!(std::fs::read(&source).unwrap(), before);
    let forks = stage.sessions();
    let fork = forks.iter().find(|file| **file != source).unwrap();
    let entries = entries(fork);
    assert_eq!(entries[0]["id"], "my.fork");
    assert_eq!(entries[0]["parentSession"], source.to_str().unwrap());
    assert_ne!(entries[0]["cwd"], other.to_str().unwrap());
    assert_eq!(users(&simulator, 1), [text_block("one"), text_block("two")]);
    let again = stage.pi(&["--fork", &id, "--session-id", "my.fork", "-p", "x"]);
    assert_eq!(again.code(), 1);
    assert_eq!(
        again.err(),
        "Error: Session already exists with id 'my.fork'\n"
    );
    let mixed = stage.pi(&["--fork", &id, "-c", "--no-session", "-p", "x"]);
    assert_eq!(
        mixed.err(),
        "Error: --fork cannot be combined with --continue, --no-session\n"
    );
    approve(simulator);
}

#[test]
fn a_session_of_ones_own_id_is_begun_once_and_then_gone_on_with() {
    let (simulator, stage) = answers(2);
    let named = [
        "--session-id",
        "nightly-1",
        "--name",
        " Night  build ",
        "-p",
    ];
    let ask = |text: &str| stage.pi(&[&named[..], &[text]].concat());
    ask("one").is(0, "answer 1\n", "");
    let first = entries(&stage.session());
    assert_eq!(first[0]["id"], "nightly-1");
    assert_eq!(
        kinds(&first)[1..4],
        ["session_info", "model_change", "thinking_level_change"]
    );
    assert_eq!(first[1]["name"], "Night  build");
    ask("two").is(0, "answer 2\n", "");
    assert_eq!(users(&simulator, 1), [text_block("one"), text_block("two")]);
    for (flags, error) in [
        (
            ["--session-id", "-x-"],
            "Error: --session-id '-x-' cannot be used: ",
        ),
        (["--name", "  "], "Error: --name requires a non-empty value"),
    ] {
        let ran = stage.pi(&[&flags[..], &["-p", "x"]].concat());
        assert_eq!(ran.code(), 1);
        assert!(ran.err().starts_with(error), "{}", ran.err());
    }
    approve(simulator);
}

/// By its path a session goes on wherever it was made.
#[test]
fn a_session_goes_on_in_its_own_folder_and_says_so() {
    let script = scenario()
        .step(Reply::text("1"))
        .step(Reply::calls([bash("c1", "pwd")]))
        .step(Reply::text("2"));
    let simulator = simulator(script);
    let stage = Stage::with_fake(&simulator);
    stage.write("other/file", "");
    let other = stage.path("other");
    let folder = other.to_str().unwrap();
    stage
        .pi(&["--workspace", folder, "-p", "one"])
        .is(0, "1\n", "");
    let file = stage.session();
    let note = format!("Warning: the session goes on in its own folder: {folder}\n");
    stage
        .pi(&["--session", file.to_str().unwrap(), "-p", "two"])
        .is(0, "2\n", &note);
    let request = simulator.requests()[2].body["messages"].to_string();
    assert!(request.contains(&format!("{folder}\\n")), "{request}");
    std::fs::remove_dir_all(&other).unwrap();
    let gone = stage.pi(&["--session", file.to_str().unwrap(), "-p", "three"]);
    let text = format!(
        "Stored session working directory does not exist: {folder}\nSession file: {}\nCurrent working directory: {}\n",
        file.display(),
        stage.project().display()
    );
    gone.is(1, "", &text);
    approve(simulator);
}

#[test]
fn a_file_that_is_no_session_is_refused_and_kept() {
    let stage = Stage::new().set("OPENAI_API_KEY", "k");
    for content in [
        "not a session\n",
        "{\"type\":\"message\"}\n",
        "{\"type\":\"session\"}\n",
    ] {
        let path = stage.write("project/notes.jsonl", content);
        let ran = stage.pi(&["--session", path.to_str().unwrap(), "-p", "x"]);
        assert_eq!((ran.code(), ran.out().as_str()), (1, ""), "{content}");
        assert!(ran.err().contains(path.to_str().unwrap()), "{}", ran.err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
    }
}

#[test]
fn where_sessions_are_kept() {
    let (simulator, stage) = answers(3);
    let flag = stage.path("by-flag");
    let variable = stage.path("by-variable");
    let setting = stage.path("by-setting");
    stage.settings(&json!({"sessionDir": setting}));
    let count = |folder: &Path| std::fs::read_dir(folder).map(Iterator::count).unwrap_or(0);
    assert_eq!(stage.pi(&["-p", "x"]).code(), 0);
    assert_eq!(count(&setting), 1, "flat");
    let stage = stage.set("PI_CODING_AGENT_SESSION_DIR", variable.to_str().unwrap());
    assert_eq!(stage.pi(&["-p", "x"]).code(), 0);
    assert_eq!((count(&variable), count(&setting)), (1, 1));
    let arguments = ["--session-dir", flag.to_str().unwrap(), "-p", "x"];
    assert_eq!(stage.pi(&arguments).code(), 0);
    assert_eq!((count(&flag), count(&variable)), (1, 1));
    assert!(stage.sessions().is_empty());
    approve(simulator);
}

#[test]
fn model_and_thinking_level_go_on_with_the_session() {
    let script = scenario()
        .model("thinker")
        .step(Reply::text("1"))
        .step(Reply::text("2"))
        .step(Reply::text("3"));
    let simulator = simulator(script);
    let stage = Stage::new();
    let mut provider = fake(&simulator.base_url());
    let models = provider["models"].as_array_mut().unwrap();
    models.push(json!({"id": "thinker", "reasoning": true}));
    stage.models(&json!({"providers": {"fake": provider}}));
    let first = ["--model", "thinker", "--thinking", "high", "-p", "one"];
    stage.pi(&first).is(0, "1\n", "");
    stage.pi(&["-c", "-p", "two"]).is(0, "2\n", "");
    for request in 0..2 {
        let body = &simulator.requests()[request].body;
        assert_eq!(body["model"], "thinker");
        assert_eq!(body["reasoning_effort"], "high");
    }
    let kept = kinds(&entries(&stage.session()));
    assert_eq!(
        kept.iter().filter(|kind| kind.ends_with("_change")).count(),
        2
    );
    stage
        .pi(&["-c", "--model", "m1", "-p", "three"])
        .is(0, "3\n", "");
    let entries = entries(&stage.session());
    assert_eq!(
        kinds(&entries)[7..],
        ["model_change", "thinking_level_change", "user", "assistant"]
    );
    assert_eq!(users(&simulator, 2).len(), 3, "the conversation goes on");
    approve(simulator);
}

#[test]
fn a_model_that_cannot_be_restored_is_replaced_and_named() {
    let (simulator, stage) = answers(3);
    stage
        .pi(&["--model", "eyes", "-p", "one"])
        .is(0, "answer 1\n", "");
    let mut provider = fake(&simulator.base_url());
    provider["models"].as_array_mut().unwrap().remove(1);
    stage.models(&json!({"providers": {"fake": provider}}));
    let warning =
        "Warning: Could not restore model fake/eyes (model no longer exists). Using fake/m1.\n";
    stage.pi(&["-c", "-p", "two"]).is(0, "answer 2\n", warning);
    stage.pi(&["-c", "-p", "three"]).is(0, "answer 3\n", "");
    assert_eq!(simulator.requests()[2].body["model"], "m1");
    approve(simulator);
}

/// The line that cannot be read stays; the torn last line goes to a file of its own.
#[test]
fn damage_is_told_once_and_nothing_is_lost() {
    let (simulator, stage) = answers(3);
    stage.pi(&["-p", "one"]).is(0, "answer 1\n", "");
    let file = stage.session();
    let mut content = std::fs::read_to_string(&file).unwrap();
    content.push_str("{ broken line\n");
    content.push_str(r#"{"type":"message","id":"x","pa"#);
    std::fs::write(&file, &content).unwrap();
    let ran = stage.pi(&["-c", "-p", "two", "three"]);
    assert_eq!((ran.code(), ran.out().as_str()), (0, "answer 3\n"));
    let err = ran.err();
    assert_eq!(
        err.matches("not readable and left as found").count(),
        1,
        "{err}"
    );
    assert_eq!(err.matches("last line was cut off").count(), 1, "{err}");
    assert_eq!(
        users(&simulator, 2),
        [text_block("one"), text_block("two"), text_block("three")]
    );
    let now = std::fs::read_to_string(&file).unwrap();
    assert!(
        now.contains("{ broken line\n") && !now.contains(r#""id":"x","pa"#),
        "{now}"
    );
    let damaged = std::fs::read_dir(file.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.to_string_lossy().contains(".damaged"))
        .unwrap();
    let moved = std::fs::read_to_string(damaged).unwrap();
    assert!(moved.contains(r#""id":"x","pa"#), "{moved}");
    approve(simulator);
}

#[test]
fn a_model_whose_key_is_gone_is_replaced_and_named() {
    let simulator = simulator(
        scenario()
            .model("openai/gpt-oss-120b")
            .step(Reply::text("one"))
            .step(Reply::text("two")),
    );
    let stage = Stage::new();
    let url = simulator.base_url();
    stage.models(&json!({"providers": {"groq": {"baseUrl": &url}, "fake": fake(&url)}}));
    let mut first = stage.command(&["pi", "--model", "groq/openai/gpt-oss-120b", "-p", "1"]);
    let first = Ran(first.env("GROQ_API_KEY", "sk-x").output().unwrap());
    first.is(0, "one\n", "");
    let warning = "Warning: Could not restore model groq/openai/gpt-oss-120b (no auth configured). Using fake/m1.\n";
    stage.pi(&["-c", "-p", "2"]).is(0, "two\n", warning);
    approve(simulator);
}

#[test]
fn a_new_session_begins_with_a_model_of_the_scope() {
    let reply = |text: &str| Reply::text(text);
    let script = scenario().model("m2").model("m3");
    let script = script.step(reply("1")).step(reply("2")).step(reply("3"));
    let simulator = simulator(script);
    let stage = Stage::new();
    let mut provider = fake(&simulator.base_url());
    let models = provider["models"].as_array_mut().unwrap();
    models.push(json!({"id": "m2"}));
    models.push(json!({"id": "m3", "reasoning": true}));
    stage.models(&json!({"providers": {"fake": provider}}));
    let rows: [(&[&str], Option<&str>, &str); 3] = [
        (&["--models", "fake/m3:high,fake/m2"], None, "m3"),
        (&["--models", "fake/m3,fake/m2"], Some("m2"), "m2"),
        (&["--models", "fake/m3,fake/m2"], Some("m1"), "m3"),
    ];
    for (request, (flags, saved, model)) in rows.into_iter().enumerate() {
        if let Some(saved) = saved {
            stage.settings(&json!({"defaultProvider": "fake", "defaultModel": saved}));
        }
        assert_eq!(stage.pi(&[flags, &["-p", "x"]].concat()).code(), 0);
        assert_eq!(simulator.requests()[request].body["model"], model);
    }
    assert_eq!(simulator.requests()[0].body["reasoning_effort"], "high");
    approve(simulator);
}
