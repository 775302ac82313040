//! Hooks made of closures.

use fluzo_agent::{AfterToolCall, BeforeToolCall, Hooks, NextTurn, ToolCallInfo, TurnInfo};
use fluzo_llm::{BoxFuture, ToolOutput};

use crate::Switch;

type Next = Box<dyn Fn(TurnInfo<'_>) -> NextTurn + Send + Sync>;
type Stop = Box<dyn Fn(TurnInfo<'_>) -> bool + Send + Sync>;
type Before = Box<dyn Fn(ToolCallInfo<'_>) -> BeforeToolCall + Send + Sync>;
type After = Box<dyn Fn(ToolCallInfo<'_>, &ToolOutput, bool) -> AfterToolCall + Send + Sync>;

/// Hooks that do what the test says, and nothing where it says nothing.
#[derive(Default)]
pub struct ScriptedHooks {
    next: Option<Next>,
    stop: Option<Stop>,
    before: Option<Before>,
    after: Option<After>,
    hold: Option<(String, Switch)>,
}

impl ScriptedHooks {
    /// Hooks that change nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// What the next request is made of.
    #[must_use]
    pub fn next(mut self, next: impl Fn(TurnInfo<'_>) -> NextTurn + Send + Sync + 'static) -> Self {
        self.next = Some(Box::new(next));
        self
    }

    /// Whether the run ends after a turn.
    #[must_use]
    pub fn stop(mut self, stop: impl Fn(TurnInfo<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.stop = Some(Box::new(stop));
        self
    }

    /// What becomes of a call.
    #[must_use]
    pub fn before(
        mut self,
        before: impl Fn(ToolCallInfo<'_>) -> BeforeToolCall + Send + Sync + 'static,
    ) -> Self {
        self.before = Some(Box::new(before));
        self
    }

    /// What becomes of a result.
    #[must_use]
    pub fn after(
        mut self,
        after: impl Fn(ToolCallInfo<'_>, &ToolOutput, bool) -> AfterToolCall + Send + Sync + 'static,
    ) -> Self {
        self.after = Some(Box::new(after));
        self
    }

    /// Holds call `call_id` in the hook before it until the test flips `switch`.
    #[must_use]
    pub fn hold(mut self, call_id: &str, switch: &Switch) -> Self {
        self.hold = Some((call_id.to_owned(), switch.clone()));
        self
    }
}

impl Hooks for ScriptedHooks {
    fn prepare_next_turn<'a>(&'a self, turn: TurnInfo<'a>) -> BoxFuture<'a, NextTurn> {
        let next = self.next.as_ref().map(|next| next(turn));
        Box::pin(std::future::ready(next.unwrap_or_default()))
    }

    fn should_stop_after_turn<'a>(&'a self, turn: TurnInfo<'a>) -> BoxFuture<'a, bool> {
        let stop = self.stop.as_ref().is_some_and(|stop| stop(turn));
        Box::pin(std::future::ready(stop))
    }

    fn before_tool_call<'a>(&'a self, call: ToolCallInfo<'a>) -> BoxFuture<'a, BeforeToolCall> {
        Box::pin(async move {
            if let Some((_, switch)) = self.hold.as_ref().filter(|(id, _)| id == call.call_id) {
                switch.wait().await;
            }
            self.before.as_ref().map(|b| b(call)).unwrap_or_default()
        })
    }

    fn after_tool_call<'a>(
        &'a self,
        call: ToolCallInfo<'a>,
        result: &'a ToolOutput,
        is_error: bool,
    ) -> BoxFuture<'a, AfterToolCall> {
        let change = self
            .after
            .as_ref()
            .map(|after| after(call, result, is_error));
        Box::pin(std::future::ready(change.unwrap_or_default()))
    }
}
