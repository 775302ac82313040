//! Drives one request from sending to its last event, whatever the dialect.
//!
//! The driver owns time, abort and the connection; a [`Reader`] owns the meaning of bytes.
//! Nothing is spawned: dropping the stream drops the connection.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use fluzo_llm::{
    AbortSignal, BoxFuture, EventStream, Finish, FormSwitch, StreamError, StreamErrorKind,
    StreamEvent,
};
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use tokio::time::{Instant, timeout_at};

use crate::assemble::Events;
use crate::failure::{self, Context, ERROR_BODY_LIMIT};
use crate::http::Answer;
use crate::limits::{Limit, Limits};
use crate::quirks;

/// The most that is read after the dialect's own end, so that the connection can be kept.
const DRAIN_BYTES: usize = 64 * 1024;

/// How long that may take; a server that keeps the response open loses the connection.
const DRAIN_TIME: Duration = Duration::from_millis(100);

/// How long a response that has said why it ended may stay open for what follows, such as usage.
const AFTER_END: Duration = Duration::from_secs(10);

/// What bytes of a response mean.
pub(crate) trait Reader: Send {
    /// Told before the first bytes what the server calls them.
    fn begin(&mut self, _content_type: Option<&str>) {}

    /// Reads the next bytes and queues the events they complete.
    fn push(&mut self, bytes: &[u8], out: &mut Events) -> Result<Progress, StreamError>;

    /// Judges the response. Queues the ends of all open blocks and exactly one last event.
    /// Called once.
    fn finish(&mut self, end: End, out: &mut Events);
}

/// How far a response has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The bytes carried something of the model, not only comments and empty events.
    pub alive: bool,
    /// There has been output of the model.
    pub output: bool,
    /// The response has said why it ended; little may follow.
    pub ending: bool,
    /// Nothing may follow.
    pub complete: bool,
}

/// Why no more bytes come.
#[derive(Debug)]
pub(crate) enum End {
    /// The body ended as it should, or the dialect's end was seen.
    Clean,
    /// The body broke off, or waiting for more of it took too long. What has come may still be whole.
    Cut(StreamError),
    /// The response is a failure whatever has come.
    Failed(StreamError),
}

/// One request.
pub(crate) struct Exchange {
    pub send: BoxFuture<'static, Result<Answer, StreamError>>,
    pub url: reqwest::Url,
    pub limits: Limits,
    pub abort: AbortSignal,
    pub context: Context,
    pub reader: Box<dyn Reader>,
    pub asked: Asked,
}

/// What of the request counts for the judgement of its response.
pub(crate) struct Asked {
    /// The context window of the model, in tokens.
    pub window: u64,
    /// The first of the switches that would change the request.
    pub other_form: OtherForm,
}

/// Chooses among switches.
pub(crate) type OtherForm = Box<dyn Fn(&[FormSwitch]) -> Option<FormSwitch> + Send>;

/// The events of `exchange`. Nothing is sent before the first poll.
pub(crate) fn drive(exchange: Exchange) -> EventStream {
    let Exchange {
        send,
        url,
        limits,
        abort,
        context,
        reader,
        asked,
    } = exchange;
    let driver = Driver {
        phase: Phase::Sending(send),
        url,
        abort,
        context,
        reader,
        asked,
        clock: LimitClock {
            limits,
            began: None,
            last: None,
            progress: Progress::default(),
        },
        received: 0,
        silent: false,
        queue: Events::new(),
        opened: 0,
        handed_out: false,
        judged: false,
    };
    let events = stream::unfold(driver, |mut driver| async move {
        driver.next().await.map(|event| (event, driver))
    });
    // Polled again after its end, it stays at its end.
    Box::pin(events.fuse())
}

type Body = BoxStream<'static, Result<Bytes, StreamError>>;

enum Phase {
    Sending(BoxFuture<'static, Result<Answer, StreamError>>),
    Reading(Body),
    Draining(Body),
    Over,
}

struct Driver {
    phase: Phase,
    url: reqwest::Url,
    abort: AbortSignal,
    context: Context,
    reader: Box<dyn Reader>,
    asked: Asked,
    clock: LimitClock,
    received: u64,
    /// A good answer ended as it should and had no byte.
    silent: bool,
    queue: Events,
    /// Blocks whose start has been delivered.
    opened: usize,
    /// Something has been delivered since the last read.
    handed_out: bool,
    /// The reader has judged the response.
    judged: bool,
}

impl Driver {
    async fn next(&mut self) -> Option<StreamEvent> {
        loop {
            if self.abort.is_cancelled() && !matches!(self.phase, Phase::Over) {
                self.abort_now();
            }
            if let Some(event) = self.queue.pop_front() {
                return Some(self.deliver(event));
            }
            match std::mem::replace(&mut self.phase, Phase::Over) {
                Phase::Sending(send) => self.send(send).await,
                Phase::Reading(body) => self.read(body).await,
                Phase::Draining(body) => self.drain(body).await,
                Phase::Over => return None,
            }
        }
    }

    fn deliver(&mut self, event: StreamEvent) -> StreamEvent {
        self.handed_out = true;
        let mut event = self.context.scrub(event);
        self.complete(&mut event);
        match &event {
            StreamEvent::TextStart { .. }
            | StreamEvent::ThinkingStart { .. }
            | StreamEvent::ToolCallStart { .. } => self.opened += 1,
            last if last.is_last() => self.phase = Phase::Over,
            _ => {}
        }
        event
    }

    /// Says of a last event what only the request tells: that it did not fit although nobody
    /// said so, and that another form of it may be taken where this one was refused.
    fn complete(&self, event: &mut StreamEvent) {
        match event {
            StreamEvent::Done(finish) => {
                finish.overflow = finish
                    .usage
                    .overflows(&finish.stop_reason, self.asked.window);
            }
            StreamEvent::Failed(finish) if self.opened == 0 => {
                let Some(error) = &mut finish.error else {
                    return;
                };
                let candidates = quirks::candidates(error, self.silent);
                if let Some(switch) = (self.asked.other_form)(&candidates) {
                    error.kind = StreamErrorKind::FormRefused;
                    error.alternative = Some(switch);
                }
            }
            _ => {}
        }
    }

    async fn send(&mut self, mut send: BoxFuture<'static, Result<Answer, StreamError>>) {
        self.clock.start();
        let answer = match wait(&self.abort, &self.clock, &mut send).await {
            Err(error) => return self.judge(End::Failed(error)),
            Ok(Err(error)) => return self.judge(End::Failed(error)),
            Ok(Ok(answer)) => answer,
        };
        drop(send);
        match answer.status {
            200..=299 => {
                let content_type = answer.headers.get("content-type");
                self.reader
                    .begin(content_type.and_then(|value| value.to_str().ok()));
                self.queue.push_back(StreamEvent::Start);
                self.phase = Phase::Reading(answer.body);
            }
            300..=399 => {
                let error = failure::redirect(answer.status, &answer.headers, &self.url);
                self.judge(End::Failed(error));
            }
            status => {
                let body = self.error_body(answer.body).await;
                match body {
                    Err(error) => self.judge(End::Failed(error)),
                    Ok((body, limit)) => {
                        let mut error = self.context.http(status, &answer.headers, &body);
                        if let Some(limit) = limit {
                            error.message += &format!(" (more of it was awaited; {limit})");
                        }
                        self.judge(End::Failed(error));
                    }
                }
            }
        }
    }

    /// The body of a refused request, and the limit that ended it, if one did. A body that
    /// breaks off counts as far as it came.
    async fn error_body(
        &mut self,
        mut body: Body,
    ) -> Result<(Vec<u8>, Option<StreamError>), StreamError> {
        let (mut bytes, mut limit) = (Vec::new(), None);
        self.clock.note(Progress {
            alive: true,
            ending: true,
            ..Progress::default()
        });
        while bytes.len() < ERROR_BODY_LIMIT {
            let set = self.clock.limits.idle;
            let next = self.clock.next_deadline();
            let capped = matches!(next, Some((Limit::Idle, _, span)) if Some(span) != set);
            match wait(&self.abort, &self.clock, body.next()).await {
                Err(error) if error.kind == StreamErrorKind::Aborted => return Err(error),
                Ok(Some(Ok(part))) => bytes.extend_from_slice(&part),
                Err(reached) => {
                    // The patience of this place is nobody's setting.
                    limit = (!capped).then_some(reached);
                    break;
                }
                Ok(_) => break,
            }
        }
        bytes.truncate(ERROR_BODY_LIMIT);
        Ok((bytes, limit))
    }

    async fn read(&mut self, mut body: Body) {
        if std::mem::take(&mut self.handed_out) {
            self.clock.resume();
        }
        let part = match wait(&self.abort, &self.clock, body.next()).await {
            Ok(Some(Ok(part))) => part,
            Ok(Some(Err(error))) => return self.judge(End::Cut(error)),
            Ok(None) => {
                self.silent = self.received == 0;
                return self.judge(End::Clean);
            }
            Err(error) if error.kind == StreamErrorKind::Timeout => {
                return self.judge(End::Cut(error));
            }
            Err(error) => return self.judge(End::Failed(error)),
        };
        self.received += part.len() as u64;
        if self.received > self.clock.limits.max_response_bytes {
            return self.judge(End::Failed(too_large(self.clock.limits.max_response_bytes)));
        }
        match self.reader.push(&part, &mut self.queue) {
            Err(error) => self.judge(End::Failed(error)),
            Ok(progress) => {
                self.clock.note(progress);
                self.phase = if progress.complete {
                    Phase::Draining(body)
                } else {
                    Phase::Reading(body)
                };
            }
        }
    }

    async fn drain(&mut self, mut body: Body) {
        let rest = async {
            let mut drained = 0;
            while let Some(Ok(part)) = body.next().await {
                drained += part.len();
                if drained > DRAIN_BYTES {
                    break;
                }
            }
        };
        let deadline = Instant::now() + DRAIN_TIME;
        // An abort, a late end and an end in time are all the same here.
        let _ = self
            .abort
            .run_until_cancelled(timeout_at(deadline, rest))
            .await;
        self.judge(End::Clean);
    }

    fn judge(&mut self, end: End) {
        self.judged = true;
        self.reader.finish(end, &mut self.queue);
        // The phase stays open until the last event is delivered: an abort before that counts.
        self.phase = Phase::Reading(stream::empty().boxed());
    }

    /// Ends the stream here: what has not been delivered is dropped, blocks that have been
    /// opened are closed.
    fn abort_now(&mut self) {
        if !self.judged {
            self.queue.clear();
            self.judge(End::Failed(StreamError::aborted()));
        }
        let opened = self.opened;
        self.queue.retain(|event| match event {
            StreamEvent::TextEnd { index, .. }
            | StreamEvent::ThinkingEnd { index, .. }
            | StreamEvent::ToolCallEnd { index, .. } => *index < opened,
            other => other.is_last(),
        });
        if let Some(StreamEvent::Done(finish) | StreamEvent::Failed(finish)) = self.queue.pop_back()
        {
            let aborted = Finish {
                response_id: finish.response_id,
                response_model: finish.response_model,
                ..Finish::failed(StreamError::aborted(), finish.usage)
            };
            self.queue.push_back(StreamEvent::Failed(Box::new(aborted)));
        }
        self.phase = Phase::Over;
    }
}

/// Waits for `work` until the abort signal or a limit fires.
async fn wait<T>(
    abort: &AbortSignal,
    clock: &LimitClock,
    work: impl Future<Output = T>,
) -> Result<T, StreamError> {
    let limited = async {
        let Some((limit, deadline, span)) = clock.next_deadline() else {
            return Ok(work.await);
        };
        timeout_at(deadline, work)
            .await
            .map_err(|_| clock.limits.error(limit, span))
    };
    abort
        .run_until_cancelled(limited)
        .await
        .unwrap_or_else(|| Err(StreamError::aborted()))
}

fn too_large(limit: u64) -> StreamError {
    StreamError::new(
        StreamErrorKind::TooLarge,
        format!("the response is larger than {limit} bytes"),
    )
}

/// Knows which limit in time fires next.
struct LimitClock {
    limits: Limits,
    began: Option<Instant>,
    last: Option<Instant>,
    progress: Progress,
}

impl LimitClock {
    fn start(&mut self) {
        let now = Instant::now();
        (self.began, self.last) = (Some(now), Some(now));
    }

    /// Time that the consumer spent on what it was given is no silence of the server.
    fn resume(&mut self) {
        self.last = Some(Instant::now());
    }

    fn note(&mut self, progress: Progress) {
        if progress.alive || self.limits.keepalive_counts {
            self.last = Some(Instant::now());
        }
        self.progress.output |= progress.output;
        self.progress.ending |= progress.ending;
    }

    fn next_deadline(&self) -> Option<(Limit, Instant, Duration)> {
        let (began, last) = (self.began?, self.last?);
        let row = |limit: Limit, from: Instant, span: Option<Duration>| {
            span.map(|span| (limit, from + span, span))
        };
        let phase = if self.progress.output || self.progress.ending {
            let idle = match self.limits.idle {
                _ if !self.progress.ending => self.limits.idle,
                idle => Some(idle.map_or(AFTER_END, |idle| idle.min(AFTER_END))),
            };
            row(Limit::Idle, last, idle)
        } else {
            row(Limit::FirstOutput, began, self.limits.first_output)
        };
        let total = row(Limit::Total, began, self.limits.total);
        phase
            .into_iter()
            .chain(total)
            .min_by_key(|(_, deadline, _)| *deadline)
    }
}

#[cfg(test)]
#[path = "drive_tests.rs"]
mod tests;
