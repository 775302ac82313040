//! All resources of a session, loaded at once and loaded again on demand.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use fluzo_exec::FileSystem;

use crate::context_files::{self, ContextFile};
use crate::diagnostic::Diagnostic;
use crate::frontmatter::Frontmatter;
use crate::prompt_files::{self, PromptFile};
use crate::reading::read_whole;
use crate::skill_block;
use crate::skills::{self, Skill};
use crate::sources::Sources;
use crate::templates::{self, PromptTemplate};
use crate::themes::{self, Theme};

/// What the folders of user and project hold.
#[derive(Clone)]
pub struct Resources {
    /// Context files in the order of the system prompt.
    pub context_files: Vec<ContextFile>,
    /// Skills in order of precedence; names are unique.
    pub skills: Vec<Skill>,
    /// Prompt templates in order of precedence; names are unique.
    pub templates: Vec<PromptTemplate>,
    /// Themes, the built-in ones first; names are unique.
    pub themes: Vec<Theme>,
    /// SYSTEM.md, in the place of the default system prompt.
    pub system: Option<PromptFile>,
    /// APPEND_SYSTEM.md, put after the system prompt.
    pub append: Option<PromptFile>,
    /// What is wrong.
    pub diagnostics: Vec<Diagnostic>,
    files: Arc<dyn FileSystem>,
    limit: u64,
}

/// A skill that was invoked and cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("skill `{name}` could not be read from `{}`: {reason}", path.display())]
pub struct SkillError {
    /// Its name.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    /// Why.
    pub reason: String,
}

impl Resources {
    /// Loads everything that `sources` lead to. Blocks while it reads; what cannot be used is a diagnostic. The same files give the
    /// same resources in the same order.
    pub fn load(sources: &Sources) -> Self {
        let mut diagnostics = Vec::new();
        Self {
            context_files: context_files::load(sources, &mut diagnostics),
            skills: skills::load(sources, &mut diagnostics),
            templates: templates::load(sources, &mut diagnostics),
            themes: themes::load(sources, &mut diagnostics),
            system: prompt_files::load(prompt_files::SYSTEM, sources, &mut diagnostics),
            append: prompt_files::load(prompt_files::APPEND, sources, &mut diagnostics),
            diagnostics,
            files: Arc::clone(&sources.files),
            limit: sources.limits.resource_bytes,
        }
    }

    /// The message that `/skill:NAME ARGUMENTS` becomes; `None` when `text` invokes no skill that there is. Reads the file of the
    /// skill, so it blocks.
    ///
    /// # Errors
    /// When the skill cannot be read any more.
    pub fn expand_skill(&self, text: &str) -> Result<Option<String>, SkillError> {
        let Some((name, arguments)) = skill_block::invoked(text) else {
            return Ok(None);
        };
        let Some(skill) = self.skills.iter().find(|skill| skill.name == name) else {
            return Ok(None);
        };
        let read = read_whole(&*self.files, &skill.path, self.limit);
        let front = read.and_then(|text| Frontmatter::parse(&text).map_err(|e| e.to_string()));
        match front {
            Ok(front) => Ok(Some(skill_block::block(skill, front.body(), arguments))),
            Err(reason) => Err(SkillError {
                name: skill.name.clone(),
                path: skill.path.clone(),
                reason,
            }),
        }
    }

    /// The message that `/name arguments` becomes; `None` when `text` calls no template that there is.
    pub fn expand_template(&self, text: &str) -> Option<String> {
        templates::expand(&self.templates, text)
    }

    /// The theme of that name.
    pub fn theme(&self, name: &str) -> Option<&Theme> {
        self.themes.iter().find(|theme| theme.name == name)
    }
}

impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resources")
            .field("context_files", &self.context_files)
            .field("skills", &self.skills)
            .field("templates", &self.templates)
            .field("themes", &self.themes)
            .field("system", &self.system)
            .field("append", &self.append)
            .field("diagnostics", &self.diagnostics)
            .finish_non_exhaustive()
    }
}
