//! One summary: asked of a model, and asked again for less where it does not fit.

use std::pin::pin;
use std::sync::Arc;

use fluzo_agent::compaction::{Part, SUMMARY_SYSTEM_PROMPT, length_of, text_of, trim};
use fluzo_agent::{AppendError, Halt, ModelEffect, TimeEffect};
use fluzo_llm::content::joined_text;
use fluzo_llm::{
    AbortSignal, AssistantMessage, EventStream, Finish, Message, Model, ModelRequest, RequestAuth,
    RequestOptions, StreamError, StreamErrorKind, StreamEvent, ThinkingLevel, Transcript, Usage,
};
use futures_util::StreamExt;
use futures_util::future::{Either, select};

use crate::forms::FormMemory;

/// How often a request that does not fit is made again for half of it.
const MOST_TRIMS: u32 = 4;

/// What makes requests.
pub(crate) struct Asker<'a> {
    pub(crate) model: &'a dyn ModelEffect,
    pub(crate) time: &'a dyn TimeEffect,
    pub(crate) forms: Option<&'a FormMemory>,
}

/// What is asked for.
pub(crate) struct Asked<'a> {
    pub(crate) model: &'a Arc<Model>,
    pub(crate) thinking: ThinkingLevel,
    /// Most output tokens.
    pub(crate) cap: u64,
    pub(crate) session_id: Option<&'a str>,
    /// What is summarised.
    pub(crate) parts: Vec<Part>,
    /// Puts the words of the request around the conversation.
    pub(crate) words: &'a (dyn Fn(&str) -> String + Sync),
}

/// A summary.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) text: String,
    /// Of all requests that were made for it.
    pub(crate) usage: Usage,
}

/// Why there is none.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum AskError {
    Cancelled,
    Halted(Halt),
    Failed(StreamError),
}

impl Asker<'_> {
    /// Asks until a summary fits and comes, a bounded number of times.
    pub(crate) async fn ask(
        &self,
        mut asked: Asked<'_>,
        abort: &AbortSignal,
    ) -> Result<Answer, AskError> {
        if let Some(room) = room(&asked) {
            trim(&mut asked.parts, room);
        }
        let (mut usage, mut trims, mut switched) = (Usage::default(), 0, false);
        loop {
            let (finish, text) = self.once(&asked, abort).await?;
            add(&mut usage, &finish.usage);
            let error = match finish.error {
                Some(error) => error,
                None if finish.overflow => does_not_fit(),
                None if text.trim().is_empty() => return Err(AskError::Failed(empty(&finish))),
                None => return Ok(Answer { text, usage }),
            };
            match error.kind {
                StreamErrorKind::Overflow if trims < MOST_TRIMS => {
                    trims += 1;
                    if !halve(&mut asked.parts) {
                        return Err(AskError::Failed(error));
                    }
                }
                StreamErrorKind::FormRefused if !switched && self.learns(&asked, &error) => {
                    switched = true;
                }
                _ => return Err(failure(error, abort)),
            }
        }
    }

    /// Makes one request and reads its response to the end.
    async fn once(
        &self,
        asked: &Asked<'_>,
        abort: &AbortSignal,
    ) -> Result<(Finish, String), AskError> {
        if abort.is_cancelled() {
            return Err(AskError::Cancelled);
        }
        let now = self.time.now_ms();
        let request = request(asked, now)?;
        let begun = AssistantMessage::begin(asked.model, now);
        let requested = self.model.request(request, abort.clone());
        match select(requested, pin!(abort.cancelled())).await {
            Either::Left((Ok(stream), _)) => read(stream, begun, abort).await,
            Either::Left((Err(halt), _)) => Err(AskError::Halted(halt)),
            Either::Right(_) => Err(AskError::Cancelled),
        }
    }

    fn learns(&self, asked: &Asked<'_>, error: &StreamError) -> bool {
        let learned = self.forms.and_then(|forms| forms.learn(asked.model, error));
        learned.is_some()
    }
}

/// A request that every dialect takes: one user message of text, no tools.
fn request(asked: &Asked<'_>, now: i64) -> Result<ModelRequest, AskError> {
    let text = (asked.words)(&text_of(&asked.parts));
    let message = Arc::new(Message::user(text, now));
    let transcript = Transcript::new(vec![message]).map_err(|error| {
        AskError::Failed(StreamError::new(
            StreamErrorKind::InvalidRequest,
            error.to_string(),
        ))
    })?;
    Ok(ModelRequest {
        model: Arc::clone(asked.model),
        system_prompt: Arc::from(SUMMARY_SYSTEM_PROMPT),
        transcript,
        tools: Arc::from([]),
        options: RequestOptions {
            thinking: asked.thinking,
            session_id: asked.session_id.map(str::to_owned),
            max_output_tokens: Some(asked.cap),
            ..RequestOptions::default()
        },
        auth: RequestAuth::default(),
    })
}

/// Reads to the last event. What is said after an abort is not waited for.
async fn read(
    mut stream: EventStream,
    mut message: AssistantMessage,
    abort: &AbortSignal,
) -> Result<(Finish, String), AskError> {
    loop {
        let event = match select(stream.next(), pin!(abort.cancelled())).await {
            Either::Left((event, _)) if !abort.is_cancelled() => event,
            _ => return Err(AskError::Cancelled),
        };
        match event {
            Some(StreamEvent::Done(finish) | StreamEvent::Failed(finish)) => {
                return Ok((*finish, joined_text(&message.content)));
            }
            Some(event) => message.apply(&event),
            None => {
                return Err(AskError::Failed(StreamError::new(
                    StreamErrorKind::Incomplete,
                    "the response ended without its last event",
                )));
            }
        }
    }
}

/// Shortens the conversation by about a half; returns whether it became shorter.
fn halve(parts: &mut Vec<Part>) -> bool {
    let before = length_of(&text_of(parts));
    trim(parts, before / 2);
    length_of(&text_of(parts)) < before
}

/// How long the conversation may be to fit by its estimate, when the window is known.
fn room(asked: &Asked<'_>) -> Option<u64> {
    let window = asked.model.context_window;
    let words = length_of(&(asked.words)("")) + length_of(SUMMARY_SYSTEM_PROMPT);
    let tokens = window.saturating_sub(asked.cap);
    (window > 0).then(|| tokens.saturating_mul(4).saturating_sub(words))
}

fn failure(error: StreamError, abort: &AbortSignal) -> AskError {
    match error.kind {
        _ if abort.is_cancelled() => AskError::Cancelled,
        StreamErrorKind::Aborted => AskError::Cancelled,
        StreamErrorKind::Unrecorded => AskError::Halted(Halt::Append(AppendError(error.message))),
        _ => AskError::Failed(error),
    }
}

fn does_not_fit() -> StreamError {
    let text =
        "the conversation does not fit the context window of the model that is to summarise it";
    StreamError::new(StreamErrorKind::Overflow, text)
}

fn empty(finish: &Finish) -> StreamError {
    let text = format!(
        "the model returned no summary (it ended with `{}`)",
        finish.stop_reason.as_str()
    );
    StreamError::new(StreamErrorKind::Incomplete, text)
}

/// Adds the tokens and the cost of `more`.
pub(crate) fn add(usage: &mut Usage, more: &Usage) {
    let sum = |a: &mut u64, b: u64| *a = a.saturating_add(b);
    sum(&mut usage.input, more.input);
    sum(&mut usage.output, more.output);
    sum(&mut usage.cache_read, more.cache_read);
    sum(&mut usage.cache_write, more.cache_write);
    sum(&mut usage.total_tokens, more.total_tokens);
    let sum = |a: &mut f64, b: f64| *a = (*a + b).clamp(f64::MIN, f64::MAX);
    sum(&mut usage.cost.input, more.cost.input);
    sum(&mut usage.cost.output, more.cost.output);
    sum(&mut usage.cost.cache_read, more.cost.cache_read);
    sum(&mut usage.cost.cache_write, more.cost.cache_write);
    sum(&mut usage.cost.total, more.cost.total);
}
