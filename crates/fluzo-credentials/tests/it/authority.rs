//! An authorisation server on loopback: code with PKCE, device codes, rotation of refresh
//! tokens with reuse detection. Also compiled into the tests of the program.
#![allow(
    dead_code,
    reason = "each of the two programs of tests uses a part of it"
)]

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// The client id that the server knows.
pub const CLIENT: &str = "mine";

/// What goes wrong with the next request for tokens.
#[derive(Debug)]
pub enum Fault {
    /// This status and body, and nothing else happens.
    Answer(u16, String),
    /// The answer breaks off; nothing else happens.
    CutOff,
    /// No answer at all.
    Hangup,
    /// The first is told when the request is there; it goes on when the second is told or gone.
    Hold(Sender<()>, Receiver<()>),
    /// The tokens are replaced, and the answer is lost.
    Lost,
}

#[derive(Default)]
struct State {
    /// By code: challenge and redirect address.
    codes: HashMap<String, (String, String)>,
    refresh: Option<String>,
    spent: HashSet<String>,
    made: usize,
    renewals: usize,
    reuses: usize,
    faults: VecDeque<Fault>,
    /// What the device code's polls are answered with before there are tokens.
    polls: VecDeque<Value>,
    polled: usize,
    asked: Vec<String>,
}

/// The server; it runs until the test program ends.
#[derive(Clone)]
pub struct Authority {
    state: Arc<Mutex<State>>,
    base: String,
}

struct Asked {
    method: String,
    path: String,
    query: String,
    body: String,
}

impl Authority {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let authority = Self {
            state: Arc::default(),
            base: format!("http://{}", listener.local_addr().unwrap()),
        };
        let serving = authority.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (serving, stream) = (serving.clone(), stream.unwrap());
                std::thread::spawn(move || serving.serve(stream));
            }
        });
        authority
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// Makes `refresh` the one that is valid.
    pub fn grant(&self, refresh: &str) {
        self.state.lock().unwrap().refresh = Some(refresh.to_owned());
    }

    pub fn fail_next(&self, fault: Fault) {
        self.state.lock().unwrap().faults.push_back(fault);
    }

    pub fn answer_polls(&self, answers: impl IntoIterator<Item = Value>) {
        self.state.lock().unwrap().polls.extend(answers);
    }

    /// How often tokens were replaced.
    pub fn renewals(&self) -> usize {
        self.state.lock().unwrap().renewals
    }

    /// How often a refresh token came that had been replaced already.
    pub fn reuses(&self) -> usize {
        self.state.lock().unwrap().reuses
    }

    pub fn polled(&self) -> usize {
        self.state.lock().unwrap().polled
    }

    /// Method and path of every request.
    pub fn asked(&self) -> Vec<String> {
        self.state.lock().unwrap().asked.clone()
    }

    fn serve(&self, stream: TcpStream) {
        let Some(asked) = read(&stream) else { return };
        let line = format!("{} {}", asked.method, asked.path);
        let fault = {
            let mut state = self.state.lock().unwrap();
            state.asked.push(line.clone());
            (asked.path == "/token")
                .then(|| state.faults.pop_front())
                .flatten()
        };
        let mut lost = false;
        match fault {
            Some(Fault::Answer(status, body)) => {
                return write(&stream, status, "", &body, body.len());
            }
            Some(Fault::CutOff) => return write(&stream, 200, "", "{\"access_token\": \"a", 100),
            Some(Fault::Hangup) => return,
            Some(Fault::Hold(here, go)) => {
                // The test may have stopped listening to either.
                let _ = here.send(());
                let _ = go.recv();
            }
            Some(Fault::Lost) => lost = true,
            None => {}
        }
        let (status, head, body) = match line.as_str() {
            "GET /authorize" => self.authorize(&asked.query),
            "POST /token" => self.token(&asked.body),
            "POST /device" => self.device(&asked.body),
            _ => (404, String::new(), String::new()),
        };
        if !lost {
            write(&stream, status, &head, &body, body.len());
        }
    }

    fn authorize(&self, query: &str) -> (u16, String, String) {
        let query = fields(query);
        let value = |name: &str| query.get(name).cloned().unwrap_or_default();
        if value("response_type") != "code"
            || value("client_id") != CLIENT
            || value("code_challenge_method") != "S256"
            || value("state").len() < 16
        {
            return error("invalid_request");
        }
        let mut state = self.state.lock().unwrap();
        state.made += 1;
        let code = format!("code-{}", state.made);
        let redirect = value("redirect_uri");
        state
            .codes
            .insert(code.clone(), (value("code_challenge"), redirect.clone()));
        let to = format!("{redirect}?code={code}&state={}", value("state"));
        (302, format!("location: {to}\r\n"), String::new())
    }

    fn token(&self, body: &str) -> (u16, String, String) {
        let body = fields(body);
        let value = |name: &str| body.get(name).cloned().unwrap_or_default();
        if value("client_id") != CLIENT {
            return error("invalid_client");
        }
        let mut state = self.state.lock().unwrap();
        match value("grant_type").as_str() {
            "authorization_code" => {
                // A code is good for one attempt.
                let Some((challenge, redirect)) = state.codes.remove(&value("code")) else {
                    return error("invalid_grant");
                };
                let verifier = value("code_verifier");
                let digest = ring::digest::digest(&ring::digest::SHA256, verifier.as_bytes());
                if URL_SAFE_NO_PAD.encode(digest) != challenge || redirect != value("redirect_uri")
                {
                    return error("invalid_grant");
                }
                state.give()
            }
            "refresh_token" => {
                let token = value("refresh_token");
                if state.spent.contains(&token) {
                    state.reuses += 1;
                    state.refresh = None;
                    return error("invalid_grant");
                }
                if state.refresh.as_ref() != Some(&token) {
                    return error("invalid_grant");
                }
                state.spent.insert(token);
                state.renewals += 1;
                state.give()
            }
            "urn:ietf:params:oauth:grant-type:device_code" => {
                if value("device_code") != "dc-1" {
                    return error("invalid_grant");
                }
                state.polled += 1;
                match state.polls.pop_front() {
                    Some(answer) => (400, String::new(), answer.to_string()),
                    None => state.give(),
                }
            }
            _ => error("unsupported_grant_type"),
        }
    }

    fn device(&self, body: &str) -> (u16, String, String) {
        if fields(body).get("client_id").map(String::as_str) != Some(CLIENT) {
            return error("invalid_client");
        }
        let answer = json!({"device_code": "dc-1", "user_code": "WXYZ-1234",
            "verification_uri": self.url("/enter"), "interval": 5, "expires_in": 60});
        (200, String::new(), answer.to_string())
    }
}

impl State {
    fn give(&mut self) -> (u16, String, String) {
        self.made += 1;
        let refresh = format!("rt-{}", self.made);
        let answer = json!({"access_token": format!("at-{}", self.made), "token_type": "Bearer",
            "refresh_token": refresh, "expires_in": 3600});
        self.refresh = Some(refresh);
        (200, String::new(), answer.to_string())
    }
}

fn error(code: &str) -> (u16, String, String) {
    (400, String::new(), json!({"error": code}).to_string())
}

/// Decodes what the tests send: percent-encoded text.
fn fields(text: &str) -> HashMap<String, String> {
    let decode = |text: &str| {
        let mut parts = text.split('%');
        let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
        for part in parts {
            bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
            bytes.extend_from_slice(&part.as_bytes()[2..]);
        }
        String::from_utf8(bytes).unwrap()
    };
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, value)| (decode(name), decode(value)))
        .collect()
}

fn read(stream: &TcpStream) -> Option<Asked> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.split_once(':') else {
            break;
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    Some(Asked {
        method,
        path: path.to_owned(),
        query: query.to_owned(),
        body: String::from_utf8(body).ok()?,
    })
}

fn write(mut stream: &TcpStream, status: u16, head: &str, body: &str, length: usize) {
    let text = format!(
        "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{head}connection: close\r\n\r\n{body}"
    );
    // A client that was killed reads nothing.
    let _ = stream.write_all(text.as_bytes());
}

/// Sends a request over loopback and reads the whole answer: status, head and body.
pub fn ask(method: &str, url: &str, body: Option<&str>) -> Result<(u16, String, Vec<u8>), String> {
    let rest = url.strip_prefix("http://").ok_or("not http")?;
    let (host, path) = rest.split_once('/').ok_or("no path")?;
    let stream = TcpStream::connect(host).map_err(|error| error.to_string())?;
    let body = body.unwrap_or_default();
    let text = format!(
        "{method} /{path} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    (&stream)
        .write_all(text.as_bytes())
        .map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    (&stream)
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    let end = bytes
        .windows(4)
        .position(|part| part == b"\r\n\r\n")
        .ok_or("no answer")?;
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let body = bytes[end + 4..].to_vec();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    if length.and_then(|length| length.parse().ok()) != Some(body.len()) {
        return Err("the answer was cut off".into());
    }
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    Ok((status.ok_or("no status")?, head, body))
}
