//! A raw HTTP client that hides nothing: what it gets is what was on the wire.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use fluzo_sim::{
    Endpoint, Model, ModelCapabilities, Scenario, Simulator, ViolationKind, check_request,
};
use serde_json::{Value, json};

/// Long enough to mean "broken", never waited for in a test that passes.
pub const LIMIT: Duration = Duration::from_secs(60);

pub struct Client {
    pub stream: BufReader<TcpStream>,
}

#[derive(Debug, Default)]
pub struct Response {
    pub status: u16,
    pub head: String,
    /// The body, transfer coding removed.
    pub body: Vec<u8>,
    /// Chunks as they were framed; one for all without chunked coding.
    pub chunks: Vec<Vec<u8>>,
    /// Whether the body ended as HTTP promised.
    pub complete: bool,
}

impl Response {
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The data payloads of an event stream with plain line ends.
    pub fn events(&self) -> Vec<String> {
        let text = self.text();
        text.split("\n\n")
            .filter_map(|event| event.strip_prefix("data: "))
            .map(str::to_owned)
            .collect()
    }

    /// The events of a stream that names them; each name is the payload's `type`.
    pub fn named_events(&self) -> Vec<Value> {
        let event = |text: &str| {
            let (name, data) = text.strip_prefix("event: ")?.split_once("\ndata: ")?;
            let value: Value = serde_json::from_str(data).unwrap();
            assert_eq!(value["type"], name, "{text}");
            Some(value)
        };
        let text = self.text();
        let events = text.split("\n\n").filter(|event| !event.is_empty());
        events.map(|text| event(text).expect(text)).collect()
    }

    /// The payloads as JSON, `[DONE]` left out.
    pub fn chunks_json(&self) -> Vec<Value> {
        self.events()
            .iter()
            .filter(|event| *event != "[DONE]")
            .map(|event| serde_json::from_str(event).unwrap())
            .collect()
    }
}

impl Client {
    pub fn new(simulator: &Simulator) -> Self {
        let stream = TcpStream::connect(simulator.address()).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        Self {
            stream: BufReader::new(stream),
        }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    pub fn post(&mut self, body: &Value) -> Response {
        self.send(&post_bytes(&body.to_string()));
        self.response()
    }

    pub fn post_to(&mut self, path: &str, headers: &[(&str, &str)], body: &Value) -> Response {
        let (body, length) = (body.to_string(), body.to_string().len());
        let headers: String = headers
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        self.send(format!("POST {path} HTTP/1.1\r\nhost: sim\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{headers}\r\n{body}").as_bytes());
        self.response()
    }

    pub fn get(&mut self, path: &str) -> Response {
        self.send(format!("GET {path} HTTP/1.1\r\nhost: sim\r\n\r\n").as_bytes());
        self.response()
    }

    /// Reads up to and including `text`, byte by byte.
    pub fn read_until(&mut self, text: &str) -> Vec<u8> {
        let mut seen = Vec::new();
        while !seen.ends_with(text.as_bytes()) {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).unwrap();
            seen.push(byte[0]);
            assert!(seen.len() < 1_000_000, "`{text}` does not come");
        }
        seen
    }

    pub fn response(&mut self) -> Response {
        let mut response = Response::default();
        loop {
            let line = self.line().expect("a response head");
            if line.is_empty() {
                break;
            }
            response.head.push_str(&line.to_ascii_lowercase());
            response.head.push('\n');
        }
        response.status = response.head.split(' ').nth(1).unwrap().parse().unwrap();
        let header = |name: &str| {
            response
                .head
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .map(str::to_owned)
        };
        if header("transfer-encoding: ").is_some() {
            response.complete = self.chunked(&mut response.chunks);
            response.body = response.chunks.concat();
        } else if let Some(length) = header("content-length: ") {
            let length: u64 = length.parse().unwrap();
            self.stream
                .by_ref()
                .take(length)
                .read_to_end(&mut response.body)
                .unwrap();
            response.complete = response.body.len() as u64 == length;
        } else {
            self.stream.read_to_end(&mut response.body).unwrap();
            response.complete = true;
        }
        response
    }

    /// Whether the server has closed the connection.
    pub fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).unwrap();
        rest.is_empty()
    }

    fn chunked(&mut self, chunks: &mut Vec<Vec<u8>>) -> bool {
        loop {
            let Some(line) = self.line() else {
                return false;
            };
            let size = usize::from_str_radix(&line, 16).unwrap();
            let mut chunk = vec![0; size + 2];
            if self.stream.read_exact(&mut chunk).is_err() {
                return false;
            }
            assert!(chunk.ends_with(b"\r\n"));
            chunk.truncate(size);
            if size == 0 {
                return true;
            }
            chunks.push(chunk);
        }
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.strip_suffix("\r\n").map(str::to_owned)
    }
}

/// The rules that a request breaks, found without a server.
pub fn broken(endpoint: Endpoint, body: &Value, model: &Model) -> Vec<ViolationKind> {
    let capabilities = ModelCapabilities {
        id: model.id.clone(),
        images: model.images,
        reasoning: model.reasoning,
        ..ModelCapabilities::default()
    };
    check_request(endpoint, body, &capabilities)
        .into_iter()
        .map(|violation| violation.kind)
        .collect()
}

/// A model that takes everything.
pub fn able_model() -> Model {
    Model {
        id: "m".to_owned(),
        images: true,
        reasoning: true,
        ..Model::default()
    }
}

pub fn post_bytes(body: &str) -> Vec<u8> {
    let length = body.len();
    format!("POST /v1/chat/completions HTTP/1.1\r\nHost: sim\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
        .into_bytes()
}

pub fn start(scenario: Scenario) -> Simulator {
    Simulator::start(scenario).unwrap()
}

/// A scenario with the model `m` that has no images.
pub fn scenario() -> Scenario {
    Scenario::new("test").model("m")
}

pub fn ask(text: &str) -> Value {
    request(json!([{"role": "user", "content": text}]))
}

pub fn request(messages: Value) -> Value {
    json!({
        "model": "m",
        "messages": messages,
        "stream": true,
        "stream_options": {"include_usage": true},
        "tools": [tool("read"), tool("bash")],
    })
}

pub fn tool(name: &str) -> Value {
    json!({"type": "function", "function": {"name": name, "description": "d", "parameters": {"type": "object", "properties": {}}}})
}

pub fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

pub fn plain(mut request: Value) -> Value {
    let fields = request.as_object_mut().unwrap();
    fields.shift_remove("stream");
    fields.shift_remove("stream_options");
    request
}
