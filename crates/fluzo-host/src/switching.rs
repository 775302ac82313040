//! The session at hand and the ones that take its place: new, forked, opened, read again.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use fluzo_llm::BoxFuture;
use fluzo_protocol::{Command, Endpoint, EventSink, Executed, Prompt, Submitted};
use fluzo_session::{Entry, Session, SessionStore};
use fluzo_stdx::error::with_causes;
use serde::Serialize;
use serde_json::{Value, json};

use crate::broadcast::Sinks;
use crate::hooks::SwitchTo;
use fluzo_protocol::Snapshot;

use crate::AgentSession;

/// Makes, finds and opens sessions.
pub trait SessionFactory: Send + Sync {
    /// The store of a session that begins with `entries`. Nothing is written before there is
    /// something to keep, unless there are entries.
    ///
    /// # Errors
    ///
    /// The text for the user.
    fn create(
        &self,
        beside: &Session,
        parent: Option<String>,
        entries: Vec<Entry>,
    ) -> Result<Arc<dyn SessionStore>, String>;

    /// The store of the session in the file `path`; of a new one there when there is no
    /// such file.
    ///
    /// # Errors
    ///
    /// The text for the user.
    fn open(&self, path: &Path) -> Result<Arc<dyn SessionStore>, String>;

    /// Copies the session file `path` to where `beside` is kept. Returns the copy.
    ///
    /// # Errors
    ///
    /// The text for the user.
    fn import(&self, beside: &Session, path: &Path) -> Result<PathBuf, String>;

    /// The sessions of this working folder, or of all, newest first.
    ///
    /// # Errors
    ///
    /// The text for the user.
    fn list(&self, all: bool) -> Result<Value, String>;

    /// A session over `store` that shows its events to `sinks`, made of settings and
    /// resources as they are now.
    ///
    /// # Errors
    ///
    /// The text for the user.
    fn build(&self, store: Arc<dyn SessionStore>, sinks: Sinks) -> Result<AgentSession, String>;

    /// What the user should know of what was done here, and was not told yet.
    fn take_notices(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Serves the session at hand; commands may put another one in its place.
pub struct SessionHost {
    current: RwLock<AgentSession>,
    sinks: Sinks,
    factory: Arc<dyn SessionFactory>,
}

impl SessionHost {
    /// A host that begins with the session in `store`.
    ///
    /// # Errors
    ///
    /// The text for the user when the session cannot be made.
    pub fn new(
        factory: Arc<dyn SessionFactory>,
        store: Arc<dyn SessionStore>,
    ) -> Result<Self, String> {
        let sinks = Sinks::default();
        let current = factory.build(store, sinks.clone())?;
        Ok(Self {
            current: RwLock::new(current),
            sinks,
            factory,
        })
    }

    /// The session at hand.
    pub fn current(&self) -> AgentSession {
        self.current
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The state at this moment.
    pub fn snapshot(&self) -> Snapshot {
        self.current().snapshot()
    }

    async fn switch(&self, command: Command) -> Result<Executed, String> {
        match command {
            Command::NewSession { parent_session } => {
                self.replace(SwitchTo::New, |current| {
                    self.factory
                        .create(current.session(), parent_session, Vec::new())
                })
                .await
            }
            Command::SwitchSession { session_path } => self.to_file(Path::new(&session_path)).await,
            Command::ImportSession { path } => {
                let current = self.current();
                let copy = self.factory.import(current.session(), Path::new(&path))?;
                self.to_file(&copy).await
            }
            Command::Fork { entry_id } => self.fork(&entry_id).await,
            Command::Clone => {
                self.replace(SwitchTo::Clone, |current| {
                    let fork = current.session().fork(None);
                    let fork = fork.map_err(|error| with_causes(&error))?;
                    self.copy(&current, fork.entries)
                })
                .await
            }
            // Read again: the same session, made of what there is now.
            _ => {
                let current = self.current();
                if current.0.busy() {
                    return Err(if current.0.compacting.is_active() {
                        "Wait for compaction to finish before reloading.".to_owned()
                    } else {
                        "Wait for the current response to finish before reloading.".to_owned()
                    });
                }
                if current.0.commands.is_active() {
                    return Err("Wait for the command to finish before reloading.".to_owned());
                }
                self.reload(&current).await
            }
        }
    }

    /// The same session, at the same entry and with the same queues.
    async fn reload(&self, current: &AgentSession) -> Result<Executed, String> {
        let next = self.build(Arc::clone(current.session().store()))?;
        next.stay_at(current.session().leaf_id().as_deref())?;
        let queued = current.0.agent.clear_queues();
        queued.inputs().for_each(|input| next.0.agent.send(input));
        current.0.end();
        self.put(next.clone());
        next.0.core.broadcast.show_queue().await;
        Ok(Executed::done())
    }

    async fn to_file(&self, path: &Path) -> Result<Executed, String> {
        self.replace(SwitchTo::File(path), |_| self.factory.open(path))
            .await
    }

    async fn fork(&self, entry_id: &str) -> Result<Executed, String> {
        let mut text = String::new();
        let switched = self
            .replace(SwitchTo::Fork(entry_id), |current| {
                let fork = current.session().fork(Some(entry_id));
                let fork = fork.map_err(|error| with_causes(&error))?;
                text = fork.content.map(|c| c.text()).unwrap_or_default();
                self.copy(&current, fork.entries)
            })
            .await?;
        let cancelled = switched.value()?["cancelled"] == json!(true);
        Executed::with(&json!({ "text": text, "cancelled": cancelled }))
    }

    fn copy(
        &self,
        current: &AgentSession,
        entries: Vec<Entry>,
    ) -> Result<Arc<dyn SessionStore>, String> {
        let parent = current.session().path();
        let parent = parent.map(|path| path.to_string_lossy().into_owned());
        self.factory.create(current.session(), parent, entries)
    }

    /// Puts the session in the place of the one at hand that `store` gives. What goes on is
    /// aborted first. When the other one cannot be made, this one stays.
    async fn replace(
        &self,
        to: SwitchTo<'_>,
        store: impl FnOnce(AgentSession) -> Result<Arc<dyn SessionStore>, String>,
    ) -> Result<Executed, String> {
        let current = self.current();
        let hooked = current.0.hooks.before_switch(to).await;
        if current.0.told("session_before_switch", hooked).await == Some(false) {
            return Executed::with(&json!({ "cancelled": true }));
        }
        // Nothing begins in the session any more from here on, unless it stays.
        let claim = current.0.take_over().await;
        let next = self.build(store(current.clone())?)?;
        current.0.end();
        self.put(next);
        drop(claim);
        current.0.clear_queue().await?;
        let ended = current.0.hooks.shutdown().await;
        current.0.told("session_shutdown", ended).await;
        Executed::with(&json!({ "cancelled": false }))
    }

    fn build(&self, store: Arc<dyn SessionStore>) -> Result<AgentSession, String> {
        self.factory.build(store, self.sinks.clone())
    }

    fn put(&self, next: AgentSession) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = next;
    }
}

/// The sessions that are listed.
#[derive(Serialize)]
struct Listed {
    sessions: Value,
}

impl Endpoint for SessionHost {
    fn prompt(&self, prompt: Prompt) -> BoxFuture<'_, Result<Submitted, String>> {
        Box::pin(async move { self.current().0.prompt(prompt).await })
    }

    fn execute(&self, command: Command) -> BoxFuture<'_, Result<Executed, String>> {
        Box::pin(async move {
            match command {
                Command::NewSession { .. }
                | Command::SwitchSession { .. }
                | Command::ImportSession { .. }
                | Command::Fork { .. }
                | Command::Clone
                | Command::Reload => self.switch(command).await,
                Command::ListSessions { all } => Executed::with(&Listed {
                    sessions: self.factory.list(all)?,
                }),
                other => self.current().0.execute(other).await,
            }
        })
    }

    fn abort(&self) {
        self.current().0.abort_all();
    }

    fn end(&self) {
        self.current().shut_down();
    }

    fn subscribe(&self, sink: Arc<dyn EventSink>) {
        self.sinks.add(sink);
    }

    fn header(&self) -> Value {
        serde_json::to_value(self.current().session().header()).unwrap_or_default()
    }

    fn take_notices(&self) -> Vec<String> {
        let mut notices = self.factory.take_notices();
        notices.extend(self.current().0.take_notices());
        notices
    }
}
