//! Tool runs that can be watched and halted.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fluzo_agent::{DirectTools, Gate, Halt, Permit, ToolContext, ToolEffect, ToolFailure};
use fluzo_llm::{BoxFuture, ToolOutput};

use crate::Switch;

/// Runs tools directly, notes the calls, and halts where it is told to.
pub struct WatchedTools {
    direct: DirectTools,
    noted: Mutex<Noted>,
}

#[derive(Default)]
struct Noted {
    dispatched: Vec<String>,
    halts: BTreeMap<String, (Switch, Halt)>,
}

impl WatchedTools {
    /// Tool runs behind `gate`.
    pub fn new(gate: Gate) -> Self {
        Self {
            direct: DirectTools::new(gate),
            noted: Mutex::default(),
        }
    }

    /// Halts the run instead of running call `call_id`, once `when` is on.
    pub fn halt(&self, call_id: &str, when: &Switch, halt: Halt) {
        self.noted()
            .halts
            .insert(call_id.to_owned(), (when.clone(), halt));
    }

    /// Ids of the calls that were dispatched so far, in order.
    pub fn dispatched(&self) -> Vec<String> {
        self.noted().dispatched.clone()
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ToolEffect for WatchedTools {
    fn run<'a>(
        &'a self,
        permit: Permit,
        context: ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        Box::pin(async move {
            let halt = {
                let mut noted = self.noted();
                noted.dispatched.push(permit.call_id().to_owned());
                noted.halts.get(permit.call_id()).cloned()
            };
            if let Some((when, halt)) = halt {
                when.wait().await;
                return Err(halt.into());
            }
            self.direct.run(permit, context).await
        })
    }
}
