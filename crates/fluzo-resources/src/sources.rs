//! Where resources come from: the values that a load is made of.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fluzo_exec::FileSystem;
use fluzo_stdx::lexical;
use serde::Serialize;

use crate::diagnostic::ResourceKind;

/// Everything that decides which resources there are.
#[derive(Clone)]
pub struct Sources {
    /// Reaches the files.
    pub files: Arc<dyn FileSystem>,
    /// The agent folder, absolute.
    pub agent_folder: PathBuf,
    /// Home of the user, absolute; `None` when it is not known.
    pub home: Option<PathBuf>,
    /// Working folder, absolute.
    pub cwd: PathBuf,
    /// Whether `.pi` of the working folder and `.agents/skills` of the project count.
    pub trusted: bool,
    /// What is looked for beyond what flags and `leading` name.
    pub discover: Discover,
    /// Lists of the user's settings; relative entries start at the agent folder.
    pub user: Lists,
    /// Lists of the project's settings; relative entries start at `.pi`. Empty unless trusted.
    pub project: Lists,
    /// Paths of `--skill`, `--prompt-template` and `--theme`; relative ones start at the working folder.
    pub flags: Lists,
    /// What packages of `-e` bring: before everything else.
    pub leading: Vec<PackageResources>,
    /// What installed packages bring, in order of precedence.
    pub packages: Vec<PackageResources>,
    /// How much is read.
    pub limits: Limits,
}

impl Sources {
    /// Sources with nothing but the usual places, all of which are searched; the project is not trusted.
    pub fn new(
        files: Arc<dyn FileSystem>,
        agent_folder: impl Into<PathBuf>,
        home: Option<PathBuf>,
        cwd: impl Into<PathBuf>,
    ) -> Self {
        Self {
            files,
            agent_folder: agent_folder.into(),
            home,
            cwd: cwd.into(),
            trusted: false,
            discover: Discover::default(),
            user: Lists::default(),
            project: Lists::default(),
            flags: Lists::default(),
            leading: Vec::new(),
            packages: Vec::new(),
            limits: Limits::default(),
        }
    }

    /// `.pi` of the working folder.
    pub(crate) fn project_folder(&self) -> PathBuf {
        self.cwd.join(".pi")
    }

    /// The absolute path that an entry means: `~` is the home, relative entries start at `base`.
    pub(crate) fn resolve(&self, entry: &str, base: &Path) -> PathBuf {
        let below_home = match (&self.home, entry.strip_prefix('~')) {
            (Some(home), Some("")) => Some(home.clone()),
            (Some(home), Some(rest)) => rest.strip_prefix('/').map(|rest| home.join(rest)),
            _ => None,
        };
        lexical::plain(&below_home.unwrap_or_else(|| base.join(entry)))
    }
}

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Discover {
    /// AGENTS.md and its like.
    pub context_files: bool,
    /// Skills.
    pub skills: bool,
    /// Prompt templates.
    pub prompts: bool,
    /// Themes.
    pub themes: bool,
}

impl Default for Discover {
    fn default() -> Self {
        Self {
            context_files: true,
            skills: true,
            prompts: true,
            themes: true,
        }
    }
}

impl Discover {
    pub(crate) const fn wants(self, kind: ResourceKind) -> bool {
        match kind {
            ResourceKind::Context => self.context_files,
            ResourceKind::Skill => self.skills,
            ResourceKind::Prompt => self.prompts,
            ResourceKind::Theme => self.themes,
            ResourceKind::System => true,
        }
    }
}

/// Paths and patterns for each kind, as in the lists `skills`, `prompts` and `themes` of the settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lists {
    /// Skills.
    pub skills: Vec<String>,
    /// Prompt templates.
    pub prompts: Vec<String>,
    /// Themes.
    pub themes: Vec<String>,
}

impl Lists {
    pub(crate) fn of(&self, kind: ResourceKind) -> &[String] {
        match kind {
            ResourceKind::Skill => &self.skills,
            ResourceKind::Prompt => &self.prompts,
            ResourceKind::Theme => &self.themes,
            ResourceKind::Context | ResourceKind::System => &[],
        }
    }
}

/// What one package brings after its manifest and filters: files or folders of resources, absolute. A file that leads out of
/// `folder` once its links are followed is refused when it is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageResources {
    /// The source as the settings name it, such as `npm:NAME`.
    pub source: String,
    /// Whose settings name it.
    pub scope: Scope,
    /// Root of the package.
    pub folder: PathBuf,
    /// Skills.
    pub skills: Vec<PathBuf>,
    /// Prompt templates.
    pub prompts: Vec<PathBuf>,
    /// Themes.
    pub themes: Vec<PathBuf>,
}

impl PackageResources {
    pub(crate) fn of(&self, kind: ResourceKind) -> &[PathBuf] {
        match kind {
            ResourceKind::Skill => &self.skills,
            ResourceKind::Prompt => &self.prompts,
            ResourceKind::Theme => &self.themes,
            ResourceKind::Context | ResourceKind::System => &[],
        }
    }
}

/// How much is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a context file, SYSTEM.md or APPEND_SYSTEM.md; what is beyond is cut off and told.
    pub context_bytes: u64,
    /// Bytes of a skill, template or theme; a longer one is not loaded, and told.
    pub resource_bytes: u64,
    /// Entries looked at below one folder of resources; what is beyond is not searched, and told.
    pub entries: usize,
    /// Folders within folders.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            context_bytes: 256 * 1024,
            resource_bytes: 1024 * 1024,
            entries: 20_000,
            depth: 32,
        }
    }
}

/// Whose resource it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// The user's.
    User,
    /// The project's.
    Project,
    /// Of this run.
    Temporary,
}

/// How it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// In a package.
    Package,
    /// By itself.
    TopLevel,
}

/// Where a resource comes from. Serializes as `{path, source, scope, origin, baseDir?}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceInfo {
    /// Its file.
    #[serde(serialize_with = "lossy")]
    pub path: PathBuf,
    /// `auto` when found in a usual place, `local` for an entry of the settings, `cli` for a flag, else the source of the package.
    pub source: String,
    /// Whose it is.
    pub scope: Scope,
    /// How it came.
    pub origin: Origin,
    /// What patterns about it are relative to.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "lossy_option"
    )]
    pub base_dir: Option<PathBuf>,
}

/// A path that is no UTF-8 is shown with replacements instead of failing.
fn lossy<S: serde::Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

/// As [`lossy`], of a path that may be missing.
pub(crate) fn lossy_option<S: serde::Serializer>(
    path: &Option<PathBuf>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match path {
        Some(path) => lossy(path, serializer),
        None => serializer.serialize_none(),
    }
}
