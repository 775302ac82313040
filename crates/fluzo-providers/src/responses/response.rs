//! What the events of a response mean.

use fluzo_llm::{Finish, ModelRequest, StopReason, StreamError, StreamEvent};
use serde_json::Value;

use super::end::{self, Seen, Status};
use super::output::OutputBlocks;
use super::request::asked_model;
use super::usage::{Counts, Priced};
use super::wire::{Event, text};
use crate::assemble::{Ending, Events};
use crate::drive::Progress;
use crate::failure::Context;
use crate::reader::{Meaning, incomplete, says_something};
use crate::sse::SseEvent;

/// The end marker of Chat Completions, which some servers send here too.
const DONE: &str = "[DONE]";

/// What has been understood so far.
pub(crate) struct Response {
    output: OutputBlocks,
    counts: Counts,
    /// The service tier that the server used.
    tier: Option<String>,
    /// How the server says that it ended, and the last state of the response.
    end: Option<(Status, Value)>,
    done: bool,
    response_id: Option<String>,
    response_model: Option<String>,
    asked: [String; 2],
    priced: Priced,
    context: Context,
}

impl Response {
    /// The response to `request`, of which nothing has come yet.
    pub(crate) fn new(request: &ModelRequest, context: Context) -> Self {
        let model = &request.model;
        Self {
            output: OutputBlocks::new(request.transcript.clone(), context.redactor.clone()),
            counts: Counts::default(),
            tier: None,
            end: None,
            done: false,
            response_id: None,
            response_model: None,
            asked: [model.id.clone(), asked_model(request).to_owned()],
            priced: Priced::of(model),
            context,
        }
    }

    /// What a state of the response says of the whole.
    fn note(&mut self, response: &Value) {
        let said = |field: &str| Some(text(response, field)).filter(|text| !text.is_empty());
        if self.response_id.is_none() {
            self.response_id = said("id").map(str::to_owned);
        }
        if self.response_model.is_none() {
            let other =
                said("model").filter(|model| !self.asked.iter().any(|asked| asked == model));
            self.response_model = other.map(str::to_owned);
        }
        if let Some(tier) = said("service_tier") {
            self.tier = Some(tier.to_owned());
        }
        if let Some(usage) = response.get("usage") {
            self.counts.report(usage);
        }
    }

    /// The last state of the response.
    fn last(&mut self, status: Status, response: Value, out: &mut Events) {
        self.note(&response);
        self.output.settle(&response, out);
        let status = Status::of(status, &response);
        self.end = Some((status, response));
    }

    fn finish(&mut self, reason: StopReason, out: &mut Events) {
        let ending = match reason {
            StopReason::Length => Ending::Cut,
            _ => Ending::Complete,
        };
        self.output.close_all(ending, out);
        let finish = Finish::done(reason, self.usage());
        out.push_back(StreamEvent::Done(Box::new(self.named(finish))));
    }

    fn usage(&self) -> fluzo_llm::Usage {
        self.counts.usage(&self.priced, self.tier.as_deref())
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
        let data = event.data;
        if data == DONE {
            self.done = true;
            return Ok(());
        }
        if event.event == "error" {
            let value = serde_json::from_str(data);
            let value: Value = value.unwrap_or_else(|_| Value::String(data.to_owned()));
            return Err(self.reported(&value));
        }
        let mut parsed: Event<'_> = match serde_json::from_str(data) {
            Ok(parsed) => parsed,
            // Valid JSON that is no object says nothing.
            Err(_) if serde_json::from_str::<Value>(data).is_ok_and(|v| !v.is_object()) => {
                return Ok(());
            }
            Err(_) => return Err(incomplete("the server sent an event that is no response")),
        };
        let kind = std::mem::take(&mut parsed.r#type).into_string();
        let kind = if kind.is_empty() { event.event } else { &kind };
        if let Some(status) = last_event(kind) {
            // Some servers put the fields of the response in the event itself.
            let response = parsed.response.filter(Value::is_object);
            let response = match response {
                Some(response) => response,
                None => serde_json::from_str(data).unwrap_or_default(),
            };
            self.last(status, response, out);
            return Ok(());
        }
        let reports =
            !kind.starts_with("response.") && parsed.error.as_ref().is_some_and(says_something);
        if reports || matches!(kind, "error" | "response.error") {
            let value: Value = serde_json::from_str(data).unwrap_or_default();
            return Err(self.reported(&value));
        }
        match kind {
            "response.created" | "response.in_progress" | "response.queued" => {
                self.note(&parsed.response.unwrap_or_default());
            }
            _ => self.output.understand(kind, &parsed, out),
        }
        Ok(())
    }

    fn answer(&mut self, answer: Value, out: &mut Events) -> Result<(), StreamError> {
        let status = answer.get("status").and_then(Value::as_str);
        let status = match status {
            Some(status) => Status::named(status),
            None => answer.get("output").map(|_| Status::Completed),
        };
        let Some(status) = status else {
            return Err(incomplete("the server's answer is no whole response"));
        };
        self.last(status, answer, out);
        Ok(())
    }

    fn progress(&self) -> Progress {
        let over = self.end.is_some() || self.done;
        Progress {
            alive: false,
            output: self.output.spoke(),
            ending: over,
            complete: over,
        }
    }

    fn judge(&mut self, clean: bool, cut: Option<StreamError>, out: &mut Events) {
        let end = self.end.take();
        let status = end.as_ref().map(|(status, _)| *status);
        let usage = self.counts.seen();
        let ended = self.done || (usage && clean);
        if status == Some(Status::Completed) || (status.is_none() && ended) {
            self.output.give_all_first_arguments(out);
        }
        let seen = Seen {
            content: self.output.spoke(),
            calls: self.output.has_calls(),
            calls_closed: self.output.calls_closed(),
            ended,
        };
        let response = end.map(|(_, response)| response).unwrap_or_default();
        match end::judge(status, &response, seen, &self.context) {
            Ok(reason) => self.finish(reason, out),
            Err(error) => self.fail(cut.filter(|_| status.is_none()).unwrap_or(error), out),
        }
    }

    fn fail(&mut self, error: StreamError, out: &mut Events) {
        self.output.close_all(Ending::Cut, out);
        let finish = Finish::failed(error, self.usage());
        out.push_back(StreamEvent::Failed(Box::new(self.named(finish))));
    }
}

impl Response {
    /// The error that `value` reports, which may or may not wrap it in `error`.
    fn reported(&self, value: &Value) -> StreamError {
        let wrapped = value.get("error").filter(|error| says_something(error));
        end::reported(wrapped.unwrap_or(value), &self.context)
    }
}

/// The end that events of this type are.
fn last_event(kind: &str) -> Option<Status> {
    match kind.strip_prefix("response.")? {
        "done" => Some(Status::Completed),
        name => Status::named(name),
    }
}

#[cfg(test)]
#[path = "response_tests.rs"]
mod tests;
