//! The throw-away copy: folders, the git repository in it, and what may not change there.

use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::fixture;
use super::programs::{ProgramError, Programs};
use super::tree::Tree;

/// The folders of one run. They vanish with it unless they are kept.
#[derive(Debug)]
pub(crate) struct Workspace {
    root: TempDir,
}

/// What git knows of the copy, as far as a repair has no business with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GitState {
    /// Branches, tags, stashes and where `HEAD` stands.
    pub references: Tree,
    /// Configuration, hooks, exclusions.
    pub settings: Tree,
    /// What the index lists; empty when it was not asked for.
    pub index: String,
}

/// Why the copy cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkspaceError {
    /// The system refused.
    #[error("the throw-away copy could not be made")]
    Io(#[from] io::Error),
    /// A program did not work.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The fixture is another one than the specification is about.
    #[error("the fixture has revision `{found}`, the test specification is for `{expected}`")]
    Revision {
        /// Of the fixture.
        found: String,
        /// Of the specification.
        expected: String,
    },
}

impl Workspace {
    /// Makes the folders below `parent`.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn create(parent: &Path) -> io::Result<Self> {
        let root = tempfile::Builder::new()
            .prefix("fluzo-demo-")
            .tempdir_in(parent)?;
        let workspace = Self { root };
        for folder in [workspace.project(), workspace.home(), workspace.agent()] {
            std::fs::create_dir_all(folder)?;
        }
        Ok(workspace)
    }

    /// Folder of everything.
    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// The copy that the agent edits.
    pub(crate) fn project(&self) -> PathBuf {
        self.root().join("project")
    }

    /// Home folder of all children.
    pub(crate) fn home(&self) -> PathBuf {
        self.root().join("home")
    }

    /// The agent's own folder, in place of the user's.
    pub(crate) fn agent(&self) -> PathBuf {
        self.root().join("agent")
    }

    /// Where the agent's builds go.
    pub(crate) fn target(&self) -> PathBuf {
        self.root().join("target")
    }

    /// Writes the fixture into the copy, makes it a git repository with one commit, and returns the fixture's revision.
    ///
    /// # Errors
    /// When the system refuses, or git does not work.
    pub(crate) async fn fill(&self, programs: &Programs) -> Result<String, WorkspaceError> {
        let project = self.project();
        fixture::write_files(&project, fixture::tree().files())?;
        let steps: [&[&str]; 3] = [
            &["init", "--quiet", "--template=", "--object-format=sha1"],
            &["add", "--all"],
            &[
                "commit",
                "--quiet",
                "--no-verify",
                "--message",
                "Room bookings",
            ],
        ];
        for step in steps {
            programs.git(&project, step).await?;
        }
        let revision = programs
            .git(&project, &["rev-parse", "HEAD^{tree}"])
            .await?;
        Ok(revision.trim().to_owned())
    }

    /// The files of the copy, git's own apart.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(crate) fn files(&self) -> io::Result<Tree> {
        Tree::read(&self.project(), &[".git"])
    }

    /// What git knows. The index is listed only when the settings are still `trusted`: git is not run on a repository
    /// whose configuration somebody else wrote.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) async fn git_state(
        &self,
        programs: &Programs,
        trusted: Option<&GitState>,
    ) -> Result<GitState, WorkspaceError> {
        let git = self.project().join(".git");
        let all = Tree::read(&git, &["objects", "logs", "index"])?;
        let mut state = GitState {
            references: all.part(is_reference),
            settings: all.part(is_setting),
            index: String::new(),
        };
        if trusted.is_none_or(|trusted| trusted.settings == state.settings) {
            state.index = programs
                .git(&self.project(), &["ls-files", "--stage", "--full-name"])
                .await?;
        }
        Ok(state)
    }

    /// Lets the folders stay, and says where they are.
    pub(crate) fn keep(self) -> PathBuf {
        self.root.keep()
    }
}

fn is_reference(path: &str) -> bool {
    path == "HEAD" || path == "packed-refs" || path.starts_with("refs/")
}

/// Everything that is not a passing trace of a harmless command.
fn is_setting(path: &str) -> bool {
    let trace = [
        "COMMIT_EDITMSG",
        "ORIG_HEAD",
        "FETCH_HEAD",
        "index.lock",
        "gc.pid",
    ];
    !is_reference(path) && !trace.contains(&path)
}
