//! What model a text means. Pure.

use std::sync::Arc;

use fluzo_llm::{Model, ThinkingLevel};

use crate::models::Resolved;

/// The model that `pattern` means among `models`.
pub(crate) fn resolve(
    models: &[Arc<Model>],
    provider: Option<&str>,
    pattern: &str,
) -> Result<Resolved, String> {
    if let Some(name) = provider {
        let first = first_of(models, name)?;
        let rest = strip_provider(pattern, &first.provider).unwrap_or(pattern);
        return Ok(within(models, &first.provider, rest).unwrap_or_else(|| fabricated(first, rest)));
    }
    if let Some(model) = models.iter().find(|m| m.id == pattern) {
        return Ok(plain(model));
    }
    let split = pattern.split_once('/');
    if let Some((first, rest)) =
        split.and_then(|(prefix, rest)| Some((first_of(models, prefix).ok()?, rest)))
    {
        let found = within(models, &first.provider, rest).or_else(|| among(models.iter(), pattern));
        return Ok(found.unwrap_or_else(|| fabricated(first, rest)));
    }
    among(models.iter(), pattern).ok_or_else(|| unknown_model(pattern))
}

/// The first model of a provider, whose name may be in any case.
pub(crate) fn first_of<'a>(
    models: &'a [Arc<Model>],
    provider: &str,
) -> Result<&'a Arc<Model>, String> {
    let of_provider = |model: &&Arc<Model>| model.provider.eq_ignore_ascii_case(provider);
    models
        .iter()
        .find(of_provider)
        .ok_or_else(|| unknown_provider(provider))
}

fn strip_provider<'a>(pattern: &'a str, provider: &str) -> Option<&'a str> {
    let (prefix, rest) = pattern.split_once('/')?;
    prefix.eq_ignore_ascii_case(provider).then_some(rest)
}

fn within(models: &[Arc<Model>], provider: &str, pattern: &str) -> Option<Resolved> {
    among(models.iter().filter(|m| m.provider == provider), pattern)
}

fn among<'a>(
    models: impl Iterator<Item = &'a Arc<Model>> + Clone,
    pattern: &str,
) -> Option<Resolved> {
    if let Some(model) = best(models.clone(), pattern) {
        return Some(plain(model));
    }
    let (prefix, suffix) = pattern.rsplit_once(':')?;
    let level = ThinkingLevel::parse(suffix)?;
    let model = best(models, prefix)?;
    Some(Resolved {
        thinking: Some(level),
        ..plain(model)
    })
}

/// Exact id or `provider/id`; else a part of id or name, aliases before dated ones, the highest first.
fn best<'a>(
    models: impl Iterator<Item = &'a Arc<Model>> + Clone,
    pattern: &str,
) -> Option<&'a Arc<Model>> {
    let full = |m: &Model| format!("{}/{}", m.provider, m.id);
    let exact = models
        .clone()
        .find(|m| m.id.eq_ignore_ascii_case(pattern) || full(m).eq_ignore_ascii_case(pattern));
    let wanted = pattern.to_lowercase();
    let part = |m: &&Arc<Model>| {
        m.id.to_lowercase().contains(&wanted) || m.name.to_lowercase().contains(&wanted)
    };
    exact.or_else(|| {
        models
            .filter(part)
            .max_by_key(|m| (!is_dated(&m.id), m.id.clone()))
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

/// A model that is not known, at a provider that is: the provider's first model under another id.
fn fabricated(first: &Model, id: &str) -> Resolved {
    let leveled = id
        .rsplit_once(':')
        .and_then(|(id, level)| Some((id, ThinkingLevel::parse(level)?)));
    let (id, thinking) = leveled.map_or((id, None), |(id, level)| (id, Some(level)));
    let mut model = first.clone();
    (model.id, model.name) = (id.to_owned(), id.to_owned());
    let provider = &first.provider;
    let warning =
        format!("Model \"{id}\" not found for provider \"{provider}\". Using custom model id.");
    Resolved {
        model: Arc::new(model),
        thinking,
        warning: Some(warning),
    }
}

fn unknown_provider(name: &str) -> String {
    format!("Unknown provider \"{name}\". Use --list-models to see available providers/models.")
}

fn unknown_model(pattern: &str) -> String {
    format!("Model \"{pattern}\" not found. Use --list-models to see available models.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ModelRegistry;

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
        let rows = [
            (None, "gpt-4o", "openai/gpt-4o", None, false),
            (None, "fake/beta", "fake/beta", None, false),
            (None, "FAKE/beta", "fake/beta", None, false),
            (Some("fake"), "fake/beta", "fake/beta", None, false),
            (Some("fake"), "alpha", "fake/alpha-20250601", None, false),
            (None, "bet", "fake/beta-latest", None, false),
            (
                None,
                "beta:high",
                "fake/beta",
                Some(ThinkingLevel::High),
                false,
            ),
            (None, "x/y", "fake/x/y", None, false),
            (Some("fake"), "zzz", "fake/zzz", None, true),
            (
                None,
                "fake/zzz:low",
                "fake/zzz",
                Some(ThinkingLevel::Low),
                true,
            ),
        ];
        let registry = registry();
        for (provider, pattern, id, level, warned) in rows {
            let found = registry.resolve(provider, pattern).unwrap();
            let full = format!("{}/{}", found.model.provider, found.model.id);
            assert_eq!(
                (full.as_str(), found.thinking, found.warning.is_some()),
                (id, level, warned),
                "{pattern}"
            );
        }
    }

    #[test]
    fn what_is_unknown_is_named() {
        let rows = [
            (Some("nosuch"), "m", "Unknown provider \"nosuch\""),
            (None, "nosuch", "Model \"nosuch\" not found"),
            // What stands behind the colon is no level.
            (None, "beta:huge", "Model \"beta:huge\" not found"),
        ];
        for (provider, pattern, text) in rows {
            let error = registry().resolve(provider, pattern).unwrap_err();
            assert!(error.contains(text), "{error}");
        }
    }
}
