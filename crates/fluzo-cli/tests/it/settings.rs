//! Settings that decide what sessions are made of, and reading them again.

use std::process::Stdio;

use fluzo_sim::Reply;
use serde_json::{Value, json};

use crate::support::*;

const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

fn rpc(stage: &Stage, flags: &[&str]) -> Live {
    let arguments = [&["pi", "--mode", "rpc"], flags].concat();
    Live::start(stage.command(&arguments), Stdio::piped())
}

/// The data of the answer to the command `name` without arguments.
fn asked(live: &mut Live, name: &str) -> Value {
    live.command(&json!({"type": name}));
    let answer = live.answer(name);
    assert_eq!(answer["success"], true, "{answer}");
    answer["data"].clone()
}

fn skill(stage: &Stage, folder: &str) {
    let name = folder.rsplit('/').next().unwrap();
    stage.write(
        &format!("{folder}/SKILL.md"),
        format!("---\nname: {name}\ndescription: {name} it\n---\n"),
    );
}

/// Names of the commands that a prompt may begin with.
fn names(live: &mut Live) -> Vec<String> {
    let data = asked(live, "get_commands");
    let commands = data["commands"].as_array().unwrap();
    let name = |command: &Value| command["name"].as_str().unwrap().to_owned();
    commands.iter().map(name).collect()
}

#[test]
fn default_tools_are_on_offer_where_no_flag_names_any() {
    let unknown = "Warning: unknown tool \"nothing\"\n";
    let rows: [(&[&str], &[&str], &str); 4] = [
        (&[], &["read", "grep"], unknown),
        (&["-xt", "grep"], &["read"], unknown),
        (&["-t", "ls"], &["ls"], ""),
        (&["--no-tools"], &[], ""),
    ];
    for (flags, expected, told) in rows {
        let simulator = simulator(scenario().step(Reply::text("ok")));
        let stage = Stage::with_fake(&simulator);
        stage.settings(&json!({"defaultTools": ["read", "grep", "nothing"]}));
        let ran = stage.pi(&[flags, &["-p", "hi"]].concat());
        ran.is(0, "ok\n", told);
        assert_eq!(tools(&simulator, 0), expected, "{flags:?}");
        approve(simulator);
    }
}

#[test]
fn a_model_has_its_own_level_in_new_sessions() {
    let stage = Stage::new().set("OPENAI_API_KEY", "k");
    stage.settings(&json!({
        "defaultThinkingLevel": "high", "modelThinkingLevels": {"openai/gpt-5.4": "low"},
    }));
    let rows: [(&[&str], &str); 4] = [
        (&["--model", "openai/gpt-5.4"], "low"),
        (&["--model", "openai/gpt-5.4:medium"], "medium"),
        (
            &["--model", "openai/gpt-5.4", "--thinking", "medium"],
            "medium",
        ),
        (&["--model", "openai/gpt-5.2"], "high"),
    ];
    for (flags, level) in rows {
        let mut live = rpc(&stage, flags);
        assert_eq!(
            asked(&mut live, "get_state")["thinkingLevel"],
            level,
            "{flags:?}"
        );
        assert_eq!(live.end().0, 0);
    }
}

/// Also those that were sent before; the session keeps them.
#[test]
fn blocked_images_are_sent_no_more() {
    let simulator = simulator(scenario().step(Reply::text("one")).step(Reply::text("two")));
    let stage = Stage::with_fake(&simulator);
    let image = json!({"type": "image", "data": PIXEL, "mimeType": "image/png"});
    let prompt = json!({"type": "prompt", "message": "look", "images": [image]});
    let is_end = |event: &Value| event["type"] == "agent_end";
    let mut live = rpc(&stage, &["--model", "eyes"]);
    live.command(&prompt);
    live.until(is_end);
    assert_eq!(live.end().0, 0);
    assert!(simulator.requests()[0].body.to_string().contains(PIXEL));

    stage.settings(&json!({"images": {"blockImages": true}}));
    let mut live = rpc(&stage, &["-c"]);
    live.command(&prompt);
    live.until(is_end);
    let line = json!({"type": "text", "text": "Image reading is disabled."});
    let told = json!([{"type": "text", "text": "look"}, line]);
    assert_eq!(users(&simulator, 1), [told.clone(), told]);
    assert!(!simulator.requests()[1].body.to_string().contains(PIXEL));
    let next = asked(&mut live, "get_request");
    assert!(!next.to_string().contains(PIXEL), "{next}");
    let kept = asked(&mut live, "get_messages").to_string();
    assert_eq!(kept.matches(PIXEL).count(), 2, "{kept}");
    assert_eq!(live.end().0, 0);
    approve(simulator);
}

#[test]
fn a_model_has_its_own_sizes_for_compaction() {
    for (model, compacted) in [("fake/m1", true), ("fake/eyes", false)] {
        let replies = ["one", "two"].map(Reply::text);
        let summary = compacted.then(|| Reply::text("SUMMARY"));
        let script = replies.into_iter().chain(summary);
        let simulator = simulator(script.fold(scenario(), fluzo_sim::Scenario::step));
        let stage = Stage::with_fake(&simulator);
        stage.settings(&json!({
            "compaction": {"modelOverrides": {model: {"keepRecentTokens": 2.0}}},
        }));
        let mut live = rpc(&stage, &["--model", "m1"]);
        for text in ["a", "b"] {
            live.command(&json!({"type": "prompt", "message": text}));
            live.until(|event| event["type"] == "agent_end");
        }
        live.command(&json!({"type": "compact"}));
        let answer = live.answer("compact");
        assert_eq!(answer["success"], compacted, "{answer}");
        assert_eq!(live.end().0, 0);
        approve(simulator);
    }
}

#[test]
fn a_model_for_summaries_that_cannot_be_used_is_told_and_ends_nothing() {
    let rows = [
        ("nosuch-model", "Model \"nosuch-model\" not found."),
        ("openai/gpt-5.4", "there is no key for `openai`"),
    ];
    for (model, why) in rows {
        let simulator = simulator(scenario().step(Reply::text("ok")));
        let stage = Stage::with_fake(&simulator);
        stage.settings(&json!({"compaction": {"summaryModel": model}}));
        let ran = stage.pi(&["-p", "hi"]);
        assert_eq!((ran.code(), ran.out().as_str()), (0, "ok\n"));
        let told = "Warning: setting `compaction.summaryModel` was passed over, summaries are made by the session's model: ";
        assert!(
            ran.err().starts_with(&format!("{told}{why}")),
            "{}",
            ran.err()
        );
        approve(simulator);
    }
}

#[test]
fn reload_reads_everything_again_and_tells_what_is_wrong() {
    let simulator = simulator(scenario());
    let stage = Stage::with_fake(&simulator);
    let mut live = rpc(&stage, &[]);
    assert_eq!(names(&mut live), Vec::<String>::new());
    stage.settings(&json!({
        "steeringMode": "all", "loopGuard": "perhaps", "packages": ["../package"],
    }));
    skill(&stage, "agent/skills/users");
    skill(&stage, "project/.pi/skills/projects");
    skill(&stage, "package/skills/packaged");
    stage.write("agent/prompts/template.md", "do $1");
    stage.write("project/AGENTS.md", "sentinel-4c1d");
    let trusted = json!({stage.project().display().to_string(): true});
    stage.write("agent/trust.json", trusted.to_string());
    let mut provider = fake(&simulator.base_url());
    provider["models"][0]["name"] = json!("Renamed");
    stage.models(&json!({"providers": {"fake": provider, "broken": {}}}));
    live.command(&json!({"type": "reload"}));
    assert_eq!(live.answer("reload")["success"], true);
    assert_eq!(
        names(&mut live),
        [
            "template",
            "skill:projects",
            "skill:users",
            "skill:packaged"
        ]
    );
    let state = asked(&mut live, "get_state");
    assert_eq!(state["steeringMode"], "all");
    let models = asked(&mut live, "get_available_models").to_string();
    assert!(models.contains("Renamed"), "{models}");
    let next = asked(&mut live, "get_request").to_string();
    assert!(next.contains("sentinel-4c1d"), "{next}");
    let (code, _, told) = live.end();
    assert_eq!(code, 0);
    for text in [
        "`loopGuard` in the global settings must be",
        "Provider broken",
    ] {
        assert!(told.contains(text), "{told}");
    }
    approve(simulator);
}

/// `--approve` is said of the folder that the program was started in.
#[test]
fn approval_does_not_follow_a_session_into_another_project() {
    let stage = Stage::new().set("OPENAI_API_KEY", "k");
    skill(&stage, "project/.pi/skills/own");
    skill(&stage, "other/.pi/skills/planted");
    let header = json!({
        "type": "session", "version": 3, "id": "0b5c2f6e-0000-4000-8000-000000000001",
        "timestamp": "2026-12-01T00:00:00.000Z", "cwd": stage.path("other"),
    });
    let file = stage.write("tmp/other.jsonl", format!("{header}\n"));
    let mut live = rpc(&stage, &["--approve"]);
    assert_eq!(names(&mut live), ["skill:own"]);
    live.command(&json!({"type": "switch_session", "sessionPath": file}));
    assert_eq!(live.answer("switch_session")["data"]["cancelled"], false);
    assert_eq!(names(&mut live), Vec::<String>::new());
    let (code, _, told) = live.end();
    assert_eq!(code, 0);
    let place = stage.path("other/.pi").display().to_string();
    assert!(
        told.contains(&format!("`{place}` was passed over")),
        "{told}"
    );
}
