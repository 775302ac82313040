//! `fluzo pi install`, `remove`, `update`, `list`: packages of skills, prompts, themes and
//! extensions.
//!
//! Nothing is fetched unless one of these commands is given.

mod command;
mod git;
mod install;
mod npm;
mod owned;
mod programs;
mod staging;

use std::path::{Path, PathBuf};

use fluzo_exec::LocalFileSystem;
use fluzo_resources::Scope;
use fluzo_resources::packages::{self, Base, Brought, PackageSource, absolute, read_entries};
use fluzo_settings::{Source, key};
use fluzo_stdx::error::with_causes;
use fluzo_stdx::sanitize::terminal_text;

pub(crate) use command::{commands, is_command};

use crate::agent_folder::{self, AgentFolder};
use crate::settings_file::SettingsFile;
use crate::surroundings::Surroundings;
use crate::{help, output};
use command::{Action, Asked, Target};
use install::{Consent, InstallError, Installed};
use owned::{Owned, written};
use programs::Programs;

const FAILURE: i32 = 1;

/// Runs a command, the first of `arguments`; returns the exit code.
pub(crate) fn run(surroundings: &Surroundings, arguments: &[String]) -> i32 {
    let Some((name, rest)) = arguments.split_first() else {
        return FAILURE;
    };
    let asked = match command::parse(name, rest) {
        Ok(asked) => asked,
        Err(text) => {
            eprintln!("{}", terminal_text(&text));
            return FAILURE;
        }
    };
    if asked.action == Action::Help {
        let text = help::of(&["pi".to_owned(), name.clone()]);
        return output::write(text.unwrap_or_default().as_bytes());
    }
    if asked.action == Action::Update(Target::Own) {
        return say_how_updated();
    }
    match Work::new(surroundings, asked).and_then(Work::run) {
        Ok(code) => code,
        Err(text) => {
            eprintln!("Error: {}", terminal_text(&text));
            FAILURE
        }
    }
}

/// A command with everything that it needs.
struct Work {
    asked: Asked,
    cwd: PathBuf,
    user: Owned,
    project: Owned,
    trusted: bool,
    programs: Programs,
}

impl Work {
    fn new(surroundings: &Surroundings, asked: Asked) -> Result<Self, String> {
        let cwd = surroundings.cwd.clone().map_err(|reason| {
            format!(
                "the working folder cannot be used: {reason}\nhint: run in a folder that exists"
            )
        })?;
        let flags = agent_folder::Asked {
            approve: asked.approve,
            ..agent_folder::Asked::default()
        };
        let folder = AgentFolder::read_for(surroundings, &cwd, &flags);
        let owned = |scope, path: &Path, file| Owned {
            scope,
            folder: absolute(&path.to_string_lossy(), &cwd, None),
            home: surroundings.home.clone(),
            file,
        };
        let npm = folder.settings.texts(key::NPM_COMMAND).unwrap_or_default();
        Ok(Self {
            user: owned(
                Scope::User,
                &folder.path,
                SettingsFile::of_user(&folder.path),
            ),
            project: owned(
                Scope::Project,
                &cwd.join(".pi"),
                SettingsFile::of_project(&cwd),
            ),
            trusted: folder.trust.is_trusted(),
            programs: Programs::new(surroundings, npm.into_iter().map(str::to_owned).collect()),
            asked,
            cwd,
        })
    }

    fn run(self) -> Result<i32, String> {
        match &self.asked.action {
            Action::Install(source) => self.install(source),
            Action::Remove(source) => self.remove(source),
            Action::Update(target) => self.update(target),
            Action::List => self.list(),
            Action::Help => Ok(0),
        }
    }

    /// Whose packages are meant.
    fn meant(&self) -> &Owned {
        if self.asked.local {
            &self.project
        } else {
            &self.user
        }
    }

    fn consent(&self) -> Consent {
        Consent {
            scripts: self.asked.allow_scripts,
            again: self.asked.force,
        }
    }

    fn install(&self, typed: &str) -> Result<i32, String> {
        let source = PackageSource::parse(typed).map_err(|error| error.to_string())?;
        let owned = self.meant();
        // A broken settings file is told before anything is fetched.
        owned.items()?;
        let text = owned.text(&source, typed, &self.cwd);
        let placed = PackageSource::parse(&text).map_err(|error| error.to_string())?;
        let shown = source.without_secret(typed);
        let exists =
            !matches!(source, PackageSource::Local(_)) || placed.place(&owned.base()).exists();
        if exists {
            say(&format!("Installing {shown}..."));
        }
        let work = install::install(&self.programs, owned, &placed, self.consent());
        let installed = match interruptible(work)? {
            Ended::Done(installed) => installed.map_err(|error| told(&source, &error))?,
            Ended::Signal(code) => return Ok(code),
        };
        owned.add(&source, &text, &self.cwd)?;
        say(&format!("Installed {shown}"));
        self.tell_scripts(&installed, &format!("install {shown}"), owned);
        Ok(0)
    }

    fn remove(&self, typed: &str) -> Result<i32, String> {
        let source = PackageSource::parse(typed).map_err(|error| error.to_string())?;
        let owned = self.meant();
        let shown = source.without_secret(typed);
        let Some(entry) = owned.find(&source, &self.cwd)? else {
            return Ok(no_match(&shown));
        };
        say(&format!("Removing {shown}..."));
        let placed = PackageSource::parse(&entry).map_err(|error| error.to_string())?;
        install::remove(owned, &placed).map_err(|error| told(&source, &error))?;
        owned.take_out(&source, &self.cwd)?;
        say(&format!("Removed {shown}"));
        Ok(0)
    }

    fn update(&self, target: &Target) -> Result<i32, String> {
        let wanted = match target {
            Target::One(typed) => {
                let source = PackageSource::parse(typed).map_err(|error| error.to_string())?;
                Some((source, typed))
            }
            _ => None,
        };
        let mut all = self.sources(&self.user)?;
        if self.trusted {
            all.extend(self.sources(&self.project)?);
        } else if !self.project.items().unwrap_or_default().is_empty() {
            warn(
                "packages of this project were passed over: it is not trusted (--approve trusts it for one run)",
            );
        }
        if let Some((source, typed)) = &wanted {
            let identity = source.identity(&self.cwd, self.user.home.as_deref());
            all.retain(|(owned, entry, _)| {
                entry.identity(&owned.folder, owned.home.as_deref()) == identity
            });
            if all.is_empty() {
                return Ok(no_match(&source.without_secret(typed)));
            }
        }
        let code = self.update_all(&all)?;
        if code == 0 {
            match &wanted {
                Some((source, typed)) => say(&format!("Updated {}", source.without_secret(typed))),
                None => say("Updated packages"),
            }
        }
        Ok(match target {
            Target::Both if code == 0 => say_how_updated(),
            Target::Everything if code == 0 => {
                eprintln!("{}", how_updated());
                code
            }
            _ => code,
        })
    }

    /// One after the other; the failure of one does not stop the others.
    fn update_all(&self, all: &[(&Owned, PackageSource, String)]) -> Result<i32, String> {
        let mut code = 0;
        for (owned, source, text) in all {
            let work = install::update(&self.programs, owned, source, self.consent());
            match interruptible(work)? {
                Ended::Signal(signal) => return Ok(signal),
                Ended::Done(Ok(Some(installed))) => {
                    let shown = source.without_secret(text);
                    say(&format!("Fetched {shown}"));
                    self.tell_scripts(&installed, &format!("update {shown} --force"), owned);
                }
                Ended::Done(Ok(None)) => {}
                Ended::Done(Err(error)) => {
                    let shown = source.without_secret(text);
                    eprintln!(
                        "Error: {}",
                        terminal_text(&format!("{shown}: {}", told(source, &error)))
                    );
                    code = FAILURE;
                }
            }
        }
        Ok(code)
    }

    fn sources<'a>(
        &self,
        owned: &'a Owned,
    ) -> Result<Vec<(&'a Owned, PackageSource, String)>, String> {
        let (entries, errors) = read_entries(&owned.items()?);
        errors.iter().for_each(|error| warn(&error.to_string()));
        let entries = entries.into_iter();
        Ok(entries
            .map(|entry| (owned, entry.parsed, entry.source))
            .collect())
    }

    fn list(&self) -> Result<i32, String> {
        let mut blocks = Vec::new();
        for (title, owned) in [
            ("User packages:", &self.user),
            ("Project packages:", &self.project),
        ] {
            let items = owned.items()?;
            let lines: String = items.iter().filter_map(|item| line(owned, item)).collect();
            if !lines.is_empty() {
                blocks.push(format!("{title}\n{lines}"));
            }
            if owned.scope == Scope::Project && !lines.is_empty() && !self.trusted {
                warn(
                    "this project is not trusted: its packages do not count (--approve trusts it for one run)",
                );
            }
        }
        if blocks.is_empty() {
            blocks.push("No packages installed.\n".to_owned());
        }
        Ok(output::write(terminal_text(&blocks.join("\n")).as_bytes()))
    }

    fn tell_scripts(&self, installed: &Installed, again: &str, owned: &Owned) {
        if installed.unrun.is_empty() {
            return;
        }
        let local = match owned.scope {
            Scope::Project if self.asked.local => " -l",
            Scope::Project => " --approve",
            Scope::User | Scope::Temporary => "",
        };
        let names = installed.unrun.join(", ");
        warn(&format!(
            "install scripts did not run: {names}\nhint: if you trust them: fluzo pi {again}{local} --allow-scripts"
        ));
    }
}

/// What the packages in the settings bring to a run in `workspace`. The project's are in
/// `folder` only when it is trusted.
pub(crate) fn brought(
    surroundings: &Surroundings,
    folder: &AgentFolder,
    workspace: &Path,
) -> Brought {
    let project = workspace.join(".pi");
    let home = surroundings.home.as_deref();
    let lists = folder.settings.lists(key::PACKAGES);
    let list = |source| {
        lists
            .iter()
            .find(|(s, _)| *s == source)
            .map(|(_, list)| *list)
    };
    let own = Base {
        base: &folder.path,
        home,
    };
    let projects = Base {
        base: &project,
        home,
    };
    packages::brought(
        &LocalFileSystem,
        list(Source::Project).map(|items| (items, projects)),
        (list(Source::Global).unwrap_or_default(), own),
    )
}

/// What the user is told of the packages at a start.
pub(crate) fn notices(brought: &Brought) -> Vec<String> {
    let mut notices = brought.problems.clone();
    if !brought.missing.is_empty() {
        notices.push(format!(
            "packages in the settings are not installed: {}\nhint: `fluzo pi update --extensions` installs them",
            brought.missing.join(", ")
        ));
    }
    notices.iter().map(|text| terminal_text(text)).collect()
}

/// An entry as `list` shows it.
fn line(owned: &Owned, item: &serde_json::Value) -> Option<String> {
    let text = written(item)?;
    let filtered = if item.is_object() { " (filtered)" } else { "" };
    let Ok(source) = PackageSource::parse(text) else {
        return Some(format!("  {text}{filtered}\n    cannot be understood\n"));
    };
    let place = source.place(&owned.base());
    let path = if place.exists() {
        place.display().to_string()
    } else {
        format!("not installed: {}", place.display())
    };
    let shown = source.without_secret(text);
    Some(format!("  {shown}{filtered}\n    {path}\n"))
}

fn told(source: &PackageSource, error: &InstallError) -> String {
    source.without_secret(&with_causes(error))
}

fn no_match(shown: &str) -> i32 {
    eprintln!(
        "{}",
        terminal_text(&format!("No matching package found for {shown}"))
    );
    FAILURE
}

fn say(text: &str) {
    // A reader that is gone stops nothing.
    let _ = output::write(format!("{}\n", terminal_text(text)).as_bytes());
}

fn warn(text: &str) {
    eprintln!("Warning: {}", terminal_text(text));
}

fn say_how_updated() -> i32 {
    eprintln!("{}", how_updated());
    FAILURE
}

/// The program does not replace itself.
fn how_updated() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let program = std::env::current_exe().unwrap_or_default();
    format!(
        "fluzo {version} does not update itself: {}\nIt is {}",
        way_to_update(&program),
        program.display()
    )
}

fn way_to_update(program: &Path) -> &'static str {
    let text = program.to_string_lossy();
    if text.contains("/.cargo/bin/") {
        "install it again with `cargo install` from a newer source"
    } else if text.starts_with("/usr/bin/") || text.starts_with("/bin/") {
        "the package manager of the system does it"
    } else {
        "put a newer program in its place"
    }
}

/// How work ended.
enum Ended<T> {
    Done(T),
    /// A signal asked to end; the exit code.
    Signal(i32),
}

/// Runs work to its end, or to a signal: then it is dropped, and what it began is undone.
fn interruptible<F: Future>(work: F) -> Result<Ended<F::Output>, String> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("no runtime: {error}"))?;
    let ended = runtime.block_on(async {
        let (mut interrupt, mut terminate, mut hangup) = (
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        );
        Ok(tokio::select! {
            output = work => Ended::Done(output),
            _ = interrupt.recv() => Ended::Signal(130),
            _ = terminate.recv() => Ended::Signal(143),
            _ = hangup.recv() => Ended::Signal(129),
        })
    });
    ended.map_err(|error: std::io::Error| format!("no signals: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_update_depends_on_the_place() {
        let rows = [
            (
                "/home/u/.cargo/bin/fluzo",
                "install it again with `cargo install` from a newer source",
            ),
            (
                "/usr/bin/fluzo",
                "the package manager of the system does it",
            ),
            ("/opt/fluzo", "put a newer program in its place"),
        ];
        for (path, expected) in rows {
            assert_eq!(way_to_update(Path::new(path)), expected, "{path}");
        }
    }
}
