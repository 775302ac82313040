use fluzo_sim::{
    Delivery, Endpoint, Point, Quirk, Reply, Scenario, ScenarioError, ServerFamily, Simulator,
    Step, ToolCall, Writes,
};
use serde_json::{Value, json};

use crate::client::scenario;

fn minimal() -> Value {
    json!({"version": 1, "name": "n", "models": [{"id": "m"}], "steps": [{"reply": {"body": {"completion": {"text": "x"}}}}]})
}

fn check(change: impl FnOnce(&mut Value), expected: &str) {
    let mut value = minimal();
    change(&mut value);
    let error = Scenario::from_json(&value.to_string())
        .unwrap_err()
        .to_string();
    assert!(error.contains(expected), "{error:?} lacks {expected:?}");
}

#[test]
fn a_minimal_file_equals_the_builder() {
    let read = Scenario::from_json(&minimal().to_string()).unwrap();
    assert_eq!(read, Scenario::new("n").model("m").step(Reply::text("x")));
}

#[test]
fn scenarios_survive_a_round_trip() {
    let delivery = Delivery {
        writes: Writes::SplitAt(vec![3]),
        stall: Some(Point::Events(2)),
        ..Delivery::default()
    };
    let calls = Reply::calls([ToolCall::new("a", "b", "{bad")])
        .delivered(delivery)
        .header("x-a", "b");
    let script = scenario()
        .step(calls)
        .step(Step::models(Reply::error(500, "x")))
        .step(Step::at(Endpoint::Gemini, Reply::text("x")))
        .reasoning_model("r")
        .base_path("/api/v1")
        .family(ServerFamily::Vllm)
        .quirk(Quirk::RefusesStore)
        .max_quirk_refusals(1)
        .max_connections(2);
    assert_eq!(
        Scenario::from_json(&serde_json::to_string(&script).unwrap()).unwrap(),
        script
    );
}

#[test]
fn unknown_keys_and_versions_are_refused() {
    check(|value| value["version"] = json!(2), "version `2`");
    check(|value| value["version"] = json!("1"), "version `\"1\"`");
    check(
        |value| drop(value.as_object_mut().unwrap().remove("version")),
        "version `null`",
    );
    for pointer in [
        "",
        "/models/0",
        "/steps/0",
        "/steps/0/reply",
        "/steps/0/reply/body/completion",
    ] {
        check(
            |value| value.pointer_mut(pointer).unwrap()["odd"] = json!(1),
            "odd",
        );
    }
    for key in ["expect", "delivery"] {
        check(
            |value| value["steps"][0]["reply"][key] = json!({"odd": 1}),
            if key == "expect" { "expect" } else { "odd" },
        );
    }
    check(
        |value| value["steps"][0]["expect"] = json!({"odd": 1}),
        "odd",
    );
    check(|value| value["expect"] = json!({"odd": 1}), "odd");
    assert!(matches!(
        Scenario::from_json("{"),
        Err(ScenarioError::Unreadable(_))
    ));
}

#[test]
fn values_that_make_no_sense_are_refused() {
    check(|value| value["name"] = json!(""), "name");
    check(|value| value["models"] = json!([]), "models");
    check(|value| value["base_path"] = json!("v1"), "base_path");
    check(|value| value["base_path"] = json!("/v1/"), "base_path");
    check(
        |value| value["models"] = json!([{"id": "m"}, {"id": "m"}]),
        "models",
    );
    check(
        |value| value["steps"][0]["reply"]["status"] = json!(100),
        "steps[0]: `status`",
    );
    check(
        |value| value["steps"][0]["reply"]["status"] = json!(204),
        "`status`",
    );
    check(
        |value| value["steps"][0]["reply"]["headers"] = json!({"a b": "c"}),
        "header name `a b`",
    );
    check(
        |value| value["steps"][0]["reply"]["headers"] = json!({"a": "b\r\nc: d"}),
        "plain ASCII",
    );
    check(
        |value| value["steps"][0]["reply"]["headers"] = json!({"Content-Length": "1"}),
        "`delivery`",
    );
    check(
        |value| value["steps"][0]["reply"]["delivery"] = json!({"writes": {"bytes": 0}}),
        "size 0",
    );
    check(
        |value| value["steps"][0]["reply"]["delivery"] = json!({"comments": ["a\nb"]}),
        "one line",
    );
    check(
        |value| {
            value["steps"][0]["reply"]["delivery"] = json!({"cut_off": "end", "end_early": "end"})
        },
        "exclude",
    );
    check(
        |value| value["steps"][0]["reply"]["body"]["completion"]["pieces"] = json!({"chars": 0}),
        "size 0",
    );
    check(
        |value| value["steps"][0]["expect"] = json!({"body": {"stream": true}}),
        "JSON pointer",
    );
    check(
        |value| value["steps"][0]["endpoint"] = json!("models"),
        "a body of its own",
    );
}

#[test]
fn a_senseless_scenario_does_not_start() {
    let error = Simulator::start(Scenario::new("no models")).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
}
