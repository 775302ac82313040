//! Time from the runtime's timer and a wall clock that is handed in.

use std::time::Duration;

use fluzo_agent::TimeEffect;
use fluzo_llm::BoxFuture;

/// Waits on Tokio's timer; reads the wall clock it was given.
pub struct TokioTime {
    now_ms: fn() -> i64,
}

impl TokioTime {
    /// `now_ms` is the wall clock in Unix milliseconds.
    pub fn new(now_ms: fn() -> i64) -> Self {
        Self { now_ms }
    }
}

impl TimeEffect for TokioTime {
    fn now_ms(&self) -> i64 {
        (self.now_ms)()
    }

    fn sleep<'a>(&'a self, duration: Duration) -> BoxFuture<'a, ()> {
        // The one place that waits on the real clock; every caller comes through the effect.
        #[allow(clippy::disallowed_methods)]
        Box::pin(tokio::time::sleep(duration))
    }
}
