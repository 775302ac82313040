//! Token and cost accounting of one response.

use serde::{Deserialize, Serialize};

use crate::model::Prices;
use crate::{Extra, StopReason};

/// Tokens of one response and what they cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Input tokens that were neither read from nor written to a cache.
    pub input: u64,
    /// Output tokens, reasoning included.
    pub output: u64,
    /// Input tokens read from the provider's cache.
    pub cache_read: u64,
    /// Input tokens written to the provider's cache.
    pub cache_write: u64,
    /// Sum of the four, or what the provider reports as its total.
    pub total_tokens: u64,
    /// Money, in the currency of the model's prices.
    pub cost: Cost,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Money spent on each kind of token.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cost {
    /// Plain input.
    #[serde(serialize_with = "crate::number::serialize")]
    pub input: f64,
    /// Output.
    #[serde(serialize_with = "crate::number::serialize")]
    pub output: f64,
    /// Cache reads.
    #[serde(serialize_with = "crate::number::serialize")]
    pub cache_read: f64,
    /// Cache writes.
    #[serde(serialize_with = "crate::number::serialize")]
    pub cache_write: f64,
    /// Sum of the four.
    #[serde(serialize_with = "crate::number::serialize")]
    pub total: f64,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Usage {
    /// Whether these tokens show a request that did not fit a context window of `window`
    /// tokens although the response ended with `stop` as if it had: more input than the window
    /// holds, or no output at all for want of room after input that fills 99 of 100 tokens.
    /// Never with a window of 0, which is not known.
    pub fn overflows(&self, stop: &StopReason, window: u64) -> bool {
        let input = u128::from(self.input) + u128::from(self.cache_read);
        let window = u128::from(window);
        match stop {
            _ if window == 0 => false,
            StopReason::Stop => input > window,
            StopReason::Length => self.output == 0 && input * 100 >= window * 99,
            _ => false,
        }
    }

    /// Fills in the cost at `prices`, which are per million tokens. A cost beyond the range of
    /// a double is the largest one: JSON has no infinity.
    pub fn price(&mut self, prices: &Prices) {
        // Token counts are far below the exact range of a double.
        #[allow(clippy::cast_precision_loss)]
        let at = |tokens: u64, price: f64| finite(tokens as f64 * price / 1_000_000.0);
        let cost = &mut self.cost;
        cost.input = at(self.input, prices.input);
        cost.output = at(self.output, prices.output);
        cost.cache_read = at(self.cache_read, prices.cache_read);
        cost.cache_write = at(self.cache_write, prices.cache_write);
        cost.total = finite(cost.input + cost.output + cost.cache_read + cost.cache_write);
    }
}

fn finite(cost: f64) -> f64 {
    cost.clamp(f64::MIN, f64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_a_number_whatever_is_counted_and_asked() {
        for price in [f64::MAX, f64::MIN] {
            let mut usage = Usage {
                input: u64::MAX,
                output: u64::MAX,
                ..Usage::default()
            };
            usage.price(&Prices {
                input: price,
                output: price,
                ..Prices::default()
            });
            assert_eq!((usage.cost.input, usage.cost.total), (price, price));
        }
    }

    #[test]
    fn overflows_that_no_server_reports() {
        use StopReason::{Length, Stop, ToolUse};
        let rows = [
            (Stop, 900, 100, 0, 1000, false),
            (Stop, 901, 100, 5, 1000, true),
            (ToolUse, 901, 100, 5, 1000, false),
            (Length, 990, 0, 0, 1000, true),
            (Length, 890, 100, 0, 1000, true),
            (Length, 989, 0, 0, 1000, false),
            (Length, 990, 0, 1, 1000, false),
            (Stop, 5, 0, 0, 0, false),
        ];
        for (stop, input, cache_read, output, window, expected) in rows {
            let usage = Usage {
                input,
                cache_read,
                output,
                ..Usage::default()
            };
            assert_eq!(
                usage.overflows(&stop, window),
                expected,
                "{stop:?} {usage:?}"
            );
        }
    }

    #[test]
    fn json_has_pi_fields_and_whole_numbers_without_fraction() {
        let json = serde_json::to_string(&Usage {
            input: 3,
            total_tokens: 3,
            ..Usage::default()
        })
        .unwrap();
        assert_eq!(
            json,
            r#"{"input":3,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":3,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}"#
        );
    }

    #[test]
    fn cost_is_tokens_times_price_per_million() {
        let mut usage = Usage {
            input: 1_000_000,
            output: 500_000,
            cache_read: 10,
            ..Usage::default()
        };
        usage.price(&Prices {
            input: 2.0,
            output: 8.0,
            cache_read: 0.5,
            cache_write: 1.0,
        });
        assert!((usage.cost.total - 6.000_005).abs() < 1e-9);
    }
}
