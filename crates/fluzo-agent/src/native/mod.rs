//! The native agent: Fluzo's own loop behind [`Agent`].

mod batch;
mod call;
mod response;
mod run;

use std::sync::{Arc, Mutex, PoisonError};

use fluzo_llm::{AbortSignal, BoxFuture, Message, StateCell};
use tokio::sync::Notify;

use crate::loop_guard::LoopGuard;
use crate::queue::{Lane, Queues, Taken};
use crate::{
    Agent, Effects, ExecutionMode, Gate, Hooks, Input, Listener, Listeners, QueueMode,
    QueueSnapshot, Run, RunSpec, StartError, Subscription,
};

/// What stays the same over the runs of an agent.
#[derive(Clone, Copy, Debug)]
pub struct AgentOptions {
    /// How much of the steering queue one poll takes.
    pub steering: QueueMode,
    /// How much of the follow-up queue one poll takes.
    pub follow_up: QueueMode,
    /// Whether tool calls of one response run side by side.
    pub execution: ExecutionMode,
    /// Whether a model that only repeats itself is told, and stopped in the end.
    pub loop_guard: bool,
}

impl Default for AgentOptions {
    fn default() -> Self {
        Self {
            steering: QueueMode::default(),
            follow_up: QueueMode::default(),
            execution: ExecutionMode::default(),
            loop_guard: true,
        }
    }
}

/// An agent that runs the loop in this process.
pub struct NativeAgent {
    shared: Arc<Shared>,
}

/// What an agent and its active run share.
pub(crate) struct Shared {
    pub(crate) effects: Effects,
    pub(crate) gate: Gate,
    pub(crate) hooks: Arc<dyn Hooks>,
    pub(crate) options: AgentOptions,
    pub(crate) state: StateCell,
    pub(crate) listeners: Listeners,
    pub(crate) queues: Arc<Queues>,
    guard: Mutex<LoopGuard>,
    active: Mutex<Option<AbortSignal>>,
    settled: Notify,
}

impl NativeAgent {
    /// An idle agent.
    pub fn new(effects: Effects, gate: Gate, hooks: Arc<dyn Hooks>, options: AgentOptions) -> Self {
        let shared = Shared {
            effects,
            gate,
            hooks,
            options,
            state: StateCell::default(),
            listeners: Listeners::default(),
            queues: Arc::new(Queues::new(options.steering, options.follow_up)),
            guard: Mutex::default(),
            active: Mutex::new(None),
            settled: Notify::new(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    fn launch(&self, claim: Claim, spec: RunSpec, prompt: Taken, poll_first: bool) -> Run {
        self.shared.state.change(|state| {
            state.messages.clone_from(&spec.context.messages);
            state.is_streaming = true;
            state.error_message = None;
            state.error = None;
        });
        self.shared.guard().context(&spec.context.messages);
        Run::new(run::drive(claim, spec.context, prompt, poll_first))
    }
}

/// The exclusive right to run. Dropping it leaves the agent idle.
pub(crate) struct Claim {
    pub(crate) shared: Arc<Shared>,
    pub(crate) abort: AbortSignal,
    over: bool,
}

impl Claim {
    fn take(shared: &Arc<Shared>) -> Option<Self> {
        let mut active = shared.active();
        if active.is_some() {
            return None;
        }
        let abort = AbortSignal::new();
        *active = Some(abort.clone());
        Some(Self {
            shared: Arc::clone(shared),
            abort,
            over: false,
        })
    }

    /// Gives the right back after a run that came to its end. What a tool left behind on
    /// purpose, such as a background process, must not take that for an abort.
    pub(crate) fn give_back(mut self) {
        self.over = true;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // A run that is dropped must also stop what it left behind, such as a request.
        if !self.over {
            self.abort.cancel();
        }
        self.shared.state.change(fluzo_llm::AgentState::settle);
        *self.shared.active() = None;
        self.shared.settled.notify_waiters();
    }
}

impl Shared {
    /// What the model has done over the runs since the user last said something.
    pub(crate) fn guard(&self) -> std::sync::MutexGuard<'_, LoopGuard> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn active(&self) -> std::sync::MutexGuard<'_, Option<AbortSignal>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Agent for NativeAgent {
    fn start(&self, mut spec: RunSpec) -> Result<Run, StartError> {
        let claim = Claim::take(&self.shared).ok_or(StartError::Busy)?;
        let prompt = Taken::given(std::mem::take(&mut spec.prompt));
        Ok(self.launch(claim, spec, prompt, true))
    }

    fn resume(&self, spec: RunSpec) -> Result<Run, StartError> {
        // Claimed before the queues are touched: a refusal must not lose what waits in them.
        let claim = Claim::take(&self.shared).ok_or(StartError::BusyContinue)?;
        let last = spec
            .context
            .messages
            .last()
            .ok_or(StartError::NothingToContinue)?;
        if !matches!(**last, Message::Assistant(_)) {
            return Ok(self.launch(claim, spec, Taken::given(Vec::new()), true));
        }
        let steering = self.shared.queues.poll(Lane::Steering);
        if !steering.is_empty() {
            return Ok(self.launch(claim, spec, steering, false));
        }
        let follow_up = self.shared.queues.poll(Lane::FollowUp);
        if follow_up.is_empty() {
            return Err(StartError::ContinueFromAssistant);
        }
        Ok(self.launch(claim, spec, follow_up, true))
    }

    fn send(&self, input: Input) {
        self.shared.queues.push(input);
    }

    fn cancel(&self) {
        // Not under the lock: whoever is woken may look at the agent.
        let abort = self.shared.active().clone();
        if let Some(abort) = abort {
            abort.cancel();
        }
    }

    fn queued(&self) -> QueueSnapshot {
        self.shared.queues.snapshot()
    }

    fn clear_queues(&self) -> QueueSnapshot {
        self.shared.queues.clear()
    }

    fn set_queue_modes(&self, steering: QueueMode, follow_up: QueueMode) {
        self.shared.queues.set_modes(steering, follow_up);
    }

    fn state(&self) -> &StateCell {
        &self.shared.state
    }

    fn subscribe(&self, listener: Arc<dyn Listener>) -> Subscription {
        self.shared.listeners.add(listener)
    }

    fn idle(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            loop {
                let settled = self.shared.settled.notified();
                tokio::pin!(settled);
                settled.as_mut().enable();
                if self.shared.active().is_none() {
                    return;
                }
                settled.await;
            }
        })
    }
}
