//! One response: from request to finished message.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use fluzo_llm::{
    AbortSignal, AgentEvent, AssistantMessage, EventStream, Finish, Message, ModelRequest,
    RequestAuth, RequestOptions, StreamError, StreamErrorKind, StreamEvent, Transcript, Usage,
};

use futures_util::future::{Either, select};

use super::run::Running;
use crate::{AppendError, Halt};

/// Requests a response and shows it as it arrives. Returns the stored message and,
/// when it failed, the typed error.
pub(super) async fn receive(
    running: &mut Running,
) -> Result<(Arc<Message>, Option<StreamError>), Halt> {
    let begun = AssistantMessage::begin(&running.context.model, running.now());
    let mut receiver = Receiver {
        begun: begun.clone(),
        started: false,
    };
    let finish = if running.abort.is_cancelled() {
        // Nothing is sent any more; the text differs from that of a request that was cut off.
        Finish::failed(
            StreamError::new(StreamErrorKind::Aborted, "Request was aborted."),
            Usage::default(),
        )
    } else {
        let requested = running
            .shared
            .effects
            .model
            .request(request(running), running.abort.clone());
        match select(requested, pin!(running.abort.cancelled())).await {
            Either::Left((stream, _)) => receiver.read(running, stream?).await,
            Either::Right(_) => Finish::failed(StreamError::aborted(), Usage::default()),
        }
    };
    if let Some(error) = &finish.error
        && error.kind == StreamErrorKind::Unrecorded
    {
        return Err(Halt::Append(AppendError(error.message.clone())));
    }
    let message = receiver.finish(running, &finish).await;
    running
        .shared
        .state
        .change(|state| state.error.clone_from(&finish.error));
    running.finish(Arc::clone(&message)).await?;
    Ok((message, finish.error))
}

fn request(running: &Running) -> ModelRequest {
    let context = &running.context;
    ModelRequest {
        model: Arc::clone(&context.model),
        system_prompt: Arc::clone(&context.system_prompt),
        transcript: Transcript::from_context(&context.messages),
        tools: context.tools.specs(),
        options: RequestOptions {
            thinking: context.thinking,
            session_id: context.session_id.clone(),
            ..RequestOptions::default()
        },
        auth: RequestAuth::default(),
    }
}

struct Receiver {
    begun: AssistantMessage,
    started: bool,
}

impl Receiver {
    async fn read(&mut self, running: &Running, mut stream: EventStream) -> Finish {
        loop {
            match next(&mut stream, &running.abort).await {
                Some(StreamEvent::Start) => self.start(running).await,
                Some(StreamEvent::Done(finish) | StreamEvent::Failed(finish)) => return *finish,
                // Blocks may still be closed after an abort; a provider that goes on is left.
                Some(delta) if running.abort.is_cancelled() && !closes_a_block(&delta) => {
                    return Finish::failed(StreamError::aborted(), Usage::default());
                }
                Some(delta) => {
                    self.start(running).await;
                    running.show(AgentEvent::MessageUpdate { delta }).await;
                }
                None if running.abort.is_cancelled() => {
                    return Finish::failed(StreamError::aborted(), Usage::default());
                }
                None => {
                    let text = "the response ended without its last event";
                    return Finish::failed(
                        StreamError::new(StreamErrorKind::Incomplete, text),
                        Usage::default(),
                    );
                }
            }
        }
    }

    async fn start(&mut self, running: &Running) {
        if !std::mem::replace(&mut self.started, true) {
            let message = Arc::new(Message::Assistant(self.begun.clone()));
            running.show(AgentEvent::MessageStart { message }).await;
        }
    }

    /// Takes the partial out of the state and completes it. A response that never
    /// started is shown to start as what it ended up as.
    async fn finish(self, running: &Running, finish: &Finish) -> Arc<Message> {
        let partial = running
            .shared
            .state
            .change(|state| state.streaming_message.take());
        let mut message = partial.unwrap_or(self.begun);
        message.apply(&StreamEvent::Done(Box::new(finish.clone())));
        let message = Arc::new(Message::Assistant(message));
        if !self.started {
            running
                .show(AgentEvent::MessageStart {
                    message: Arc::clone(&message),
                })
                .await;
        }
        message
    }
}

fn closes_a_block(event: &StreamEvent) -> bool {
    use StreamEvent::{TextEnd, ThinkingEnd, ToolCallEnd};
    matches!(
        event,
        TextEnd { .. } | ThinkingEnd { .. } | ToolCallEnd { .. }
    )
}

/// The next event. A stream that does not end by itself after an abort is ended here,
/// so no provider can keep a run alive.
async fn next(stream: &mut EventStream, abort: &AbortSignal) -> Option<StreamEvent> {
    let mut aborted = pin!(abort.cancelled());
    poll_fn(|context| {
        if let Poll::Ready(event) = stream.as_mut().poll_next(context) {
            return Poll::Ready(event);
        }
        match aborted.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Some(StreamEvent::failure(StreamError::aborted()))),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
