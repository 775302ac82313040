//! What model a text means.

use std::cmp::Reverse;
use std::sync::Arc;

use fluzo_llm::{Model, ThinkingLevel};
use fluzo_stdx::similar;

use crate::models::{ModelRegistry, Resolved, Usable};

/// The model that `pattern` means.
pub(crate) fn resolve(
    registry: &ModelRegistry,
    provider: Option<&str>,
    pattern: &str,
    usable: Usable<'_>,
) -> Result<Resolved, String> {
    if let Some(name) = provider {
        let id = registry.provider(name)?;
        let rest = strip_provider(pattern, id).unwrap_or(pattern);
        let found = among(&registry.models_of(id), rest, usable);
        let made = || fabricated(registry, id, rest);
        return found
            .or_else(made)
            .ok_or_else(|| unknown_model(registry, pattern));
    }
    let split = pattern.split_once('/');
    let inferred = split.and_then(|(name, rest)| Some((registry.provider(name).ok()?, rest)));
    if let Some((id, rest)) = inferred {
        return with_provider(registry, (id, rest), pattern, usable)
            .ok_or_else(|| unknown_model(registry, pattern));
    }
    among(registry.models(), pattern, usable).ok_or_else(|| unknown_model(registry, pattern))
}

/// The text before the first `/` is the provider `id`, unless the whole text is the id of a
/// model elsewhere and only that one can be used.
fn with_provider(
    registry: &ModelRegistry,
    (id, rest): (&str, &str),
    pattern: &str,
    usable: Usable<'_>,
) -> Option<Resolved> {
    let within = among(&registry.models_of(id), rest, usable);
    if within.is_some() && usable(id) {
        return within;
    }
    let elsewhere = leveled(pattern, |text| {
        let models = registry.models().iter();
        let mut exact = models.filter(|m| m.id.eq_ignore_ascii_case(text));
        exact.find(|m| usable(&m.provider))
    });
    elsewhere
        .or(within)
        .or_else(|| among(registry.models(), pattern, usable))
        .or_else(|| fabricated(registry, id, rest))
}

fn strip_provider<'a>(pattern: &'a str, provider: &str) -> Option<&'a str> {
    let (prefix, rest) = pattern.split_once('/')?;
    prefix.eq_ignore_ascii_case(provider).then_some(rest)
}

fn among(models: &[Arc<Model>], pattern: &str, usable: Usable<'_>) -> Option<Resolved> {
    leveled(pattern, |text| best(models, text, usable))
}

/// The model that `pattern` means among those that can be used.
pub(crate) fn usable_only(
    registry: &ModelRegistry,
    pattern: &str,
    usable: Usable<'_>,
) -> Option<Resolved> {
    let can = |model: &&Arc<Model>| usable(&model.provider);
    let models: Vec<Arc<Model>> = registry.models().iter().filter(can).cloned().collect();
    among(&models, pattern, usable)
}

/// What `find` makes of `pattern`; else of what stands before its last `:` when a thinking
/// level stands behind it.
fn leveled<'a>(pattern: &str, find: impl Fn(&str) -> Option<&'a Arc<Model>>) -> Option<Resolved> {
    if let Some(model) = find(pattern) {
        return Some(plain(model));
    }
    let (text, level) = split_level(pattern)?;
    Some(Resolved {
        thinking: Some(level),
        ..plain(find(text)?)
    })
}

fn split_level(pattern: &str) -> Option<(&str, ThinkingLevel)> {
    let (text, suffix) = pattern.rsplit_once(':')?;
    Some((text, ThinkingLevel::parse(suffix)?))
}

/// Exact id or `provider/id`; else a part of id or name, aliases before dated ones, the
/// highest first. In both, models that can be used come before those that cannot.
fn best<'a>(models: &'a [Arc<Model>], pattern: &str, usable: Usable<'_>) -> Option<&'a Arc<Model>> {
    let full = |m: &Model| format!("{}/{}", m.provider, m.id);
    let is_exact = |m: &&Arc<Model>| {
        m.id.eq_ignore_ascii_case(pattern)
            || pattern.contains('/') && full(m).eq_ignore_ascii_case(pattern)
    };
    let exact: Vec<_> = models.iter().filter(is_exact).collect();
    let first = exact.iter().find(|m| usable(&m.provider));
    if let Some(model) = first.or(exact.first()) {
        return Some(model);
    }
    let wanted = pattern.to_lowercase();
    let is_part = |m: &&Arc<Model>| {
        m.id.to_lowercase().contains(&wanted) || m.name.to_lowercase().contains(&wanted)
    };
    let parts = models.iter().filter(is_part);
    // The first of those that are equal: providers stand in their order.
    parts.min_by_key(|m| {
        let rank = (usable(&m.provider), !is_dated(&m.id));
        (Reverse(rank), Reverse(m.id.clone()))
    })
}

/// Whether the id ends in `-YYYYMMDD`.
fn is_dated(id: &str) -> bool {
    id.rsplit_once('-')
        .is_some_and(|(_, tail)| tail.len() == 8 && tail.bytes().all(|b| b.is_ascii_digit()))
}

fn plain(model: &Arc<Model>) -> Resolved {
    Resolved {
        model: Arc::clone(model),
        thinking: None,
        warning: None,
    }
}

/// A model that is not known, at a provider that is.
fn fabricated(registry: &ModelRegistry, provider: &str, text: &str) -> Option<Resolved> {
    let leveled = split_level(text);
    let (id, thinking) = leveled.map_or((text, None), |(id, level)| (id, Some(level)));
    let model = registry
        .fabricated(provider, id)
        .filter(|_| !id.is_empty())?;
    let warning =
        format!("Model \"{id}\" not found for provider \"{provider}\". Using custom model id.");
    // A server of one's own has no models that could be known.
    let expected = registry.models_of(provider).is_empty();
    Some(Resolved {
        model: Arc::new(model),
        thinking,
        warning: (!expected).then_some(warning),
    })
}

fn unknown_model(registry: &ModelRegistry, pattern: &str) -> String {
    let text = format!("Model \"{pattern}\" not found. Use --list-models to see available models.");
    let wanted = pattern.to_lowercase();
    let ids = registry.models().iter().map(|m| m.id.as_str());
    let close = similar::close(&wanted, ids);
    let Some(id) = close.first() else {
        return text;
    };
    let model = registry.models().iter().find(|m| m.id == *id);
    let provider = model.map_or("", |m| m.provider.as_str());
    format!("{text}\nhint: did you mean \"{provider}/{id}\"?")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry() -> ModelRegistry {
        let models = [
            "alpha-20250101",
            "alpha-20250601",
            "beta",
            "beta-latest",
            "x/y",
        ];
        let models = models
            .map(|id| format!(r#"{{"id": "{id}", "reasoning": true}}"#))
            .join(",");
        ModelRegistry::new(Some(&format!(
            r#"{{"providers": {{"fake": {{"baseUrl": "u", "api": "a", "apiKey": "k", "models": [{models}]}}}}}}"#
        )))
    }

    #[test]
    fn patterns() {
        use ThinkingLevel::{High, Low};
        let rows = [
            (None, "gpt-4o", "openai/gpt-4o", None, false),
            (None, "fake/beta", "fake/beta", None, false),
            (None, "FAKE/beta", "fake/beta", None, false),
            (Some("fake"), "fake/beta", "fake/beta", None, false),
            (Some("FAKE"), "alpha", "fake/alpha-20250601", None, false),
            (None, "beta-l", "fake/beta-latest", None, false),
            (None, "beta:high", "fake/beta", Some(High), false),
            (None, "x/y", "fake/x/y", None, false),
            (Some("fake"), "zzz", "fake/zzz", None, true),
            (None, "fake/zzz:low", "fake/zzz", Some(Low), true),
            // A level belongs to the id where a model has it there.
            (
                Some("openrouter"),
                "openai/gpt-oss-20b:free",
                "openrouter/openai/gpt-oss-20b:free",
                None,
                false,
            ),
            (Some("ollama"), "qwen3:8b", "ollama/qwen3:8b", None, false),
            (None, "ollama/qwen3:8b", "ollama/qwen3:8b", None, false),
            (
                None,
                "anthropic/opus",
                "anthropic/claude-opus-4-8",
                None,
                false,
            ),
        ];
        let registry = registry();
        for (provider, pattern, id, level, warned) in rows {
            let found = registry.resolve(provider, pattern, &|_| false).unwrap();
            let full = format!("{}/{}", found.model.provider, found.model.id);
            assert_eq!(
                (full.as_str(), found.thinking, found.warning.is_some()),
                (id, level, warned),
                "{pattern}"
            );
        }
    }

    /// The same text, and whose keys are at hand.
    #[test]
    fn a_provider_that_can_be_used_wins_where_several_fit() {
        let rows: [(&str, &[&str], &str); 10] = [
            ("gpt-5.4", &[], "openai/gpt-5.4"),
            ("gpt-5.4", &["github-copilot"], "github-copilot/gpt-5.4"),
            (
                "gpt-5.4",
                &["azure-openai-responses", "openai"],
                "openai/gpt-5.4",
            ),
            // An exact id comes before a part of one that could be used.
            ("gpt-5.4", &["openrouter"], "openai/gpt-5.4"),
            ("kimi-k2.6", &["moonshotai-cn"], "moonshotai-cn/kimi-k2.6"),
            (
                "openai/gpt-5.4",
                &["openai", "openrouter"],
                "openai/gpt-5.4",
            ),
            (
                "openai/gpt-5.4",
                &["openrouter"],
                "openrouter/openai/gpt-5.4",
            ),
            ("openai/gpt-5.4", &[], "openai/gpt-5.4"),
            ("openai/gpt-oss-120b", &["groq"], "groq/openai/gpt-oss-120b"),
            ("glm-4.7", &["cerebras"], "zai/glm-4.7"),
        ];
        let registry = registry();
        for (pattern, keys, id) in rows {
            let found = registry
                .resolve(None, pattern, &|p| keys.contains(&p))
                .unwrap();
            let full = format!("{}/{}", found.model.provider, found.model.id);
            assert_eq!(full, id, "{pattern} {keys:?}");
        }
        let part = registry
            .resolve(None, "sonnet", &|p| p == "github-copilot")
            .unwrap();
        assert_eq!(part.model.provider, "github-copilot");
    }

    #[test]
    fn what_is_unknown_is_named() {
        let rows = [
            (
                Some("nosuch"),
                "m",
                "Unknown provider \"nosuch\". Use --list-models",
            ),
            (
                Some("nosuch"),
                "m",
                "there are amazon-bedrock, anthropic, openai,",
            ),
            (Some("antropic"), "m", "did you mean \"anthropic\"?"),
            (
                Some("openai-codex"),
                "m",
                "use the provider `openai` with OPENAI_API_KEY",
            ),
            (None, "nosuch", "Model \"nosuch\" not found"),
            (None, "gtp-4o", "hint: did you mean \"openai/gpt-4o\"?"),
            // What stands behind the colon is no level.
            (None, "beta:huge", "Model \"beta:huge\" not found"),
            (Some("ollama"), "", "Model \"\" not found"),
        ];
        for (provider, pattern, text) in rows {
            let error = registry()
                .resolve(provider, pattern, &|_| false)
                .unwrap_err();
            assert!(error.contains(text), "{error}");
        }
    }
}
