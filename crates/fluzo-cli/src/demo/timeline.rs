//! What the agent did, as far as it is judged.

use std::collections::BTreeMap;

use fluzo_llm::{Message, content::joined_text};
use fluzo_protocol::Event;
use serde::Serialize;

use super::spec::Budgets;
use super::tree::Tree;

/// What is known of a run from its events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Timeline {
    /// Responses that were begun.
    pub turns: u32,
    /// Tool calls that were taken up.
    pub tool_calls: u32,
    /// The budget that ended the run.
    pub exceeded: Option<Exceeded>,
    /// Tokens that the provider reported.
    pub tokens: Tokens,
    runs: Vec<TestRun>,
    open: BTreeMap<String, bool>,
}

/// One run of the designated suite by the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TestRun {
    /// Whether all files were those of the fixture, before and after.
    pub untouched: bool,
    /// Whether it succeeded.
    pub succeeded: bool,
    /// What the agent was told.
    pub output: String,
    /// The files when it had ended.
    pub files: Tree,
}

/// A budget of the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Exceeded {
    /// Responses.
    Turns,
    /// Tool calls.
    ToolCalls,
    /// Time.
    Seconds,
}

/// Tokens of all responses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Tokens {
    /// Sent, cached ones included.
    pub input: u64,
    /// Received.
    pub output: u64,
}

impl Timeline {
    /// The runs of the suite, in the order in which they ended.
    pub(crate) fn test_runs(&self) -> impl DoubleEndedIterator<Item = &TestRun> {
        self.runs.iter()
    }

    /// Takes an event in. `look` reads the files of the copy at this moment, `before` are those of the fixture. Says
    /// whether the run has used up a budget and must end.
    pub(crate) fn take(
        &mut self,
        event: &Event,
        budgets: &Budgets,
        before: &Tree,
        look: &dyn Fn() -> Tree,
    ) -> bool {
        match event {
            Event::TurnStart => {
                self.turns += 1;
                self.limit(self.turns > budgets.turns, Exceeded::Turns);
            }
            Event::ToolExecutionStart {
                call_id,
                tool_name,
                args,
            } => {
                self.tool_calls += 1;
                self.limit(self.tool_calls > budgets.tool_calls, Exceeded::ToolCalls);
                let command = args.get("command").and_then(|command| command.as_str());
                if tool_name == "bash"
                    && command.is_some_and(|command| command.contains("cargo test"))
                {
                    self.open.insert(call_id.clone(), look() == *before);
                }
            }
            Event::ToolExecutionEnd {
                call_id,
                result,
                is_error,
                ..
            } => {
                if let Some(untouched) = self.open.remove(call_id) {
                    let files = look();
                    let output = joined_text(&result.content);
                    self.runs.push(TestRun {
                        untouched: untouched && files == *before,
                        succeeded: !is_error && !output.contains("test result: FAILED"),
                        output,
                        files,
                    });
                }
            }
            Event::MessageEnd { message } => self.count(message),
            _ => {}
        }
        self.exceeded.is_some()
    }

    /// A timeline that holds these runs of the suite and nothing else.
    #[cfg(test)]
    pub(crate) fn of_test_runs(runs: Vec<TestRun>) -> Self {
        Self {
            runs,
            ..Self::default()
        }
    }

    fn limit(&mut self, over: bool, budget: Exceeded) {
        if over && self.exceeded.is_none() {
            self.exceeded = Some(budget);
        }
    }

    fn count(&mut self, message: &Message) {
        if let Some(response) = message.as_assistant() {
            let usage = &response.usage;
            self.tokens.input += usage.input + usage.cache_read + usage.cache_write;
            self.tokens.output += usage.output;
        }
    }
}

impl Exceeded {
    /// The name it has in the specification.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Turns => "turns",
            Self::ToolCalls => "tool_calls",
            Self::Seconds => "seconds",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use fluzo_llm::ToolOutput;
    use serde_json::json;

    use super::*;

    const BUDGETS: Budgets = Budgets {
        turns: 2,
        tool_calls: 2,
        seconds: 1,
    };

    fn start(id: &str, tool: &str, command: &str) -> Event {
        Event::ToolExecutionStart {
            call_id: id.to_owned(),
            tool_name: tool.to_owned(),
            args: json!({ "command": command }).as_object().unwrap().clone(),
        }
    }

    fn end(id: &str, text: &str, is_error: bool) -> Event {
        Event::ToolExecutionEnd {
            call_id: id.to_owned(),
            tool_name: "bash".to_owned(),
            result: ToolOutput::text(text),
            is_error,
        }
    }

    #[test]
    fn runs_of_the_suite_know_what_the_files_were() {
        let before = Tree::default();
        let changed: Tree = [("x".to_owned(), Vec::new())].into_iter().collect();
        let now = RefCell::new(before.clone());
        let mut timeline = Timeline::default();
        let mut take = |event| timeline.take(&event, &BUDGETS, &before, &|| now.borrow().clone());
        take(start("1", "bash", "cargo test --offline"));
        take(end("1", "test result: FAILED", true));
        take(start("2", "bash", "cargo test | tail"));
        *now.borrow_mut() = changed.clone();
        take(end("2", "test result: FAILED", false));
        take(start("3", "bash", "ls"));
        take(end("3", "", false));
        take(start("4", "bash", "cargo test"));
        take(end("4", "test result: ok", false));
        let runs: Vec<_> = timeline
            .test_runs()
            .map(|run| (run.untouched, run.succeeded))
            .collect();
        assert_eq!(runs, [(true, false), (false, false), (false, true)]);
        assert!(timeline.test_runs().next_back().unwrap().files == changed);
    }

    #[test]
    fn the_first_budget_that_is_used_up_is_named() {
        let none = Tree::default();
        let check = |events: Vec<Event>, expected: Option<Exceeded>| {
            let mut timeline = Timeline::default();
            let mut over = false;
            for event in &events {
                over = timeline.take(event, &BUDGETS, &none, &Tree::default);
            }
            assert_eq!(timeline.exceeded, expected);
            assert_eq!(over, expected.is_some());
        };
        let calls = |count: usize| vec![start("x", "read", ""); count];
        check(vec![Event::TurnStart; 2], None);
        check(vec![Event::TurnStart; 3], Some(Exceeded::Turns));
        check(calls(2), None);
        check(
            [calls(3), vec![Event::TurnStart; 3]].concat(),
            Some(Exceeded::ToolCalls),
        );
    }
}
