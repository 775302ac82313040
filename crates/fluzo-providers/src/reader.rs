//! Reads the body of a response, whatever the dialect: a stream of events, or one JSON
//! answer from a server that does not stream.

use fluzo_llm::{StreamError, StreamErrorKind};
use serde_json::Value;

use crate::assemble::Events;
use crate::drive::{End, Progress, Reader};
use crate::failure::Context;
use crate::limits::Limits;
use crate::sse::{EventTooLarge, SseEvent, SseParser};

/// How much is kept of a body that is no answer, in bytes: more than is shown, so that a
/// secret is whole when it is removed.
const HEAD_BYTES: usize = 4096;

/// The most that is shown of it, in characters.
const HEAD_SHOWN: usize = 120;

/// What the events of one response mean in a dialect.
pub(crate) trait Meaning: Send {
    /// Understands one event, whose data is neither empty nor padded.
    ///
    /// # Errors
    ///
    /// Ends the response; [`fail`](Self::fail) is called with it.
    fn event(&mut self, event: SseEvent<'_>, out: &mut Events) -> Result<(), StreamError>;

    /// Understands the answer of a server that did not stream. What reports an error in the
    /// usual forms has been dealt with.
    ///
    /// # Errors
    ///
    /// As for [`event`](Self::event).
    fn answer(&mut self, answer: Value, out: &mut Events) -> Result<(), StreamError>;

    /// How far the response has come; `alive` is ignored.
    fn progress(&self) -> Progress;

    /// No more comes, and nothing has failed so far. `cut` says why when the body broke off.
    /// Queues the ends of all open blocks and exactly one last event.
    fn judge(&mut self, clean: bool, cut: Option<StreamError>, out: &mut Events);

    /// The response failed. Queues the ends of all open blocks and the failure.
    fn fail(&mut self, error: StreamError, out: &mut Events);
}

/// The reader of one response.
pub(crate) struct BodyReader {
    meaning: Box<dyn Meaning>,
    context: Context,
    form: Form,
    sse: SseParser,
    json: Vec<u8>,
    content_type: Option<String>,
    /// The first bytes, while nothing of a stream has been seen in them.
    head: Vec<u8>,
    /// There has been an event.
    spoke: bool,
}

/// What the body turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Unknown,
    Events,
    Json,
}

impl BodyReader {
    /// A reader that hands what it reads to `meaning`.
    pub(crate) fn new(meaning: Box<dyn Meaning>, limits: &Limits, context: Context) -> Self {
        Self {
            meaning,
            context,
            form: Form::Unknown,
            sse: SseParser::new(limits.max_event_bytes),
            json: Vec::new(),
            content_type: None,
            head: Vec::new(),
            spoke: false,
        }
    }

    /// The first byte that is no space tells events from one JSON answer, whatever the
    /// content type says.
    fn sniff(&mut self, bytes: &[u8]) {
        let skipped = |b: &&u8| !(b.is_ascii_whitespace() || b"\xEF\xBB\xBF".contains(b));
        match bytes.iter().find(skipped) {
            Some(b'{' | b'[') => self.form = Form::Json,
            Some(_) => self.form = Form::Events,
            None => {}
        }
    }

    fn keep_head(&mut self, bytes: &[u8]) {
        let room = HEAD_BYTES.saturating_sub(self.head.len());
        self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// The error of a body that is neither events nor JSON, such as the web page of a proxy.
    fn no_response(&self) -> Option<StreamError> {
        let head = String::from_utf8_lossy(&self.head);
        let head = head.trim_start_matches('\u{FEFF}').trim();
        let fields = [":", "data", "event", "id", "retry"];
        if head.is_empty() || fields.iter().any(|field| head.starts_with(field)) {
            return None;
        }
        let clean = |text: &str| {
            let text = self.context.clean(text.to_owned());
            let words: Vec<&str> = text.split_whitespace().collect();
            let text = words.join(" ");
            match text.char_indices().nth(HEAD_SHOWN) {
                Some((at, _)) => format!("{}…", &text[..at]),
                None => text,
            }
        };
        let kind = self.content_type.as_deref().map_or_else(
            || "no content type".to_owned(),
            |kind| format!("content type `{}`", clean(kind)),
        );
        let text = format!(
            "the server's answer is no API response: {kind}, it begins `{}`",
            clean(head)
        );
        Some(incomplete(&text))
    }

    fn read_json(&mut self, out: &mut Events) -> Result<(), StreamError> {
        let json = std::mem::take(&mut self.json);
        let text = String::from_utf8_lossy(&json);
        let text = text.trim_matches(['\u{FEFF}', ' ', '\n', '\r', '\t']);
        // Some servers wrap an error, or all parts of an answer, in an array.
        let values = serde_json::from_str(text).map(|value| match value {
            Value::Array(values) => values,
            value => vec![value],
        });
        let values: Vec<Value> =
            values.map_err(|_| incomplete("the server's answer is no API response"))?;
        if values.is_empty() {
            return Err(incomplete("the server's answer is empty"));
        }
        for value in values {
            match reported(&value) {
                Some(error) => return Err(self.context.in_stream(error)),
                None => self.meaning.answer(value, out)?,
            }
        }
        Ok(())
    }

    /// An event without its final blank line counts when it is whole.
    fn read_trailing(&mut self, out: &mut Events) -> Result<(), StreamError> {
        let Some(data) = self.sse.trailing() else {
            return Ok(());
        };
        let data = data.trim();
        let whole = serde_json::from_str::<serde::de::IgnoredAny>(data).is_ok();
        if !whole && !data.starts_with("[DONE") {
            return Ok(());
        }
        self.spoke = true;
        self.meaning.event(SseEvent { event: "", data }, out)
    }
}

impl Reader for BodyReader {
    fn begin(&mut self, content_type: Option<&str>) {
        self.content_type = content_type.map(str::to_owned);
    }

    fn push(&mut self, bytes: &[u8], out: &mut Events) -> Result<Progress, StreamError> {
        if self.form == Form::Unknown {
            self.sniff(bytes);
        }
        if self.form == Form::Json {
            self.json.extend_from_slice(bytes);
            return Ok(Progress {
                alive: true,
                ..Progress::default()
            });
        }
        if !self.spoke {
            self.keep_head(bytes);
        }
        let (meaning, mut alive) = (&mut self.meaning, false);
        let fed = self.sse.feed(bytes, |event| {
            let data = event.data.trim();
            if data.is_empty() || meaning.progress().complete {
                return Ok(());
            }
            alive = true;
            meaning
                .event(SseEvent { data, ..event }, out)
                .map_err(ReadError::Stream)
        });
        self.spoke |= alive;
        fed.map_err(ReadError::into_stream)?;
        Ok(Progress {
            alive,
            ..self.meaning.progress()
        })
    }

    fn finish(&mut self, end: End, out: &mut Events) {
        let (clean, cut) = match end {
            End::Failed(error) => return self.meaning.fail(error, out),
            End::Clean => (true, None),
            End::Cut(error) => (false, Some(error)),
        };
        let read = match self.form {
            Form::Json if clean => self.read_json(out),
            Form::Events => self.read_trailing(out).and_then(|()| {
                let stranger = self.no_response().filter(|_| !self.spoke && clean);
                stranger.map_or(Ok(()), Err)
            }),
            Form::Json | Form::Unknown => Ok(()),
        };
        match read {
            Err(error) => self.meaning.fail(error, out),
            Ok(()) => self.meaning.judge(clean, cut, out),
        }
    }
}

/// Either error that reading an event may give.
enum ReadError {
    Stream(StreamError),
    TooLarge(EventTooLarge),
}

impl From<EventTooLarge> for ReadError {
    fn from(error: EventTooLarge) -> Self {
        Self::TooLarge(error)
    }
}

impl ReadError {
    fn into_stream(self) -> StreamError {
        match self {
            Self::Stream(error) => error,
            Self::TooLarge(error) => StreamError::new(StreamErrorKind::TooLarge, error.to_string()),
        }
    }
}

/// The error object that an answer reports, in `error` or by itself.
pub(crate) fn reported(value: &Value) -> Option<&Value> {
    if let Some(error) = value.get("error").filter(|error| says_something(error)) {
        return Some(error);
    }
    // MiniMax reports failures so, with status 200; 0 is success.
    if let Some(report) = value.get("base_resp")
        && report.get("status_code").is_some_and(|code| code != 0)
    {
        return Some(report);
    }
    let bare = ["message", "detail"]
        .iter()
        .any(|field| value.get(*field).is_some_and(Value::is_string));
    let answers = ["choices", "candidates", "content", "output"]
        .iter()
        .any(|field| value.get(*field).is_some());
    (bare && !answers).then_some(value)
}

/// Whether an `error` field holds an error; some servers send it empty.
pub(crate) fn says_something(error: &Value) -> bool {
    match error {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => true,
    }
}

/// The error of a response that is not whole, or not of the dialect.
pub(crate) fn incomplete(text: &str) -> StreamError {
    StreamError::new(StreamErrorKind::Incomplete, text)
}
