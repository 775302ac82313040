//! An agent without a loop of its own to trust: it plays scripted replies.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fluzo_agent::{
    Agent, Input, Listener, Listeners, QueueMode, QueueSnapshot, Run, RunEnd, RunOutcome, RunSpec,
    StartError, Subscription,
};
use fluzo_llm::{
    AbortSignal, AgentEvent, AssistantMessage, BoxFuture, Finish, Message, StateCell, StopReason,
    StreamError, StreamErrorKind, StreamEvent, Usage, transcript::missing_result,
};
use futures_util::StreamExt;

use crate::{Reply, Switch, world::NOW};

/// A deterministic agent: each turn plays the next reply. It has no tools; a call in a
/// reply gets an error result. Time stands still.
pub struct MockAgent(Arc<Shared>);

struct Shared {
    replies: Mutex<VecDeque<Reply>>,
    waiting: Mutex<Waiting>,
    active: Mutex<Option<Active>>,
    state: StateCell,
    listeners: Listeners,
}

#[derive(Default)]
struct Waiting {
    steering: Queue,
    follow_up: Queue,
}

#[derive(Default)]
struct Queue {
    mode: QueueMode,
    messages: VecDeque<Arc<Message>>,
}

#[derive(Clone)]
struct Active {
    abort: AbortSignal,
    over: Switch,
}

impl MockAgent {
    /// An idle agent that will give `replies`.
    pub fn new(
        replies: impl IntoIterator<Item = Reply>,
        steering: QueueMode,
        follow_up: QueueMode,
    ) -> Self {
        let waiting = Waiting {
            steering: Queue::new(steering),
            follow_up: Queue::new(follow_up),
        };
        Self(Arc::new(Shared {
            replies: Mutex::new(replies.into_iter().collect()),
            waiting: Mutex::new(waiting),
            active: Mutex::default(),
            state: StateCell::default(),
            listeners: Listeners::default(),
        }))
    }

    fn launch(&self, turn: Turn, spec: RunSpec, claim: Claim) -> Run {
        self.0.state.change(|state| {
            state.messages = spec.context.messages;
            state.is_streaming = true;
            state.error_message = None;
        });
        let play = Play {
            claim,
            model: spec.context.model,
            added: Vec::new(),
        };
        Run::new(play.run(turn))
    }
}

impl Queue {
    fn new(mode: QueueMode) -> Self {
        Self {
            mode,
            messages: VecDeque::new(),
        }
    }

    fn poll(&mut self) -> Vec<Arc<Message>> {
        let count = match self.mode {
            QueueMode::OneAtATime => self.messages.len().min(1),
            QueueMode::All => self.messages.len(),
        };
        self.messages.drain(..count).collect()
    }
}

impl Agent for MockAgent {
    fn start(&self, mut spec: RunSpec) -> Result<Run, StartError> {
        let claim = Claim::take(&self.0).ok_or(StartError::Busy)?;
        let turn = Turn {
            messages: std::mem::take(&mut spec.prompt),
            poll_steering: true,
        };
        Ok(self.launch(turn, spec, claim))
    }

    fn resume(&self, spec: RunSpec) -> Result<Run, StartError> {
        let claim = Claim::take(&self.0).ok_or(StartError::BusyContinue)?;
        let last = spec.context.messages.last();
        let last = last.ok_or(StartError::NothingToContinue)?;
        let mut turn = Turn {
            messages: Vec::new(),
            poll_steering: true,
        };
        if last.as_assistant().is_some() {
            let mut waiting = lock(&self.0.waiting);
            turn.messages = waiting.steering.poll();
            turn.poll_steering = turn.messages.is_empty();
            if turn.messages.is_empty() {
                turn.messages = waiting.follow_up.poll();
            }
            if turn.messages.is_empty() {
                return Err(StartError::ContinueFromAssistant);
            }
        }
        Ok(self.launch(turn, spec, claim))
    }

    fn send(&self, input: Input) {
        let mut waiting = lock(&self.0.waiting);
        match input {
            Input::Steer(message) => waiting.steering.messages.push_back(message),
            Input::FollowUp(message) => waiting.follow_up.messages.push_back(message),
        }
    }

    fn cancel(&self) {
        let active = lock(&self.0.active).clone();
        if let Some(active) = active {
            active.abort.cancel();
        }
    }

    fn queued(&self) -> QueueSnapshot {
        let waiting = lock(&self.0.waiting);
        QueueSnapshot {
            steering: waiting.steering.messages.iter().cloned().collect(),
            follow_up: waiting.follow_up.messages.iter().cloned().collect(),
        }
    }

    fn clear_queues(&self) -> QueueSnapshot {
        let mut waiting = lock(&self.0.waiting);
        QueueSnapshot {
            steering: std::mem::take(&mut waiting.steering.messages).into(),
            follow_up: std::mem::take(&mut waiting.follow_up.messages).into(),
        }
    }

    fn set_queue_modes(&self, steering: QueueMode, follow_up: QueueMode) {
        let mut waiting = lock(&self.0.waiting);
        (waiting.steering.mode, waiting.follow_up.mode) = (steering, follow_up);
    }

    fn state(&self) -> &StateCell {
        &self.0.state
    }

    fn subscribe(&self, listener: Arc<dyn Listener>) -> Subscription {
        self.0.listeners.add(listener)
    }

    fn idle(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            loop {
                let active = lock(&self.0.active).clone();
                match active {
                    Some(active) => active.over.wait().await,
                    None => return,
                }
            }
        })
    }
}

/// The exclusive right to run; dropping it leaves the agent idle.
struct Claim {
    shared: Arc<Shared>,
    active: Active,
}

impl Claim {
    fn take(shared: &Arc<Shared>) -> Option<Self> {
        let mut slot = lock(&shared.active);
        if slot.is_some() {
            return None;
        }
        let active = Active {
            abort: AbortSignal::new(),
            over: Switch::new(),
        };
        *slot = Some(active.clone());
        Some(Self {
            shared: Arc::clone(shared),
            active,
        })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.active.abort.cancel();
        self.shared.state.change(fluzo_llm::AgentState::settle);
        *lock(&self.shared.active) = None;
        self.active.over.flip();
    }
}

/// What a turn begins with.
struct Turn {
    messages: Vec<Arc<Message>>,
    poll_steering: bool,
}

/// A run in progress.
struct Play {
    claim: Claim,
    model: Arc<fluzo_llm::Model>,
    added: Vec<Arc<Message>>,
}

impl Play {
    async fn run(mut self, opening: Turn) -> RunOutcome {
        self.show(AgentEvent::AgentStart).await;
        let mut next = Some(opening);
        let mut end = RunEnd::Completed;
        while let Some(turn) = next.take() {
            self.show(AgentEvent::TurnStart).await;
            for message in turn.messages {
                self.add(message).await;
            }
            if turn.poll_steering && !self.aborted() {
                let steering = lock(&self.claim.shared.waiting).steering.poll();
                for message in steering {
                    self.add(message).await;
                }
            }
            end = self.turn().await;
            if end == RunEnd::Completed {
                next = self.next_turn();
            }
        }
        let messages = self.added.clone();
        self.show(AgentEvent::AgentEnd { messages }).await;
        drop(self.claim);
        RunOutcome {
            end,
            messages: self.added,
        }
    }

    /// One response; `Completed` when the run may go on.
    async fn turn(&mut self) -> RunEnd {
        let (message, error) = self.response().await;
        let mut tool_results = Vec::new();
        let calls: Vec<_> = message.tool_calls().cloned().collect();
        let failed = message.failed();
        let message = Arc::new(Message::Assistant(message));
        self.end(Arc::clone(&message)).await;
        if !failed {
            for call in calls {
                let text = format!("Tool {} not found", call.name);
                let result = Arc::new(missing_result(call.id, call.name, &text, NOW));
                self.add(Arc::clone(&result)).await;
                tool_results.push(result);
            }
        }
        let answered = !tool_results.is_empty();
        self.show(AgentEvent::TurnEnd {
            message,
            tool_results,
        })
        .await;
        match error {
            Some(error) if error.kind == StreamErrorKind::Aborted => RunEnd::Aborted,
            Some(error) => RunEnd::Failed(error),
            None if answered => Box::pin(self.answer_results()).await,
            None => RunEnd::Completed,
        }
    }

    async fn answer_results(&mut self) -> RunEnd {
        self.show(AgentEvent::TurnStart).await;
        self.turn().await
    }

    async fn response(&mut self) -> (AssistantMessage, Option<StreamError>) {
        let mut message = AssistantMessage::begin(&self.model, NOW);
        let mut started = false;
        let mut finish = None;
        let reply = lock(&self.claim.shared.replies).pop_front();
        let abort = self.claim.active.abort.clone();
        if self.aborted() {
            finish = Some(failed(StreamErrorKind::Aborted, "Request was aborted."));
        }
        let mut stream = match (reply, &finish) {
            (_, Some(_)) => Reply::new().cut().stream(abort),
            (Some(reply), None) => reply.stream(abort),
            (None, None) => panic!("no reply is scripted for this turn"),
        };
        while finish.is_none() {
            finish = match stream.next().await {
                Some(StreamEvent::Done(end) | StreamEvent::Failed(end)) => Some(*end),
                Some(event) => {
                    if !std::mem::replace(&mut started, true) {
                        self.begin(&message).await;
                    }
                    message.apply(&event);
                    if event != StreamEvent::Start {
                        self.show(AgentEvent::MessageUpdate { delta: event }).await;
                    }
                    None
                }
                None => Some(failed(StreamErrorKind::Incomplete, "the reply was cut off")),
            };
        }
        let finish = finish.unwrap_or_else(|| Finish::done(StopReason::Stop, Usage::default()));
        let error = finish.error.clone();
        message.apply(&StreamEvent::Done(Box::new(finish)));
        if !started {
            self.begin(&message).await;
        }
        (message, error)
    }

    fn next_turn(&self) -> Option<Turn> {
        if self.aborted() {
            return None;
        }
        let mut waiting = lock(&self.claim.shared.waiting);
        let mut messages = waiting.steering.poll();
        if messages.is_empty() {
            messages = waiting.follow_up.poll();
        }
        (!messages.is_empty()).then_some(Turn {
            messages,
            poll_steering: false,
        })
    }

    fn aborted(&self) -> bool {
        self.claim.active.abort.is_cancelled()
    }

    async fn begin(&self, message: &AssistantMessage) {
        let message = Arc::new(Message::Assistant(message.clone()));
        self.show(AgentEvent::MessageStart { message }).await;
    }

    async fn add(&mut self, message: Arc<Message>) {
        let started = Arc::clone(&message);
        self.show(AgentEvent::MessageStart { message: started })
            .await;
        self.end(message).await;
    }

    async fn end(&mut self, message: Arc<Message>) {
        self.added.push(Arc::clone(&message));
        self.show(AgentEvent::MessageEnd { message }).await;
    }

    async fn show(&self, event: AgentEvent) {
        let shared = &self.claim.shared;
        shared.state.change(|state| state.reduce(&event));
        shared.listeners.notify(&event, &shared.state).await;
    }
}

fn failed(kind: StreamErrorKind, text: &str) -> Finish {
    Finish::failed(StreamError::new(kind, text), Usage::default())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance;

    #[test]
    fn mock_agent_conforms() {
        conformance::agent(|script| {
            Arc::new(MockAgent::new(
                script.replies,
                script.steering,
                script.follow_up,
            ))
        });
    }

    /// An agent that cannot be cancelled.
    struct Deaf(MockAgent);

    impl Agent for Deaf {
        fn start(&self, spec: RunSpec) -> Result<Run, StartError> {
            self.0.start(spec)
        }

        fn resume(&self, spec: RunSpec) -> Result<Run, StartError> {
            self.0.resume(spec)
        }

        fn send(&self, input: Input) {
            self.0.send(input);
        }

        fn cancel(&self) {}

        fn queued(&self) -> QueueSnapshot {
            self.0.queued()
        }

        fn clear_queues(&self) -> QueueSnapshot {
            self.0.clear_queues()
        }

        fn set_queue_modes(&self, steering: QueueMode, follow_up: QueueMode) {
            self.0.set_queue_modes(steering, follow_up);
        }

        fn state(&self) -> &StateCell {
            self.0.state()
        }

        fn subscribe(&self, listener: Arc<dyn Listener>) -> Subscription {
            self.0.subscribe(listener)
        }

        fn idle(&self) -> BoxFuture<'_, ()> {
            self.0.idle()
        }
    }

    #[test]
    #[should_panic(expected = "the run should end")]
    fn an_agent_that_cannot_be_cancelled_does_not_conform() {
        conformance::agent(|script| {
            let mock = MockAgent::new(script.replies, script.steering, script.follow_up);
            Arc::new(Deaf(mock))
        });
    }
}
