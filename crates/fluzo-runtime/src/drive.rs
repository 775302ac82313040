//! Manual drive: every effect, and every item of a response, waits under a name until
//! it is released, made to fail (a wait cannot fail and is over instead), or dropped.
//!
//! A dropped effect neither happens nor returns; the run is then dropped too, which is
//! what a crash at that boundary looks like. Reading the clock is never parked.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fluzo_agent::{
    Answer, AppendError, Effects, Halt, HumanEffect, Intent, JournalEffect, ModelEffect, Outcome,
    Permit, Question, Record, TimeEffect, ToolContext, ToolEffect, ToolError, ToolFailure,
};
use fluzo_llm::{
    AbortSignal, BoxFuture, EventStream, Message, ModelRequest, StreamError, StreamErrorKind,
    StreamEvent, ToolOutput,
};
use futures_util::Stream;

use crate::spans::{APPEND, ASK, REQUEST_MODEL, RUN_TOOL, SLEEP};

/// Holds the effects that wait.
#[derive(Clone, Default)]
pub struct ManualDrive(Arc<Mutex<Parked>>);

#[derive(Default)]
struct Parked {
    next: u64,
    waiting: VecDeque<Place>,
}

struct Place {
    ticket: u64,
    name: String,
    verdict: Option<Verdict>,
    waker: Option<Waker>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    Release,
    Fail(String),
    Halt(String),
    Drop,
}

impl ManualDrive {
    /// Nothing waits yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names of the effects that wait, in the order they came.
    ///
    /// `append:ROLE` or `append:ROLE:CALL` of messages, `append:intent:…` and
    /// `append:outcome:…`, `request_model`, `stream:EVENT` (`stream:end` for a stream
    /// that just ends), `run_tool:CALL`, `ask:CALL`, `sleep`.
    pub fn parked(&self) -> Vec<String> {
        self.with(|parked| {
            let waiting = parked
                .waiting
                .iter()
                .filter(|place| place.verdict.is_none());
            waiting.map(|place| place.name.clone()).collect()
        })
    }

    /// Lets the oldest effect of that name happen. False when none waits.
    pub fn release(&self, name: &str) -> bool {
        self.decide(name, Verdict::Release)
    }

    /// Makes the oldest effect of that name fail without happening.
    pub fn fail(&self, name: &str, text: &str) -> bool {
        self.decide(name, Verdict::Fail(text.to_owned()))
    }

    /// Makes the oldest effect of that name halt the run without happening.
    pub fn halt(&self, name: &str, text: &str) -> bool {
        self.decide(name, Verdict::Halt(text.to_owned()))
    }

    /// Drops the oldest effect of that name: it neither happens nor returns.
    pub fn drop_effect(&self, name: &str) -> bool {
        self.decide(name, Verdict::Drop)
    }

    /// Puts `effects` under this drive.
    pub fn wrap(&self, effects: Effects) -> Effects {
        Effects {
            model: Arc::new(Driven {
                drive: self.clone(),
                inner: effects.model,
            }),
            tools: Arc::new(Driven {
                drive: self.clone(),
                inner: effects.tools,
            }),
            human: Arc::new(Driven {
                drive: self.clone(),
                inner: effects.human,
            }),
            time: Arc::new(Driven {
                drive: self.clone(),
                inner: effects.time,
            }),
            journal: Arc::new(Driven {
                drive: self.clone(),
                inner: effects.journal,
            }),
        }
    }

    fn decide(&self, name: &str, verdict: Verdict) -> bool {
        let waker = self.with(|parked| {
            let open = |place: &&mut Place| place.name == name && place.verdict.is_none();
            parked.waiting.iter_mut().find(open).map(|place| {
                place.verdict = Some(verdict);
                place.waker.take()
            })
        });
        if let Some(Some(waker)) = &waker {
            waker.wake_by_ref();
        }
        waker.is_some()
    }

    fn park(&self, name: String) -> Park {
        Park {
            drive: self.clone(),
            name,
            ticket: None,
        }
    }

    fn with<R>(&self, f: impl FnOnce(&mut Parked) -> R) -> R {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Waits for the verdict on one effect. The effect is listed from the first poll on.
struct Park {
    drive: ManualDrive,
    name: String,
    ticket: Option<u64>,
}

impl Future for Park {
    type Output = Verdict;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Verdict> {
        let this = &mut *self;
        let (name, ticket) = (&this.name, &mut this.ticket);
        this.drive.with(|parked| {
            let ticket = *ticket.get_or_insert_with(|| {
                parked.next += 1;
                let place = Place {
                    ticket: parked.next,
                    name: name.clone(),
                    verdict: None,
                    waker: None,
                };
                parked.waiting.push_back(place);
                parked.next
            });
            let Some(at) = parked
                .waiting
                .iter()
                .position(|place| place.ticket == ticket)
            else {
                return Poll::Pending;
            };
            match &parked.waiting[at].verdict {
                None => {
                    parked.waiting[at].waker = Some(context.waker().clone());
                    Poll::Pending
                }
                Some(Verdict::Drop) => Poll::Pending,
                Some(verdict) => {
                    let verdict = verdict.clone();
                    parked.waiting.remove(at);
                    Poll::Ready(verdict)
                }
            }
        })
    }
}

impl Drop for Park {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.drive
                .with(|parked| parked.waiting.retain(|place| place.ticket != ticket));
        }
    }
}

struct Driven<E: ?Sized> {
    drive: ManualDrive,
    inner: Arc<E>,
}

impl ModelEffect for Driven<dyn ModelEffect> {
    fn request<'a>(
        &'a self,
        request: ModelRequest,
        abort: AbortSignal,
    ) -> BoxFuture<'a, Result<EventStream, Halt>> {
        Box::pin(async move {
            match self.drive.park(REQUEST_MODEL.to_owned()).await {
                Verdict::Fail(text) => {
                    let event =
                        StreamEvent::failure(StreamError::new(StreamErrorKind::Transient, text));
                    Ok(
                        Box::pin(futures_util::stream::once(std::future::ready(event)))
                            as EventStream,
                    )
                }
                Verdict::Halt(text) => Err(Halt::Stopped(text)),
                _ => {
                    let inner = self.inner.request(request, abort).await?;
                    Ok(Box::pin(DrivenStream {
                        drive: self.drive.clone(),
                        inner,
                        held: None,
                    }) as EventStream)
                }
            }
        })
    }
}

/// Parks every item after the server has sent it and before the loop sees it.
struct DrivenStream {
    drive: ManualDrive,
    inner: EventStream,
    held: Option<(Option<StreamEvent>, Park)>,
}

impl Stream for DrivenStream {
    type Item = StreamEvent;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<StreamEvent>> {
        let this = &mut *self;
        if this.held.is_none() {
            let Poll::Ready(event) = this.inner.as_mut().poll_next(context) else {
                return Poll::Pending;
            };
            let park = this.drive.park(format!(
                "stream:{}",
                event.as_ref().map_or("end", StreamEvent::name)
            ));
            this.held = Some((event, park));
        }
        let Some((event, park)) = &mut this.held else {
            return Poll::Pending;
        };
        let Poll::Ready(verdict) = Pin::new(park).poll(context) else {
            return Poll::Pending;
        };
        let event = event.take();
        this.held = None;
        Poll::Ready(match verdict {
            Verdict::Fail(text) | Verdict::Halt(text) => Some(StreamEvent::failure(
                StreamError::new(StreamErrorKind::Incomplete, text),
            )),
            _ => event,
        })
    }
}

impl ToolEffect for Driven<dyn ToolEffect> {
    fn run<'a>(
        &'a self,
        permit: Permit,
        context: ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        Box::pin(async move {
            match self
                .drive
                .park(format!("{RUN_TOOL}:{}", permit.call_id()))
                .await
            {
                Verdict::Fail(text) => Err(ToolFailure::Tool(ToolError::new(text))),
                Verdict::Halt(text) => Err(ToolFailure::Halt(Halt::Stopped(text))),
                _ => self.inner.run(permit, context).await,
            }
        })
    }
}

impl HumanEffect for Driven<dyn HumanEffect> {
    fn ask<'a>(&'a self, question: Question) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            match self.drive.park(format!("{ASK}:{}", question.call_id)).await {
                Verdict::Fail(reason) | Verdict::Halt(reason) => Answer::Deny { reason },
                _ => self.inner.ask(question).await,
            }
        })
    }
}

impl TimeEffect for Driven<dyn TimeEffect> {
    fn now_ms(&self) -> i64 {
        self.inner.now_ms()
    }

    fn sleep<'a>(&'a self, duration: Duration) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            // A released wait is over at once: the test decides what time it is.
            let _ = duration;
            self.drive.park(SLEEP.to_owned()).await;
        })
    }
}

impl JournalEffect for Driven<dyn JournalEffect> {
    fn append<'a>(&'a self, record: Record) -> BoxFuture<'a, Result<(), AppendError>> {
        Box::pin(async move {
            match self.drive.park(record_name(&record)).await {
                Verdict::Fail(text) | Verdict::Halt(text) => Err(AppendError(text)),
                _ => self.inner.append(record).await,
            }
        })
    }
}

fn record_name(record: &Record) -> String {
    match record {
        Record::Message(message) => match &**message {
            Message::ToolResult(result) => format!("{APPEND}:toolResult:{}", result.tool_call_id),
            other => format!("{APPEND}:{}", other.role()),
        },
        Record::Intent(Intent::RequestModel { .. }) => format!("{APPEND}:intent:{REQUEST_MODEL}"),
        Record::Intent(Intent::RunTool { call_id, .. }) => {
            format!("{APPEND}:intent:{RUN_TOOL}:{call_id}")
        }
        Record::Outcome(Outcome::RequestModel { .. }) => {
            format!("{APPEND}:outcome:{REQUEST_MODEL}")
        }
        Record::Outcome(Outcome::RunTool { call_id, .. }) => {
            format!("{APPEND}:outcome:{RUN_TOOL}:{call_id}")
        }
    }
}
