//! The test specification that stands beside the fixture.

use std::time::Duration;

use serde::Deserialize;

/// The version of the format that is read.
pub(crate) const VERSION: u32 = 1;

/// What a run works on, what it may use, and what it must come to.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TestSpec {
    /// Format version, [`VERSION`].
    pub version: u32,
    /// Name of the demo.
    pub name: String,
    /// The project that is repaired.
    pub fixture: FixtureSpec,
    /// What the user asks for.
    pub prompt: String,
    /// What must be installed.
    pub toolchain: Toolchain,
    /// The designated test command.
    pub test_command: String,
    /// How the run is executed.
    pub profile: Profile,
    /// What the scripted provider plays unless another scenario is chosen.
    pub scenario: ScenarioSpec,
    /// What the agent is given.
    pub permissions: Permissions,
    /// Where changes are looked for. Files elsewhere are not watched.
    pub watched: String,
    /// Where a run is ended.
    pub budgets: Budgets,
    /// The tests and what is expected of them.
    pub suite: SuiteSpec,
}

/// The project that is repaired.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FixtureSpec {
    /// Name of the package.
    pub name: String,
    /// Id of the git tree that holds exactly its files.
    pub revision: String,
    /// The files that a repair may change.
    pub implementation: Vec<String>,
}

/// What must be installed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Toolchain {
    /// Oldest Rust version.
    pub minimum_rust: String,
    /// Edition of the fixture.
    pub edition: String,
}

/// How the run is executed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    /// The engine's profile.
    pub engine: String,
    /// Who answers: `deterministic` is a scripted provider.
    pub models: String,
}

/// A scenario by name and format.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScenarioSpec {
    /// Its name.
    pub name: String,
    /// Version of the scenario format.
    pub format: u32,
}

/// What the agent is given.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Permissions {
    /// The tools, and no others.
    pub tools: Vec<String>,
    /// Commands, by a part of them, that a hook of the run refuses.
    pub refused_commands: Vec<String>,
    /// The policy in front of the tools.
    pub policy: String,
}

/// Where a run is ended. All are finite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Budgets {
    /// Most responses.
    pub turns: u32,
    /// Most tool calls.
    pub tool_calls: u32,
    /// Longest time in seconds.
    pub seconds: u64,
}

/// The tests by name. Names are unique in the fixture.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SuiteSpec {
    /// Tests that the bug makes fail.
    pub failing: Vec<String>,
    /// What the failure says.
    pub failure: String,
    /// Tests that pass from the start.
    pub passing: Vec<String>,
    /// Tests that the agent never sees.
    pub holdout: Vec<String>,
}

/// Why a specification cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SpecError {
    /// Not JSON, or not of this form.
    #[error("the test specification is not readable")]
    Unreadable(#[from] serde_json::Error),
    /// Readable, but it makes no sense.
    #[error("the test specification is not usable: {0}")]
    Invalid(&'static str),
}

impl TestSpec {
    /// Reads a specification.
    ///
    /// # Errors
    /// When it is no JSON of this form, has another version, a budget of zero, or no test that fails at first.
    pub(crate) fn from_json(text: &str) -> Result<Self, SpecError> {
        let spec: Self = serde_json::from_str(text)?;
        let rules = [
            (spec.version == VERSION, "its version is not known"),
            (!spec.prompt.is_empty(), "`prompt` is empty"),
            (spec.budgets.turns > 0, "`budgets.turns` is zero"),
            (spec.budgets.tool_calls > 0, "`budgets.tool_calls` is zero"),
            (spec.budgets.seconds > 0, "`budgets.seconds` is zero"),
            (!spec.suite.failing.is_empty(), "`suite.failing` is empty"),
            (!spec.suite.failure.is_empty(), "`suite.failure` is empty"),
            (
                !spec.fixture.implementation.is_empty(),
                "`fixture.implementation` is empty",
            ),
            (
                spec.test_command.starts_with("cargo test"),
                "`test_command` is not `cargo test`",
            ),
        ];
        match rules.iter().find(|(holds, _)| !holds) {
            Some((_, problem)) => Err(SpecError::Invalid(problem)),
            None => Ok(spec),
        }
    }
}

impl Budgets {
    /// The longest time of a run.
    pub(crate) fn time(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::demo::fixture;

    fn check(pointer: &str, value: Value, problem: &str) {
        let mut spec: Value = serde_json::from_str(fixture::SPEC).unwrap();
        *spec.pointer_mut(pointer).unwrap() = value;
        let error = TestSpec::from_json(&spec.to_string()).unwrap_err();
        let text = match &error {
            SpecError::Unreadable(cause) => cause.to_string(),
            SpecError::Invalid(problem) => (*problem).to_owned(),
        };
        assert!(text.contains(problem), "{pointer}: {text}");
    }

    #[test]
    fn the_specification_records_what_a_run_depends_on() {
        let spec = TestSpec::from_json(fixture::SPEC).unwrap();
        assert_eq!(spec.fixture.revision.len(), 40);
        assert_eq!(spec.profile.engine, "open");
        assert_eq!(spec.scenario.format, fluzo_sim::VERSION);
        assert!(spec.prompt.contains(&spec.test_command));
        assert!(!spec.permissions.tools.is_empty());
        assert!(spec.budgets.time() > Duration::ZERO);
    }

    #[test]
    fn a_specification_that_makes_no_sense_is_refused() {
        check("/version", json!(2), "version");
        check("/budgets/turns", json!(0), "turns");
        check("/budgets/tool_calls", json!(0), "tool_calls");
        check("/budgets/seconds", json!(0), "seconds");
        check("/budgets", json!({"turns": 1}), "missing field");
        check("/suite/failing", json!([]), "failing");
        check("/test_command", json!("true"), "cargo test");
        check("/fixture", json!({"other": 1}), "unknown field");
    }
}
