//! Which files are resources, in order of precedence.

use std::io;
use std::path::{Path, PathBuf};

use fluzo_exec::FileKind;

use crate::diagnostic::{Diagnostic, ResourceKind};
use crate::pattern::{Patterns, is_override, is_pattern};
use crate::reading::error_text;
use crate::sources::{Lists, Origin, PackageResources, Scope, SourceInfo, Sources};
use crate::walk::{find, has_form};

/// Files of one kind, the first of a name wins. A file may be there more than once.
///
/// The order: packages of `-e`; settings of the project, its usual places; settings of the user, their usual places; packages;
/// flags; the skills folder beside the agent folder.
pub(crate) fn gather(
    kind: ResourceKind,
    sources: &Sources,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<SourceInfo> {
    let mut gather = Gather {
        kind,
        sources,
        found: Vec::new(),
        diagnostics,
    };
    gather.packages(&sources.leading);
    let discover = sources.discover.wants(kind);
    if discover {
        if sources.trusted {
            gather.settings(&sources.project, Scope::Project);
            gather.project_places();
        }
        gather.settings(&sources.user, Scope::User);
        gather.user_places();
        gather.packages(&sources.packages);
    }
    gather.flags();
    if discover && kind == ResourceKind::Skill {
        gather.old_skills();
    }
    gather.found
}

struct Gather<'a> {
    kind: ResourceKind,
    sources: &'a Sources,
    found: Vec<SourceInfo>,
    diagnostics: &'a mut Vec<Diagnostic>,
}

/// A usual place.
struct Place {
    folder: PathBuf,
    base: PathBuf,
    scope: Scope,
    /// Whether files of the folder itself count.
    loose: bool,
}

impl Gather<'_> {
    fn packages(&mut self, packages: &[PackageResources]) {
        for package in packages {
            if package.scope == Scope::Project && !self.sources.trusted {
                continue;
            }
            for path in package.of(self.kind) {
                for file in self.named(path) {
                    self.packaged(package, file);
                }
            }
        }
    }

    fn packaged(&mut self, package: &PackageResources, file: PathBuf) {
        let files = &*self.sources.files;
        let inside = match (
            files.canonicalize(&file),
            files.canonicalize(&package.folder),
        ) {
            (Ok(file), Ok(folder)) => file.starts_with(folder),
            _ => false,
        };
        if !inside {
            let text = "the file leads out of its package and is not used";
            return self.warn(&file, text.to_owned());
        }
        self.found.push(SourceInfo {
            path: file,
            source: package.source.clone(),
            scope: package.scope,
            origin: Origin::Package,
            base_dir: Some(package.folder.clone()),
        });
    }

    /// Entries of the settings: paths, and patterns over the files that they lead to.
    fn settings(&mut self, lists: &Lists, scope: Scope) {
        let base = self.base(scope);
        let entries = lists.of(self.kind);
        let patterns = Patterns::new(
            entries
                .iter()
                .map(String::as_str)
                .filter(|entry| is_pattern(entry)),
        );
        for problem in patterns.problems() {
            self.warn(&base.join("settings.json"), problem.clone());
        }
        for entry in entries.iter().filter(|entry| !is_pattern(entry)) {
            let files = self.named(&self.sources.resolve(entry, &base));
            let files = files
                .into_iter()
                .filter(|file| patterns.selects(file, &base));
            for file in files {
                self.found.push(top_level(file, "local", scope, &base));
            }
        }
    }

    fn project_places(&mut self) {
        let folder = self.sources.project_folder();
        self.usual(&folder, Scope::Project);
        if self.kind != ResourceKind::Skill {
            return;
        }
        let own = self.sources.home.as_ref().map(|home| home.join(".agents"));
        for base in self.project_folders() {
            let base = base.join(".agents");
            // The user's own is no project's, even when the project lies in the home.
            if own.as_ref() != Some(&base) {
                self.place(&Place {
                    folder: base.join("skills"),
                    base,
                    scope: Scope::Project,
                    loose: false,
                });
            }
        }
    }

    fn user_places(&mut self) {
        let folder = self.sources.agent_folder.clone();
        self.usual(&folder, Scope::User);
        if self.kind == ResourceKind::Skill
            && let Some(home) = &self.sources.home
        {
            let base = home.join(".agents");
            self.place(&Place {
                folder: base.join("skills"),
                base,
                scope: Scope::User,
                loose: false,
            });
        }
    }

    /// Usual places in the agent folder or `.pi`.
    fn usual(&mut self, base: &Path, scope: Scope) {
        let place = |name: &str| Place {
            folder: base.join(name),
            base: base.to_path_buf(),
            scope,
            loose: true,
        };
        match self.kind {
            ResourceKind::Skill => self.place(&place("skills")),
            ResourceKind::Theme => self.place(&place("themes")),
            ResourceKind::Prompt => {
                self.place(&place("prompts"));
                let before = self.found.len();
                let old = place("commands");
                self.place(&old);
                if self.found.len() > before {
                    let text = format!(
                        "prompt templates in {} are read, but their place is {}: move them there",
                        old.folder.display(),
                        base.join("prompts").display()
                    );
                    self.warn(&old.folder, text);
                }
            }
            ResourceKind::Context | ResourceKind::System => {}
        }
    }

    /// Where skills were once; every other place comes before it.
    fn old_skills(&mut self) {
        if let Some(home) = &self.sources.home {
            let base = home.join(".pi");
            self.place(&Place {
                folder: base.join("skills"),
                base,
                scope: Scope::User,
                loose: true,
            });
        }
    }

    fn place(&mut self, place: &Place) {
        let lists = match place.scope {
            Scope::Project => &self.sources.project,
            Scope::User | Scope::Temporary => &self.sources.user,
        };
        let overrides = lists.of(self.kind).iter().map(String::as_str);
        let overrides = Patterns::new(overrides.filter(|entry| is_override(entry)));
        let files = find(
            self.kind,
            &place.folder,
            place.loose,
            &*self.sources.files,
            &self.sources.limits,
            self.diagnostics,
        );
        for file in files {
            if overrides.selects(&file, &place.base) {
                self.found
                    .push(top_level(file, "auto", place.scope, &place.base));
            }
        }
    }

    fn flags(&mut self) {
        let base = self.sources.cwd.clone();
        for entry in self.sources.flags.of(self.kind) {
            let path = self.sources.resolve(entry, &base);
            for file in self.named(&path) {
                self.found
                    .push(top_level(file, "cli", Scope::Temporary, &base));
            }
        }
    }

    /// The files that a path given by somebody leads to.
    fn named(&mut self, path: &Path) -> Vec<PathBuf> {
        let noun = self.kind.noun();
        let text = match self.sources.files.metadata(path) {
            Ok(meta) if meta.kind == FileKind::Directory => {
                return find(
                    self.kind,
                    path,
                    true,
                    &*self.sources.files,
                    &self.sources.limits,
                    self.diagnostics,
                );
            }
            Ok(meta) if meta.kind == FileKind::File && has_form(self.kind, path) => {
                return vec![path.to_path_buf()];
            }
            Ok(_) => {
                let form = self.kind.form().map_or("regular", |(_, form)| form);
                format!("{noun} path is not a {form} file")
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                format!("{noun} path does not exist")
            }
            Err(error) => format!("{noun} path cannot be used: {}", error_text(&error)),
        };
        self.warn(path, text);
        Vec::new()
    }

    fn base(&self, scope: Scope) -> PathBuf {
        match scope {
            Scope::Project => self.sources.project_folder(),
            Scope::User | Scope::Temporary => self.sources.agent_folder.clone(),
        }
    }

    /// The working folder and those above it, up to the root of the repository.
    fn project_folders(&self) -> Vec<PathBuf> {
        let mut folders = Vec::new();
        for folder in self.sources.cwd.ancestors() {
            folders.push(folder.to_path_buf());
            if self.sources.files.metadata(&folder.join(".git")).is_ok() {
                break;
            }
        }
        folders
    }

    fn warn(&mut self, path: &Path, text: String) {
        self.diagnostics
            .push(Diagnostic::warning(self.kind, path, text));
    }
}

fn top_level(path: PathBuf, source: &str, scope: Scope, base: &Path) -> SourceInfo {
    SourceInfo {
        path,
        source: source.to_owned(),
        scope,
        origin: Origin::TopLevel,
        base_dir: Some(base.to_path_buf()),
    }
}
