//! The tool calls of one response.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use fluzo_llm::{
    AbortSignal, AgentEvent, BoxFuture, Content, Message, ToolCall, ToolOutput, ToolResultMessage,
};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::call::{self, Finished, Ready};
use super::run::Running;
use crate::loop_guard::Seen;
use crate::updates::Inbox;
use crate::{ExecutionMode, Halt, Looping, Repetition};

/// What a batch came to.
pub(super) struct Batch {
    /// Result messages in source order.
    pub(super) results: Vec<Arc<Message>>,
    /// Every result asks that the run end.
    pub(super) terminate: bool,
    /// The model only repeats itself.
    pub(super) looping: Option<Looping>,
}

/// Runs the calls of one response; each gets exactly one result.
pub(super) async fn run(running: &mut Running, calls: Vec<ToolCall>) -> Result<Batch, Halt> {
    if is_sequential(running, &calls) {
        sequential(running, calls).await
    } else {
        parallel(running, calls).await
    }
}

fn is_sequential(running: &Running, calls: &[ToolCall]) -> bool {
    let alone = |call: &ToolCall| {
        let tool = running.context.tools.find(&call.name);
        tool.is_some_and(|tool| tool.execution_mode() == ExecutionMode::Sequential)
    };
    running.shared.options.execution == ExecutionMode::Sequential || calls.iter().any(alone)
}

async fn sequential(running: &mut Running, calls: Vec<ToolCall>) -> Result<Batch, Halt> {
    let mut done = Done::new(calls.len());
    for (index, call) in calls.iter().enumerate() {
        let mut flights = Flights::new(running);
        begin(running, index, &calls, &mut flights, &mut done).await;
        flights.land(running, &calls, &mut done).await?;
        done.store(running, index, call).await?;
    }
    Ok(done.into_batch())
}

async fn parallel(running: &mut Running, calls: Vec<ToolCall>) -> Result<Batch, Halt> {
    let mut done = Done::new(calls.len());
    let mut flights = Flights::new(running);
    for index in 0..calls.len() {
        begin(running, index, &calls, &mut flights, &mut done).await;
    }
    flights.land(running, &calls, &mut done).await?;
    for (index, call) in calls.iter().enumerate() {
        done.store(running, index, call).await?;
    }
    Ok(done.into_batch())
}

/// Takes a call up: it either ends at once or is ready to run.
async fn begin(
    running: &Running,
    index: usize,
    calls: &[ToolCall],
    flights: &mut Flights,
    done: &mut Done,
) {
    let call = &calls[index];
    running
        .show(AgentEvent::ToolExecutionStart {
            call_id: call.id.clone(),
            tool_name: call.name.clone(),
            args: call.arguments.clone(),
        })
        .await;
    if calls[..index].iter().any(|earlier| earlier.id == call.id) {
        // A model is told of one call for each id, so this one's effect would stay unknown to it.
        return done.end(running, index, call, call::repeated(call)).await;
    }
    if let Some(looping) = &done.looping {
        return done
            .end(running, index, call, call::left_out(looping))
            .await;
    }
    match call::preflight(running, call).await {
        Ok(ready) => flights.add(running, index, call, ready),
        Err(finished) => done.end(running, index, call, finished).await,
    }
}

/// Calls that are running, side by side inside the run's own future.
struct Flights {
    flying: FuturesUnordered<BoxFuture<'static, (usize, Result<Finished, Halt>)>>,
    inbox: Inbox,
    abort: AbortSignal,
}

enum Step {
    Update(usize, ToolOutput),
    Landed(usize, Result<Finished, Halt>),
    AllLanded,
}

impl Flights {
    fn new(running: &Running) -> Self {
        Self {
            flying: FuturesUnordered::new(),
            inbox: Inbox::default(),
            abort: running.abort.child_token(),
        }
    }

    fn add(&mut self, running: &Running, index: usize, call: &ToolCall, ready: Ready) {
        let work = call::execute(
            Arc::clone(&running.shared),
            call.clone(),
            ready,
            self.abort.clone(),
            self.inbox.sink(index),
        );
        self.flying
            .push(Box::pin(async move { (index, work.await) }));
    }

    /// Shows updates and ends as they come, until all calls have ended. When one halts,
    /// the others are told to stop and dropped, which ends what they started.
    async fn land(
        mut self,
        running: &Running,
        calls: &[ToolCall],
        done: &mut Done,
    ) -> Result<(), Halt> {
        loop {
            match poll_fn(|context| self.poll_step(context)).await {
                Step::Update(index, partial) => {
                    done.update(running, index, &calls[index], partial).await
                }
                Step::Landed(index, finished) => {
                    while let Some((index, partial)) = self.inbox.take() {
                        done.update(running, index, &calls[index], partial).await;
                    }
                    match finished {
                        Ok(finished) => done.end(running, index, &calls[index], finished).await,
                        Err(halt) => {
                            self.abort.cancel();
                            return Err(halt);
                        }
                    }
                }
                Step::AllLanded => return Ok(()),
            }
        }
    }

    /// Running tools come first, so that an update sent in the poll that completes the
    /// call is there to be drained before the call's end is shown.
    fn poll_step(&mut self, context: &mut Context<'_>) -> Poll<Step> {
        match self.flying.poll_next_unpin(context) {
            Poll::Ready(Some((index, finished))) => Poll::Ready(Step::Landed(index, finished)),
            Poll::Ready(None) => Poll::Ready(Step::AllLanded),
            Poll::Pending => self
                .inbox
                .poll_take(context)
                .map(|(index, partial)| Step::Update(index, partial)),
        }
    }
}

/// Calls that have ended.
struct Done {
    finished: Vec<Option<Finished>>,
    results: Vec<Arc<Message>>,
    looping: Option<Looping>,
}

impl Done {
    fn new(calls: usize) -> Self {
        Self {
            finished: std::iter::repeat_with(|| None).take(calls).collect(),
            results: Vec::new(),
            looping: None,
        }
    }

    /// Shows a partial result, unless the call has ended: what a tool left behind may
    /// still hold its sink.
    async fn update(&self, running: &Running, index: usize, call: &ToolCall, partial: ToolOutput) {
        if self.finished[index].is_some() {
            return;
        }
        running
            .show(AgentEvent::ToolExecutionUpdate {
                call_id: call.id.clone(),
                tool_name: call.name.clone(),
                args: call.arguments.clone(),
                partial,
            })
            .await;
    }

    async fn end(&mut self, running: &Running, index: usize, call: &ToolCall, finished: Finished) {
        running
            .show(AgentEvent::ToolExecutionEnd {
                call_id: call.id.clone(),
                tool_name: call.name.clone(),
                result: finished.output.clone(),
                is_error: finished.is_error,
            })
            .await;
        self.finished[index] = Some(finished);
    }

    /// Stores and shows the result message of a call.
    async fn store(
        &mut self,
        running: &mut Running,
        index: usize,
        call: &ToolCall,
    ) -> Result<(), Halt> {
        let Some(finished) = &self.finished[index] else {
            return Ok(());
        };
        let mut message = finished.message(call, running.now());
        if let Some(repetition) = watch(running, call, &message).filter(|_| self.looping.is_none())
        {
            add_line(&mut message, repetition);
            self.looping = repetition.stops().then(|| Looping {
                tool: call.name.clone(),
                repetition,
            });
        }
        let message = Arc::new(Message::ToolResult(message));
        running
            .show(AgentEvent::MessageStart {
                message: Arc::clone(&message),
            })
            .await;
        running.finish(Arc::clone(&message)).await?;
        self.results.push(message);
        Ok(())
    }

    fn into_batch(self) -> Batch {
        let asks =
            |finished: &Option<Finished>| finished.as_ref().is_some_and(|f| f.output.terminate);
        Batch {
            terminate: !self.finished.is_empty() && self.finished.iter().all(asks),
            results: self.results,
            looping: self.looping,
        }
    }
}

/// What the guard has to tell of a call that has ended. Calls are looked at in source order; one
/// that ended under an abort says nothing of the model.
fn watch(running: &Running, call: &ToolCall, result: &ToolResultMessage) -> Option<Repetition> {
    if !running.shared.options.loop_guard {
        return None;
    }
    let mut guard = running.shared.guard();
    if running.abort.is_cancelled() {
        guard.reset();
        return None;
    }
    let tool = running.context.tools.find(&call.name);
    let repetition = guard.observe(&Seen {
        call,
        content: &result.content,
        details: result.details.as_ref(),
        is_error: result.is_error,
        edits: tool.is_some_and(|tool| tool.edits()),
    });
    Some(repetition).filter(|repetition| repetition.is_told())
}

fn add_line(result: &mut ToolResultMessage, repetition: Repetition) {
    let line = repetition.line();
    match result.content.last_mut() {
        Some(Content::Text(block)) if block.text.is_empty() => block.text = line,
        Some(Content::Text(block)) => {
            block.text.push_str("\n\n");
            block.text.push_str(&line);
        }
        _ => result.content.push(Content::text(line)),
    }
}
