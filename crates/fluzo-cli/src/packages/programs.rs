//! Running `git` and `npm`: without a terminal, without questions, and with their output kept
//! for when they fail.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use fluzo_exec::{
    CommandSpec, Environment, ExitStatus, LocalProcesses, LocalProcessesConfig, OutputSink,
    ProcessError, ProcessRunner,
};
use fluzo_llm::AbortSignal;
use fluzo_stdx::sanitize::terminal_text;
use thiserror::Error;

use crate::surroundings::Surroundings;

/// Most bytes of output that are kept: the last ones.
const KEPT: usize = 256 << 10;
/// Most lines of output that are shown.
const SHOWN_LINES: usize = 20;
/// Variables of git that say how a server is reached; all others would lead git elsewhere.
const GIT_VARIABLES: [&str; 6] = [
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSH_VARIANT",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "GIT_PROXY_COMMAND",
];

/// Why a program did not do its work.
#[derive(Debug, Error)]
pub(super) enum ProgramError {
    #[error("`{0}` was not found in PATH; install it, and run the command again")]
    Missing(String),
    #[error("`npmCommand` in the settings is empty; name a program")]
    NoCommand,
    #[error("`{0}` does not take the arguments of npm; `npmCommand` must lead to npm")]
    NotNpm(String),
    #[error("`{program}` failed ({how}){output}")]
    Failed {
        program: String,
        how: String,
        output: String,
    },
    #[error("`{program}` could not be run: {problem}")]
    Run {
        program: String,
        problem: ProcessError,
    },
}

/// The programs and what they are started with.
pub(super) struct Programs {
    runner: LocalProcesses,
    path: OsString,
    environment: Vec<(OsString, OsString)>,
    npm: Vec<String>,
}

impl Programs {
    /// `npm` is the program with its first arguments.
    pub(super) fn new(surroundings: &Surroundings, npm: Vec<String>) -> Self {
        let path = surroundings.variable("PATH").unwrap_or_default();
        let is_kept = |name: &OsStr| {
            let name = name.to_string_lossy();
            !name.starts_with("GIT_") || GIT_VARIABLES.contains(&&*name)
        };
        let environment = surroundings.raw_environment.iter();
        Self {
            runner: LocalProcesses::new(LocalProcessesConfig::default()),
            path: path.into(),
            environment: environment
                .filter(|(name, _)| is_kept(name))
                .cloned()
                .collect(),
            npm,
        }
    }

    /// Runs git in `cwd`; the configuration of a repository above `cwd` does not count.
    /// Dropping the future ends it.
    pub(super) async fn git(&self, cwd: &Path, arguments: &[&str]) -> Result<String, ProgramError> {
        let safe = [
            "core.hooksPath=/dev/null",
            "core.fsmonitor=false",
            "submodule.recurse=false",
        ];
        let safe = safe.into_iter().flat_map(|setting| ["-c", setting]);
        let arguments: Vec<_> = safe.chain(arguments.iter().copied()).collect();
        let above = cwd.parent().unwrap_or(cwd).as_os_str();
        let variables = [
            ("GIT_TERMINAL_PROMPT", OsStr::new("0")),
            ("GIT_ALLOW_PROTOCOL", OsStr::new("https:http:ssh:git:file")),
            ("GIT_CEILING_DIRECTORIES", above),
            ("LC_ALL", OsStr::new("C.UTF-8")),
        ];
        self.run("git", cwd, &arguments, &variables).await
    }

    /// Runs npm in `cwd`. Dropping the future ends it.
    pub(super) async fn npm(&self, cwd: &Path, arguments: &[&str]) -> Result<String, ProgramError> {
        let (program, first) = self.npm.split_first().ok_or(ProgramError::NoCommand)?;
        let last = Path::new(self.npm.last().unwrap_or(program)).file_stem();
        for other in ["pnpm", "yarn", "bun", "bunx", "npx"] {
            if last.is_some_and(|last| last == other) {
                return Err(ProgramError::NotNpm(other.to_owned()));
            }
        }
        let first = first.iter().map(String::as_str);
        let arguments: Vec<_> = first.chain(arguments.iter().copied()).collect();
        self.run(program, cwd, &arguments, &[]).await
    }

    async fn run(
        &self,
        program: &str,
        cwd: &Path,
        arguments: &[&str],
        variables: &[(&str, &OsStr)],
    ) -> Result<String, ProgramError> {
        let mut environment = self.environment.clone();
        environment.extend(
            variables
                .iter()
                .map(|(n, v)| ((*n).into(), (*v).to_owned())),
        );
        let spec = CommandSpec {
            program: self.find(program)?,
            args: arguments.iter().map(OsString::from).collect(),
            cwd: cwd.to_owned(),
            env: Environment::Exact(environment),
            timeout: None,
        };
        let mut tail = Tail::default();
        let run = self.runner.run(spec, &mut tail, AbortSignal::new());
        let report = run.await.map_err(|problem| ProgramError::Run {
            program: program.to_owned(),
            problem,
        })?;
        let how = match report.status {
            Some(ExitStatus::Code(0)) => return Ok(tail.text()),
            Some(ExitStatus::Code(code)) => format!("exit code {code}"),
            Some(ExitStatus::Signal(signal)) => format!("signal {signal}"),
            None => "it was ended".to_owned(),
        };
        Err(ProgramError::Failed {
            program: program.to_owned(),
            how,
            output: shown(&tail.text()),
        })
    }

    /// Only absolute folders are searched, so that no project brings its own program.
    fn find(&self, program: &str) -> Result<PathBuf, ProgramError> {
        let is_program = |file: &PathBuf| {
            let meta = std::fs::metadata(file);
            meta.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        };
        if Path::new(program).is_absolute() {
            return Ok(program.into());
        }
        let is_name = !program.is_empty() && !program.contains('/');
        let folders = std::env::split_paths(&self.path).filter(|folder| folder.is_absolute());
        folders
            .map(|folder| folder.join(program))
            .find(|file| is_name && is_program(file))
            .ok_or_else(|| ProgramError::Missing(program.to_owned()))
    }
}

/// The last lines of an output, each on its own line below the error.
fn shown(output: &str) -> String {
    let output = terminal_text(output);
    let lines: Vec<_> = output
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let last = &lines[lines.len().saturating_sub(SHOWN_LINES)..];
    last.iter().map(|line| format!("\n  {line}")).collect()
}

#[derive(Default)]
struct Tail(Vec<u8>);

impl Tail {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

impl OutputSink for Tail {
    fn write(&mut self, chunk: &[u8]) {
        self.0.extend_from_slice(chunk);
        // Twice as much, so that not every chunk moves the rest.
        if self.0.len() > 2 * KEPT {
            self.0.drain(..self.0.len() - KEPT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_output_the_last_lines_are_shown() {
        let lines: String = (0..30).map(|n| format!("line {n}\n\n")).collect();
        let text = shown(&format!("\u{1b}[31m{lines}"));
        assert!(
            text.starts_with("\n  line 10\n") && text.ends_with("\n  line 29"),
            "{text}"
        );
        let mut tail = Tail::default();
        for _ in 0..100 {
            tail.write(&vec![b'x'; KEPT / 10]);
        }
        assert!(tail.text().len() <= 2 * KEPT);
    }
}
