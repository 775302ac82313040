//! Putting packages into their place and taking them away.

use std::io;
use std::path::{Path, PathBuf};

use fluzo_resources::Scope;
use fluzo_resources::packages::PackageSource;
use thiserror::Error;

use super::owned::Owned;
use super::programs::{ProgramError, Programs};
use super::staging::{Staging, link_between};
use super::{git, npm};

/// Why a package was not installed, updated or removed.
#[derive(Debug, Error)]
pub(super) enum InstallError {
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("Path does not exist: {}", .0.display())]
    NoPath(PathBuf),
    #[error("the repository has no branch, tag or commit `{0}`")]
    NoReference(String),
    #[error("the repository has no commit")]
    NoCommit,
    #[error("npm did not install `{0}`")]
    NotInstalled(String),
    #[error("npm put other packages beside the package; npm 9 or newer keeps them inside")]
    Beside,
    #[error("`{}` is a link; packages of a project are installed below its own `.pi` only: remove it", .0.display())]
    Link(PathBuf),
}

/// What the user allows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Consent {
    /// Install scripts run.
    pub(super) scripts: bool,
    /// What is up to date is fetched again.
    pub(super) again: bool,
}

/// What an installation came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Installed {
    /// Packages whose install scripts did not run.
    pub(super) unrun: Vec<String>,
}

/// Fetches a package and puts it into its place; a local one must be there. Dropping the future
/// leaves the place as it was.
pub(super) async fn install(
    programs: &Programs,
    owned: &Owned,
    source: &PackageSource,
    consent: Consent,
) -> Result<Installed, InstallError> {
    let place = source.place(&owned.base());
    let Some(root) = root(owned, source) else {
        return if place.exists() {
            Ok(Installed::default())
        } else {
            Err(InstallError::NoPath(place))
        };
    };
    check_way(owned, &place)?;
    let staging = Staging::new(&root)?;
    fetch(programs, &staging, source, &place, consent).await
}

async fn fetch(
    programs: &Programs,
    staging: &Staging,
    source: &PackageSource,
    place: &Path,
    consent: Consent,
) -> Result<Installed, InstallError> {
    let folder = match source {
        PackageSource::Npm { name, version } => {
            npm::install(programs, staging, name, version.as_deref(), consent.scripts).await?
        }
        PackageSource::Git(source) => {
            let folder = git::clone(programs, staging, source).await?;
            npm::install_needs(programs, staging, &folder, consent.scripts).await?;
            folder
        }
        PackageSource::Local(_) => return Ok(Installed::default()),
    };
    let unrun = if consent.scripts {
        Vec::new()
    } else {
        npm::with_scripts(&folder)
    };
    staging.put(&folder, place)?;
    Ok(Installed { unrun })
}

/// Fetches a package again if its server has another state of it, or if it is missing. `None`
/// when nothing was to be done.
pub(super) async fn update(
    programs: &Programs,
    owned: &Owned,
    source: &PackageSource,
    consent: Consent,
) -> Result<Option<Installed>, InstallError> {
    let Some(root) = root(owned, source) else {
        return Ok(None);
    };
    let place = source.place(&owned.base());
    check_way(owned, &place)?;
    let staging = Staging::new(&root)?;
    if place.exists() && !consent.again && !is_behind(programs, &staging, source, &place).await? {
        return Ok(None);
    }
    let installed = fetch(programs, &staging, source, &place, consent).await?;
    Ok(Some(installed))
}

async fn is_behind(
    programs: &Programs,
    staging: &Staging,
    source: &PackageSource,
    place: &Path,
) -> Result<bool, InstallError> {
    match source {
        PackageSource::Npm { .. } if source.is_pinned() => Ok(false),
        PackageSource::Npm { name, .. } => npm::is_behind(programs, staging, name, place).await,
        PackageSource::Git(source) => git::is_behind(programs, staging, source, place).await,
        PackageSource::Local(_) => Ok(false),
    }
}

/// Removes an installed package; a local one stays where it is.
pub(super) fn remove(owned: &Owned, source: &PackageSource) -> Result<(), InstallError> {
    let place = source.place(&owned.base());
    if let Some(root) = root(owned, source)
        && root.is_dir()
    {
        check_way(owned, &place)?;
        Staging::new(&root)?.remove(&place)?;
    }
    Ok(())
}

/// The folder of installed packages of one kind; none for local ones.
fn root(owned: &Owned, source: &PackageSource) -> Option<PathBuf> {
    match source {
        PackageSource::Npm { .. } => Some(owned.base().npm()),
        PackageSource::Git(_) => Some(owned.base().git()),
        PackageSource::Local(_) => None,
    }
}

/// A project may hold links that lead anywhere; the user's own folder may be a link because the
/// user made it one.
fn check_way(owned: &Owned, place: &Path) -> Result<(), InstallError> {
    match owned.scope {
        Scope::User | Scope::Temporary => Ok(()),
        Scope::Project => {
            link_between(&owned.folder, place).map_or(Ok(()), |link| Err(InstallError::Link(link)))
        }
    }
}
