//! Variables of the environment, and the command line that goes before them.

use fluzo_sim::Reply;

use crate::support::*;

fn environment_of_a_command(stage: &Stage, arguments: &[&str]) -> String {
    let file = stage.path("tmp/environment");
    let ran = stage.pi(&[arguments, &["-p", "hi"]].concat());
    ran.is(0, "ok\n", "");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(file).unwrap();
    text
}

#[test]
fn commands_see_that_they_run_in_an_agent_and_that_it_is_offline() {
    let call = |id: &str| Reply::calls([bash(id, "env > \"$TMPDIR/environment\"")]);
    let script = scenario()
        .step(call("c1"))
        .step(Reply::text("ok"))
        .step(call("c2"))
        .step(Reply::text("ok"));
    let simulator = simulator(script);
    let stage = Stage::with_fake(&simulator);
    let plain = environment_of_a_command(&stage, &[]);
    assert!(plain.contains("PI_CODING_AGENT=true\n"), "{plain}");
    assert!(!plain.contains("PI_OFFLINE"), "{plain}");
    let offline = environment_of_a_command(&stage, &["--offline"]);
    for set in ["PI_OFFLINE=1\n", "PI_SKIP_VERSION_CHECK=1\n"] {
        assert!(offline.contains(set), "{offline}");
    }
    approve(simulator);
}

#[test]
fn the_agent_folder_may_begin_with_a_tilde() {
    let simulator = simulator(scenario().step(Reply::text("ok")));
    let stage = Stage::new().set("PI_CODING_AGENT_DIR", "~/mine");
    let models = serde_json::json!({"providers": {"fake": fake(&simulator.base_url())}});
    stage.write("home/mine/models.json", models.to_string());
    stage.pi(&["-p", "hi"]).is(0, "ok\n", "");
    assert!(stage.path("home/mine/sessions").is_dir());
    approve(simulator);
}

/// They are accepted, and nothing is said of them.
#[test]
fn variables_without_effect_are_accepted() {
    let simulator = simulator(scenario().step(Reply::text("ok")));
    let stage = Stage::with_fake(&simulator)
        .set("PI_OFFLINE", "1")
        .set("PI_SKIP_VERSION_CHECK", "1")
        .set("PI_TELEMETRY", "1")
        .set("PI_PACKAGE_DIR", "/nowhere")
        .set("PI_TIMING", "1");
    stage.pi(&["-p", "hi"]).is(0, "ok\n", "");
    let page = stage.fluzo(&["man"]).out();
    for name in ["PI_OFFLINE", "PI_TELEMETRY", "PI_TUI_DEBUG", "VISUAL"] {
        assert!(page.contains(&name.replace('-', "\\-")), "{name}");
    }
    assert!(page.contains("no effect here, as Fluzo connects only to what is configured"));
    approve(simulator);
}
