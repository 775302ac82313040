//! The programs that the demo needs, and running them in an environment of its own.
//!
//! Nothing of the caller's git or cargo configuration acts here: children get the search path, the place of the installed
//! toolchains and an empty home, and no other variable. Verification takes nothing that the agent was given: it has a home
//! and a folder for temporary files of its own, and the toolchain by absolute paths.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fluzo_exec::{
    CommandSpec, EndedBy, Environment, ExitStatus, LocalProcesses, LocalProcessesConfig,
    OutputSink, ProcessError, ProcessRunner,
};
use fluzo_llm::AbortSignal;

use super::toolchain::{Marks, Toolchain, absolute_folders, look_up};

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
    git: PathBuf,
    toolchain: Toolchain,
    path: OsString,
    marks: Marks,
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
            Self::Missing("cc") => {
                "install a C compiler, for example gcc or clang; Rust links programs with it"
            }
            Self::Missing(_) => {
                "install Rust with cargo, for example from your distribution or with rustup"
            }
            Self::Broken { program: "git", .. } => "`git --version` should work in a shell",
            Self::Broken { program: "cc", .. } => "`cc --version` should work in a shell",
            Self::Broken { .. } => "`cargo --version` and `rustc --version` should work in a shell",
            Self::TooOld { .. } => "update Rust, for example with `rustup update`",
            Self::NotRun { .. } => "see the cause",
        }
    }
}

impl Programs {
    /// Finds `cargo`, `rustc`, `git` and the linker `cc`, lets each state its version, and remembers which files they are.
    /// `variable` reads the caller's environment, `home` is the home folder of what the agent starts.
    ///
    /// # Errors
    /// One is missing or does not work.
    pub(crate) async fn find(
        variable: &dyn Fn(&str) -> Option<OsString>,
        home: &Path,
    ) -> Result<Self, ProgramError> {
        let path = absolute_folders(&variable("PATH").unwrap_or_default());
        let (cargo, rustc, git, linker) = (
            look_up("cargo", &path)?,
            look_up("rustc", &path)?,
            look_up("git", &path)?,
            look_up("cc", &path)?,
        );
        let mut programs = Self {
            git: git.clone(),
            toolchain: Toolchain::new(&cargo, &linker, "", ""),
            environment: environment(variable, &path, home),
            path,
            marks: Marks::default(),
            processes: LocalProcesses::new(LocalProcessesConfig::default()),
            rustc_version: String::new(),
            git_version: String::new(),
        };
        programs.says("cargo", &cargo, &["--version"], home).await?;
        programs.rustc_version = programs.says("rustc", &rustc, &["--version"], home).await?;
        programs.git_version = programs.says("git", &git, &["--version"], home).await?;
        programs.says("cc", &linker, &["--version"], home).await?;
        let sysroot = ["--print", "sysroot"];
        let sysroot = programs.says("rustc", &rustc, &sysroot, home).await?;
        let versions = programs.says("rustc", &rustc, &["-vV"], home).await?;
        programs.toolchain = Toolchain::new(&cargo, &linker, &sysroot, &versions);
        programs.marks = programs.toolchain.marks(&programs.path);
        Ok(programs)
    }

    /// Names a program or a file of the toolchain that is not what it was when the programs were found.
    pub(crate) fn exchanged(&self) -> Option<String> {
        self.marks.difference(&self.toolchain.marks(&self.path))
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

    /// The variables of what the agent starts.
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

    /// Says how the folders `a` and `b` below `folder` differ, as a patch. Dropping the future kills it.
    ///
    /// # Errors
    /// Git could not be run, or said something else.
    pub(crate) async fn difference(&self, folder: &Path) -> Result<String, ProgramError> {
        let arguments = [
            "diff",
            "--no-index",
            "--no-prefix",
            "--no-color",
            "--no-ext-diff",
            "--no-textconv",
            "--no-renames",
            "--text",
            "a",
            "b",
        ];
        let mut variables = GIT_VARIABLES
            .map(|(name, value)| (name, OsString::from(value)))
            .to_vec();
        // No repository above is looked for.
        variables.push(("GIT_CEILING_DIRECTORIES", folder.into()));
        let all = arguments.iter().map(Into::into).collect();
        let ran = self
            .run("git", &self.git, all, folder, variables, BRIEF)
            .await?;
        // It exits with 1 when there are differences.
        match ran.output.is_empty() || ran.output.starts_with("diff --git ") {
            true => Ok(ran.output),
            false => Err(ProgramError::Broken {
                program: "git",
                output: ran.output,
            }),
        }
    }

    /// Runs `cargo` on the crate in `folder`, with everything else that it writes to or reads from below `own`. It starts in
    /// the root folder, so that no configuration that lies above the crate is read. Dropping the future kills it and all
    /// that it started.
    ///
    /// # Errors
    /// It could not be run. That it failed is no error.
    pub(crate) async fn cargo(
        &self,
        folder: &Path,
        own: &Path,
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
        let cargo = self.toolchain.cargo.clone();
        let env = self.apart(own);
        self.run_in("cargo", &cargo, all, Path::new("/"), env, limit)
            .await
    }

    /// Kills these processes. Those that are gone are left out.
    pub(crate) async fn kill(&self, ids: &std::collections::BTreeSet<u32>) {
        // One by one: of several, a shell may stop at the first that is gone.
        let script = "for id do kill -KILL \"$id\"; done";
        let mut all: Vec<OsString> = vec!["-c".into(), script.into(), "kill".into()];
        all.extend(ids.iter().map(|id| id.to_string().into()));
        let root = Path::new("/");
        // Whether it helped is seen by looking for the processes again.
        let _ = self
            .run_in("sh", Path::new("/bin/sh"), all, root, Vec::new(), BRIEF)
            .await;
    }

    /// The variables of verification: those of the agent, but for every folder that it could write to.
    fn apart(&self, own: &Path) -> Vec<(OsString, OsString)> {
        let replaced: [(&str, PathBuf); 4] = [
            ("HOME", own.join("home")),
            ("CARGO_HOME", own.join("home/cargo")),
            ("TMPDIR", own.join("tmp")),
            ("CARGO_TARGET_DIR", own.join("target")),
        ];
        let is_replaced = |name: &OsStr| replaced.iter().any(|(known, _)| name == *known);
        let apart = self.toolchain.apart;
        let is_left_out = |name: &OsStr| apart && name.to_string_lossy().starts_with("RUSTUP_");
        let mut env: Vec<(OsString, OsString)> = self
            .environment
            .iter()
            .filter(|(name, _)| !is_replaced(name) && !is_left_out(name))
            .cloned()
            .collect();
        env.extend(replaced.map(|(name, folder)| (name.into(), folder.into())));
        env.extend_from_slice(self.toolchain.variables());
        env
    }

    async fn says(
        &self,
        name: &'static str,
        program: &Path,
        arguments: &[&str],
        folder: &Path,
    ) -> Result<String, ProgramError> {
        let none: [(&str, &OsStr); 0] = [];
        let arguments = arguments.iter().map(Into::into).collect();
        let ran = self
            .run(name, program, arguments, folder, none, BRIEF)
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
        self.run_in(name, program, args, cwd, env, limit).await
    }

    async fn run_in(
        &self,
        name: &'static str,
        program: &Path,
        args: Vec<OsString>,
        cwd: &Path,
        env: Vec<(OsString, OsString)>,
        limit: Duration,
    ) -> Result<Ran, ProgramError> {
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
const GIT_VARIABLES: [(&str, &str); 4] = [
    // The agent could have written to its own.
    ("HOME", "/dev/null"),
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
        // The tests report in the same order each time.
        ("RUST_TEST_THREADS".into(), "1".into()),
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
