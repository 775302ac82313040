//! A session as a front end reaches it.

use std::sync::Arc;

use fluzo_llm::{BoxFuture, ImageContent, Message};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::{Command, Event, QueueBehavior};

/// A session that serves commands and shows events.
pub trait Endpoint: Send + Sync {
    /// Starts a run on a prompt, or queues it during one. The returned run does its
    /// work when it is polled; dropping it ends it.
    ///
    /// # Errors
    ///
    /// The text for the user when it cannot start; nothing has been stored then.
    fn prompt(&self, prompt: Prompt) -> BoxFuture<'_, Result<Submitted, String>>;

    /// Any other command.
    ///
    /// # Errors
    ///
    /// The text for the user.
    fn execute(&self, command: Command) -> BoxFuture<'_, Result<Executed, String>>;

    /// Aborts everything that is going on: run, wait, compaction, summary, the user's command.
    fn abort(&self);

    /// The same, for good: nothing begins any more, neither a prompt nor what a command that
    /// still waits would begin.
    fn end(&self) {
        self.abort();
    }

    /// Adds a sink for events after those that are there.
    fn subscribe(&self, sink: Arc<dyn EventSink>);

    /// The session's header as it stands in its file.
    fn header(&self) -> Value;

    /// What the user should know about the session and has not been told: each is
    /// returned once.
    fn take_notices(&self) -> Vec<String>;
}

/// A prompt.
#[derive(Debug, Clone, Default)]
pub struct Prompt {
    /// The text.
    pub text: String,
    /// Images that go with it.
    pub images: Vec<ImageContent>,
    /// Which queue takes it during a run; without one it is refused then.
    pub queue: Option<QueueBehavior>,
    /// Taken as it is: no command, template or skill is looked for.
    pub literal: bool,
}

/// What came of a command.
#[derive(Default)]
pub struct Executed {
    /// Its data, as JSON.
    pub data: Option<Box<RawValue>>,
    /// A run that follows it, to be polled to its end.
    pub run: Option<BoxFuture<'static, RunReport>>,
    /// Why the command failed, although a run follows it.
    pub error: Option<String>,
}

impl Executed {
    /// Nothing to tell.
    pub fn done() -> Self {
        Self::default()
    }

    /// `data`, and no run.
    ///
    /// # Errors
    ///
    /// When `data` has no JSON form.
    pub fn with(data: &impl Serialize) -> Result<Self, String> {
        let data = serde_json::value::to_raw_value(data).map_err(|error| error.to_string())?;
        Ok(Self {
            data: Some(data),
            ..Self::default()
        })
    }

    /// The data read back.
    ///
    /// # Errors
    ///
    /// When there is none or it is nested too deeply.
    pub fn value(&self) -> Result<Value, String> {
        let data = self.data.as_ref().ok_or("the command gave no data")?;
        serde_json::from_str(data.get()).map_err(|error| error.to_string())
    }
}

/// What became of a prompt.
pub enum Submitted {
    /// A run, to be polled to its end.
    Run(BoxFuture<'static, RunReport>),
    /// It waits in a queue.
    Queued,
    /// A hook has taken it; the model is not asked.
    Handled,
}

/// How a run ended.
#[derive(Debug, Clone)]
pub struct RunReport {
    /// The last response.
    pub last: Option<Arc<Message>>,
    /// Why the run stopped when it did not end by itself.
    pub halted: Option<String>,
}

impl RunReport {
    /// Of a run that did not begin.
    pub fn nothing() -> Self {
        Self {
            last: None,
            halted: None,
        }
    }
}

/// Takes the events of a session. Awaited before the next event is made.
pub trait EventSink: Send + Sync {
    /// Takes one event.
    fn on_event<'a>(&'a self, event: &'a Event) -> BoxFuture<'a, ()>;
}
