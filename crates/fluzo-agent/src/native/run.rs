//! The loop of one run: turns until nothing is left to do.

use std::sync::Arc;

use fluzo_llm::{
    AbortSignal, AgentEvent, AssistantMessage, Message, StreamError, StreamErrorKind, ToolCall,
};

use super::{Claim, Shared, batch, response};
use crate::{Halt, NextTurn, Record, RunContext, RunEnd, RunOutcome, RunSpec, TurnInfo};

/// How a run begins.
#[derive(Clone, Copy, Debug)]
pub(super) enum Opening {
    /// With new messages.
    Prompt {
        /// The messages came from the steering queue, so it is not polled again at once.
        skip_first_poll: bool,
    },
    /// With what the transcript ends in.
    Continue,
}

/// A run in progress.
pub(super) struct Running {
    pub(super) shared: Arc<Shared>,
    pub(super) abort: AbortSignal,
    pub(super) context: RunContext,
    added: Vec<Arc<Message>>,
}

/// Drives a run to its end. The claim is given back last, after all listeners.
pub(super) async fn drive(claim: Claim, spec: RunSpec, opening: Opening) -> RunOutcome {
    let mut running = Running {
        shared: Arc::clone(&claim.shared),
        abort: claim.abort.clone(),
        context: spec.context,
        added: Vec::new(),
    };
    let end = running
        .turns(spec.prompt, opening)
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
    async fn turns(&mut self, prompt: Vec<Arc<Message>>, opening: Opening) -> Result<RunEnd, Halt> {
        self.show(AgentEvent::AgentStart).await;
        self.show(AgentEvent::TurnStart).await;
        self.take_in(prompt).await?;
        let skip = matches!(
            opening,
            Opening::Prompt {
                skip_first_poll: true
            }
        );
        let mut pending = if skip {
            Vec::new()
        } else {
            self.poll_steering()
        };
        let mut first = true;
        loop {
            if !std::mem::take(&mut first) {
                self.show(AgentEvent::TurnStart).await;
            }
            self.take_in(std::mem::take(&mut pending)).await?;
            match self.turn().await? {
                Turn::Ended(end) => return Ok(end),
                Turn::More => pending = self.poll_steering(),
                Turn::Done => {
                    pending = self.poll_steering();
                    if pending.is_empty() {
                        pending = self.poll_follow_up();
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
    fn poll_steering(&self) -> Vec<Arc<Message>> {
        if self.abort.is_cancelled() {
            Vec::new()
        } else {
            self.shared.queues.poll_steering()
        }
    }

    fn poll_follow_up(&self) -> Vec<Arc<Message>> {
        if self.abort.is_cancelled() {
            Vec::new()
        } else {
            self.shared.queues.poll_follow_up()
        }
    }

    async fn take_in(&mut self, messages: Vec<Arc<Message>>) -> Result<(), Halt> {
        for message in messages {
            self.show(AgentEvent::MessageStart {
                message: Arc::clone(&message),
            })
            .await;
            self.finish(message).await?;
        }
        Ok(())
    }

    /// A message is complete: stored first, then part of the context, then shown.
    pub(super) async fn finish(&mut self, message: Arc<Message>) -> Result<(), Halt> {
        self.shared
            .effects
            .journal
            .append(Record::Message(Arc::clone(&message)))
            .await?;
        self.context.messages.push(Arc::clone(&message));
        self.added.push(Arc::clone(&message));
        self.show(AgentEvent::MessageEnd { message }).await;
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
