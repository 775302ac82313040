//! Who may run: one prompt at a time, from its acceptance to the end of its run.

use std::sync::Arc;

use tokio::sync::watch;

/// The place for one prompt.
#[derive(Default)]
pub(crate) struct Claims(Arc<watch::Sender<State>>);

/// What has become of the prompt that has the place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Free,
    Accepted,
    /// An abort came between acceptance and the first poll of the run.
    Aborted,
    Running,
}

/// The place, taken; dropping it gives it back.
pub(crate) struct Claim(Arc<watch::Sender<State>>);

impl Claims {
    /// Takes the place; `None` when it is taken.
    pub(crate) fn take(&self) -> Option<Claim> {
        let taken = self.0.send_if_modified(|state| {
            let free = *state == State::Free;
            if free {
                *state = State::Accepted;
            }
            free
        });
        taken.then(|| Claim(Arc::clone(&self.0)))
    }

    /// Whether a prompt has the place.
    pub(crate) fn is_taken(&self) -> bool {
        *self.0.borrow() != State::Free
    }

    /// Remembers an abort for a run that has not begun.
    pub(crate) fn abort_early(&self) {
        self.0.send_if_modified(|state| {
            let early = *state == State::Accepted;
            if early {
                *state = State::Aborted;
            }
            early
        });
    }

    /// Takes the place as soon as it is free.
    pub(crate) async fn wait(&self) -> Claim {
        loop {
            match self.take() {
                Some(claim) => return claim,
                None => self.free().await,
            }
        }
    }

    /// Waits until nobody has the place.
    pub(crate) async fn free(&self) {
        let mut state = self.0.subscribe();
        // The sender lives as long as `self`, so the wait ends only with the state.
        let _ = state.wait_for(|state| *state == State::Free).await;
    }
}

impl Claim {
    /// Whether an abort has come before the beginning.
    pub(crate) fn is_aborted(&self) -> bool {
        *self.0.borrow() == State::Aborted
    }

    /// The run has begun. True when it is to be aborted at once.
    pub(crate) fn begin(&self) -> bool {
        self.0.send_replace(State::Running) == State::Aborted
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.send_replace(State::Free);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_for_one_and_comes_back_when_dropped() {
        let claims = Claims::default();
        let claim = claims.take().unwrap();
        assert!(claims.is_taken() && claims.take().is_none());
        drop(claim);
        assert!(!claims.is_taken() && claims.take().is_some());
    }

    #[test]
    fn an_abort_before_the_beginning_is_remembered_for_this_prompt_alone() {
        let claims = Claims::default();
        claims.abort_early();
        let first = claims.take().unwrap();
        claims.abort_early();
        assert!(first.begin());
        drop(first);
        assert!(!claims.take().unwrap().begin());
    }
}
