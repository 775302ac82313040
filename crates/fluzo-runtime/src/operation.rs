//! The run operation: one run of the agent, entered again while a failed response
//! may be tried again.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

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
    active: Mutex<Option<Active>>,
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
            active: Mutex::default(),
            _success: subscription,
        }
    }

    /// Runs `spec` to its end, further attempts included. The first request is not
    /// made before the future is polled; dropping it ends the run.
    ///
    /// # Errors
    ///
    /// The run cannot start.
    pub async fn run(&self, spec: RunSpec) -> Result<RunOutcome, StartError> {
        let mut next = spec.clone();
        let mut run = self.agent.start(spec)?;
        self.attempts.reset();
        let active = ActiveGuard::begin(self);
        let mut added = Vec::new();
        loop {
            let mut outcome = run.await;
            added.append(&mut outcome.messages);
            outcome.messages.clone_from(&added);
            if !self.tries_again(&outcome.end, &active.abort).await {
                return Ok(outcome);
            }
            next.prompt.clear();
            next.context.messages = self.without_failed_tail();
            run = self.agent.resume(next.clone())?;
        }
    }

    /// Aborts the run, or the wait before a further attempt, whichever there is.
    pub fn cancel(&self) {
        let abort = self.active().as_ref().map(|active| active.abort.clone());
        if let Some(abort) = abort {
            abort.cancel();
        }
        self.agent.cancel();
    }

    /// Ends a wait before a further attempt, if there is one.
    pub fn cancel_wait(&self) {
        let waiting = |active: &&Active| active.waiting;
        let abort = self
            .active()
            .as_ref()
            .filter(waiting)
            .map(|active| active.abort.clone());
        if let Some(abort) = abort {
            abort.cancel();
        }
    }

    /// Whether an attempt is being waited for.
    pub fn is_waiting(&self) -> bool {
        self.active().as_ref().is_some_and(|active| active.waiting)
    }

    /// Waits for the next attempt, if there is to be one after a run that ended so.
    async fn tries_again(&self, end: &RunEnd, abort: &AbortSignal) -> bool {
        let (attempt, error) = match end {
            RunEnd::Failed(error) => (self.attempts.get() + 1, error),
            RunEnd::Aborted => return self.give_up("Retry cancelled".to_owned()).await,
            RunEnd::Halted(halt) => return self.give_up(halt.to_string()).await,
            RunEnd::Completed | RunEnd::Stopped => return false,
        };
        let delay = self.attempts.policy.delay(attempt, error);
        let Some(delay) = delay.filter(|_| !abort.is_cancelled()) else {
            return self.give_up(error.message.clone()).await;
        };
        self.attempts.set(attempt);
        self.listener
            .on_operation(OperationEvent::RetryStart {
                attempt,
                max_attempts: self.attempts.policy.max_retries,
                delay_ms: u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
                error_message: error.message.clone(),
            })
            .await;
        if self.wait(delay, abort).await {
            return true;
        }
        self.give_up("Retry cancelled".to_owned()).await
    }

    /// False when it was cancelled.
    async fn wait(&self, delay: Duration, abort: &AbortSignal) -> bool {
        self.set_waiting(true);
        let stopped = std::pin::pin!(abort.cancelled());
        let ended = matches!(
            select(stopped, self.time.sleep(delay)).await,
            Either::Right(_)
        );
        self.set_waiting(false);
        ended && !abort.is_cancelled()
    }

    /// Ends a series of attempts, if one had begun. Always false: there is no further one.
    async fn give_up(&self, error: String) -> bool {
        let attempt = self.attempts.reset();
        if attempt > 0 {
            let event = OperationEvent::RetryEnd {
                success: false,
                attempt,
                final_error: Some(error),
            };
            self.listener.on_operation(event).await;
        }
        false
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

    fn set_waiting(&self, waiting: bool) {
        if let Some(active) = &mut *self.active() {
            active.waiting = waiting;
        }
    }

    fn active(&self) -> std::sync::MutexGuard<'_, Option<Active>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An operation in progress.
struct Active {
    /// Fires for the whole operation, between its runs too.
    abort: AbortSignal,
    waiting: bool,
}

/// Marks an operation as in progress for as long as it lives.
struct ActiveGuard<'a> {
    operation: &'a RunOperation,
    abort: AbortSignal,
}

impl<'a> ActiveGuard<'a> {
    fn begin(operation: &'a RunOperation) -> Self {
        let abort = AbortSignal::new();
        *operation.active() = Some(Active {
            abort: abort.clone(),
            waiting: false,
        });
        Self { operation, abort }
    }
}

impl Drop for ActiveGuard<'_> {
    fn drop(&mut self) {
        *self.operation.active() = None;
    }
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
