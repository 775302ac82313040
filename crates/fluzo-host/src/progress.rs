//! Whether compacting still helps: what the guard has counted, and for what.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fluzo_llm::Model;
use fluzo_runtime::compact::CompactionGuard;

use crate::choice::Choice;

/// What is known of the use of compactions for one model and one system prompt.
#[derive(Default)]
pub(crate) struct Progress(Mutex<State>);

#[derive(Default)]
struct State {
    guard: CompactionGuard,
    told: bool,
    of: Option<(Arc<Model>, Arc<str>)>,
}

/// Whether a compaction is made unasked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Make,
    /// No more, and the user is to be told why.
    Tell,
    /// No more, which has been told.
    Leave,
}

impl Progress {
    /// The verdict on another compaction. What was counted for another model, or for other
    /// tools or instructions, does not count.
    pub(crate) fn verdict(&self, choice: &Choice) -> Verdict {
        let mut state = self.lock();
        let same = state.of.as_ref().is_some_and(|(model, prompt)| {
            Arc::ptr_eq(model, &choice.model) && Arc::ptr_eq(prompt, &choice.system_prompt)
        });
        if !same {
            *state = State {
                of: Some((Arc::clone(&choice.model), Arc::clone(&choice.system_prompt))),
                ..State::default()
            };
        }
        if state.guard.permits() {
            Verdict::Make
        } else if std::mem::replace(&mut state.told, true) {
            Verdict::Leave
        } else {
            Verdict::Tell
        }
    }

    /// A compaction from `before` to `after` tokens where no more than `limit` are wanted.
    pub(crate) fn note(&self, before: u64, after: u64, limit: u64) {
        self.lock().guard.note(before, after, limit);
    }

    /// There is room.
    pub(crate) fn reset(&self) {
        *self.lock() = State::default();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
