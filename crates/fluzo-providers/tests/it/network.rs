//! Proxies, certificate authorities, HTTP/2 and compression, over real connections on loopback.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use fluzo_llm::{AbortSignal, StreamError, StreamErrorKind, StreamEvent};
use fluzo_providers::{CallLimits, ExtraRoots, HttpClient, HttpConfig, ProxyConfig, Response};
use fluzo_sim::Listener;
use futures_util::StreamExt;

use crate::authority::{Authority, serve_http2, serve_tls};
use crate::raw::{Play, Raw, read_request, response};
use crate::support::{ask, collect, over, shown};

fn proxies(variables: &[(&str, String)]) -> ProxyConfig {
    ProxyConfig::from_variables(|name| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.clone())
    })
}

fn client(proxies: ProxyConfig, extra_roots: ExtraRoots) -> HttpClient {
    HttpClient::with_config(HttpConfig {
        user_agent: "fluzo-test".into(),
        proxies,
        extra_roots,
    })
}

async fn get(http: &HttpClient, url: &str) -> Result<Response, StreamError> {
    http.get(url, &[], CallLimits::discovery()).await
}

/// A proxy that leads every tunnel to `target` and notes what it was asked.
fn tunnel(target: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Arc::<Mutex<Vec<String>>>::default();
    let log = Arc::clone(&seen);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut client = stream.unwrap();
            log.lock().unwrap().push(read_head(&mut client));
            let server = TcpStream::connect(target).unwrap();
            client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
            splice(client, server);
        }
    });
    (address, seen)
}

/// The head of a request, and not a byte more.
fn read_head(stream: &mut TcpStream) -> String {
    use std::io::Read;
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() > 0 {
        bytes.push(byte[0]);
    }
    String::from_utf8(bytes).unwrap().to_lowercase()
}

/// Bytes both ways until both sides are done.
fn splice(one: TcpStream, other: TcpStream) {
    let copies = [
        (one.try_clone().unwrap(), other.try_clone().unwrap()),
        (other, one),
    ];
    for (mut from, mut to) in copies {
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(std::net::Shutdown::Write);
        });
    }
}

fn plain_https(authority: &Authority, host: &str) -> SocketAddr {
    serve_tls(authority.server(host, &["http/1.1"]), |secure| {
        read_request(secure);
        let _ = secure.write_all(&response(200, "", b"hello"));
    })
}

#[tokio::test]
async fn plain_requests_are_handed_to_the_proxy_whole() {
    let target = Listener::poisoned().unwrap();
    let proxy = Raw::start(vec![Play::Bytes(response(200, "", b"from the proxy"))]);
    let at = format!("http://us%40er:planted@{}", proxy.address());
    for variable in ["http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"] {
        let http = client(proxies(&[(variable, at.clone())]), ExtraRoots::default());
        let got = get(&http, "http://models.test:1234/v1/models?x=1").await;
        assert_eq!(got.unwrap().body(), b"from the proxy");
        // The machine itself is asked directly, and nobody answers there.
        let direct = get(&http, "http://127.0.0.1:9/v1").await.unwrap_err();
        assert_eq!(direct.kind, StreamErrorKind::Connect);
        assert!(!direct.message.contains("proxy"), "{direct}");
    }
    let seen = proxy.seen();
    assert_eq!(seen.len(), 4);
    for request in seen {
        assert!(
            request.starts_with("get http://models.test:1234/v1/models?x=1 http/1.1\n"),
            "{request}"
        );
        assert!(request.contains("\nhost: models.test:1234\n"), "{request}");
        // us@er:planted
        let credentials = "\nproxy-authorization: basic dxnazxi6cgxhbnrlza==\n";
        assert!(request.contains(credentials), "{request}");
    }
    assert!(target.finish().unwrap().is_empty());
}

#[tokio::test]
async fn secure_requests_go_through_a_tunnel_and_trust_the_added_authority() {
    let authority = Authority::new();
    let server = plain_https(&authority, "models.test");
    let (proxy, seen) = tunnel(server);
    for variable in ["https_proxy", "HTTPS_PROXY"] {
        let at = format!("http://user:planted@{proxy}");
        let http = client(proxies(&[(variable, at)]), authority.roots());
        let got = get(&http, "https://models.test:8443/v1/models").await;
        assert_eq!(got.unwrap().body(), b"hello");
    }
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen.len(), 2);
    for head in seen {
        assert!(
            head.starts_with("connect models.test:8443 http/1.1\r\n"),
            "{head}"
        );
        // user:planted
        let credentials = "\r\nproxy-authorization: basic dxnlcjpwbgfudgvk\r\n";
        assert!(head.contains(credentials), "{head}");
    }
}

#[tokio::test]
async fn a_proxy_that_fails_is_named_without_its_password() {
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let refusing = Raw::start(vec![Play::Bytes(response(407, "", b"planted"))]);
    let at = |address: SocketAddr| format!("http://planted:planted@{address}");
    let rows = [
        (
            at(closed),
            StreamErrorKind::Connect,
            format!("through the proxy `http://{closed}`"),
        ),
        (
            at(refusing.address()),
            StreamErrorKind::Connect,
            format!("through the proxy `http://{}`", refusing.address()),
        ),
        (
            format!("socks5h://planted:planted@{closed}"),
            StreamErrorKind::Connect,
            format!("through the proxy `socks5h://{closed}` cannot be reached: SOCKS error"),
        ),
        (
            "planted://planted".to_owned(),
            StreamErrorKind::InvalidRequest,
            "the proxy in `https_proxy` cannot be used".to_owned(),
        ),
    ];
    for (proxy, kind, text) in rows {
        let http = client(proxies(&[("https_proxy", proxy)]), ExtraRoots::default());
        let error = get(&http, "https://models.test/planted").await.unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains(&text), "{error}");
        assert!(
            !format!("{error:?}{error}{http:?}").contains("planted"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn an_authority_counts_only_when_its_file_is_added_and_only_for_its_hosts() {
    let authority = Authority::new();
    let other = Authority::named("other");
    let right = plain_https(&authority, "localhost");
    let wrong = plain_https(&authority, "elsewhere.test");
    let port = |address: SocketAddr| address.port();
    let rows = [
        (right, authority.roots(), ""),
        (right, ExtraRoots::default(), "UnknownIssuer"),
        (right, other.roots(), "UnknownIssuer"),
        (wrong, authority.roots(), "not valid for name"),
    ];
    for (server, roots, refusal) in rows {
        let url = format!("https://localhost:{}/", port(server));
        let got = get(&client(ProxyConfig::default(), roots), &url).await;
        match got {
            Ok(got) => assert_eq!((got.body(), refusal), (&b"hello"[..], "")),
            Err(error) => {
                assert!(
                    !refusal.is_empty() && error.message.contains(refusal),
                    "{error}"
                );
                assert!(error.message.contains("`SSL_CERT_FILE`"), "{error}");
                // It would fail the same way again.
                assert_eq!(error.kind, StreamErrorKind::InvalidRequest);
            }
        }
    }
}

#[tokio::test]
async fn a_broken_authority_file_is_named_at_the_first_secure_request() {
    let read = || Err("the certificate file `/ca.pem` cannot be read: gone".to_owned());
    let http = client(
        ProxyConfig::default(),
        ExtraRoots::from_files(Arc::new(read)),
    );
    let error = get(&http, "https://localhost:9/").await.unwrap_err();
    assert_eq!(error.kind, StreamErrorKind::InvalidRequest);
    assert!(
        error
            .message
            .ends_with("the certificate file `/ca.pem` cannot be read: gone")
    );
    let plain = get(&http, "http://127.0.0.1:9/").await.unwrap_err();
    assert_eq!(plain.kind, StreamErrorKind::Connect);
}

#[tokio::test]
async fn http_2_is_spoken_where_the_server_offers_it_over_one_connection() {
    let authority = Authority::new();
    let (done, answered) = mpsc::channel();
    let config = authority.server("localhost", &["h2", "http/1.1"]);
    let server = serve_tls(config, move |secure| {
        let _ = done.send(serve_http2(secure, b"second version"));
    });
    let http = client(ProxyConfig::default(), authority.roots());
    let url = format!("https://localhost:{}/v1/models", server.port());
    for _ in 0..3 {
        assert_eq!(get(&http, &url).await.unwrap().body(), b"second version");
    }
    drop(http);
    // The connection ends in the runtime's own time.
    let answered = tokio::task::spawn_blocking(move || answered.recv());
    assert_eq!(answered.await.unwrap(), Ok(3));
}

#[tokio::test]
async fn compressed_events_arrive_as_they_are_flushed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    let (go_on, seen_first) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let request = read_request(&mut stream);
        assert!(request.contains("\naccept-encoding: gzip\n"), "{request}");
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\nconnection: close\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        let mut gzip = flate2::write::GzEncoder::new(stream, flate2::Compression::default());
        let mut event = |text: &str| {
            write!(gzip, "data: {text}\n\n").unwrap();
            gzip.flush().unwrap();
        };
        event(r#"{"choices":[{"delta":{"content":"first "}}]}"#);
        seen_first.recv().unwrap();
        event(r#"{"choices":[{"delta":{"content":"second"},"finish_reason":"stop"}]}"#);
        event("[DONE]");
        gzip.finish().unwrap();
    });
    let http = Arc::new(HttpClient::new("fluzo-test"));
    let provider = over(http);
    let mut events = Vec::new();
    let mut stream = provider.stream(ask(&base), AbortSignal::new());
    while let Some(event) = stream.next().await {
        if matches!(&event, StreamEvent::TextDelta { delta, .. } if delta == "first ") {
            go_on.send(()).unwrap();
        }
        events.push(event);
    }
    assert_eq!(shown(&events), "text:first second ; stop 0/0");
}

#[tokio::test]
async fn a_streaming_request_goes_through_the_proxy_too() {
    let proxy = Raw::start(vec![Play::Bytes(response(
        200,
        "content-type: text/event-stream\r\n",
        b"data: {\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
    ))]);
    let variables = [("http_proxy", proxy.address().to_string())];
    let http = Arc::new(client(proxies(&variables), ExtraRoots::default()));
    let provider = over(http);
    let events = collect(&*provider, ask("http://models.test/v1")).await;
    assert_eq!(shown(&events), "text:x ; stop 0/0");
    let seen = proxy.seen();
    assert!(seen[0].starts_with("post http://models.test/v1/chat/completions http/1.1\n"));
}
