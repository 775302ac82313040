//! `fluzo pi discover`, and what is told of redirects.

use fluzo_sim::{Listener, Reply};
use serde_json::json;

use crate::support::{Stage, approve, fake, scenario, simulator};

#[test]
fn models_of_a_configured_server_are_listed_with_what_models_json_needs() {
    let simulator = simulator(scenario());
    let stage = Stage::with_fake(&simulator);
    let ran = stage.pi(&["discover", "fake"]);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let base = simulator.base_url();
    let origin = base.strip_suffix("/v1").unwrap();
    let told = format!("{origin}: loopback (127.0.0.1), not encrypted, with your credentials\n");
    assert_eq!(ran.err(), told);
    let out = ran.out();
    let (table, snippet) = out.split_once("\nFor models.json:\n").unwrap();
    assert!(table.lines().any(|line| line == "m1"), "{table}");
    let snippet: serde_json::Value = serde_json::from_str(snippet).unwrap();
    assert_eq!(snippet["providers"]["fake"]["baseUrl"], base);
    assert_eq!(snippet["providers"]["fake"]["models"][0]["id"], "m1");
    assert!(!out.contains("sk-fake"), "{out}");
}

#[test]
fn a_server_that_is_reached_in_clear_text_needs_a_word_of_the_user() {
    let stage = Stage::new();
    let ran = stage.pi(&["discover", "http://10.255.255.1:9/v1?key=planted"]);
    ran.is(
        1,
        "",
        "http://10.255.255.1:9: private (10.255.255.1), not encrypted, without credentials\n\
         error: `http://10.255.255.1:9` is reached without encryption: what is sent can be read and changed on the way, and nothing was sent\n\
         hint: use an https address, or say `--accept-cleartext` for this one run\n",
    );
}

#[test]
fn what_cannot_be_asked_says_what_to_do() {
    let stage = Stage::new();
    let rows = [
        (&["discover", "olama"][..], "did you mean `ollama`?"),
        (&["discover"][..], "<PROVIDER|URL>"),
        (
            &["discover", "ftp://h/"][..],
            "give an address such as http://localhost:11434/v1",
        ),
        (
            &["discover", "http://127.0.0.1:9/v1"][..],
            "check that the server is running",
        ),
    ];
    for (arguments, text) in rows {
        let ran = stage.pi(arguments);
        assert_eq!((ran.code(), ran.out().as_str()), (1, ""));
        assert!(ran.err().contains(text), "{}", ran.err());
    }
}

#[test]
fn a_redirected_request_ends_the_run_with_what_may_be_told() {
    let target = Listener::poisoned().unwrap();
    let location = format!("http://u:planted@{}/planted?planted", target.address());
    for json in [false, true] {
        let simulator = simulator(scenario().step(Reply::redirect(307, location.clone())));
        let second = Listener::poisoned().unwrap();
        let stage = Stage::new();
        let mut other = fake(&second.base_url());
        other["models"] = json!([{"id": "m2"}]);
        stage.models(&json!({"providers": {"fake": fake(&simulator.base_url()), "other": other}}));
        let arguments = ["--model", "fake/m1", "-p", "go"];
        let ran = match json {
            false => stage.pi(&arguments),
            true => stage.pi(&[&["--mode", "json"], &arguments[..]].concat()),
        };
        assert_eq!(ran.code(), 1);
        assert!(!format!("{}{}", ran.out(), ran.err()).contains("planted"));
        let destination = target.address();
        if json {
            let end = ran.lines().into_iter().find(|line| {
                line["type"] == "message_end" && line["message"]["role"] == "assistant"
            });
            let details = &end.unwrap()["message"]["errorDetails"];
            assert_eq!(details["type"], "redirect_blocked");
            assert_eq!(details["status"], 307);
            assert_eq!(details["destination"]["port"], destination.port());
            for id in ["operationId", "correlationId"] {
                assert!(!details[id].as_str().unwrap().is_empty());
            }
        } else {
            let line = format!(
                "redirect_blocked: status 307, destination http://{destination}, operation "
            );
            assert_eq!(
                ran.err().lines().filter(|l| l.starts_with(&line)).count(),
                1
            );
        }
        assert_eq!(simulator.requests().len(), 1);
        approve(simulator);
        assert!(second.finish().unwrap().is_empty());
    }
    assert!(target.finish().unwrap().is_empty());
}
