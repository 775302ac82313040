//! Signatures of a model come back to it unaltered, through session file, resume and fork. The
//! simulator signs calls as Gemini does and refuses one that is missing or altered.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fluzo_session::{Header, JsonlStore, SessionStore};
use fluzo_sim::{Completion, Endpoint, Reply, Scenario, Step, ToolCall};
use fluzo_stdx::ids::RandomIds;
use serde_json::{Value, json};

use crate::support::*;

const MODEL: &str = "gemini-3-flash-preview";

fn step(reply: Reply) -> Step {
    Step::at(Endpoint::Gemini, reply)
}

fn calls(commands: &[&str]) -> Step {
    let call = |command: &&str| ToolCall::new("", "bash", json!({"command": command}));
    step(Reply::completion(Completion {
        thinking: Some("hm".into()),
        tool_calls: commands.iter().map(call).collect(),
        ..Completion::default()
    }))
}

/// A new session file with all that `file` holds, beside it.
fn fork(file: &Path) -> PathBuf {
    let ids = Arc::new(RandomIds);
    let cwd = entries(file)[0]["cwd"].as_str().unwrap().to_owned();
    let header = Header::new("0197-fork", "2026-12-01T00:00:00.000Z", cwd);
    let folder = file.parent().unwrap();
    let store = JsonlStore::fork_from(file, folder, header, ids).unwrap();
    store.path().unwrap()
}

/// The signatures of the calls that a request sends back.
fn sent(body: &Value) -> Vec<Value> {
    let contents = body["contents"].as_array().unwrap();
    let parts = contents
        .iter()
        .flat_map(|content| content["parts"].as_array().unwrap());
    let calls = parts.filter(|part| part.get("functionCall").is_some());
    calls.map(|part| part["thoughtSignature"].clone()).collect()
}

#[test]
fn signed_calls_come_back_through_journal_resume_and_fork() {
    let steps = [
        calls(&["echo one", "echo two"]),
        calls(&["echo three"]),
        step(Reply::text("first")),
        step(Reply::text("resumed")),
        calls(&["echo four"]),
        step(Reply::text("forked")),
    ];
    let script = Scenario::new("signatures").reasoning_model(MODEL);
    let simulator = simulator(steps.into_iter().fold(script, Scenario::step));
    let stage = Stage::new();
    stage.models(&json!({"providers": {"fake": {
        "baseUrl": simulator.base_url(), "api": "google-generative-ai", "apiKey": "AIza-fake",
        "models": [{"id": MODEL, "reasoning": true, "input": ["text", "image"]}],
    }}}));
    stage.pi(&["-p", "go"]).is(0, "first\n", "");
    let file = stage.session();
    stage.pi(&["-c", "-p", "more"]).is(0, "resumed\n", "");
    let forked = fork(&file);
    let name = forked.to_str().unwrap();
    stage
        .pi(&["--session", name, "-p", "again"])
        .is(0, "forked\n", "");
    let requests = simulator.requests();
    let last = sent(&requests[5].body);
    assert_eq!(last.len(), 4);
    let signed: Vec<bool> = last.iter().map(Value::is_string).collect();
    assert_eq!(signed, [true, false, true, true]);
    for (at, count) in [(1, 2), (2, 3), (3, 3), (4, 3)] {
        assert_eq!(sent(&requests[at].body), last[..count], "request {at}");
    }
    drop(requests);
    approve(simulator);
}
