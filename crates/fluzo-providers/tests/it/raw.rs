//! A loopback server that answers with bytes as they are given and writes down what it got.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

/// What to do with one request.
#[derive(Clone)]
pub enum Play {
    /// Send these bytes and close.
    Bytes(Vec<u8>),
    /// Send these bytes, then leave the connection open.
    Hold(Vec<u8>),
}

/// Requests as they came: head and body as text.
#[derive(Clone)]
pub struct Raw {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Raw {
    /// Answers the first request with the first of `plays`, and so on; later ones with the last.
    pub fn start(plays: Vec<Play>) -> Self {
        Self::answering(move |n, _| plays[n.min(plays.len() - 1)].clone())
    }

    /// Answers with what `play` makes of the number and the text of a request.
    pub fn answering(play: impl Fn(usize, &str) -> Play + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let raw = Self {
            address: listener.local_addr().unwrap(),
            seen: Arc::default(),
        };
        let seen = Arc::clone(&raw.seen);
        std::thread::spawn(move || {
            let mut held = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let request = read_request(&mut stream);
                let n = {
                    let mut seen = seen.lock().unwrap();
                    seen.push(request.clone());
                    seen.len() - 1
                };
                match play(n, &request) {
                    Play::Bytes(bytes) => drop(stream.write_all(&bytes)),
                    Play::Hold(bytes) => {
                        let _ = stream.write_all(&bytes);
                        held.push(stream);
                    }
                }
            }
        });
        raw
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

/// Head and body of a request.
pub fn read_request(stream: &mut (impl Read + ?Sized)) -> String {
    let mut reader = BufReader::new(stream);
    let mut text = String::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
            break;
        }
        text.push_str(&line.to_lowercase().replace("\r\n", "\n"));
    }
    let length = text
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |n| n.parse().unwrap())];
    let _ = reader.read_exact(&mut body);
    text + "\n" + &String::from_utf8_lossy(&body)
}

/// A response with a body.
pub fn response(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let mut bytes =
        format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n{headers}\r\n").into_bytes();
    bytes.extend_from_slice(body);
    bytes
}
