//! Hooks of a session: they may change its course, where events only watch.
//!
//! A hook that fails is told as an event, and the session goes on as if it had said
//! nothing.

use fluzo_llm::message::CustomMessage;
use fluzo_llm::{BoxFuture, ImageContent};
use fluzo_session::Compaction;
use serde::Serialize;
use serde_json::Value;

/// What may step in. All default to changing nothing. Dropping a future gives the hook up.
pub trait SessionHooks: Send + Sync {
    /// Commands that a prompt may begin with, without the `/`.
    fn commands(&self) -> Vec<HookCommand> {
        Vec::new()
    }

    /// Carries out the command `name`, one of [`commands`](Self::commands).
    fn command<'a>(
        &'a self,
        _name: &'a str,
        _arguments: &'a str,
    ) -> BoxFuture<'a, Result<(), HookError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// What the user has typed, before skills and templates are looked for.
    fn input(&self, input: Input) -> BoxFuture<'_, Result<InputAction, HookError>> {
        Box::pin(std::future::ready(Ok(InputAction::Go(input))))
    }

    /// Before a run begins: messages to add behind the prompt, and a system prompt for this
    /// run alone.
    fn before_run<'a>(
        &'a self,
        _prompt: &'a str,
        _system_prompt: &'a str,
    ) -> BoxFuture<'a, Result<BeforeRun, HookError>> {
        Box::pin(std::future::ready(Ok(BeforeRun::default())))
    }

    /// Before a summary is made for a compaction.
    fn before_compaction<'a>(
        &'a self,
        _plan: &'a CompactionPlan,
    ) -> BoxFuture<'a, Result<CompactionAction, HookError>> {
        Box::pin(std::future::ready(Ok(CompactionAction::Go)))
    }

    /// Before the leaf moves to another entry.
    fn before_navigation<'a>(
        &'a self,
        _entry_id: &'a str,
    ) -> BoxFuture<'a, Result<NavigationAction, HookError>> {
        Box::pin(std::future::ready(Ok(NavigationAction::Go)))
    }

    /// Before another session takes the place of this one. `Ok(false)` keeps it.
    fn before_switch<'a>(&'a self, _to: SwitchTo<'a>) -> BoxFuture<'a, Result<bool, HookError>> {
        Box::pin(std::future::ready(Ok(true)))
    }

    /// The session is left or the program ends.
    fn shutdown(&self) -> BoxFuture<'_, Result<(), HookError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// No hooks.
#[derive(Debug, Default, Clone, Copy)]
pub struct NoSessionHooks;

impl SessionHooks for NoSessionHooks {}

/// A command that hooks bring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookCommand {
    /// Its name, without the `/`.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// Where it comes from, as `sourceInfo` of `get_commands`.
    pub source: Value,
}

/// A hook did not do what it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HookError {
    /// Whose hook it is.
    pub path: String,
    /// What went wrong.
    pub message: String,
}

/// What the user has typed.
#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    /// The text.
    pub text: String,
    /// Images that go with it.
    pub images: Vec<ImageContent>,
}

/// What becomes of what was typed.
#[derive(Debug, Clone, PartialEq)]
pub enum InputAction {
    /// It goes on like this.
    Go(Input),
    /// It is dealt with; the model is not asked.
    Handled,
}

/// What a hook adds to a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BeforeRun {
    /// Messages behind the prompt.
    pub messages: Vec<CustomMessage>,
    /// The system prompt of this run.
    pub system_prompt: Option<String>,
}

/// A compaction that is about to be made.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CompactionPlan {
    /// Why.
    pub reason: fluzo_protocol::CompactionReason,
    /// First entry that is kept as it is.
    pub first_kept_entry_id: String,
    /// Estimated tokens of the context before.
    pub tokens_before: u64,
    /// Messages that the summary will stand for.
    pub messages: usize,
    /// Whether the cut is within a turn.
    pub is_split_turn: bool,
    /// The summary so far.
    pub previous_summary: Option<String>,
    /// What the user wants the summary to dwell on.
    pub custom_instructions: Option<String>,
}

/// What becomes of a compaction.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum CompactionAction {
    /// The summary is made.
    #[default]
    Go,
    /// There is no compaction.
    Cancel,
    /// This is the compaction; no model is asked.
    Use(Compaction),
}

/// What becomes of a move in the tree.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum NavigationAction {
    /// It is made.
    #[default]
    Go,
    /// The leaf stays.
    Cancel,
    /// This is the summary of the branch that is left; no model is asked.
    Use {
        /// The summary.
        summary: String,
        /// Facts about it.
        details: Option<Value>,
    },
}

/// The session that is to take the place of this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwitchTo<'a> {
    /// A new one.
    New,
    /// The one in this file.
    File(&'a std::path::Path),
    /// One forked before this entry.
    Fork(&'a str),
    /// A copy of the branch.
    Clone,
}
