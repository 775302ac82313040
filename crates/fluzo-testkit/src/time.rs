//! A clock that only moves when someone waits.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use fluzo_agent::TimeEffect;
use fluzo_llm::BoxFuture;

/// A virtual clock: a wait is over at once and moves it by its length.
#[derive(Debug)]
pub struct FixedTime(AtomicI64);

impl FixedTime {
    /// A clock that stands at `now_ms`, in Unix milliseconds.
    pub fn at(now_ms: i64) -> Self {
        Self(AtomicI64::new(now_ms))
    }

    /// Moves it on.
    pub fn advance(&self, duration: Duration) {
        let ms = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

impl TimeEffect for FixedTime {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    fn sleep<'a>(&'a self, duration: Duration) -> BoxFuture<'a, ()> {
        Box::pin(async move { self.advance(duration) })
    }
}
