//! What the events of a Chat Completions response mean.

use std::cell::OnceCell;

use fluzo_llm::model::Prices;
use fluzo_llm::{Finish, ModelRequest, StopReason, StreamError, StreamEvent, Transcript};
use serde_json::Value;

use super::end::{Judgement, Signals, judge_end};
use super::usage::Counts;
use super::wire::{Choice, Chunk, Delta, Function};
use crate::adapt::call_ids;
use crate::assemble::{Blocks, Ending, Events, Fragment};
use crate::drive::Progress;
use crate::failure::Context;
use crate::loose::Loose;
use crate::reader::{Meaning, incomplete, says_something};
use crate::sse::SseEvent;

const DONE: &str = "[DONE]";

/// Fragments of the old single function call share this index.
const LEGACY_CALL: u64 = u64::MAX;

/// What has been understood so far.
pub(crate) struct Response {
    blocks: Blocks,
    counts: Counts,
    finish: Option<String>,
    done: bool,
    response_id: Option<String>,
    response_model: Option<String>,
    model: String,
    prices: Prices,
    transcript: Transcript,
    context: Context,
}

impl Response {
    /// The response to `request`, of which nothing has come yet.
    pub(crate) fn new(request: &ModelRequest, context: Context) -> Self {
        let model = &request.model;
        Self {
            blocks: Blocks::new(request.tools.clone()),
            counts: Counts::default(),
            finish: None,
            done: false,
            response_id: None,
            response_model: None,
            model: model.id.clone(),
            prices: model.cost,
            transcript: request.transcript.clone(),
            context,
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

impl Meaning for Response {
    fn event(&mut self, event: SseEvent<'_>, out: &mut Events) -> Result<(), StreamError> {
        let data = event.data;
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

    fn answer(&mut self, answer: Value, out: &mut Events) -> Result<(), StreamError> {
        let no_answer = || incomplete("the server's answer is no chat completion");
        let text = answer.to_string();
        let chunk: Chunk<'_> = serde_json::from_str(&text).map_err(|_| no_answer())?;
        if chunk.choices.is_none() {
            return Err(no_answer());
        }
        self.done = true;
        self.chunk(chunk, out)
    }

    fn progress(&self) -> Progress {
        Progress {
            alive: false,
            output: self.blocks.any(),
            ending: self.finish.is_some(),
            complete: self.done,
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

    fn fail(&mut self, error: StreamError, out: &mut Events) {
        self.close(Ending::Cut, out);
        let finish = Finish::failed(error, self.counts.usage(&self.prices));
        out.push_back(StreamEvent::Failed(Box::new(self.named(finish))));
    }
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

#[cfg(test)]
#[path = "response_tests.rs"]
mod tests;
