//! From the agent's events to the events of the session.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak};

use fluzo_agent::{Agent, Listener, QueueSnapshot};
use fluzo_llm::{AgentEvent, BoxFuture, Message, StateCell};
use fluzo_protocol::{Event, EventSink};
use fluzo_runtime::attempts::Attempts;
use fluzo_runtime::operation::{OperationEvent, OperationListener};

/// Shows events to all sinks, one after the other.
pub(crate) struct Broadcast {
    sinks: RwLock<Arc<Vec<Arc<dyn EventSink>>>>,
    attempts: Arc<Attempts>,
    context: Arc<Mutex<Vec<Arc<Message>>>>,
    agent: OnceLock<Weak<dyn Agent>>,
    shown_queue: Mutex<(Vec<String>, Vec<String>)>,
}

impl Broadcast {
    pub(crate) fn new(attempts: Arc<Attempts>, context: Arc<Mutex<Vec<Arc<Message>>>>) -> Self {
        Self {
            sinks: RwLock::default(),
            attempts,
            context,
            agent: OnceLock::new(),
            shown_queue: Mutex::default(),
        }
    }

    /// The agent whose queues are watched.
    pub(crate) fn watch(&self, agent: &Arc<dyn Agent>) {
        // Set once, when the session is made.
        let _ = self.agent.set(Arc::downgrade(agent));
    }

    pub(crate) fn subscribe(&self, sink: Arc<dyn EventSink>) {
        let mut sinks = self.sinks.write().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut sinks).push(sink);
    }

    pub(crate) async fn show(&self, event: Event) {
        let sinks = Arc::clone(&self.sinks.read().unwrap_or_else(PoisonError::into_inner));
        for sink in sinks.iter() {
            sink.on_event(&event).await;
        }
    }

    /// Shows the queues if they are not as they were shown last.
    pub(crate) async fn show_queue(&self) {
        let Some(agent) = self.agent.get().and_then(Weak::upgrade) else {
            return;
        };
        let now = texts(&agent.queued());
        let changed = {
            let mut shown = self
                .shown_queue
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let changed = *shown != now;
            shown.clone_from(&now);
            changed
        };
        if changed {
            self.show(Event::QueueUpdate {
                steering: now.0,
                follow_up: now.1,
            })
            .await;
        }
    }
}

fn texts(queued: &QueueSnapshot) -> (Vec<String>, Vec<String>) {
    let text = |message: &Arc<Message>| match &**message {
        Message::User(user) => user.content.text(),
        other => other.role().to_owned(),
    };
    (
        queued.steering.iter().map(text).collect(),
        queued.follow_up.iter().map(text).collect(),
    )
}

impl Listener for Broadcast {
    fn on_event<'a>(&'a self, event: &'a AgentEvent, state: &'a StateCell) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let AgentEvent::MessageStart { message } = event
                && matches!(**message, Message::User(_))
            {
                self.show_queue().await;
            }
            if let AgentEvent::MessageEnd { message } = event {
                let mut context = self.context.lock().unwrap_or_else(PoisonError::into_inner);
                context.push(Arc::clone(message));
            }
            let ending = matches!(event, AgentEvent::AgentEnd { .. });
            let error = if ending {
                state.read(|state| state.error.clone())
            } else {
                None
            };
            let will_retry = error.is_some_and(|error| self.attempts.will_retry(&error));
            self.show(Event::from_agent(event, will_retry)).await;
        })
    }
}

impl OperationListener for Broadcast {
    fn on_operation<'a>(&'a self, event: OperationEvent) -> BoxFuture<'a, ()> {
        Box::pin(self.show(match event {
            OperationEvent::RetryStart {
                attempt,
                max_attempts,
                delay_ms,
                error_message,
            } => Event::AutoRetryStart {
                attempt,
                max_attempts,
                delay_ms,
                error_message,
            },
            OperationEvent::RetryEnd {
                success,
                attempt,
                final_error,
                given_up,
            } => Event::AutoRetryEnd {
                success,
                attempt,
                final_error,
                given_up,
            },
            OperationEvent::FormSwitched {
                switch,
                error_message,
            } => Event::FormSwitched {
                switch,
                error_message,
            },
        }))
    }
}
