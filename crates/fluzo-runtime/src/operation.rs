//! The run operation: one run of the agent, entered again while a failed response
//! may be tried again, or a refused request be made in another form.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fluzo_agent::{Agent, Run, RunContext, RunEnd, RunOutcome, RunSpec, StartError, TimeEffect};
use fluzo_llm::{
    AbortSignal, AssistantMessage, BoxFuture, FormSwitch, GivenUp, Message, Model, StreamError,
};
use futures_util::future::{Either, select};

use crate::attempts::{Attempts, SuccessWatch};

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
        /// What is told of a series whose last attempt failed as well.
        given_up: Option<Box<GivenUp>>,
    },
    /// A form of the request was refused, and the request is made again at once in another.
    FormSwitched {
        /// The form that is sent from now on.
        switch: FormSwitch,
        /// What the server said of the refused one.
        error_message: String,
    },
}

/// Watches operations. Awaited like listeners of the agent.
pub trait OperationListener: Send + Sync {
    /// Called for every event, in order.
    fn on_operation<'a>(&'a self, event: OperationEvent) -> BoxFuture<'a, ()>;
}

/// What follows a run that is not tried again, such as a compaction.
pub trait Continuation: Send + Sync {
    /// Called when a run has ended, before the operation is over. `abort` fires when the
    /// operation is aborted. Returns what to go on with, or `None` when the operation is over.
    /// Dropping the future gives up what it does.
    fn after_run<'a>(
        &'a self,
        run: &'a RunOutcome,
        abort: &'a AbortSignal,
    ) -> BoxFuture<'a, Option<Further>>;

    /// Brings up to date what requests are made of before a run is entered again: the model
    /// may have been switched meanwhile.
    fn refresh(&self, context: &mut RunContext);
}

/// What an operation goes on with.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Further {
    /// The context.
    pub messages: Vec<Arc<Message>>,
    /// What is said first. With nothing, the agent goes on from the last message of the
    /// context: after a response with what waits in the queues.
    pub prompt: Vec<Arc<Message>>,
}

/// Nothing follows a run.
#[derive(Debug, Default, Clone, Copy)]
pub struct NoContinuation;

impl Continuation for NoContinuation {
    fn after_run<'a>(
        &'a self,
        _run: &'a RunOutcome,
        _abort: &'a AbortSignal,
    ) -> BoxFuture<'a, Option<Further>> {
        Box::pin(std::future::ready(None))
    }

    fn refresh(&self, _context: &mut RunContext) {}
}

/// Runs an agent and decides about further attempts.
pub struct RunOperation {
    agent: Arc<dyn Agent>,
    time: Arc<dyn TimeEffect>,
    listener: Arc<dyn OperationListener>,
    attempts: Arc<Attempts>,
    continuation: Arc<dyn Continuation>,
    active: Mutex<Option<Active>>,
    _success: fluzo_agent::Subscription,
}

impl RunOperation {
    /// Operations of `agent`. Listeners that are to see a response before the end of
    /// its retry must have subscribed to the agent before.
    pub fn new(
        agent: Arc<dyn Agent>,
        time: Arc<dyn TimeEffect>,
        attempts: Arc<Attempts>,
        listener: Arc<dyn OperationListener>,
        continuation: Arc<dyn Continuation>,
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
            continuation,
            active: Mutex::default(),
            _success: subscription,
        }
    }

    /// Runs `spec` to its end, further attempts included. The operation has begun when this
    /// returns, so that an abort reaches it from then on; the first request is not made
    /// before the future is polled; dropping it ends the run.
    ///
    /// # Errors
    ///
    /// The run cannot start.
    pub fn run(&self, spec: RunSpec) -> impl Future<Output = Result<RunOutcome, StartError>> {
        self.attend(self.agent.start(spec.clone()), spec)
    }

    /// Goes on from the last message of `spec.context`, with what waits in the queues if that
    /// is a response; otherwise as [`run`](Self::run).
    ///
    /// # Errors
    ///
    /// The run cannot start, or there is nothing to go on from.
    pub fn resume(&self, spec: RunSpec) -> impl Future<Output = Result<RunOutcome, StartError>> {
        self.attend(self.agent.resume(spec.clone()), spec)
    }

    fn attend(
        &self,
        run: Result<Run, StartError>,
        spec: RunSpec,
    ) -> impl Future<Output = Result<RunOutcome, StartError>> {
        let begun = run.map(|run| (run, ActiveGuard::begin(self)));
        async move {
            let (run, active) = begun?;
            self.go_through(run, active, spec).await
        }
    }

    async fn go_through(
        &self,
        mut run: Run,
        active: ActiveGuard<'_>,
        mut next: RunSpec,
    ) -> Result<RunOutcome, StartError> {
        self.attempts.reset();
        let mut added = Vec::new();
        loop {
            let mut outcome = run.await;
            added.append(&mut outcome.messages);
            outcome.messages.clone_from(&added);
            let model = Arc::clone(&next.context.model);
            let further = if self.tries_again(&outcome.end, &model, &active.abort).await {
                let messages = self.without_failed_tail();
                Some(Further {
                    messages,
                    prompt: Vec::new(),
                })
            } else {
                self.continuation.after_run(&outcome, &active.abort).await
            };
            let Some(further) = further else {
                return Ok(outcome);
            };
            (next.context.messages, next.prompt) = (further.messages, further.prompt);
            self.continuation.refresh(&mut next.context);
            run = if next.prompt.is_empty() {
                self.agent.resume(next.clone())?
            } else {
                self.agent.start(next.clone())?
            };
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

    /// Waits for the next attempt, if there is to be one after a run for `model` that ended so.
    async fn tries_again(&self, end: &RunEnd, model: &Model, abort: &AbortSignal) -> bool {
        let error = match end {
            RunEnd::Failed(error) => error,
            RunEnd::Aborted => return self.give_up("Retry cancelled".to_owned(), None).await,
            RunEnd::Halted(halt) => return self.give_up(halt.to_string(), None).await,
            RunEnd::Completed | RunEnd::Stopped | RunEnd::Looping(_) => return false,
        };
        if !abort.is_cancelled() && self.switches_form(model, error).await {
            return true;
        }
        let delay = self.attempts.delay(error);
        let Some(delay) = delay.filter(|_| !abort.is_cancelled()) else {
            let given_up = self.given_up(model, error);
            return self.give_up(error.message.clone(), Some(given_up)).await;
        };
        let attempt = self.attempts.get() + 1;
        self.attempts.set(attempt);
        self.listener
            .on_operation(OperationEvent::RetryStart {
                attempt,
                max_attempts: self.attempts.most(),
                delay_ms: u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
                error_message: error.message.clone(),
            })
            .await;
        if self.wait(delay, abort).await {
            return true;
        }
        self.give_up("Retry cancelled".to_owned(), None).await
    }

    /// Whether the request is to be made again at once, in another form.
    async fn switches_form(&self, model: &Model, error: &StreamError) -> bool {
        let Some(switch) = self.attempts.switch(model, error) else {
            return false;
        };
        let event = OperationEvent::FormSwitched {
            switch,
            error_message: error.message.clone(),
        };
        self.listener.on_operation(event).await;
        true
    }

    fn given_up(&self, model: &Model, error: &StreamError) -> Box<GivenUp> {
        let wait = error.retry_after_ms.and_then(|ms| i64::try_from(ms).ok());
        Box::new(GivenUp {
            provider: model.provider.clone(),
            model: model.id.clone(),
            requests: self.attempts.get().saturating_add(1),
            last_error: error.message.clone(),
            next_at_ms: wait.and_then(|ms| self.time.now_ms().checked_add(ms)),
        })
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
    async fn give_up(&self, error: String, given_up: Option<Box<GivenUp>>) -> bool {
        let attempt = self.attempts.reset();
        if attempt > 0 {
            let event = OperationEvent::RetryEnd {
                success: false,
                attempt,
                final_error: Some(error),
                given_up,
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
