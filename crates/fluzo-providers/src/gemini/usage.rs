//! Tokens, from `usageMetadata`.

use fluzo_llm::Usage;
use fluzo_llm::model::Prices;
use serde_json::Value;

use crate::counts::{Tokens, count};

/// The counts reported so far. Each chunk repeats them as they stand, so a later count
/// replaces an earlier one unless it is zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    prompt: u64,
    cached: u64,
    candidates: u64,
    thoughts: u64,
    total: u64,
}

impl Counts {
    /// Takes in a usage object; anything else changes nothing.
    pub(crate) fn report(&mut self, usage: &Value) {
        let fields = [
            ("promptTokenCount", &mut self.prompt),
            ("cachedContentTokenCount", &mut self.cached),
            ("candidatesTokenCount", &mut self.candidates),
            ("thoughtsTokenCount", &mut self.thoughts),
            ("totalTokenCount", &mut self.total),
        ];
        for (name, field) in fields {
            if let Some(n) = usage.get(name).and_then(count).filter(|n| *n > 0) {
                *field = n;
            }
        }
    }

    /// The usage at `prices`. Cached tokens are part of the prompt's; thoughts are no part of
    /// the candidates'.
    pub(crate) fn usage(&self, prices: &Prices) -> Usage {
        let tokens = Tokens {
            input: self.prompt.saturating_sub(self.cached),
            output: self.candidates.saturating_add(self.thoughts),
            cache_read: self.cached,
            cache_write: 0,
            total: self.total,
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
    fn fields() {
        let all = json!({
            "promptTokenCount": 100, "cachedContentTokenCount": 60, "candidatesTokenCount": 7,
            "thoughtsTokenCount": 5, "totalTokenCount": 115,
        });
        check(std::slice::from_ref(&all), [40, 12, 60, 0, 115]);
        check(
            &[json!({"promptTokenCount": 100}), all.clone(), all],
            [40, 12, 60, 0, 115],
        );
        check(
            &[json!({"promptTokenCount": 12, "candidatesTokenCount": 7})],
            [12, 7, 0, 0, 19],
        );
        check(
            &[json!({"promptTokenCount": 1, "cachedContentTokenCount": 4})],
            [0, 0, 4, 0, 4],
        );
        check(
            &[json!(null), json!([]), json!({"promptTokenCount": "x"})],
            [0; 5],
        );
    }

    #[test]
    fn cost() {
        let mut counts = Counts::default();
        counts.report(&json!({
            "promptTokenCount": 3_000_000, "cachedContentTokenCount": 1_000_000,
            "candidatesTokenCount": 500_000, "thoughtsTokenCount": 500_000,
        }));
        let prices = Prices {
            input: 2.0,
            output: 8.0,
            cache_read: 0.5,
            cache_write: 1.0,
        };
        assert_eq!(counts.usage(&prices).cost.total, 4.0 + 8.0 + 0.5);
    }
}
