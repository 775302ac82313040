//! Tokens, wherever a server reports them and however often.

use fluzo_llm::Usage;
use fluzo_llm::model::Prices;
use serde_json::Value;

use crate::counts::{Tokens, count};

/// The counts reported so far. A later count replaces an earlier one unless it is zero, so
/// totals repeated in each chunk count once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    prompt: u64,
    completion: u64,
    cache_read: u64,
    cache_write: u64,
    seen: bool,
}

impl Counts {
    /// Takes in a usage object; anything else changes nothing.
    pub(crate) fn report(&mut self, usage: &Value) {
        if !usage.is_object() {
            return;
        }
        let first = |places: &[&str]| {
            places
                .iter()
                .find_map(|place| usage.pointer(place).and_then(count))
        };
        let mut set = |field: fn(&mut Self) -> &mut u64, places: &[&str]| {
            if let Some(n) = first(places).filter(|n| *n > 0) {
                *field(self) = n;
            }
        };
        set(|c| &mut c.prompt, &["/prompt_tokens"]);
        set(|c| &mut c.completion, &["/completion_tokens"]);
        set(
            |c| &mut c.cache_read,
            &[
                "/prompt_tokens_details/cached_tokens",
                "/prompt_cache_hit_tokens",
                "/cached_tokens",
            ],
        );
        set(
            |c| &mut c.cache_write,
            &["/prompt_tokens_details/cache_write_tokens"],
        );
        self.seen |= self.prompt > 0 || self.completion > 0;
    }

    /// Whether tokens have been reported.
    pub(crate) fn seen(&self) -> bool {
        self.seen
    }

    /// The usage at `prices`. Cached tokens are part of what the server calls prompt tokens.
    pub(crate) fn usage(&self, prices: &Prices) -> Usage {
        let cached = self.cache_read.saturating_add(self.cache_write);
        let tokens = Tokens {
            input: self.prompt.saturating_sub(cached),
            output: self.completion,
            cache_read: self.cache_read,
            cache_write: self.cache_write,
            total: 0,
        };
        tokens.usage(prices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(reports: &[&str], expected: [u64; 5]) {
        let mut counts = Counts::default();
        for report in reports {
            counts.report(&serde_json::from_str(report).unwrap());
        }
        let usage = counts.usage(&Prices::default());
        let given = [
            usage.input,
            usage.output,
            usage.cache_read,
            usage.cache_write,
            usage.total_tokens,
        ];
        assert_eq!(given, expected, "{reports:?}");
    }

    #[test]
    fn fields() {
        check(
            &[r#"{"prompt_tokens":12,"completion_tokens":7,"total_tokens":19}"#],
            [12, 7, 0, 0, 19],
        );
        check(
            &[
                r#"{"prompt_tokens":12,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":10}}"#,
            ],
            [2, 7, 10, 0, 19],
        );
        check(
            &[
                r#"{"prompt_tokens":12,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":3}}"#,
            ],
            [5, 7, 4, 3, 19],
        );
        check(
            &[r#"{"prompt_tokens":12,"completion_tokens":7,"prompt_cache_hit_tokens":5}"#],
            [7, 7, 5, 0, 19],
        );
        check(
            &[
                r#"{"prompt_tokens":3,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":4}}"#,
            ],
            [0, 7, 4, 0, 11],
        );
        check(
            &[r#"{"prompt_tokens":null,"completion_tokens":-1}"#],
            [0, 0, 0, 0, 0],
        );
        check(&["null"], [0, 0, 0, 0, 0]);
        check(
            &[r#"{"prompt_tokens":12.0,"completion_tokens":7.9}"#],
            [12, 7, 0, 0, 19],
        );
    }

    #[test]
    fn repeated_reports_count_once() {
        let zero = r#"{"prompt_tokens":0,"completion_tokens":0}"#;
        let last = r#"{"prompt_tokens":12,"completion_tokens":7}"#;
        check(&[zero, zero, last], [12, 7, 0, 0, 19]);
        check(&[last, last, zero], [12, 7, 0, 0, 19]);
        check(
            &[
                r#"{"prompt_tokens":12,"completion_tokens":1}"#,
                r#"{"prompt_tokens":12,"completion_tokens":2}"#,
            ],
            [12, 2, 0, 0, 14],
        );
    }

    #[test]
    fn cost_is_per_class_and_in_total() {
        let mut counts = Counts::default();
        counts.report(&serde_json::json!({"prompt_tokens": 3_000_000, "completion_tokens": 1_000_000, "prompt_tokens_details": {"cached_tokens": 1_000_000}}));
        let cost = counts
            .usage(&Prices {
                input: 2.0,
                output: 8.0,
                cache_read: 0.5,
                cache_write: 1.0,
            })
            .cost;
        assert_eq!(
            [
                cost.input,
                cost.output,
                cost.cache_read,
                cost.cache_write,
                cost.total
            ],
            [4.0, 8.0, 0.5, 0.0, 12.5]
        );
    }
}
