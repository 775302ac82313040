//! What the chunks of a Gemini response mean.

use std::cell::OnceCell;
use std::collections::HashSet;

use fluzo_llm::model::Prices;
use fluzo_llm::{Finish, ModelRequest, StopReason, StreamError, StreamEvent, Transcript};
use serde::Deserialize;
use serde_json::Value;

use super::end;
use super::usage::Counts;
use super::wire::{Candidate, Chunk, Feedback, FunctionCall, Part, signature};
use crate::adapt::{call_ids, plain_id};
use crate::assemble::{Ending, Events};
use crate::drive::Progress;
use crate::failure::Context;
use crate::indexed::IndexedBlocks;
use crate::loose::Loose;
use crate::reader::{Meaning, incomplete, says_something};
use crate::sse::SseEvent;

/// Longest piece of a name in an id that is made here, in characters.
const NAME_IN_ID: usize = 40;

/// What has been understood so far.
pub(crate) struct Response {
    blocks: IndexedBlocks,
    /// The block that is open.
    last: Option<Last>,
    /// Blocks that have begun.
    begun: u64,
    ids: HashSet<String>,
    counts: Counts,
    finish: Option<(String, Option<String>)>,
    blocked: Option<(String, Option<String>)>,
    response_id: Option<String>,
    response_model: Option<String>,
    model: String,
    prices: Prices,
    transcript: Transcript,
    context: Context,
}

struct Last {
    key: u64,
    kind: Kind,
    signature: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
    Call,
}

impl Response {
    /// The response to `request`, of which nothing has come yet.
    pub(crate) fn new(request: &ModelRequest, context: Context) -> Self {
        let model = &request.model;
        Self {
            blocks: IndexedBlocks::default(),
            last: None,
            begun: 0,
            ids: HashSet::new(),
            counts: Counts::default(),
            finish: None,
            blocked: None,
            response_id: None,
            response_model: None,
            model: model.id.clone(),
            prices: model.cost,
            transcript: request.transcript.clone(),
            context,
        }
    }

    fn chunk(&mut self, chunk: Chunk<'_>, out: &mut Events) -> Result<(), StreamError> {
        if let Some(error) = chunk.error.filter(says_something) {
            return Err(self.context.in_stream(&error));
        }
        if self.response_id.is_none() {
            self.response_id = chunk.response_id.as_text().map(str::to_owned);
        }
        if self.response_model.is_none() {
            let version = chunk.model_version.as_text();
            self.response_model = version.filter(|m| *m != self.model).map(str::to_owned);
        }
        if let Some(usage) = &chunk.usage_metadata {
            self.counts.report(usage);
        }
        if let Some(feedback) = chunk.prompt_feedback {
            self.feedback(&feedback);
        }
        let first = chunk.candidates.and_then(|all| all.into_iter().next());
        first.map_or(Ok(()), |candidate| self.candidate(candidate, out))
    }

    fn feedback(&mut self, feedback: &Feedback<'_>) {
        if let Some(reason) = feedback.block_reason.as_text() {
            let message = feedback.block_reason_message.as_text();
            self.blocked = Some((reason.to_owned(), message.map(str::to_owned)));
        }
    }

    fn candidate(&mut self, candidate: Candidate<'_>, out: &mut Events) -> Result<(), StreamError> {
        let parts = candidate.content.and_then(|content| content.parts);
        for part in parts.into_iter().flatten() {
            self.part(part, out)?;
        }
        if let Some(finish) = candidate.finish_reason.as_text() {
            let message = candidate.finish_message.as_text();
            self.finish = Some((finish.to_owned(), message.map(str::to_owned)));
        }
        Ok(())
    }

    fn part(&mut self, part: Part<'_>, out: &mut Events) -> Result<(), StreamError> {
        let signed = part.thought_signature.as_text().and_then(signature);
        if let Some(call) = part.function_call {
            self.call(call, out)?;
        } else if let Some(text) = part.text.as_text() {
            let kind = match part.thought {
                Some(Value::Bool(true)) => Kind::Thinking,
                _ => Kind::Text,
            };
            let key = self.running(kind, out);
            self.blocks.push(key, text, out);
        }
        // Without text or call it belongs to what came before it.
        if let (Some(last), Some(signed)) = (&mut self.last, signed) {
            // A call has been given its own, which must go back unaltered.
            if last.kind != Kind::Call || last.signature.is_none() {
                last.signature = Some(signed.to_owned());
            }
        }
        Ok(())
    }

    /// The open block of `kind`, which is begun if need be.
    fn running(&mut self, kind: Kind, out: &mut Events) -> u64 {
        if let Some(last) = self.last.as_ref().filter(|last| last.kind == kind) {
            return last.key;
        }
        let key = self.begin(kind, out);
        match kind {
            Kind::Thinking => self.blocks.open_thinking(key, false, out),
            Kind::Text | Kind::Call => self.blocks.open_text(key, out),
        }
        key
    }

    /// A call comes whole: arguments in pieces are sent only to who asks for them.
    fn call(&mut self, call: FunctionCall<'_>, out: &mut Events) -> Result<(), StreamError> {
        let goes_on = call.will_continue == Some(Value::Bool(true));
        if goes_on || call.partial_args.as_ref().is_some_and(says_something) {
            return Err(incomplete(
                "the server sent the arguments of a tool call in pieces",
            ));
        }
        let name = call.name.into_string();
        let id = match call.id.as_text() {
            Some(id) => id.to_owned(),
            None => self.new_id(&name),
        };
        self.ids.insert(id.clone());
        let arguments = match call.args {
            None | Some(Value::Null) => "{}".to_owned(),
            Some(Value::String(text)) => text,
            Some(arguments) => arguments.to_string(),
        };
        let key = self.begin(Kind::Call, out);
        self.blocks.open_call(key, &id, &name, out);
        self.blocks.push(key, &arguments, out);
        Ok(())
    }

    /// `NAME_MS_COUNTER`, unlike every id of the conversation.
    fn new_id(&self, name: &str) -> String {
        let name = plain_id(name, NAME_IN_ID);
        let now = (self.context.clock)();
        let history = OnceCell::new();
        let known = |id: &String| {
            self.ids.contains(id)
                || history
                    .get_or_init(|| call_ids(&self.transcript))
                    .contains(id)
        };
        let ids = (1u64..).map(|n| format!("{name}_{now}_{n}"));
        ids.into_iter().find(|id| !known(id)).unwrap_or_default()
    }

    /// Ends the open block and makes room for the next one.
    fn begin(&mut self, kind: Kind, out: &mut Events) -> u64 {
        self.end_last(out);
        let key = self.begun;
        self.begun += 1;
        self.last = Some(Last {
            key,
            kind,
            signature: None,
        });
        key
    }

    fn end_last(&mut self, out: &mut Events) {
        let Some(last) = self.last.take() else {
            return;
        };
        if let Some(signature) = &last.signature {
            self.blocks.sign(last.key, signature);
        }
        // Every call has an id by now.
        self.blocks.close(last.key, &|_| false, out);
    }

    fn close(&mut self, ending: Ending, out: &mut Events) {
        self.end_last(out);
        self.blocks.close_all(ending, &|_| false, out);
    }

    fn done(&mut self, reason: StopReason, out: &mut Events) {
        self.close(Ending::Complete, out);
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
}

impl Meaning for Response {
    fn event(&mut self, event: SseEvent<'_>, out: &mut Events) -> Result<(), StreamError> {
        if let Ok(chunk) = serde_json::from_str(event.data) {
            return self.chunk(chunk, out);
        }
        let no_chunk = || incomplete("the server sent an event that is no Gemini response");
        match serde_json::from_str(event.data) {
            Ok(Value::Array(values)) => {
                for value in &values {
                    let chunk = Chunk::deserialize(value).map_err(|_| no_chunk())?;
                    self.chunk(chunk, out)?;
                }
                Ok(())
            }
            Ok(Value::Object(_)) => Err(no_chunk()),
            // Other valid JSON says nothing, nor does the end mark of another dialect.
            Ok(_) => Ok(()),
            Err(_) if event.data == "[DONE]" => Ok(()),
            Err(_) => Err(no_chunk()),
        }
    }

    fn answer(&mut self, answer: Value, out: &mut Events) -> Result<(), StreamError> {
        let no_answer = || incomplete("the server's answer is no Gemini response");
        let chunk = Chunk::deserialize(&answer).map_err(|_| no_answer())?;
        let says = chunk.candidates.is_some()
            || chunk.prompt_feedback.is_some()
            || chunk.usage_metadata.is_some()
            || chunk.response_id != Loose::Nothing;
        if !says {
            return Err(no_answer());
        }
        self.chunk(chunk, out)
    }

    fn progress(&self) -> Progress {
        Progress {
            alive: false,
            output: self.blocks.any(),
            ending: self.finish.is_some() || self.blocked.is_some(),
            complete: false,
        }
    }

    fn judge(&mut self, _clean: bool, cut: Option<StreamError>, out: &mut Events) {
        if let Some((reason, message)) = self.blocked.take() {
            return self.fail(end::blocked(&reason, message.as_deref()), out);
        }
        let Some((finish, message)) = self.finish.take() else {
            let no_finish = || incomplete("Stream ended without finish_reason");
            return self.fail(cut.unwrap_or_else(no_finish), out);
        };
        match end::stop_reason(&finish, message.as_deref(), self.blocks.has_calls()) {
            Ok(reason) => self.done(reason, out),
            Err(error) => self.fail(error, out),
        }
    }

    fn fail(&mut self, error: StreamError, out: &mut Events) {
        self.close(Ending::Cut, out);
        let finish = Finish::failed(error, self.counts.usage(&self.prices));
        out.push_back(StreamEvent::Failed(Box::new(self.named(finish))));
    }
}

#[cfg(test)]
#[path = "response_tests.rs"]
mod tests;
