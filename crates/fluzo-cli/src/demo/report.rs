//! What the demo says in the end, for people and for programs.

use fluzo_sim::Verdict as Provider;
use fluzo_stdx::sanitize::terminal_text;
use serde_json::{Value, json};

use super::checks::{Check, Verdict};
use super::engine::{End, Outcome};
use super::show::line;
use super::spec::TestSpec;
use super::verify::Counts;

/// What came of the demo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// Everything holds.
    Success,
    /// The run could not go on.
    TaskFailed,
    /// A command was refused.
    PermissionDenied,
    /// A budget was used up.
    BudgetExhausted,
    /// The provider failed, or did not get what its script expects.
    ProviderFailure,
    /// A condition does not hold.
    VerificationFailed,
    /// A condition could not be looked at.
    VerificationIncomplete,
}

/// Everything that is known at the end.
#[derive(Debug, Clone)]
pub(crate) struct Report {
    /// The specification.
    pub spec: TestSpec,
    /// Name of the scenario.
    pub scenario: String,
    /// Toolchain and git, as they name themselves.
    pub programs: (String, String),
    /// Revision of the fixture.
    pub revision: String,
    /// The agent's run; none when it did not come to that.
    pub outcome: Option<Outcome>,
    /// The simulator's judgement.
    pub simulator: Option<Provider>,
    /// The conditions.
    pub checks: Vec<Check>,
    /// The suite after the repair.
    pub counts: Counts,
    /// The files of the copy that differ.
    pub changes: Vec<Changed>,
    /// What changed in them, as a patch.
    pub diff: String,
    /// How long the run took, in milliseconds.
    pub duration_ms: u64,
    /// The folder, when it stays.
    pub kept: Option<String>,
}

/// A file that differs.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Changed {
    /// Its path in the copy.
    pub path: String,
    /// Added, changed or removed.
    pub change: &'static str,
}

impl Status {
    /// The exit code.
    pub(crate) fn code(self) -> i32 {
        match self {
            Self::Success => 0,
            Self::TaskFailed => 1,
            Self::PermissionDenied => 5,
            Self::BudgetExhausted => 6,
            Self::ProviderFailure => 8,
            Self::VerificationFailed | Self::VerificationIncomplete => 9,
        }
    }

    /// The name in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::TaskFailed => "task_failed",
            Self::PermissionDenied => "permission_denied",
            Self::BudgetExhausted => "budget_exhausted",
            Self::ProviderFailure => "provider_failure",
            Self::VerificationFailed => "verification_failed",
            Self::VerificationIncomplete => "verification_incomplete",
        }
    }
}

impl Report {
    /// What came of the demo. What ended the run counts before what is wrong with its result.
    pub(crate) fn status(&self) -> Status {
        match self.outcome.as_ref().map(|outcome| &outcome.end) {
            Some(End::Budget(_)) => return Status::BudgetExhausted,
            Some(End::Provider(_)) => return Status::ProviderFailure,
            Some(End::Stopped(_) | End::Aborted) => return Status::TaskFailed,
            Some(End::Completed) | None => {}
        }
        if self
            .simulator
            .as_ref()
            .is_some_and(|simulator| !simulator.passed)
        {
            return Status::ProviderFailure;
        }
        if self
            .outcome
            .as_ref()
            .is_some_and(|outcome| !outcome.refused.is_empty())
        {
            return Status::PermissionDenied;
        }
        let any = |verdict| self.checks.iter().any(|check| check.outcome == verdict);
        if any(Verdict::Failed) {
            Status::VerificationFailed
        } else if any(Verdict::NotRun) || self.outcome.is_none() || self.checks.is_empty() {
            Status::VerificationIncomplete
        } else {
            Status::Success
        }
    }

    /// One line on why it is that status.
    pub(crate) fn reason(&self) -> String {
        let failed = |verdict| {
            let named = self.checks.iter().filter(|check| check.outcome == verdict);
            named.map(|check| check.name).collect::<Vec<_>>().join(", ")
        };
        let outcome = self.outcome.as_ref();
        match (self.status(), outcome.map(|outcome| &outcome.end)) {
            (Status::Success, _) => "every check passed".to_owned(),
            (Status::BudgetExhausted, Some(End::Budget(budget))) => {
                format!("the budget `{}` is used up", budget.name())
            }
            (_, Some(End::Provider(why) | End::Stopped(why))) => line(why),
            (Status::ProviderFailure, _) => {
                "the scripted provider got something it does not expect".to_owned()
            }
            (Status::PermissionDenied, _) => {
                let refused = outcome.map(|outcome| outcome.refused.join(", "));
                format!("refused: {}", refused.unwrap_or_default())
            }
            (Status::VerificationIncomplete, _) => {
                format!("not checked: {}", failed(Verdict::NotRun))
            }
            (_, Some(End::Aborted)) => "the run was aborted".to_owned(),
            _ => failed(Verdict::Failed),
        }
    }

    /// The result object.
    pub(crate) fn to_json(&self) -> Value {
        let spec = &self.spec;
        let status = self.status();
        json!({
            "command": "demo bugfix",
            "status": status.name(),
            "exitCode": status.code(),
            "reason": self.reason(),
            "profile": {"engine": spec.profile.engine, "models": spec.profile.models, "policyEnforced": false},
            "spec": {"name": spec.name, "version": spec.version},
            "fixture": {"name": spec.fixture.name, "revision": self.revision},
            "scenario": {"name": self.scenario, "format": spec.scenario.format},
            "toolchain": self.programs.0,
            "git": self.programs.1,
            "testCommand": spec.test_command,
            "checks": self.checks,
            "tests": self.counts,
            "watched": spec.watched,
            "changes": self.changes,
            "diff": self.diff,
            "run": self.outcome.as_ref().map(|outcome| self.run(outcome)),
            "simulator": self.simulator.as_ref().map(|simulator| json!({"passed": simulator.passed, "summary": provider(simulator)})),
            "live": "not_run",
            "folder": self.kept,
        })
    }

    fn run(&self, outcome: &Outcome) -> Value {
        let (timeline, budgets) = (&outcome.timeline, &self.spec.budgets);
        let end = match &outcome.end {
            End::Completed => "completed",
            End::Provider(_) => "provider_failure",
            End::Stopped(_) => "stopped",
            End::Budget(_) => "budget_exhausted",
            End::Aborted => "aborted",
        };
        json!({
            "end": end,
            "exceeded": timeline.exceeded,
            "turns": {"used": timeline.turns, "limit": budgets.turns},
            "toolCalls": {"used": timeline.tool_calls, "limit": budgets.tool_calls},
            "durationMs": {"used": self.duration_ms, "limit": budgets.seconds.saturating_mul(1000)},
            "refused": outcome.refused,
            "tokens": timeline.tokens,
            "tokensProvenance": "synthetic",
        })
    }

    /// The end of the output for people.
    pub(crate) fn to_text(&self) -> String {
        let mut text = String::from("\n== Verification, apart from the agent\n");
        for check in &self.checks {
            let mark = match check.outcome {
                Verdict::Passed => "ok  ",
                Verdict::Failed => "FAIL",
                Verdict::NotRun => "----",
            };
            text.push_str(&format!("{mark} {}: {}\n", check.name, line(&check.detail)));
        }
        text.push_str(&self.changed());
        text.push_str(&self.summary());
        text
    }

    /// What changed: every file, and the patch, which `git apply` takes as it is printed.
    fn changed(&self) -> String {
        if self.changes.is_empty() {
            return String::new();
        }
        let mut text = format!("\n== What changed in {}\n", self.spec.watched);
        for changed in &self.changes {
            text.push_str(&format!("{} {}\n", changed.change, line(&changed.path)));
        }
        if self.diff.is_empty() {
            return text;
        }
        let patch = terminal_text(&self.diff);
        match patch.lines().count() {
            0..=MOST_LINES => text.push_str(&format!("\n{}\n", patch.trim_end_matches('\n'))),
            lines => text.push_str(&format!(
                "\nthe patch has {lines} lines; `--json` prints it whole\n"
            )),
        }
        text
    }

    /// The last lines, at most six with the title.
    fn summary(&self) -> String {
        let mut text = format!(
            "\n== Summary\n{}: {}\n",
            self.status().name(),
            self.reason()
        );
        if let Some(outcome) = &self.outcome {
            let paths: Vec<&str> = self.changes.iter().map(|c| c.path.as_str()).collect();
            let changed = match paths.as_slice() {
                [] => "nothing".to_owned(),
                paths => line(&paths.join(", ")),
            };
            text.push_str(&format!(
                "run: {}, {}; changed: {changed}\n",
                count(outcome.timeline.turns as usize, "turn"),
                count(outcome.timeline.tool_calls as usize, "tool call"),
            ));
        }
        if let Some(simulator) = &self.simulator {
            text.push_str(&format!("provider: {}\n", line(&provider(simulator))));
        }
        if let Some(folder) = &self.kept {
            text.push_str(&format!("kept: {folder}\n"));
        }
        text
    }
}

/// Patches of more lines are not printed: a part of a patch is none.
const MOST_LINES: usize = 400;

/// Whether the script was followed. It says nothing on the repair.
fn provider(simulator: &Provider) -> String {
    let (played, total) = (simulator.steps_played, simulator.steps_total);
    let asked = match played == total {
        true if total == 1 => "the one answer was asked for".to_owned(),
        true => format!("all {total} answers were asked for"),
        false => format!("{played} of {} were asked for", count(total, "answer")),
    };
    let order: Vec<String> = simulator
        .violations
        .iter()
        .map(ToString::to_string)
        .collect();
    match order.as_slice() {
        [] => format!("{asked}, nothing out of order"),
        order => format!("{asked}; {}", order.join("; ")),
    }
}

fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::fixture;
    use crate::demo::timeline::{Exceeded, Timeline};

    fn report(end: End) -> Report {
        Report {
            spec: TestSpec::from_json(fixture::SPEC).unwrap(),
            scenario: "repair".to_owned(),
            programs: ("rustc 1".to_owned(), "git 2".to_owned()),
            revision: "0".repeat(40),
            outcome: Some(Outcome {
                end,
                timeline: Timeline::default(),
                refused: Vec::new(),
                background: Vec::new(),
            }),
            simulator: Some(simulator(true)),
            checks: vec![Check::unless("one", None, "seen")],
            counts: Counts::default(),
            changes: Vec::new(),
            diff: String::new(),
            duration_ms: 1,
            kept: None,
        }
    }

    fn simulator(passed: bool) -> Provider {
        Provider {
            passed,
            violations: Vec::new(),
            requests: 6,
            connections: 1,
            peak_overlap: 1,
            quirk_refusals: 0,
            steps_played: if passed { 6 } else { 5 },
            steps_total: 6,
        }
    }

    fn check(change: impl FnOnce(&mut Report), end: End, status: Status, reason: &str) {
        let mut report = report(end);
        change(&mut report);
        assert_eq!(report.status(), status);
        assert!(report.reason().contains(reason), "{}", report.reason());
        let json = report.to_json();
        assert_eq!(json["status"], status.name());
        assert_eq!(json["exitCode"], status.code());
        let last = format!("{}: {}", status.name(), report.reason());
        assert!(report.to_text().contains(&last));
    }

    #[test]
    fn every_end_has_its_own_status() {
        let failed = || Check::unless("two", Some("bad".to_owned()), "");
        let not_run = || Check::not_run("three", "why");
        check(|_| {}, End::Completed, Status::Success, "every check");
        check(
            |r| r.checks.push(failed()),
            End::Completed,
            Status::VerificationFailed,
            "two",
        );
        check(
            |r| r.checks.push(not_run()),
            End::Completed,
            Status::VerificationIncomplete,
            "three",
        );
        check(
            |r| r.checks.clear(),
            End::Completed,
            Status::VerificationIncomplete,
            "not checked",
        );
        check(
            |r| r.outcome = None,
            End::Completed,
            Status::VerificationIncomplete,
            "",
        );
        check(
            |_| {},
            End::Budget(Exceeded::Turns),
            Status::BudgetExhausted,
            "turns",
        );
        check(
            |_| {},
            End::Provider("no model".to_owned()),
            Status::ProviderFailure,
            "no model",
        );
        check(
            |r| r.simulator = Some(simulator(false)),
            End::Completed,
            Status::ProviderFailure,
            "expect",
        );
        check(
            |_| {},
            End::Stopped("disk full".to_owned()),
            Status::TaskFailed,
            "disk full",
        );
        check(|_| {}, End::Aborted, Status::TaskFailed, "aborted");
        let refuse = |r: &mut Report| {
            r.outcome
                .as_mut()
                .unwrap()
                .refused
                .push("git push".to_owned())
        };
        check(refuse, End::Completed, Status::PermissionDenied, "git push");
    }

    #[test]
    fn the_end_is_a_summary_of_at_most_six_lines() {
        let mut report = report(End::Completed);
        report.kept = Some("/kept".to_owned());
        report.changes = vec![Changed {
            path: "src/a.rs".to_owned(),
            change: "changed",
        }];
        let expected = "== Summary\nsuccess: every check passed\n\
            run: 0 turns, 0 tool calls; changed: src/a.rs\n\
            provider: all 6 answers were asked for, nothing out of order\nkept: /kept\n";
        assert!(report.to_text().ends_with(expected), "{}", report.to_text());
        assert_eq!(
            provider(&simulator(false)),
            "5 of 6 answers were asked for, nothing out of order"
        );
    }

    #[test]
    fn usage_is_marked_as_synthetic_and_live_as_not_run() {
        let json = report(End::Completed).to_json();
        assert_eq!(json["run"]["tokensProvenance"], "synthetic");
        assert_eq!(json["live"], "not_run");
        assert_eq!(json["profile"]["policyEnforced"], false);
    }
}
