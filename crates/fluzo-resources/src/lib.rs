//! Context files, skills, prompt templates and themes: what users put into folders to shape the agent.
//!
//! Everything is given as values ([`Sources`]) and every file is reached through a [`FileSystem`](fluzo_exec::FileSystem): the
//! crate reads no environment, home or working folder. Nothing here fails as a whole: what cannot be used is left out and told
//! as a [`Diagnostic`].

mod context_files;
mod diagnostic;
mod frontmatter;
mod gather;
pub mod packages;
mod pattern;
mod prompt_files;
mod reading;
mod resources;
mod skill_block;
mod skills;
mod sources;
mod substitution;
mod templates;
pub mod themes;
mod walk;

pub use context_files::{ContextFile, project_context};
pub use diagnostic::{Collision, Diagnostic, DiagnosticKind, ResourceKind};
pub use frontmatter::{Frontmatter, FrontmatterError};
pub use pattern::{Patterns, is_override, is_pattern};
pub use prompt_files::PromptFile;
pub use resources::{Resources, SkillError};
pub use skill_block::SkillBlock;
pub use skills::{Skill, available_skills};
pub use sources::{Discover, Limits, Lists, Origin, PackageResources, Scope, SourceInfo, Sources};
pub use substitution::{split_arguments, substitute};
pub use templates::PromptTemplate;
pub use themes::Theme;
pub use walk::resource_files;
