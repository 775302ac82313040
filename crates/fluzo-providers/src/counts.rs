//! Token counts as servers report them, whatever the dialect.

use fluzo_llm::Usage;
use fluzo_llm::model::Prices;
use serde_json::Value;

/// A count of tokens. A fraction of a token is a server's rounding; negative counts are none.
pub(crate) fn count(value: &Value) -> Option<u64> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let whole = |n: f64| (n.is_finite() && n >= 0.0).then_some(n as u64);
    value.as_u64().or_else(|| value.as_f64().and_then(whole))
}

/// The tokens of one response by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tokens {
    /// Input that was neither read from nor written to a cache.
    pub input: u64,
    /// Output, reasoning included.
    pub output: u64,
    /// Input read from a cache.
    pub cache_read: u64,
    /// Input written to a cache.
    pub cache_write: u64,
    /// What the server calls the total; 0 when it names none.
    pub total: u64,
}

impl Tokens {
    /// The usage at `prices`.
    pub(crate) fn usage(self, prices: &Prices) -> Usage {
        let all = [self.input, self.output, self.cache_read, self.cache_write];
        let sum = all
            .iter()
            .fold(0_u64, |sum, count| sum.saturating_add(*count));
        let mut usage = Usage {
            input: self.input,
            output: self.output,
            cache_read: self.cache_read,
            cache_write: self.cache_write,
            total_tokens: if self.total > 0 { self.total } else { sum },
            ..Usage::default()
        };
        usage.price(prices);
        usage
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counts_of_every_form() {
        let rows = [
            (json!(12), Some(12)),
            (json!(12.0), Some(12)),
            (json!(12.7), Some(12)),
            (json!(-1), None),
            (json!("12"), None),
            (json!(null), None),
        ];
        for (value, expected) in rows {
            assert_eq!(count(&value), expected, "{value}");
        }
    }

    #[test]
    fn the_total_of_the_server_counts_where_there_is_one() {
        let tokens = Tokens {
            input: 1,
            output: 2,
            cache_read: 3,
            cache_write: 4,
            total: 0,
        };
        let total = |total| {
            Tokens { total, ..tokens }
                .usage(&Prices::default())
                .total_tokens
        };
        assert_eq!((total(0), total(99)), (10, 99));
    }
}
