//! Skills: instructions that a model reads when a task asks for them.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::diagnostic::{Diagnostic, ResourceKind};
use crate::frontmatter::Frontmatter;
use crate::gather::gather;
use crate::reading::read_whole;
use crate::sources::{SourceInfo, Sources};

/// Longest name, in UTF-16 units.
const NAME_LIMIT: usize = 64;
/// Longest description, in UTF-16 units.
const DESCRIPTION_LIMIT: usize = 1024;

/// A skill as it is offered; its text stays in its file until it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// Its name, also after `/skill:`.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Its file, absolute.
    pub path: PathBuf,
    /// Whether only people invoke it: it is not shown to the model.
    pub disable_model_invocation: bool,
    /// Where it comes from.
    pub source: SourceInfo,
}

impl Skill {
    /// The folder that references in its text are relative to.
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }
}

/// Loads skills in order of precedence: the first of a name counts.
pub(crate) fn load(sources: &Sources, diagnostics: &mut Vec<Diagnostic>) -> Vec<Skill> {
    let mut skills: Vec<Skill> = Vec::new();
    let mut by_name: HashMap<String, usize> = HashMap::new();
    let mut seen = HashSet::new();
    for source in gather(ResourceKind::Skill, sources, diagnostics) {
        if !is_new(sources, &source.path, &mut seen) {
            continue;
        }
        let Some(skill) = read(sources, source, diagnostics) else {
            continue;
        };
        if let Some(winner) = by_name.get(&skill.name).and_then(|at| skills.get(*at)) {
            diagnostics.push(Diagnostic::collision(
                ResourceKind::Skill,
                &skill.name,
                &skill.name,
                &winner.path.to_string_lossy(),
                &skill.path,
            ));
        } else {
            by_name.insert(skill.name.clone(), skills.len());
            skills.push(skill);
        }
    }
    skills
}

/// Whether this is the first path that leads to its file.
pub(crate) fn is_new(sources: &Sources, path: &Path, seen: &mut HashSet<PathBuf>) -> bool {
    let real = sources.files.canonicalize(path);
    seen.insert(real.unwrap_or_else(|_| path.to_path_buf()))
}

fn read(sources: &Sources, source: SourceInfo, diagnostics: &mut Vec<Diagnostic>) -> Option<Skill> {
    let path = source.path.clone();
    let mut warn = |text: String| {
        diagnostics.push(Diagnostic::warning(ResourceKind::Skill, &path, text));
    };
    let text = read_whole(&*sources.files, &path, sources.limits.resource_bytes);
    let parsed = text
        .map_err(|error| format!("the skill is not loaded: {error}"))
        .and_then(|text| Frontmatter::parse(&text).map_err(|error| error.to_string()));
    let front = match parsed {
        Ok(front) => front,
        Err(text) => {
            warn(text);
            return None;
        }
    };
    let description = front.text("description").map(str::to_owned);
    match &description {
        None => warn("description is required".to_owned()),
        Some(text) => {
            let length = text.encode_utf16().count();
            if length > DESCRIPTION_LIMIT {
                warn(format!(
                    "description exceeds {DESCRIPTION_LIMIT} characters ({length})"
                ));
            }
        }
    }
    let name = match front.text("name") {
        Some(name) => name.to_owned(),
        None => folder_name(&path),
    };
    name_problems(&name).into_iter().for_each(&mut warn);
    Some(Skill {
        name,
        description: description?,
        disable_model_invocation: front.is_true("disable-model-invocation"),
        path,
        source,
    })
}

fn folder_name(path: &Path) -> String {
    let folder = path.parent().and_then(Path::file_name);
    folder
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

fn name_problems(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let length = name.encode_utf16().count();
    if length > NAME_LIMIT {
        problems.push(format!("name exceeds {NAME_LIMIT} characters ({length})"));
    }
    let valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || !name.chars().all(valid) {
        problems.push(
            "name contains invalid characters (must be lowercase a-z, 0-9, hyphens only)"
                .to_owned(),
        );
    }
    if name.starts_with('-') || name.ends_with('-') {
        problems.push("name must not start or end with a hyphen".to_owned());
    }
    if name.contains("--") {
        problems.push("name must not contain consecutive hyphens".to_owned());
    }
    problems
}

const INTRO: &str = "Some tasks have instructions of their own, called skills; those on offer are listed below.\nWhen a task fits a description, read the file at its location with the read tool before you begin.\nPaths that a skill names are relative to the folder of its file; use their absolute form in commands.";

/// The block of the system prompt that offers `skills` to the model; empty when there is none to offer.
pub fn available_skills(skills: &[Skill]) -> String {
    let mut offered = skills
        .iter()
        .filter(|skill| !skill.disable_model_invocation)
        .peekable();
    if offered.peek().is_none() {
        return String::new();
    }
    let mut block = format!("\n\n{INTRO}\n\n<available_skills>\n");
    for skill in offered {
        // Writing to a string cannot fail.
        let _ = write!(
            block,
            "  <skill>\n    <name>{}</name>\n    <description>{}</description>\n    <location>{}</location>\n  </skill>\n",
            escaped(&skill.name),
            escaped(&skill.description),
            escaped(&skill.path.to_string_lossy())
        );
    }
    block.push_str("</available_skills>");
    block
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let check = |name: &str, expected: &[&str]| {
            assert_eq!(name_problems(name), expected, "{name}");
        };
        const INVALID: &str =
            "name contains invalid characters (must be lowercase a-z, 0-9, hyphens only)";
        const EDGE: &str = "name must not start or end with a hyphen";
        const DOUBLE: &str = "name must not contain consecutive hyphens";
        check("pdf-2", &[]);
        check("Bad_Name", &[INVALID]);
        check("über", &[INVALID]);
        check("", &[INVALID]);
        check("-a", &[EDGE]);
        check("a-", &[EDGE]);
        check("a--b", &[DOUBLE]);
        check("-A--", &[INVALID, EDGE, DOUBLE]);
        check(&"a".repeat(64), &[]);
        check(&"a".repeat(65), &["name exceeds 64 characters (65)"]);
    }
}
