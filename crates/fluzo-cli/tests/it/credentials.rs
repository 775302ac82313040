//! Keys and sign-ins of the program: `auth.json`, files of variables, commands, and renewals
//! by several processes at once.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::sync::mpsc::channel;

use fluzo_sim::{HeaderCheck, Reply, RequestExpectation, Step};
use serde_json::{Value, json};

use crate::authority::{Authority, CLIENT, Fault};
use crate::support::{Stage, approve, fake, scenario, simulator};

/// A simulator that answers `times` requests with the key `key`.
pub fn expecting(key: &str, times: usize) -> fluzo_sim::Simulator {
    let check = HeaderCheck::Equals(format!("Bearer {key}"));
    let expect = RequestExpectation {
        headers: [("authorization".to_owned(), check)].into(),
        ..RequestExpectation::default()
    };
    let step = || Step::new(Reply::text("ok")).expecting(expect.clone());
    simulator((0..times).fold(scenario(), |script, _| script.step(step())))
}

/// A sign-in to the provider `fake` whose time is over.
pub fn signed_in(stage: &Stage, authority: &Authority) -> String {
    authority.grant("rt-first");
    let text = json!({"other": {"type": "api_key", "key": "kept"}, "fake": {"type": "oauth",
        "access": "at-first", "refresh": "rt-first", "expires": 1, "clientId": CLIENT,
        "tokenUrl": authority.url("/token")}})
    .to_string();
    let path = stage.write("agent/auth.json", &text);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    text
}

fn stored(stage: &Stage) -> Value {
    let text = std::fs::read_to_string(stage.path("agent/auth.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn seven_processes_make_one_renewal() {
    let authority = Authority::start();
    let simulator = expecting("at-1", 7);
    let stage = Stage::with_fake(&simulator);
    signed_in(&stage, &authority);
    // The first renewal is not answered before all seven run.
    let ((here, arrived), (go, held)) = (channel(), channel());
    authority.fail_next(Fault::Hold(here, held));
    let start = |_| {
        let mut command = stage.command(&["pi", "--no-session", "-p", "hi"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let children: Vec<_> = (0..7).map(start).collect();
    arrived.recv().unwrap();
    go.send(()).unwrap();
    for child in children {
        let output = child.wait_with_output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said = (text(&output.stdout), text(&output.stderr));
        assert_eq!(said, ("ok\n".to_owned(), String::new()));
    }
    assert_eq!((authority.renewals(), authority.reuses()), (1, 0));
    let file = stored(&stage);
    assert_eq!(file["fake"]["refresh"], "rt-1");
    assert_eq!(file["other"]["key"], "kept");
    approve(simulator);
}

#[test]
fn a_process_that_is_killed_during_a_renewal_costs_no_login() {
    let authority = Authority::start();
    let simulator = expecting("at-1", 1);
    let stage = Stage::with_fake(&simulator);
    let before = signed_in(&stage, &authority);
    let ((here, arrived), (go, held)) = (channel(), channel());
    authority.fail_next(Fault::Hold(here, held));
    authority.fail_next(Fault::Answer(503, String::new()));
    let mut killed = stage.command(&["pi", "-p", "hi"]).spawn().unwrap();
    arrived.recv().unwrap();
    killed.kill().unwrap();
    killed.wait().unwrap();
    let path = stage.path("agent/auth.json");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), before);
    // A server that fails, then one that answers; the lock is free all the same.
    let failed = stage.pi(&["-p", "hi"]);
    assert_eq!(failed.code(), 1);
    let expected = "the sign-in to `fake` cannot be used: it could not be renewed: the server failed: status 503";
    assert!(failed.err().contains(expected), "{}", failed.err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), before);
    assert!(stage.sessions().is_empty());
    stage.pi(&["-p", "hi"]).is(0, "ok\n", "");
    assert_eq!((authority.renewals(), authority.reuses()), (1, 0));
    let names = std::fs::read_dir(stage.path("agent")).unwrap();
    let left = names.filter(|name| {
        let name = name.as_ref().unwrap().file_name();
        name.to_string_lossy().starts_with(".auth-")
    });
    assert_eq!(left.count(), 0);
    drop(go);
    approve(simulator);
}

#[test]
fn an_interrupt_during_a_renewal_ends_the_program_after_it() {
    let authority = Authority::start();
    let simulator = expecting("never", 0);
    let stage = Stage::with_fake(&simulator);
    signed_in(&stage, &authority);
    let ((here, arrived), (go, held)) = (channel(), channel());
    authority.fail_next(Fault::Hold(here, held));
    let child = stage.command(&["pi", "-p", "hi"]).spawn().unwrap();
    arrived.recv().unwrap();
    crate::support::signal(child.id(), "INT");
    go.send(()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    // Whether the signal or the answer came first, what the server gave is stored.
    assert_eq!(stored(&stage)["fake"]["refresh"], "rt-1");
    assert_eq!((authority.renewals(), authority.reuses()), (1, 0));
    drop(simulator);
}

#[test]
fn a_key_of_auth_json_goes_before_the_environment_and_models_json() {
    let simulator = expecting("from-command", 1);
    let stage = Stage::with_fake(&simulator);
    let path = stage.write(
        "agent/auth.json",
        r#"{"fake": {"type": "api_key", "key": "!echo from-$WORD; echo noise >&2", "x": 1}}"#,
    );
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let stage = stage.set("WORD", "command");
    stage.pi(&["-p", "hi"]).is(0, "ok\n", "");
    approve(simulator);
}

#[test]
fn what_is_wrong_with_auth_json_is_said_and_the_file_stays() {
    let simulator = expecting("sk-fake", 2);
    let stage = Stage::with_fake(&simulator);
    let broken = "{\n  \"fake\": {\"type\": \"api_key\", \"key\": sk-planted}}";
    let path = stage.write("agent/auth.json", broken);
    let shown = path.display();
    let ran = stage.pi(&["-p", "hi"]);
    ran.is(
        0,
        "ok\n",
        &format!("Warning: `{shown}`, line 2, column 38: not valid JSON\n"),
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), broken);
    std::fs::write(&path, "{}").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    stage.pi(&["-p", "hi"]).is(
        0,
        "ok\n",
        &format!(
            "Warning: `{shown}` can be read by others (mode 0640): run `chmod 600 '{shown}'`\n"
        ),
    );
    approve(simulator);
}

/// A provider whose key is a variable.
fn with_variable(simulator: &fluzo_sim::Simulator) -> Stage {
    let stage = Stage::new();
    let mut provider = fake(&simulator.base_url());
    provider["apiKey"] = json!("$MY_KEY");
    stage.models(&json!({"providers": {"fake": provider}}));
    stage
}

#[test]
fn keys_may_come_from_a_file_of_variables_that_the_user_names() {
    let simulator = expecting("from-file", 3);
    let stage = with_variable(&simulator);
    // One in the project is not read by itself.
    let file = "# keys\nexport MY_KEY='from-file' # mine\n";
    stage.write("project/.env", file);
    let ran = stage.pi(&["-p", "hi"]);
    assert!(
        ran.err()
            .contains("environment variable `MY_KEY` is not set"),
        "{}",
        ran.err()
    );
    stage
        .pi(&["--env-file", ".env", "-p", "hi"])
        .is(0, "ok\n", "");
    // A variable that is set to nothing counts as none.
    let stage = stage.set("MY_KEY", "");
    stage
        .pi(&["--env-file", ".env", "-p", "hi"])
        .is(0, "ok\n", "");
    stage.write("agent/keys.env", file);
    stage.settings(&json!({"envFile": "keys.env"}));
    stage.pi(&["-p", "hi"]).is(0, "ok\n", "");
    approve(simulator);
}

#[test]
fn the_real_environment_goes_before_a_file_of_variables() {
    let simulator = expecting("real", 1);
    let stage = with_variable(&simulator).set("MY_KEY", "real");
    stage.write("agent/keys.env", "MY_KEY=from-file");
    stage.settings(&json!({"envFile": "keys.env"}));
    stage.pi(&["-p", "hi"]).is(0, "ok\n", "");
    approve(simulator);
}

#[test]
fn a_project_names_no_file_of_variables_and_a_broken_one_is_named_by_its_line() {
    let simulator = expecting("never", 0);
    let stage = with_variable(&simulator);
    stage.write("project/keys.env", "MY_KEY=from-project");
    stage.write("project/.pi/settings.json", r#"{"envFile": "keys.env"}"#);
    let ran = stage.pi(&["--approve", "-p", "hi"]);
    assert_eq!(ran.code(), 1);
    for text in ["only the user's own settings", "`MY_KEY` is not set"] {
        assert!(ran.err().contains(text), "{}", ran.err());
    }
    let path = stage.write("project/bad.env", "A=1\nsk-planted\n");
    let ran = stage.pi(&["--env-file", "bad.env", "-p", "hi"]);
    let expected = format!(
        "Error: the file of variables `{}`, line 2: expected `NAME=VALUE`\n",
        path.display()
    );
    assert_eq!((ran.code(), ran.out()), (1, String::new()));
    assert!(ran.err().ends_with(&expected), "{}", ran.err());
    let missing = stage.pi(&["--env-file", "none.env", "-p", "hi"]);
    assert!(
        missing.err().contains("none.env` cannot be read"),
        "{}",
        missing.err()
    );
    assert!(stage.sessions().is_empty());
    drop(simulator);
}
