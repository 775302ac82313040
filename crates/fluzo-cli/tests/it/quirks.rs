//! Servers with quirks, from outside: a refused form is sent in another one.

use fluzo_sim::{Completion, Quirk, Reply};
use serde_json::json;

use crate::support::*;

#[test]
fn a_refused_form_is_sent_in_another_one_once_and_told() {
    let script = scenario()
        .quirk(Quirk::RefusesStore)
        .max_quirk_refusals(1)
        .step(Reply::text("one"))
        .step(Reply::text("two"));
    let simulator = simulator(script);
    let stage = Stage::with_fake(&simulator);
    let ran = stage.pi(&["-p", "a", "b"]);
    assert_eq!(
        (ran.code(), ran.out().as_str()),
        (0, "two\n"),
        "{}",
        ran.err()
    );
    let err = ran.err();
    let told = "sending it again with \"supportsStore\": false (set this in the model's `compat` to send it so at once)\n";
    assert!(err.starts_with("422 ") && err.ends_with(told), "{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
    // The refusal stays in the file and is not sent.
    let roles = kinds(&entries(&stage.session()));
    assert_eq!(
        roles[3..],
        ["user", "assistant", "assistant", "user", "assistant"]
    );
    assert!(simulator.requests()[2].body.get("store").is_none());
    approve(simulator);
}

#[test]
fn json_mode_tells_of_the_switch() {
    let script = scenario()
        .quirk(Quirk::RefusesStore)
        .max_quirk_refusals(1)
        .step(Reply::text("one"));
    let simulator = simulator(script);
    let stage = Stage::with_fake(&simulator);
    let ran = stage.pi(&["--mode", "json", "a"]);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let lines = ran.lines();
    let at = lines
        .iter()
        .position(|line| line["type"] == "form_switched");
    let at = at.expect("the switch is told");
    assert_eq!(lines[at]["key"], "supportsStore");
    assert_eq!(lines[at]["setting"], "\"supportsStore\": false");
    assert_eq!(lines[at - 1]["type"], "agent_end");
    assert_eq!(lines[at - 1]["willRetry"], true);
    assert_eq!(lines[at + 1]["type"], "agent_start");
    approve(simulator);
}

#[test]
fn case_s16_thinking_goes_back_to_a_server_that_demands_it_also_after_resume() {
    let thinks = Reply::completion(Completion {
        thinking: Some("hm".into()),
        tool_calls: vec![bash("c1", "echo A")],
        ..Completion::default()
    });
    let script = fluzo_sim::Scenario::new("s16")
        .reasoning_model("m1")
        .quirk(Quirk::DemandsReasoning)
        .step(thinks)
        .step(Reply::text("one"))
        .step(Reply::text("two"));
    let simulator = simulator(script);
    let stage = Stage::with_fake(&simulator);
    stage.models(&json!({"providers": {"fake": {
        "baseUrl": simulator.base_url(), "api": "openai-completions", "apiKey": "sk-fake",
        "models": [{"id": "m1", "reasoning": true}],
    }}}));
    stage.pi(&["-p", "go"]).is(0, "one\n", "");
    stage.pi(&["-c", "-p", "more"]).is(0, "two\n", "");
    for request in &simulator.requests()[1..] {
        let body = request.body.to_string();
        assert!(body.contains(r#""reasoning_content":"hm""#), "{body}");
    }
    approve(simulator);
}
