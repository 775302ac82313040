//! Tokens, as `message_start` and `message_delta` report them.

use fluzo_llm::Usage;
use fluzo_llm::model::Prices;
use serde_json::Value;

use crate::counts::{Tokens, count};

/// The counts reported so far. They are totals: a later count replaces an earlier one, unless
/// it is zero, since some servers fill in only what belongs to the event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
}

impl Counts {
    /// Takes in a usage object; anything else changes nothing.
    pub(super) fn report(&mut self, usage: &Value) {
        let rows = [
            ("input_tokens", &mut self.input),
            ("output_tokens", &mut self.output),
            ("cache_read_input_tokens", &mut self.cache_read),
            ("cache_creation_input_tokens", &mut self.cache_write),
        ];
        for (name, field) in rows {
            let reported = usage.get(name).and_then(count);
            *field = reported.filter(|count| *count > 0).unwrap_or(*field);
        }
    }

    /// The usage at `prices`. Cached tokens are no part of what the server calls input tokens.
    pub(super) fn usage(&self, prices: &Prices) -> Usage {
        let tokens = Tokens {
            input: self.input,
            output: self.output,
            cache_read: self.cache_read,
            cache_write: self.cache_write,
            total: 0,
        };
        tokens.usage(prices)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(reports: &[Value], expected: [u64; 5]) {
        let mut counts = Counts::default();
        reports.iter().for_each(|report| counts.report(report));
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
    fn counts_of_both_events_add_up_once() {
        let start = json!({"input_tokens": 12, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 30, "output_tokens": 1});
        check(
            &[start.clone(), json!({"output_tokens": 7})],
            [12, 7, 30, 5, 54],
        );
        let cumulative = json!({"input_tokens": 12, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 30, "output_tokens": 7});
        check(&[start.clone(), cumulative], [12, 7, 30, 5, 54]);
        let zeros = json!({"input_tokens": 0, "output_tokens": 7, "cache_read_input_tokens": null});
        check(&[start, zeros], [12, 7, 30, 5, 54]);
        let late = json!({"input_tokens": 12, "output_tokens": 7});
        check(
            &[json!({"input_tokens": 0, "output_tokens": 0}), late],
            [12, 7, 0, 0, 19],
        );
        check(
            &[
                json!(null),
                json!("x"),
                json!({"input_tokens": -1, "output_tokens": "7"}),
            ],
            [0; 5],
        );
    }

    #[test]
    fn cost_is_per_class_and_in_total() {
        let mut counts = Counts::default();
        counts.report(&json!({"input_tokens": 1_000_000, "output_tokens": 2_000_000, "cache_read_input_tokens": 3_000_000, "cache_creation_input_tokens": 4_000_000}));
        let prices = Prices {
            input: 5.0,
            output: 25.0,
            cache_read: 0.5,
            cache_write: 6.25,
        };
        let cost = counts.usage(&prices).cost;
        let given = [
            cost.input,
            cost.output,
            cost.cache_read,
            cost.cache_write,
            cost.total,
        ];
        assert_eq!(given, [5.0, 50.0, 1.5, 25.0, 81.5]);
    }
}
