//! Packages from npm, and what packages from git need of it.
//!
//! Scripts run only with the user's consent. Each package is installed in an empty folder with
//! what it needs inside of its own, so that it takes its place as a whole and no configuration
//! file but the user's own counts.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::install::InstallError;
use super::programs::Programs;
use super::staging::Staging;

/// Scripts that npm runs when it installs.
const SCRIPTS: [&str; 3] = ["preinstall", "install", "postinstall"];
/// Most packages that are looked at for scripts.
const MOST_PACKAGES: usize = 10_000;
/// Longer ones are not read.
const LARGEST: u64 = 4 << 20;
/// Neither ask for what nobody asked, nor install what the host brings.
const QUIET: [&str; 6] = [
    "--no-audit",
    "--no-fund",
    "--no-update-notifier",
    "--loglevel=error",
    "--legacy-peer-deps",
    "--omit=dev",
];

fn scripts_option(allowed: bool) -> &'static [&'static str] {
    if allowed {
        // Newer versions of npm ask for a second yes.
        &["--ignore-scripts=false", "--dangerously-allow-all-scripts"]
    } else {
        &["--ignore-scripts"]
    }
}

/// Installs `name` in `staging` and returns its folder.
pub(super) async fn install(
    programs: &Programs,
    staging: &Staging,
    name: &str,
    version: Option<&str>,
    allow_scripts: bool,
) -> Result<PathBuf, InstallError> {
    let work = staging.work("npm")?;
    let spec = match version {
        Some(version) => format!("{name}@{version}"),
        None => name.to_owned(),
    };
    let prefix = work.to_string_lossy();
    let mut arguments = vec!["install", spec.as_str(), "--prefix", &prefix];
    arguments.extend(["--install-strategy=nested", "--no-package-lock"]);
    arguments.extend(scripts_option(allow_scripts));
    arguments.extend(QUIET);
    programs.npm(&work, &arguments).await?;
    let modules = work.join("node_modules");
    let folder = modules.join(name);
    let is_folder = fs::symlink_metadata(&folder).is_ok_and(|meta| meta.is_dir());
    if !is_folder || !folder.join("package.json").is_file() {
        return Err(InstallError::NotInstalled(name.to_owned()));
    }
    if others(&modules, name) {
        return Err(InstallError::Beside);
    }
    Ok(folder)
}

/// Whether npm put anything beside the package.
fn others(modules: &Path, name: &str) -> bool {
    let top = name.split('/').next().unwrap_or(name);
    let beside = |folder: &Path, own: &str| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.any(|name| name != own && !name.starts_with('.'))
    };
    let scoped = name.split_once('/');
    beside(modules, top) || scoped.is_some_and(|(scope, own)| beside(&modules.join(scope), own))
}

/// Installs what the package in `folder`, a clone in `staging`, needs.
pub(super) async fn install_needs(
    programs: &Programs,
    staging: &Staging,
    folder: &Path,
    allow_scripts: bool,
) -> Result<(), InstallError> {
    let needs = json(&folder.join("package.json")).is_some_and(|package| {
        has_needs(&package) || allow_scripts && has_scripts(folder, &package)
    });
    if !needs {
        return Ok(());
    }
    // Such a file may send what is in the environment to a server of its own.
    let own = folder.join(".npmrc");
    let aside = staging.work("aside")?.join("npmrc");
    let is_aside = fs::rename(&own, &aside).is_ok();
    let prefix = folder.to_string_lossy();
    let mut arguments = vec!["install", "--prefix", &prefix];
    arguments.extend(scripts_option(allow_scripts));
    arguments.extend(QUIET);
    programs.npm(folder, &arguments).await?;
    if is_aside {
        fs::rename(&aside, &own)?;
    }
    Ok(())
}

/// Whether the registry has another version than the package in `place`.
pub(super) async fn is_behind(
    programs: &Programs,
    staging: &Staging,
    name: &str,
    place: &Path,
) -> Result<bool, InstallError> {
    let own = json(&place.join("package.json")).and_then(|package| text(&package, "version"));
    let work = staging.work("ask")?;
    let prefix = work.to_string_lossy();
    let mut arguments = vec!["view", name, "version", "--json", "--prefix", &prefix];
    arguments.extend(["--no-update-notifier", "--loglevel=error"]);
    let output = programs.npm(&work, &arguments).await?;
    let mut lines = output.lines().rev();
    let newest = lines.find_map(|line| serde_json::from_str::<String>(line.trim()).ok());
    Ok(newest.is_none() || newest != own)
}

/// Names of the packages in and below `folder` that have install scripts.
pub(super) fn with_scripts(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    let mut left = MOST_PACKAGES;
    while let Some(folder) = folders.pop() {
        if left == 0 {
            break;
        }
        left -= 1;
        if let Some(package) = json(&folder.join("package.json"))
            && has_scripts(&folder, &package)
        {
            let name = text(&package, "name");
            found.push(name.unwrap_or_else(|| folder.display().to_string()));
        }
        folders.extend(below(&folder.join("node_modules")));
    }
    found.sort();
    found.dedup();
    found
}

/// Folders of packages in a folder `node_modules`.
fn below(modules: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(modules).into_iter().flatten().flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !is_folder || name.starts_with('.') {
            continue;
        }
        if name.starts_with('@') {
            found.extend(below(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found
}

fn has_needs(package: &Value) -> bool {
    ["dependencies", "optionalDependencies"]
        .into_iter()
        .filter_map(|key| package.get(key)?.as_object())
        .any(|needs| !needs.is_empty())
}

/// A `binding.gyp` is an install script as well.
fn has_scripts(folder: &Path, package: &Value) -> bool {
    let scripts = package.get("scripts");
    let has = |name: &str| scripts.is_some_and(|scripts| scripts.get(name).is_some());
    SCRIPTS.into_iter().any(has) || folder.join("binding.gyp").is_file()
}

fn text(package: &Value, key: &str) -> Option<String> {
    package.get(key)?.as_str().map(str::to_owned)
}

fn json(file: &Path) -> Option<Value> {
    let meta = fs::metadata(file).ok()?;
    if !meta.is_file() || meta.len() > LARGEST {
        return None;
    }
    serde_json::from_slice(&fs::read(file).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str, text: &str) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn scripts_are_found_however_deep() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path();
        write(
            folder,
            "package.json",
            r#"{"name": "top", "scripts": {"test": "x"}}"#,
        );
        assert!(with_scripts(folder).is_empty());
        write(
            folder,
            "node_modules/a/package.json",
            r#"{"name": "a", "scripts": {"postinstall": "x"}}"#,
        );
        write(
            folder,
            "node_modules/a/node_modules/@s/b/package.json",
            r#"{"name": "@s/b"}"#,
        );
        write(folder, "node_modules/a/node_modules/@s/b/binding.gyp", "{}");
        write(
            folder,
            "node_modules/.bin/package.json",
            r#"{"scripts": {"install": "x"}}"#,
        );
        assert_eq!(with_scripts(folder), ["@s/b", "a"]);
    }

    #[test]
    fn what_lies_beside_a_package_is_seen() {
        let place = tempfile::tempdir().unwrap();
        let modules = place.path();
        write(modules, "@s/a/package.json", "{}");
        write(modules, ".package-lock.json", "{}");
        assert!(!others(modules, "@s/a") && others(modules, "b"));
        write(modules, "@s/c/package.json", "{}");
        assert!(others(modules, "@s/a"));
    }
}
