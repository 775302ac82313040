//! Secrets are planted wherever the program takes one, and everything fails that can: none of
//! them is in any output or session file.
//!
//! Every secret has the word `plant` in it. The servers here tell back all that they were sent.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::{Live, Stage};

/// User, password and query of an address, with characters that are written in another way there.
const USER_INFO: &str = "plant-user:plant%40password";
const QUERY: &str = "token=plant-query%2B1";
const PROXY_USER_INFO: &str = "plant-proxy:plant-proxy-password";

/// What a server makes of what it was sent.
type Answer = fn(&str) -> Vec<u8>;

/// A server that answers each connection once.
struct Echo {
    address: SocketAddr,
    seen: Arc<Mutex<String>>,
}

impl Echo {
    fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::<Mutex<String>>::default();
        let log = Arc::clone(&seen);
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let mut connection = connection.unwrap();
                let request = read(&mut connection);
                log.lock().unwrap().push_str(&request);
                // Whether the program still reads is not the question.
                let _ = connection.write_all(&answer(&request));
            }
        });
        Self { address, seen }
    }

    fn base_url(&self) -> String {
        format!("http://{USER_INFO}@{}/v1?{QUERY}", self.address)
    }

    /// The test shows something only when the secret was sent.
    #[track_caller]
    fn was_told(&self, secret: &str) {
        let seen = self.seen.lock().unwrap();
        assert!(seen.contains(secret), "{secret} in {seen}");
    }
}

/// A request, or whatever else was sent first.
fn read(stream: &mut TcpStream) -> String {
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut part).unwrap_or(0);
        bytes.extend_from_slice(&part[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let whole = text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
            let length = head.to_lowercase().lines().find_map(|line| {
                line.strip_prefix("content-length: ")
                    .and_then(|n| n.parse().ok())
            });
            body.len() >= length.unwrap_or(0)
        });
        // A client of TLS or SOCKS greets first and waits.
        if count == 0 || whole || matches!(bytes.first(), Some(4 | 5 | 22)) {
            return text;
        }
    }
}

fn response(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    )
    .into_bytes()
}

/// What the request holds besides the conversation, which is long and hides the rest.
fn told(request: &str) -> String {
    let (head, body) = request.split_once("\r\n\r\n").unwrap_or((request, ""));
    let form = if body.starts_with('{') { "" } else { body };
    format!("{head} {form}")
}

fn as_json(request: &str, status: &str) -> Vec<u8> {
    let error =
        json!({"error": {"message": told(request), "type": told(request), "code": told(request)}});
    response(
        status,
        "content-type: application/json\r\n",
        &error.to_string(),
    )
}

fn as_text(request: &str, status: &str) -> Vec<u8> {
    response(status, "content-type: text/plain\r\n", &told(request))
}

fn as_events(data: &str, whole: bool) -> Vec<u8> {
    let end = if whole { "data: [DONE]\n\n" } else { "" };
    let mut bytes = response(
        "200 OK",
        "content-type: text/event-stream\r\n",
        &format!("data: {data}\n\n{end}"),
    );
    if !whole {
        bytes.truncate(bytes.len() - 1);
    }
    bytes
}

const ANSWERS: &[(&str, Answer)] = &[
    ("401 as JSON", |r| as_json(r, "401 Unauthorized")),
    ("400 as text", |r| as_text(r, "400 Bad Request")),
    ("403 as text", |r| as_text(r, "403 Forbidden")),
    ("404 as JSON", |r| as_json(r, "404 Not Found")),
    ("429 as JSON", |r| as_json(r, "429 Too Many Requests")),
    ("500 as text", |r| as_text(r, "500 Internal Server Error")),
    ("503 as JSON", |r| as_json(r, "503 Service Unavailable")),
    ("407 as text", |r| {
        as_text(r, "407 Proxy Authentication Required")
    }),
    ("200 as text", |r| as_text(r, "200 OK")),
    ("200 as JSON", |r| as_json(r, "200 OK")),
    ("an error as event", |r| {
        as_events(
            &json!({"error": {"message": told(r)}, "type": "error"}).to_string(),
            true,
        )
    }),
    ("events cut", |r| {
        as_events(
            &json!({"error": 1, "id": told(r), "model": told(r)}).to_string(),
            false,
        )
    }),
    ("no JSON in an event", |r| {
        as_events(&told(r).replace(['\r', '\n'], " "), true)
    }),
    ("a redirect", |_| {
        let to = "location: http://plant-user:plant@127.0.0.1:9/plant/path?plant=plant#plant\r\n";
        response("307 Temporary Redirect", to, "plant")
    }),
    ("a redirect to nowhere", |_| {
        response("302 Found", "location: plant://plant@:plant\r\n", "plant")
    }),
    ("no HTTP", |r| told(r).into_bytes()),
    ("nothing", |_| Vec::new()),
];

/// A provider with a secret in each place.
fn provider(base_url: &str, api: &str) -> Value {
    json!({
        "baseUrl": base_url, "api": api, "apiKey": "sk-plant-key",
        "headers": {"x-extra": "Token plant-header"},
        "models": [{"id": "m1", "headers": {"x-model": "plant-model-header"}}],
    })
}

fn stage(provider: &Value) -> Stage {
    let stage = Stage::new();
    stage.settings(&json!({"retry": {"enabled": false}}));
    stage.models(&json!({"providers": {"fake": provider}}));
    stage
}

/// Neither `text` nor a session file holds a secret, as it is or as a header holds it.
#[track_caller]
fn clean(stage: &Stage, text: &str, what: &str) {
    let basic = |pair: &str| STANDARD.encode(pair.replace("%40", "@"));
    let coded = [basic(USER_INFO), basic(PROXY_USER_INFO)];
    let files = stage.sessions().into_iter();
    let files = files.map(|path| std::fs::read_to_string(path).unwrap());
    for text in files.chain([text.to_owned()]) {
        let lower = text.to_lowercase();
        let at = lower
            .find("plant")
            .or_else(|| coded.iter().find_map(|c| text.find(c)));
        let around = at.map(|at| text.get(at.saturating_sub(80)..).unwrap_or(&text));
        assert!(around.is_none(), "{what}: {around:?}\n{text}");
    }
}

/// Runs the program to a failure.
#[track_caller]
fn fails(stage: &Stage, arguments: &[&str], what: &str) -> String {
    let ran = stage.pi(arguments);
    let text = format!("{}{}", ran.out(), ran.err());
    assert_eq!(ran.code(), 1, "{what}: {text}");
    clean(stage, &text, what);
    text
}

#[test]
fn of_a_server_that_tells_all_back() {
    for api in [
        "openai-completions",
        "anthropic-messages",
        "openai-responses",
        "google-generative-ai",
    ] {
        for (what, answer) in ANSWERS {
            let what = format!("{api}, {what}");
            let server = Echo::start(*answer);
            let stage = stage(&provider(&server.base_url(), api));
            fails(&stage, &["-p", "go"], &what);
            if api == "openai-completions" {
                fails(&stage, &["--mode", "json", "go"], &what);
            }
            for secret in ["sk-plant-key", "plant-header", "plant-model-header", QUERY] {
                server.was_told(secret);
            }
        }
    }
}

#[test]
fn in_rpc() {
    for (what, answer) in ANSWERS {
        let server = Echo::start(*answer);
        let stage = stage(&provider(&server.base_url(), "openai-completions"));
        let mut live = Live::start(stage.command(&["pi", "--mode", "rpc"]), Stdio::piped());
        live.command(&json!({"type": "prompt", "message": "go"}));
        let mut lines = live.until(|line| line["type"] == "agent_end");
        for command in ["get_messages", "get_state"] {
            live.command(&json!({"type": command}));
            lines.push(live.answer(command));
        }
        let (_, rest, err) = live.end();
        lines.extend(rest);
        clean(&stage, &format!("{}{err}", Value::from(lines)), what);
        server.was_told("sk-plant-key");
    }
}

#[test]
fn of_a_proxy_that_tells_all_back() {
    for (what, answer) in ANSWERS {
        for (scheme, variable) in [("http", "http_proxy"), ("https", "https_proxy")] {
            let what = format!("{what}, {scheme}");
            let server = Echo::start(*answer);
            let base = format!("{scheme}://{USER_INFO}@models.test/v1?{QUERY}");
            let proxy = format!("http://{PROXY_USER_INFO}@{}/plant", server.address);
            let stage = stage(&provider(&base, "openai-completions")).set(variable, &proxy);
            fails(&stage, &["-p", "go"], &what);
            server.was_told(&STANDARD.encode(PROXY_USER_INFO));
            fails(&stage, &["discover", "fake", "--accept-cleartext"], &what);
        }
    }
}

#[test]
fn of_servers_that_cannot_be_reached() {
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let plain = Echo::start(|r| as_text(r, "400 Bad Request"));
    let rest = format!("/v1?{QUERY}");
    let (to_closed, to_plain) = (
        format!("{closed}{rest}"),
        format!("{}{rest}", plain.address),
    );
    let rows = [
        format!("http://{USER_INFO}@{to_closed}"),
        format!("https://{USER_INFO}@{to_closed}"),
        format!("https://{USER_INFO}@{to_plain}"),
        format!("ftp://{USER_INFO}@{to_plain}"),
        format!("ht!tp://{USER_INFO}@{to_plain}"),
        format!("http://{USER_INFO}@[{to_plain}"),
        format!("{USER_INFO}@{to_plain}"),
    ];
    for base in rows {
        let stage = stage(&provider(&base, "openai-completions"));
        fails(&stage, &["-p", "go"], &base);
        fails(&stage, &["discover", "fake"], &base);
        fails(&stage, &["discover", &base], &base);
    }
    let proxies = [
        format!("http://{PROXY_USER_INFO}@{closed}/plant"),
        format!("https://{PROXY_USER_INFO}@{}", plain.address),
        format!("socks5h://{PROXY_USER_INFO}@{closed}"),
        format!("socks5h://{PROXY_USER_INFO}@{}", plain.address),
        format!("socks4a://{PROXY_USER_INFO}@{}", plain.address),
        format!("plant://{PROXY_USER_INFO}@{closed}"),
        format!("http://{PROXY_USER_INFO}@[plant"),
    ];
    for proxy in proxies {
        for scheme in ["http", "https"] {
            let base = format!("{scheme}://{USER_INFO}@models.test/v1?{QUERY}");
            let stage = stage(&provider(&base, "openai-completions")).set("ALL_PROXY", &proxy);
            fails(&stage, &["-p", "go"], &proxy);
            fails(&stage, &["discover", "fake", "--accept-cleartext"], &proxy);
        }
    }
}

#[test]
fn in_discovery() {
    for (what, answer) in ANSWERS {
        let server = Echo::start(*answer);
        let stage = stage(&provider(&server.base_url(), "openai-completions"));
        fails(&stage, &["discover", "fake"], what);
        server.was_told("sk-plant-key");
        fails(&stage, &["discover", &server.base_url()], what);
        server.was_told(QUERY);
    }
}

/// Stores an answer of its own where one is called for.
#[test]
fn in_renewals_of_sign_ins() {
    let answers: &[(&str, Answer)] = &[
        ("a grant that is refused", |r| {
            let body = json!({"error": "invalid_grant", "error_description": told(r)});
            response(
                "400 Bad Request",
                "content-type: application/json\r\n",
                &body.to_string(),
            )
        }),
        ("a word of the server's own", |r| {
            let body = json!({"error": told(r), "error_uri": "http://plant"});
            response(
                "401 Unauthorized",
                "content-type: application/json\r\n",
                &body.to_string(),
            )
        }),
        ("tokens of another kind", |_| {
            let body = json!({"access_token": ["plant-new"], "refresh_token": "plant-newer"});
            response(
                "200 OK",
                "content-type: application/json\r\n",
                &body.to_string(),
            )
        }),
        ("half an answer", |_| {
            response(
                "200 OK",
                "",
                "{\"access_token\": \"plant-new\", \"refresh_to",
            )
        }),
    ];
    for (what, answer) in answers.iter().chain(ANSWERS) {
        let server = Echo::start(*answer);
        let stage = stage(&provider("http://127.0.0.1:9/v1", "openai-completions"));
        let token_url = format!("http://{}/token?{QUERY}", server.address);
        let stored = json!({"fake": {"type": "oauth", "access": "plant-access",
            "refresh": "plant-refresh", "expires": 1, "clientId": "plant-client",
            "clientSecret": "plant-client-secret", "tokenUrl": token_url}});
        private(&stage, "agent/auth.json", &stored.to_string());
        fails(&stage, &["-p", "go"], what);
        server.was_told("plant-refresh");
        fails(&stage, &["--mode", "json", "go"], what);
    }
}

fn private(stage: &Stage, name: &str, text: &str) -> String {
    let path = stage.write(name, text);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path.display().to_string()
}

#[test]
fn of_files_and_values_that_cannot_be_used() {
    let base = "http://127.0.0.1:9/v1";
    // Whatever becomes of the run, nothing is shown.
    let any = |stage: &Stage, arguments: &[&str], what: &str| {
        let ran = stage.pi(arguments);
        clean(stage, &format!("{}{}", ran.out(), ran.err()), what);
    };
    let auth_files = [
        r#"{"fake": {"type": "api_key", "key": plant}}"#,
        r#"{"fake": {"type": "api_key", "key": ["plant"]}}"#,
        r#"{"fake": {"type": "plant", "key": "plant"}}"#,
        r#"{"fake": "plant"}"#,
        r#"["plant"]"#,
        r#"{"fake": {"type": "oauth", "access": "plant", "refresh": 5}}"#,
        r#"{"fake": {"type": "api_key", "key": "pl\u0000ant\nplant"}}"#,
        r#"{"fake": {"type": "api_key", "key": "plant\nplant"}}"#,
    ];
    for text in auth_files {
        let stage = stage(&provider(base, "openai-completions"));
        private(&stage, "agent/auth.json", text);
        any(&stage, &["-p", "go"], text);
    }
    for text in ["plant", "A='plant", "1A=plant", "A='x' plant"] {
        let stage = stage(&provider(base, "openai-completions"));
        let path = stage.write("keys", text).display().to_string();
        fails(&stage, &["--env-file", &path, "-p", "go"], text);
    }
    let values = [
        ("apiKey", json!("plant\nplant")),
        ("apiKey", json!(["plant"])),
        ("headers", json!({"x": "plant\nplant"})),
        ("headers", json!({"x": ["plant"]})),
        ("headers", json!("plant")),
        ("baseUrl", json!(["plant"])),
        ("compat", json!("plant")),
    ];
    for (field, value) in values {
        let mut provider = provider(base, "openai-completions");
        provider[field] = value;
        any(&stage(&provider), &["-p", "go"], &provider.to_string());
    }
    let stage = stage(&provider(base, "openai-completions"));
    fails(
        &stage,
        &["--api-key", "plant\nplant", "-p", "go"],
        "--api-key",
    );
    stage.write(
        "agent/models.json",
        r#"{"providers": {"fake": {"apiKey": plant}}}"#,
    );
    fails(&stage, &["-p", "go"], "models.json");
}
