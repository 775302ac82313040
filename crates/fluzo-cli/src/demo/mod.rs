//! `fluzo demo bugfix`: the agent repairs a failing test, and what it did is verified apart from it.
//!
//! Everything happens in a throw-away copy of a small crate that the program carries with it. The model's answers are
//! scripted and come from a server in this process; provider, loop, tools and session are the real ones, put together as
//! for `fluzo pi`. Nobody's word is taken for the result: not the agent's, and not the test run that the agent saw.

mod arguments;
mod checks;
mod engine;
mod fixture;
mod leftovers;
mod plain;
mod programs;
mod report;
mod show;
mod source;
mod spec;
mod suite;
mod timeline;
mod toolchain;
mod tree;
mod verify;
mod workspace;

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Instant;

use fluzo_sim::{Scenario, ScenarioError, Simulator};
use serde_json::{Value, json};

use arguments::{Asked, Options};
use checks::{Check, Verdict};
use engine::{End, Setup};
use programs::{ProgramError, Programs};
use report::{Changed, Report};
use spec::{SpecError, TestSpec};
use tree::Tree;
use verify::{Counts, Verifier};
use workspace::{GitState, Workspace, WorkspaceError};

pub(crate) use arguments::command;

use crate::surroundings::Surroundings;

/// Why nothing is run.
const UNTRUSTED: &str = "what verification relies on is not what it was before the run";
const FAILED: i32 = 1;
const USAGE: i32 = 2;
const CONFIGURATION: i32 = 3;
const CANCELLED: i32 = 130;

/// Runs `fluzo demo` with `arguments` and returns the exit code.
pub(crate) fn run(
    surroundings: &Surroundings,
    arguments: &[String],
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> i32 {
    let options = match arguments::parse(arguments) {
        Ok(Asked::Bugfix(options)) => options,
        Ok(Asked::Text(text)) => {
            tell(out, &text);
            return 0;
        }
        Err(text) => {
            tell(err, &text);
            return USAGE;
        }
    };
    let mut out = Output {
        to: out,
        failed: None,
    };
    let result = chosen(surroundings, &options)
        .and_then(|scenario| bugfix(surroundings, scenario, &options, &mut out));
    let code = match result {
        Ok(report) if options.json => {
            out.write(&format!("{}\n", report.to_json()));
            report.status().code()
        }
        Ok(report) => {
            out.write(&report.to_text());
            report.status().code()
        }
        Err(error) => {
            if options.json {
                out.write(&format!("{}\n", error.to_json()));
            }
            tell(err, &error.text());
            error.code()
        }
    };
    match out.failed {
        None => code,
        Some(error) => {
            tell(
                err,
                &format!("error: the output could not be written: {error}\n"),
            );
            // What came of the demo is not known to the caller, whatever it was.
            if code == 0 { FAILED } else { code }
        }
    }
}

/// Why the demo did not come to a result.
#[derive(Debug, thiserror::Error)]
enum DemoError {
    #[error("no scenario is called `{0}`")]
    UnknownScenario(String),
    #[error("the scenario file `{path}` cannot be read")]
    ScenarioFile { path: String, source: io::Error },
    #[error("the scenario `{name}` cannot be played: {}", plain::cause(problem))]
    Scenario {
        name: String,
        problem: ScenarioError,
    },
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    #[error("the folder for temporary files, `{}` {of}, cannot be used", path.display())]
    Temporary {
        path: PathBuf,
        of: &'static str,
        source: io::Error,
    },
    #[error("the demo could not be started")]
    Start(#[source] io::Error),
    #[error("the demo was cancelled by a signal")]
    Cancelled,
}

impl DemoError {
    fn code(&self) -> i32 {
        match self {
            Self::UnknownScenario(_) | Self::ScenarioFile { .. } | Self::Scenario { .. } => USAGE,
            Self::Spec(_) | Self::Workspace(_) | Self::Temporary { .. } | Self::Start(_) => {
                CONFIGURATION
            }
            Self::Cancelled => CANCELLED,
        }
    }

    fn status(&self) -> &'static str {
        match self.code() {
            USAGE => "usage",
            CANCELLED => "cancelled",
            _ => "configuration_required",
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::UnknownScenario(_) => {
                let names: Vec<&str> = fixture::scenario_names().collect();
                Some(format!(
                    "there are {}; a file of your own ends in `.json`",
                    names.join(", ")
                ))
            }
            Self::Temporary { .. } => {
                Some("set `TMPDIR` to a folder that you can write to".to_owned())
            }
            Self::Workspace(WorkspaceError::Program(error)) => Some(error.hint().to_owned()),
            _ => None,
        }
    }

    fn with_causes(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text.push_str(&format!(": {error}"));
            cause = error.source();
        }
        text
    }

    fn to_json(&self) -> Value {
        json!({
            "command": "demo bugfix",
            "status": self.status(),
            "exitCode": self.code(),
            "reason": self.with_causes(),
            "hint": self.hint(),
        })
    }

    fn text(&self) -> String {
        let mut text = format!("error: {}", self.with_causes());
        if let Some(hint) = self.hint() {
            text.push_str(&format!("\nhint: {hint}"));
        }
        text.push('\n');
        text
    }
}

impl From<ProgramError> for DemoError {
    fn from(error: ProgramError) -> Self {
        Self::Workspace(error.into())
    }
}

/// The scenario that was asked for: one of ours, or a file.
fn chosen(surroundings: &Surroundings, options: &Options) -> Result<Scenario, DemoError> {
    let default = || TestSpec::from_json(fixture::SPEC).map(|spec| spec.scenario.name);
    let name = match &options.scenario {
        Some(name) => name.clone(),
        None => default()?,
    };
    let text = match fixture::scenario(&name) {
        Some(text) => text.to_owned(),
        None if name.ends_with(".json") => std::fs::read_to_string(surroundings.path(&name))
            .map_err(|source| DemoError::ScenarioFile {
                path: name.clone(),
                source,
            })?,
        None => return Err(DemoError::UnknownScenario(name)),
    };
    Scenario::from_json(&text).map_err(|problem| DemoError::Scenario { name, problem })
}

fn bugfix(
    surroundings: &Surroundings,
    scenario: Scenario,
    options: &Options,
    out: &mut Output<'_>,
) -> Result<Report, DemoError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(DemoError::Start)?;
    let mut show = |text: &str| {
        if !options.json {
            out.write(text);
        }
    };
    let spec = TestSpec::from_json(fixture::SPEC)?;
    runtime.block_on(async {
        tokio::select! {
            biased;
            // What is dropped ends its processes and removes its folders.
            () = stop_signal() => Err(DemoError::Cancelled),
            report = play(surroundings, spec, scenario, options.keep, &mut show) => report,
        }
    })
}

/// Ends when the process is told to stop.
async fn stop_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let (interrupt, terminate) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    );
    match (interrupt, terminate) {
        (Ok(mut interrupt), Ok(mut terminate)) => tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        },
        // Without handlers the signals end the process by themselves.
        _ => std::future::pending().await,
    }
}

/// Plays `scenario` from the copy to the verdict, and calls `show` with what there is to see.
async fn play(
    surroundings: &Surroundings,
    spec: TestSpec,
    scenario: Scenario,
    keep: bool,
    show: &mut dyn FnMut(&str),
) -> Result<Report, DemoError> {
    let parent = temporary_folder(surroundings)?;
    let workspace = Workspace::create(&parent)
        .map_err(|source| unusable(surroundings, parent.clone(), source))?;
    let variable = |name: &str| surroundings.variable(name).map(Into::into);
    let programs = Programs::find(&variable, &workspace.home()).await?;
    programs.require_rust(&spec.toolchain.minimum_rust)?;
    let revision = workspace.fill(&programs).await?;
    if revision != spec.fixture.revision {
        return Err(DemoError::Workspace(WorkspaceError::Revision {
            found: revision,
            expected: spec.fixture.revision,
        }));
    }
    let mut report = Report {
        scenario: scenario.name.clone(),
        programs: (programs.rustc_version.clone(), programs.git_version.clone()),
        revision,
        outcome: None,
        simulator: None,
        checks: Vec::new(),
        counts: Counts::default(),
        changes: Vec::new(),
        diff: String::new(),
        duration_ms: 0,
        kept: None,
        spec,
    };
    show(&opening(&report, &workspace));
    let spec = report.spec.clone();
    let verifier = || Verifier::create(&parent, &programs, &spec).map_err(WorkspaceError::Io);
    let reproduced = verifier()?.failure_reproduced().await;
    show(&format!("{}: {}\n", reproduced.name, reproduced.detail));
    let sound = reproduced.outcome == Verdict::Passed;
    report.checks.push(reproduced);
    if sound {
        let git = workspace.git_state(&programs, None).await?;
        work(
            surroundings,
            scenario,
            &workspace,
            &programs,
            &mut report,
            show,
        )
        .await?;
        let trusted = settle(&workspace, &programs, &mut report).await;
        // In folders that did not exist while something of the agent ran.
        let verifier = verifier()?;
        verify(&workspace, &programs, &verifier, &git, trusted, &mut report).await;
    }
    if keep {
        report.kept = Some(workspace.keep().display().to_string());
    }
    Ok(report)
}

/// Lets the agent work against the simulator.
async fn work(
    surroundings: &Surroundings,
    scenario: Scenario,
    workspace: &Workspace,
    programs: &Programs,
    report: &mut Report,
    show: &mut dyn FnMut(&str),
) -> Result<(), DemoError> {
    let model = scenario
        .models
        .first()
        .map(|model| model.id.clone())
        .unwrap_or_default();
    let simulator = Simulator::start(scenario).map_err(DemoError::Start)?;
    let setup = Setup {
        spec: &report.spec,
        workspace,
        programs,
        base_url: &simulator.base_url(),
        model: &model,
        inherited: &surroundings.raw_environment,
    };
    show("\n== The agent\n");
    let began = Instant::now();
    let outcome = engine::run(&setup, show).await;
    report.duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let verdict = simulator.finish();
    report.simulator = Some(verdict);
    report.outcome = Some(outcome);
    Ok(())
}

/// Ends what still runs, and says whether what verification relies on is as it was.
async fn settle(workspace: &Workspace, programs: &Programs, report: &mut Report) -> bool {
    let background = report.outcome.as_ref().map(|outcome| &outcome.background);
    let known = background.cloned().unwrap_or_default();
    let ended = leftovers::end(programs, workspace.root(), &known).await;
    let gone = ended.is_ok();
    report.checks.push(match ended {
        Ok(ended) => checks::of_processes(&ended),
        Err(problem) => Check::unless("nothing_left_running", Some(problem), ""),
    });
    let exchanged = programs.exchanged();
    let same = exchanged.is_none();
    report.checks.push(checks::of_programs(exchanged));
    gone && same
}

/// Looks at what the agent left behind. Nothing is run unless the programs are `trusted`.
async fn verify(
    workspace: &Workspace,
    programs: &Programs,
    verifier: &Verifier<'_>,
    before: &GitState,
    trusted: bool,
    report: &mut Report,
) {
    let after = match workspace.files() {
        Ok(after) => after,
        Err(error) => {
            let unread = Check::not_run(
                "no_unrelated_changes",
                format!("the copy cannot be read: {error}"),
            );
            report.checks.push(unread);
            return;
        }
    };
    if let Some(outcome) = &report.outcome {
        let course = checks::of_course(&report.spec, &outcome.timeline, &after);
        report.checks.extend(course);
    }
    let changes = checks::of_files(&report.spec, &fixture::tree(), &after);
    let tricky = checks::trick(&report.spec, &after);
    report.checks.extend(changes);
    if trusted {
        match workspace.git_state(programs, Some(before)).await {
            Ok(state) => report.checks.extend(checks::of_git(before, &state)),
            Err(error) => report
                .checks
                .push(Check::not_run("nothing_committed", error.to_string())),
        }
        report.diff = verifier.difference(&after).await.unwrap_or_default();
    } else {
        report
            .checks
            .push(Check::not_run("nothing_committed", UNTRUSTED));
    }
    report.changes = after_changes(&after);
    let completed = report
        .outcome
        .as_ref()
        .is_some_and(|outcome| outcome.end == End::Completed);
    let skip = match tricky {
        _ if !trusted => Some(UNTRUSTED),
        _ if !completed => Some("the agent's run did not end by itself"),
        Some(_) => Some("the implementation is not compiled with what it holds"),
        None => None,
    };
    if let Some(why) = skip {
        let names = ["suite_passes", "behaviour_holds"];
        report
            .checks
            .extend(names.map(|name| Check::not_run(name, why)));
        return;
    }
    let (suite, counts) = verifier.repaired(&after).await;
    report.checks.extend(suite);
    report.counts = counts;
}

/// What differs from the fixture, in words.
fn after_changes(after: &Tree) -> Vec<Changed> {
    let before = fixture::tree();
    let changes = before.changes(after).into_iter();
    changes
        .map(|(path, change)| Changed {
            path: path.to_owned(),
            change: change.word(),
        })
        .collect()
}

fn opening(report: &Report, workspace: &Workspace) -> String {
    let spec = &report.spec;
    format!(
        "Fluzo demo `{}`: the agent repairs a failing test of the crate `{}`.\n\
         The copy is thrown away, your files are not touched: {}\n\
         Engine: the open profile, in which no policy is enforced. Model: scripted answers (`{}`) from a server in this \
         process; token counts are made up.\n\
         Fixture {}, {}, {}\n\
         Limits: {} turns, {} tool calls, {} s. Watched for changes: {}, nothing else.\n\n\
         == Before\n",
        spec.name,
        spec.fixture.name,
        workspace.project().display(),
        report.scenario,
        report.revision,
        report.programs.0,
        report.programs.1,
        spec.budgets.turns,
        spec.budgets.tool_calls,
        spec.budgets.seconds,
        spec.watched,
    )
}

/// The folder for temporary files, by its real name: builds print real names.
fn temporary_folder(surroundings: &Surroundings) -> Result<PathBuf, DemoError> {
    let folder = std::env::temp_dir();
    folder
        .canonicalize()
        .map_err(|source| unusable(surroundings, folder, source))
}

fn unusable(surroundings: &Surroundings, path: PathBuf, source: io::Error) -> DemoError {
    let of = match surroundings.variable("TMPDIR") {
        Some(_) => "from `TMPDIR`",
        None => "as `TMPDIR` is not set",
    };
    DemoError::Temporary { path, of, source }
}

/// Standard output, and the first thing that went wrong with it.
struct Output<'a> {
    to: &'a mut dyn Write,
    failed: Option<io::Error>,
}

impl Output<'_> {
    /// Writes text. A reader that is gone is no failure of the demo.
    fn write(&mut self, text: &str) {
        let written = self
            .to
            .write_all(text.as_bytes())
            .and_then(|()| self.to.flush());
        if let Err(error) = written
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            self.failed.get_or_insert(error);
        }
    }
}

/// Writes a message; there is nowhere to say that it failed.
fn tell(to: &mut dyn Write, text: &str) {
    let _ = to.write_all(text.as_bytes()).and_then(|()| to.flush());
}

#[cfg(test)]
#[path = "demo_tests.rs"]
mod tests;
