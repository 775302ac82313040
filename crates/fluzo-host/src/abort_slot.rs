//! Something that goes on and can be ended from outside: one at a time, each with its own
//! handle.

use std::sync::{Mutex, MutexGuard, PoisonError};

use fluzo_llm::AbortSignal;

/// The place of one activity; `T` says which it is.
#[derive(Debug)]
pub(crate) struct AbortSlot<T = ()>(Mutex<Option<(AbortSignal, T)>>);

/// The activity goes on for as long as this lives.
pub(crate) struct Occupied<'a, T = ()> {
    slot: &'a AbortSlot<T>,
    /// Fires when the activity is to end.
    pub(crate) abort: AbortSignal,
}

impl<T> Default for AbortSlot<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> AbortSlot<T> {
    /// Begins an activity; `None` while another one goes on.
    pub(crate) fn occupy(&self, what: T) -> Option<Occupied<'_, T>> {
        let mut place = self.place();
        if place.is_some() {
            return None;
        }
        let abort = AbortSignal::new();
        *place = Some((abort.clone(), what));
        Some(Occupied { slot: self, abort })
    }

    /// Whether one goes on.
    pub(crate) fn is_occupied(&self) -> bool {
        self.place().is_some()
    }

    /// Whether one goes on for which `is` holds.
    pub(crate) fn holds(&self, is: impl FnOnce(&T) -> bool) -> bool {
        self.place().as_ref().is_some_and(|(_, what)| is(what))
    }

    /// Ends what goes on, if there is something.
    pub(crate) fn cancel(&self) {
        if let Some((abort, _)) = &*self.place() {
            abort.cancel();
        }
    }

    fn place(&self) -> MutexGuard<'_, Option<(AbortSignal, T)>> {
        // It is set in one assignment; a poisoned one is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Drop for Occupied<'_, T> {
    fn drop(&mut self) {
        *self.slot.place() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_each_with_its_own_handle() {
        let slot = AbortSlot::default();
        slot.cancel();
        let first = slot.occupy("first").unwrap();
        assert!(
            !first.abort.is_cancelled(),
            "what was ended before counts for nothing"
        );
        assert!(slot.occupy("second").is_none() && slot.holds(|what| *what == "first"));
        slot.cancel();
        assert!(first.abort.is_cancelled());
        drop(first);
        assert!(!slot.is_occupied());
        assert!(!slot.occupy("second").unwrap().abort.is_cancelled());
    }
}
