//! What a running run is told about changes: a model that was switched, other tools.

use std::sync::{Arc, Mutex, PoisonError};

use fluzo_agent::{AfterToolCall, BeforeToolCall, Hooks, NextTurn, ToolCallInfo, TurnInfo};
use fluzo_llm::{BoxFuture, ToolOutput};

/// Changes that count from the next turn on. One value is shared by a session and the hooks
/// of its agent.
#[derive(Default)]
pub struct Live(Mutex<NextTurn>);

impl Live {
    /// Hooks that do what `inner` does and then apply the changes, which win.
    pub fn hooks(self: &Arc<Self>, inner: Arc<dyn Hooks>) -> Arc<dyn Hooks> {
        Arc::new(LiveHooks {
            live: Arc::clone(self),
            inner,
        })
    }

    /// Adds changes to those that are not applied yet.
    pub(crate) fn change(&self, change: impl FnOnce(&mut NextTurn)) {
        change(&mut self.lock());
    }

    /// Takes the changes, so that they are applied once.
    pub(crate) fn take(&self) -> NextTurn {
        std::mem::take(&mut self.lock())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, NextTurn> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct LiveHooks {
    live: Arc<Live>,
    inner: Arc<dyn Hooks>,
}

impl Hooks for LiveHooks {
    fn prepare_next_turn<'a>(&'a self, turn: TurnInfo<'a>) -> BoxFuture<'a, NextTurn> {
        Box::pin(async move {
            let next = self.inner.prepare_next_turn(turn).await;
            let changed = self.live.take();
            NextTurn {
                system_prompt: changed.system_prompt.or(next.system_prompt),
                messages: next.messages,
                tools: changed.tools.or(next.tools),
                model: changed.model.or(next.model),
                thinking: changed.thinking.or(next.thinking),
            }
        })
    }

    fn should_stop_after_turn<'a>(&'a self, turn: TurnInfo<'a>) -> BoxFuture<'a, bool> {
        self.inner.should_stop_after_turn(turn)
    }

    fn before_tool_call<'a>(&'a self, call: ToolCallInfo<'a>) -> BoxFuture<'a, BeforeToolCall> {
        self.inner.before_tool_call(call)
    }

    fn after_tool_call<'a>(
        &'a self,
        call: ToolCallInfo<'a>,
        result: &'a ToolOutput,
        is_error: bool,
    ) -> BoxFuture<'a, AfterToolCall> {
        self.inner.after_tool_call(call, result, is_error)
    }
}
