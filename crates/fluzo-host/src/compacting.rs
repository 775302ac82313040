//! When the session is compacted, and what follows from it: by hand, when the context is
//! about to fill the window, and when a request did not fit.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fluzo_agent::{RunContext, RunEnd, RunOutcome};
use fluzo_llm::{AbortSignal, AssistantMessage, BoxFuture, Message, Model, StreamErrorKind};
use fluzo_protocol::{CompactionReason as Shown, CompactionResult, Event};
use fluzo_runtime::branch_summary::BranchSummaryRequest;
use fluzo_runtime::compact::{
    Breakdown, Compacted, CompactionError, CompactionReason, CompactionRequest, CompactionSettings,
    Compactor, OVERFLOW_AGAIN, Preparation, ReadyCompaction, needs_compaction, prepare,
};
use fluzo_runtime::operation::{Continuation, Further};
use fluzo_stdx::error::with_causes;

use crate::SessionHooks;
use crate::abort_slot::AbortSlot;
use crate::core::Core;
use crate::hooks::{CompactionAction, CompactionPlan, HookError};
use crate::progress::{Progress, Verdict};
use crate::user_shell::UserCommands;

/// Compacts the session of [`Core`].
pub(crate) struct Compacting {
    core: Arc<Core>,
    hooks: Arc<dyn SessionHooks>,
    commands: Arc<UserCommands>,
    pub(crate) compactor: Compactor,
    settings: Mutex<CompactionSettings>,
    by_model: BTreeMap<String, ModelSizes>,
    summary_model: Option<Arc<Model>>,
    branch_reserve: u64,
    active: AbortSlot<CompactionReason>,
    progress: Progress,
    /// A request of the present prompt did not fit, and the session was compacted for it.
    overflow_tried: AtomicBool,
    /// Fires when the present run is aborted.
    run: Mutex<AbortSignal>,
}

/// How the session is compacted.
pub struct CompactionParts {
    /// When and how far.
    pub settings: CompactionSettings,
    /// Other sizes for some models, by `provider/model`.
    pub by_model: BTreeMap<String, ModelSizes>,
    /// Makes summaries.
    pub compactor: Compactor,
    /// The model for summaries; that of the session without one.
    pub summary_model: Option<Arc<Model>>,
    /// Tokens kept free for the summary of a branch.
    pub branch_reserve_tokens: u64,
}

/// Sizes of one model, in tokens, which go before those of the settings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ModelSizes {
    /// What is kept free in the window for the next response.
    pub reserve_tokens: Option<u64>,
    /// How much of the newest messages stays as it is.
    pub keep_recent_tokens: Option<u64>,
}

/// What a response says about the room that is left.
enum Room {
    Enough,
    /// The context is about to fill the window.
    Little,
    /// The request did not fit.
    None,
}

impl Compacting {
    pub(crate) fn new(
        core: Arc<Core>,
        hooks: Arc<dyn SessionHooks>,
        commands: Arc<UserCommands>,
        parts: CompactionParts,
    ) -> Self {
        Self {
            core,
            hooks,
            commands,
            compactor: parts.compactor,
            settings: Mutex::new(parts.settings),
            by_model: parts.by_model,
            summary_model: parts.summary_model,
            branch_reserve: parts.branch_reserve_tokens,
            active: AbortSlot::default(),
            progress: Progress::default(),
            overflow_tried: AtomicBool::new(false),
            run: Mutex::default(),
        }
    }

    pub(crate) fn is_active(&self) -> bool {
        self.active.is_occupied()
    }

    /// Whether one is going on that the user asked for.
    pub(crate) fn is_manual(&self) -> bool {
        self.active
            .holds(|reason| *reason == CompactionReason::Manual)
    }

    pub(crate) fn is_enabled(&self) -> bool {
        lock(&self.settings).enabled
    }

    pub(crate) fn set_enabled(&self, enabled: bool) {
        lock(&self.settings).enabled = enabled;
        self.progress.reset();
    }

    /// Ends the compaction that is going on, if there is one.
    pub(crate) fn cancel(&self) {
        self.active.cancel();
    }

    /// Ends a compaction that belongs to a run, and remembers that the run is aborted.
    pub(crate) fn cancel_automatic(&self) {
        lock(&self.run).cancel();
        if !self.is_manual() {
            self.cancel();
        }
    }

    /// A run begins that no abort before it counts for. What is returned fires with an abort.
    pub(crate) fn begin_run(&self) -> AbortSignal {
        self.overflow_tried.store(false, Ordering::SeqCst);
        let run = AbortSignal::new();
        lock(&self.run).clone_from(&run);
        run
    }

    /// Makes the context fit before a prompt, where it can be told that it does not.
    pub(crate) async fn before_prompt(&self) {
        let (messages, model) = self.standing();
        let last = messages.iter().rev().find_map(|m| m.as_assistant());
        if last.is_some() && self.is_due(&messages, &model) {
            self.threshold().await;
        }
    }

    /// Compacts because the user asked for it.
    pub(crate) async fn manual(&self, focus: Option<String>) -> Result<CompactionResult, String> {
        let compacted = self.show(CompactionReason::Manual, focus, false).await;
        match compacted {
            Ok(compacted) => Ok(result(&compacted)),
            Err(error) => Err(with_causes(&error)),
        }
    }

    /// What the summary of a branch is asked for with.
    pub(crate) fn branch_request(&self) -> BranchSummaryRequest {
        let choice = self.core.choice();
        BranchSummaryRequest {
            model: self.model_for_summaries(&choice.model),
            thinking: choice.thinking,
            reserve_tokens: self.branch_reserve,
            custom_instructions: None,
            replace_instructions: false,
            session_id: Some(self.core.session.header().id),
        }
    }

    fn model_for_summaries(&self, model: &Arc<Model>) -> Arc<Model> {
        Arc::clone(self.summary_model.as_ref().unwrap_or(model))
    }

    fn standing(&self) -> (Vec<Arc<Message>>, Arc<Model>) {
        let model = Arc::clone(&self.core.choice().model);
        (self.core.context().clone(), model)
    }

    fn is_due(&self, messages: &[Arc<Message>], model: &Model) -> bool {
        needs_compaction(messages, model, &self.settings_for(model))
    }

    fn settings_for(&self, model: &Model) -> CompactionSettings {
        let settings = *lock(&self.settings);
        let own = self
            .by_model
            .get(&format!("{}/{}", model.provider, model.id));
        let own = own.copied().unwrap_or_default();
        CompactionSettings {
            reserve_tokens: own.reserve_tokens.unwrap_or(settings.reserve_tokens),
            keep_recent_tokens: own
                .keep_recent_tokens
                .unwrap_or(settings.keep_recent_tokens),
            ..settings
        }
    }

    fn room(&self, run: &RunOutcome, messages: &[Arc<Message>], model: &Model) -> Room {
        if matches!(run.end, RunEnd::Aborted | RunEnd::Halted(_)) {
            return Room::Enough;
        }
        let refused =
            matches!(&run.end, RunEnd::Failed(error) if error.kind == StreamErrorKind::Overflow);
        let last = run.messages.iter().rev().find_map(|m| m.as_assistant());
        // What did not fit the window of another model may fit that of this one.
        let did_not_fit = |last: &AssistantMessage| {
            let silent = |window| last.usage.overflows(&last.stop_reason, window);
            (&last.provider, &last.model) == (&model.provider, &model.id)
                && (refused || silent(model.context_window))
        };
        if self.is_enabled() && last.is_some_and(did_not_fit) {
            return Room::None;
        }
        if self.is_due(messages, model) {
            return Room::Little;
        }
        // Only a response tells how large the context really is: right after a compaction
        // its size is an estimate that leaves out what requests hold beside messages.
        if !matches!(run.end, RunEnd::Failed(_)) {
            self.progress.reset();
        }
        Room::Enough
    }

    /// Compacts for a request that did not fit; the context to make it again with.
    async fn overflow(&self) -> Option<Further> {
        if self.overflow_tried.swap(true, Ordering::SeqCst) {
            self.fail(CompactionReason::Overflow, OVERFLOW_AGAIN).await;
            return None;
        }
        // A response that says something is no failure: it is not asked for again.
        let again = self.without_last_failure().is_some();
        let done = self.show(CompactionReason::Overflow, None, again).await;
        if done.is_err() || self.is_run_aborted() {
            return None;
        }
        match self.without_last_failure() {
            Some(messages) => Some(Further {
                messages,
                prompt: Vec::new(),
            }),
            None => self.waiting(),
        }
    }

    /// Compacts because the window is about to be full, as long as that is of use.
    async fn threshold(&self) {
        let (verdict, model) = {
            let choice = self.core.choice();
            (self.progress.verdict(&choice), Arc::clone(&choice.model))
        };
        match verdict {
            Verdict::Make => {}
            Verdict::Leave => return,
            Verdict::Tell => {
                let text = self.breakdown().to_string();
                return self.fail(CompactionReason::Threshold, &text).await;
            }
        }
        let limit = self.settings_for(&model).limit_in(model.context_window);
        let limit = limit.unwrap_or(u64::MAX);
        match self.show(CompactionReason::Threshold, None, false).await {
            Ok(done) => {
                let (before, after) = (done.tokens_before, done.estimated_tokens_after);
                self.progress.note(before, after, limit);
            }
            // All would be kept: there is no less to be had.
            Err(error) if error.is_nothing_to_do() => self.progress.note(limit, limit, limit),
            Err(_) => {}
        }
    }

    /// The context without the response that failed; none when the last one did not. Commands
    /// of the user's may have been stored behind it.
    fn without_last_failure(&self) -> Option<Vec<Arc<Message>>> {
        let mut messages = self.core.context().clone();
        let said = |m: &Arc<Message>| !matches!(**m, Message::BashExecution(_));
        let at = messages.iter().rposition(said)?;
        let last = messages.get(at)?.as_assistant()?;
        (last.failed() || last.content.is_empty()).then(|| {
            messages.remove(at);
            messages
        })
    }

    /// What to go on with, when something waits in the queues.
    pub(crate) fn waiting(&self) -> Option<Further> {
        if self.is_run_aborted() || !self.core.broadcast.anything_queued() {
            return None;
        }
        let messages = self.core.context().clone();
        let answered = messages.last().is_some_and(|m| m.as_assistant().is_some());
        // Behind anything but a response the agent would make a request before it looks at
        // what waits for the end of a run.
        let prompt = if answered {
            None
        } else {
            self.core.broadcast.take_queued()
        };
        Some(Further {
            messages,
            prompt: prompt.into_iter().collect(),
        })
    }

    fn is_run_aborted(&self) -> bool {
        lock(&self.run).is_cancelled()
    }

    /// Compacts and shows its beginning and its end.
    async fn show(
        &self,
        reason: CompactionReason,
        focus: Option<String>,
        again: bool,
    ) -> Result<Compacted, CompactionError> {
        // Who compacts has the claim of the session, so no other compaction goes on.
        let active = self.active.occupy(reason);
        let active = active.ok_or(CompactionError::Cancelled)?;
        let shown = shown(reason);
        self.core
            .broadcast
            .show(Event::CompactionStart { reason: shown })
            .await;
        let done = self.compact(reason, focus, &active.abort).await;
        let done = match done {
            Ok(compacted) => self.core.rebuild().map(|()| compacted).map_err(Into::into),
            Err(error) => Err(error),
        };
        drop(active);
        let aborted = matches!(done, Err(CompactionError::Cancelled));
        let error = done.as_ref().err().filter(|_| !aborted);
        let aborted_run = self.is_run_aborted();
        let event = Event::CompactionEnd {
            reason: shown,
            result: done.as_ref().ok().map(result),
            aborted,
            will_retry: again && done.is_ok() && !aborted_run,
            error_message: error.map(|error| reason.failure(error)),
        };
        self.core.broadcast.show(event).await;
        done
    }

    async fn compact(
        &self,
        reason: CompactionReason,
        focus: Option<String>,
        abort: &AbortSignal,
    ) -> Result<Compacted, CompactionError> {
        let request = {
            let choice = self.core.choice();
            CompactionRequest {
                settings: self.settings_for(&choice.model),
                model: self.model_for_summaries(&choice.model),
                window_model: Arc::clone(&choice.model),
                thinking: choice.thinking,
                custom_instructions: focus,
                reason,
                ready_made: None,
                session_id: Some(self.core.session.header().id),
            }
        };
        let session = &self.core.session;
        let preparation = prepare(session, &request)?;
        let plan = plan(&preparation, &request);
        let hooked = self.hooks.before_compaction(&plan);
        let action = match abort.run_until_cancelled(hooked).await {
            None => return Err(CompactionError::Cancelled),
            Some(Ok(action)) => action,
            Some(Err(error)) => {
                self.tell(error).await;
                CompactionAction::Go
            }
        };
        let ready = match action {
            CompactionAction::Cancel => return Err(CompactionError::Cancelled),
            CompactionAction::Use(own) => ReadyCompaction {
                summary: own.summary,
                first_kept_entry_id: own.first_kept_entry_id,
                tokens_before: own.tokens_before,
                details: own.details,
                from_hook: true,
                usage: fluzo_llm::Usage::default(),
            },
            CompactionAction::Go => {
                self.compactor
                    .summarise(&preparation, &request, abort)
                    .await?
            }
        };
        self.compactor.store(session, &preparation, ready, abort)
    }

    async fn tell(&self, error: HookError) {
        let event = Event::ExtensionError {
            path: error.path,
            event: "session_before_compact".to_owned(),
            error: error.message,
        };
        self.core.broadcast.show(event).await;
    }

    /// A compaction that is not even tried.
    async fn fail(&self, reason: CompactionReason, text: &str) {
        let event = Event::CompactionEnd {
            reason: shown(reason),
            result: None,
            aborted: false,
            will_retry: false,
            error_message: Some(text.to_owned()),
        };
        self.core.broadcast.show(event).await;
    }

    fn breakdown(&self) -> Breakdown {
        let messages = self.core.context().clone();
        let choice = self.core.choice();
        let settings = self.settings_for(&choice.model);
        let (prompt, tools) = (&choice.system_prompt, choice.tools.specs());
        Breakdown::of(prompt, &tools, &messages, &choice.model, &settings)
    }
}

impl Continuation for Compacting {
    fn after_run<'a>(
        &'a self,
        run: &'a RunOutcome,
        _abort: &'a AbortSignal,
    ) -> BoxFuture<'a, Option<Further>> {
        Box::pin(async move {
            if let Err(error) = self.commands.flush(&self.core) {
                self.core.remark(crate::session::unsaved(&error));
            }
            let (messages, model) = self.standing();
            match self.room(run, &messages, &model) {
                // What came after the last look at the queues is not left lying.
                Room::Enough if matches!(run.end, RunEnd::Completed) => self.waiting(),
                Room::Enough => None,
                Room::None => self.overflow().await,
                Room::Little => {
                    self.threshold().await;
                    self.waiting()
                }
            }
        })
    }

    fn refresh(&self, context: &mut RunContext) {
        self.core.refresh(context);
    }
}

fn plan(preparation: &Preparation, request: &CompactionRequest) -> CompactionPlan {
    CompactionPlan {
        reason: shown(request.reason),
        first_kept_entry_id: preparation.first_kept_entry_id.clone(),
        tokens_before: preparation.tokens_before,
        messages: preparation.messages_to_summarize.len() + preparation.turn_prefix_messages.len(),
        is_split_turn: preparation.is_split_turn(),
        previous_summary: preparation.previous_summary.clone(),
        custom_instructions: request.custom_instructions.clone(),
    }
}

fn result(compacted: &Compacted) -> CompactionResult {
    CompactionResult {
        summary: compacted.summary.clone(),
        first_kept_entry_id: compacted.first_kept_entry_id.clone(),
        tokens_before: compacted.tokens_before,
        details: compacted.details.clone(),
    }
}

fn shown(reason: CompactionReason) -> Shown {
    match reason {
        CompactionReason::Manual => Shown::Manual,
        CompactionReason::Threshold => Shown::Threshold,
        CompactionReason::Overflow => Shown::Overflow,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
