use fluzo_sim::{Delivery, Milestone, Point, Reply, Scenario, Simulator, ViolationKind};

use crate::client::{Client, LIMIT, ask, plain, post_bytes, scenario, start};

fn texts(count: usize) -> Scenario {
    (0..count).fold(scenario(), |scenario, _| scenario.step(Reply::text("x")))
}

#[test]
fn one_connection_carries_many_requests() {
    let simulator = start(texts(3).max_connections(1));
    let mut client = Client::new(&simulator);
    for _ in 0..3 {
        assert_eq!(client.post(&ask("go")).status, 200);
    }
    let verdict = simulator.finish();
    assert!(verdict.passed, "{verdict}");
    assert_eq!(verdict.connections, 1);
}

#[test]
fn a_second_connection_is_refused_where_one_is_expected() {
    let simulator = start(texts(2).max_connections(1));
    let mut first = Client::new(&simulator);
    assert_eq!(first.post(&ask("go")).status, 200);
    let response = Client::new(&simulator).post(&ask("go"));
    assert_eq!(
        (response.status, response.json()["error"]["code"].as_str()),
        (400, Some("too_many_connections"))
    );
    assert_eq!(simulator.connections(), 2);
    assert_eq!(first.post(&ask("go")).status, 200);
    assert!(simulator.finish().has(ViolationKind::TooManyConnections));
}

#[test]
fn a_connection_without_a_request_counts() {
    let simulator = start(texts(1).max_connections(1));
    assert_eq!(Client::new(&simulator).post(&ask("go")).status, 200);
    let idle = Client::new(&simulator);
    let verdict = simulator.finish();
    assert!(verdict.has(ViolationKind::TooManyConnections), "{verdict}");
    drop(idle);
}

#[test]
fn a_connection_that_the_script_broke_may_be_replaced() {
    let broken = [
        Delivery {
            cut_off: Some(Point::Bytes(3)),
            ..Delivery::default()
        },
        Delivery {
            close: true,
            ..Delivery::default()
        },
    ];
    for delivery in broken {
        let script = scenario()
            .step(Reply::text("x").delivered(delivery))
            .step(Reply::text("y"))
            .max_connections(1);
        let simulator = start(script);
        let mut first = Client::new(&simulator);
        first.post(&ask("go"));
        assert!(first.is_closed());
        assert_eq!(Client::new(&simulator).post(&ask("go")).status, 200);
        let verdict = simulator.finish();
        assert!(verdict.passed, "{verdict}");
    }
}

fn stalled() -> (Simulator, Client) {
    let simulator = start(
        scenario()
            .step(Reply::head_only())
            .step(Reply::text("y"))
            .max_connections(1),
    );
    let mut first = Client::new(&simulator);
    first.send(&post_bytes(&ask("go").to_string()));
    assert!(simulator.wait_for(Milestone::Stalled(1), LIMIT));
    (simulator, first)
}

#[test]
fn a_stalled_connection_that_the_client_left_may_be_replaced() {
    let (simulator, first) = stalled();
    drop(first);
    assert_eq!(Client::new(&simulator).post(&ask("go")).status, 200);
    let verdict = simulator.finish();
    assert!(verdict.passed, "{verdict}");
}

#[test]
fn a_stalled_connection_that_the_client_kept_may_not_be_replaced() {
    let (simulator, mut first) = stalled();
    assert_eq!(Client::new(&simulator).post(&ask("go")).status, 200);
    simulator.release_stall();
    assert!(first.response().complete);
    assert!(simulator.wait_for(Milestone::Settled(0), LIMIT));
    let verdict = simulator.finish();
    assert!(
        !verdict.passed && verdict.has(ViolationKind::TooManyConnections),
        "{verdict}"
    );
}

#[test]
fn overlap_is_measured_and_limited() {
    for (limit, status) in [(None, 200), (Some(2), 200), (Some(1), 400)] {
        let mut script = scenario().step(Reply::head_only()).step(Reply::text("y"));
        script.expect.max_overlap = limit;
        script.expect.steps_may_remain = true;
        let simulator = start(script);
        let mut first = Client::new(&simulator);
        first.send(&post_bytes(&ask("go").to_string()));
        assert!(simulator.wait_for(Milestone::Stalled(1), LIMIT));
        assert_eq!(Client::new(&simulator).post(&ask("go")).status, status);
        let verdict = simulator.finish();
        assert_eq!(
            (
                verdict.peak_overlap,
                verdict.has(ViolationKind::TooMuchOverlap)
            ),
            (2, status == 400)
        );
    }
}

#[test]
fn simulators_run_side_by_side() {
    let pair = [start(texts(1)), start(texts(2))];
    assert_ne!(pair[0].base_url(), pair[1].base_url());
    for simulator in &pair {
        assert!(
            simulator.base_url().starts_with("http://127.0.0.1:")
                && simulator.base_url().ends_with("/v1")
        );
        assert_eq!(Client::new(simulator).post(&ask("go")).status, 200);
    }
    let [first, second] = pair.map(Simulator::finish);
    assert!(first.passed && !second.passed);
    assert_eq!((second.steps_played, second.steps_total), (1, 2));
}

#[test]
fn a_client_may_close_by_header() {
    let simulator = start(texts(1));
    let mut client = Client::new(&simulator);
    let body = ask("go").to_string();
    let request = String::from_utf8(post_bytes(&body)).unwrap().replacen(
        "\r\n",
        "\r\nConnection: close\r\n",
        1,
    );
    client.send(request.as_bytes());
    assert!(client.response().complete && client.is_closed());
}

#[test]
fn chunked_requests_and_continue_are_understood() {
    let simulator = start(texts(2));
    let mut client = Client::new(&simulator);
    let body = ask("go").to_string();
    let head =
        "POST /v1/chat/completions HTTP/1.1\r\nhost: sim\r\ncontent-type: application/json\r\n";
    let (left, right) = body.split_at(10);
    let chunked = format!(
        "{head}transfer-encoding: chunked\r\n\r\n{:x}\r\n{left}\r\n{:X};ext=1\r\n{right}\r\n0\r\n\r\n",
        left.len(),
        right.len()
    );
    client.send(chunked.as_bytes());
    assert_eq!(client.response().status, 200);
    client.send(
        format!(
            "{head}expect: 100-continue\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )
        .as_bytes(),
    );
    client.read_until("HTTP/1.1 100 Continue\r\n\r\n");
    client.send(body.as_bytes());
    assert_eq!(client.response().status, 200);
    assert!(simulator.finish().passed);
}

#[test]
fn a_request_may_arrive_byte_by_byte() {
    let simulator = start(texts(1));
    let mut client = Client::new(&simulator);
    for byte in post_bytes(&ask("go").to_string()) {
        client.send(&[byte]);
    }
    assert_eq!(client.response().status, 200);
    assert!(simulator.finish().passed);
}

#[test]
fn after_the_end_nobody_listens() {
    let simulator = start(texts(0));
    let address = simulator.address();
    assert!(simulator.finish().passed);
    let error = std::net::TcpStream::connect(address).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[test]
fn the_same_requests_get_the_same_bytes() {
    let play = || {
        let simulator = start(texts(2));
        let mut client = Client::new(&simulator);
        [ask("one"), plain(ask("two"))].map(|body| {
            let response = client.post(&body);
            (response.head, response.chunks, response.body)
        })
    };
    assert_eq!(play(), play());
}
