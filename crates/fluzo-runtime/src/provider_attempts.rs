//! Further attempts of one request, apart from those of an operation.
//!
//! A request that failed for a passing reason before the model said anything is made again
//! behind the same effect. The loop sees one request; records, budgets and spans see each.

use std::sync::Arc;
use std::time::Duration;

use fluzo_agent::{Halt, ModelEffect, TimeEffect};
use fluzo_llm::{
    AbortSignal, BoxFuture, EventStream, Finish, ModelRequest, StreamError, StreamEvent,
};
use futures_util::future::{Either, select};
use futures_util::{StreamExt, stream};

use crate::retry::RetryPolicy;

/// Wait before the first further attempt of a request.
const BASE_DELAY: Duration = Duration::from_millis(500);
/// Longest wait that no server asked for.
const LONGEST_DELAY: Duration = Duration::from_secs(8);

/// A policy of `max_retries` further attempts with short waits of their own, for whom a server
/// that asks for a wait longer than `max_wait` is not asked again.
pub fn policy(max_retries: u32, max_wait: Duration) -> RetryPolicy {
    RetryPolicy {
        max_retries,
        base_delay: BASE_DELAY,
        longest_delay: Some(LONGEST_DELAY),
        max_wait,
        ..RetryPolicy::default()
    }
}

/// Makes requests again as its policy says. The stream that it returns begins with the first
/// output, or is the end of the last attempt; an abort ends a wait at once.
pub struct ProviderAttempts {
    inner: Arc<dyn ModelEffect>,
    time: Arc<dyn TimeEffect>,
    policy: RetryPolicy,
}

/// What comes after an attempt.
enum Next {
    Attempt,
    Nothing,
    Aborted,
}

impl ProviderAttempts {
    /// Attempts of the requests of `inner`, with waits on `time`.
    pub fn new(
        inner: Arc<dyn ModelEffect>,
        time: Arc<dyn TimeEffect>,
        policy: RetryPolicy,
    ) -> Self {
        Self {
            inner,
            time,
            policy,
        }
    }

    /// Waits for attempt number `attempt`, if there is to be one after `finish`.
    async fn wait(&self, attempt: u32, finish: &Finish, abort: &AbortSignal) -> Next {
        let Some((error, delay)) = self.delay(attempt, finish) else {
            return Next::Nothing;
        };
        let ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        tracing::warn!(attempt, most = self.policy.max_retries, delay_ms = ms, kind = ?error.kind, "attempt");
        let stopped = std::pin::pin!(abort.cancelled());
        match select(stopped, self.time.sleep(delay)).await {
            Either::Right(_) if !abort.is_cancelled() => Next::Attempt,
            _ => Next::Aborted,
        }
    }

    fn delay<'a>(&self, attempt: u32, finish: &'a Finish) -> Option<(&'a StreamError, Duration)> {
        let error = finish.error.as_ref()?;
        // What was paid for has begun.
        if finish.usage.output > 0 {
            return None;
        }
        let delay = self.policy.delay(attempt, error)?;
        Some((error, delay.min(self.policy.max_wait)))
    }
}

impl ModelEffect for ProviderAttempts {
    fn request<'a>(
        &'a self,
        request: ModelRequest,
        abort: AbortSignal,
    ) -> BoxFuture<'a, Result<EventStream, Halt>> {
        Box::pin(async move {
            let mut attempt: u32 = 1;
            loop {
                let events = self.inner.request(request.clone(), abort.clone()).await?;
                let (begun, events) = begin(events).await;
                let next = match begun.last() {
                    Some(StreamEvent::Failed(finish)) => self.wait(attempt, finish, &abort).await,
                    _ => Next::Nothing,
                };
                match next {
                    Next::Attempt => attempt = attempt.saturating_add(1),
                    Next::Nothing => {
                        return Ok(Box::pin(stream::iter(begun).chain(events)) as EventStream);
                    }
                    Next::Aborted => {
                        let aborted = StreamEvent::failure(StreamError::aborted());
                        return Ok(Box::pin(stream::iter([aborted])));
                    }
                }
            }
        })
    }
}

/// Reads to the first event that tells anything.
async fn begin(mut events: EventStream) -> (Vec<StreamEvent>, EventStream) {
    let mut begun = Vec::new();
    while let Some(event) = events.next().await {
        let starts = matches!(event, StreamEvent::Start);
        begun.push(event);
        if !starts {
            break;
        }
    }
    (begun, events)
}
