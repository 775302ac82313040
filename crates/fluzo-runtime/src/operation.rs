//! The run operation: one run of the agent, entered again while a failed response
//! may be tried again.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fluzo_agent::{Agent, Listener, RunEnd, RunOutcome, RunSpec, StartError, TimeEffect};
use fluzo_llm::{
    AbortSignal, AgentEvent, AssistantMessage, BoxFuture, Message, StateCell, StreamError,
};
use futures_util::future::{Either, select};

use crate::retry::RetryPolicy;

/// What happens around runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperationEvent {
    /// A failed response will be tried again after a wait.
    RetryStart {
        /// Number of the attempt, from 1.
        attempt: u32,
        /// Most attempts.
        max_attempts: u32,
        /// The wait in milliseconds.
        delay_ms: u64,
        /// What went wrong.
        error_message: String,
    },
    /// Trying again is over.
    RetryEnd {
        /// Whether a response came.
        success: bool,
        /// Number of the last attempt.
        attempt: u32,
        /// What went wrong at last.
        final_error: Option<String>,
    },
}

/// Watches operations. Awaited like listeners of the agent.
pub trait OperationListener: Send + Sync {
    /// Called for every event, in order.
    fn on_operation<'a>(&'a self, event: OperationEvent) -> BoxFuture<'a, ()>;
}

/// Runs an agent and decides about further attempts.
pub struct RunOperation {
    agent: Arc<dyn Agent>,
    time: Arc<dyn TimeEffect>,
    listener: Arc<dyn OperationListener>,
    attempts: Arc<Attempts>,
    waiting: Mutex<Option<AbortSignal>>,
    _success: fluzo_agent::Subscription,
}

/// How many further attempts the current operation has made, and how many it may.
#[derive(Debug)]
pub struct Attempts {
    policy: RetryPolicy,
    made: AtomicU32,
}

impl RunOperation {
    /// Operations of `agent`. Listeners that are to see a response before the end of
    /// its retry must have subscribed to the agent before.
    pub fn new(
        agent: Arc<dyn Agent>,
        time: Arc<dyn TimeEffect>,
        attempts: Arc<Attempts>,
        listener: Arc<dyn OperationListener>,
    ) -> Self {
        let success = SuccessWatch {
            attempts: Arc::clone(&attempts),
            listener: Arc::clone(&listener),
        };
        let subscription = agent.subscribe(Arc::new(success));
        Self {
            agent,
            time,
            listener,
            attempts,
            waiting: Mutex::default(),
            _success: subscription,
        }
    }

    /// Runs `spec` to its end, further attempts included. The first request is not
    /// made before the future is polled; dropping it ends the run.
    ///
    /// # Errors
    ///
    /// The run cannot start.
    pub async fn run(&self, spec: RunSpec, entry: Entry) -> Result<RunOutcome, StartError> {
        self.attempts.reset();
        let mut next = spec.clone();
        let mut run = match entry {
            Entry::Prompt => self.agent.start(spec)?,
            Entry::Continue => self.agent.resume(spec)?,
        };
        let mut added = Vec::new();
        loop {
            let mut outcome = run.await;
            added.append(&mut outcome.messages);
            outcome.messages.clone_from(&added);
            let RunEnd::Failed(error) = &outcome.end else {
                return Ok(outcome);
            };
            if !self.prepare_retry(error).await {
                return Ok(outcome);
            }
            next.prompt.clear();
            next.context.messages = self.without_failed_tail();
            run = self.agent.resume(next.clone())?;
        }
    }

    /// Ends a wait before a further attempt, if there is one.
    pub fn cancel_wait(&self) {
        if let Some(signal) = &*self.waiting() {
            signal.cancel();
        }
    }

    /// Whether an attempt is being waited for.
    pub fn is_waiting(&self) -> bool {
        self.waiting().is_some()
    }

    async fn prepare_retry(&self, error: &StreamError) -> bool {
        let attempt = self.attempts.get() + 1;
        let Some(delay) = self.attempts.policy.delay(attempt, error) else {
            self.give_up(attempt - 1, error.message.clone()).await;
            return false;
        };
        self.attempts.set(attempt);
        let cancelled = AbortSignal::new();
        *self.waiting() = Some(cancelled.clone());
        self.listener
            .on_operation(OperationEvent::RetryStart {
                attempt,
                max_attempts: self.attempts.policy.max_retries,
                delay_ms: u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
                error_message: error.message.clone(),
            })
            .await;
        let wait = std::pin::pin!(self.time.sleep(delay));
        let stopped = std::pin::pin!(cancelled.cancelled());
        let waited = matches!(select(stopped, wait).await, Either::Right(_));
        *self.waiting() = None;
        if !waited {
            self.give_up(attempt, "Retry cancelled".to_owned()).await;
        }
        waited
    }

    async fn give_up(&self, attempt: u32, error: String) {
        if attempt > 0 {
            self.attempts.reset();
            let event = OperationEvent::RetryEnd {
                success: false,
                attempt,
                final_error: Some(error),
            };
            self.listener.on_operation(event).await;
        }
    }

    /// The failed response stays in the session and leaves the context.
    fn without_failed_tail(&self) -> Vec<Arc<Message>> {
        let mut messages = self.agent.state().read(|state| state.messages.clone());
        let failed = |m: &Arc<Message>| m.as_assistant().is_some_and(AssistantMessage::failed);
        if messages.last().is_some_and(failed) {
            messages.pop();
        }
        messages
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Option<AbortSignal>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How an operation enters the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// With new messages.
    Prompt,
    /// From the end of the transcript.
    Continue,
}

impl Attempts {
    /// None made yet, under `policy`.
    pub fn new(policy: RetryPolicy) -> Self {
        Self {
            policy,
            made: AtomicU32::new(0),
        }
    }

    /// Whether a run that is about to end with `error` will be entered again.
    pub fn will_retry(&self, error: &StreamError) -> bool {
        self.policy.delay(self.get() + 1, error).is_some()
    }

    fn get(&self) -> u32 {
        self.made.load(Ordering::SeqCst)
    }

    fn set(&self, attempt: u32) {
        self.made.store(attempt, Ordering::SeqCst);
    }

    fn reset(&self) -> u32 {
        self.made.swap(0, Ordering::SeqCst)
    }
}

/// Reports success as soon as a good response is complete, before its turn ends.
struct SuccessWatch {
    attempts: Arc<Attempts>,
    listener: Arc<dyn OperationListener>,
}

impl Listener for SuccessWatch {
    fn on_event<'a>(&'a self, event: &'a AgentEvent, _state: &'a StateCell) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let AgentEvent::MessageEnd { message } = event else {
                return;
            };
            if message.as_assistant().is_none_or(AssistantMessage::failed) {
                return;
            }
            let attempt = self.attempts.reset();
            if attempt > 0 {
                let event = OperationEvent::RetryEnd {
                    success: true,
                    attempt,
                    final_error: None,
                };
                self.listener.on_operation(event).await;
            }
        })
    }
}
