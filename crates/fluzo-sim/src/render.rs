//! From a reply to the parts of its body.

use serde_json::Value;

use crate::delivery::LineEnd;
use crate::dialect;
use crate::quirk::Quirk;
use crate::reply::{Body, Pieces, Reply};
use crate::scenario::Endpoint;

/// What a reply depends on besides its script.
pub(crate) struct Asked<'a> {
    /// The endpoint, which decides the dialect.
    pub endpoint: Endpoint,
    /// Number of the request; makes ids.
    pub index: usize,
    /// The model to name.
    pub model: &'a str,
    /// Whether that model thinks.
    pub reasoning: bool,
    /// Whether an event stream was asked for.
    pub stream: bool,
    /// The request.
    pub body: &'a Value,
    /// Habits of the server.
    pub quirks: &'a [Quirk],
}

/// A body before it is cut into writes.
pub(crate) struct Content {
    pub content_type: String,
    /// The body in its natural parts: one for each event of a stream, else one.
    pub parts: Vec<Vec<u8>>,
    /// Whether it is an event stream.
    pub stream: bool,
    /// Filler bytes after the parts.
    pub endless: u64,
}

/// Makes the body of a reply.
pub(crate) fn content(reply: &Reply, asked: &Asked<'_>) -> Content {
    let mut content = match &reply.body {
        Body::Completion(completion) if asked.stream => {
            stream(dialect::payloads(completion, asked), reply, asked)
        }
        Body::Completion(completion) => whole(
            "application/json",
            dialect::object(completion, asked).to_string(),
        ),
        Body::Json(value) => whole("application/json", value.to_string()),
        Body::Events(events) => stream(events.clone(), reply, asked),
        Body::Raw { content_type, text } => whole(content_type, text.clone()),
        Body::EndlessLine { bytes } => Content {
            endless: *bytes,
            stream: true,
            ..whole("text/event-stream", "data: ".to_owned())
        },
    };
    if reply.delivery.bom {
        match content.parts.first_mut() {
            Some(first) => drop(first.splice(0..0, *b"\xef\xbb\xbf")),
            None => content.parts.push(b"\xef\xbb\xbf".to_vec()),
        }
    }
    content
}

fn whole(content_type: &str, text: String) -> Content {
    Content {
        content_type: content_type.to_owned(),
        parts: vec![text.into_bytes()],
        stream: false,
        endless: 0,
    }
}

fn stream(payloads: Vec<String>, reply: &Reply, asked: &Asked<'_>) -> Content {
    let delivery = &reply.delivery;
    let end = match delivery.line_end {
        LineEnd::Lf => "\n",
        LineEnd::CrLf => "\r\n",
        LineEnd::Cr => "\r",
    };
    let event = |payload: String| {
        let mut text: String = delivery
            .comments
            .iter()
            .map(|comment| format!(":{comment}{end}{end}"))
            .collect();
        if let Some(name) = event_name(&payload, asked.endpoint) {
            text.extend(["event: ", &name, end]);
        }
        payload
            .split('\n')
            .for_each(|line| text.extend(["data: ", line, end]));
        text.push_str(end);
        text.into_bytes()
    };
    let parts = payloads.into_iter().map(event).collect();
    Content {
        content_type: "text/event-stream; charset=utf-8".to_owned(),
        parts,
        stream: true,
        endless: 0,
    }
}

/// The `type` of a payload where the dialect names its events.
fn event_name(payload: &str, endpoint: Endpoint) -> Option<String> {
    let named = dialect::names_events(endpoint);
    let value = serde_json::from_str::<Value>(payload)
        .ok()
        .filter(|_| named)?;
    value.get("type")?.as_str().map(str::to_owned)
}

/// Text cut into deltas.
pub(crate) fn pieces(text: &str, how: Pieces) -> Vec<String> {
    match how {
        Pieces::Whole => vec![text.to_owned()],
        Pieces::Chars(size) => {
            let chars: Vec<char> = text.chars().collect();
            chars
                .chunks(size.max(1))
                .map(|piece| piece.iter().collect())
                .collect()
        }
    }
}

/// Argument text cut into deltas, at least one.
pub(crate) fn fragments(text: &str, bytes: Option<usize>) -> Vec<String> {
    let mut out = Vec::new();
    let mut rest = text;
    if let Some(size) = bytes {
        while rest.len() > size.max(1) {
            let at = (size.max(1)..rest.len())
                .find(|at| rest.is_char_boundary(*at))
                .unwrap_or(rest.len());
            let (head, tail) = rest.split_at(at);
            out.push(head.to_owned());
            rest = tail;
        }
    }
    if !rest.is_empty() || out.is_empty() {
        out.push(rest.to_owned());
    }
    out
}
