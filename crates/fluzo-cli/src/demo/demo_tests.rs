use std::collections::BTreeMap;

use super::*;

fn surroundings() -> Surroundings {
    Surroundings::read()
}

/// Plays a scenario, and gives what was shown with what came of it.
fn played(scenario: Scenario) -> (String, Report) {
    let mut out = Vec::new();
    let options = Options::default();
    let mut output = Output {
        to: &mut out,
        failed: None,
    };
    let report = bugfix(&surroundings(), scenario, &options, &mut output).unwrap();
    (String::from_utf8(out).unwrap(), report)
}

fn outcomes(report: &Report) -> BTreeMap<&'static str, Verdict> {
    report
        .checks
        .iter()
        .map(|check| (check.name, check.outcome))
        .collect()
}

fn repair() -> Scenario {
    Scenario::from_json(fixture::scenario("repair").unwrap()).unwrap()
}

fn with(text: &str, replacement: &str) -> Scenario {
    let json = fixture::scenario("repair").unwrap();
    assert!(json.contains(text), "{text}");
    Scenario::from_json(&json.replace(text, replacement)).unwrap()
}

#[test]
fn one_changed_answer_changes_what_is_shown_and_what_comes_of_it() {
    let (shown, report) = played(repair());
    assert_eq!(
        report.status(),
        report::Status::Success,
        "{shown}\n{}",
        report.to_text()
    );
    assert!(shown.contains("I keep the greater of the two."));
    assert!(report.diff.contains(
        "+            Some(last) if last.reaches(next) => last.end = last.end.max(next.end),"
    ));

    every_check_was_made(report);

    let (other, equivalent) = played(with(
        "last.end = last.end.max(next.end)",
        "last.end = std::cmp::max(last.end, next.end)",
    ));
    assert_eq!(equivalent.status(), report::Status::Success, "{other}");
    assert!(other.contains("std::cmp::max(last.end, next.end)"));
    assert_ne!(shown, other);

    let (wrong, failed) = played(with("last.end.max(next.end)", "last.end.min(next.end)"));
    assert!(wrong.contains("last.end.min(next.end)"));
    assert_eq!(failed.status(), report::Status::ProviderFailure, "{wrong}");
}

fn every_check_was_made(report: Report) {
    let outcomes = outcomes(&report);
    let names = [
        "behaviour_holds",
        "build_files_unchanged",
        "failure_reproduced",
        "failure_seen_before_edit",
        "git_settings_unchanged",
        "implementation_changed",
        "implementation_plain",
        "no_unrelated_changes",
        "nothing_committed",
        "nothing_left_running",
        "nothing_staged",
        "programs_unchanged",
        "rerun_after_edit",
        "suite_passes",
        "tests_unchanged",
    ];
    assert_eq!(outcomes.keys().copied().collect::<Vec<_>>(), names);
    assert!(outcomes.values().all(|outcome| *outcome == Verdict::Passed));
    assert_eq!((report.counts.passed, report.counts.failed), (9, 0));
    let simulator = report.simulator.unwrap();
    assert!(simulator.passed, "{simulator}");
}

#[test]
fn unknown_scenarios_are_answered_with_the_names_there_are() {
    let mut err = Vec::new();
    let arguments = ["bugfix", "--scenario", "nothing"].map(str::to_owned);
    let code = run(&surroundings(), &arguments, &mut Vec::new(), &mut err);
    assert_eq!(code, USAGE);
    let text = String::from_utf8(err).unwrap();
    assert!(
        text.contains("`nothing`") && text.contains("cheat-ignore"),
        "{text}"
    );
}

#[test]
fn time_that_is_used_up_ends_a_hanging_run() {
    let mut spec = TestSpec::from_json(fixture::SPEC).unwrap();
    spec.budgets.seconds = 1;
    let mut scenario = repair();
    scenario.steps[0].reply.delivery.stall_before_head = true;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let report = runtime.block_on(play(&surroundings(), spec, scenario, false, &mut |_| {}));
    let report = report.unwrap();
    assert_eq!(report.status(), report::Status::BudgetExhausted);
    assert!(report.reason().contains("`seconds`"));
}
