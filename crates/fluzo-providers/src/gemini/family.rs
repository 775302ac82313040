//! What the id of a model tells of it, and how it is asked to think.
//!
//! Levels, budgets and what cannot be switched off are facts of the thinking page at
//! ai.google.dev/gemini-api/docs/thinking.

use fluzo_llm::{Model, RequestOptions, ThinkingLevel};
use serde::Serialize;

/// How much to think; nothing is sent to a model that cannot.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ThinkingConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    include_thoughts: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_level: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget: Option<i64>,
}

/// What is known of a model by its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    /// Gemini, with its version; names such as `gemini-flash-latest` have none.
    Gemini {
        version: Option<(u32, u32)>,
        tier: Tier,
    },
    /// Gemma, with its version.
    Gemma(u32),
    /// Claude or GPT-OSS, whose calls have ids.
    Guest,
    /// Anything else.
    Other,
}

/// The size of a Gemini model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tier {
    /// `pro`.
    Pro,
    /// `flash` and everything else.
    Flash,
    /// `flash-lite`.
    FlashLite,
}

/// How a family is asked to think: what is sent for minimal, low, medium and high, and for off.
enum Scale {
    Levels([&'static str; 4], &'static str),
    Budgets([i64; 4], i64),
}

impl Family {
    /// What `id` tells.
    pub(crate) fn of(id: &str) -> Self {
        let id = id.rsplit('/').next().unwrap_or(id).to_ascii_lowercase();
        if id.starts_with("claude-") || id.starts_with("gpt-oss-") {
            return Self::Guest;
        }
        if let Some(rest) = id.strip_prefix("gemma-") {
            return version(rest).map_or(Self::Other, |(major, _)| Self::Gemma(major));
        }
        let Some(rest) = id.strip_prefix("gemini-") else {
            return Self::Other;
        };
        let tier = match () {
            () if id.contains("-flash-lite") => Tier::FlashLite,
            () if id.contains("-pro") => Tier::Pro,
            () => Tier::Flash,
        };
        let version = version(rest.strip_prefix("live-").unwrap_or(rest));
        Self::Gemini { version, tier }
    }

    /// Whether it is Gemini 3 or later. A name without a version stands for the newest model.
    pub(crate) fn is_gemini_3(self) -> bool {
        match self {
            Self::Gemini { version, .. } => version.is_none_or(|(major, _)| major >= 3),
            _ => false,
        }
    }

    /// Whether calls and results carry ids.
    pub(crate) fn has_ids(self) -> bool {
        self == Self::Guest
    }

    /// Whether a tool's result may hold images; a name that tells nothing is taken for new.
    pub(crate) fn takes_images_in_results(self) -> bool {
        match self {
            Self::Gemini { .. } => self.is_gemini_3(),
            Self::Gemma(_) => false,
            Self::Guest | Self::Other => true,
        }
    }

    fn scale(self) -> Scale {
        const RISING: [&str; 4] = ["MINIMAL", "LOW", "MEDIUM", "HIGH"];
        match self {
            Self::Gemini { version, tier } if self.is_gemini_3() => match (tier, version) {
                (Tier::Pro, Some((3, 0))) => Scale::Levels(["LOW", "LOW", "HIGH", "HIGH"], "LOW"),
                (Tier::Pro, _) => Scale::Levels(["LOW", "LOW", "MEDIUM", "HIGH"], "LOW"),
                (Tier::Flash | Tier::FlashLite, _) => Scale::Levels(RISING, "MINIMAL"),
            },
            Self::Gemma(4..) => Scale::Levels(["MINIMAL", "MINIMAL", "HIGH", "HIGH"], "MINIMAL"),
            Self::Gemini {
                version: Some((2, 5)),
                tier,
            } => match tier {
                // The server refuses to switch it off.
                Tier::Pro => Scale::Budgets([128, 2048, 8192, 32_768], 128),
                Tier::Flash => Scale::Budgets([128, 2048, 8192, 24_576], 0),
                Tier::FlashLite => Scale::Budgets([512, 2048, 8192, 24_576], 0),
            },
            _ => Scale::Budgets([-1; 4], 0),
        }
    }
}

/// How `model` is asked to think with `options`.
///
/// The model's own map comes before what is usual: a number is a budget, a word a level.
/// Budgets of the user replace those of families that count tokens. Thinking that cannot be
/// switched off is kept as short as the model allows and is not shown.
pub(crate) fn thinking(model: &Model, options: &RequestOptions) -> Option<ThinkingConfig> {
    if !model.reasoning {
        return None;
    }
    let level = model.clamp(options.thinking);
    let mapped = model.thinking_level_map.get(&level);
    let word = mapped.and_then(Option::as_deref).map_or("", str::trim);
    let number = word.parse().ok();
    let (thinking_level, thinking_budget) = match Family::of(&model.id).scale() {
        Scale::Levels(names, off) => {
            let usual = if word.is_empty() {
                pick(names, level).unwrap_or(off)
            } else {
                word
            };
            let name = number.is_none().then(|| usual.to_ascii_uppercase());
            (name, number)
        }
        Scale::Budgets(budgets, off) => {
            let meant = ThinkingLevel::parse(&word.to_ascii_lowercase()).unwrap_or(level);
            let usual = pick(budgets, meant).unwrap_or(off);
            let budget = budget_of_user(options, level).or(number);
            (None, Some(budget.unwrap_or(usual)))
        }
    };
    Some(ThinkingConfig {
        include_thoughts: (level != ThinkingLevel::Off).then_some(true),
        thinking_level,
        thinking_budget,
    })
}

fn budget_of_user(options: &RequestOptions, level: ThinkingLevel) -> Option<i64> {
    let of = |level| options.thinking_budgets.get(&level).copied();
    let budget = match level {
        ThinkingLevel::Off => None,
        ThinkingLevel::Xhigh => of(level).or_else(|| of(ThinkingLevel::High)),
        level => of(level),
    };
    budget.and_then(|tokens| i64::try_from(tokens).ok())
}

fn pick<T: Copy>(of_levels: [T; 4], level: ThinkingLevel) -> Option<T> {
    let [minimal, low, medium, high] = of_levels;
    match level {
        ThinkingLevel::Off => None,
        ThinkingLevel::Minimal => Some(minimal),
        ThinkingLevel::Low => Some(low),
        ThinkingLevel::Medium => Some(medium),
        ThinkingLevel::High | ThinkingLevel::Xhigh => Some(high),
    }
}

/// `3.1-pro` has the version 3.1, `4-31b` the version 4.0.
fn version(text: &str) -> Option<(u32, u32)> {
    let head = text.split('-').next()?;
    let (major, minor) = head.split_once('.').unwrap_or((head, "0"));
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn families() {
        let gemini = |version, tier| Family::Gemini { version, tier };
        let rows = [
            ("gemini-3-pro-preview", gemini(Some((3, 0)), Tier::Pro)),
            (
                "gemini-3.1-pro-preview-customtools",
                gemini(Some((3, 1)), Tier::Pro),
            ),
            (
                "models/Gemini-2.5-Flash-Lite",
                gemini(Some((2, 5)), Tier::FlashLite),
            ),
            ("gemini-live-2.5-flash", gemini(Some((2, 5)), Tier::Flash)),
            ("gemini-flash-latest", gemini(None, Tier::Flash)),
            ("gemini-pro-latest", gemini(None, Tier::Pro)),
            ("gemini-", gemini(None, Tier::Flash)),
            ("gemma-4-31b-it", Family::Gemma(4)),
            ("claude-opus-4-6", Family::Guest),
            ("gpt-oss-120b-medium", Family::Guest),
            ("learnlm", Family::Other),
            ("", Family::Other),
        ];
        for (id, family) in rows {
            assert_eq!(Family::of(id), family, "{id}");
        }
    }

    fn check(id: &str, changes: Value, level: &str, expected: Value) {
        let mut json = json!({
            "id": id, "name": id, "api": "a", "provider": "p", "baseUrl": "", "reasoning": true,
            "input": ["text"], "contextWindow": 1, "maxTokens": 1,
        });
        let budgets = changes.get("budgets").cloned().unwrap_or(json!({}));
        if let (Some(map), Value::Object(changes)) = (json.as_object_mut(), changes) {
            map.extend(changes);
        }
        let model: Model = serde_json::from_value(json).unwrap();
        let options = RequestOptions {
            thinking: ThinkingLevel::parse(level).unwrap(),
            thinking_budgets: serde_json::from_value(budgets).unwrap(),
            ..RequestOptions::default()
        };
        let config = thinking(&model, &options);
        assert_eq!(
            serde_json::to_value(config).unwrap(),
            expected,
            "{id} {level}"
        );
    }

    fn level(name: &str) -> Value {
        json!({"includeThoughts": true, "thinkingLevel": name})
    }

    fn budget(tokens: i64) -> Value {
        json!({"includeThoughts": true, "thinkingBudget": tokens})
    }

    #[test]
    fn levels_of_every_family() {
        let rows = [
            (
                "gemini-3-pro-preview",
                ["LOW", "LOW", "HIGH", "HIGH"],
                "LOW",
            ),
            (
                "gemini-3.1-pro-preview",
                ["LOW", "LOW", "MEDIUM", "HIGH"],
                "LOW",
            ),
            (
                "gemini-3-flash-preview",
                ["MINIMAL", "LOW", "MEDIUM", "HIGH"],
                "MINIMAL",
            ),
            (
                "gemini-3.1-flash-lite",
                ["MINIMAL", "LOW", "MEDIUM", "HIGH"],
                "MINIMAL",
            ),
            (
                "gemini-flash-latest",
                ["MINIMAL", "LOW", "MEDIUM", "HIGH"],
                "MINIMAL",
            ),
            (
                "gemma-4-31b-it",
                ["MINIMAL", "MINIMAL", "HIGH", "HIGH"],
                "MINIMAL",
            ),
        ];
        for (id, names, off) in rows {
            for (asked, name) in ["minimal", "low", "medium", "high"].into_iter().zip(names) {
                check(id, json!({}), asked, level(name));
            }
            check(id, json!({}), "xhigh", level("HIGH"));
            check(id, json!({}), "off", json!({"thinkingLevel": off}));
        }
    }

    #[test]
    fn budgets_of_every_family() {
        let rows = [
            ("gemini-2.5-pro", [128, 2048, 8192, 32_768], 128),
            ("gemini-2.5-flash", [128, 2048, 8192, 24_576], 0),
            ("gemini-2.5-flash-lite", [512, 2048, 8192, 24_576], 0),
            ("gemini-2.0-flash", [-1; 4], 0),
            ("learnlm", [-1; 4], 0),
        ];
        for (id, tokens, off) in rows {
            for (asked, tokens) in ["minimal", "low", "medium", "high"].into_iter().zip(tokens) {
                check(id, json!({}), asked, budget(tokens));
            }
            check(id, json!({}), "off", json!({"thinkingBudget": off}));
        }
    }

    #[test]
    fn maps_and_budgets_of_the_user() {
        let map = |map: Value| json!({"thinkingLevelMap": map});
        check(
            "gemini-3-flash",
            map(json!({"low": "medium"})),
            "low",
            level("MEDIUM"),
        );
        check(
            "gemini-3-flash",
            map(json!({"minimal": null})),
            "minimal",
            level("LOW"),
        );
        check(
            "gemini-3-flash",
            map(json!({"off": null})),
            "off",
            level("MINIMAL"),
        );
        check(
            "gemini-3-flash",
            map(json!({"xhigh": "HIGH"})),
            "xhigh",
            level("HIGH"),
        );
        check(
            "gemini-2.5-flash",
            map(json!({"low": "777"})),
            "low",
            budget(777),
        );
        check(
            "gemini-2.5-flash",
            map(json!({"high": "x"})),
            "high",
            budget(24_576),
        );
        check(
            "gemini-2.5-flash",
            map(json!({"xhigh": "MEDIUM"})),
            "xhigh",
            budget(8192),
        );
        check(
            "gemini-3-flash",
            map(json!({"low": "777"})),
            "low",
            budget(777),
        );
        let high = json!({"budgets": {"high": 9}, "thinkingLevelMap": {"xhigh": "high"}});
        check("gemini-2.5-flash", high, "xhigh", budget(9));
        let budgets = json!({"budgets": {"low": 99}, "thinkingLevelMap": {"low": "777"}});
        check("gemini-2.5-flash", budgets.clone(), "low", budget(99));
        check("gemini-2.5-flash", budgets, "high", budget(24_576));
        check(
            "gemini-2.5-flash",
            json!({"reasoning": false}),
            "high",
            json!(null),
        );
    }
}
