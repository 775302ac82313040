//! Sessions that are lived through at random: prompts, turns of calls, aborts, failures,
//! branches and compactions. What a model gets to see is always what the requirement text says,
//! told here by a slow model over a plain list, and can always be sent.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use fluzo_llm::{AssistantMessage, Message, ModelMessage, Transcript};
use fluzo_session::{Compaction, Entry, EntryKind, Keep, Session, cut};
use proptest::prelude::*;

use crate::cut::tokens;
use crate::support::{NOW, assistant, calls, memory_session, result, text};

/// What happens next.
#[derive(Debug, Clone)]
enum Step {
    /// The user speaks and the model answers.
    Answer,
    /// The model calls this many tools; that many of the results come, in this order or the
    /// other one.
    Turn(usize, usize, bool),
    /// The response fails, or is aborted, in the middle of a call.
    Fails(bool),
    /// The leaf moves to an earlier entry, with a summary or without one.
    Branch(prop::sample::Index, bool),
    /// The session is compacted where it may be, keeping this much.
    Compact(u64),
    /// A compaction of a hook or of another program keeps from anywhere.
    Foreign(prop::sample::Index),
    /// Something that no model sees.
    Aside,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => Just(Step::Answer),
        4 => (1..4usize, 0..4usize, any::<bool>()).prop_map(|(c, r, o)| Step::Turn(c, r, o)),
        2 => any::<bool>().prop_map(Step::Fails),
        2 => (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(i, s)| Step::Branch(i, s)),
        3 => (0..30u64).prop_map(Step::Compact),
        1 => any::<prop::sample::Index>().prop_map(Step::Foreign),
        1 => Just(Step::Aside),
    ];
    prop::collection::vec(step, 1..30)
}

/// A session and the plain list of its entries.
struct Life {
    session: Session,
    entries: Vec<Arc<Entry>>,
    /// Numbers what is said, so that no two entries are alike.
    count: usize,
}

impl Life {
    fn new() -> Self {
        Self {
            session: memory_session(),
            entries: Vec::new(),
            count: 0,
        }
    }

    fn live(&mut self, step: &Step) {
        match step {
            Step::Answer => {
                self.speak();
                let said = format!("answer {}", self.next());
                self.say(assistant(&said));
            }
            Step::Turn(asked, answered, backwards) => self.turn(*asked, *answered, *backwards),
            Step::Fails(aborted) => {
                self.speak();
                let id = format!("call {}", self.next());
                let stop = if *aborted { "aborted" } else { "error" };
                self.say(calls(&[&id], stop));
            }
            Step::Branch(to, summarised) => self.branch(to, *summarised),
            Step::Compact(keep) => self.compact(*keep),
            Step::Foreign(first) => {
                let first = self.any(first).unwrap_or_default();
                self.store(first);
            }
            Step::Aside => {
                let entry = self.session.append_session_info("name", NOW).unwrap();
                self.entries.push(entry);
            }
        }
    }

    fn next(&mut self) -> usize {
        self.count += 1;
        self.count
    }

    fn speak(&mut self) {
        let said = format!("prompt {}", self.next());
        self.say(text(&said));
    }

    fn say(&mut self, message: Arc<Message>) {
        let entry = self.session.append_message(message, NOW).unwrap();
        self.entries.push(entry);
    }

    fn turn(&mut self, asked: usize, answered: usize, backwards: bool) {
        self.speak();
        let ids: Vec<String> = (0..asked)
            .map(|_| format!("call {}", self.next()))
            .collect();
        let names: Vec<&str> = ids.iter().map(String::as_str).collect();
        self.say(calls(&names, "toolUse"));
        let mut results: Vec<&str> = names.into_iter().take(answered).collect();
        if backwards {
            results.reverse();
        }
        for id in results {
            self.say(result(id));
        }
    }

    fn any(&self, index: &prop::sample::Index) -> Option<String> {
        (!self.entries.is_empty()).then(|| index.get(&self.entries).id.clone())
    }

    fn branch(&mut self, to: &prop::sample::Index, summarised: bool) {
        let Some(id) = self.any(to) else { return };
        if !summarised {
            self.session.branch(&id).unwrap();
            return;
        }
        let summary = format!("branch {}", self.next());
        let entry = self
            .session
            .branch_with_summary(Some(&id), &summary, None, None, NOW);
        self.entries.push(entry.unwrap());
    }

    /// Compacts where the cut says, and checks the cut against what is sent before and after.
    fn compact(&mut self, tokens_kept: u64) {
        let keep = Keep {
            tokens: tokens_kept,
            at_most_half: false,
        };
        let leaf = self.session.leaf_id();
        let Ok(found) = cut::cut(&**self.session.store(), leaf.as_deref(), keep, &tokens) else {
            return;
        };
        let before = self.session.context().unwrap().messages;
        self.store(found.first_kept_entry_id.clone());
        let after = self.session.context().unwrap().messages;
        let without_summary = |messages: &[Arc<Message>]| {
            let first = messages.first().filter(|m| m.role() == "compactionSummary");
            messages
                .get(usize::from(first.is_some())..)
                .unwrap_or_default()
                .to_vec()
        };
        let mut whole = found.history.clone();
        whole.extend(found.turn_prefix.clone());
        assert!(!whole.is_empty(), "something is summarised");
        whole.extend(without_summary(&after));
        assert_eq!(
            whole,
            without_summary(&before),
            "nothing is lost or told twice"
        );
        let kept = without_summary(&after);
        assert!(
            kept.first()
                .is_some_and(|first| first.role() != "toolResult")
        );
    }

    fn store(&mut self, first_kept_entry_id: String) {
        let compaction = Compaction {
            summary: format!("summary {}", self.next()),
            first_kept_entry_id,
            ..Compaction::default()
        };
        let entry = self.session.append_compaction(compaction, NOW).unwrap();
        self.entries.push(entry);
    }
}

/// What a model is told at `leaf`, from the text: the path from the root; the latest compaction
/// on it, its summary first, then what comes before it from the first kept entry on, then what
/// comes after it; all of it without a compaction.
fn as_told(entries: &[Arc<Entry>], leaf: Option<&str>) -> Vec<String> {
    let mut path: Vec<&Entry> = Vec::new();
    let mut next = leaf.map(str::to_owned);
    while let Some(id) = next {
        let entry = entries.iter().find(|entry| entry.id == id).unwrap();
        path.insert(0, entry);
        next = entry.parent_id.clone();
    }
    let latest = path
        .iter()
        .enumerate()
        .rev()
        .find_map(|(at, entry)| match &entry.kind {
            EntryKind::Compaction(compaction) => Some((at, compaction)),
            _ => None,
        });
    let Some((at, compaction)) = latest else {
        return path.iter().filter_map(|entry| words(entry)).collect();
    };
    let mut told = vec![compaction.summary.clone()];
    let first = path
        .iter()
        .take(at)
        .position(|entry| entry.id == compaction.first_kept_entry_id);
    if let Some(first) = first {
        told.extend(path[first..at].iter().filter_map(|entry| words(entry)));
    }
    told.extend(path[at + 1..].iter().filter_map(|entry| words(entry)));
    told
}

fn words(entry: &Entry) -> Option<String> {
    match &entry.kind {
        EntryKind::Message(message) => Some(serde_json::to_string(message).unwrap()),
        EntryKind::BranchSummary { summary, .. } => Some(summary.clone()),
        _ => None,
    }
}

fn as_built(session: &Session) -> Vec<String> {
    let one = |message: &Arc<Message>| match &**message {
        Message::BranchSummary(branch) => branch.summary.clone(),
        Message::CompactionSummary(summary) => summary.summary.clone(),
        other => serde_json::to_string(other).unwrap(),
    };
    session
        .context()
        .unwrap()
        .messages
        .iter()
        .map(one)
        .collect()
}

/// Checks what is sent without the help of what made it: after each response come the results
/// of exactly its calls, before anything else is said, and no result stands elsewhere.
fn check_sendable(transcript: &Transcript) {
    let mut open: HashSet<String> = HashSet::new();
    for message in transcript.iter() {
        match message {
            ModelMessage::ToolResult(result) => {
                assert!(
                    open.remove(&result.tool_call_id),
                    "a result without its call"
                );
            }
            ModelMessage::User(_) => assert!(open.is_empty(), "a call without its result"),
            ModelMessage::Assistant(said) => {
                assert!(open.is_empty(), "a call without its result");
                assert!(!said.failed(), "a response that failed is sent");
                for call in said.tool_calls() {
                    assert!(open.insert(call.id.clone()), "an id twice in a response");
                }
            }
        }
    }
    assert!(open.is_empty(), "a call without its result");
}

/// What comes of a result that was stored: it is sent when the response that asked for it is.
fn check_nothing_lost(messages: &[Arc<Message>], transcript: &Transcript) {
    let sent: HashMap<&str, bool> = transcript
        .iter()
        .filter_map(|message| match message {
            ModelMessage::ToolResult(result) => Some((&*result.tool_call_id, result.is_error)),
            _ => None,
        })
        .collect();
    let asked: HashSet<&str> = messages
        .iter()
        .filter_map(|message| message.as_assistant().filter(|said| !said.failed()))
        .flat_map(AssistantMessage::tool_calls)
        .map(|call| &*call.id)
        .collect();
    for result in messages
        .iter()
        .filter_map(|message| message.as_tool_result())
    {
        if asked.contains(&*result.tool_call_id) {
            assert_eq!(
                sent.get(&*result.tool_call_id),
                Some(&false),
                "a result is lost"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn whatever_happens_the_context_is_what_the_text_tells_and_can_be_sent(steps in steps()) {
        let mut life = Life::new();
        for step in &steps {
            life.live(step);
            let leaf = life.session.leaf_id();
            let told = as_told(&life.entries, leaf.as_deref());
            prop_assert_eq!(as_built(&life.session), told);
            let messages = life.session.context().unwrap().messages;
            let transcript = Transcript::from_context(&messages);
            check_sendable(&transcript);
            check_nothing_lost(&messages, &transcript);
        }
    }
}
