//! Tokens and what they cost.

use fluzo_llm::model::Prices;
use fluzo_llm::{Model, Usage};
use serde_json::Value;

use crate::counts::{Tokens, count};

/// The counts that the response reported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    input: u64,
    cached: u64,
    output: u64,
    total: u64,
}

impl Counts {
    /// Takes in a usage object; anything else, and counts of zero, change nothing. Servers
    /// that grew out of Chat Completions may use its names.
    pub(crate) fn report(&mut self, usage: &Value) {
        let set = |field: &mut u64, places: [&str; 2]| {
            let counts = places.iter().filter_map(|place| usage.pointer(place));
            if let Some(n) = counts.filter_map(count).find(|n| *n > 0) {
                *field = n;
            }
        };
        set(&mut self.input, ["/input_tokens", "/prompt_tokens"]);
        set(
            &mut self.cached,
            [
                "/input_tokens_details/cached_tokens",
                "/prompt_tokens_details/cached_tokens",
            ],
        );
        set(&mut self.output, ["/output_tokens", "/completion_tokens"]);
        set(&mut self.total, ["/total_tokens", "/total_tokens"]);
    }

    /// Whether tokens have been reported.
    pub(crate) fn seen(&self) -> bool {
        self.input > 0 || self.output > 0
    }

    /// The usage at the prices of `model` in the service tier `tier`. Cached tokens are part
    /// of what the server calls input tokens.
    pub(crate) fn usage(&self, model: &Priced, tier: Option<&str>) -> Usage {
        let tokens = Tokens {
            input: self.input.saturating_sub(self.cached),
            output: self.output,
            cache_read: self.cached,
            cache_write: 0,
            total: self.total,
        };
        tokens.usage(&model.at(tier))
    }
}

/// What the tokens of a model cost.
#[derive(Debug, Clone)]
pub(crate) struct Priced {
    prices: Prices,
    priority: f64,
}

impl Priced {
    /// The prices of `model`.
    pub(crate) fn of(model: &Model) -> Self {
        Self {
            prices: model.cost,
            priority: if model.id == "gpt-5.5" { 2.5 } else { 2.0 },
        }
    }

    fn at(&self, tier: Option<&str>) -> Prices {
        let factor = match tier {
            Some("flex") => 0.5,
            Some("priority") => self.priority,
            _ => 1.0,
        };
        Prices {
            input: self.prices.input * factor,
            output: self.prices.output * factor,
            cache_read: self.prices.cache_read * factor,
            cache_write: self.prices.cache_write * factor,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(id: &str) -> Priced {
        let model = serde_json::json!({
            "id": id, "name": id, "api": "openai-responses", "provider": "p", "baseUrl": "",
            "input": ["text"], "contextWindow": 1, "maxTokens": 1,
            "cost": {"input": 2, "output": 8, "cacheRead": 0.5, "cacheWrite": 1},
        });
        Priced::of(&serde_json::from_value(model).unwrap())
    }

    #[test]
    fn fields() {
        // reported, input, cache read, output, total
        let rows = [
            (
                r#"{"input_tokens":12,"output_tokens":7,"total_tokens":19}"#,
                [12, 0, 7, 19],
            ),
            (
                r#"{"input_tokens":12,"output_tokens":7,"input_tokens_details":{"cached_tokens":10},"output_tokens_details":{"reasoning_tokens":3},"total_tokens":20}"#,
                [2, 10, 7, 20],
            ),
            (
                r#"{"input_tokens":3,"output_tokens":7,"input_tokens_details":{"cached_tokens":4}}"#,
                [0, 4, 7, 11],
            ),
            (
                r#"{"prompt_tokens":12,"completion_tokens":7}"#,
                [12, 0, 7, 19],
            ),
            (r#"{"input_tokens":null,"output_tokens":-1}"#, [0, 0, 0, 0]),
            ("null", [0, 0, 0, 0]),
        ];
        for (reported, expected) in rows {
            let mut counts = Counts::default();
            let value = serde_json::from_str(reported).unwrap();
            counts.report(&value);
            counts.report(&value);
            let usage = counts.usage(&model("m"), None);
            let given = [
                usage.input,
                usage.cache_read,
                usage.output,
                usage.total_tokens,
            ];
            assert_eq!(given, expected, "{reported}");
            assert_eq!(usage.cache_write, 0);
        }
    }

    #[test]
    fn service_tiers_multiply_the_cost() {
        let mut counts = Counts::default();
        counts.report(&serde_json::json!({
            "input_tokens": 2_000_000, "output_tokens": 1_000_000, "input_tokens_details": {"cached_tokens": 1_000_000},
        }));
        let rows = [
            ("m", None, 10.5),
            ("m", Some("default"), 10.5),
            ("m", Some("flex"), 5.25),
            ("m", Some("priority"), 21.0),
            ("gpt-5.5", Some("priority"), 26.25),
            ("gpt-5.5", Some("flex"), 5.25),
        ];
        for (id, tier, total) in rows {
            let cost = counts.usage(&model(id), tier).cost;
            assert!((cost.total - total).abs() < 1e-9, "{id} {tier:?}: {cost:?}");
        }
    }
}
