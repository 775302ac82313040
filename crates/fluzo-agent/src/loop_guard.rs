//! Notices a model that repeats itself. Pure.
//!
//! Three habits are looked for: the same call with the same result over and over, the same
//! edit that fails each time, and whole rounds between two summaries in which nothing new
//! was asked. What the user says ends them all.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use fluzo_llm::{Content, Message, ToolCall};
use serde_json::{Map, Value};

/// So many repetitions, and the model is told.
const TOLD: u32 = 3;
/// So many, and the run stops.
const STOPPED: u32 = 5;
/// Failing edits that are remembered.
const EDITS: usize = 16;
/// Different calls of a round that are remembered; a round with more of them is no repetition.
const ROUND: usize = 256;
/// The field of a result's details that names a file made for this one result.
const OWN_FILE: &str = "fullOutputPath";

/// Why a run was stopped: the model repeated itself. Every call of it has its result, so the
/// session can go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the run was stopped: `{tool}` {repetition}\nhint: say what to do differently; the setting `loopGuard` turns this stop off"
)]
pub struct Looping {
    /// Name of the tool.
    pub tool: String,
    /// What was repeated, and how often.
    pub repetition: Repetition,
}

/// A repetition and how often it was seen, the first time included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Repetition {
    /// Calls in a row with the same arguments and the same result.
    #[error("was called {0} times in a row with the same arguments and gave the same result")]
    InARow(u32),
    /// Failures of the same edit, whatever was done in between.
    #[error("failed {0} times with the same edit")]
    FailingEdit(u32),
    /// Rounds, each ended by a summary but the last, in which the same was called as before,
    /// with the same results.
    #[error(
        "and other calls were only repeated, with the same results, over {0} summaries of the conversation"
    )]
    Rounds(u32),
}

impl Repetition {
    fn times(self) -> u32 {
        match self {
            Self::InARow(times) | Self::FailingEdit(times) | Self::Rounds(times) => times,
        }
    }

    /// Whether the model is told.
    pub(crate) fn is_told(self) -> bool {
        self.times() >= TOLD
    }

    /// Whether the run stops.
    pub(crate) fn stops(self) -> bool {
        self.times() >= STOPPED
    }

    /// The line for the model.
    pub(crate) fn line(self) -> String {
        let seen = match self {
            Self::InARow(times) => {
                format!("This call gave the same result {times} times in a row.")
            }
            Self::FailingEdit(times) => format!("This edit has failed {times} times."),
            Self::Rounds(times) => {
                format!(
                    "Over {times} summaries only the same calls were made, with the same results."
                )
            }
        };
        let then = if self.stops() {
            "The run ends here until the user says something.".to_owned()
        } else {
            format!("Do something else, or say what is missing; after {STOPPED} the run ends.")
        };
        format!("[{seen} {then}]")
    }
}

/// A call that has ended, as far as the guard looks at it.
pub(crate) struct Seen<'a> {
    pub(crate) call: &'a ToolCall,
    pub(crate) content: &'a [Content],
    pub(crate) details: Option<&'a Value>,
    pub(crate) is_error: bool,
    /// The tool changes files from what it expects of them.
    pub(crate) edits: bool,
}

/// What the model has done since the user last said something.
#[derive(Debug, Default)]
pub(crate) struct LoopGuard {
    row: Option<(Deed, u32)>,
    /// The oldest first.
    failing: VecDeque<(u64, u32)>,
    rounds: Rounds,
    summary: Option<u64>,
}

/// A call and its result, by digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Deed {
    call: u64,
    result: u64,
}

impl LoopGuard {
    /// Forgets everything: the user has said something, or aborted.
    pub(crate) fn reset(&mut self) {
        *self = Self {
            summary: self.summary,
            ..Self::default()
        };
    }

    /// Takes note of a context: behind another summary another round begins.
    pub(crate) fn context(&mut self, messages: &[Arc<Message>]) {
        let summary = messages.iter().find_map(|message| summary(message));
        if summary != self.summary {
            self.summary = summary;
            self.rounds.next();
        }
    }

    /// Takes note of a call, in the order of the calls.
    pub(crate) fn observe(&mut self, seen: &Seen<'_>) -> Repetition {
        let deed = Deed {
            call: call_digest(seen.call),
            result: result_digest(seen),
        };
        let row = match self.row {
            Some((last, times)) if last == deed => times.saturating_add(1),
            _ => 1,
        };
        self.row = Some((deed, row));
        let rounds = self.rounds.observe(deed);
        let failed = self.failures(deed.call, seen);
        let most = row.max(rounds).max(failed);
        if most == failed {
            Repetition::FailingEdit(most)
        } else if most == row {
            Repetition::InARow(most)
        } else {
            Repetition::Rounds(most)
        }
    }

    fn failures(&mut self, call: u64, seen: &Seen<'_>) -> u32 {
        if !seen.edits {
            return 0;
        }
        let known = self.failing.iter().position(|(failed, _)| *failed == call);
        let before = known.and_then(|at| self.failing.remove(at));
        if !seen.is_error {
            return 0;
        }
        let times = before.map_or(0, |(_, times)| times).saturating_add(1);
        if self.failing.len() == EDITS {
            self.failing.pop_front();
        }
        self.failing.push_back((call, times));
        times
    }
}

/// Rounds between summaries.
#[derive(Debug, Default)]
struct Rounds {
    /// What the rounds so far that count were made of.
    known: Vec<Deed>,
    /// How many they are.
    count: u32,
    /// What the current round is made of.
    current: Vec<Deed>,
    /// Whether it has something that is not known.
    news: bool,
}

impl Rounds {
    /// The number of the current round among those that repeat each other, if `deed` does not
    /// make it another one; else 0.
    fn observe(&mut self, deed: Deed) -> u32 {
        self.news |= !self.known.contains(&deed);
        if self.current.len() <= ROUND && !self.current.contains(&deed) {
            self.current.push(deed);
        }
        if self.news { 0 } else { self.count + 1 }
    }

    fn next(&mut self) {
        if self.current.is_empty() {
            return;
        }
        let round = std::mem::take(&mut self.current);
        if std::mem::take(&mut self.news) {
            self.count = u32::from(round.len() <= ROUND);
            self.known = if self.count == 0 { Vec::new() } else { round };
        } else {
            self.count = self.count.saturating_add(1);
        }
    }
}

fn summary(message: &Message) -> Option<u64> {
    let Message::CompactionSummary(summary) = message else {
        return None;
    };
    Some(digest(|hasher| {
        (summary.timestamp, &summary.summary).hash(hasher);
    }))
}

fn call_digest(call: &ToolCall) -> u64 {
    digest(|hasher| {
        call.name.hash(hasher);
        call.raw_arguments.hash(hasher);
        hash_object(&call.arguments, hasher);
    })
}

/// The name of a file that each result has of its own makes no other result of it.
fn result_digest(seen: &Seen<'_>) -> u64 {
    let own = seen
        .details
        .and_then(|details| details.get(OWN_FILE)?.as_str());
    digest(|hasher| {
        seen.is_error.hash(hasher);
        for block in seen.content {
            match (block.as_text(), own.filter(|own| !own.is_empty())) {
                (Some(text), Some(own)) => text.replace(own, "").hash(hasher),
                (Some(text), None) => text.hash(hasher),
                (None, _) => hash_block(block, hasher),
            }
        }
    })
}

fn hash_block(block: &Content, hasher: &mut DefaultHasher) {
    if let Content::Image(image) = block {
        (&image.mime_type, &image.data).hash(hasher);
    }
}

fn digest(write: impl FnOnce(&mut DefaultHasher)) -> u64 {
    let mut hasher = DefaultHasher::new();
    write(&mut hasher);
    hasher.finish()
}

/// Hashes a value so that the order of keys, and whether a whole number has a fraction of
/// zero, make no difference.
fn hash_value(value: &Value, hasher: &mut DefaultHasher) {
    match value {
        Value::Null => 0_u8.hash(hasher),
        Value::Bool(is) => (1_u8, is).hash(hasher),
        Value::Number(number) => (2_u8, canonical(number)).hash(hasher),
        Value::String(text) => (3_u8, text).hash(hasher),
        Value::Array(items) => {
            (4_u8, items.len()).hash(hasher);
            items.iter().for_each(|item| hash_value(item, hasher));
        }
        Value::Object(object) => hash_object(object, hasher),
    }
}

fn hash_object(object: &Map<String, Value>, hasher: &mut DefaultHasher) {
    (5_u8, object.len()).hash(hasher);
    let mut fields: Vec<_> = object.iter().collect();
    fields.sort_unstable_by_key(|(key, _)| *key);
    for (key, value) in fields {
        key.hash(hasher);
        hash_value(value, hasher);
    }
}

fn canonical(number: &serde_json::Number) -> String {
    let text = number.to_string();
    match text.strip_suffix(".0") {
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What one call with its result is: tool, arguments, result.
    type Row<'a> = (&'a str, &'a str, &'a str);

    const EDITS_FILES: &str = "edit";

    fn observe(guard: &mut LoopGuard, (tool, arguments, result): Row<'_>) -> Repetition {
        let (text, is_error) = match result.strip_prefix('!') {
            Some(text) => (text, true),
            None => (result, false),
        };
        guard.observe(&Seen {
            call: &ToolCall::from_text("c", tool, arguments),
            content: &[Content::text(text)],
            details: None,
            is_error,
            edits: tool == EDITS_FILES,
        })
    }

    /// How often each of `rows` was seen when it came; 0 stands for a summary.
    #[track_caller]
    fn check(rows: &[Row<'_>], expected: &[u32]) {
        let mut guard = LoopGuard::default();
        let times: Vec<u32> = rows
            .iter()
            .enumerate()
            .map(|(at, row)| match row.0 {
                "summary" => {
                    guard.context(&[summary(i64::try_from(at).unwrap())]);
                    0
                }
                _ => observe(&mut guard, *row).times(),
            })
            .collect();
        assert_eq!(times, expected, "{rows:?}");
    }

    fn summary(timestamp: i64) -> Arc<Message> {
        let json = json!({"role": "compactionSummary", "summary": "s", "tokensBefore": 1, "timestamp": timestamp});
        Arc::new(serde_json::from_value(json).unwrap())
    }

    const SUMMARY: Row<'_> = ("summary", "", "");

    #[test]
    fn calls_in_a_row() {
        let a = ("read", r#"{"path":"f","limit":2}"#, "x");
        let swapped = ("read", r#"{"limit":2.0,"path":"f"}"#, "x");
        let nested = |text| ("t", text, "x");
        check(&[a, swapped, a], &[1, 2, 3]);
        check(
            &[
                nested(r#"{"o":{"a":[1,2],"b":null}}"#),
                nested(r#"{"o":{"b":null,"a":[1,2]}}"#),
                nested(r#"{"o":{"b":null,"a":[2,1]}}"#),
            ],
            &[1, 2, 1],
        );
        check(
            &[nested("{\"a\":"), nested("{\"a\":"), nested("{\"b\":")],
            &[1, 2, 1],
        );
        check(&[nested(r#"{"a":1}"#), nested(r#"{"a":"1"}"#)], &[1, 1]);
        check(&[nested(r#"{"a":[]}"#), nested(r#"{"a":{}}"#)], &[1, 1]);
    }

    #[test]
    fn what_is_no_repetition() {
        let poll = |result| ("bash", r#"{"command":"state"}"#, result);
        check(&[poll("1"), poll("2"), poll("2"), poll("1")], &[1, 1, 2, 1]);
        check(&[poll("no"), poll("!no"), poll("no")], &[1, 1, 1]);
        let (a, b) = (
            ("read", r#"{"path":"a"}"#, "x"),
            ("read", r#"{"path":"b"}"#, "x"),
        );
        check(&[a, b, a, b, a, b], &[1; 6]);
        // Tests between edits fail the same way until they are mended.
        let edit = |text| ("edit", text, "ok");
        let test = poll("!1 failed");
        check(
            &[
                edit("{\"n\":1}"),
                test,
                edit("{\"n\":2}"),
                test,
                edit("{\"n\":3}"),
                test,
            ],
            &[1; 6],
        );
        let other = ("write", r#"{"path":"a"}"#, "x");
        check(&[a, other, a], &[1, 1, 1]);
    }

    #[test]
    fn edits_that_fail() {
        let edit = |result| ("edit", r#"{"path":"f","edits":[{"oldText":"a"}]}"#, result);
        let (other, read) = (("edit", r#"{"path":"g"}"#, "!no"), ("read", "{}", "x"));
        // The result may show the lines as they are now, so it need not be the same.
        check(
            &[edit("!1"), read, edit("!2"), other, edit("!3")],
            &[1, 1, 2, 1, 3],
        );
        check(
            &[edit("!1"), edit("!1"), edit("ok"), edit("!1")],
            &[1, 2, 1, 1],
        );
        check(
            &[
                read,
                edit("!1"),
                ("write", "{}", "!1"),
                edit("!1"),
                ("write", "{}", "!1"),
            ],
            &[1, 1, 1, 2, 1],
        );
    }

    #[test]
    fn many_failing_edits_are_forgotten_the_oldest_first() {
        let mut guard = LoopGuard::default();
        let texts: Vec<String> = (0..=EDITS).map(|n| format!("{{\"n\":{n}}}")).collect();
        for text in &texts {
            observe(&mut guard, ("edit", text, "!no"));
        }
        assert_eq!(guard.failing.len(), EDITS);
        assert_eq!(observe(&mut guard, ("edit", &texts[0], "!no")).times(), 1);
        assert_eq!(
            observe(&mut guard, ("edit", &texts[EDITS], "!no")).times(),
            2
        );
    }

    #[test]
    fn rounds_between_summaries() {
        let (a, b) = (
            ("read", r#"{"path":"a"}"#, "x"),
            ("read", r#"{"path":"b"}"#, "y"),
        );
        let new = ("write", r#"{"path":"c"}"#, "ok");
        let changed = ("read", r#"{"path":"a"}"#, "z");
        check(
            &[
                a, b, SUMMARY, a, b, SUMMARY, b, a, SUMMARY, SUMMARY, a, SUMMARY, b,
            ],
            &[1, 1, 0, 2, 2, 0, 3, 3, 0, 0, 4, 0, 5],
        );
        // A plan that is read again after each summary is no loop as long as something is done.
        check(
            &[a, new, SUMMARY, a, b, SUMMARY, a, new, SUMMARY, a],
            &[1, 1, 0, 2, 1, 0, 2, 1, 0, 2],
        );
        check(
            &[a, b, SUMMARY, changed, b, SUMMARY, a],
            &[1, 1, 0, 1, 1, 0, 1],
        );
    }

    #[test]
    fn what_the_user_says_ends_all() {
        let mut guard = LoopGuard::default();
        let edit = ("edit", "{}", "!no");
        for _ in 0..4 {
            observe(&mut guard, edit);
        }
        guard.context(&[summary(1)]);
        guard.reset();
        assert_eq!(observe(&mut guard, edit), Repetition::FailingEdit(1));
        // The same context is no other round.
        guard.context(&[summary(1)]);
        assert!(guard.rounds.known.is_empty());
    }

    #[test]
    fn a_file_made_for_one_result_does_not_make_it_another_one() {
        let call = ToolCall::from_text("c", "bash", "{}");
        let result = |path: &str| {
            let text = format!("x\n\n[Full output: {path}]");
            (vec![Content::text(text)], json!({ "fullOutputPath": path }))
        };
        let mut guard = LoopGuard::default();
        let times = ["/t/1.log", "/t/2.log", "/t/3.log"].map(|path| {
            let (content, details) = result(path);
            let seen = Seen {
                call: &call,
                content: &content,
                details: Some(&details),
                is_error: false,
                edits: false,
            };
            guard.observe(&seen).times()
        });
        assert_eq!(times, [1, 2, 3]);
    }

    #[test]
    fn images_are_told_apart() {
        let image = |data: &str| {
            let json = json!({"type": "image", "data": data, "mimeType": "image/png"});
            serde_json::from_value::<Content>(json).unwrap()
        };
        let call = ToolCall::from_text("c", "read", "{}");
        let mut guard = LoopGuard::default();
        let times = ["AA", "AA", "BB"].map(|data| {
            let seen = Seen {
                call: &call,
                content: &[image(data)],
                details: None,
                is_error: false,
                edits: false,
            };
            guard.observe(&seen).times()
        });
        assert_eq!(times, [1, 2, 1]);
    }

    #[test]
    fn texts() {
        let rows = [
            (
                Repetition::InARow(3),
                "[This call gave the same result 3 times in a row. Do something else, or say what is missing; after 5 the run ends.]",
            ),
            (
                Repetition::FailingEdit(4),
                "[This edit has failed 4 times. Do something else, or say what is missing; after 5 the run ends.]",
            ),
            (
                Repetition::Rounds(5),
                "[Over 5 summaries only the same calls were made, with the same results. The run ends here until the user says something.]",
            ),
        ];
        for (repetition, line) in rows {
            assert_eq!(repetition.line(), line);
        }
        let looping = Looping {
            tool: "read".into(),
            repetition: Repetition::InARow(5),
        };
        assert_eq!(
            looping.to_string(),
            "the run was stopped: `read` was called 5 times in a row with the same arguments and gave the same result\n\
             hint: say what to do differently; the setting `loopGuard` turns this stop off"
        );
    }
}
