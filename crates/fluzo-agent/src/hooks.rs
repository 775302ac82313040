//! Hooks: they may change the course of a run, where listeners only watch.

use std::sync::Arc;

use fluzo_llm::{BoxFuture, Content, Message, Model, ThinkingLevel, ToolOutput};
use serde_json::Value;

use crate::ToolSet;

/// Hooks of a run. All default to changing nothing.
pub trait Hooks: Send + Sync {
    /// After a turn: may replace parts of what the next request is made of.
    fn prepare_next_turn<'a>(&'a self, _turn: TurnInfo<'a>) -> BoxFuture<'a, NextTurn> {
        Box::pin(std::future::ready(NextTurn::default()))
    }

    /// After a turn, before the queues are looked at: whether the run ends here.
    fn should_stop_after_turn<'a>(&'a self, _turn: TurnInfo<'a>) -> BoxFuture<'a, bool> {
        Box::pin(std::future::ready(false))
    }

    /// Before a tool call is judged: may block it or replace its arguments, which
    /// are then validated again. An abort drops the future.
    fn before_tool_call<'a>(&'a self, _call: ToolCallInfo<'a>) -> BoxFuture<'a, BeforeToolCall> {
        Box::pin(std::future::ready(BeforeToolCall::Proceed))
    }

    /// After a tool call: may replace parts of its result.
    fn after_tool_call<'a>(
        &'a self,
        _call: ToolCallInfo<'a>,
        _result: &'a ToolOutput,
        _is_error: bool,
    ) -> BoxFuture<'a, AfterToolCall> {
        Box::pin(std::future::ready(AfterToolCall::default()))
    }
}

/// A turn that has ended.
#[derive(Debug, Clone, Copy)]
pub struct TurnInfo<'a> {
    /// The response.
    pub message: &'a Arc<Message>,
    /// Results of its tool calls.
    pub tool_results: &'a [Arc<Message>],
    /// The whole context after the turn.
    pub messages: &'a [Arc<Message>],
}

/// A tool call.
#[derive(Debug, Clone, Copy)]
pub struct ToolCallInfo<'a> {
    /// Id of the call.
    pub call_id: &'a str,
    /// Name of the tool.
    pub tool: &'a str,
    /// Its validated arguments.
    pub arguments: &'a Value,
}

/// What replaces parts of the context; `None` keeps a part.
#[derive(Clone, Default)]
pub struct NextTurn {
    /// The system prompt.
    pub system_prompt: Option<Arc<str>>,
    /// The transcript.
    pub messages: Option<Vec<Arc<Message>>>,
    /// The tools.
    pub tools: Option<ToolSet>,
    /// The model.
    pub model: Option<Arc<Model>>,
    /// The thinking level.
    pub thinking: Option<ThinkingLevel>,
}

/// What becomes of a tool call.
#[derive(Debug, Clone, Default)]
pub enum BeforeToolCall {
    /// It goes on as it is.
    #[default]
    Proceed,
    /// It goes on with other arguments.
    Replace(Value),
    /// It does not run.
    Block {
        /// What the model is told; a standard text when `None`.
        reason: Option<String>,
    },
}

/// What replaces parts of a result; `None` keeps a part.
#[derive(Debug, Clone, Default)]
pub struct AfterToolCall {
    /// The content.
    pub content: Option<Vec<Content>>,
    /// The details.
    pub details: Option<Value>,
    /// Whether it is an error.
    pub is_error: Option<bool>,
    /// Whether it asks for the run's end.
    pub terminate: Option<bool>,
}

/// No hooks.
#[derive(Debug, Default, Clone, Copy)]
pub struct NoHooks;

impl Hooks for NoHooks {}
