//! The loop of one run: turns until nothing is left to do.

use std::sync::Arc;

use fluzo_llm::{
    AbortSignal, AgentEvent, AssistantMessage, Message, StreamError, StreamErrorKind, ToolCall,
};

use super::{Claim, Shared, batch, response};
use crate::queue::{Lane, Taken};
use crate::{Halt, NextTurn, Record, RunContext, RunEnd, RunOutcome, TurnInfo};

/// A run in progress.
pub(super) struct Running {
    pub(super) shared: Arc<Shared>,
    pub(super) abort: AbortSignal,
    pub(super) context: RunContext,
    added: Vec<Arc<Message>>,
}

/// Drives a run to its end. The claim is given back last, after all listeners.
///
/// `poll_first` is false when the prompt itself came from the steering queue.
pub(super) async fn drive(
    claim: Claim,
    context: RunContext,
    prompt: Taken,
    poll_first: bool,
) -> RunOutcome {
    let mut running = Running {
        shared: Arc::clone(&claim.shared),
        abort: claim.abort.clone(),
        context,
        added: Vec::new(),
    };
    let end = running
        .turns(prompt, poll_first)
        .await
        .unwrap_or_else(RunEnd::Halted);
    if let RunEnd::Halted(halt) = &end {
        // Whatever still runs must not go on without being recorded.
        claim.abort.cancel();
        let text = halt.to_string();
        running
            .shared
            .state
            .change(|state| (state.error_message, state.error) = (Some(text), None));
    }
    running
        .show(AgentEvent::AgentEnd {
            messages: running.added.clone(),
        })
        .await;
    claim.give_back();
    RunOutcome {
        end,
        messages: running.added,
    }
}

impl Running {
    async fn turns(&mut self, prompt: Taken, poll_first: bool) -> Result<RunEnd, Halt> {
        self.show(AgentEvent::AgentStart).await;
        self.show(AgentEvent::TurnStart).await;
        self.take_in(prompt).await?;
        let mut pending = if poll_first {
            self.poll(Lane::Steering)
        } else {
            nothing()
        };
        let mut first = true;
        loop {
            if !std::mem::take(&mut first) {
                self.show(AgentEvent::TurnStart).await;
            }
            self.take_in(std::mem::replace(&mut pending, nothing()))
                .await?;
            match self.turn().await? {
                Turn::Ended(end) => return Ok(end),
                Turn::More => pending = self.poll(Lane::Steering),
                Turn::Done => {
                    pending = self.poll(Lane::Steering);
                    if pending.is_empty() {
                        pending = self.poll(Lane::FollowUp);
                    }
                    if pending.is_empty() {
                        return Ok(RunEnd::Completed);
                    }
                }
            }
        }
    }

    /// One response with its tool calls.
    async fn turn(&mut self) -> Result<Turn, Halt> {
        let (message, error) = response::receive(self).await?;
        let Some(assistant) = message.as_assistant() else {
            return Ok(Turn::Ended(RunEnd::Completed));
        };
        if assistant.failed() {
            let end = failure(assistant, error);
            self.show(AgentEvent::TurnEnd {
                message,
                tool_results: Vec::new(),
            })
            .await;
            return Ok(Turn::Ended(end));
        }
        let calls: Vec<ToolCall> = assistant.tool_calls().cloned().collect();
        let more = !calls.is_empty();
        let batch = batch::run(self, calls).await?;
        self.show(AgentEvent::TurnEnd {
            message: Arc::clone(&message),
            tool_results: batch.results.clone(),
        })
        .await;
        let turn = self.turn_info(&message, &batch.results);
        let next = self.shared.hooks.prepare_next_turn(turn).await;
        self.apply(next);
        if let Some(looping) = batch.looping.filter(|_| !self.is_steered()) {
            return Ok(Turn::Ended(RunEnd::Looping(looping)));
        }
        let turn = self.turn_info(&message, &batch.results);
        if self.shared.hooks.should_stop_after_turn(turn).await {
            return Ok(Turn::Ended(RunEnd::Stopped));
        }
        Ok(if more && !batch.terminate {
            Turn::More
        } else {
            Turn::Done
        })
    }

    fn turn_info<'a>(
        &'a self,
        message: &'a Arc<Message>,
        tool_results: &'a [Arc<Message>],
    ) -> TurnInfo<'a> {
        TurnInfo {
            message,
            tool_results,
            messages: &self.context.messages,
        }
    }

    /// After an abort nothing more is taken in; what waits keeps waiting.
    fn poll(&self, lane: Lane) -> Taken {
        if self.abort.is_cancelled() {
            return nothing();
        }
        self.shared.queues.poll(lane)
    }

    /// Whether somebody has something to say to the model before its next response.
    pub(super) fn is_steered(&self) -> bool {
        !self.shared.queues.snapshot().steering.is_empty()
    }

    async fn take_in(&mut self, mut messages: Taken) -> Result<(), Halt> {
        while let Some(message) = messages.next() {
            self.show(AgentEvent::MessageStart {
                message: Arc::clone(&message),
            })
            .await;
            self.store(&message).await?;
            messages.stored();
            if matches!(*message, Message::User(_)) {
                self.shared.guard().reset();
            }
            self.show(AgentEvent::MessageEnd { message }).await;
        }
        Ok(())
    }

    /// A message is complete: stored first, then part of the context, then shown.
    pub(super) async fn finish(&mut self, message: Arc<Message>) -> Result<(), Halt> {
        self.store(&message).await?;
        self.show(AgentEvent::MessageEnd { message }).await;
        Ok(())
    }

    async fn store(&mut self, message: &Arc<Message>) -> Result<(), Halt> {
        self.shared
            .effects
            .journal
            .append(Record::Message(Arc::clone(message)))
            .await?;
        self.context.messages.push(Arc::clone(message));
        self.added.push(Arc::clone(message));
        Ok(())
    }

    /// Reduces an event into the state, then shows it to the listeners.
    pub(super) async fn show(&self, event: AgentEvent) {
        self.shared.state.change(|state| state.reduce(&event));
        self.shared
            .listeners
            .notify(&event, &self.shared.state)
            .await;
    }

    pub(super) fn now(&self) -> i64 {
        self.shared.effects.time.now_ms()
    }

    fn apply(&mut self, next: NextTurn) {
        let context = &mut self.context;
        if let Some(messages) = next.messages {
            self.shared.guard().context(&messages);
            context.messages.clone_from(&messages);
            self.shared.state.change(|state| state.messages = messages);
        }
        context.system_prompt = next
            .system_prompt
            .unwrap_or_else(|| Arc::clone(&context.system_prompt));
        context.model = next.model.unwrap_or_else(|| Arc::clone(&context.model));
        context.thinking = next.thinking.unwrap_or(context.thinking);
        if let Some(tools) = next.tools {
            context.tools = tools;
        }
    }
}

fn nothing() -> Taken {
    Taken::given(Vec::new())
}

enum Turn {
    /// The run is over.
    Ended(RunEnd),
    /// Tool results wait for the model.
    More,
    /// The model has nothing more to do.
    Done,
}

fn failure(assistant: &AssistantMessage, error: Option<StreamError>) -> RunEnd {
    match error {
        Some(error) if error.kind == StreamErrorKind::Aborted => RunEnd::Aborted,
        Some(error) => RunEnd::Failed(error),
        None => {
            let text = assistant.error_message.clone().unwrap_or_default();
            RunEnd::Failed(StreamError::new(StreamErrorKind::Incomplete, text))
        }
    }
}
