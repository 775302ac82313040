//! The listener for the answer of a sign-in.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream};

use fluzo_exec::CallbackListener;

fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(work)
}

/// Sends `requests` one after the other, with `{}` for the listener's address, and returns the
/// query that it took and the status of each answer.
fn asked(requests: &'static [&'static str]) -> (String, Vec<String>) {
    run(async {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let listener = CallbackListener::bind(loopback, 0, "/callback")
            .await
            .unwrap();
        let uri = listener.redirect_uri();
        let address = uri
            .strip_prefix("http://")
            .unwrap()
            .strip_suffix("/callback");
        let address = address.unwrap().to_owned();
        let browser = tokio::task::spawn_blocking(move || {
            let status = |request: &&str| {
                let mut stream = TcpStream::connect(&address).unwrap();
                let request = request.replace("{}", &address);
                stream.write_all(request.as_bytes()).unwrap();
                // Says that nothing more comes.
                stream.shutdown(std::net::Shutdown::Write).unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).unwrap();
                answer.split(' ').nth(1).unwrap_or("none").to_owned()
            };
            requests.iter().map(status).collect()
        });
        let query = listener.query().await.unwrap();
        (query, browser.await.unwrap())
    })
}

#[test]
fn one_request_for_its_path_and_host_is_taken_and_others_are_refused() {
    let (query, statuses) = asked(&[
        "GET /callback?code=other HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        "GET /callback?code=none HTTP/1.1\r\n\r\n",
        "GET /callback?code=two HTTP/1.1\r\nHost: {}\r\nHost: evil.example\r\n\r\n",
        "POST /callback?code=post HTTP/1.1\r\nHost: {}\r\n\r\n",
        "GET /favicon.ico HTTP/1.1\r\nHost: {}\r\n\r\n",
        "GET /callbacks?code=longer HTTP/1.1\r\nHost: {}\r\n\r\n",
        "GET /callback HTTP/1.1\r\nHost: {}\r\n\r\n",
        "GET /callback?code=cut",
        "GET /callback?code=right&state=s HTTP/1.1\r\nhost: {}\r\n\r\n",
    ]);
    assert_eq!(query, "code=right&state=s");
    let refused = [
        "404", "404", "404", "404", "404", "404", "404", "none", "200",
    ];
    assert_eq!(statuses, refused);
}

#[test]
fn only_loopback_is_listened_on_and_a_taken_port_is_an_error() {
    run(async {
        let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        assert!(CallbackListener::bind(any, 0, "/").await.is_err());
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let first = CallbackListener::bind(loopback, 0, "/").await.unwrap();
        let uri = first.redirect_uri();
        let port = uri.trim_end_matches('/').rsplit(':').next().unwrap();
        let port = port.parse().unwrap();
        assert!(CallbackListener::bind(loopback, port, "/").await.is_err());
        drop(first);
        assert!(CallbackListener::bind(loopback, port, "/").await.is_ok());
    });
}
