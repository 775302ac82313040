use std::net::Shutdown;

use fluzo_sim::{
    Completion, Milestone, Outcome, Reply, RequestExpectation, Step, ToolCall, ViolationKind,
};
use serde_json::{Value, json};

use crate::client::{Client, LIMIT, ask, call, post_bytes, request, scenario, start, tool};

/// Sends raw bytes and expects a recorded refusal.
fn check_raw(bytes: &[u8], status: u16, kind: ViolationKind) {
    let simulator = start(scenario().step(Reply::text("x")));
    let mut client = Client::new(&simulator);
    client.send(bytes);
    client.stream.get_ref().shutdown(Shutdown::Write).unwrap();
    let response = client.response();
    let sent = String::from_utf8_lossy(bytes);
    assert_eq!(
        (response.status, response.json()["error"]["code"].as_str()),
        (status, Some(kind.code())),
        "{sent}"
    );
    assert_eq!(simulator.requests()[0].outcome, Outcome::Refused, "{sent}");
    let verdict = simulator.finish();
    assert_eq!(
        (verdict.violations[0].kind, verdict.violations[0].request),
        (kind, Some(0)),
        "{sent}"
    );
    assert_eq!((verdict.passed, verdict.steps_played), (false, 0), "{sent}");
}

fn check(body: &Value, kind: ViolationKind) {
    check_raw(&post_bytes(&body.to_string()), 400, kind);
}

pub fn turn(calls: Value, results: &[&str]) -> Value {
    let mut messages = vec![
        json!({"role": "user", "content": "go"}),
        json!({"role": "assistant", "content": null, "tool_calls": calls}),
    ];
    messages.extend(
        results
            .iter()
            .map(|id| json!({"role": "tool", "tool_call_id": id, "content": "r"})),
    );
    request(messages.into())
}

#[test]
fn broken_histories_get_400_and_fail_the_verdict() {
    let image = json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}]}]);
    check(
        &turn(json!([call("a", "read", "{}")]), &[]),
        ViolationKind::CallWithoutResult,
    );
    check(
        &turn(json!([call("a", "read", "{}")]), &["a", "b"]),
        ViolationKind::ToolResultWithoutCall,
    );
    check(
        &turn(json!([call("a", "read", "{}")]), &["a", "a"]),
        ViolationKind::DuplicateToolResult,
    );
    check(
        &turn(
            json!([call("a", "read", "{}"), call("a", "read", "{}")]),
            &["a"],
        ),
        ViolationKind::DuplicateCallId,
    );
    check(
        &turn(json!([call("a", "read", "[1]")]), &["a"]),
        ViolationKind::ArgumentsNotObject,
    );
    check(
        &turn(json!([call("a", "rm", "{}")]), &["a"]),
        ViolationKind::UnknownTool,
    );
    check(
        &request(json!([{"role": "assistant", "content": "a"}, {"role": "user", "content": "u"}])),
        ViolationKind::RoleOrder,
    );
    check(&request(image), ViolationKind::ImageNotSupported);
    check(&ask(""), ViolationKind::EmptyMessage);
    check(&request(json!([])), ViolationKind::InvalidMessages);
}

#[test]
fn broken_parameters_get_400() {
    let with = |key: &str, value: Value| {
        let mut body = ask("go");
        body[key] = value;
        body
    };
    check(&with("model", json!("other")), ViolationKind::UnknownModel);
    check(&with("model", json!(null)), ViolationKind::UnknownModel);
    check(
        &with("stream", json!("yes")),
        ViolationKind::InvalidParameter,
    );
    check(
        &with("stream", json!(false)),
        ViolationKind::InvalidParameter,
    );
    check(
        &with("tools", json!([tool("a"), tool("a")])),
        ViolationKind::InvalidTools,
    );
    check(&json!([]), ViolationKind::BodyNotJson);
    check_raw(&post_bytes("{\"model\": "), 400, ViolationKind::BodyNotJson);
    let twice = ask("go").to_string().replacen('{', "{\"stream\":false,", 1);
    check_raw(&post_bytes(&twice), 400, ViolationKind::DuplicateKey);
}

#[test]
fn a_model_with_images_takes_them() {
    let simulator = start(
        fluzo_sim::Scenario::new("images")
            .image_model("m")
            .step(Reply::text("x")),
    );
    let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}});
    assert_eq!(
        Client::new(&simulator)
            .post(&request(json!([{"role": "user", "content": [image]}])))
            .status,
        200
    );
    assert!(simulator.finish().passed);
}

#[test]
fn lies_about_the_body_length_are_found() {
    let good = String::from_utf8(post_bytes(&ask("go").to_string())).unwrap();
    let length = ask("go").to_string().len();
    let lie = |length: &str| {
        good.replacen(
            &format!("Content-Length: {}", ask("go").to_string().len()),
            length,
            1,
        )
    };
    let framing = ViolationKind::BodyFraming;
    check_raw(
        lie(&format!("Content-Length: {}", length + 1)).as_bytes(),
        400,
        framing,
    );
    check_raw(
        lie(&format!(
            "Content-Length: {length}\r\nTransfer-Encoding: chunked"
        ))
        .as_bytes(),
        400,
        framing,
    );
    check_raw(lie("X-Nothing: 1").as_bytes(), 400, framing);
    check_raw(lie("Transfer-Encoding: chunked").as_bytes(), 400, framing);
    check_raw(lie("Content-Length: many").as_bytes(), 400, framing);
    check_raw(
        lie(&format!("Content-Length: {}", length - 1)).as_bytes(),
        400,
        ViolationKind::BodyNotJson,
    );
}

#[test]
fn bytes_after_the_body_are_found() {
    let simulator = start(scenario().step(Reply::text("x")));
    let mut client = Client::new(&simulator);
    let mut bytes = post_bytes(&ask("go").to_string());
    bytes.extend_from_slice(b"\r\n");
    client.send(&bytes);
    assert_eq!(client.response().status, 200);
    client.stream.get_ref().shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.response().status, 400);
    assert!(simulator.finish().has(ViolationKind::MalformedHttp));
}

#[test]
fn other_requests_get_404_405_or_400() {
    check_raw(
        b"GET /v1/nothing HTTP/1.1\r\nhost: a\r\n\r\n",
        404,
        ViolationKind::UnknownEndpoint,
    );
    check_raw(
        b"GET /v1/models?all=1 HTTP/1.1\r\nhost: a\r\n\r\n",
        404,
        ViolationKind::UnknownEndpoint,
    );
    check_raw(
        b"POST /chat/completions HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n",
        404,
        ViolationKind::UnknownEndpoint,
    );
    check_raw(
        b"GET /v1/chat/completions HTTP/1.1\r\nhost: a\r\n\r\n",
        405,
        ViolationKind::UnknownEndpoint,
    );
    check_raw(
        b"DELETE /v1/models HTTP/1.1\r\nhost: a\r\n\r\n",
        405,
        ViolationKind::UnknownEndpoint,
    );
    check_raw(
        b"\x16\x03\x01 not http\r\n\r\n",
        400,
        ViolationKind::MalformedHttp,
    );
    check_raw(
        b"GET /v1/models HTTP/1.1\r\nhost: a\r\n",
        400,
        ViolationKind::MalformedHttp,
    );
}

#[test]
fn the_models_are_listed_without_playing_a_step() {
    let simulator = start(scenario().image_model("v").step(Reply::text("x")));
    let mut client = Client::new(&simulator);
    let list = client.get("/v1/models").json();
    let ids: Vec<&Value> = list["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|model| &model["id"])
        .collect();
    assert_eq!(ids, ["m", "v"]);
    assert_eq!(client.post(&ask("go")).status, 200);
    assert!(simulator.finish().passed);
}

#[test]
fn a_models_step_scripts_the_list() {
    let simulator = start(
        scenario()
            .step(Step::models(Reply::error(503, "down")))
            .step(Reply::text("x")),
    );
    let mut client = Client::new(&simulator);
    assert_eq!(client.get("/v1/models").status, 503);
    assert_eq!(client.get("/v1/models").status, 200);
    assert_eq!(client.post(&ask("go")).status, 200);
    assert!(simulator.finish().passed);
}

#[test]
fn a_request_beyond_the_script_is_unexpected() {
    let simulator = start(scenario().step(Reply::text("x")));
    let mut client = Client::new(&simulator);
    assert_eq!(client.post(&ask("go")).status, 200);
    let response = client.post(&ask("more"));
    assert_eq!(
        (response.status, response.json()["error"]["code"].as_str()),
        (400, Some("unexpected_request"))
    );
    let verdict = simulator.finish();
    assert_eq!(
        (verdict.violations.len(), verdict.violations[0].request),
        (1, Some(1))
    );
    assert_eq!(verdict.steps_played, 1);
}

#[test]
fn steps_that_remain_fail_unless_they_may() {
    for may in [false, true] {
        let mut script = scenario().step(Reply::text("x"));
        script.expect.steps_may_remain = may;
        let verdict = start(script).finish();
        assert_eq!(
            (verdict.passed, verdict.has(ViolationKind::StepsLeft)),
            (may, !may)
        );
    }
}

#[test]
fn an_unmet_expectation_is_refused_and_the_step_stays() {
    let expect = RequestExpectation {
        last_user_contains: Some("second".to_owned()),
        ..RequestExpectation::default()
    };
    let simulator = start(scenario().step(Step::new(Reply::text("x")).expecting(expect)));
    let mut client = Client::new(&simulator);
    let response = client.post(&ask("first"));
    assert_eq!(
        (response.status, response.json()["error"]["code"].as_str()),
        (400, Some("expectation_not_met"))
    );
    assert_eq!(client.post(&ask("second")).status, 200);
    let verdict = simulator.finish();
    assert_eq!(
        (
            verdict.passed,
            verdict.steps_played,
            verdict.violations.len()
        ),
        (false, 1, 1)
    );
}

#[test]
fn a_tool_that_the_script_made_up_may_come_back() {
    let made_up = Completion {
        tool_calls: vec![ToolCall::new("a", "fly", json!({}))],
        ..Completion::default()
    };
    let simulator = start(
        scenario()
            .step(Reply::completion(made_up))
            .step(Reply::text("x")),
    );
    let mut client = Client::new(&simulator);
    assert_eq!(client.post(&ask("go")).status, 200);
    assert_eq!(
        client
            .post(&turn(json!([call("a", "fly", "{}")]), &["a"]))
            .status,
        200
    );
    assert!(simulator.finish().passed);
}

#[test]
fn arguments_that_the_script_spoiled_may_not_come_back() {
    let spoiled = Completion {
        tool_calls: vec![ToolCall::new("a", "read", "{\"path\":\"x")],
        ..Completion::default()
    };
    let simulator = start(
        scenario()
            .step(Reply::completion(spoiled))
            .step(Reply::text("x")),
    );
    let mut client = Client::new(&simulator);
    assert_eq!(client.post(&ask("go")).status, 200);
    assert_eq!(
        client
            .post(&turn(json!([call("a", "read", "{\"path\":\"x")]), &["a"]))
            .status,
        400
    );
    assert!(simulator.finish().has(ViolationKind::ArgumentsNotObject));
}

#[test]
fn the_connection_survives_a_refusal() {
    let simulator = start(scenario().step(Reply::text("x")).max_connections(1));
    let mut client = Client::new(&simulator);
    assert_eq!(client.post(&ask("")).status, 400);
    assert_eq!(client.post(&ask("go")).status, 200);
    assert!(simulator.wait_for(Milestone::Requests(2), LIMIT));
    let verdict = simulator.finish();
    assert_eq!(
        verdict.to_string(),
        "failed: 1 of 1 steps, 2 requests on 1 connections\n  request 0: empty_message: messages[0]: empty content"
    );
}
