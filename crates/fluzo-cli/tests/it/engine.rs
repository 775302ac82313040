//! What a session does beside answering: compaction, queues, models, commands, prefixes, and
//! files that are damaged or shared.

use std::process::Stdio;

use fluzo_sim::{Completion, Delivery, Pieces, Point, Reply, Scenario, Simulator, Usage};
use serde_json::{Value, json};

use crate::support::*;

const RULES: &str = "RULE: tabs, never spaces.";
const SUMMARY: &str = "<summary>\nSUM\n</summary>";

/// A turn of the user that is large beside what compactions of [`small_keep`] leave.
fn long(word: &str) -> String {
    format!("{word} ").repeat(100)
}

fn text_with_usage(text: &str, prompt_tokens: u64) -> Reply {
    Reply::completion(Completion {
        text: Some(text.to_owned()),
        usage: Usage {
            prompt_tokens,
            completion_tokens: 5,
            ..Usage::default()
        },
        ..Completion::default()
    })
}

/// A response that is held back after its first words.
fn stalled() -> Reply {
    Reply::completion(Completion {
        text: Some("many words in many pieces".to_owned()),
        pieces: Pieces::Chars(2),
        ..Completion::default()
    })
    .delivered(Delivery {
        stall: Some(Point::Events(5)),
        ..Delivery::default()
    })
}

/// A stage whose model has a window of 10,000 tokens, which compactions leave nearly empty.
fn small(script: Scenario) -> (Simulator, Stage) {
    let simulator = simulator(script);
    let stage = Stage::new();
    let mut provider = fake(&simulator.base_url());
    provider["models"][0]["contextWindow"] = json!(10_000);
    stage.models(&json!({"providers": {"fake": provider}}));
    stage.settings(&json!({"compaction": {"keepRecentTokens": 50}}));
    stage.write("project/AGENTS.md", RULES);
    (simulator, stage)
}

fn rpc(stage: &Stage, arguments: &[&str]) -> Live {
    let arguments = [&["pi", "--mode", "rpc"], arguments].concat();
    Live::start(stage.command(&arguments), Stdio::piped())
}

fn is_end(line: &Value) -> bool {
    line["type"] == "agent_end"
}

fn ask(live: &mut Live, text: &str) -> Vec<Value> {
    live.command(&json!({"type": "prompt", "message": text}));
    live.until(is_end)
}

/// The text of the user messages of a request, in order.
fn said(simulator: &Simulator, request: usize) -> Vec<String> {
    let text = |content: &Value| match content {
        Value::String(text) => text.clone(),
        parts => parts[0]["text"].as_str().unwrap_or_default().to_owned(),
    };
    users(simulator, request).iter().map(text).collect()
}

/// The project's rules stand once in a request.
#[track_caller]
fn rules_stand_once(simulator: &Simulator, request: usize) {
    let body = simulator.requests()[request].body.to_string();
    assert_eq!(body.matches(RULES).count(), 1, "{body}");
}

#[track_caller]
fn summary_then(simulator: &Simulator, request: usize, others: &[&str]) {
    let said = said(simulator, request);
    assert!(said[0].ends_with(SUMMARY), "{said:?}");
    assert_eq!(said[1..], *others, "{said:?}");
    rules_stand_once(simulator, request);
}

#[test]
fn a_compaction_by_hand_stands_for_what_came_before_also_after_a_restart() {
    let script = scenario()
        .step(Reply::text("one"))
        .step(Reply::text("two"))
        .step(Reply::text("SUM"))
        .step(Reply::text("three"))
        .step(Reply::text("four"));
    let (simulator, stage) = small(script);
    let mut live = rpc(&stage, &[]);
    ask(&mut live, &long("first"));
    ask(&mut live, &long("second"));
    live.command(&json!({"type": "compact", "customInstructions": "FOCUS"}));
    let seen = live.until(|line| line["command"] == "compact");
    let events: Vec<_> = seen
        .iter()
        .map(|line| (&line["type"], &line["reason"]))
        .collect();
    let (start, end) = (json!("compaction_start"), json!("compaction_end"));
    let manual = json!("manual");
    assert_eq!(
        events[..2],
        [(&start, &manual), (&end, &manual)],
        "{seen:#?}"
    );
    let data = &seen[2]["data"];
    assert_eq!(data["summary"], "SUM");
    assert_eq!(
        data["details"],
        json!({"readFiles": [], "modifiedFiles": []})
    );
    let request = &simulator.requests()[2].body;
    assert_eq!(request["tools"], Value::Null);
    let asked = &said(&simulator, 2)[0];
    assert!(
        asked.contains("[User]: first first") && !asked.contains("second"),
        "{asked}"
    );
    assert!(asked.ends_with("\n\nAdditional focus: FOCUS"), "{asked}");
    live.command(&json!({"type": "compact"}));
    assert_eq!(live.answer("compact")["error"], "Already compacted");
    ask(&mut live, "third");
    assert_eq!(live.end().0, 0);
    summary_then(&simulator, 3, &[&long("second"), "third"]);
    stage.pi(&["-c", "-p", "fourth"]).is(0, "four\n", "");
    summary_then(&simulator, 4, &[&long("second"), "third", "fourth"]);
    let file = entries(&stage.session());
    let kept = file
        .iter()
        .find(|entry| entry["id"] == data["firstKeptEntryId"]);
    assert_eq!(
        kept.unwrap()["message"]["content"],
        text_block(&long("second"))
    );
    assert_eq!(kinds(&file)[7..9], ["compaction", "user"]);
    approve(simulator);
}

/// The limit of a window of 10,000 is 7,500.
#[test]
fn a_session_that_nearly_fills_the_window_is_compacted_after_the_run() {
    let script = scenario()
        .step(text_with_usage("one", 1_000))
        .step(text_with_usage("two", 7_500))
        .step(Reply::text("SUM"))
        .step(text_with_usage("three", 1_000));
    let (simulator, stage) = small(script);
    stage
        .pi(&["-p", &long("first"), &long("second"), "third"])
        .is(0, "three\n", "");
    summary_then(&simulator, 3, &[&long("second"), "third"]);
    let kinds = kinds(&entries(&stage.session()));
    let expected = [
        "user",
        "assistant",
        "user",
        "assistant",
        "compaction",
        "user",
        "assistant",
    ];
    assert_eq!(kinds[3..], expected);
    approve(simulator);
}

/// It is more than may stay, and nothing stands before it.
#[test]
fn a_first_message_that_nearly_fills_the_window_is_summarised() {
    let script = scenario()
        .step(text_with_usage("one", 6_100))
        .step(text_with_usage("two", 7_600))
        .step(Reply::text("SUM"))
        .step(text_with_usage("three", 1_000));
    let (simulator, stage) = small(script);
    stage.settings(&json!({}));
    stage
        .pi(&["-p", &"w ".repeat(12_000), "second", "third"])
        .is(0, "three\n", "");
    let said = said(&simulator, 3);
    assert!(
        said[0].ends_with("(split turn):**\n\nSUM\n</summary>"),
        "{said:?}"
    );
    assert_eq!(said[1..], ["second", "third"]);
    approve(simulator);
}

#[test]
fn a_session_is_not_compacted_by_itself_when_that_is_switched_off() {
    let script = scenario()
        .step(text_with_usage("one", 1_000))
        .step(text_with_usage("two", 9_900))
        .step(text_with_usage("three", 9_950));
    let (simulator, stage) = small(script);
    let mut live = rpc(&stage, &[]);
    live.command(&json!({"type": "set_auto_compaction", "enabled": false}));
    assert_eq!(live.answer("set_auto_compaction")["success"], true);
    for text in ["first", "second", "third"] {
        let seen = ask(&mut live, text);
        assert!(!seen.iter().any(|line| line["type"] == "compaction_start"));
    }
    live.command(&json!({"type": "get_state"}));
    assert_eq!(
        live.answer("get_state")["data"]["autoCompactionEnabled"],
        false
    );
    assert_eq!(live.end().0, 0);
    let kept = std::fs::read_to_string(stage.path("agent/settings.json")).unwrap();
    let kept: Value = serde_json::from_str(&kept).unwrap();
    assert_eq!(
        kept["compaction"],
        json!({"keepRecentTokens": 50, "enabled": false})
    );
    approve(simulator);
}

#[test]
fn a_request_that_does_not_fit_is_made_again_after_one_compaction() {
    let overflow = "This model's maximum context length is 10000 tokens. However, your messages resulted in 10400 tokens.";
    let script = scenario()
        .step(Reply::text("one"))
        .step(Reply::error(400, overflow))
        .step(Reply::text("SUM"))
        .step(Reply::text("two"));
    let (simulator, stage) = small(script);
    let ran = stage.pi(&["--mode", "json", &long("first"), &long("second")]);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let lines = ran.lines();
    let end = lines
        .iter()
        .find(|line| line["type"] == "compaction_end")
        .unwrap();
    assert_eq!(
        (&end["reason"], &end["willRetry"], &end["aborted"]),
        (&json!("overflow"), &json!(true), &json!(false))
    );
    summary_then(&simulator, 3, &[&long("second")]);
    let last = lines.last().unwrap();
    assert_eq!(last["messages"][0]["content"][0]["text"], "two", "{last}");
    approve(simulator);
}

#[test]
fn steering_and_follow_ups_are_stored_where_they_were_taken_in() {
    let script = scenario()
        .step(stalled())
        .step(Reply::text("Two"))
        .step(Reply::text("Three"));
    let simulator = simulator(script);
    let stage = Stage::with_fake(&simulator);
    let mut live = rpc(&stage, &[]);
    live.command(&json!({"type": "prompt", "message": "A"}));
    live.until(|line| line["type"] == "message_update");
    live.command(&json!({"type": "follow_up", "message": "F"}));
    live.command(&json!({"type": "steer", "message": "S"}));
    live.answer("steer");
    simulator.release_stall();
    live.until(is_end);
    assert_eq!(live.end().0, 0);
    let file = entries(&stage.session());
    let stored: Vec<_> = file[3..]
        .iter()
        .map(|entry| entry["message"]["content"][0]["text"].as_str().unwrap())
        .collect();
    assert_eq!(
        stored,
        ["A", "many words in many pieces", "S", "Two", "F", "Three"]
    );
    approve(simulator);
}

#[test]
fn changed_models_are_stored_and_kept_and_a_scope_is_gone_round_in() {
    let script = scenario()
        .step(Reply::text("1"))
        .step(Reply::text("2"))
        .step(Reply::text("3"));
    let simulator = simulator(script);
    let stage = Stage::with_fake(&simulator);
    let mut live = rpc(&stage, &["--models", "fake/m1,fake/e*"]);
    ask(&mut live, "one");
    live.command(&json!({"type": "cycle_model"}));
    let cycled = &live.answer("cycle_model")["data"];
    assert_eq!(
        (&cycled["model"]["id"], &cycled["isScoped"]),
        (&json!("eyes"), &json!(true))
    );
    ask(&mut live, "two");
    live.command(&json!({"type": "cycle_model"}));
    assert_eq!(live.answer("cycle_model")["data"]["model"]["id"], "m1");
    live.command(&json!({"type": "set_model", "provider": "fake", "modelId": "eyes"}));
    assert_eq!(live.answer("set_model")["data"]["id"], "eyes");
    live.command(&json!({"type": "set_model", "provider": "fake", "modelId": "none"}));
    assert_eq!(
        live.answer("set_model")["error"],
        "Model not found: fake/none"
    );
    assert_eq!(live.end().0, 0);
    stage.pi(&["-c", "-p", "three"]).is(0, "3\n", "");
    let models: Vec<_> = simulator
        .requests()
        .iter()
        .map(|r| r.body["model"].clone())
        .collect();
    assert_eq!(models, ["m1", "eyes", "eyes"]);
    let file = entries(&stage.session());
    let changes: Vec<_> = file
        .iter()
        .filter(|entry| entry["type"] == "model_change")
        .map(|entry| entry["modelId"].as_str().unwrap())
        .collect();
    assert_eq!(changes, ["m1", "eyes", "m1", "eyes"]);
    let kept = std::fs::read_to_string(stage.path("agent/settings.json")).unwrap();
    let kept: Value = serde_json::from_str(&kept).unwrap();
    assert_eq!(kept["defaultModel"], "eyes");
    approve(simulator);
}

#[test]
fn a_model_of_the_settings_that_is_gone_is_replaced_and_named() {
    let simulator = simulator(scenario().step(Reply::text("1")));
    let stage = Stage::with_fake(&simulator);
    stage.settings(&json!({"defaultProvider": "gone", "defaultModel": "x"}));
    let ran = stage.pi(&["-p", "one"]);
    assert_eq!((ran.code(), ran.out().as_str()), (0, "1\n"));
    let warning =
        "Warning: the settings name a model that there is not: Unknown provider \"gone\".";
    assert!(ran.err().starts_with(warning), "{}", ran.err());
    assert!(ran.err().ends_with(" Using fake/m1.\n"), "{}", ran.err());
    stage.models(&json!({"providers": {}}));
    let ran = stage.pi(&["-p", "two"]);
    assert_eq!(ran.code(), 1);
    assert!(
        ran.err().starts_with("Error: Unknown provider \"gone\"."),
        "{}",
        ran.err()
    );
    approve(simulator);
}

#[test]
fn a_skill_and_a_template_can_be_prompts_of_one_run() {
    let script = scenario().step(Reply::text("1")).step(Reply::text("2"));
    let simulator = simulator(script);
    let stage = Stage::with_fake(&simulator);
    let skill = "---\nname: sk\ndescription: A skill\n---\nSKILL BODY\n";
    let path = stage.write("agent/skills/sk/SKILL.md", skill);
    stage.write(
        "agent/prompts/fix.md",
        "---\ndescription: Fix\n---\nFix $1 and $@",
    );
    stage
        .pi(&["-p", "/skill:sk do it", "/fix a 'b c'"])
        .is(0, "2\n", "");
    let (file, folder) = (path.display(), path.parent().unwrap().display());
    let block = format!(
        "<skill name=\"sk\" location=\"{file}\">\nReferences are relative to {folder}.\n\nSKILL BODY\n</skill>\n\ndo it"
    );
    assert_eq!(said(&simulator, 1), [block.as_str(), "Fix a and a b c"]);
    approve(simulator);
}

/// What the user runs meanwhile is stored when the run is over, hidden or not.
#[test]
fn commands_of_the_user_during_a_run_are_stored_at_its_end() {
    let script = scenario().step(stalled()).step(Reply::text("ok"));
    let simulator = simulator(script);
    let stage = Stage::with_fake(&simulator);
    let mut live = rpc(&stage, &[]);
    live.command(&json!({"type": "prompt", "message": "A"}));
    live.until(|line| line["type"] == "message_update");
    live.command(&json!({"type": "bash", "command": "echo during; exit 4"}));
    let answer = live.answer("bash");
    assert_eq!(
        answer["data"],
        json!({"output": "during\n", "exitCode": 4, "cancelled": false, "truncated": false})
    );
    live.command(&json!({"type": "bash", "command": "echo hidden", "excludeFromContext": true}));
    live.answer("bash");
    simulator.release_stall();
    live.until(is_end);
    ask(&mut live, "B");
    assert_eq!(live.end().0, 0);
    let file = entries(&stage.session());
    let expected = [
        "user",
        "assistant",
        "bashExecution",
        "bashExecution",
        "user",
        "assistant",
    ];
    assert_eq!(kinds(&file)[3..], expected);
    let shown = "Ran `echo during; exit 4`\n```\nduring\n\n```\n\nCommand exited with code 4";
    let said = said(&simulator, 1);
    assert_eq!(
        (said.len(), said[0].as_str(), said[2].as_str()),
        (3, "A", "B")
    );
    assert_eq!(
        said[1].replace("\n\n```", "\n```"),
        shown.replace("\n\n```", "\n```")
    );
    approve(simulator);
}

/// What servers keep of the beginning of a request is worth nothing when it changes.
#[test]
fn what_stands_before_the_conversation_is_the_same_in_every_request_of_a_session() {
    let script = scenario()
        .step(Reply::calls([bash("c1", "true")]))
        .step(Reply::text("1"))
        .step(Reply::text("2"))
        .step(Reply::text("3"));
    let simulator = simulator(script);
    let stage = Stage::with_fake(&simulator);
    stage.write("project/AGENTS.md", RULES);
    stage.pi(&["-p", "one", "two"]).is(0, "2\n", "");
    stage.pi(&["-c", "-p", "three"]).is(0, "3\n", "");
    let prefix = |request: usize| {
        let body = &simulator.requests()[request].body;
        format!("{}{}", body["messages"][0], body["tools"])
    };
    for request in 1..4 {
        assert_eq!(prefix(request), prefix(0));
        rules_stand_once(&simulator, request);
    }
    approve(simulator);
}

#[test]
fn two_processes_never_share_a_transcript() {
    let script = scenario()
        .step(Reply::text("zero"))
        .step(stalled())
        .step(Reply::text("two"));
    let simulator = simulator(script);
    let stage = Stage::with_fake(&simulator);
    stage.pi(&["-p", "ZERO"]).is(0, "zero\n", "");
    let shared = stage.session();
    let mut live = rpc(&stage, &["-c"]);
    live.command(&json!({"type": "prompt", "message": "ONE"}));
    live.until(|line| line["type"] == "message_update");
    let second = stage.pi(&["-c", "-p", "TWO"]);
    assert_eq!((second.code(), second.out().as_str()), (0, "two\n"));
    simulator.release_stall();
    live.until(is_end);
    assert_eq!(live.end().0, 0);
    let all = stage.sessions();
    assert_eq!(all.len(), 2, "{all:?}");
    let other = all.iter().find(|path| **path != shared).unwrap();
    let name = other.to_str().unwrap();
    assert!(second.err().contains(name), "{}", second.err());
    let text = |path: &std::path::Path| std::fs::read_to_string(path).unwrap();
    assert!(text(&shared).contains("ONE") && !text(&shared).contains("TWO"));
    assert!(text(other).contains("TWO") && !text(other).contains("ONE"));
    assert_eq!(said(&simulator, 2), ["ZERO", "TWO"]);
    approve(simulator);
}

/// Lines that cannot be read stand between and behind the entries; the last one is cut off.
#[test]
fn a_damaged_session_with_a_compaction_goes_on() {
    let script = scenario()
        .step(Reply::text("one"))
        .step(Reply::text("two"))
        .step(Reply::text("SUM"))
        .step(Reply::text("three"))
        .step(Reply::text("four"));
    let (simulator, stage) = small(script);
    let mut live = rpc(&stage, &[]);
    ask(&mut live, &long("first"));
    ask(&mut live, &long("second"));
    live.command(&json!({"type": "compact"}));
    assert_eq!(live.answer("compact")["success"], true);
    assert_eq!(live.end().0, 0);
    let file = stage.session();
    let whole = std::fs::read_to_string(&file).unwrap();
    let mut lines: Vec<Vec<u8>> = whole.lines().map(|line| line.as_bytes().to_vec()).collect();
    lines.insert(7, vec![0; 300]);
    lines.insert(4, b"{ broken".to_vec());
    lines.push(b"{\"type\":\"message\",\"id\":\"x\",\"pa\xe4\xbd".to_vec());
    std::fs::write(&file, lines.join(&b'\n')).unwrap();
    let ran = stage.pi(&["-c", "-p", "third"]);
    assert_eq!(
        (ran.code(), ran.out().as_str()),
        (0, "three\n"),
        "{}",
        ran.err()
    );
    let err = ran.err();
    assert!(
        err.contains("3 lines") && err.contains("last line was cut off"),
        "{err}"
    );
    summary_then(&simulator, 3, &[&long("second"), "third"]);
    let again = stage.pi(&["-c", "-p", "fourth"]);
    assert_eq!((again.code(), again.out().as_str()), (0, "four\n"));
    summary_then(&simulator, 4, &[&long("second"), "third", "fourth"]);
    approve(simulator);
}

#[test]
fn a_file_changed_behind_the_process_is_told_and_nothing_is_lost() {
    let script = scenario()
        .step(Reply::text("one"))
        .step(Reply::text("two"))
        .step(Reply::text("three"));
    let simulator = simulator(script);
    let stage = Stage::with_fake(&simulator);
    let mut live = rpc(&stage, &[]);
    ask(&mut live, "A");
    let file = stage.session();
    let before = std::fs::read_to_string(&file).unwrap();
    let foreign = before.lines().take(4).collect::<Vec<_>>().join("\n") + "\n";
    std::fs::write(&file, &foreign).unwrap();
    ask(&mut live, "B");
    ask(&mut live, "C");
    let (code, _, err) = live.end();
    assert_eq!(code, 0);
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        foreign,
        "left as it is"
    );
    let all = stage.sessions();
    let other = all.iter().find(|path| **path != file).unwrap();
    assert!(err.contains(other.to_str().unwrap()), "{err}");
    let kept = kinds(&entries(other));
    assert_eq!(
        kept.iter().filter(|kind| *kind == "user").count(),
        3,
        "{kept:?}"
    );
    approve(simulator);
}

/// A number with a fraction is read as exactly what it was written as.
#[test]
fn messages_are_given_as_they_stand_in_the_file() {
    let simulator = simulator(scenario());
    let stage = Stage::with_fake(&simulator);
    let cwd = stage.project();
    let cost = "{\"input\":0.1,\"output\":0,\"cacheRead\":0,\"cacheWrite\":0,\"total\":0.0029065000000000002}";
    let usage = format!(
        "{{\"input\":1,\"output\":2,\"cacheRead\":0,\"cacheWrite\":0,\"totalTokens\":3,\"cost\":{cost}}}"
    );
    let user =
        "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}],\"timestamp\":1}";
    let assistant = format!(
        "{{\"role\":\"assistant\",\"content\":[{{\"type\":\"text\",\"text\":\"b\"}}],\"api\":\"openai-completions\",\"provider\":\"fake\",\"model\":\"m1\",\"usage\":{usage},\"stopReason\":\"stop\",\"timestamp\":2,\"own\":{{\"x\":1.10}}}}"
    );
    let time = "2026-12-01T00:00:00.000Z";
    let lines = [
        format!(
            "{{\"type\":\"session\",\"version\":3,\"id\":\"s\",\"timestamp\":\"{time}\",\"cwd\":{}}}",
            json!(cwd)
        ),
        format!(
            "{{\"type\":\"message\",\"id\":\"00000001\",\"parentId\":null,\"timestamp\":\"{time}\",\"message\":{user}}}"
        ),
        format!(
            "{{\"type\":\"message\",\"id\":\"00000002\",\"parentId\":\"00000001\",\"timestamp\":\"{time}\",\"message\":{assistant}}}"
        ),
    ];
    let file = stage.write("s.jsonl", lines.join("\n") + "\n");
    let mut live = rpc(&stage, &["--session", file.to_str().unwrap()]);
    live.send("{\"type\":\"get_messages\"}\n");
    let messages = live.answer("get_messages")["data"]["messages"].clone();
    let stored: Value = serde_json::from_str(&assistant).unwrap();
    assert_eq!(messages[1], stored);
    let shown = messages.to_string();
    assert!(shown.contains("0.0029065000000000002"), "{shown}");
    assert_eq!(live.end().0, 0);
    approve(simulator);
}
