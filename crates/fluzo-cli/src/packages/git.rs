//! Packages from git repositories.

use std::path::{Path, PathBuf};

use fluzo_resources::packages::GitSource;

use super::install::InstallError;
use super::programs::Programs;
use super::staging::Staging;

/// Clones the repository into `staging` and goes to the commit that `source` means.
pub(super) async fn clone(
    programs: &Programs,
    staging: &Staging,
    source: &GitSource,
) -> Result<PathBuf, InstallError> {
    let work = staging.work("clone")?;
    let folder = work.join("package");
    let target = folder.to_string_lossy();
    let arguments = [
        "clone",
        "--quiet",
        "--no-checkout",
        "--no-recurse-submodules",
        "--template=",
        "--",
        &source.url,
        &target,
    ];
    programs.git(&work, &arguments).await?;
    let commit = commit(programs, &folder, source.reference.as_deref()).await?;
    let checkout = ["checkout", "--quiet", "--detach", &commit];
    programs.git(&folder, &checkout).await?;
    Ok(folder)
}

async fn commit(
    programs: &Programs,
    clone: &Path,
    reference: Option<&str>,
) -> Result<String, InstallError> {
    let names = match reference {
        None => vec!["HEAD".to_owned()],
        Some(name) => vec![
            format!("refs/remotes/origin/{name}"),
            format!("refs/tags/{name}"),
            name.to_owned(),
        ],
    };
    for name in names {
        let name = format!("{name}^{{commit}}");
        let arguments = [
            "rev-parse",
            "--verify",
            "--quiet",
            "--end-of-options",
            &name,
        ];
        let output = programs.git(clone, &arguments).await;
        if let Some(commit) = output.ok().as_deref().and_then(commit_in) {
            return Ok(commit.to_owned());
        }
    }
    Err(match reference {
        Some(name) => InstallError::NoReference(name.to_owned()),
        None => InstallError::NoCommit,
    })
}

/// Whether the server has another commit than the package in `place`; true when either is not
/// known.
pub(super) async fn is_behind(
    programs: &Programs,
    staging: &Staging,
    source: &GitSource,
    place: &Path,
) -> Result<bool, InstallError> {
    let Some(own) = head(place) else {
        return Ok(true);
    };
    let reference = source.reference.as_deref();
    if reference.is_some_and(|name| is_commit(name) && own.starts_with(name)) {
        return Ok(false);
    }
    let patterns = match reference {
        None => vec!["HEAD".to_owned()],
        Some(name) => vec![
            format!("refs/heads/{name}"),
            // What an annotated tag leads to.
            format!("refs/tags/{name}^{{}}"),
            format!("refs/tags/{name}"),
        ],
    };
    let work = staging.work("ask")?;
    let mut arguments = vec!["ls-remote", "--quiet", "--", &source.url];
    arguments.extend(patterns.iter().map(String::as_str));
    let output = programs.git(&work, &arguments).await?;
    let rows: Vec<_> = output
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .collect();
    let named = |pattern: &String| rows.iter().find(|(_, name)| name == pattern);
    let theirs = patterns.iter().find_map(named);
    Ok(theirs.is_none_or(|(commit, _)| *commit != own))
}

/// The commit of a clone that is at no branch, as ours are. git is not run there, since the
/// configuration of a folder may name programs.
fn head(place: &Path) -> Option<String> {
    let file = place.join(".git").join("HEAD");
    let meta = std::fs::metadata(&file).ok()?;
    if !meta.is_file() || meta.len() > 1024 {
        return None;
    }
    let text = std::fs::read_to_string(file).ok()?;
    commit_in(&text).map(str::to_owned)
}

fn commit_in(output: &str) -> Option<&str> {
    let mut lines = output.lines().map(str::trim);
    lines.find(|line| is_commit(line) && (line.len() == 40 || line.len() == 64))
}

fn is_commit(text: &str) -> bool {
    let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    text.len() >= 7 && text.chars().all(is_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_stands_alone_on_its_line() {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(commit_in(&format!("warning: x\n{commit}\n")), Some(commit));
        assert_eq!(commit_in("ref: refs/heads/main\n"), None);
        assert!(is_commit("0123abc") && !is_commit("main") && !is_commit("0123ab"));
    }
}
