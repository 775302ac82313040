//! The agent as its callers see it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};

use fluzo_llm::{AgentEvent, BoxFuture, Message, Model, StateCell, StreamError, ThinkingLevel};

use crate::{Halt, Looping, QueueMode, QueueSnapshot, ToolSet};

/// Something that works on a prompt: the native loop, a mock, an external agent.
pub trait Agent: Send + Sync {
    /// Starts a run on a prompt. The abort handle exists before the run is first
    /// polled; dropping the run ends it and leaves the agent idle.
    ///
    /// # Errors
    ///
    /// A run is active.
    fn start(&self, spec: RunSpec) -> Result<Run, StartError>;

    /// Goes on from the last message of `spec.context`; `spec.prompt` is ignored.
    /// After a response it goes on only with what waits in the queues.
    ///
    /// # Errors
    ///
    /// A run is active, or there is nothing to go on from.
    fn resume(&self, spec: RunSpec) -> Result<Run, StartError>;

    /// Puts a message into a queue, whether or not a run is active.
    fn send(&self, input: Input);

    /// Aborts the active run, if there is one.
    fn cancel(&self);

    /// What waits in the queues.
    fn queued(&self) -> QueueSnapshot;

    /// Empties the queues and returns what was in them.
    fn clear_queues(&self) -> QueueSnapshot;

    /// How much one poll of each queue takes from here on.
    fn set_queue_modes(&self, steering: QueueMode, follow_up: QueueMode);

    /// The state, readable at any moment.
    fn state(&self) -> &StateCell;

    /// Adds a listener after those that are there. It is removed when the returned
    /// value is dropped.
    fn subscribe(&self, listener: Arc<dyn Listener>) -> Subscription;

    /// Returns when no run is active. Runs are over only when their listeners are done.
    fn idle(&self) -> BoxFuture<'_, ()>;
}

/// A message for a queue.
#[derive(Debug, Clone)]
pub enum Input {
    /// Taken in after the current turn.
    Steer(Arc<Message>),
    /// Taken in when the run would otherwise end.
    FollowUp(Arc<Message>),
}

/// What a run works on. A run sees only this, not later changes of it.
#[derive(Clone)]
pub struct RunSpec {
    /// New messages, user messages as a rule.
    pub prompt: Vec<Arc<Message>>,
    /// Everything else.
    pub context: RunContext,
}

/// What requests of a run are made of.
#[derive(Clone)]
pub struct RunContext {
    /// System prompt; empty means none.
    pub system_prompt: Arc<str>,
    /// The model.
    pub model: Arc<Model>,
    /// How much it thinks.
    pub thinking: ThinkingLevel,
    /// The tools.
    pub tools: ToolSet,
    /// The transcript before the prompt, internal roles included.
    pub messages: Vec<Arc<Message>>,
    /// Session id for providers that cache by it.
    pub session_id: Option<String>,
}

/// Why a run does not start. The texts are pi's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// `start` during a run.
    #[error(
        "Agent is already processing a prompt. Use steer() or followUp() to queue messages, or wait for completion."
    )]
    Busy,
    /// `resume` during a run.
    #[error("Agent is already processing. Wait for completion before continuing.")]
    BusyContinue,
    /// `resume` without messages.
    #[error("No messages to continue from")]
    NothingToContinue,
    /// `resume` after a response, with empty queues.
    #[error("Cannot continue from message role: assistant")]
    ContinueFromAssistant,
}

/// A run: a future that does all the work when polled.
#[must_use = "a run does nothing unless it is polled"]
pub struct Run(BoxFuture<'static, RunOutcome>);

impl Run {
    /// Wraps the work of a run.
    pub fn new(work: impl Future<Output = RunOutcome> + Send + 'static) -> Self {
        Self(Box::pin(work))
    }
}

impl Future for Run {
    type Output = RunOutcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<RunOutcome> {
        self.0.as_mut().poll(context)
    }
}

/// What came of a run.
#[derive(Debug, Clone)]
pub struct RunOutcome {
    /// How it ended.
    pub end: RunEnd,
    /// Messages it added, all of them stored.
    pub messages: Vec<Arc<Message>>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum RunEnd {
    /// The model was done.
    Completed,
    /// A hook ended it.
    Stopped,
    /// A response failed.
    Failed(StreamError),
    /// The model only repeated itself.
    Looping(Looping),
    /// It was aborted.
    Aborted,
    /// Something had to stop it at once.
    Halted(Halt),
}

/// Watches a run. Listeners are called in the order they subscribed, each awaited
/// before the next; a slow one slows the run.
pub trait Listener: Send + Sync {
    /// Called after `event` has been reduced into `state`.
    fn on_event<'a>(&'a self, event: &'a AgentEvent, state: &'a StateCell) -> BoxFuture<'a, ()>;
}

/// The listeners of an agent.
#[derive(Clone, Default)]
pub struct Listeners(Arc<RwLock<Registered>>);

#[derive(Default)]
struct Registered {
    next: u64,
    list: Arc<Vec<(u64, Arc<dyn Listener>)>>,
}

/// Keeps a listener subscribed for as long as it lives.
#[must_use = "dropping it unsubscribes the listener"]
pub struct Subscription {
    id: u64,
    listeners: Listeners,
}

impl Listeners {
    /// Adds a listener at the end.
    pub fn add(&self, listener: Arc<dyn Listener>) -> Subscription {
        let mut registered = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let id = registered.next;
        registered.next += 1;
        Arc::make_mut(&mut registered.list).push((id, listener));
        Subscription {
            id,
            listeners: self.clone(),
        }
    }

    /// Calls every listener in order.
    pub async fn notify(&self, event: &AgentEvent, state: &StateCell) {
        let list = Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner).list);
        for (_, listener) in list.iter() {
            listener.on_event(event, state).await;
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut registered = self
            .listeners
            .0
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut registered.list).retain(|(id, _)| *id != self.id);
    }
}
