//! Compaction: the older part of a session is summarised, and the summary stands for it from
//! then on.
//!
//! It has three steps, so that a hook can stand between them: [`prepare`] decides what is
//! summarised, [`Compactor::summarise`] asks the model, [`Compactor::store`] appends the entry.
//! Nothing is stored before the last one, which is a single append: an abort or a failure
//! before it leaves the session as it was.

use std::sync::Arc;

use fluzo_agent::compaction::{
    self, FileOperations, NO_PRIOR_HISTORY, context_tokens, estimate, estimate_all, parts_of,
    summary_thinking,
};
use fluzo_agent::{Halt, ModelEffect, TimeEffect};
use fluzo_llm::{AbortSignal, Message, Model, StreamError, StreamErrorKind, ThinkingLevel, Usage};
use fluzo_session::{Compaction, CutError, Keep, NodeKind, Session, StoreError, cut, tree};
use futures_util::future::try_join;
use serde_json::Value;

use crate::forms::FormMemory;
use crate::summary::{self, Answer, AskError, Asked, Asker};

pub use fluzo_agent::compaction::{
    Breakdown, CompactionGuard, CompactionSettings, ContextTokens, is_due, needs_compaction,
};

/// What is told when a request does not fit a second time in one run.
pub const OVERFLOW_AGAIN: &str = "Context overflow recovery failed after one compact-and-retry attempt. Try reducing context or switching to a larger-context model.";

/// Why a session is compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactionReason {
    /// The user wants it.
    Manual,
    /// The context has grown beyond its limit.
    Threshold,
    /// A request did not fit the window.
    Overflow,
}

/// What is asked for.
#[derive(Debug, Clone)]
pub struct CompactionRequest {
    /// Sizes.
    pub settings: CompactionSettings,
    /// The model that summarises.
    pub model: Arc<Model>,
    /// The model of the session, whose window has to be kept.
    pub window_model: Arc<Model>,
    /// How much the session thinks.
    pub thinking: ThinkingLevel,
    /// What the summary should look at in particular.
    pub custom_instructions: Option<String>,
    /// Why.
    pub reason: CompactionReason,
    /// A summary that a hook has made; then no model is asked.
    pub ready_made: Option<ReadyCompaction>,
    /// Id of the session, for servers that cache by it.
    pub session_id: Option<String>,
}

/// What will be summarised.
#[derive(Debug, Clone)]
pub struct Preparation {
    /// The first entry that stays as it is.
    pub first_kept_entry_id: String,
    /// What is summarised, oldest first.
    pub messages_to_summarize: Vec<Arc<Message>>,
    /// The beginning of the turn that is split, summarised by itself.
    pub turn_prefix_messages: Vec<Arc<Message>>,
    /// Tokens of the context before.
    pub tokens_before: u64,
    /// The summary that is brought up to date, without its lists of files.
    pub previous_summary: Option<String>,
    /// Files that the summarised part read and changed.
    pub file_operations: FileOperations,
    /// Sizes.
    pub settings: CompactionSettings,
    /// The leaf that the preparation was made at.
    leaf: String,
    /// Estimated tokens of the messages before, without what requests hold beside them.
    messages_before: u64,
}

/// A summary with all that its entry needs, not stored yet.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadyCompaction {
    /// The summary, lists of files included.
    pub summary: String,
    /// The first entry that stays as it is.
    pub first_kept_entry_id: String,
    /// Tokens of the context before.
    pub tokens_before: u64,
    /// Facts about it.
    pub details: Option<Value>,
    /// Whether a hook made it.
    pub from_hook: bool,
    /// Tokens and cost of making it.
    pub usage: Usage,
}

/// A compaction that is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Compacted {
    /// Id of its entry.
    pub entry_id: String,
    /// The summary, lists of files included.
    pub summary: String,
    /// The first entry that stays as it is.
    pub first_kept_entry_id: String,
    /// Tokens of the context before.
    pub tokens_before: u64,
    /// Facts about it.
    pub details: Option<Value>,
    /// Whether a hook made it.
    pub from_hook: bool,
    /// Tokens of the context after: what requests hold beside the messages, as far as it was
    /// reported, and the estimate of the messages.
    pub estimated_tokens_after: u64,
    /// Tokens and cost of making it.
    pub usage: Usage,
}

/// Why a session was not compacted. It is as it was before.
#[derive(Debug, thiserror::Error)]
pub enum CompactionError {
    /// Nothing was said since the last compaction.
    #[error("Already compacted")]
    AlreadyCompacted,
    /// Everything would stay.
    #[error("Nothing to compact (session too small)")]
    NothingToCompact,
    /// Somebody stopped it.
    #[error("Compaction cancelled")]
    Cancelled,
    /// The history could not be summarised.
    #[error("Summarization failed: {0}")]
    Summary(StreamError),
    /// The beginning of the split turn could not be summarised.
    #[error("Turn prefix summarization failed: {0}")]
    TurnPrefix(StreamError),
    /// A hook named no entry to keep.
    #[error("First kept entry has no UUID - session may need migration")]
    NoFirstKept,
    /// A hook gave no summary.
    #[error("the summary is empty, so the messages stay")]
    EmptySummary,
    /// The leaf is elsewhere, or the session was compacted otherwise.
    #[error("the session went on elsewhere meanwhile; compact again")]
    Moved,
    /// The session could not be read or written.
    #[error("the session could not be read or saved")]
    Store(#[from] StoreError),
    /// What became of the request could not be recorded, or its owner stopped it.
    #[error(transparent)]
    Halted(#[from] Halt),
}

/// Compacts sessions and summarises branches.
pub struct Compactor {
    pub(crate) model: Arc<dyn ModelEffect>,
    pub(crate) time: Arc<dyn TimeEffect>,
    forms: Option<Arc<FormMemory>>,
}

impl CompactionReason {
    /// The name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Manual => "manual",
            Self::Threshold => "threshold",
            Self::Overflow => "overflow",
        }
    }

    /// What is told of a compaction for this reason that failed.
    pub fn failure(self, error: &CompactionError) -> String {
        let what = match self {
            Self::Manual => "Compaction failed",
            Self::Threshold => "Auto-compaction failed",
            Self::Overflow => "Context overflow recovery failed",
        };
        format!("{what}: {}", fluzo_stdx::error::with_causes(error))
    }
}

impl CompactionError {
    /// Whether there was nothing to do, so that nothing was tried either.
    pub fn is_nothing_to_do(&self) -> bool {
        matches!(self, Self::AlreadyCompacted | Self::NothingToCompact)
    }

    /// Whether a response ended before its end.
    fn is_cut_off(&self) -> bool {
        matches!(self, Self::Summary(error) | Self::TurnPrefix(error)
            if error.kind == StreamErrorKind::Incomplete)
    }
}

impl Preparation {
    /// Whether a turn is split.
    pub fn is_split_turn(&self) -> bool {
        !self.turn_prefix_messages.is_empty()
    }
}

/// Decides what is summarised. Asks no model.
///
/// # Errors
///
/// When there is nothing to summarise, or the session cannot be read.
pub fn prepare(
    session: &Session,
    request: &CompactionRequest,
) -> Result<Preparation, CompactionError> {
    let leaf = session.leaf_id().ok_or(CompactionError::NothingToCompact)?;
    let store = &**session.store();
    let messages = fluzo_session::context::build(store, Some(&leaf))?.messages;
    let tokens_before = context_tokens(&messages).tokens;
    let messages_before = estimate_all(&messages);
    let beside = tokens_before.saturating_sub(messages_before);
    let cut = |keep| cut::cut(store, Some(&leaf), keep, &estimate);
    let keep = request.keep(beside);
    let found = match cut(keep) {
        // Beyond the limit everything cannot stay.
        Err(CutError::NothingToCompact) if request.reason == CompactionReason::Threshold => {
            cut(Keep {
                at_most_half: true,
                ..keep
            })
        }
        found => found,
    }?;
    let mut files = FileOperations::default();
    for message in found.history.iter().chain(&found.turn_prefix) {
        files.add_message(message);
    }
    let own = found
        .previous
        .as_ref()
        .filter(|it| it.from_hook != Some(true));
    if let Some(details) = own.and_then(|it| it.details.as_ref()) {
        files.add_details(details);
    }
    let previous = found.previous.as_ref();
    let previous = previous.map(|it| FileOperations::without_tags(&it.summary).to_owned());
    Ok(Preparation {
        first_kept_entry_id: found.first_kept_entry_id,
        messages_to_summarize: found.history,
        turn_prefix_messages: found.turn_prefix,
        tokens_before,
        previous_summary: previous.filter(|summary| !summary.trim().is_empty()),
        file_operations: files,
        settings: request.settings,
        leaf,
        messages_before,
    })
}

impl Compactor {
    /// Asks through `model`, at the times of `time`.
    pub fn new(model: Arc<dyn ModelEffect>, time: Arc<dyn TimeEffect>) -> Self {
        Self {
            model,
            time,
            forms: None,
        }
    }

    /// Makes a request whose form is refused again in another form, once, as `forms` learns it.
    /// To be the memory that `model` makes its requests with.
    #[must_use]
    pub fn with_forms(mut self, forms: Arc<FormMemory>) -> Self {
        self.forms = Some(forms);
        self
    }

    /// Compacts `session` at its leaf: prepares, summarises, stores.
    ///
    /// Dropping the future, and an abort before the summary has come, leave the session as it was.
    ///
    /// # Errors
    ///
    /// The session is then as it was before.
    pub async fn compact(
        &self,
        session: &Session,
        request: &CompactionRequest,
        abort: &AbortSignal,
    ) -> Result<Compacted, CompactionError> {
        let preparation = prepare(session, request)?;
        let ready = match &request.ready_made {
            Some(ready) => ready.clone(),
            None => self.summarise(&preparation, request, abort).await?,
        };
        self.store(session, &preparation, ready, abort)
    }

    /// Asks for the summary. That of the history and that of the beginning of a split turn are
    /// asked for at the same time; the failure of one ends the other. When one was cut off, both
    /// are asked for once more, one after the other: a server with one slot ends a response as
    /// soon as the next request comes.
    ///
    /// # Errors
    ///
    /// No summary came.
    pub async fn summarise(
        &self,
        preparation: &Preparation,
        request: &CompactionRequest,
        abort: &AbortSignal,
    ) -> Result<ReadyCompaction, CompactionError> {
        let history = self.summarise_history(preparation, request, abort);
        let (mut summary, mut usage) = if preparation.is_split_turn() {
            let prefix = self.summarise_turn_prefix(preparation, request, abort);
            let (history, prefix) = match try_join(history, prefix).await {
                Err(error) if error.is_cut_off() => {
                    let history = self.summarise_history(preparation, request, abort).await?;
                    let prefix = self.summarise_turn_prefix(preparation, request, abort);
                    (history, prefix.await?)
                }
                both => both?,
            };
            let mut usage = history.usage;
            summary::add(&mut usage, &prefix.usage);
            (
                compaction::merge_split_turn(&history.text, &prefix.text),
                usage,
            )
        } else {
            let history = history.await?;
            (history.text, history.usage)
        };
        summary.push_str(&preparation.file_operations.tags());
        usage.extra.clear();
        Ok(ReadyCompaction {
            summary,
            first_kept_entry_id: preparation.first_kept_entry_id.clone(),
            tokens_before: preparation.tokens_before,
            details: Some(preparation.file_operations.details()),
            from_hook: false,
            usage,
        })
    }

    /// Appends the compaction as a child of the leaf.
    ///
    /// # Errors
    ///
    /// It was aborted, or cannot stand there; or the store refuses.
    pub fn store(
        &self,
        session: &Session,
        preparation: &Preparation,
        ready: ReadyCompaction,
        abort: &AbortSignal,
    ) -> Result<Compacted, CompactionError> {
        if abort.is_cancelled() {
            return Err(CompactionError::Cancelled);
        }
        if ready.summary.trim().is_empty() {
            return Err(CompactionError::EmptySummary);
        }
        if ready.first_kept_entry_id.is_empty() {
            return Err(CompactionError::NoFirstKept);
        }
        if !still_fits(session, preparation) {
            return Err(CompactionError::Moved);
        }
        let compaction = Compaction {
            summary: ready.summary.clone(),
            first_kept_entry_id: ready.first_kept_entry_id.clone(),
            tokens_before: ready.tokens_before,
            details: ready.details.clone(),
            from_hook: Some(ready.from_hook),
        };
        let entry = session.append_compaction(compaction, self.time.now_ms())?;
        // It is stored: a session that cannot be read any more is no failure of this.
        let after = session.context().map(|context| context.messages);
        let after = after.map_or(preparation.messages_before, |messages| {
            estimate_all(&messages)
        });
        let beside = preparation
            .tokens_before
            .saturating_sub(preparation.messages_before);
        Ok(Compacted {
            entry_id: entry.id.clone(),
            summary: ready.summary,
            first_kept_entry_id: ready.first_kept_entry_id,
            tokens_before: ready.tokens_before,
            details: ready.details,
            from_hook: ready.from_hook,
            estimated_tokens_after: beside.saturating_add(after),
            usage: ready.usage,
        })
    }

    pub(crate) fn asker(&self) -> Asker<'_> {
        Asker {
            model: &*self.model,
            time: &*self.time,
            forms: self.forms.as_deref(),
        }
    }

    async fn summarise_history(
        &self,
        preparation: &Preparation,
        request: &CompactionRequest,
        abort: &AbortSignal,
    ) -> Result<Answer, CompactionError> {
        let previous = preparation.previous_summary.as_deref();
        let parts = parts_of(&preparation.messages_to_summarize);
        if parts.is_empty() {
            return Ok(Answer {
                text: previous.unwrap_or(NO_PRIOR_HISTORY).to_owned(),
                usage: Usage::default(),
            });
        }
        let focus = request.custom_instructions.as_deref();
        let words = |text: &str| compaction::history_prompt(text, previous, focus);
        let window = request.window_model.context_window;
        let cap = preparation.settings.summary_cap(window, &request.model);
        let asked = request.asked(parts, cap, &words);
        let answer = self.asker().ask(asked, abort).await;
        answer.map_err(|error| refused(error, CompactionError::Summary))
    }

    async fn summarise_turn_prefix(
        &self,
        preparation: &Preparation,
        request: &CompactionRequest,
        abort: &AbortSignal,
    ) -> Result<Answer, CompactionError> {
        let parts = parts_of(&preparation.turn_prefix_messages);
        let window = request.window_model.context_window;
        let cap = preparation.settings.turn_prefix_cap(window, &request.model);
        let asked = request.asked(parts, cap, &compaction::turn_prefix_prompt);
        let answer = self.asker().ask(asked, abort).await;
        answer.map_err(|error| refused(error, CompactionError::TurnPrefix))
    }
}

impl CompactionRequest {
    /// What stays where requests hold `beside` tokens that are no messages.
    fn keep(&self, beside: u64) -> Keep {
        let window = self.window_model.context_window;
        let summary = self.settings.summary_cap(window, &self.model);
        Keep {
            tokens: self.settings.keep_beside(window, beside, summary),
            at_most_half: self.reason == CompactionReason::Overflow,
        }
    }

    fn asked<'a>(
        &'a self,
        parts: Vec<compaction::Part>,
        cap: u64,
        words: &'a (dyn Fn(&str) -> String + Sync),
    ) -> Asked<'a> {
        Asked {
            model: &self.model,
            thinking: summary_thinking(&self.model, self.thinking, cap),
            cap,
            session_id: self.session_id.as_deref(),
            parts,
            words,
        }
    }
}

impl From<CutError> for CompactionError {
    fn from(error: CutError) -> Self {
        match error {
            CutError::AlreadyCompacted => Self::AlreadyCompacted,
            CutError::NothingToCompact => Self::NothingToCompact,
            CutError::Store(error) => Self::Store(error),
        }
    }
}

fn refused(error: AskError, of: impl FnOnce(StreamError) -> CompactionError) -> CompactionError {
    match error {
        AskError::Cancelled => CompactionError::Cancelled,
        AskError::Halted(halt) => CompactionError::Halted(halt),
        AskError::Failed(error) => of(error),
    }
}

/// Whether the leaf still follows the one that was prepared for, with no compaction between.
fn still_fits(session: &Session, preparation: &Preparation) -> bool {
    let Some(leaf) = session.leaf_id() else {
        return false;
    };
    let found = session.store().look(|index| {
        tree::up(index, &leaf)
            .take_while(|node| {
                *node.id == *preparation.leaf || !matches!(node.kind, NodeKind::Compaction(_))
            })
            .any(|node| *node.id == *preparation.leaf)
    });
    found.unwrap_or(false)
}
