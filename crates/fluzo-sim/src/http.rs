//! The server's half of HTTP/1.1, as strict as the standard lets it be.

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::verdict::{Violation, ViolationKind};

const MAX_HEAD: usize = 64 * 1024;
const MAX_BODY: usize = 256 * 1024 * 1024;

/// A request as it came off the wire.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Incoming {
    pub method: String,
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub raw: Vec<u8>,
}

impl Incoming {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.raw).unwrap_or(Value::Null)
    }

    /// Whether the client wants the connection closed after the answer.
    pub(crate) fn wants_close(&self) -> bool {
        self.header("connection")
            .is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

/// Why no request could be read.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The bytes are no proper request; what could be read of it is included.
    Bad(Violation, Option<Box<Incoming>>),
    /// The connection failed outside of any request.
    Lost,
}

/// One client connection and the bytes of it that were read but not used.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Wire {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            buffer: Vec::new(),
        }
    }

    /// Reads the next request; `None` when the client closed the connection between requests.
    pub(crate) async fn next(&mut self) -> Result<Option<Incoming>, ReadError> {
        let Some(head) = self.head().await? else {
            return Ok(None);
        };
        let mut request = parse_head(&head).map_err(|violation| ReadError::Bad(violation, None))?;
        let framing = framing(&request)
            .map_err(|violation| ReadError::Bad(violation, Some(Box::new(request.clone()))))?;
        if request
            .header("expect")
            .is_some_and(|value| value.eq_ignore_ascii_case("100-continue"))
        {
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                .await
                .map_err(|_| ReadError::Lost)?;
        }
        let read = match framing {
            Framing::None => Ok(Vec::new()),
            Framing::Length(length) => self.exactly(length).await,
            Framing::Chunked => self.chunks().await,
        };
        match read {
            Ok(raw) => request.raw = raw,
            Err(what) => {
                request.raw = std::mem::take(&mut self.buffer);
                return Err(ReadError::Bad(
                    Violation::new(ViolationKind::BodyFraming, what),
                    Some(Box::new(request)),
                ));
            }
        }
        Ok(Some(request))
    }

    /// Sends bytes at once.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await
    }

    /// Waits until the client closes the connection; what it sends meanwhile is kept for the next request.
    pub(crate) async fn gone(&mut self) {
        while self.buffer.len() <= MAX_HEAD {
            if !self.fill().await {
                return;
            }
        }
        std::future::pending().await
    }

    /// Closes our side, then takes in what the client still sends, so that our last bytes are not lost to a reset.
    pub(crate) async fn linger(mut self) {
        if self.stream.shutdown().await.is_ok() {
            while self.fill().await {
                self.buffer.clear();
            }
        }
    }

    /// Reads more; false at the end or when the connection failed.
    async fn fill(&mut self) -> bool {
        matches!(self.stream.read_buf(&mut self.buffer).await, Ok(read) if read > 0)
    }

    async fn head(&mut self) -> Result<Option<Vec<u8>>, ReadError> {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                let rest = self.buffer.split_off(end + 4);
                return Ok(Some(std::mem::replace(&mut self.buffer, rest)));
            }
            let bad = |what| {
                Err(ReadError::Bad(
                    Violation::new(ViolationKind::MalformedHttp, what),
                    None,
                ))
            };
            if self.buffer.len() > MAX_HEAD {
                return bad("the request head is longer than 64 KiB");
            }
            if !self.fill().await {
                return if self.buffer.is_empty() {
                    Ok(None)
                } else {
                    bad("the connection ended in the middle of a request head")
                };
            }
        }
    }

    async fn exactly(&mut self, length: usize) -> Result<Vec<u8>, String> {
        while self.buffer.len() < length {
            if !self.fill().await {
                return Err(format!(
                    "`content-length` is {length}, but only {} bytes came",
                    self.buffer.len()
                ));
            }
        }
        let rest = self.buffer.split_off(length);
        Ok(std::mem::replace(&mut self.buffer, rest))
    }

    async fn chunks(&mut self) -> Result<Vec<u8>, String> {
        let mut body = Vec::new();
        loop {
            let line = self.line().await?;
            let digits = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(digits, 16)
                .map_err(|_| format!("`{digits}` is no chunk size"))?;
            if body.len().saturating_add(size) > MAX_BODY {
                return Err("the body is longer than 256 MiB".to_owned());
            }
            if size == 0 {
                while !self.line().await?.is_empty() {}
                return Ok(body);
            }
            body.extend(self.exactly(size).await?);
            if !self.line().await?.is_empty() {
                return Err("a chunk is longer than its size".to_owned());
            }
        }
    }

    async fn line(&mut self) -> Result<String, String> {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n") {
                let rest = self.buffer.split_off(end + 2);
                let mut line = std::mem::replace(&mut self.buffer, rest);
                line.truncate(end);
                return String::from_utf8(line)
                    .map_err(|_| "a chunk header is not text".to_owned());
            }
            if self.buffer.len() > MAX_HEAD || !self.fill().await {
                return Err("the chunked body has no end".to_owned());
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Framing {
    None,
    Length(usize),
    Chunked,
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}

fn parse_head(head: &[u8]) -> Result<Incoming, Violation> {
    let bad = |what: String| Violation::new(ViolationKind::MalformedHttp, what);
    let text =
        std::str::from_utf8(head).map_err(|_| bad("the request head is not UTF-8".to_owned()))?;
    let mut lines = text.trim_end_matches("\r\n").split("\r\n");
    let first = lines.next().unwrap_or_default();
    let mut words = first.split(' ');
    let (method, path, version) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
        words.next(),
    );
    let token = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase());
    if !token || !path.starts_with('/') || version != Some("HTTP/1.1") || words.next().is_some() {
        return Err(bad(format!(
            "`{}` is no HTTP/1.1 request line",
            first.escape_debug()
        )));
    }
    let mut headers = Vec::new();
    for line in lines {
        let (name, value) = line.split_once(':').unwrap_or_default();
        if name.is_empty() || line.contains('\n') || name.contains(char::is_whitespace) {
            return Err(bad(format!("`{}` is no header field", line.escape_debug())));
        }
        headers.push((
            name.to_ascii_lowercase(),
            value.trim_matches([' ', '\t']).to_owned(),
        ));
    }
    let request = Incoming {
        method: method.to_owned(),
        path: path.to_owned(),
        headers,
        raw: Vec::new(),
    };
    match request
        .headers
        .iter()
        .filter(|(name, _)| name == "host")
        .count()
    {
        1 => Ok(request),
        count => Err(bad(format!("{count} `host` header fields instead of one"))),
    }
}

fn framing(request: &Incoming) -> Result<Framing, Violation> {
    let bad = |what: String| Err(Violation::new(ViolationKind::BodyFraming, what));
    let all = |name: &str| {
        request
            .headers
            .iter()
            .filter(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
            .collect::<Vec<_>>()
    };
    match (
        all("content-length").as_slice(),
        all("transfer-encoding").as_slice(),
    ) {
        ([], []) if request.method == "POST" => {
            bad("neither `content-length` nor `transfer-encoding`".to_owned())
        }
        ([], []) => Ok(Framing::None),
        ([length], []) => match length.parse::<usize>() {
            Ok(number) if number <= MAX_BODY && !length.starts_with('+') => {
                Ok(Framing::Length(number))
            }
            _ => bad(format!("`content-length` is `{length}`")),
        },
        ([], [coding]) if coding.eq_ignore_ascii_case("chunked") => Ok(Framing::Chunked),
        ([], [coding]) => bad(format!(
            "`transfer-encoding` is `{coding}`, only chunked is known"
        )),
        ([_, ..], [_, ..]) => bad("both `content-length` and `transfer-encoding`".to_owned()),
        _ => bad("a repeated `content-length` or `transfer-encoding`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: &str, expected: Result<Framing, ViolationKind>) {
        let found = parse_head(head.as_bytes())
            .and_then(|request| framing(&request))
            .map_err(|violation| violation.kind);
        assert_eq!(found, expected, "{head:?}");
    }

    #[test]
    fn heads_and_framing() {
        use ViolationKind::{BodyFraming, MalformedHttp};
        let post = |rest: &str| format!("POST /v1/x HTTP/1.1\r\nHost: a\r\n{rest}\r\n");
        check(
            "GET /v1/models HTTP/1.1\r\nhost: a\r\n\r\n",
            Ok(Framing::None),
        );
        check(&post("Content-Length: 5\r\n"), Ok(Framing::Length(5)));
        check(
            &post("Transfer-Encoding: chunked\r\n"),
            Ok(Framing::Chunked),
        );
        check(&post(""), Err(BodyFraming));
        check(&post("content-length: -1\r\n"), Err(BodyFraming));
        check(
            &post("content-length: 5\r\ncontent-length: 5\r\n"),
            Err(BodyFraming),
        );
        check(
            &post("content-length: 5\r\ntransfer-encoding: chunked\r\n"),
            Err(BodyFraming),
        );
        check(&post("transfer-encoding: gzip\r\n"), Err(BodyFraming));
        check(
            "POST /v1/x HTTP/1.1\r\ncontent-length: 5\r\n\r\n",
            Err(MalformedHttp),
        );
        check("POST /v1/x HTTP/1.0\r\nhost: a\r\n\r\n", Err(MalformedHttp));
        check(
            "POST  /v1/x HTTP/1.1\r\nhost: a\r\n\r\n",
            Err(MalformedHttp),
        );
        check(
            "GET /v1/x HTTP/1.1\r\nhost: a\r\nbad line\r\n\r\n",
            Err(MalformedHttp),
        );
        check("GET /v1/x HTTP/1.1\r\nhost : a\r\n\r\n", Err(MalformedHttp));
        check(
            "GET /v1/x HTTP/1.1\r\nhost: a\nx: y\r\n\r\n",
            Err(MalformedHttp),
        );
    }
}
