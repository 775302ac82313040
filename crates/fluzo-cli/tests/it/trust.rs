//! What a project brings acts only when it is trusted.

use fluzo_sim::Reply;
use serde_json::{Value, json};

use crate::support::*;

/// A project whose settings would run a command, and what that command leaves behind.
fn hostile(stage: &Stage) -> std::path::PathBuf {
    let mark = stage.path("tmp/planted");
    let settings = json!({"shellCommandPrefix": format!("touch {}", mark.display())});
    stage.write("project/.pi/settings.json", settings.to_string());
    mark
}

fn one_call() -> fluzo_sim::Scenario {
    scenario()
        .step(Reply::calls([bash("c1", "echo hi")]))
        .step(Reply::text("ok"))
}

fn notice(stage: &Stage, why: &str) -> String {
    format!(
        "Warning: `{}` was passed over: {why} (--approve trusts it for one run)\n",
        stage.path("project/.pi").display()
    )
}

const NOT_TRUSTED: &str = "this project is not trusted";
const CHANGED: &str = "it has changed since this project was trusted";

/// Answers as they stand in `trust.json` and `trust-content.json`, settings, flags; whether
/// the project acts, and what is told.
#[test]
fn a_flag_a_saved_answer_or_a_setting_decides() {
    let yes = json!({"PROJECT": true});
    let no = json!({"PROJECT": false});
    let other = json!({"PROJECT": "00"});
    let (none, always) = (json!({}), json!({"defaultProjectTrust": "always"}));
    type Row<'a> = (
        &'a Value,
        &'a Value,
        &'a Value,
        &'a [&'a str],
        bool,
        Option<&'a str>,
    );
    let rows: [Row<'_>; 12] = [
        (&none, &none, &none, &[], false, Some(NOT_TRUSTED)),
        (&none, &none, &none, &["--approve"], true, None),
        (&none, &none, &none, &["-a"], true, None),
        (&none, &none, &always, &[], true, None),
        (&none, &none, &always, &["--no-approve"], false, None),
        (&yes, &none, &none, &[], true, None),
        (&yes, &none, &none, &["-na"], false, None),
        (&no, &none, &none, &[], false, None),
        (&no, &none, &always, &[], false, None),
        (&no, &none, &none, &["--approve"], true, None),
        (&yes, &other, &none, &[], false, Some(CHANGED)),
        (&yes, &other, &always, &[], true, None),
    ];
    for (answers, content, settings, flags, acts, told) in rows {
        let simulator = simulator(one_call());
        let stage = Stage::with_fake(&simulator);
        let mark = hostile(&stage);
        let project = stage.project().display().to_string();
        let named = |value: &Value| value.to_string().replace("PROJECT", &project);
        stage.settings(settings);
        stage.write("agent/trust.json", named(answers));
        stage.write("agent/trust-content.json", named(content));
        let err = told.map(|why| notice(&stage, why)).unwrap_or_default();
        let ran = stage.pi(&[flags, &["-p", "hi"]].concat());
        ran.is(0, "ok\n", &err);
        assert_eq!(
            mark.exists(),
            acts,
            "{answers} {content} {settings} {flags:?}"
        );
        let kept = std::fs::read_to_string(stage.path("agent/trust.json")).unwrap();
        assert_eq!(kept, named(answers));
        approve(simulator);
    }
}

#[test]
fn nothing_of_an_unknown_project_acts_in_any_mode() {
    for mode in ["text", "json", "rpc"] {
        let simulator = simulator(one_call());
        let stage = Stage::with_fake(&simulator);
        let mark = hostile(&stage);
        let sessions = stage.path("project/.pi/planted-sessions");
        let settings = json!({
            "shellCommandPrefix": format!("touch {}", mark.display()),
            "sessionDir": ".pi/planted-sessions",
            "defaultModel": "eyes",
            "defaultProjectTrust": "always",
        });
        stage.write("project/.pi/settings.json", settings.to_string());
        stage.write(
            "project/.agents/skills/planted/SKILL.md",
            "---\nname: planted\ndescription: sentinel-9f3c\n---\n",
        );
        let err = if mode == "rpc" {
            let command = stage.command(&["pi", "--mode", "rpc"]);
            let mut rpc = Live::start(command, std::process::Stdio::piped());
            rpc.command(&json!({"type": "prompt", "message": "hi"}));
            rpc.until(|event| event["type"] == "agent_end");
            let (code, _, err) = rpc.end();
            assert_eq!(code, 0);
            err
        } else {
            let ran = stage.pi(&["--mode", mode, "-p", "hi"]);
            assert_eq!(ran.code(), 0);
            ran.err()
        };
        let expected = format!(
            "Warning: `{}`, `{}` were passed over: {NOT_TRUSTED} (--approve trusts it for one run)\n",
            stage.path("project/.pi").display(),
            stage.path("project/.agents/skills").display()
        );
        assert_eq!(err, expected, "{mode}");
        assert!(!mark.exists() && !sessions.exists(), "{mode}");
        assert_eq!(stage.sessions().len(), 1, "{mode}");
        let body = &simulator.requests()[0].body;
        assert_eq!(body["model"], "m1", "{mode}");
        assert!(!body.to_string().contains("sentinel-9f3c"), "{mode}");
        approve(simulator);
    }
}

#[test]
fn flags_that_contradict_each_other_are_refused() {
    let stage = Stage::new();
    stage.pi(&["--approve", "--no-approve", "-p", "hi"]).is(
        1,
        "",
        "Error: --approve cannot be combined with --no-approve\n",
    );
}

#[test]
fn answers_that_cannot_be_read_are_no_answers_and_stay() {
    let simulator = simulator(one_call());
    let stage = Stage::with_fake(&simulator);
    let mark = hostile(&stage);
    let file = stage.write("agent/trust.json", "[true]");
    let ran = stage.pi(&["-p", "hi"]);
    let expected = format!(
        "Warning: no project is trusted by its saved answer: `{}` cannot be used: it is no JSON object\n{}",
        file.display(),
        notice(&stage, NOT_TRUSTED)
    );
    ran.is(0, "ok\n", &expected);
    assert!(!mark.exists());
    assert_eq!(std::fs::read_to_string(file).unwrap(), "[true]");
    approve(simulator);
}
