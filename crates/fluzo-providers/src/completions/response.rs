//! Reads the body of a Chat Completions response: a stream of events, or one JSON answer
//! from a server that does not stream.

use std::cell::OnceCell;
use std::collections::HashSet;

use fluzo_llm::model::Prices;
use fluzo_llm::{
    Finish, ModelMessage, ModelRequest, StopReason, StreamError, StreamErrorKind, StreamEvent,
    Transcript,
};
use serde_json::Value;

use super::end::{Judgement, Signals, judge_end};
use super::usage::Counts;
use super::wire::{Choice, Chunk, Delta, Function, Loose};
use crate::assemble::{Blocks, Ending, Events, Fragment};
use crate::drive::{End, Progress, Reader};
use crate::failure::Context;
use crate::limits::Limits;
use crate::sse::{EventTooLarge, SseEvent, SseParser};

const DONE: &str = "[DONE]";

/// Fragments of the old single function call share this index.
const LEGACY_CALL: u64 = u64::MAX;

/// How much is kept of a body that is no answer, in bytes: more than is shown, so that a
/// secret is whole when it is removed.
const HEAD_BYTES: usize = 4096;

/// The most that is shown of it, in characters.
const HEAD_SHOWN: usize = 120;

/// The reader of one response.
pub(crate) struct ResponseReader {
    form: Form,
    sse: SseParser,
    json: Vec<u8>,
    content_type: Option<String>,
    /// The first bytes, while nothing of a stream has been seen in them.
    head: Vec<u8>,
    state: State,
}

/// What the body turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Unknown,
    Events,
    Json,
}

/// What has been understood so far.
struct State {
    blocks: Blocks,
    counts: Counts,
    finish: Option<String>,
    done: bool,
    response_id: Option<String>,
    response_model: Option<String>,
    /// Something of the model came with the bytes being read.
    alive: bool,
    /// There has been an event.
    spoke: bool,
    model: String,
    prices: Prices,
    transcript: Transcript,
    context: Context,
}

impl ResponseReader {
    /// A reader of the response to `request`.
    pub(crate) fn new(request: &ModelRequest, limits: &Limits, context: Context) -> Self {
        let model = &request.model;
        Self {
            form: Form::Unknown,
            sse: SseParser::new(limits.max_event_bytes),
            json: Vec::new(),
            content_type: None,
            head: Vec::new(),
            state: State {
                blocks: Blocks::new(request.tools.clone()),
                counts: Counts::default(),
                finish: None,
                done: false,
                response_id: None,
                response_model: None,
                alive: false,
                spoke: false,
                model: model.id.clone(),
                prices: model.cost,
                transcript: request.transcript.clone(),
                context,
            },
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
            let text = self.state.context.clean(text.to_owned());
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
        // Some servers wrap an error in an array.
        let text = text
            .strip_prefix('[')
            .and_then(|inner| inner.strip_suffix(']'))
            .unwrap_or(text);
        let no_answer = || incomplete("the server's answer is no chat completion");
        let chunk: Chunk<'_> = serde_json::from_str(text).map_err(|_| no_answer())?;
        if chunk.choices.is_none() && chunk.error.is_none() {
            let value: Value = serde_json::from_str(text).map_err(|_| no_answer())?;
            let reports = ["message", "detail"]
                .iter()
                .any(|field| value.get(*field).is_some());
            return Err(if reports {
                self.state.reported(&value)
            } else {
                no_answer()
            });
        }
        self.state.done = true;
        self.state.chunk(chunk, out)
    }
}

impl Reader for ResponseReader {
    fn begin(&mut self, content_type: Option<&str>) {
        self.content_type = content_type.map(str::to_owned);
    }

    fn push(&mut self, bytes: &[u8], out: &mut Events) -> Result<Progress, StreamError> {
        if self.form == Form::Unknown {
            self.sniff(bytes);
        }
        self.state.alive = false;
        if self.form == Form::Json {
            self.json.extend_from_slice(bytes);
            return Ok(Progress {
                alive: true,
                ..Progress::default()
            });
        }
        if !self.state.spoke {
            self.keep_head(bytes);
        }
        let state = &mut self.state;
        let fed = self.sse.feed(bytes, |event| {
            state.event(event, out).map_err(ReadError::Stream)
        });
        fed.map_err(ReadError::into_stream)?;
        Ok(Progress {
            alive: self.state.alive,
            output: self.state.blocks.any(),
            ending: self.state.finish.is_some(),
            complete: self.state.done,
        })
    }

    fn finish(&mut self, end: End, out: &mut Events) {
        let (clean, cut) = match end {
            End::Failed(error) => return self.state.fail(error, out),
            End::Clean => (true, None),
            End::Cut(error) => (false, Some(error)),
        };
        let read = match self.form {
            Form::Json if clean => self.read_json(out),
            Form::Events => {
                if let Some(data) = self.sse.trailing() {
                    self.state.trailing(&data, out);
                }
                match self.no_response() {
                    Some(error) if !self.state.spoke && clean => Err(error),
                    _ => Ok(()),
                }
            }
            Form::Json | Form::Unknown => Ok(()),
        };
        match read {
            Err(error) => self.state.fail(error, out),
            Ok(()) => self.state.judge(clean, cut, out),
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

impl State {
    fn event(&mut self, event: SseEvent<'_>, out: &mut Events) -> Result<(), StreamError> {
        let data = event.data.trim();
        if data.is_empty() || self.done {
            return Ok(());
        }
        (self.alive, self.spoke) = (true, true);
        if data == DONE {
            self.done = true;
            return Ok(());
        }
        if event.event == "error" {
            let value =
                serde_json::from_str(data).unwrap_or_else(|_| Value::String(data.to_owned()));
            return Err(self.reported(&value));
        }
        match serde_json::from_str(data) {
            Ok(chunk) => self.chunk(chunk, out),
            // Valid JSON that is no object says nothing.
            Err(_) if serde_json::from_str::<Value>(data).is_ok_and(|v| !v.is_object()) => Ok(()),
            Err(_) => Err(incomplete(
                "the server sent an event that is no chat completion",
            )),
        }
    }

    /// An event without its final blank line counts when it is whole.
    fn trailing(&mut self, data: &str, out: &mut Events) {
        let data = data.trim();
        if data == DONE {
            self.done = true;
        } else if let Ok(chunk) = serde_json::from_str::<Chunk<'_>>(data) {
            // An error in it is worth less than the judgement of what came before.
            let _ = self.chunk(chunk, out);
        }
    }

    /// The error that `value` reports, which may or may not wrap it in `error`.
    fn reported(&self, value: &Value) -> StreamError {
        self.context
            .in_stream(value.get("error").filter(|e| !e.is_null()).unwrap_or(value))
    }

    fn chunk(&mut self, chunk: Chunk<'_>, out: &mut Events) -> Result<(), StreamError> {
        if let Some(error) = chunk.error.filter(says_something) {
            return Err(self.context.in_stream(&error));
        }
        if self.response_id.is_none() {
            self.response_id = chunk.id.as_text().map(str::to_owned);
        }
        if self.response_model.is_none() {
            self.response_model = chunk
                .model
                .as_text()
                .filter(|m| *m != self.model)
                .map(str::to_owned);
        }
        let nested = chunk.x_groq.as_ref().and_then(|extra| extra.get("usage"));
        for usage in chunk.usage.iter().chain(nested) {
            self.counts.report(usage);
        }
        match chunk.choices.and_then(|choices| choices.into_iter().next()) {
            Some(choice) => self.choice(choice, out),
            None => Ok(()),
        }
    }

    fn choice(&mut self, choice: Choice<'_>, out: &mut Events) -> Result<(), StreamError> {
        if let Some(usage) = &choice.usage {
            self.counts.report(usage);
        }
        for delta in choice.delta.into_iter().chain(choice.message) {
            self.delta(delta, out);
        }
        if let Some(finish) = choice.finish_reason.as_text() {
            self.finish = Some(finish.to_owned());
        }
        Ok(())
    }

    fn delta(&mut self, delta: Delta<'_>, out: &mut Events) {
        let thinking = [
            ("reasoning_content", delta.reasoning_content),
            ("reasoning", delta.reasoning),
            ("reasoning_text", delta.reasoning_text),
        ];
        // Some servers send the same piece under two names.
        if let Some((field, text)) = thinking
            .into_iter()
            .find(|(_, text)| text.as_text().is_some())
        {
            self.blocks.thinking(field, text.into_string(), out);
        }
        match delta.content {
            Loose::Other(Value::Array(parts)) => self.parts(&parts, out),
            Loose::Other(_) => {}
            text => self.blocks.text(text.into_string(), out),
        }
        if delta.refusal.as_text().is_some() {
            // Often words of the server, not of the model.
            let refusal = self.context.redactor.clean(delta.refusal.into_string());
            self.blocks.text(refusal, out);
        }
        let calls = delta.tool_calls.unwrap_or_default();
        let several = calls.len() > 1;
        for (place, call) in calls.into_iter().enumerate() {
            let Some(call) = call else { continue };
            let index = call.index.as_index();
            let id = call.id.into_string();
            let place = several.then_some(place);
            self.blocks
                .fragment(fragment(index, id, call.function, place), out);
        }
        if let Some(function) = delta.function_call {
            self.blocks.fragment(
                fragment(Some(LEGACY_CALL), String::new(), Some(function), None),
                out,
            );
        }
        for detail in delta
            .reasoning_details
            .iter()
            .filter_map(Value::as_array)
            .flatten()
        {
            self.sign(detail);
        }
    }

    /// Content as a list of typed parts.
    fn parts(&mut self, parts: &[Value], out: &mut Events) {
        for part in parts {
            match part.get("type").and_then(Value::as_str) {
                Some("thinking") => {
                    self.blocks
                        .thinking("reasoning_content", text_of(part.get("thinking")), out)
                }
                _ => self.blocks.text(text_of(part.get("text")), out),
            }
        }
    }

    fn sign(&mut self, detail: &Value) {
        let field = |name: &str| detail.get(name).and_then(Value::as_str);
        if let (Some("reasoning.encrypted"), Some(id), Some(_)) =
            (field("type"), field("id"), field("data"))
        {
            self.blocks.sign(id, detail.to_string());
        }
    }

    fn judge(&mut self, clean: bool, cut: Option<StreamError>, out: &mut Events) {
        let signals = Signals {
            finish: self.finish.take(),
            done: self.done,
            usage: self.counts.seen(),
            clean,
            content: self.blocks.any(),
            calls: self.blocks.has_calls(),
            calls_closed: self.blocks.calls_closed(),
        };
        match judge_end(&signals) {
            Judgement::Complete(reason) => self.done(reason, out),
            Judgement::Failed(error) => self.fail(error, out),
            Judgement::Incomplete(text) => self.fail(cut.unwrap_or_else(|| incomplete(&text)), out),
        }
    }

    fn done(&mut self, reason: StopReason, out: &mut Events) {
        let ending = if reason == StopReason::Length {
            Ending::Cut
        } else {
            Ending::Complete
        };
        self.close(ending, out);
        let finish = Finish::done(reason, self.counts.usage(&self.prices));
        out.push_back(StreamEvent::Done(Box::new(self.named(finish))));
    }

    fn fail(&mut self, error: StreamError, out: &mut Events) {
        self.close(Ending::Cut, out);
        let finish = Finish::failed(error, self.counts.usage(&self.prices));
        out.push_back(StreamEvent::Failed(Box::new(self.named(finish))));
    }

    fn named(&mut self, finish: Finish) -> Finish {
        Finish {
            response_id: self.response_id.take(),
            response_model: self.response_model.take(),
            ..finish
        }
    }

    fn close(&mut self, ending: Ending, out: &mut Events) {
        let used = OnceCell::new();
        let transcript = &self.transcript;
        let taken = |id: &str| used.get_or_init(|| call_ids(transcript)).contains(id);
        self.blocks.close(ending, &taken, out);
    }
}

fn call_ids(transcript: &Transcript) -> HashSet<String> {
    let calls = transcript.iter().filter_map(|message| match message {
        ModelMessage::Assistant(assistant) => Some(assistant),
        _ => None,
    });
    calls
        .flat_map(|assistant| assistant.tool_calls())
        .map(|call| call.id.clone())
        .collect()
}

fn fragment(
    index: Option<u64>,
    id: String,
    function: Option<Function<'_>>,
    place: Option<usize>,
) -> Fragment {
    let function = function.unwrap_or_default();
    Fragment {
        index,
        id,
        name: function.name.into_string(),
        arguments: function.arguments.into_string(),
        place,
    }
}

/// Text that is a string, or a list of parts with text.
fn text_of(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => parts.iter().map(|part| text_of(part.get("text"))).collect(),
        _ => String::new(),
    }
}

fn says_something(error: &Value) -> bool {
    match error {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => true,
    }
}

fn incomplete(text: &str) -> StreamError {
    StreamError::new(StreamErrorKind::Incomplete, text)
}

#[cfg(test)]
#[path = "response_tests.rs"]
mod tests;
