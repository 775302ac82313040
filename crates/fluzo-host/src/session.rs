//! One session with its agent, as front ends reach it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use fluzo_agent::{Agent, Input, RunContext, RunEnd, RunSpec, TimeEffect, ToolSet};
use fluzo_llm::{
    BoxFuture, Content, CredentialError, Credentials, ImageContent, Message, Model, ThinkingLevel,
};
use fluzo_protocol::{
    Command, Endpoint, EventSink, Prompt, QueueBehavior, RunReport, Snapshot, Submitted,
};
use fluzo_runtime::attempts::Attempts;
use fluzo_runtime::forms::FormMemory;
use fluzo_runtime::operation::RunOperation;
use fluzo_runtime::retry::RetryPolicy;
use fluzo_session::{Session, StoreError};
use serde_json::{Value, json};

use crate::broadcast::Broadcast;
use crate::claim::{Claim, Claims};
use crate::{OpenedSession, interrupted, notices};

/// Why a prompt is refused during a run.
const BUSY: &str = "Agent is already processing. Specify streamingBehavior ('steer' or 'followUp') to queue the message.";
/// Why a message is refused that says nothing.
const EMPTY: &str = "the message is empty";

/// What a session is made of.
pub struct SessionParts {
    /// The agent. Its listeners see nothing before the session is made.
    pub agent: Arc<dyn Agent>,
    /// The session.
    pub opened: OpenedSession,
    /// Time.
    pub time: Arc<dyn TimeEffect>,
    /// Keys; asked before a prompt is accepted.
    pub credentials: Arc<dyn Credentials>,
    /// The model in use.
    pub model: Arc<Model>,
    /// How much it thinks.
    pub thinking: ThinkingLevel,
    /// The tools.
    pub tools: ToolSet,
    /// The system prompt.
    pub system_prompt: Arc<str>,
    /// When failed responses are tried again.
    pub retry: RetryPolicy,
    /// Forms that servers are known to demand: the value that requests are made with.
    pub forms: Arc<FormMemory>,
    /// Names of the queue modes, for the snapshot.
    pub queue_modes: (String, String),
    /// Processes that finished commands left running.
    pub background: Arc<dyn Fn() -> Vec<u32> + Send + Sync>,
}

/// A session that serves commands and shows events.
pub struct AgentSession(Arc<Inner>);

struct Inner {
    parts: SessionParts,
    operation: RunOperation,
    broadcast: Arc<Broadcast>,
    /// Every message that is stored, the running run's included.
    context: Arc<Mutex<Vec<Arc<Message>>>>,
    began: AtomicBool,
    claims: Claims,
    /// No further prompt is accepted.
    ending: AtomicBool,
    notices_told: AtomicUsize,
    damage_told: AtomicBool,
    _broadcasting: fluzo_agent::Subscription,
}

impl AgentSession {
    /// A session that is idle. Nothing is stored before the first prompt.
    pub fn new(mut parts: SessionParts) -> Self {
        let context = Arc::new(Mutex::new(std::mem::take(&mut parts.opened.messages)));
        let attempts = Arc::new(Attempts::new(parts.retry, Arc::clone(&parts.forms)));
        let broadcast = Arc::new(Broadcast::new(Arc::clone(&attempts), Arc::clone(&context)));
        broadcast.watch(&parts.agent);
        let broadcasting = parts.agent.subscribe(Arc::clone(&broadcast) as _);
        let operation = RunOperation::new(
            Arc::clone(&parts.agent),
            Arc::clone(&parts.time),
            attempts,
            Arc::clone(&broadcast) as _,
        );
        Self(Arc::new(Inner {
            operation,
            broadcast,
            context,
            parts,
            began: AtomicBool::new(false),
            claims: Claims::default(),
            ending: AtomicBool::new(false),
            notices_told: AtomicUsize::new(0),
            damage_told: AtomicBool::new(false),
            _broadcasting: broadcasting,
        }))
    }

    /// The state at this moment.
    pub fn snapshot(&self) -> Snapshot {
        self.0.snapshot()
    }

    /// Aborts what runs and accepts no further prompt.
    pub fn shut_down(&self) {
        self.0.ending.store(true, Ordering::SeqCst);
        self.0.abort();
    }

    /// Waits until no prompt is accepted or running.
    pub async fn idle(&self) {
        self.0.claims.free().await;
    }

    /// The session behind it.
    pub fn session(&self) -> &Arc<Session> {
        &self.0.parts.opened.session
    }
}

impl Inner {
    fn busy(&self) -> bool {
        self.claims.is_taken()
            || self.parts.agent.state().read(|state| state.is_streaming)
            || self.operation.is_waiting()
    }

    async fn prompt(self: &Arc<Self>, prompt: Prompt) -> Result<Submitted, String> {
        if self.ending.load(Ordering::SeqCst) {
            return Err("the session is ending".to_owned());
        }
        let message = user_message(&prompt.text, prompt.images, self.parts.time.now_ms())?;
        if self.busy() {
            let queue = prompt.queue.ok_or_else(|| BUSY.to_owned())?;
            self.enqueue(queue, message).await;
            return Ok(Submitted::Queued);
        }
        // From here to the end of its run the session belongs to this prompt, also before
        // the run is polled for the first time.
        let claim = self.claims.take().ok_or_else(|| BUSY.to_owned())?;
        let key = self.parts.credentials.resolve(&self.parts.model).await;
        key.map_err(|error| key_help(&error))?;
        self.begin()
            .map_err(|error| format!("the session could not be saved: {error}"))?;
        let this = Arc::clone(self);
        let spec = self.spec(vec![message]);
        Ok(Submitted::Run(Box::pin(async move {
            this.run(spec, claim).await
        })))
    }

    /// What the session stores before its first prompt: settings that hold from here on,
    /// and results for calls that a crash left without one.
    fn begin(&self) -> Result<(), StoreError> {
        if self.began.load(Ordering::SeqCst) {
            return Ok(());
        }
        let (session, now) = (&self.parts.opened.session, self.parts.time.now_ms());
        // A call that another process may still be running must not be taken for interrupted.
        let moved_back = session.claim(now)?;
        if moved_back {
            *self.context() = session.context()?.messages;
        }
        let added = interrupted::settle(session, now)?;
        self.context().extend(added);
        let model = (
            self.parts.model.provider.clone(),
            self.parts.model.id.clone(),
        );
        if moved_back || self.parts.opened.model.as_ref() != Some(&model) {
            session.append_model_change(&model.0, &model.1, now)?;
        }
        let level = self.parts.thinking;
        if moved_back || self.parts.opened.thinking != Some(level) {
            session.append_thinking_level_change(level.as_str(), now)?;
        }
        self.began.store(true, Ordering::SeqCst);
        Ok(())
    }

    fn spec(&self, prompt: Vec<Arc<Message>>) -> RunSpec {
        RunSpec {
            prompt,
            context: RunContext {
                system_prompt: Arc::clone(&self.parts.system_prompt),
                model: Arc::clone(&self.parts.model),
                thinking: self.parts.thinking,
                tools: self.parts.tools.clone(),
                messages: self.context().clone(),
                session_id: Some(self.parts.opened.session.header().id),
            },
        }
    }

    async fn run(&self, spec: RunSpec, claim: Claim) -> RunReport {
        let mut operation = std::pin::pin!(self.operation.run(spec));
        // The first poll starts the agent; before it there is nothing that an abort could reach.
        let first = futures_util::poll!(operation.as_mut());
        if claim.begin() {
            self.abort();
        }
        let outcome = match first {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => operation.await,
        };
        match outcome {
            Ok(outcome) => {
                let last = outcome
                    .messages
                    .iter()
                    .rfind(|m| m.as_assistant().is_some())
                    .cloned();
                let halted = match outcome.end {
                    RunEnd::Halted(halt) => Some(halt.to_string()),
                    RunEnd::Looping(looping) => Some(looping.to_string()),
                    _ => None,
                };
                RunReport { last, halted }
            }
            Err(error) => RunReport {
                last: None,
                halted: Some(error.to_string()),
            },
        }
    }

    async fn enqueue(&self, queue: QueueBehavior, message: Arc<Message>) {
        self.parts.agent.send(match queue {
            QueueBehavior::Steer => Input::Steer(message),
            QueueBehavior::FollowUp => Input::FollowUp(message),
        });
        self.broadcast.show_queue().await;
    }

    async fn execute(&self, command: Command) -> Result<Option<Value>, String> {
        let now = self.parts.time.now_ms();
        match command {
            Command::Steer { message, images } => {
                self.enqueue(QueueBehavior::Steer, user_message(&message, images, now)?)
                    .await;
                Ok(None)
            }
            Command::FollowUp { message, images } => {
                self.enqueue(
                    QueueBehavior::FollowUp,
                    user_message(&message, images, now)?,
                )
                .await;
                Ok(None)
            }
            Command::Abort => {
                self.abort();
                self.claims.free().await;
                Ok(None)
            }
            Command::AbortRetry => {
                self.operation.cancel_wait();
                Ok(None)
            }
            Command::GetState => serde_json::to_value(self.snapshot())
                .map(Some)
                .map_err(|e| e.to_string()),
            Command::GetMessages => Ok(Some(json!({ "messages": *self.context() }))),
            Command::Prompt { .. } => Err("a prompt is started, not executed".to_owned()),
        }
    }

    fn abort(&self) {
        self.claims.abort_early();
        self.operation.cancel();
    }

    fn snapshot(&self) -> Snapshot {
        let queued = self.parts.agent.queued();
        let state = self.parts.agent.state();
        Snapshot {
            model: Some(self.parts.model.without_secrets()),
            thinking_level: self.parts.thinking.as_str().to_owned(),
            is_streaming: self.busy(),
            is_compacting: false,
            steering_mode: self.parts.queue_modes.0.clone(),
            follow_up_mode: self.parts.queue_modes.1.clone(),
            session_file: self
                .parts
                .opened
                .session
                .path()
                .map(|path| path.to_string_lossy().into_owned()),
            session_id: self.parts.opened.session.header().id,
            auto_compaction_enabled: false,
            message_count: self.context().len(),
            pending_message_count: queued.steering.len() + queued.follow_up.len(),
            phase: state.phase().as_str().to_owned(),
            background_processes: (self.parts.background)(),
        }
    }

    fn take_notices(&self) -> Vec<String> {
        let mut out = Vec::new();
        if !self.damage_told.swap(true, Ordering::SeqCst) {
            out.extend(notices::damage(&self.parts.opened.session.damage()));
        }
        let all = self.parts.opened.session.notices();
        let told = self.notices_told.swap(all.len(), Ordering::SeqCst);
        out.extend(all.iter().skip(told).map(notices::text));
        out
    }

    fn context(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Message>>> {
        self.context.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A message of text and images. Providers refuse empty text, so there is no block of it.
fn user_message(text: &str, images: Vec<ImageContent>, now: i64) -> Result<Arc<Message>, String> {
    let said = !text.trim().is_empty();
    if !said && images.is_empty() {
        return Err(EMPTY.to_owned());
    }
    let mut blocks: Vec<Content> = said.then(|| Content::text(text)).into_iter().collect();
    blocks.extend(images.into_iter().map(Content::Image));
    Ok(Arc::new(Message::user_blocks(blocks, now)))
}

fn key_help(error: &CredentialError) -> String {
    let variable = match error {
        CredentialError::Missing { variable, .. } | CredentialError::SignIn { variable, .. } => {
            variable.as_ref()
        }
        CredentialError::Endpoint { variable, .. } => {
            return format!("{error}\nhint: `export {variable}=VALUE`");
        }
        // These say themselves what to mend.
        CredentialError::Command { .. } | CredentialError::Header { .. } => {
            return error.to_string();
        }
        CredentialError::Unresolved { .. } => None,
    };
    match variable {
        Some(variable) => format!(
            "{error}\nhint: set the environment variable `{variable}` (`export {variable}=KEY`), or give `--api-key KEY`"
        ),
        None => format!(
            "{error}\nhint: add an \"apiKey\" to the provider in models.json, or give `--api-key KEY`"
        ),
    }
}

impl Endpoint for AgentSession {
    fn prompt(&self, prompt: Prompt) -> BoxFuture<'_, Result<Submitted, String>> {
        Box::pin(async move { self.0.prompt(prompt).await })
    }

    fn execute(&self, command: Command) -> BoxFuture<'_, Result<Option<Value>, String>> {
        Box::pin(self.0.execute(command))
    }

    fn abort(&self) {
        self.0.abort();
    }

    fn subscribe(&self, sink: Arc<dyn EventSink>) {
        self.0.broadcast.subscribe(sink);
    }

    fn header(&self) -> Value {
        serde_json::to_value(self.0.parts.opened.session.header()).unwrap_or_default()
    }

    fn take_notices(&self) -> Vec<String> {
        self.0.take_notices()
    }
}
