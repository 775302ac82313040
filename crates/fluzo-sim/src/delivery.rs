//! How the bytes of a reply get to the client.

use serde::{Deserialize, Serialize};

/// How the bytes of an answer travel. The default is what a well-behaved server does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Delivery {
    /// How the body is divided into writes.
    pub writes: Writes,
    /// How the body's end is made known; by default chunked for event streams and a length for the rest.
    pub transfer: Option<Transfer>,
    /// Hold everything back, the status line too, until released or the client goes away.
    pub stall_before_head: bool,
    /// Hold the body back from here, until released or the client goes away.
    pub stall: Option<Point>,
    /// End the body here, properly as far as HTTP goes.
    pub end_early: Option<Point>,
    /// Close the connection here, with the body unfinished as far as HTTP goes.
    pub cut_off: Option<Point>,
    /// Say `connection: close` and close after the body.
    pub close: bool,
    /// Line ends of event streams.
    pub line_end: LineEnd,
    /// Start the body with a UTF-8 byte-order mark.
    pub bom: bool,
    /// Comment lines (text after the colon) sent before each event of a stream.
    pub comments: Vec<String>,
}

/// How a body is divided into writes. With chunked transfer each write is a chunk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Writes {
    /// One for each event.
    #[default]
    Events,
    /// One for the whole body.
    Together,
    /// One for each so many bytes.
    Bytes(usize),
    /// One for each part between these offsets; one beyond the body is a fault of the scenario.
    SplitAt(Vec<usize>),
}

/// How the end of a body is made known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transfer {
    /// Chunked coding.
    Chunked,
    /// `content-length`.
    Length,
    /// The connection is closed.
    UntilClose,
}

/// Line ends of event streams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LineEnd {
    /// Line feed.
    #[default]
    Lf,
    /// Carriage return and line feed.
    CrLf,
    /// Carriage return.
    Cr,
}

/// A place in a body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Point {
    /// After this many bytes, or at the end if there are fewer.
    Bytes(usize),
    /// After this many events, or at the end if there are fewer.
    Events(usize),
    /// After the first occurrence of this text; a body without it is a fault of the scenario.
    After(String),
    /// At the end of what is sent, before the end is made known.
    End,
}

impl Delivery {
    pub(crate) fn validate(&self) -> Result<(), String> {
        if self.writes == Writes::Bytes(0) {
            return Err("writes of size 0 never end".to_owned());
        }
        if self.cut_off.is_some() && self.end_early.is_some() {
            return Err("`cut_off` and `end_early` exclude each other".to_owned());
        }
        if self
            .comments
            .iter()
            .any(|comment| comment.contains(['\r', '\n']))
        {
            return Err("a comment is one line".to_owned());
        }
        Ok(())
    }
}
