//! What the events of a response mean.

use std::cell::OnceCell;
use std::collections::HashMap;

use fluzo_llm::model::Prices;
use fluzo_llm::{Finish, ModelRequest, StopReason, StreamError, StreamEvent, Transcript};
use serde_json::Value;

use super::stop::outcome;
use super::usage::Counts;
use super::wire::{Block, Delta, Event, Start};
use crate::adapt::call_ids;
use crate::assemble::{Ending, Events};
use crate::drive::Progress;
use crate::failure::Context;
use crate::indexed::IndexedBlocks;
use crate::loose::Loose;
use crate::reader::{Meaning, incomplete, reported, says_something};
use crate::sse::SseEvent;

/// What is shown of thinking that the server hides.
const REDACTED: &str = "[Reasoning redacted]";

/// The events that are understood; any other one is ignored.
const KNOWN: &[&str] = &[
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
];

/// The status that an error type stands for, which an error inside a stream does not have.
const STATUS: &[(&str, u16)] = &[
    ("invalid_request_error", 400),
    ("authentication_error", 401),
    ("billing_error", 402),
    ("permission_error", 403),
    ("not_found_error", 404),
    ("request_too_large", 413),
    ("rate_limit_error", 429),
    ("api_error", 500),
    ("timeout_error", 504),
    ("overloaded_error", 529),
];

/// A response, as far as it has come.
pub(super) struct Response {
    blocks: IndexedBlocks,
    /// The block of each index of the server.
    slots: HashMap<u64, Slot>,
    /// Blocks so far, which are the keys in `blocks`.
    begun: u64,
    /// A call that has stopped without argument text: it has no arguments, unless the output
    /// limit comes next, which cut it off.
    bare: Option<u64>,
    counts: Counts,
    stop: Option<String>,
    explanation: Option<String>,
    done: bool,
    response_id: Option<String>,
    response_model: Option<String>,
    model: String,
    prices: Prices,
    transcript: Transcript,
    context: Context,
}

#[derive(Debug)]
struct Slot {
    key: u64,
    kind: Kind,
    open: bool,
    /// The id of a call.
    id: String,
    /// Arguments that came with the beginning of a call.
    input: String,
    /// Argument text has come.
    filled: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
    Call,
    /// Nothing of this program, such as a tool that the server runs itself.
    Other,
}

impl Kind {
    fn of_block(name: &str) -> Self {
        match name {
            "text" => Self::Text,
            "thinking" | "redacted_thinking" => Self::Thinking,
            "tool_use" => Self::Call,
            _ => Self::Other,
        }
    }

    fn of_delta(name: &str) -> Self {
        match name {
            "text_delta" => Self::Text,
            "thinking_delta" | "signature_delta" => Self::Thinking,
            "input_json_delta" => Self::Call,
            _ => Self::Other,
        }
    }
}

impl Response {
    /// The response to `request`, of which nothing has come yet.
    pub(super) fn new(request: &ModelRequest, context: Context) -> Self {
        let model = &request.model;
        Self {
            blocks: IndexedBlocks::default(),
            slots: HashMap::new(),
            begun: 0,
            bare: None,
            counts: Counts::default(),
            stop: None,
            explanation: None,
            done: false,
            response_id: None,
            response_model: None,
            model: model.id.clone(),
            prices: model.cost,
            transcript: request.transcript.clone(),
            context,
        }
    }

    fn understand(
        &mut self,
        event: Event<'_>,
        name: &str,
        out: &mut Events,
    ) -> Result<(), StreamError> {
        let kind = event.r#type.as_text().unwrap_or(name);
        if kind == "error" || event.error.as_ref().is_some_and(says_something) {
            return Err(self.error(
                event.error.unwrap_or(Value::Null),
                event.request_id.as_text(),
            ));
        }
        let index = event.index.as_index().unwrap_or(0);
        match kind {
            "message_start" => self.start(event.message.unwrap_or_default()),
            "content_block_start" => {
                self.block(index, event.content_block.unwrap_or_default(), out);
            }
            "content_block_delta" => self.delta(index, event.delta.unwrap_or_default(), out),
            "content_block_stop" => self.block_stop(index, out),
            "message_delta" => {
                let delta = event.delta.unwrap_or_default();
                self.ending(&delta.stop_reason, delta.stop_details.as_ref());
                event
                    .usage
                    .iter()
                    .for_each(|usage| self.counts.report(usage));
            }
            "message_stop" => self.done = true,
            _ => {}
        }
        Ok(())
    }

    /// An event that is no object of the known form.
    fn odd(&self, data: &str, name: &str) -> Result<(), StreamError> {
        let no_part = || incomplete("the server sent an event that is no part of a message");
        let value = match serde_json::from_str::<Value>(data) {
            Ok(value) => value,
            Err(_) if name == "error" => return Err(self.error(data.into(), None)),
            Err(_) if data.starts_with("[DONE") => return Ok(()),
            Err(_) => return Err(no_part()),
        };
        if let Some(error) = reported(&value) {
            let id = value.get("request_id").and_then(Value::as_str);
            return Err(self.error(error.clone(), id));
        }
        let kind = value.get("type").and_then(Value::as_str).unwrap_or(name);
        match KNOWN.contains(&kind) && value.is_object() {
            true => Err(no_part()),
            // Anything else that is valid says nothing.
            false => Ok(()),
        }
    }

    fn error(&self, mut error: Value, request_id: Option<&str>) -> StreamError {
        let kind = error
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let status = STATUS.iter().find(|(name, _)| *name == kind);
        if let (Some((_, status)), Some(object)) = (status, error.as_object_mut()) {
            object.entry("status").or_insert((*status).into());
        }
        StreamError {
            request_id: request_id.map(str::to_owned),
            ..self.context.in_stream(&error)
        }
    }

    fn start(&mut self, message: Start<'_>) {
        let text = |field: Loose<'_>| Some(field.into_string()).filter(|text| !text.is_empty());
        self.response_id = self.response_id.take().or_else(|| text(message.id));
        let model = text(message.model).filter(|model| *model != self.model);
        self.response_model = self.response_model.take().or(model);
        message
            .usage
            .iter()
            .for_each(|usage| self.counts.report(usage));
    }

    fn ending(&mut self, reason: &Loose<'_>, details: Option<&Value>) {
        if let Some(reason) = reason.as_text() {
            self.stop = Some(reason.to_owned());
        }
        let explanation = details.and_then(|details| details.get("explanation")?.as_str());
        if let Some(text) = explanation.filter(|text| !text.is_empty()) {
            self.explanation = Some(text.to_owned());
        }
    }

    /// A block begins, unless it has begun already.
    fn block(&mut self, index: u64, block: Block<'_>, out: &mut Events) {
        let kind = Kind::of_block(block.r#type.as_text().unwrap_or_default());
        let id = block.id.into_string();
        let again = |slot: &&Slot| slot.open && slot.kind == kind && slot.id == id;
        if self.slots.get(&index).filter(again).is_some() {
            return;
        }
        self.settle(out);
        let redacted = block.r#type.as_text() == Some("redacted_thinking");
        let key = self.open(index, kind);
        match kind {
            Kind::Text => {
                self.blocks.open_text(key, out);
                self.blocks.push(key, &block.text.into_string(), out);
            }
            Kind::Thinking => {
                self.blocks.open_thinking(key, redacted, out);
                let text = if redacted {
                    REDACTED.to_owned()
                } else {
                    block.thinking.into_string()
                };
                let signature = if redacted {
                    block.data
                } else {
                    block.signature
                };
                self.blocks.push(key, &text, out);
                self.blocks.sign(key, &signature.into_string());
            }
            Kind::Call => {
                self.blocks
                    .open_call(key, &id, &block.name.into_string(), out);
                if let Some(slot) = self.slots.get_mut(&index) {
                    (slot.id, slot.input) = (id, arguments(block.input));
                }
            }
            Kind::Other => {}
        }
    }

    fn delta(&mut self, index: u64, delta: Delta<'_>, out: &mut Events) {
        let name = delta.r#type.as_text().unwrap_or_default();
        let (kind, signs) = (Kind::of_delta(name), name == "signature_delta");
        if kind == Kind::Other
            || self
                .slots
                .get(&index)
                .is_some_and(|slot| slot.kind == Kind::Other)
        {
            return;
        }
        let fits = |slot: &&Slot| slot.open && slot.kind == kind;
        let key = match self.slots.get(&index).filter(fits) {
            Some(slot) => slot.key,
            None if signs => return,
            None => match self.unannounced(index, kind, out) {
                Some(key) => key,
                None => return,
            },
        };
        if signs {
            return self.blocks.sign(key, &delta.signature.into_string());
        }
        let text = match kind {
            Kind::Text => delta.text,
            Kind::Thinking => delta.thinking,
            Kind::Call | Kind::Other => delta.partial_json,
        };
        let text = text.into_string();
        if let Some(slot) = self.slots.get_mut(&index) {
            slot.filled |= !text.trim().is_empty();
        }
        self.blocks.push(key, &text, out);
    }

    /// A block whose beginning was left out. A piece after its end is none.
    fn unannounced(&mut self, index: u64, kind: Kind, out: &mut Events) -> Option<u64> {
        let late = self
            .slots
            .get(&index)
            .is_some_and(|slot| !slot.open && slot.kind == kind);
        if late || kind == Kind::Call {
            return None;
        }
        self.settle(out);
        let key = self.open(index, kind);
        match kind {
            Kind::Text => self.blocks.open_text(key, out),
            _ => self.blocks.open_thinking(key, false, out),
        }
        Some(key)
    }

    /// Gives the server's `index` to a new block.
    fn open(&mut self, index: u64, kind: Kind) -> u64 {
        let key = self.begun;
        self.begun += 1;
        let slot = Slot {
            key,
            kind,
            open: true,
            id: String::new(),
            input: String::new(),
            filled: false,
        };
        self.slots.insert(index, slot);
        key
    }

    fn block_stop(&mut self, index: u64, out: &mut Events) {
        let Some(slot) = self.slots.get_mut(&index).filter(|slot| slot.open) else {
            return;
        };
        slot.open = false;
        let (key, bare) = (slot.key, slot.kind == Kind::Call && !slot.filled);
        let input = std::mem::take(&mut slot.input);
        if bare && input.is_empty() {
            self.settle(out);
            self.bare = Some(key);
            return;
        }
        if bare {
            self.blocks.whole_arguments(key, &input, out);
        }
        self.close(key, out);
    }

    /// What goes on after a call without argument text shows that it was whole.
    fn settle(&mut self, out: &mut Events) {
        if let Some(key) = self.bare.take() {
            self.close(key, out);
        }
    }

    fn close(&mut self, key: u64, out: &mut Events) {
        let used = OnceCell::new();
        let transcript = &self.transcript;
        let taken = |id: &str| used.get_or_init(|| call_ids(transcript)).contains(id);
        self.blocks.close(key, &taken, out);
    }

    /// Nothing more comes: what has not stopped was cut off.
    fn close_all(&mut self, out: &mut Events) {
        let used = OnceCell::new();
        let transcript = &self.transcript;
        let taken = |id: &str| used.get_or_init(|| call_ids(transcript)).contains(id);
        self.blocks.close_all(Ending::Cut, &taken, out);
    }

    /// The outcome of a message that came to its end.
    fn outcome(&mut self) -> Result<StopReason, StreamError> {
        if let Some(reason) = self.stop.take() {
            let explanation = self.explanation.take();
            return outcome(&reason, explanation.as_deref());
        }
        if !self.blocks.any() || !self.blocks.calls_closed() {
            return Err(incomplete("the message ended without a stop_reason"));
        }
        Ok(match self.blocks.has_calls() {
            true => StopReason::ToolUse,
            false => StopReason::Stop,
        })
    }

    fn named(&mut self, finish: Finish) -> Finish {
        Finish {
            response_id: self.response_id.take(),
            response_model: self.response_model.take(),
            ..finish
        }
    }
}

impl Meaning for Response {
    fn event(&mut self, event: SseEvent<'_>, out: &mut Events) -> Result<(), StreamError> {
        match serde_json::from_str::<Event<'_>>(event.data) {
            Ok(read) => self.understand(read, event.event, out),
            Err(_) => self.odd(event.data, event.event),
        }
    }

    fn answer(&mut self, answer: Value, out: &mut Events) -> Result<(), StreamError> {
        let no_answer = || incomplete("the server's answer is no message");
        let text = answer.to_string();
        let mut message: Start<'_> = serde_json::from_str(&text).map_err(|_| no_answer())?;
        let content = message.content.take().ok_or_else(no_answer)?;
        self.ending(&message.stop_reason, message.stop_details.as_ref());
        self.start(message);
        for (index, block) in (0..).zip(content) {
            self.block(index, block, out);
            self.block_stop(index, out);
        }
        self.done = true;
        Ok(())
    }

    fn progress(&self) -> Progress {
        Progress {
            alive: false,
            output: self.blocks.any(),
            ending: self.stop.is_some(),
            complete: self.done,
        }
    }

    fn judge(&mut self, _clean: bool, cut: Option<StreamError>, out: &mut Events) {
        if !self.done {
            let cut = cut.unwrap_or_else(|| incomplete("stream ended before message_stop"));
            return self.fail(cut, out);
        }
        let reason = match self.outcome() {
            Ok(reason) => reason,
            Err(error) => return self.fail(error, out),
        };
        if reason != StopReason::Length {
            self.settle(out);
        }
        self.close_all(out);
        let finish = Finish::done(reason, self.counts.usage(&self.prices));
        out.push_back(StreamEvent::Done(Box::new(self.named(finish))));
    }

    fn fail(&mut self, error: StreamError, out: &mut Events) {
        self.close_all(out);
        let finish = Finish::failed(error, self.counts.usage(&self.prices));
        out.push_back(StreamEvent::Failed(Box::new(self.named(finish))));
    }
}

/// The text of arguments that came whole; an empty object is what a stream begins with.
fn arguments(input: Loose<'_>) -> String {
    match input {
        Loose::Other(Value::Object(map)) if map.is_empty() => String::new(),
        input => input.into_string(),
    }
}

#[cfg(test)]
#[path = "response_tests.rs"]
mod tests;
