//! The workspace as `cargo metadata` describes it.

use crate::{Error, repo::Repo};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A crate of the workspace.
#[derive(Debug, Clone, Deserialize)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its licence expression, if it declares one.
    pub license: Option<String>,
    /// Its declared dependencies of every kind.
    pub dependencies: Vec<Dependency>,
    /// What it builds.
    #[serde(default)]
    pub targets: Vec<Target>,
    /// Its manifest.
    pub manifest_path: PathBuf,
}

/// One declared dependency.
#[derive(Debug, Clone, Deserialize)]
pub struct Dependency {
    /// The crate, whatever it is renamed to.
    pub name: String,
    /// `None` for a normal one, else `dev` or `build`.
    pub kind: Option<String>,
    /// The features that the declaration asks for.
    #[serde(default)]
    pub features: Vec<String>,
    /// Whether the default features are on.
    #[serde(default)]
    pub uses_default_features: bool,
}

/// A library, program or test of a crate.
#[derive(Debug, Clone, Deserialize)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// `lib`, `bin`, `test`, `bench`, `example`, `custom-build`, …
    pub kind: Vec<String>,
    /// Its root file.
    pub src_path: PathBuf,
}

impl Dependency {
    /// Whether it is for tests, examples and benchmarks only.
    pub fn is_dev(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }
}

impl Package {
    /// Its folder.
    pub fn folder(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(&self.manifest_path)
    }
}

/// The crates of the workspace at `repo`, from declarations alone: nothing is resolved or fetched.
///
/// # Errors
/// When cargo cannot be run, fails, or prints something else than its documented format.
pub fn packages(repo: &Repo) -> Result<Vec<Package>, Error> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
            "--offline",
        ])
        .current_dir(repo.root())
        .output()
        .map_err(|e| Error::Metadata(e.to_string()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Error::Metadata(said));
    }
    parse(&output.stdout)
}

/// Reads the JSON text that `cargo metadata` prints.
///
/// # Errors
/// When it is something else.
pub fn parse(json: &[u8]) -> Result<Vec<Package>, Error> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    let metadata: Metadata =
        serde_json::from_slice(json).map_err(|e| Error::Metadata(e.to_string()))?;
    Ok(metadata.packages)
}
