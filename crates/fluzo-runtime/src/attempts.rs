//! What an operation has tried so far, and what it may still try.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fluzo_agent::Listener;
use fluzo_llm::{
    AgentEvent, AssistantMessage, BoxFuture, FormSwitch, Model, StateCell, StreamError,
};

use crate::forms::FormMemory;
use crate::operation::{OperationEvent, OperationListener};
use crate::retry::RetryPolicy;

/// How many further attempts the current operation has made, and how many it may; and whether
/// the request at hand has been sent in another form.
#[derive(Debug)]
pub struct Attempts {
    policy: Mutex<RetryPolicy>,
    forms: Arc<FormMemory>,
    made: AtomicU32,
    switched: AtomicBool,
}

impl Attempts {
    /// None made yet, under `policy`. Refused forms are looked up in `forms`, which is to be the
    /// one that requests are made with.
    pub fn new(policy: RetryPolicy, forms: Arc<FormMemory>) -> Self {
        Self {
            policy: Mutex::new(policy),
            forms,
            made: AtomicU32::new(0),
            switched: AtomicBool::new(false),
        }
    }

    /// Whether responses are tried again from here on.
    pub fn set_enabled(&self, enabled: bool) {
        self.policy
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .enabled = enabled;
    }

    /// When responses are tried again.
    pub fn policy(&self) -> RetryPolicy {
        *self.policy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a run that is about to end with `error` will be entered again.
    pub fn will_retry(&self, error: &StreamError) -> bool {
        self.delay(error).is_some() || (!self.has_switched() && self.forms.offers(error).is_some())
    }

    pub(crate) fn delay(&self, error: &StreamError) -> Option<Duration> {
        self.policy().delay(self.get() + 1, error)
    }

    pub(crate) fn most(&self) -> u32 {
        self.policy().max_retries
    }

    pub(crate) fn get(&self) -> u32 {
        self.made.load(Ordering::SeqCst)
    }

    pub(crate) fn set(&self, attempt: u32) {
        self.made.store(attempt, Ordering::SeqCst);
    }

    /// The form to send to `model` instead of the refused one; once for each request.
    pub(crate) fn switch(&self, model: &Model, error: &StreamError) -> Option<FormSwitch> {
        if self.has_switched() {
            return None;
        }
        let switch = self.forms.learn(model, error)?;
        self.switched.store(true, Ordering::SeqCst);
        Some(switch)
    }

    fn has_switched(&self) -> bool {
        self.switched.load(Ordering::SeqCst)
    }

    /// The next request is another one. Returns how many further attempts this one took.
    pub(crate) fn reset(&self) -> u32 {
        self.switched.store(false, Ordering::SeqCst);
        self.made.swap(0, Ordering::SeqCst)
    }
}

/// Reports success as soon as a good response is complete, before its turn ends.
pub(crate) struct SuccessWatch {
    pub(crate) attempts: Arc<Attempts>,
    pub(crate) listener: Arc<dyn OperationListener>,
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
                    given_up: None,
                };
                self.listener.on_operation(event).await;
            }
        })
    }
}
