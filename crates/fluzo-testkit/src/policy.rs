//! A policy that decides by table.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fluzo_policy::{AccessRequest, Decision, Policy};

/// Decides by the tool's name; what is not in the table is allowed.
#[derive(Debug, Default)]
pub struct ScriptedPolicy {
    decisions: Mutex<BTreeMap<String, Decision>>,
    judged: AtomicU64,
    revision: AtomicU64,
}

impl ScriptedPolicy {
    /// A policy that allows everything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the decision about `tool` and moves the revision.
    pub fn set(&self, tool: &str, decision: Decision) {
        self.table().insert(tool.to_owned(), decision);
        self.revision.fetch_add(1, Ordering::SeqCst);
    }

    /// How often it was asked.
    pub fn judged(&self) -> u64 {
        self.judged.load(Ordering::SeqCst)
    }

    fn table(&self) -> MutexGuard<'_, BTreeMap<String, Decision>> {
        self.decisions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Policy for ScriptedPolicy {
    fn evaluate(&self, request: &AccessRequest<'_>) -> Decision {
        self.judged.fetch_add(1, Ordering::SeqCst);
        let decision = self.table().get(request.tool).cloned();
        decision.unwrap_or(Decision::Allow)
    }

    fn revision(&self) -> u64 {
        self.revision.load(Ordering::SeqCst)
    }
}
