use fluzo_sim::{Reply, RequestExpectation, Step};
use serde_json::{Value, json};

use crate::client::{Client, call, plain, scenario, start};
use crate::refusals::turn;

fn meets(expect: Value, body: &Value) -> bool {
    let expect: RequestExpectation = serde_json::from_value(expect).unwrap();
    let simulator = start(scenario().step(Step::new(Reply::text("x")).expecting(expect)));
    let status = Client::new(&simulator).post(body).status;
    assert_eq!(simulator.finish().passed, status == 200);
    status == 200
}

/// A request with the tools `read` and `bash` that ends in the result `r` of one call.
fn body() -> Value {
    let mut body = turn(json!([call("a", "read", "{}")]), &["a"]);
    body["messages"]
        .as_array_mut()
        .unwrap()
        .insert(0, json!({"role": "system", "content": "be good"}));
    body
}

fn check(holds: Value, fails: Value) {
    assert!(meets(holds.clone(), &body()), "{holds}");
    assert!(!meets(fails.clone(), &body()), "{fails}");
}

#[test]
fn each_expectation_can_hold_and_fail() {
    check(json!({"model": "m"}), json!({"model": "n"}));
    check(json!({"stream": true}), json!({"stream": false}));
    check(
        json!({"system_contains": "good"}),
        json!({"system_contains": "bad"}),
    );
    check(
        json!({"last_user_contains": "go"}),
        json!({"last_user_contains": "no"}),
    );
    check(
        json!({"tool_result_contains": ["r"]}),
        json!({"tool_result_contains": ["r", "q"]}),
    );
    check(
        json!({"tool_result_lacks": ["q"]}),
        json!({"tool_result_lacks": ["r"]}),
    );
    check(
        json!({"tools": ["bash"]}),
        json!({"tools": ["bash", "edit"]}),
    );
    check(
        json!({"exact_tools": ["read", "bash"]}),
        json!({"exact_tools": ["bash", "read"]}),
    );
    check(
        json!({"body": {"/tools/1/function/name": "bash"}}),
        json!({"body": {"/tools/1/function/name": "read"}}),
    );
    check(
        json!({"body": {"/stream": true}}),
        json!({"body": {"/store": false}}),
    );
    check(
        json!({"body_lacks": ["/store"]}),
        json!({"body_lacks": ["/tools"]}),
    );
    check(
        json!({"max_body_bytes": 10_000}),
        json!({"max_body_bytes": 10}),
    );
    assert!(meets(json!({"stream": false}), &plain(body())));
}

#[test]
fn headers_can_be_checked() {
    let header = |name: &str, check: Value| json!({"headers": {name: check}});
    check(
        header("Content-Type", json!({"equals": "application/json"})),
        header("Content-Type", json!({"equals": "json"})),
    );
    check(
        header("content-type", json!({"contains": "json"})),
        header("content-type", json!({"contains": "xml"})),
    );
    check(
        header("host", json!("present")),
        header("host", json!("absent")),
    );
    check(
        header("cookie", json!("absent")),
        header("cookie", json!("present")),
    );
}

#[test]
fn only_results_that_the_model_has_not_seen_count() {
    let mut seen = body();
    let messages = seen["messages"].as_array_mut().unwrap();
    messages.push(json!({"role": "assistant", "content": "a"}));
    messages.push(json!({"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}));
    assert!(!meets(json!({"tool_result_contains": ["r"]}), &seen));
    assert!(meets(
        json!({"tool_result_lacks": ["r"], "last_user_contains": "two"}),
        &seen
    ));
}
