//! How much a request asks a model to think, and what that leaves for the answer.

use fluzo_llm::{ModelRequest, ThinkingLevel};
use serde::Serialize;

use super::compat::Compat;

/// The least budget that the API takes, and the least that is left for the answer, in tokens.
const LEAST: u64 = 1024;

/// The `thinking` of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum WireThinking {
    Disabled,
    Adaptive {
        display: Display,
    },
    Enabled {
        budget_tokens: u64,
        display: Display,
    },
}

/// What is shown of the thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Display {
    Summarized,
}

/// What a request says of thinking and length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    /// Nothing for models that do not think, or cannot be told not to.
    pub thinking: Option<WireThinking>,
    /// Of adaptive thinking.
    pub effort: Option<String>,
    /// Most output tokens, thinking included.
    pub max_tokens: u64,
}

impl Plan {
    /// Whether the model is asked to think.
    pub(super) fn thinks(&self) -> bool {
        !matches!(self.thinking, None | Some(WireThinking::Disabled))
    }

    /// Whether the model is told not to think.
    pub(super) fn forbids(&self) -> bool {
        self.thinking == Some(WireThinking::Disabled)
    }
}

/// What `request` asks for. A budget needs a conversation that goes on with thinking
/// (`has_thought`); without one this request does without.
pub(super) fn plan(request: &ModelRequest, compat: &Compat, has_thought: bool) -> Plan {
    let model = &request.model;
    let asked = request.options.max_output_tokens;
    let max_tokens = asked.unwrap_or(model.max_tokens).max(1);
    let plain = |thinking| Plan {
        thinking,
        effort: None,
        max_tokens,
    };
    if !model.reasoning {
        return plain(None);
    }
    let level = model.clamp(request.options.thinking);
    if level == ThinkingLevel::Off {
        let disabled = (!always_thinks(&model.id)).then_some(WireThinking::Disabled);
        return plain(disabled);
    }
    let display = Display::Summarized;
    if compat.adaptive_thinking {
        let mapped = model.thinking_level_map.get(&level).cloned().flatten();
        return Plan {
            effort: Some(mapped.unwrap_or_else(|| effort(level).to_owned())),
            ..plain(Some(WireThinking::Adaptive { display }))
        };
    }
    let divided = divide(max_tokens, budget(request, level), model.max_tokens);
    match divided.filter(|_| has_thought) {
        Some((max_tokens, budget_tokens)) => Plan {
            thinking: Some(WireThinking::Enabled {
                budget_tokens,
                display,
            }),
            effort: None,
            max_tokens,
        },
        None => plain(Some(WireThinking::Disabled)),
    }
}

/// Whether the model `id` is one that thinks adaptively: Claude from 4.6 on.
pub(super) fn is_adaptive(id: &str) -> bool {
    claude(id).is_some_and(|(_, version)| version >= (4, 6))
}

/// Whether the model `id` refuses to be told not to think.
fn always_thinks(id: &str) -> bool {
    claude(id).is_some_and(|(family, _)| ["fable", "mythos"].contains(&family.as_str()))
}

/// Family and version of a Claude model, in the form of names since Claude 4.
fn claude(id: &str) -> Option<(String, (u32, u32))> {
    let id = id.to_ascii_lowercase();
    let (_, rest) = id.split_once("claude-")?;
    let mut words = rest.split(['-', '.', '@', ':']);
    let family = words.next()?;
    let mut number = || words.next()?.parse::<u32>().ok();
    let major = number()?;
    // A longer number is a date.
    let minor = number().filter(|n| *n < 100).unwrap_or(0);
    let named = family.chars().all(char::is_alphabetic);
    named.then(|| (family.to_owned(), (major, minor)))
}

fn effort(level: ThinkingLevel) -> &'static str {
    match level {
        ThinkingLevel::Off | ThinkingLevel::Minimal | ThinkingLevel::Low => "low",
        ThinkingLevel::Medium => "medium",
        ThinkingLevel::High | ThinkingLevel::Xhigh => "high",
    }
}

/// The budget for `level`, in tokens. The highest level has no budget of its own.
fn budget(request: &ModelRequest, level: ThinkingLevel) -> u64 {
    let level = level.min(ThinkingLevel::High);
    let usual = match level {
        ThinkingLevel::Off | ThinkingLevel::Minimal => 1024,
        ThinkingLevel::Low => 2048,
        ThinkingLevel::Medium => 8192,
        ThinkingLevel::High | ThinkingLevel::Xhigh => 16_384,
    };
    let own = request.options.thinking_budgets.get(&level).copied();
    own.unwrap_or(usual).max(LEAST)
}

/// Most tokens and budget when `base` tokens are wanted for the answer, `budget` for thinking,
/// and the model gives at most `limit`. Nothing when there is no room for both.
fn divide(base: u64, budget: u64, limit: u64) -> Option<(u64, u64)> {
    let max_tokens = base.saturating_add(budget).min(limit);
    let budget = match max_tokens > budget {
        true => budget,
        false => max_tokens.saturating_sub(LEAST),
    };
    (budget >= LEAST).then_some((max_tokens, budget))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_and_answer_share_what_the_model_gives() {
        let rows = [
            // Wanted for the answer, budget, the model's limit: most tokens, budget.
            ((64_000, 16_384, 64_000), Some((64_000, 16_384))),
            ((4096, 8192, 64_000), Some((12_288, 8192))),
            ((8192, 16_384, 8192), Some((8192, 7168))),
            ((16_384, 16_384, 16_384), Some((16_384, 15_360))),
            ((2048, 1024, 2048), Some((2048, 1024))),
            ((2000, 2048, 2000), None),
            ((1, 1024, 500), None),
            (
                (u64::MAX, u64::MAX, u64::MAX),
                Some((u64::MAX, u64::MAX - 1024)),
            ),
        ];
        for ((base, budget, limit), expected) in rows {
            assert_eq!(
                divide(base, budget, limit),
                expected,
                "{base} {budget} {limit}"
            );
        }
    }

    #[test]
    fn families_that_think_adaptively() {
        let adaptive = [
            "claude-opus-4-6",
            "claude-opus-4-7@default",
            "claude-sonnet-4.6",
            "anthropic/claude-opus-4.8-fast",
            "us.anthropic.claude-opus-4-6-v1",
            "claude-sonnet-5",
            "Claude-Fable-5",
            "claude-opus-5-20270101",
        ];
        let budget = [
            "claude-opus-4-20250514",
            "claude-opus-4-5-20251101",
            "claude-sonnet-4-0",
            "claude-sonnet-4.5",
            "claude-haiku-4-5@20251001",
            "claude-3-7-sonnet-20250219",
            "claude-3.5-haiku",
            "claude-opus-latest",
            "claude-",
            "MiniMax-M2.7",
            "",
        ];
        for id in adaptive {
            assert!(is_adaptive(id), "{id}");
        }
        for id in budget {
            assert!(!is_adaptive(id), "{id}");
        }
        let always = [
            "claude-fable-5",
            "anthropic/claude-fable-5.1",
            "claude-mythos-5",
        ];
        let told = adaptive
            .iter()
            .chain(&budget)
            .filter(|id| !id.contains("Fable"));
        assert!(always.iter().all(|id| always_thinks(id)));
        assert!(!told.into_iter().any(|id| always_thinks(id)));
    }
}
