//! One session with its agent: prompts, runs, and what ends them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fluzo_agent::{Agent, QueueMode, RunEnd, RunOutcome, RunSpec, StartError, TimeEffect, ToolSet};
use fluzo_llm::{AbortSignal, BoxFuture, Credentials, Message, Model, ModelRequest, ThinkingLevel};
use fluzo_protocol::{
    Command, DrainMode, Endpoint, EventSink, Executed, Prompt, QueueBehavior, RunReport, Snapshot,
    Submitted,
};
use fluzo_resources::Resources;
use fluzo_runtime::attempts::Attempts;
use fluzo_runtime::forms::FormMemory;
use fluzo_runtime::operation::RunOperation;
use fluzo_runtime::retry::RetryPolicy;
use fluzo_session::Session;
use serde_json::Value;

use crate::abort_slot::AbortSlot;
use crate::broadcast::{Broadcast, Sinks};
use crate::choice::{Choice, PromptMaker, Scoped};
use crate::claim::{Claim, Claims};
use crate::compacting::{Compacting, CompactionParts};
use crate::core::Core;
use crate::input::Expanded;
use crate::live::Live;
use crate::services::{Exporter, SettingsStore, UserImages, UserShell};
use crate::user_shell::UserCommands;
use crate::{ModelRegistry, OpenedSession, SessionHooks, keys, notices};

/// Why a prompt is refused during a run.
pub(crate) const BUSY: &str = "Agent is already processing. Specify streamingBehavior ('steer' or 'followUp') to queue the message.";

/// Why a prompt is refused that comes too late.
pub(crate) const ENDING: &str = "the session is ending";

/// What a session is made of.
pub struct SessionParts {
    /// The agent. Its listeners see nothing before the session is made.
    pub agent: Arc<dyn Agent>,
    /// What the agent's hooks are told about changes; see [`Live::hooks`].
    pub live: Arc<Live>,
    /// The session.
    pub opened: OpenedSession,
    /// Time.
    pub time: Arc<dyn TimeEffect>,
    /// Keys; asked before a prompt is accepted.
    pub credentials: Arc<dyn Credentials>,
    /// The models there are.
    pub models: Arc<ModelRegistry>,
    /// Whether requests to a provider can be authorised.
    pub usable: Arc<dyn Fn(&str) -> bool + Send + Sync>,
    /// The model in use.
    pub model: Arc<Model>,
    /// Told of the model in use, at first and whenever it is another one.
    pub on_model: Arc<dyn Fn(&Model) + Send + Sync>,
    /// How much it thinks.
    pub thinking: ThinkingLevel,
    /// How much a model is to think that can, after one that cannot.
    pub preferred_thinking: ThinkingLevel,
    /// Models to cycle through, with the patterns they come from; none for all.
    pub scope: (Vec<String>, Vec<Scoped>),
    /// All tools.
    pub tools: ToolSet,
    /// Names of those on offer, in order.
    pub active_tools: Vec<String>,
    /// Makes the system prompt.
    pub system_prompt: PromptMaker,
    /// Skills, templates and the rest.
    pub resources: Arc<Resources>,
    /// Whether `/skill:NAME` is expanded.
    pub skill_commands: bool,
    /// When failed responses are tried again.
    pub retry: RetryPolicy,
    /// Forms that servers are known to demand: the value that requests are made with.
    pub forms: Arc<FormMemory>,
    /// How the session is compacted.
    pub compaction: CompactionParts,
    /// How the queues drain, steering first.
    pub queue_modes: (DrainMode, DrainMode),
    /// Keeps settings that the user changes.
    pub settings: Arc<dyn SettingsStore>,
    /// Runs the user's commands.
    pub shell: Arc<dyn UserShell>,
    /// Makes the user's images ready.
    pub images: Arc<dyn UserImages>,
    /// Writes the session for others.
    pub exporter: Arc<dyn Exporter>,
    /// Shows what would be sent.
    pub preview: Arc<dyn RequestPreview>,
    /// Hooks.
    pub hooks: Arc<dyn SessionHooks>,
    /// Processes that finished commands left running.
    pub background: Arc<dyn Fn() -> Vec<u32> + Send + Sync>,
    /// Where events go.
    pub sinks: Sinks,
}

/// Shows the body of a request without sending it.
pub trait RequestPreview: Send + Sync {
    /// The body as it would be sent, without any secret.
    ///
    /// # Errors
    ///
    /// The text for the user when the model's dialect is not spoken.
    fn body(&self, request: ModelRequest) -> Result<Value, String>;
}

/// A session that is open, with everything that can be done to it.
#[derive(Clone)]
pub struct AgentSession(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) core: Arc<Core>,
    pub(crate) agent: Arc<dyn Agent>,
    pub(crate) credentials: Arc<dyn Credentials>,
    pub(crate) models: Arc<ModelRegistry>,
    pub(crate) usable: Arc<dyn Fn(&str) -> bool + Send + Sync>,
    pub(crate) resources: Arc<Resources>,
    pub(crate) skill_commands: bool,
    pub(crate) settings: Arc<dyn SettingsStore>,
    pub(crate) images: Arc<dyn UserImages>,
    pub(crate) exporter: Arc<dyn Exporter>,
    pub(crate) preview: Arc<dyn RequestPreview>,
    pub(crate) hooks: Arc<dyn SessionHooks>,
    background: Arc<dyn Fn() -> Vec<u32> + Send + Sync>,
    queue_modes: Mutex<(DrainMode, DrainMode)>,
    pub(crate) attempts: Arc<Attempts>,
    pub(crate) operation: RunOperation,
    pub(crate) compacting: Arc<Compacting>,
    /// The summary of a branch that is being left.
    pub(crate) branch_summary: AbortSlot,
    /// The publication of the session.
    pub(crate) sharing: AbortSlot,
    pub(crate) commands: Arc<UserCommands>,
    pub(crate) claims: Claims,
    /// Nothing begins any more.
    ending: AtomicBool,
    notices_told: AtomicUsize,
    damage_told: AtomicBool,
    _broadcasting: fluzo_agent::Subscription,
}

impl AgentSession {
    /// A session that is idle. Nothing is stored before the first prompt.
    pub fn new(parts: SessionParts) -> Self {
        let context = Arc::default();
        let attempts = Arc::new(Attempts::new(parts.retry, Arc::clone(&parts.forms)));
        let broadcast = Arc::new(Broadcast::new(
            parts.sinks,
            Arc::clone(&attempts),
            Arc::clone(&context),
        ));
        broadcast.watch(&parts.agent);
        let broadcasting = parts.agent.subscribe(Arc::clone(&broadcast) as _);
        let mut choice = Choice {
            model: parts.model,
            thinking: parts.thinking,
            preferred: parts.preferred_thinking,
            patterns: parts.scope.0,
            scope: parts.scope.1,
            all_tools: parts.tools,
            tools: ToolSet::default(),
            system_prompt: "".into(),
            prompt_maker: parts.system_prompt,
        };
        let unknown = choice.offer(&parts.active_tools);
        let core = Arc::new(Core::new(
            parts.opened,
            choice,
            Arc::clone(&parts.time),
            Arc::clone(&broadcast),
            context,
            (parts.live, parts.on_model),
        ));
        let commands = Arc::new(UserCommands::new(parts.shell));
        let compacting = Arc::new(Compacting::new(
            Arc::clone(&core),
            Arc::clone(&parts.hooks),
            Arc::clone(&commands),
            parts.compaction,
        ));
        let operation = RunOperation::new(
            Arc::clone(&parts.agent),
            parts.time,
            Arc::clone(&attempts),
            broadcast,
            Arc::clone(&compacting) as _,
        );
        let inner = Inner {
            branch_summary: AbortSlot::default(),
            sharing: AbortSlot::default(),
            core,
            agent: parts.agent,
            credentials: parts.credentials,
            models: parts.models,
            usable: parts.usable,
            resources: parts.resources,
            skill_commands: parts.skill_commands,
            settings: parts.settings,
            images: parts.images,
            exporter: parts.exporter,
            preview: parts.preview,
            hooks: parts.hooks,
            background: parts.background,
            queue_modes: Mutex::default(),
            attempts,
            operation,
            compacting,
            commands,
            claims: Claims::default(),
            ending: AtomicBool::new(false),
            notices_told: AtomicUsize::new(0),
            damage_told: AtomicBool::new(false),
            _broadcasting: broadcasting,
        };
        inner.set_queue_modes(|modes| *modes = parts.queue_modes);
        for name in unknown {
            inner.core.remark(format!("unknown tool \"{name}\""));
        }
        Self(Arc::new(inner))
    }

    /// The state at this moment.
    pub fn snapshot(&self) -> Snapshot {
        self.0.snapshot()
    }

    /// Aborts everything and begins nothing any more.
    pub fn shut_down(&self) {
        self.0.end();
        self.0.abort_all();
    }

    /// Waits until nothing is accepted or running.
    pub async fn idle(&self) {
        self.0.claims.free().await;
    }

    /// The session behind it.
    pub fn session(&self) -> &Arc<Session> {
        &self.0.core.session
    }

    /// Moves to the entry `leaf`, or before the first one, from where a session before this one
    /// went on.
    pub(crate) fn stay_at(&self, leaf: Option<&str>) -> Result<(), String> {
        let session = &self.0.core.session;
        let moved = match leaf {
            Some(leaf) => session.branch(leaf),
            None => {
                session.reset_leaf();
                Ok(())
            }
        };
        moved
            .and_then(|()| self.0.core.rebuild())
            .map_err(|error| fluzo_stdx::error::with_causes(&error))
    }

    /// The system prompt as it stands.
    pub fn system_prompt(&self) -> Arc<str> {
        Arc::clone(&self.0.core.choice().system_prompt)
    }
}

impl Inner {
    /// Aborts what goes on and waits until the session is nobody's.
    pub(crate) async fn take_over(&self) -> Claim {
        self.abort_all();
        self.claims.wait().await
    }

    pub(crate) fn busy(&self) -> bool {
        self.claims.is_taken()
            || self.agent.state().read(|state| state.is_streaming)
            || self.operation.is_waiting()
    }

    pub(crate) async fn prompt(self: &Arc<Self>, prompt: Prompt) -> Result<Submitted, String> {
        if self.is_ending() {
            return Err(ENDING.to_owned());
        }
        let queue = prompt.queue;
        let input = match self.expand(prompt).await {
            Expanded::Handled => return Ok(Submitted::Handled),
            Expanded::Input(input) => input,
        };
        let message = self.message(input).await?;
        if self.busy() {
            let queue = queue.ok_or_else(|| BUSY.to_owned())?;
            self.enqueue(queue, message).await;
            return Ok(Submitted::Queued);
        }
        // From here to the end of its run the session belongs to this prompt, also before
        // the run is polled for the first time.
        let claim = self.claims.take().ok_or_else(|| BUSY.to_owned())?;
        let model = Arc::clone(&self.core.choice().model);
        let key = self.credentials.resolve(&model).await;
        key.map_err(|error| keys::help(&error))?;
        // The session may have been left while the prompt was looked at.
        if self.is_ending() {
            return Err(ENDING.to_owned());
        }
        self.begin()?;
        self.core.store_choice().map_err(|error| unsaved(&error))?;
        let this = Arc::clone(self);
        Ok(Submitted::Run(Box::pin(async move {
            this.run(message, claim).await
        })))
    }

    /// Makes sure that the session may be written.
    pub(crate) fn claimed(&self) -> Result<(), String> {
        self.core.begin().map_err(|error| unsaved(&error))
    }

    /// The same, and stores what a run has held back. To be called by who has the claim.
    pub(crate) fn begin(&self) -> Result<(), String> {
        self.claimed()?;
        let stored = self.commands.flush(&self.core);
        stored.map_err(|error| unsaved(&error))
    }

    /// Stores what a run has held back. To be called by who has the claim, before it ends.
    pub(crate) fn flush(&self) {
        if let Err(error) = self.commands.flush(&self.core) {
            self.core.remark(unsaved(&error));
        }
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::SeqCst)
    }

    /// Begins nothing any more, prompts included.
    pub(crate) fn end(&self) {
        self.ending.store(true, Ordering::SeqCst);
    }

    /// The run of a prompt, from the compaction that may come before it to its end.
    async fn run(&self, message: Arc<Message>, claim: Claim) -> RunReport {
        let abort = self.compacting.begin_run();
        if claim.begin() {
            // An abort that came first still lets the prompt be stored with what became of it.
            abort.cancel();
        } else {
            self.compacting.before_prompt().await;
        }
        let spec = self.prepared(message, &abort).await;
        let report = self.finish(self.operation.run(spec), &abort).await;
        self.flush();
        report
    }

    /// What a run begins with. After an abort no hook is asked any more.
    async fn prepared(&self, message: Arc<Message>, abort: &AbortSignal) -> RunSpec {
        let mut spec = self.spec(Vec::new());
        let text = said(&message);
        spec.prompt.push(message);
        if abort.is_cancelled() {
            return spec;
        }
        let hooked = self.before_run(&text, &spec.context.system_prompt);
        let added = abort.run_until_cancelled(hooked).await;
        // The choices may have changed while the hook was asked.
        spec.context = self.core.run_context();
        if let Some((messages, system_prompt)) = added.flatten() {
            spec.prompt.extend(messages);
            if let Some(own) = system_prompt {
                self.core.set_run_prompt(Some(Arc::clone(&own)));
                spec.context.system_prompt = own;
            }
        }
        spec
    }

    /// Goes on with what waits in the queues, when there is something. After an abort it waits
    /// on.
    pub(crate) fn go_on(self: &Arc<Self>, claim: Claim) -> Option<BoxFuture<'static, RunReport>> {
        if self.is_ending() || claim.is_aborted() || !self.core.broadcast.anything_queued() {
            return None;
        }
        let this = Arc::clone(self);
        Some(Box::pin(async move {
            let abort = this.compacting.begin_run();
            if claim.begin() {
                return RunReport::nothing();
            }
            let mut spec = this.spec(Vec::new());
            let Some(further) = this.compacting.waiting() else {
                return RunReport::nothing();
            };
            spec.context.messages = further.messages;
            let report = if further.prompt.is_empty() {
                this.finish(this.operation.resume(spec), &abort).await
            } else {
                spec.prompt = further.prompt;
                this.finish(this.operation.run(spec), &abort).await
            };
            this.flush();
            report
        }))
    }

    fn spec(&self, prompt: Vec<Arc<Message>>) -> RunSpec {
        RunSpec {
            prompt,
            context: self.core.run_context(),
        }
    }

    async fn finish(
        &self,
        operation: impl Future<Output = Result<RunOutcome, StartError>>,
        abort: &AbortSignal,
    ) -> RunReport {
        // It has begun: an abort that came before it is passed on, any other reaches it.
        if abort.is_cancelled() {
            self.operation.cancel();
        }
        let outcome = operation.await;
        report(outcome)
    }

    pub(crate) async fn enqueue(&self, queue: QueueBehavior, message: Arc<Message>) {
        self.agent.send(match queue {
            QueueBehavior::Steer => fluzo_agent::Input::Steer(message),
            QueueBehavior::FollowUp => fluzo_agent::Input::FollowUp(message),
        });
        self.core.broadcast.show_queue().await;
    }

    /// Aborts the run, and what it waits for.
    pub(crate) fn abort_run(&self) {
        self.claims.abort_early();
        self.compacting.cancel_automatic();
        self.operation.cancel();
    }

    /// Aborts everything that goes on.
    pub(crate) fn abort_all(&self) {
        self.abort_run();
        self.compacting.cancel();
        self.branch_summary.cancel();
        self.sharing.cancel();
        self.commands.cancel();
    }

    pub(crate) fn set_queue_modes(&self, change: impl FnOnce(&mut (DrainMode, DrainMode))) {
        let mode = |mode| match mode {
            DrainMode::OneAtATime => QueueMode::OneAtATime,
            DrainMode::All => QueueMode::All,
        };
        let mut modes = self
            .queue_modes
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        change(&mut modes);
        self.agent.set_queue_modes(mode(modes.0), mode(modes.1));
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let queued = self.agent.queued();
        let state = self.agent.state();
        let (model, thinking) = {
            let choice = self.core.choice();
            (choice.model.without_secrets(), choice.thinking)
        };
        let modes = *self
            .queue_modes
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let session = &self.core.session;
        Snapshot {
            model: Some(model),
            thinking_level: thinking.as_str().to_owned(),
            is_streaming: self.busy() && !self.compacting.is_manual(),
            is_compacting: self.compacting.is_active(),
            steering_mode: modes.0.as_str().to_owned(),
            follow_up_mode: modes.1.as_str().to_owned(),
            session_file: session
                .path()
                .map(|path| path.to_string_lossy().into_owned()),
            session_id: session.header().id,
            session_name: session.name(),
            auto_compaction_enabled: self.compacting.is_enabled(),
            message_count: self.core.context().len(),
            pending_message_count: queued.steering.len() + queued.follow_up.len(),
            phase: state.phase().as_str().to_owned(),
            background_processes: (self.background)(),
        }
    }

    pub(crate) fn take_notices(&self) -> Vec<String> {
        let mut out = Vec::new();
        let session = &self.core.session;
        if !self.damage_told.swap(true, Ordering::SeqCst) {
            out.extend(notices::damage(&session.damage()));
        }
        let all = session.notices();
        let told = self.notices_told.swap(all.len(), Ordering::SeqCst);
        out.extend(all.iter().skip(told).map(notices::text));
        out.append(&mut self.core.take_remarks());
        out
    }
}

/// The text of a message for the user to edit; empty of one that nobody typed.
pub(crate) fn said(message: &Message) -> String {
    match message {
        Message::User(user) => user.content.text(),
        Message::Custom(custom) => custom.content.text(),
        _ => String::new(),
    }
}

/// What the user reads when the session could not be written.
pub(crate) fn unsaved(error: &fluzo_session::StoreError) -> String {
    let text = fluzo_stdx::error::with_causes(error);
    format!("the session could not be saved: {text}")
}

fn report(outcome: Result<RunOutcome, StartError>) -> RunReport {
    match outcome {
        Ok(outcome) => {
            let response = |message: &&Arc<Message>| message.as_assistant().is_some();
            let last = outcome.messages.iter().rfind(response).cloned();
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

impl Endpoint for AgentSession {
    fn prompt(&self, prompt: Prompt) -> BoxFuture<'_, Result<Submitted, String>> {
        Box::pin(async move { self.0.prompt(prompt).await })
    }

    fn execute(&self, command: Command) -> BoxFuture<'_, Result<Executed, String>> {
        Box::pin(async move { self.0.execute(command).await })
    }

    fn abort(&self) {
        self.0.abort_all();
    }

    fn end(&self) {
        self.shut_down();
    }

    fn subscribe(&self, sink: Arc<dyn EventSink>) {
        self.0.core.broadcast.subscribe(sink);
    }

    fn header(&self) -> Value {
        serde_json::to_value(self.0.core.session.header()).unwrap_or_default()
    }

    fn take_notices(&self) -> Vec<String> {
        self.0.take_notices()
    }
}
