use fluzo_sim::{
    Body, Completion, Delivery, Endpoint, LineEnd, Listener, Milestone, Outcome, Point, Reply,
    Scenario, Step, Transfer, Writes,
};
use serde_json::{Value, json};

use crate::client::{Client, LIMIT, Response, ask, plain, scenario, start};

const STREAM: &str = "text/event-stream";

fn raw(text: &str) -> Reply {
    Reply::with_body(
        200,
        Body::Raw {
            content_type: STREAM.to_owned(),
            text: text.to_owned(),
        },
    )
}

fn chunked(delivery: Delivery) -> Delivery {
    Delivery {
        transfer: Some(Transfer::Chunked),
        ..delivery
    }
}

fn play(reply: Reply) -> (Response, Outcome) {
    let simulator = start(scenario().step(reply));
    let mut client = Client::new(&simulator);
    let response = client.post(&ask("go"));
    assert!(simulator.wait_for(Milestone::Settled(0), LIMIT));
    let outcome = simulator.requests()[0].outcome;
    let verdict = simulator.finish();
    assert!(verdict.passed, "{verdict}");
    (response, outcome)
}

#[test]
fn bodies_are_split_at_every_offset() {
    let text = "data: {\"choices\":[{\"delta\":{\"content\":\"\u{4f60}\u{1f30d}\"}}]}\n\n";
    let (response, _) = play(raw(text).delivered(chunked(Delivery {
        writes: Writes::Bytes(1),
        ..Delivery::default()
    })));
    assert_eq!(response.chunks.len(), text.len());
    assert_eq!(response.text(), text);
    for at in 1..text.len() {
        let writes = Writes::SplitAt(vec![at]);
        let (response, _) = play(raw(text).delivered(chunked(Delivery {
            writes,
            ..Delivery::default()
        })));
        assert_eq!(
            response.chunks,
            [&text.as_bytes()[..at], &text.as_bytes()[at..]],
            "{at}"
        );
    }
}

#[test]
fn events_are_writes_of_their_own_unless_told_otherwise() {
    let events = Body::Events(vec!["1".to_owned(), "2".to_owned()]);
    let (response, _) = play(Reply::with_body(200, events.clone()));
    assert_eq!(response.chunks, [b"data: 1\n\n", b"data: 2\n\n"]);
    let together = Delivery {
        writes: Writes::Together,
        ..Delivery::default()
    };
    assert_eq!(
        play(Reply::with_body(200, events).delivered(together))
            .0
            .chunks
            .len(),
        1
    );
}

#[test]
fn cut_offs_leave_the_body_unfinished() {
    for transfer in [Transfer::Chunked, Transfer::Length] {
        let cut_off = Some(Point::After("rm -r bui".to_owned()));
        let delivery = Delivery {
            cut_off,
            transfer: Some(transfer),
            ..Delivery::default()
        };
        let (response, outcome) = play(raw("data: rm -r build\n\n").delivered(delivery));
        assert_eq!(
            (response.text().as_str(), response.complete),
            ("data: rm -r bui", false),
            "{transfer:?}"
        );
        assert_eq!(outcome, Outcome::CutOff);
    }
}

#[test]
fn bodies_can_end_early_yet_properly() {
    for transfer in [Transfer::Chunked, Transfer::Length, Transfer::UntilClose] {
        let delivery = Delivery {
            end_early: Some(Point::Bytes(8)),
            transfer: Some(transfer),
            ..Delivery::default()
        };
        let (response, outcome) = play(raw("data: abcdef\n\n").delivered(delivery));
        assert_eq!(
            (response.text().as_str(), response.complete),
            ("data: ab", true),
            "{transfer:?}"
        );
        assert_eq!(outcome, Outcome::Answered);
    }
}

#[test]
fn points_count_events() {
    let events = Body::Events(vec!["1".to_owned(), "2".to_owned()]);
    for (count, expected) in [
        (0, ""),
        (1, "data: 1\n\n"),
        (2, "data: 1\n\ndata: 2\n\n"),
        (9, "data: 1\n\ndata: 2\n\n"),
    ] {
        let delivery = Delivery {
            end_early: Some(Point::Events(count)),
            ..Delivery::default()
        };
        assert_eq!(
            play(Reply::with_body(200, events.clone()).delivered(delivery))
                .0
                .text(),
            expected
        );
    }
}

#[test]
fn a_stall_lasts_until_it_is_released() {
    let stall = Some(Point::After("one".to_owned()));
    let simulator = start(scenario().step(raw("one two").delivered(chunked(Delivery {
        stall,
        ..Delivery::default()
    }))));
    let mut client = Client::new(&simulator);
    client.send(&crate::client::post_bytes(&ask("go").to_string()));
    client.read_until("3\r\none\r\n");
    assert!(simulator.wait_for(Milestone::Stalled(1), LIMIT));
    assert_eq!(simulator.requests()[0].outcome, Outcome::Stalled);
    simulator.release_stall();
    client.read_until("4\r\n two\r\n0\r\n\r\n");
    assert!(simulator.wait_for(Milestone::Settled(0), LIMIT));
    assert_eq!(simulator.requests()[0].outcome, Outcome::Answered);
}

#[test]
fn a_stall_ends_when_the_client_leaves() {
    let before_head = Delivery {
        stall_before_head: true,
        ..Delivery::default()
    };
    for reply in [
        Reply::head_only(),
        Reply::text("late").delivered(before_head),
    ] {
        let simulator = start(scenario().step(reply));
        let mut client = Client::new(&simulator);
        client.send(&crate::client::post_bytes(&ask("go").to_string()));
        assert!(simulator.wait_for(Milestone::Stalled(1), LIMIT));
        drop(client);
        assert!(simulator.wait_for(Milestone::Settled(0), LIMIT));
        assert!(simulator.wait_for(Milestone::NoConnection, LIMIT));
        assert_eq!(simulator.requests()[0].outcome, Outcome::ClientGone);
    }
}

#[test]
fn a_running_stall_does_not_keep_the_simulator_from_ending() {
    let simulator = start(scenario().step(Reply::head_only()));
    let mut client = Client::new(&simulator);
    client.send(&crate::client::post_bytes(&ask("go").to_string()));
    client.read_until("\r\n\r\n");
    assert!(simulator.finish().passed);
    assert!(client.is_closed());
}

#[test]
fn status_headers_and_body_of_errors_are_free() {
    let (response, outcome) = play(
        Reply::error(429, "slow down")
            .header("Retry-After", "3")
            .header("X-Request-Id", "mine"),
    );
    assert_eq!((response.status, outcome), (429, Outcome::Answered));
    assert_eq!(response.json()["error"]["message"], "slow down");
    assert!(
        response.head.contains("retry-after: 3\n"),
        "{}",
        response.head
    );
    assert!(
        response.head.contains("x-request-id: mine\n") && !response.head.contains("sim-0"),
        "{}",
        response.head
    );
}

#[test]
fn an_error_body_can_come_with_status_200() {
    let (response, _) = play(Reply::with_body(
        200,
        Body::Json(json!({"error": {"message": "no"}})),
    ));
    assert_eq!(
        (
            response.status,
            response.json()["error"]["message"].as_str()
        ),
        (200, Some("no"))
    );
}

#[test]
fn redirects_carry_their_location() {
    let elsewhere = Listener::poisoned().unwrap();
    let (response, _) = play(Reply::redirect(307, elsewhere.base_url()));
    assert_eq!(response.status, 307);
    assert!(
        response
            .head
            .contains(&format!("location: {}\n", elsewhere.base_url())),
        "{}",
        response.head
    );
    assert_eq!(elsewhere.finish().unwrap(), []);
}

#[test]
fn comments_marks_and_line_ends_are_sent_as_scripted() {
    let reply = || Reply::with_body(200, Body::Events(vec!["1".to_owned(), "2".to_owned()]));
    let shaped = |delivery| play(reply().delivered(delivery)).0.text();
    let comments = vec![" ping".to_owned(), String::new()];
    assert_eq!(
        shaped(Delivery {
            comments,
            ..Delivery::default()
        }),
        ": ping\n\n:\n\ndata: 1\n\n: ping\n\n:\n\ndata: 2\n\n"
    );
    assert_eq!(
        shaped(Delivery {
            line_end: LineEnd::CrLf,
            ..Delivery::default()
        }),
        "data: 1\r\n\r\ndata: 2\r\n\r\n"
    );
    assert_eq!(
        shaped(Delivery {
            line_end: LineEnd::Cr,
            ..Delivery::default()
        }),
        "data: 1\r\rdata: 2\r\r"
    );
    assert_eq!(
        shaped(Delivery {
            bom: true,
            ..Delivery::default()
        }),
        "\u{feff}data: 1\n\ndata: 2\n\n"
    );
}

#[test]
fn an_endless_line_has_no_end() {
    let (response, _) = play(Reply::with_body(200, Body::EndlessLine { bytes: 200_000 }));
    assert_eq!(response.body.len(), 200_006);
    assert!(response.body.starts_with(b"data: x") && !response.body.contains(&b'\n'));
}

#[test]
fn an_endless_line_stops_when_the_client_leaves() {
    let simulator =
        start(scenario().step(Reply::with_body(200, Body::EndlessLine { bytes: u64::MAX })));
    let mut client = Client::new(&simulator);
    client.send(&crate::client::post_bytes(&ask("go").to_string()));
    client.read_until("\r\nxxx");
    drop(client);
    assert!(simulator.wait_for(Milestone::Settled(0), LIMIT));
    assert_eq!(simulator.requests()[0].outcome, Outcome::ClientGone);
}

#[test]
fn close_is_said_and_done() {
    let simulator = start(scenario().step(Reply::text("x").delivered(Delivery {
        close: true,
        ..Delivery::default()
    })));
    let mut client = Client::new(&simulator);
    let response = client.post(&plain(ask("go")));
    assert!(response.head.contains("connection: close\n") && response.complete);
    assert!(client.is_closed());
}

#[test]
fn a_scripted_fault_excuses_no_invalid_request() {
    let cut = Delivery {
        cut_off: Some(Point::Bytes(0)),
        ..Delivery::default()
    };
    let simulator = start(scenario().step(Step::new(Reply::text("x").delivered(cut))));
    let response = Client::new(&simulator).post(&ask(""));
    assert_eq!((response.status, response.complete), (400, true));
    let verdict = simulator.finish();
    assert_eq!((verdict.passed, verdict.steps_played), (false, 0));
}

#[test]
fn a_point_that_the_body_lacks_is_a_fault_of_the_scenario() {
    let stall = Some(Point::After("never said".to_owned()));
    let simulator = start(scenario().step(Reply::text("x").delivered(Delivery {
        stall,
        ..Delivery::default()
    })));
    assert_eq!(Client::new(&simulator).post(&ask("go")).status, 400);
    assert!(
        simulator
            .finish()
            .has(fluzo_sim::ViolationKind::ScenarioFault)
    );
}

#[test]
fn malformed_completions_can_be_scripted() {
    let (response, _) = play(raw("data: {\"choices\": [\n\n"));
    assert_eq!(response.text(), "data: {\"choices\": [\n\n");
    let odd = Completion {
        text: None,
        ..Completion::default()
    };
    assert_eq!(play(Reply::completion(odd)).0.status, 200);
}

fn check_senseless(delivery: Delivery) {
    let simulator = start(scenario().step(raw("abcdef").delivered(delivery.clone())));
    assert_eq!(
        Client::new(&simulator).post(&ask("go")).status,
        400,
        "{delivery:?}"
    );
    assert!(
        simulator
            .finish()
            .has(fluzo_sim::ViolationKind::ScenarioFault),
        "{delivery:?}"
    );
}

#[test]
fn places_outside_of_what_is_sent_are_faults_of_the_scenario() {
    let cut_off = Some(Point::Bytes(2));
    check_senseless(Delivery {
        stall: Some(Point::Bytes(3)),
        cut_off: cut_off.clone(),
        ..Delivery::default()
    });
    check_senseless(Delivery {
        stall: Some(Point::Bytes(3)),
        end_early: cut_off,
        ..Delivery::default()
    });
    check_senseless(Delivery {
        writes: Writes::SplitAt(vec![1, 7]),
        ..Delivery::default()
    });
}

#[test]
fn a_stall_can_come_right_before_a_cut_off() {
    let delivery = Delivery {
        stall: Some(Point::End),
        cut_off: Some(Point::Bytes(2)),
        ..Delivery::default()
    };
    let simulator = start(scenario().step(raw("abcdef").delivered(delivery)));
    let mut client = Client::new(&simulator);
    client.send(&crate::client::post_bytes(&ask("go").to_string()));
    client.read_until("\r\n\r\nab");
    simulator.release_stall();
    assert!(client.is_closed());
    assert_eq!(simulator.requests()[0].outcome, Outcome::CutOff);
}

type Headers = Vec<(&'static str, &'static str)>;

/// A request to each dialect with its path and headers.
fn dialects() -> Vec<(Endpoint, &'static str, Headers, Value)> {
    let user = json!([{"role": "user", "content": "go"}]);
    let messages = json!({"model": "m", "max_tokens": 9, "stream": true, "messages": user});
    let responses = json!({"model": "m", "stream": true, "input": user});
    let gemini = json!({"contents": [{"role": "user", "parts": [{"text": "go"}]}]});
    let bearer = vec![("authorization", "Bearer k")];
    let version = ("anthropic-version", "2023-06-01");
    let path = "/v1beta/models/m:streamGenerateContent?alt=sse";
    vec![
        (Endpoint::Chat, "/v1/chat/completions", vec![], ask("go")),
        (
            Endpoint::Messages,
            "/v1/messages",
            vec![("x-api-key", "k"), version],
            messages,
        ),
        (Endpoint::Responses, "/v1/responses", bearer, responses),
        (
            Endpoint::Gemini,
            path,
            vec![("x-goog-api-key", "k")],
            gemini,
        ),
    ]
}

#[test]
fn every_dialect_can_be_disturbed() {
    for (endpoint, path, headers, body) in dialects() {
        let slow = Reply::error_from(endpoint, 429, "slow down").header("retry-after", "3");
        let broken = Completion {
            text: Some("one two".to_owned()),
            error: Some(json!({"message": "overloaded"})),
            ..Completion::default()
        };
        let point = |text: &str| Some(Point::After(text.to_owned()));
        let cut = Delivery {
            cut_off: point("one"),
            ..Delivery::default()
        };
        let split = Delivery {
            stall: point("one"),
            writes: Writes::Bytes(1),
            ..Delivery::default()
        };
        let replies = [
            slow,
            Reply::completion(broken),
            Reply::text("one two").delivered(split),
            Reply::text("one two").delivered(cut),
        ];
        let script = |script: Scenario, reply| script.step(Step::at(endpoint, reply));
        let simulator = start(replies.into_iter().fold(scenario(), script));
        let mut client = Client::new(&simulator);
        let slowed = client.post_to(path, &headers, &body);
        assert_eq!(slowed.status, 429, "{path}");
        assert!(
            slowed.head.contains("retry-after: 3\n") && slowed.text().contains("slow down"),
            "{path}"
        );
        let failed = client.post_to(path, &headers, &body);
        assert!(
            failed.status == 200 && failed.text().contains("overloaded"),
            "{path}"
        );
        simulator.release_stall();
        let whole = client.post_to(path, &headers, &body);
        assert!(whole.complete && whole.chunks.len() > 20, "{path}");
        let cut = client.post_to(path, &headers, &body);
        assert!(!cut.complete && cut.text().ends_with("one"), "{path}");
        let verdict = simulator.finish();
        assert!(verdict.passed, "{path}: {verdict}");
    }
}
