//! Whether and when a failed response is tried again. Pure.

use std::time::Duration;

use fluzo_llm::{StreamError, StreamErrorKind};

/// When to try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Whether at all.
    pub enabled: bool,
    /// Most attempts after the first.
    pub max_retries: u32,
    /// Wait before the first of them; doubled for each further one.
    pub base_delay: Duration,
    /// Longest of these doubled waits.
    pub longest_delay: Option<Duration>,
    /// A server that asks for a longer wait than this is not waited for.
    pub max_wait: Duration,
    /// Whether to try again when a server limits requests or has no room, not only when it
    /// failed.
    pub limited_too: bool,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            enabled: true,
            max_retries: 3,
            base_delay: Duration::from_millis(2000),
            longest_delay: None,
            max_wait: Duration::from_mins(10),
            limited_too: true,
        }
    }
}

impl RetryPolicy {
    /// The wait before attempt number `attempt` (from 1) after `error`; `None` when
    /// it is not tried again. A wait that the server asked for is obeyed.
    pub fn delay(&self, attempt: u32, error: &StreamError) -> Option<Duration> {
        if !self.enabled || attempt > self.max_retries || !self.may_pass(error.kind) {
            return None;
        }
        let own = self
            .base_delay
            .saturating_mul(2_u32.saturating_pow(attempt.saturating_sub(1)));
        let own = self.longest_delay.map_or(own, |longest| own.min(longest));
        let asked = Duration::from_millis(error.retry_after_ms.unwrap_or(0));
        (asked <= self.max_wait).then(|| own.max(asked))
    }

    fn may_pass(&self, kind: StreamErrorKind) -> bool {
        use StreamErrorKind::{Capacity, Connect, Incomplete, RateLimit, Timeout, Transient};
        match kind {
            Connect | Incomplete | Timeout | Transient => true,
            Capacity | RateLimit => self.limited_too,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(kind: StreamErrorKind, retry_after_ms: Option<u64>) -> StreamError {
        StreamError {
            retry_after_ms,
            ..StreamError::new(kind, "x")
        }
    }

    #[test]
    fn delays() {
        let policy = RetryPolicy::default();
        let off = RetryPolicy {
            enabled: false,
            ..policy
        };
        let short = RetryPolicy {
            max_retries: 40,
            longest_delay: Some(Duration::from_secs(5)),
            ..policy
        };
        let strict = RetryPolicy {
            limited_too: false,
            ..policy
        };
        use StreamErrorKind::{
            Capacity, FormRefused, InvalidRequest, Quota, RateLimit, Redirect, Transient,
        };
        let rows = [
            (policy, 1, error(Transient, None), Some(2_000)),
            (policy, 3, error(Transient, None), Some(8_000)),
            (policy, 4, error(Transient, None), None),
            (policy, 1, error(RateLimit, Some(3_000)), Some(3_000)),
            (policy, 1, error(RateLimit, Some(500)), Some(2_000)),
            (policy, 1, error(RateLimit, Some(1_382_400_000)), None),
            (policy, 1, error(Quota, None), None),
            (policy, 1, error(InvalidRequest, None), None),
            (policy, 1, error(FormRefused, None), None),
            (policy, 1, error(Redirect, None), None),
            (policy, 1, error(Capacity, None), Some(2_000)),
            (strict, 1, error(Capacity, None), None),
            (strict, 1, error(RateLimit, Some(3_000)), None),
            (strict, 1, error(Transient, None), Some(2_000)),
            (short, 2, error(Transient, None), Some(4_000)),
            (short, 40, error(Transient, None), Some(5_000)),
            (short, 1, error(RateLimit, Some(9_000)), Some(9_000)),
            (off, 1, error(Transient, None), None),
        ];
        for (policy, attempt, error, ms) in rows {
            assert_eq!(
                policy.delay(attempt, &error),
                ms.map(Duration::from_millis),
                "{error:?} {attempt}"
            );
        }
    }
}
