//! The programs that the demo needs, and running them in an environment of its own.
//!
//! Nothing of the caller's git or cargo configuration acts here: children get the search path, the place of the installed
//! toolchains and an empty home, and no other variable.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fluzo_exec::{
    CommandSpec, EndedBy, Environment, ExitStatus, LocalProcesses, LocalProcessesConfig,
    OutputSink, ProcessError, ProcessRunner,
};
use fluzo_llm::AbortSignal;

/// Output beyond this is dropped.
const MOST_OUTPUT: usize = 4 << 20;
/// For programs that answer at once.
const BRIEF: Duration = Duration::from_secs(60);

/// Variables that `cargo` needs to find the toolchain, if they are set.
const KEPT: [&str; 4] = [
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "RUSTUP_AUTO_INSTALL",
    "TMPDIR",
];

/// The programs that were found.
#[derive(Debug)]
pub(crate) struct Programs {
    cargo: PathBuf,
    git: PathBuf,
    environment: Vec<(OsString, OsString)>,
    processes: LocalProcesses,
    /// What `rustc --version` says.
    pub rustc_version: String,
    /// What `git --version` says.
    pub git_version: String,
}

/// What came of a program.
#[derive(Debug)]
pub(crate) struct Ran {
    /// Both outputs, in the order of arrival.
    pub output: String,
    /// Whether it exited with 0.
    pub succeeded: bool,
    /// Whether its time was over.
    pub timed_out: bool,
}

/// Why a program cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProgramError {
    /// It is not on the search path.
    #[error("`{0}` is not installed, or not in `PATH`")]
    Missing(&'static str),
    /// It is there and does not work.
    #[error("`{program}` does not work: {output}")]
    Broken {
        /// Its name.
        program: &'static str,
        /// What it said.
        output: String,
    },
    /// It is older than the fixture allows.
    #[error("the fixture needs Rust {minimum}, found `{found}`")]
    TooOld {
        /// The oldest version that will do.
        minimum: String,
        /// What is installed.
        found: String,
    },
    /// The system did not run it.
    #[error("`{program}` could not be run")]
    NotRun {
        /// Its name.
        program: &'static str,
        /// The reason.
        source: ProcessError,
    },
}

impl ProgramError {
    /// What to do about it.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::Missing("git") => "install git",
            Self::Missing(_) => {
                "install Rust with cargo, for example from your distribution or with rustup"
            }
            Self::Broken { program: "git", .. } => "`git --version` should work in a shell",
            Self::Broken { .. } => "`cargo --version` and `rustc --version` should work in a shell",
            Self::TooOld { .. } => "update Rust, for example with `rustup update`",
            Self::NotRun { .. } => "see the cause",
        }
    }
}

impl Programs {
    /// Finds `cargo`, `rustc` and `git` and lets each state its version. `variable` reads the caller's environment, `home`
    /// is the home folder of all children.
    ///
    /// # Errors
    /// One is missing or does not work.
    pub(crate) async fn find(
        variable: &dyn Fn(&str) -> Option<OsString>,
        home: &Path,
    ) -> Result<Self, ProgramError> {
        let path = variable("PATH").unwrap_or_default();
        let (cargo, rustc, git) = (
            look_up("cargo", &path)?,
            look_up("rustc", &path)?,
            look_up("git", &path)?,
        );
        let mut programs = Self {
            cargo,
            git,
            environment: environment(variable, &path, home),
            processes: LocalProcesses::new(LocalProcessesConfig::default()),
            rustc_version: String::new(),
            git_version: String::new(),
        };
        programs
            .version("cargo", programs.cargo.clone(), home)
            .await?;
        programs.rustc_version = programs.version("rustc", rustc, home).await?;
        programs.git_version = programs.version("git", programs.git.clone(), home).await?;
        Ok(programs)
    }

    /// Whether the compiler is no older than `minimum`, such as `1.75`.
    ///
    /// # Errors
    /// It is older, or does not say its version.
    pub(crate) fn require_rust(&self, minimum: &str) -> Result<(), ProgramError> {
        let found = self.rustc_version.split_whitespace().nth(1);
        match found.map(version) {
            Some(found) if found >= version(minimum) => Ok(()),
            _ => Err(ProgramError::TooOld {
                minimum: minimum.to_owned(),
                found: self.rustc_version.clone(),
            }),
        }
    }

    /// The variables that every child gets.
    pub(crate) fn environment(&self) -> &[(OsString, OsString)] {
        &self.environment
    }

    /// Runs `git` in `folder`. Dropping the future kills it.
    ///
    /// # Errors
    /// It could not be run, or it failed.
    pub(crate) async fn git(
        &self,
        folder: &Path,
        arguments: &[&str],
    ) -> Result<String, ProgramError> {
        let mut all: Vec<OsString> = Vec::new();
        for setting in GIT_SETTINGS {
            all.extend(["-c".into(), setting.into()]);
        }
        all.extend(arguments.iter().map(Into::into));
        let ran = self
            .run("git", &self.git, all, folder, GIT_VARIABLES, BRIEF)
            .await?;
        match ran.succeeded {
            true => Ok(ran.output),
            false => Err(ProgramError::Broken {
                program: "git",
                output: ran.output,
            }),
        }
    }

    /// Runs `cargo` on the crate in `folder` with a target folder of its own. It starts in the root folder, so that no
    /// configuration that lies above the crate is read. Dropping the future kills it and all that it started.
    ///
    /// # Errors
    /// It could not be run. That it failed is no error.
    pub(crate) async fn cargo(
        &self,
        folder: &Path,
        target: &Path,
        arguments: &[&str],
        limit: Duration,
    ) -> Result<Ran, ProgramError> {
        let Some((command, rest)) = arguments.split_first() else {
            return Err(ProgramError::Missing("cargo"));
        };
        let mut all: Vec<OsString> = vec![
            command.into(),
            "--manifest-path".into(),
            folder.join("Cargo.toml").into(),
        ];
        all.extend(rest.iter().map(Into::into));
        let target = [("CARGO_TARGET_DIR", target.as_os_str())];
        self.run("cargo", &self.cargo, all, Path::new("/"), target, limit)
            .await
    }

    async fn version(
        &self,
        name: &'static str,
        program: PathBuf,
        folder: &Path,
    ) -> Result<String, ProgramError> {
        let none: [(&str, &OsStr); 0] = [];
        let ran = self
            .run(
                name,
                &program,
                vec!["--version".into()],
                folder,
                none,
                BRIEF,
            )
            .await?;
        let output = ran.output.trim().to_owned();
        match ran.succeeded {
            true => Ok(output),
            false => Err(ProgramError::Broken {
                program: name,
                output,
            }),
        }
    }

    async fn run<V: Into<OsString>>(
        &self,
        name: &'static str,
        program: &Path,
        args: Vec<OsString>,
        cwd: &Path,
        more: impl IntoIterator<Item = (&str, V)>,
        limit: Duration,
    ) -> Result<Ran, ProgramError> {
        let mut env = self.environment.clone();
        env.extend(
            more.into_iter()
                .map(|(name, value)| (name.into(), value.into())),
        );
        let spec = CommandSpec {
            program: program.to_owned(),
            args,
            cwd: cwd.to_owned(),
            env: Environment::Exact(env),
            timeout: Some(limit),
        };
        let mut kept = Kept(Vec::new());
        let report = self
            .processes
            .run(spec, &mut kept, AbortSignal::new())
            .await;
        let report = report.map_err(|source| ProgramError::NotRun {
            program: name,
            source,
        })?;
        Ok(Ran {
            output: String::from_utf8_lossy(&kept.0).into_owned(),
            succeeded: report.ended_by == EndedBy::Itself
                && report.status == Some(ExitStatus::Code(0)),
            timed_out: report.ended_by == EndedBy::Timeout,
        })
    }
}

/// Settings of every `git` that the demo itself runs.
const GIT_SETTINGS: [&str; 8] = [
    "user.name=Fluzo demo",
    "user.email=demo@fluzo.invalid",
    "commit.gpgSign=false",
    "core.hooksPath=/dev/null",
    "core.excludesFile=/dev/null",
    "core.attributesFile=/dev/null",
    "core.fsmonitor=false",
    "init.defaultBranch=main",
];

/// Variables of every `git` that the demo itself runs. With the fixed dates a commit has the same id everywhere.
const GIT_VARIABLES: [(&str, &str); 3] = [
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_AUTHOR_DATE", "2026-01-01T00:00:00Z"),
    ("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z"),
];

fn environment(
    variable: &dyn Fn(&str) -> Option<OsString>,
    path: &OsStr,
    home: &Path,
) -> Vec<(OsString, OsString)> {
    let mut all: Vec<(OsString, OsString)> = vec![
        ("PATH".into(), path.into()),
        ("HOME".into(), home.into()),
        ("CARGO_HOME".into(), home.join("cargo").into()),
        ("LC_ALL".into(), "C".into()),
        ("TERM".into(), "dumb".into()),
        ("CARGO_NET_OFFLINE".into(), "true".into()),
        ("CARGO_TERM_COLOR".into(), "never".into()),
        ("CARGO_INCREMENTAL".into(), "0".into()),
        ("CARGO_PROFILE_DEV_DEBUG".into(), "0".into()),
        ("RUST_BACKTRACE".into(), "0".into()),
        ("GIT_CONFIG_GLOBAL".into(), "/dev/null".into()),
        ("GIT_CONFIG_NOSYSTEM".into(), "1".into()),
        ("GIT_TERMINAL_PROMPT".into(), "0".into()),
        ("GIT_PAGER".into(), "cat".into()),
    ];
    all.extend(
        KEPT.iter()
            .filter_map(|name| Some(((*name).into(), variable(name)?))),
    );
    // Toolchains lie below the real home unless a variable says otherwise.
    let toolchains = variable("HOME").map(|home| PathBuf::from(home).join(".rustup"));
    if let Some(folder) =
        toolchains.filter(|folder| variable("RUSTUP_HOME").is_none() && folder.is_dir())
    {
        all.push(("RUSTUP_HOME".into(), folder.into()));
    }
    all
}

/// The numbers of a version; what stands behind the first other sign is left out.
fn version(text: &str) -> Vec<u32> {
    let plain = text.split(|c: char| !c.is_ascii_digit() && c != '.').next();
    let parts = plain.unwrap_or_default().split('.');
    parts.map_while(|part| part.parse().ok()).collect()
}

fn look_up(name: &'static str, path: &OsStr) -> Result<PathBuf, ProgramError> {
    std::env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|file| {
            let meta = std::fs::metadata(file);
            meta.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        })
        .ok_or(ProgramError::Missing(name))
}

struct Kept(Vec<u8>);

impl OutputSink for Kept {
    fn write(&mut self, chunk: &[u8]) {
        let room = MOST_OUTPUT.saturating_sub(self.0.len());
        self.0.extend(chunk.iter().take(room));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("cargo"), "").unwrap();
        for name in ["cargo", "git"] {
            let error = look_up(name, folder.path().as_os_str()).unwrap_err();
            assert!(error.to_string().contains(name));
            assert!(error.hint().contains("install"));
        }
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        let rows = [
            ("1.95.0", "1.75", true),
            ("1.8.0", "1.75", false),
            ("1.96.0-nightly", "1.96", true),
            ("", "1.75", false),
        ];
        for (found, minimum, enough) in rows {
            assert_eq!(version(found) >= version(minimum), enough, "{found}");
        }
    }

    #[test]
    fn children_get_nothing_of_the_callers_configuration() {
        let caller = |name: &str| match name {
            "HOME" => Some("/nowhere/home".into()),
            "RUSTUP_TOOLCHAIN" => Some("stable".into()),
            "GIT_DIR" | "RUSTFLAGS" | "CARGO_HOME" | "HTTP_PROXY" => Some("poison".into()),
            _ => None,
        };
        let all = environment(&caller, OsStr::new("/bin"), Path::new("/empty"));
        let value = |name: &str| {
            all.iter()
                .find(|(known, _)| known == name)
                .map(|(_, value)| value.clone())
        };
        assert_eq!(value("HOME"), Some("/empty".into()));
        assert_eq!(value("CARGO_HOME"), Some("/empty/cargo".into()));
        assert_eq!(value("RUSTUP_TOOLCHAIN"), Some("stable".into()));
        assert!(all.iter().all(|(_, value)| value != "poison"));
    }
}
