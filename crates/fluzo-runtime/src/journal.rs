//! What is stored of a run, and the intents and outcomes around its effects.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use fluzo_agent::{
    AppendError, Halt, Intent, JournalEffect, ModelEffect, Outcome, Permit, Record, TimeEffect,
    ToolContext, ToolEffect, ToolFailure,
};
use fluzo_llm::{
    AbortSignal, BoxFuture, EventStream, ModelRequest, StreamError, StreamErrorKind, StreamEvent,
    ToolOutput,
};
use fluzo_session::Session;
use fluzo_stdx::error::with_causes;
use futures_util::Stream;

/// Stores messages in a session. It keeps no journal: in the open profile the
/// assistant entry is the intent of its calls and the result entry their outcome.
pub struct SessionJournal {
    session: Arc<Session>,
    time: Arc<dyn TimeEffect>,
}

impl SessionJournal {
    /// Appends to `session` at its leaf.
    pub fn new(session: Arc<Session>, time: Arc<dyn TimeEffect>) -> Self {
        Self { session, time }
    }
}

impl JournalEffect for SessionJournal {
    fn append<'a>(&'a self, record: Record) -> BoxFuture<'a, Result<(), AppendError>> {
        Box::pin(async move {
            let Record::Message(message) = record else {
                return Ok(());
            };
            let appended = self.session.append_message(message, self.time.now_ms());
            appended
                .map(|_| ())
                .map_err(|error| AppendError(with_causes(&error)))
        })
    }
}

/// Records an intent before each request and its outcome after.
pub struct RecordedModel {
    inner: Arc<dyn ModelEffect>,
    journal: Arc<dyn JournalEffect>,
}

impl RecordedModel {
    /// Records the requests of `inner` in `journal`.
    pub fn new(inner: Arc<dyn ModelEffect>, journal: Arc<dyn JournalEffect>) -> Self {
        Self { inner, journal }
    }
}

impl ModelEffect for RecordedModel {
    fn request<'a>(
        &'a self,
        request: ModelRequest,
        abort: AbortSignal,
    ) -> BoxFuture<'a, Result<EventStream, Halt>> {
        Box::pin(async move {
            let model = format!("{}/{}", request.model.provider, request.model.id);
            self.journal
                .append(Record::Intent(Intent::RequestModel { model }))
                .await?;
            let inner = self.inner.request(request, abort).await?;
            let journal = Arc::clone(&self.journal);
            Ok(Box::pin(RecordedStream {
                inner,
                journal,
                ending: None,
                ended: false,
            }) as EventStream)
        })
    }
}

/// Holds back the last event until the outcome is stored.
struct RecordedStream {
    inner: EventStream,
    journal: Arc<dyn JournalEffect>,
    ending: Option<BoxFuture<'static, StreamEvent>>,
    ended: bool,
}

impl Stream for RecordedStream {
    type Item = StreamEvent;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<StreamEvent>> {
        if self.ended {
            return Poll::Ready(None);
        }
        if self.ending.is_none() {
            match self.inner.as_mut().poll_next(context) {
                Poll::Ready(Some(event)) if event.is_last() => {
                    let journal = Arc::clone(&self.journal);
                    self.ending = Some(Box::pin(async move { settle(&*journal, event).await }));
                }
                other => return other,
            }
        }
        let polled = match &mut self.ending {
            Some(ending) => ending.as_mut().poll(context),
            None => Poll::Pending,
        };
        self.ended = polled.is_ready();
        polled.map(Some)
    }
}

/// A response whose outcome cannot be stored ends in an error that halts the run.
async fn settle(journal: &dyn JournalEffect, event: StreamEvent) -> StreamEvent {
    let ok = matches!(event, StreamEvent::Done(_));
    match journal
        .append(Record::Outcome(Outcome::RequestModel { ok }))
        .await
    {
        Ok(()) => event,
        Err(error) => StreamEvent::failure(StreamError::new(StreamErrorKind::Unrecorded, error.0)),
    }
}

/// Records an intent before each tool run and its outcome after.
pub struct RecordedTools {
    inner: Arc<dyn ToolEffect>,
    journal: Arc<dyn JournalEffect>,
}

impl RecordedTools {
    /// Records the runs of `inner` in `journal`.
    pub fn new(inner: Arc<dyn ToolEffect>, journal: Arc<dyn JournalEffect>) -> Self {
        Self { inner, journal }
    }
}

impl ToolEffect for RecordedTools {
    fn run<'a>(
        &'a self,
        permit: Permit,
        context: ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        Box::pin(async move {
            let call_id = permit.call_id().to_owned();
            let intent = Intent::RunTool {
                call_id: call_id.clone(),
                tool: permit.tool_name().to_owned(),
                accesses: permit.accesses().to_vec(),
            };
            self.journal
                .append(Record::Intent(intent))
                .await
                .map_err(Halt::from)?;
            let result = self.inner.run(permit, context).await;
            let outcome = Outcome::RunTool {
                call_id,
                ok: result.is_ok(),
            };
            self.journal
                .append(Record::Outcome(outcome))
                .await
                .map_err(Halt::from)?;
            result
        })
    }
}
