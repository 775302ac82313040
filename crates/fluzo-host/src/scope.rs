//! The scope of models: which ones there are to cycle through.

use std::sync::Arc;

use fluzo_llm::{Model, ThinkingLevel};
use globset::{GlobBuilder, GlobMatcher};

use crate::choice::Scoped;
use crate::models::{ModelRegistry, Resolved, Usable};
use crate::pattern;

impl ModelRegistry {
    /// The models that `patterns` mean among those that can be used, in this order and each
    /// once, and what the user should know of patterns that mean none.
    ///
    /// A pattern with `*`, `?` or `[` is a glob over `provider/id` and over `id`; any other
    /// means one model, as `--model` takes it. A thinking level may stand behind a `:`.
    pub fn scope(&self, patterns: &[String], usable: Usable<'_>) -> (Vec<Scoped>, Vec<String>) {
        let (mut scope, mut warnings) = (Vec::<Scoped>::new(), Vec::new());
        for pattern in patterns.iter().map(|p| p.trim()).filter(|p| !p.is_empty()) {
            let found = if is_glob(pattern) {
                self.globbed(pattern, usable, &mut warnings)
            } else {
                self.one(pattern, usable, &mut warnings)
            };
            if found.is_empty() {
                warnings.push(format!("No models match pattern \"{pattern}\""));
            }
            for scoped in found {
                let same = |known: &Scoped| {
                    let (a, b) = (&known.model, &scoped.model);
                    (&a.provider, &a.id) == (&b.provider, &b.id)
                };
                if !scope.iter().any(same) {
                    scope.push(scoped);
                }
            }
        }
        (scope, warnings)
    }

    fn globbed(
        &self,
        pattern: &str,
        usable: Usable<'_>,
        warnings: &mut Vec<String>,
    ) -> Vec<Scoped> {
        let (text, thinking) = level(pattern, warnings);
        let Some(glob) = glob(text) else {
            return Vec::new();
        };
        let matches = |model: &&Arc<Model>| {
            let full = format!("{}/{}", model.provider, model.id);
            usable(&model.provider) && (glob.is_match(&full) || glob.is_match(&model.id))
        };
        let models = self.models().iter().filter(matches);
        models
            .map(|model| Scoped {
                model: Arc::clone(model),
                thinking,
            })
            .collect()
    }

    fn one(&self, pattern: &str, usable: Usable<'_>, warnings: &mut Vec<String>) -> Vec<Scoped> {
        let found = pattern::usable_only(self, pattern, usable).or_else(|| {
            let (text, _) = level(pattern, warnings);
            pattern::usable_only(self, text, usable).filter(|_| text != pattern)
        });
        let scoped = |found: Resolved| Scoped {
            model: found.model,
            thinking: found.thinking,
        };
        found.into_iter().map(scoped).collect()
    }
}

fn is_glob(pattern: &str) -> bool {
    pattern.contains(['*', '?', '['])
}

/// `pattern` and the level behind its last `:`. A word there that is no level is told, and
/// counts as none.
fn level<'a>(pattern: &'a str, warnings: &mut Vec<String>) -> (&'a str, Option<ThinkingLevel>) {
    let Some((text, word)) = pattern.rsplit_once(':') else {
        return (pattern, None);
    };
    let level = ThinkingLevel::parse(word);
    if level.is_none() {
        warnings.push(format!(
            "Invalid thinking level \"{word}\" in pattern \"{pattern}\". Using default instead."
        ));
    }
    (text, level)
}

fn glob(text: &str) -> Option<GlobMatcher> {
    let mut builder = GlobBuilder::new(text);
    let glob = builder.case_insensitive(true).literal_separator(true);
    glob.build().ok().map(|glob| glob.compile_matcher())
}
