//! From a body to the exact writes, holds and closings that the client sees.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::delivery::{Delivery, Point, Transfer, Writes};
use crate::dialect::{error_body, request_id_header};
use crate::render::{Asked, Content, content};
use crate::reply::Reply;
use crate::scenario::Endpoint;
use crate::verdict::{Outcome, Violation};

/// One thing that the server does with the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Act {
    /// Send these bytes.
    Write(Vec<u8>),
    /// Do nothing until released or the client is gone.
    Hold,
    /// Send so many filler bytes without a line end.
    Fill { bytes: u64, chunked: bool },
}

/// What is done for one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub acts: Vec<Act>,
    /// Whether the connection is closed afterwards.
    pub close: bool,
    /// Whether that leaves the body unfinished.
    pub cut_off: bool,
    /// Whether this is an error instead of a step's reply.
    pub refused: bool,
}

impl Answer {
    /// How the exchange ends if the client stays to the end.
    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            Self { refused: true, .. } => Outcome::Refused,
            Self { cut_off: true, .. } => Outcome::CutOff,
            _ => Outcome::Answered,
        }
    }

    /// Whether a client cannot be blamed for needing a new connection when it leaves during this answer.
    pub(crate) fn may_be_left(&self) -> bool {
        self.acts.iter().any(|act| !matches!(act, Act::Write(_)))
    }
}

/// An error answer for a request that broke rules.
pub(crate) fn refusal(
    endpoint: Endpoint,
    index: usize,
    status: u16,
    violation: &Violation,
) -> Answer {
    let message = format!("fluzo-sim: {}", violation.message);
    let body = error_body(
        endpoint,
        status,
        &message,
        Some(violation.kind),
        &request_id(index),
    );
    Answer {
        refused: true,
        ..json_answer(endpoint, index, status, &body)
    }
}

/// A plain JSON answer.
pub(crate) fn json_answer(endpoint: Endpoint, index: usize, status: u16, body: &Value) -> Answer {
    let body = body.to_string().into_bytes();
    let length = body.len().to_string();
    let head = head(
        endpoint,
        index,
        status,
        &BTreeMap::new(),
        &[
            ("content-type", "application/json"),
            ("content-length", &length),
        ],
    );
    Answer {
        acts: vec![Act::Write(head), Act::Write(body)],
        close: false,
        cut_off: false,
        refused: false,
    }
}

/// Plans a step's reply, or says which place of its delivery does not exist.
pub(crate) fn plan(reply: &Reply, asked: &Asked<'_>) -> Result<Answer, String> {
    let content = content(reply, asked);
    let delivery = &reply.delivery;
    let places = Places::find(delivery, &content)?;
    let transfer = delivery.transfer.unwrap_or(if content.stream {
        Transfer::Chunked
    } else {
        Transfer::Length
    });
    let chunked = transfer == Transfer::Chunked;
    let endless = if places.cut_off || delivery.end_early.is_some() {
        0
    } else {
        content.endless
    };

    let mut acts = Vec::new();
    if delivery.stall_before_head {
        acts.push(Act::Hold);
    }
    let length = u64::try_from(places.promised)
        .unwrap_or(u64::MAX)
        .saturating_add(endless)
        .to_string();
    let mut own = vec![("content-type", content.content_type.as_str())];
    match transfer {
        Transfer::Chunked => own.push(("transfer-encoding", "chunked")),
        Transfer::Length => own.push(("content-length", &length)),
        Transfer::UntilClose => {}
    }
    if delivery.close || transfer == Transfer::UntilClose {
        own.push(("connection", "close"));
    }
    acts.push(Act::Write(head(
        asked.endpoint,
        asked.index,
        reply.status,
        &reply.headers,
        &own,
    )));
    acts.extend(places.acts(&content.parts.concat(), chunked));
    if endless > 0 {
        acts.push(Act::Fill {
            bytes: endless,
            chunked,
        });
    }
    if chunked && !places.cut_off {
        acts.push(Act::Write(b"0\r\n\r\n".to_vec()));
    }
    let close = delivery.close || places.cut_off || transfer == Transfer::UntilClose || endless > 0;
    Ok(Answer {
        acts,
        close,
        cut_off: places.cut_off,
        refused: false,
    })
}

/// The places of a delivery as offsets in the body.
struct Places {
    hold: Option<usize>,
    /// Where the last byte that is sent ends.
    end: usize,
    /// How long the body claims to be.
    promised: usize,
    cut_off: bool,
    cuts: BTreeSet<usize>,
}

impl Places {
    fn find(delivery: &Delivery, content: &Content) -> Result<Self, String> {
        let body = content.parts.concat();
        let ends = part_ends(content);
        let point = |point: &Option<Point>| {
            point
                .as_ref()
                .map(|point| locate(point, &body, &ends))
                .transpose()
        };
        let cut = point(&delivery.cut_off)?;
        let promised = point(&delivery.end_early)?.unwrap_or(body.len());
        let end = cut.unwrap_or(promised);
        let hold = match point(&delivery.stall)? {
            Some(hold) if hold > end && delivery.stall == Some(Point::End) => Some(end),
            Some(hold) if hold > end => {
                return Err("the stall lies behind the end of what is sent".to_owned());
            }
            hold => hold,
        };
        if let Writes::SplitAt(offsets) = &delivery.writes
            && let Some(offset) = offsets.iter().find(|offset| **offset > body.len())
        {
            return Err(format!(
                "the body has only {} bytes and cannot be split at {offset}",
                body.len()
            ));
        }
        Ok(Self {
            hold,
            end,
            promised,
            cut_off: cut.is_some(),
            cuts: cuts(delivery, &ends, end),
        })
    }

    /// The body's writes, with the hold at its place.
    fn acts(&self, body: &[u8], chunked: bool) -> Vec<Act> {
        let mut acts = Vec::new();
        let mut stops = self.cuts.clone();
        stops.extend(self.hold);
        stops.insert(self.end);
        let mut from = 0;
        for stop in stops {
            if let Some(part) = body.get(from..stop).filter(|part| !part.is_empty()) {
                acts.push(Act::Write(if chunked {
                    chunk(part)
                } else {
                    part.to_vec()
                }));
            }
            if self.hold == Some(stop) {
                acts.push(Act::Hold);
            }
            from = stop;
        }
        acts
    }
}

/// Where the body is cut into writes.
fn cuts(delivery: &Delivery, ends: &[usize], length: usize) -> BTreeSet<usize> {
    let inside = |at: &usize| *at <= length;
    match &delivery.writes {
        Writes::Events => ends.iter().copied().filter(inside).collect(),
        Writes::Together => BTreeSet::new(),
        Writes::Bytes(size) => (0..length).step_by((*size).max(1)).collect(),
        Writes::SplitAt(offsets) => offsets.iter().copied().filter(inside).collect(),
    }
}

fn part_ends(content: &Content) -> Vec<usize> {
    let mut end = 0;
    content
        .parts
        .iter()
        .map(|part| {
            end += part.len();
            end
        })
        .collect()
}

fn locate(point: &Point, body: &[u8], ends: &[usize]) -> Result<usize, String> {
    match point {
        Point::Bytes(count) => Ok((*count).min(body.len())),
        Point::Events(0) => Ok(0),
        Point::Events(count) => Ok(ends.get(count - 1).copied().unwrap_or(body.len())),
        Point::End => Ok(body.len()),
        Point::After(text) if text.is_empty() => Ok(0),
        Point::After(text) => body
            .windows(text.len())
            .position(|window| window == text.as_bytes())
            .map(|at| at + text.len())
            .ok_or_else(|| format!("the body does not contain `{text}`")),
    }
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    let mut framed = format!("{:x}\r\n", bytes.len()).into_bytes();
    framed.extend_from_slice(bytes);
    framed.extend_from_slice(b"\r\n");
    framed
}

fn request_id(index: usize) -> String {
    format!("sim-{index}")
}

fn head(
    endpoint: Endpoint,
    index: usize,
    status: u16,
    scripted: &BTreeMap<String, String>,
    own: &[(&str, &str)],
) -> Vec<u8> {
    let id = request_id(index);
    let mut text = format!("HTTP/1.1 {status} {}\r\n", reason(status));
    for (name, value) in own
        .iter()
        .chain(&[(request_id_header(endpoint), id.as_str())])
    {
        if !scripted.keys().any(|key| key.eq_ignore_ascii_case(name)) {
            text.extend([name, ": ", value, "\r\n"]);
        }
    }
    for (name, value) in scripted {
        text.extend([name, ": ", value, "\r\n"]);
    }
    text.push_str("\r\n");
    text.into_bytes()
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        422 => "Unprocessable Entity",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Scripted",
    }
}
