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
#[path = "loop_guard_tests.rs"]
mod tests;
