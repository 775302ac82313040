//! What pi kept in other places and forms is read, told once, and stays as it is.

use fluzo_sim::{HeaderCheck, Reply, RequestExpectation, Step};
use serde_json::json;

use crate::support::*;

fn authorized(key: &str) -> RequestExpectation {
    let value = HeaderCheck::Equals(format!("Bearer {key}"));
    RequestExpectation {
        headers: [("authorization".to_owned(), value)].into(),
        ..RequestExpectation::default()
    }
}

#[test]
fn keys_of_old_settings_are_the_last_that_are_asked() {
    let script = scenario()
        .model("openai/gpt-oss-120b")
        .step(Step::new(Reply::text("old")).expecting(authorized("sk-old")))
        .step(Step::new(Reply::text("env")).expecting(authorized("sk-env")))
        .step(Step::new(Reply::text("new")).expecting(authorized("sk-new")));
    let simulator = simulator(script);
    let stage = Stage::new();
    stage.models(&json!({"providers": {"groq": {"baseUrl": simulator.base_url()}}}));
    let settings = json!({"apiKeys": {"groq": "sk-old"}});
    stage.settings(&settings);
    let warning = format!(
        "Warning: `{}` has keys in `apiKeys`, which still count: today they stand in `{}`, as {{\"PROVIDER\": {{\"type\": \"api_key\", \"key\": \"KEY\"}}}}\n",
        stage.path("agent/settings.json").display(),
        stage.path("agent/auth.json").display()
    );
    let arguments = ["--model", "groq/openai/gpt-oss-120b", "-p", "hi"];
    stage.pi(&arguments).is(0, "old\n", &warning);
    let stage = stage.set("GROQ_API_KEY", "sk-env");
    stage.pi(&arguments).is(0, "env\n", &warning);
    let auth = json!({"groq": {"type": "api_key", "key": "sk-new"}});
    let path = stage.write("agent/auth.json", auth.to_string());
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(path, mode).unwrap();
    stage.pi(&arguments).is(0, "new\n", &warning);
    let kept = std::fs::read_to_string(stage.path("agent/settings.json")).unwrap();
    assert_eq!(kept, settings.to_string());
    approve(simulator);
}

#[test]
fn sign_ins_of_the_old_file_are_used() {
    let script = scenario().step(Step::new(Reply::text("ok")).expecting(authorized("at-old")));
    let simulator = simulator(script);
    let stage = Stage::new();
    let text = json!({"groq": {
        "refresh": "rt", "access": "at-old", "expires": 9_000_000_000_000_i64,
        "clientId": "c", "tokenUrl": "http://127.0.0.1:1/token",
    }})
    .to_string();
    let file = stage.write("agent/oauth.json", &text);
    stage.models(&json!({"providers": {"groq": {"baseUrl": simulator.base_url()}}}));
    let ran = stage.pi(&["--model", "groq/m1", "-p", "hi"]);
    assert_eq!((ran.code(), ran.out().as_str()), (0, "ok\n"));
    let warning = format!("Warning: `{}` is an old file of sign-ins", file.display());
    assert!(ran.err().contains(&warning), "{}", ran.err());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    approve(simulator);
}

#[test]
fn sessions_in_the_agent_folder_itself_are_found_and_stay() {
    let script = scenario()
        .step(Reply::text("1"))
        .step(Reply::text("2"))
        .step(Reply::text("3"))
        .step(Reply::text("4"));
    let simulator = simulator(script);
    let stage = Stage::with_fake(&simulator);
    assert_eq!(stage.pi(&["-p", "one"]).code(), 0);
    let session = stage.session();
    let old = stage.path("agent").join(session.file_name().unwrap());
    std::fs::rename(&session, &old).unwrap();
    let folder = session.parent().unwrap();
    let warning = format!(
        "Warning: the session `{}` lies in an old place; today sessions of its folder are in `{}`\n",
        old.display(),
        folder.display()
    );
    stage.pi(&["-c", "-p", "two"]).is(0, "2\n", &warning);
    let id = entries(&old)[0]["id"].as_str().unwrap().to_owned();
    stage
        .pi(&["--session", &id[..13], "-p", "three"])
        .is(0, "3\n", &warning);
    let users = entries(&old);
    let users = users.iter().filter(|e| e["message"]["role"] == "user");
    assert_eq!(users.count(), 3);
    assert!(stage.sessions().is_empty());
    // In another folder it is a session of another project.
    stage.write("elsewhere/x", "");
    let elsewhere = stage.path("elsewhere");
    let elsewhere = elsewhere.to_str().unwrap();
    let ran = stage.pi(&["--workspace", elsewhere, "--session", &id, "-p", "x"]);
    assert_eq!(ran.code(), 1);
    let text = "Session found in different project: ";
    assert!(ran.err().starts_with(text), "{}", ran.err());
    stage
        .pi(&["--workspace", elsewhere, "-c", "-p", "four"])
        .is(0, "4\n", "");
    approve(simulator);
}

#[test]
fn settings_in_old_forms_count_and_are_told_once() {
    let simulator = simulator(scenario().step(Reply::text("ok")));
    let stage = Stage::with_fake(&simulator);
    let text = "{\"queueMode\": \"all\", \"websockets\": true, \"skills\": {\"enableSkillCommands\": false}}";
    let file = stage.write("agent/settings.json", text);
    stage.write("agent/hooks/mine.ts", "");
    let warning = format!(
        "Warning: `{}` has settings in an old form, which still count: write `steeringMode` instead of `queueMode`, `transport` instead of `websockets`, `enableSkillCommands` instead of `skills.enableSkillCommands`\nWarning: `{}` is an old folder and was passed over: today what it holds are extensions, in `{}`\n",
        file.display(),
        stage.path("agent/hooks").display(),
        stage.path("agent/extensions").display()
    );
    stage.pi(&["-p", "hi"]).is(0, "ok\n", &warning);
    assert_eq!(std::fs::read_to_string(file).unwrap(), text);
    approve(simulator);
}
