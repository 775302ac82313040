//! Runs the suite apart from the agent, on copies that it never saw.

use std::io;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use super::checks::Check;
use super::fixture;
use super::programs::{ProgramError, Programs, Ran};
use super::spec::TestSpec;
use super::suite::{Expected, Suite};
use super::tree::Tree;

/// Longest time of one `cargo test`, the build included.
const LIMIT: Duration = Duration::from_secs(180);

/// Folders in which the suite is verified.
#[derive(Debug)]
pub(crate) struct Verifier<'a> {
    root: TempDir,
    programs: &'a Programs,
    spec: &'a TestSpec,
}

/// What the suite said after the repair.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Counts {
    /// Tests that passed.
    pub passed: usize,
    /// Tests that failed.
    pub failed: usize,
}

impl<'a> Verifier<'a> {
    /// Makes the folders below `parent`.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn create(
        parent: &Path,
        programs: &'a Programs,
        spec: &'a TestSpec,
    ) -> io::Result<Self> {
        let root = tempfile::Builder::new()
            .prefix("fluzo-verify-")
            .tempdir_in(parent)?;
        for folder in ["home", "tmp"] {
            std::fs::create_dir(root.path().join(folder))?;
        }
        Ok(Self {
            root,
            programs,
            spec,
        })
    }

    /// Whether the untouched fixture compiles and fails in the expected tests, by the expected assertion, and in no other.
    pub(crate) async fn failure_reproduced(&self) -> Check {
        let name = "failure_reproduced";
        let run = match self.suite("original", &fixture::tree()).await {
            Ok(run) => run,
            Err(problem) => return Check::not_run(name, problem),
        };
        if let Some(why) = unfinished(&run) {
            return Check::not_run(name, why);
        }
        let (failing, passing) = (
            names(&self.spec.suite.failing),
            names(&self.spec.suite.passing),
        );
        let expected = Expected {
            passing: &passing,
            failing: &failing,
        };
        let suite = Suite::parse(&run.output, run.succeeded);
        let assertion = (!run.output.contains(&self.spec.suite.failure))
            .then(|| format!("no failure says `{}`", self.spec.suite.failure));
        let seen = format!(
            "before the repair {} fails, {} pass",
            list(&failing),
            suite.passed()
        );
        Check::unless(
            name,
            suite
                .unexpected(expected)
                .or(assertion)
                .map(|problem| explained(problem, &run)),
            seen,
        )
    }

    /// Whether the fixture with the implementation files of `repaired` passes: its own suite, and the tests held back.
    pub(crate) async fn repaired(&self, repaired: &Tree) -> (Vec<Check>, Counts) {
        let mut tree = fixture::tree();
        for path in &self.spec.fixture.implementation {
            if let Some(bytes) = repaired.bytes(path) {
                tree.put_file(path, bytes);
            }
        }
        if tree == fixture::tree() {
            let why = "the implementation is as it was, and fails as it did";
            let failed = Check::unless("suite_passes", Some(why.to_owned()), "");
            return (
                vec![failed, Check::not_run("behaviour_holds", why)],
                Counts::default(),
            );
        }
        let mut counts = Counts::default();
        let known: Vec<String> =
            [&self.spec.suite.passing[..], &self.spec.suite.failing[..]].concat();
        let run = self.suite("repaired", &tree).await;
        let suite = judge("suite_passes", run, &known, &mut counts);
        let run = self.holdout("holdout", &tree).await;
        let holdout = judge(
            "behaviour_holds",
            run,
            &self.spec.suite.holdout,
            &mut Counts::default(),
        );
        (vec![suite, holdout], counts)
    }

    /// How the fixture and `after` differ, as a patch. The repository of the agent is not asked.
    ///
    /// # Errors
    /// The files could not be written, or git did not work.
    pub(crate) async fn difference(&self, after: &Tree) -> Result<String, String> {
        let folder = self.root.path().join("difference");
        for (name, tree) in [("a", &fixture::tree()), ("b", after)] {
            let side = folder.join(name);
            std::fs::create_dir_all(&side).map_err(|error| error.to_string())?;
            fixture::write_files(&side, tree.files()).map_err(|error| error.to_string())?;
        }
        self.programs.difference(&folder).await.map_err(with_cause)
    }

    /// Runs the suite in a new folder that holds `tree`, which must still be there when it has ended.
    async fn suite(&self, name: &str, tree: &Tree) -> Result<Ran, String> {
        let folder = self.root.path().join(name);
        fixture::write_files(&folder, tree.files()).map_err(|error| error.to_string())?;
        let arguments: Vec<&str> = self.spec.test_command.split_whitespace().skip(1).collect();
        let ran = self.cargo(&folder, &arguments).await?;
        unchanged(&folder, tree)?;
        Ok(ran)
    }

    /// Runs the tests held back on the implementation of `tree`, in a new folder.
    async fn holdout(&self, name: &str, tree: &Tree) -> Result<Ran, String> {
        let folder = self.root.path().join(name);
        let mut tree = tree.clone();
        for (path, text) in fixture::HOLDOUT {
            tree.put_file(path, text.as_bytes());
        }
        fixture::write_files(&folder, tree.files()).map_err(|error| error.to_string())?;
        let arguments = ["test", "--offline", "--locked", "--test", "holdout"];
        let ran = self.cargo(&folder, &arguments).await?;
        unchanged(&folder, &tree)?;
        Ok(ran)
    }

    async fn cargo(&self, folder: &Path, arguments: &[&str]) -> Result<Ran, String> {
        let ran = self
            .programs
            .cargo(folder, self.root.path(), arguments, LIMIT)
            .await
            .map_err(with_cause)?;
        match self.programs.exchanged() {
            None => Ok(ran),
            Some(problem) => Err(problem),
        }
    }
}

fn unchanged(folder: &Path, tree: &Tree) -> Result<(), String> {
    match Tree::read(folder, &[]) {
        Ok(now) if now == *tree => Ok(()),
        Ok(_) => Err("files changed while the suite ran".to_owned()),
        Err(error) => Err(format!("the files of the suite cannot be read: {error}")),
    }
}

fn judge(
    name: &'static str,
    run: Result<Ran, String>,
    known: &[String],
    counts: &mut Counts,
) -> Check {
    let run = match run {
        Ok(run) => run,
        Err(problem) => return Check::not_run(name, problem),
    };
    if let Some(why) = unfinished(&run) {
        return Check::not_run(name, why);
    }
    let suite = Suite::parse(&run.output, run.succeeded);
    *counts = Counts {
        passed: suite.passed(),
        failed: suite.failed(),
    };
    let expected = Expected {
        passing: &names(known),
        failing: &[],
    };
    let problem = suite
        .unexpected(expected)
        .map(|problem| explained(problem, &run));
    Check::unless(
        name,
        problem,
        format!("{} tests ran, all passed", suite.passed()),
    )
}

/// The problem, with what the build said when it is the build that failed.
fn explained(problem: String, run: &Ran) -> String {
    let ran = run.output.contains("test result: ");
    let error = run.output.lines().find(|line| line.starts_with("error"));
    match error.filter(|_| !ran) {
        Some(error) => format!("{problem}: {error}"),
        None => problem,
    }
}

fn unfinished(run: &Ran) -> Option<String> {
    run.timed_out
        .then(|| format!("the suite did not end within {} s", LIMIT.as_secs()))
}

fn names(all: &[String]) -> Vec<&str> {
    all.iter().map(String::as_str).collect()
}

fn list(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

fn with_cause(error: ProgramError) -> String {
    match std::error::Error::source(&error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
