//! From the agent's events to the events of the session.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak};

use fluzo_agent::{Agent, Input, Listener, QueueSnapshot};
use fluzo_llm::{AgentEvent, BoxFuture, Message, StateCell};
use fluzo_protocol::{Event, EventSink};
use fluzo_runtime::attempts::Attempts;
use fluzo_runtime::operation::{OperationEvent, OperationListener};

/// Where events go. Clones are one list: what follows a session shows its events to the
/// same sinks.
#[derive(Clone, Default)]
pub struct Sinks(Arc<RwLock<List>>);

/// A list that is replaced as a whole, so that showing an event needs no lock.
type List = Arc<Vec<Arc<dyn EventSink>>>;

impl Sinks {
    /// Adds a sink behind those that are there.
    pub(crate) fn add(&self, sink: Arc<dyn EventSink>) {
        let mut sinks = self.0.write().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut sinks).push(sink);
    }

    fn list(&self) -> List {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Shows events to all sinks, one after the other.
pub(crate) struct Broadcast {
    sinks: Sinks,
    attempts: Arc<Attempts>,
    context: Arc<Mutex<Vec<Arc<Message>>>>,
    agent: OnceLock<Weak<dyn Agent>>,
    shown_queue: Mutex<(Vec<String>, Vec<String>)>,
}

impl Broadcast {
    pub(crate) fn new(
        sinks: Sinks,
        attempts: Arc<Attempts>,
        context: Arc<Mutex<Vec<Arc<Message>>>>,
    ) -> Self {
        Self {
            sinks,
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
        self.sinks.add(sink);
    }

    pub(crate) async fn show(&self, event: Event) {
        for sink in self.sinks.list().iter() {
            sink.on_event(&event).await;
        }
    }

    /// Whether a message waits in a queue.
    pub(crate) fn anything_queued(&self) -> bool {
        let agent = self.agent.get().and_then(Weak::upgrade);
        agent.is_some_and(|agent| {
            let queued = agent.queued();
            !queued.steering.is_empty() || !queued.follow_up.is_empty()
        })
    }

    /// Takes the message that waits longest out of the queues, steering first.
    pub(crate) fn take_queued(&self) -> Option<Arc<Message>> {
        let agent = self.agent.get().and_then(Weak::upgrade)?;
        let mut inputs = agent.clear_queues().inputs();
        let first = inputs.next();
        inputs.for_each(|input| agent.send(input));
        match first? {
            Input::Steer(message) | Input::FollowUp(message) => Some(message),
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
