//! What the packages in the settings bring, all of them together.

use std::path::PathBuf;

use fluzo_exec::FileSystem;
use serde_json::Value;

use super::contents::{ContentProblem, contents};
use super::entry::{PackageEntry, configured, read_entries};
use super::manifest::PackagePart;
use super::source::{Base, PackageSource};
use crate::sources::{PackageResources, Scope};

/// What packages bring, and what is wrong with them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Brought {
    /// Their skills, prompt templates and themes, in order of precedence.
    pub resources: Vec<PackageResources>,
    /// Their extensions, in the same order.
    pub extensions: Vec<PathBuf>,
    /// Sources of packages that are not there, as they may be shown. Nothing installs them
    /// unasked.
    pub missing: Vec<String>,
    /// What else cannot be used, each a text for the user.
    pub problems: Vec<String>,
}

/// Looks up what the lists `packages` of the project and the user bring. Those of a project
/// that is not trusted are left out by the caller.
pub fn brought(
    files: &dyn FileSystem,
    project: Option<(&[Value], Base<'_>)>,
    user: (&[Value], Base<'_>),
) -> Brought {
    let mut all = Brought::default();
    let project = project.map(|(items, base)| (all.entries(items), base));
    let own = all.entries(user.0);
    let project = project.as_ref().map(|(items, base)| (&**items, *base));
    for (scope, base, entry) in configured(project, (&own, user.1)) {
        all.add(files, scope, &base, entry);
    }
    all
}

impl Brought {
    fn entries(&mut self, items: &[Value]) -> Vec<PackageEntry> {
        let (entries, errors) = read_entries(items);
        self.problems.extend(errors.iter().map(ToString::to_string));
        entries
    }

    fn add(&mut self, files: &dyn FileSystem, scope: Scope, base: &Base<'_>, entry: &PackageEntry) {
        let folder = entry.parsed.place(base);
        let shown = entry.parsed.without_secret(&entry.source);
        let found = contents(files, &folder, entry.filters.as_ref());
        if found.problems.contains(&ContentProblem::Missing) {
            let is_local = matches!(entry.parsed, PackageSource::Local(_));
            if is_local {
                let text = format!("package `{shown}` is not there: {}", folder.display());
                self.problems.push(text);
            } else {
                self.missing.push(shown);
            }
            return;
        }
        let problems = found.problems.iter();
        self.problems
            .extend(problems.map(|problem| format!("package `{shown}`: {problem}")));
        self.extensions
            .extend_from_slice(found.of(PackagePart::Extension));
        self.resources.push(PackageResources {
            source: shown,
            scope,
            folder,
            skills: found.of(PackagePart::Skill).to_vec(),
            prompts: found.of(PackagePart::Prompt).to_vec(),
            themes: found.of(PackagePart::Theme).to_vec(),
        });
    }
}
