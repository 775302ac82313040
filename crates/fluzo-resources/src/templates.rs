//! Prompt templates: messages that users keep under a name and call as `/name`.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use crate::diagnostic::{Diagnostic, ResourceKind};
use crate::frontmatter::Frontmatter;
use crate::gather::gather;
use crate::reading::read_whole;
use crate::skills::is_new;
use crate::sources::{SourceInfo, Sources};
use crate::substitution::{split_arguments, substitute};

/// Longest description taken from the text, in characters.
const DESCRIPTION_LIMIT: usize = 60;

/// A template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptTemplate {
    /// The name after `/`.
    pub name: String,
    /// What it is for; the beginning of its text when nothing says so.
    pub description: String,
    /// What arguments it takes, for people.
    pub argument_hint: Option<String>,
    /// Its text, with places for arguments.
    pub content: String,
    /// Its file, absolute.
    pub path: PathBuf,
    /// Where it comes from.
    pub source: SourceInfo,
}

/// Loads templates in order of precedence: the first of a name counts.
pub(crate) fn load(sources: &Sources, diagnostics: &mut Vec<Diagnostic>) -> Vec<PromptTemplate> {
    let mut templates: Vec<PromptTemplate> = Vec::new();
    let mut by_name: HashMap<String, usize> = HashMap::new();
    let mut seen = HashSet::new();
    for source in gather(ResourceKind::Prompt, sources, diagnostics) {
        if !is_new(sources, &source.path, &mut seen) {
            continue;
        }
        let path = source.path.clone();
        let template = match read(sources, source) {
            Ok(template) => template,
            Err(text) => {
                diagnostics.push(Diagnostic::warning(ResourceKind::Prompt, &path, text));
                continue;
            }
        };
        if let Some(winner) = by_name
            .get(&template.name)
            .and_then(|at| templates.get(*at))
        {
            diagnostics.push(Diagnostic::collision(
                ResourceKind::Prompt,
                &template.name,
                &format!("/{}", template.name),
                &winner.path.to_string_lossy(),
                &template.path,
            ));
        } else {
            by_name.insert(template.name.clone(), templates.len());
            templates.push(template);
        }
    }
    templates
}

fn read(sources: &Sources, source: SourceInfo) -> Result<PromptTemplate, String> {
    let text = read_whole(&*sources.files, &source.path, sources.limits.resource_bytes)
        .map_err(|error| format!("the prompt template is not loaded: {error}"))?;
    let front = Frontmatter::parse(&text).map_err(|error| error.to_string())?;
    let described = front.text("description").map(str::to_owned);
    Ok(PromptTemplate {
        name: name(&source.path),
        description: described.unwrap_or_else(|| beginning(front.body())),
        argument_hint: front.text("argument-hint").map(str::to_owned),
        content: front.body().to_owned(),
        path: source.path.clone(),
        source,
    })
}

fn name(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

/// The first line that says something, cut.
fn beginning(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty());
    let line = line.unwrap_or_default();
    match line.char_indices().nth(DESCRIPTION_LIMIT) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line.to_owned(),
    }
}

/// The message that `text` becomes when it calls one of `templates`; `None` when it calls none.
pub(crate) fn expand(templates: &[PromptTemplate], text: &str) -> Option<String> {
    let rest = text.strip_prefix('/')?;
    let (name, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let template = templates.iter().find(|template| template.name == name)?;
    Some(substitute(&template.content, &split_arguments(arguments)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_from_the_text() {
        let check = |text: &str, expected: &str| assert_eq!(beginning(text), expected);
        check("", "");
        check("\n  \nfirst\nsecond", "first");
        check(&"é".repeat(60), &"é".repeat(60));
        check(&"é".repeat(61), &format!("{}...", "é".repeat(60)));
    }
}
