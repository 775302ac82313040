//! Lists of models: asked for in two steps, at the address class that was told.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fluzo_llm::{BoxFuture, RequestAuth, Secret, StreamErrorKind};
use fluzo_providers::{
    AddressClass, CallLimits, Discovery, DiscoveryError, ExtraRoots, HttpClient, HttpConfig,
    ModelList, ModelServer, Probe, ProxyConfig, Reach, Resolver,
};
use fluzo_sim::Listener;

use crate::authority::{Authority, serve_tls};
use crate::raw::{Play, Raw, read_request, response};

/// Gives one answer after the other, the last again and again.
struct Script(Mutex<Vec<Result<Vec<IpAddr>, String>>>);

impl Resolver for Script {
    fn resolve<'a>(&'a self, _host: &'a str) -> BoxFuture<'a, Result<Vec<IpAddr>, String>> {
        let mut answers = self.0.lock().unwrap();
        let answer = match answers.len() {
            1 => answers[0].clone(),
            _ => answers.remove(0),
        };
        Box::pin(std::future::ready(answer))
    }
}

fn resolver(answers: &[&[&str]]) -> Arc<dyn Resolver> {
    let parse = |answer: &&[&str]| Ok(answer.iter().map(|ip| ip.parse().unwrap()).collect());
    Arc::new(Script(Mutex::new(answers.iter().map(parse).collect())))
}

fn discovery_within(answers: &[&[&str]], limits: CallLimits) -> Discovery {
    let http = Arc::new(HttpClient::new("fluzo-test"));
    Discovery::new(http, resolver(answers), limits)
}

fn discovery(answers: &[&[&str]]) -> Discovery {
    discovery_within(answers, CallLimits::discovery())
}

fn endpoint(base_url: String) -> ModelServer {
    ModelServer {
        base_url,
        api: "openai-completions".into(),
        auth: RequestAuth {
            api_key: Some(Secret::new("sk-planted-key")),
            ..RequestAuth::default()
        },
    }
}

fn named(name: &str, server: SocketAddr) -> ModelServer {
    endpoint(format!("http://{name}:{}/v1", server.port()))
}

async fn both(discovery: &Discovery, endpoint: &ModelServer) -> Result<ModelList, DiscoveryError> {
    let shown = discovery.probe(endpoint).await?;
    discovery.list(endpoint, &shown).await
}

fn shown(list: &ModelList) -> String {
    let line = |model: &fluzo_providers::DiscoveredModel| match model.context {
        Some(context) => format!("{} {context}", model.id),
        None => model.id.clone(),
    };
    let lines: Vec<String> = list.models.iter().map(line).collect();
    lines.join("; ")
}

const ONE: &[u8] = br#"{"data":[{"id":"m1","context_length":4096}]}"#;

fn one_model() -> Raw {
    Raw::start(vec![Play::Bytes(response(200, "", ONE))])
}

#[tokio::test]
async fn a_probe_tells_where_an_endpoint_leads_and_connects_nowhere() {
    let listener = Listener::poisoned().unwrap();
    let port = listener.address().port();
    let rows = [
        (
            "http://127.0.0.1",
            &["9.9.9.9"],
            AddressClass::Loopback,
            false,
        ),
        ("http://[::1]", &["9.9.9.9"], AddressClass::Loopback, false),
        (
            "http://models.test",
            &["127.0.0.1"],
            AddressClass::Loopback,
            false,
        ),
        (
            "http://models.test",
            &["10.0.0.7"],
            AddressClass::Private,
            true,
        ),
        (
            "http://models.test",
            &["9.9.9.9"],
            AddressClass::Public,
            true,
        ),
        (
            "https://models.test",
            &["9.9.9.9"],
            AddressClass::Public,
            false,
        ),
    ];
    for (origin, answer, class, exposed) in rows {
        let probe = discovery(&[answer])
            .probe(&endpoint(format!("{origin}:{port}/v1")))
            .await;
        let probe = probe.unwrap();
        assert_eq!(probe.origin, format!("{origin}:{port}"));
        assert!(matches!(&probe.reach, Reach::Direct { class: told, .. } if *told == class));
        assert_eq!((probe.is_exposed(), probe.authorized), (exposed, true));
        assert!(!format!("{probe:?}").contains("planted"));
    }
    assert!(listener.finish().unwrap().is_empty());
}

#[tokio::test]
async fn what_leads_elsewhere_than_was_told_is_not_connected() {
    let listener = Listener::poisoned().unwrap();
    let rows: [(&[&[&str]], &str); 4] = [
        (
            &[&["10.0.0.7"], &["127.0.0.1"]],
            "private (10.0.0.7) and now is loopback (127.0.0.1)",
        ),
        (
            &[&["9.9.9.9"], &["127.0.0.1"]],
            "public (9.9.9.9) and now is loopback (127.0.0.1)",
        ),
        (
            &[&["127.0.0.1"], &["127.0.0.1", "10.0.0.7"]],
            "loopback (127.0.0.1) and now is private (127.0.0.1, 10.0.0.7)",
        ),
        (
            &[&["127.0.0.1"], &[]],
            "is unresolved: the name has no address",
        ),
    ];
    for (answers, text) in rows {
        let error = both(
            &discovery(answers),
            &named("models.test", listener.address()),
        )
        .await;
        let error = error.unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
    assert!(listener.finish().unwrap().is_empty());
}

#[tokio::test]
async fn a_name_that_leads_nowhere_is_unresolved() {
    let endpoint = endpoint("http://models.test/v1".to_owned());
    let error = discovery(&[&[]]).probe(&endpoint).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "`models.test` is unresolved: the name has no address"
    );
    let failing = Script(Mutex::new(vec![Err("no such name".into())]));
    let http = Arc::new(HttpClient::new("t"));
    let discovery = Discovery::new(http, Arc::new(failing), CallLimits::discovery());
    let error = discovery.probe(&endpoint).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "`models.test` is unresolved: no such name"
    );
}

#[tokio::test]
async fn the_server_hears_the_name_that_was_configured() {
    let server = one_model();
    for name in ["one.test", "two.test"] {
        let list = both(
            &discovery(&[&["127.0.0.1"]]),
            &named(name, server.address()),
        )
        .await;
        assert_eq!(shown(&list.unwrap()), "m1 4096");
    }
    let port = server.address().port();
    let seen = server.seen();
    assert!(
        seen[0].contains(&format!("\nhost: one.test:{port}\n")),
        "{seen:?}"
    );
    assert!(
        seen[1].contains(&format!("\nhost: two.test:{port}\n")),
        "{seen:?}"
    );
    assert!(seen[0].contains("\nauthorization: bearer sk-planted-key\n"));
    assert_eq!(seen.len(), 2);
}

#[tokio::test]
async fn a_secure_server_is_checked_by_the_name_that_was_configured() {
    let authority = Authority::new();
    let server = serve_tls(authority.server("models.test", &["http/1.1"]), |secure| {
        read_request(secure);
        let _ = secure.write_all(&response(200, "", ONE));
    });
    let http = Arc::new(HttpClient::with_config(HttpConfig {
        extra_roots: authority.roots(),
        ..HttpConfig::default()
    }));
    let discovery = Discovery::new(http, resolver(&[&["127.0.0.1"]]), CallLimits::discovery());
    let at = |name: &str| endpoint(format!("https://{name}:{}/v1", server.port()));
    let list = both(&discovery, &at("models.test")).await.unwrap();
    assert_eq!(shown(&list), "m1 4096");
    let error = both(&discovery, &at("other.test")).await.unwrap_err();
    assert!(error.to_string().contains("not valid for name"), "{error}");
}

#[tokio::test]
async fn a_server_that_stands_still_is_left() {
    let limits = CallLimits {
        total: Duration::from_millis(50),
        ..CallLimits::discovery()
    };
    for begun in ["", "HTTP/1.1 200 X\r\ncontent-length: 99\r\n\r\n{"] {
        let server = Raw::start(vec![Play::Hold(begun.into())]);
        let discovery = discovery_within(&[&["127.0.0.1"]], limits);
        let error = both(&discovery, &named("models.test", server.address())).await;
        let text = error.unwrap_err().to_string();
        assert!(
            text.contains("within 50 ms (setting `discovery.totalTimeoutMs`)"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    for status in [301, 302, 303, 307, 308] {
        let target = Listener::poisoned().unwrap();
        let location = format!("location: http://{}/planted\r\n", target.address());
        let server = Raw::start(vec![Play::Bytes(response(status, &location, b""))]);
        let error = both(
            &discovery(&[&["127.0.0.1"]]),
            &named("models.test", server.address()),
        )
        .await
        .unwrap_err();
        let DiscoveryError::Request(error) = error else {
            panic!("{error:?}")
        };
        assert_eq!(
            (error.kind, error.status),
            (StreamErrorKind::Redirect, Some(status))
        );
        assert!(!format!("{error:?}").contains("planted"), "{error:?}");
        assert_eq!(server.seen().len(), 1);
        assert!(target.finish().unwrap().is_empty());
    }
}

#[tokio::test]
async fn long_lists_are_cut_and_endless_ones_refused() {
    let list = |count: usize, id: &str| {
        let rows: Vec<_> = (0..count)
            .map(|n| serde_json::json!({"id": format!("{id}{n}"), "context_length": 1}))
            .collect();
        let body = serde_json::json!({"data": rows}).to_string();
        Raw::start(vec![Play::Bytes(response(200, "", body.as_bytes()))])
    };
    let discovery = discovery(&[&["127.0.0.1"]]);
    let server = list(2500, "m");
    let got = both(&discovery, &named("models.test", server.address()))
        .await
        .unwrap();
    assert_eq!((got.models.len(), got.truncated), (2000, true));
    let server = list(2000, "m");
    let got = both(&discovery, &named("models.test", server.address()))
        .await
        .unwrap();
    assert_eq!((got.models.len(), got.truncated), (2000, false));
    let server = list(20_000, &"x".repeat(60));
    let error = both(&discovery, &named("models.test", server.address()))
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the response is larger than 1048576 bytes"
    );
}

/// Name of a server, its pages, what is found there.
type Pages<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);

#[tokio::test]
async fn local_servers_are_asked_for_context_windows_and_nothing_is_ever_posted() {
    let pages: [Pages<'_>; 5] = [
        (
            "LM Studio",
            &[
                ("/v1/models", r#"{"data":[{"id":"a"},{"id":"b"}]}"#),
                (
                    "/api/v0/models",
                    r#"{"data":[{"id":"b","max_context_length":8}]}"#,
                ),
            ],
            "a; b 8",
        ),
        (
            "llama.cpp",
            &[
                ("/v1/models", r#"{"data":[{"id":"a"}]}"#),
                ("/props", r#"{"default_generation_settings":{"n_ctx":16}}"#),
            ],
            "a 16",
        ),
        (
            "Ollama",
            &[("/api/tags", r#"{"models":[{"name":"q:7b"}]}"#)],
            "q:7b",
        ),
        (
            "plain",
            &[("/v1/models", r#"{"data":[{"id":"<sk-planted-key>"}]}"#)],
            "<[redacted]>",
        ),
        ("nothing", &[], "answered 404 when asked for its models"),
    ];
    for (what, pages, expected) in pages {
        let server = Raw::answering(move |_, request| {
            let path = request.split(' ').nth(1).unwrap();
            let page = pages.iter().find(|(known, _)| *known == path);
            Play::Bytes(match page {
                Some((_, body)) => response(200, "", body.as_bytes()),
                None => response(404, "", b"planted"),
            })
        });
        let got = both(
            &discovery(&[&["127.0.0.1"]]),
            &named("models.test", server.address()),
        )
        .await;
        let got = got.map_or_else(|error| error.to_string(), |list| shown(&list));
        assert!(
            got.ends_with(expected) && !got.contains("planted"),
            "{what}: {got}"
        );
        let seen = server.seen();
        assert!(
            seen.iter().all(|request| request.starts_with("get ")),
            "{seen:?}"
        );
    }
}

#[tokio::test]
async fn answers_that_are_no_list_say_so() {
    let rows = [
        (200, "<html>planted</html>", "gave no list of models"),
        (401, "planted", "answered 401 when asked for its models"),
        (500, "planted", "answered 500 when asked for its models"),
    ];
    for (status, body, expected) in rows {
        let server = Raw::start(vec![Play::Bytes(response(status, "", body.as_bytes()))]);
        let endpoint = named("models.test", server.address());
        let error = both(&discovery(&[&["127.0.0.1"]]), &endpoint).await;
        let text = error.unwrap_err().to_string();
        assert!(
            text.ends_with(expected) && !text.contains("planted"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn behind_a_proxy_the_proxy_is_told_and_asked() {
    let proxy = one_model();
    let at = format!("http://planted:planted@{}", proxy.address());
    let http = Arc::new(HttpClient::with_config(HttpConfig {
        proxies: ProxyConfig::from_variables(|name| (name == "http_proxy").then(|| at.clone())),
        extra_roots: ExtraRoots::default(),
        user_agent: "t".into(),
    }));
    let discovery = Discovery::new(http, resolver(&[&[]]), CallLimits::discovery());
    let endpoint = endpoint("http://models.test/v1".to_owned());
    let shown: Probe = discovery.probe(&endpoint).await.unwrap();
    let told = format!("http://{}", proxy.address());
    assert_eq!(shown.reach, Reach::Proxy(told));
    assert!(shown.is_exposed());
    let list = discovery.list(&endpoint, &shown).await.unwrap();
    assert_eq!(list.models[0].id, "m1");
    assert!(proxy.seen()[0].starts_with("get http://models.test/v1/models http/1.1\n"));
}

#[tokio::test]
async fn what_no_proxy_names_is_asked_directly() {
    for (variable, names) in [
        ("NO_PROXY", "other.test,models.test"),
        ("no_proxy", ".test"),
    ] {
        let (proxy, server) = (one_model(), one_model());
        let at = format!("http://{}", proxy.address());
        let proxies = ProxyConfig::from_variables(|name| match name {
            "http_proxy" => Some(at.clone()),
            _ => (name == variable).then(|| names.to_owned()),
        });
        let http = Arc::new(HttpClient::with_config(HttpConfig {
            proxies,
            extra_roots: ExtraRoots::default(),
            user_agent: "t".into(),
        }));
        let discovery = Discovery::new(http, resolver(&[&["127.0.0.1"]]), CallLimits::discovery());
        let list = both(&discovery, &named("models.test", server.address())).await;
        assert_eq!(shown(&list.unwrap()), "m1 4096");
        assert!(server.seen()[0].starts_with("get /v1/models http/1.1\n"));
        assert!(proxy.seen().is_empty());
        // What it does not name goes through the proxy.
        let list = both(&discovery, &endpoint("http://models.example/v1".to_owned())).await;
        assert_eq!(list.unwrap().models[0].id, "m1");
        assert_eq!(proxy.seen().len(), 1);
    }
}
