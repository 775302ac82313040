//! What `cargo test` said, test by test.

use std::collections::{BTreeMap, BTreeSet};

/// The results of one `cargo test`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Suite {
    results: BTreeMap<String, Vec<String>>,
    left_out: u64,
    succeeded: bool,
}

/// What a suite is expected to say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected<'a> {
    /// Tests that pass.
    pub passing: &'a [&'a str],
    /// Tests that fail.
    pub failing: &'a [&'a str],
}

impl Suite {
    /// Reads the output of a run that ended by itself; `succeeded` is its exit status.
    pub(crate) fn parse(output: &str, succeeded: bool) -> Self {
        let mut suite = Self {
            succeeded,
            ..Self::default()
        };
        for line in output.lines() {
            if let Some(summary) = line.strip_prefix("test result: ") {
                suite.left_out += left_out(summary);
            } else if let Some((name, result)) = line
                .strip_prefix("test ")
                .and_then(|rest| rest.split_once(" ... "))
            {
                let results = suite.results.entry(name.to_owned()).or_default();
                results.push(result.to_owned());
            }
        }
        suite
    }

    /// How many tests passed.
    pub(crate) fn passed(&self) -> usize {
        self.count("ok")
    }

    /// How many tests failed.
    pub(crate) fn failed(&self) -> usize {
        self.count("FAILED")
    }

    /// Says the first thing that is not as expected: every expected test ran once, no other one did, none was left out.
    pub(crate) fn unexpected(&self, expected: Expected<'_>) -> Option<String> {
        let wanted = |names: &[&str], result: &'static str| -> Vec<(String, &'static str)> {
            names
                .iter()
                .map(|name| ((*name).to_owned(), result))
                .collect()
        };
        let mut all = wanted(expected.passing, "ok");
        all.extend(wanted(expected.failing, "FAILED"));
        for (name, result) in &all {
            match self.results.get(name).map(Vec::as_slice) {
                None => return Some(format!("`{name}` did not run")),
                Some([found]) if found == result => {}
                Some([found]) => return Some(format!("`{name}` is `{found}`, not `{result}`")),
                Some(_) => return Some(format!("`{name}` is reported more than once")),
            }
        }
        let known: BTreeSet<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        if let Some(other) = self
            .results
            .keys()
            .find(|name| !known.contains(name.as_str()))
        {
            return Some(format!("`{other}` is no known test"));
        }
        if self.left_out > 0 {
            return Some("tests were ignored or filtered out".to_owned());
        }
        let right = self.succeeded == expected.failing.is_empty();
        (!right).then(|| "the exit status contradicts the results".to_owned())
    }

    fn count(&self, result: &str) -> usize {
        let results = self.results.values().flatten();
        results.filter(|found| *found == result).count()
    }
}

/// Tests that a summary line counts as anything but passed and failed.
fn left_out(summary: &str) -> u64 {
    summary
        .split(';')
        .filter_map(|part| part.trim().split_once(' '))
        .filter(|(_, what)| ["ignored", "measured", "filtered out"].contains(what))
        .filter_map(|(count, _)| count.parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "   Compiling x v0.1.0\n     Running tests/a.rs\n\nrunning 2 tests\ntest one ... ok\ntest two ... FAILED\n\n\
        failures:\n\ntest result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";

    fn check(
        output: &str,
        succeeded: bool,
        passing: &[&str],
        failing: &[&str],
        problem: Option<&str>,
    ) {
        let found = Suite::parse(output, succeeded).unexpected(Expected { passing, failing });
        match (&found, problem) {
            (None, None) => {}
            (Some(found), Some(problem)) if found.contains(problem) => {}
            _ => panic!("{found:?} instead of {problem:?}"),
        }
    }

    #[test]
    fn results_are_counted_by_name() {
        let suite = Suite::parse(OUTPUT, false);
        assert_eq!((suite.passed(), suite.failed()), (1, 1));
        check(OUTPUT, false, &["one"], &["two"], None);
        check(OUTPUT, true, &["one"], &["two"], Some("exit status"));
        check(
            OUTPUT,
            false,
            &["one", "two"],
            &[],
            Some("`two` is `FAILED`"),
        );
        check(
            OUTPUT,
            false,
            &["one", "three"],
            &["two"],
            Some("`three` did not run"),
        );
        check(OUTPUT, false, &[], &["two"], Some("`one` is no known test"));
    }

    #[test]
    fn what_was_left_out_is_noticed() {
        let ignored = OUTPUT.replace("two ... FAILED", "two ... ignored");
        check(
            &ignored,
            true,
            &["one", "two"],
            &[],
            Some("`two` is `ignored`"),
        );
        let filtered = OUTPUT.replace("0 filtered", "3 filtered");
        check(
            &filtered,
            false,
            &["one"],
            &["two"],
            Some("ignored or filtered"),
        );
        let twice = format!("{OUTPUT}test one ... ok\n");
        check(&twice, false, &["one"], &["two"], Some("more than once"));
        check("", true, &["one"], &[], Some("did not run"));
    }
}
