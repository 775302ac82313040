//! What is wrong with a resource, for people and front ends.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::sources::lossy_option;

/// What kind of resource something is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ResourceKind {
    /// A file of project instructions, such as AGENTS.md.
    Context,
    /// A skill.
    Skill,
    /// A prompt template.
    Prompt,
    /// A theme.
    Theme,
    /// SYSTEM.md or APPEND_SYSTEM.md.
    System,
}

impl ResourceKind {
    /// What files of this kind end in, with the name of that form; `None` where names are fixed.
    pub(crate) const fn form(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Skill | Self::Prompt => Some(("md", "markdown")),
            Self::Theme => Some(("json", "json")),
            Self::Context | Self::System => None,
        }
    }

    /// How diagnostics call it.
    pub(crate) const fn noun(self) -> &'static str {
        match self {
            Self::Context => "context file",
            Self::Skill => "skill",
            Self::Prompt => "prompt template",
            Self::Theme => "theme",
            Self::System => "system prompt file",
        }
    }

    /// Title under which diagnostics of this kind are shown together.
    pub const fn heading(self) -> &'static str {
        match self {
            Self::Context | Self::System => "Context issues",
            Self::Skill => "Skill conflicts",
            Self::Prompt => "Prompt conflicts",
            Self::Theme => "Theme conflicts",
        }
    }
}

/// How grave a diagnostic is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DiagnosticKind {
    /// Something is left out or in doubt.
    Warning,
    /// Something that was asked for by name cannot be used.
    Error,
    /// Two resources have one name.
    Collision,
}

/// Which of two resources of one name counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Collision {
    /// What both are.
    pub resource_type: ResourceKind,
    /// The name they share.
    pub name: String,
    /// The one that counts: its path, or the name of a built-in.
    pub winner_path: String,
    /// The one that does not.
    pub loser_path: String,
}

/// One thing that is wrong. Serializes in the form `{type, message, path, collision?}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// How grave it is.
    #[serde(rename = "type")]
    pub kind: DiagnosticKind,
    /// What kind of resource it is about.
    #[serde(skip)]
    pub resource: ResourceKind,
    /// What is wrong, without the path unless the text is a sentence of its own.
    pub message: String,
    /// Where.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "lossy_option"
    )]
    pub path: Option<PathBuf>,
    /// Which of two counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision: Option<Collision>,
}

impl Diagnostic {
    /// A warning about the file or folder at `path`.
    pub fn warning(resource: ResourceKind, path: &Path, message: impl Into<String>) -> Self {
        Self {
            kind: DiagnosticKind::Warning,
            resource,
            message: message.into(),
            path: Some(path.to_path_buf()),
            collision: None,
        }
    }

    /// Two resources called `name`; `shown` is the name as users write it.
    pub(crate) fn collision(
        resource: ResourceKind,
        name: &str,
        shown: &str,
        winner: &str,
        loser: &Path,
    ) -> Self {
        Self {
            kind: DiagnosticKind::Collision,
            resource,
            message: format!("name \"{shown}\" collision"),
            path: Some(loser.to_path_buf()),
            collision: Some(Collision {
                resource_type: resource,
                name: name.to_owned(),
                winner_path: winner.to_owned(),
                loser_path: loser.to_string_lossy().into_owned(),
            }),
        }
    }
}

/// One line for a terminal: the message, and the paths that it does not name itself.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(collision) = &self.collision {
            return write!(
                f,
                ": {} is used, {} is not",
                collision.winner_path, collision.loser_path
            );
        }
        match &self.path {
            Some(path) if !self.message.contains(&*path.to_string_lossy()) => {
                write!(f, ": {}", path.display())
            }
            _ => Ok(()),
        }
    }
}
