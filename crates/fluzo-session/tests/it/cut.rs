//! Where sessions are cut.

use std::sync::{Arc, Mutex};

use fluzo_llm::Message;
use fluzo_llm::message::UserContent;
use fluzo_session::conformance::Factory;
use fluzo_session::store::{DamageReport, Durability, Notice};
use fluzo_session::{
    Compaction, Cut, CutError, Entry, EntryKind, Header, Index, Keep, MemoryStore, SessionStore,
    StoreError, cut,
};

use crate::support::{Files, Memory, assistant, calls, entry, header, message, text};

/// A token for each character of text, and one for each call.
pub fn tokens(message: &Message) -> u64 {
    let length = match message {
        Message::User(user) => user.content.text().len(),
        Message::Assistant(said) => {
            fluzo_llm::content::joined_text(&said.content).len() + said.tool_calls().count()
        }
        Message::ToolResult(result) => fluzo_llm::content::joined_text(&result.content).len(),
        Message::BashExecution(run) => run.output.len(),
        Message::Custom(custom) => custom.content.text().len(),
        Message::BranchSummary(branch) => branch.summary.len(),
        Message::CompactionSummary(summary) => summary.summary.len(),
        Message::Unknown(_) => 0,
    };
    length as u64
}

/// The entry that a word stands for: a letter, and the size or the entry that is named.
///
/// `u` user, `a` assistant, `c` assistant with one call, `r` its result, `b` a user's shell
/// command, `e` custom message as a message, `x` custom_message, `s` branch_summary, `q` a role
/// that is not known, `m` model_change, `l` label, `i` session_info, `K3` a compaction that keeps
/// from entry 3, `?` a type that is not known.
fn kind(word: &str) -> EntryKind {
    let (letter, number) = word.split_at(1);
    let size: usize = number.parse().unwrap_or(0);
    let filled = letter.repeat(size);
    match letter {
        "u" => EntryKind::Message(text(&filled)),
        "a" => EntryKind::Message(assistant(&filled)),
        "c" => EntryKind::Message(calls(&["c"], "toolUse")),
        "r" => EntryKind::Message(message(&format!(
            r#"{{"role":"toolResult","toolCallId":"c","toolName":"read","content":[{{"type":"text","text":"{filled}"}}],"isError":false,"timestamp":3}}"#
        ))),
        "b" => EntryKind::Message(message(&format!(
            r#"{{"role":"bashExecution","command":"","output":"{filled}","cancelled":false,"truncated":false,"timestamp":3}}"#
        ))),
        "e" => EntryKind::Message(message(&format!(
            r#"{{"role":"custom","customType":"x","content":"{filled}","timestamp":3}}"#
        ))),
        "q" => EntryKind::Message(message(r#"{"role":"later"}"#)),
        "x" => EntryKind::CustomMessage {
            custom_type: "x".to_owned(),
            content: UserContent::Text(filled),
            display: true,
            details: None,
        },
        "s" => EntryKind::BranchSummary {
            from_id: "root".to_owned(),
            summary: filled,
            details: None,
            from_hook: None,
        },
        "m" => EntryKind::ModelChange {
            provider: "p".to_owned(),
            model_id: "m".to_owned(),
        },
        "l" => EntryKind::Label {
            target_id: "0".to_owned(),
            label: Some("l".to_owned()),
        },
        "i" => EntryKind::SessionInfo {
            name: "n".to_owned(),
        },
        "K" => EntryKind::Compaction(Compaction {
            summary: format!("from {number}"),
            first_kept_entry_id: number.to_owned(),
            ..Compaction::default()
        }),
        _ => EntryKind::Unknown {
            type_name: "later".to_owned(),
        },
    }
}

/// One branch: the entry at position `n` has the id `n`.
fn entries(script: &str) -> Vec<Entry> {
    let words = script.split_whitespace().enumerate();
    words
        .map(|(at, word)| {
            let parent = at.checked_sub(1).map(|parent| parent.to_string());
            entry(&at.to_string(), parent.as_deref(), kind(word))
        })
        .collect()
}

fn letter(message: &Arc<Message>) -> char {
    match &**message {
        Message::User(_) => 'u',
        Message::Assistant(said) if said.tool_calls().next().is_some() => 'c',
        Message::Assistant(_) => 'a',
        Message::ToolResult(_) => 'r',
        Message::BashExecution(_) => 'b',
        Message::Custom(_) => 'x',
        Message::BranchSummary(_) => 's',
        Message::CompactionSummary(_) | Message::Unknown(_) => '!',
    }
}

/// `history|prefix|first kept`, or the refusal.
fn shape(found: Result<Cut, CutError>) -> String {
    match found {
        Ok(cut) => {
            let letters =
                |messages: &[Arc<Message>]| messages.iter().map(letter).collect::<String>();
            format!(
                "{}|{}|{}",
                letters(&cut.history),
                letters(&cut.turn_prefix),
                cut.first_kept_entry_id
            )
        }
        Err(error) => error.to_string(),
    }
}

fn cut_at_end(store: &dyn SessionStore, keep: Keep) -> Result<Cut, CutError> {
    let leaf = store.look(|index| index.last().map(|node| node.id.to_string()));
    cut::cut(store, leaf.flatten().as_deref(), keep, &tokens)
}

fn check(script: &str, keep: u64, expected: &str) {
    check_keep(
        script,
        Keep {
            tokens: keep,
            at_most_half: false,
        },
        expected,
    );
}

fn check_keep(script: &str, keep: Keep, expected: &str) {
    let files = Files::new();
    for factory in [&files as &dyn Factory, &Memory] {
        let store = factory.create(header(), entries(script));
        assert_eq!(
            shape(cut_at_end(&*store, keep)),
            expected,
            "{script} {keep:?}"
        );
    }
}

const TOO_SMALL: &str = "Nothing to compact (session too small)";
const ALREADY: &str = "Already compacted";

#[test]
fn enough_is_kept() {
    // Two turns of 10 and 10, then one of 5 and 5.
    let script = "u10 a10 u10 a10 u5 a5";
    check(script, 5, "uaua|u|5");
    check(script, 6, "uaua||4");
    check(script, 10, "uaua||4");
    check(script, 11, "ua|u|3");
    check(script, 20, "ua|u|3");
    check(script, 21, "ua||2");
    check(script, 30, "ua||2");
    check(script, 40, "|u|1");
    check(script, 41, TOO_SMALL);
    check(script, 50, TOO_SMALL);
    check(script, 51, TOO_SMALL);
    check(script, 0, "uaua|u|5");
}

#[test]
fn tiny_sessions_are_left_alone() {
    check("", 10, TOO_SMALL);
    check("m", 10, TOO_SMALL);
    check("u5", 1, TOO_SMALL);
    check("m i u5", 1, TOO_SMALL);
    check("u5 a5", 100, TOO_SMALL);
}

#[test]
fn a_result_is_never_the_first_that_stays() {
    // The walk ends at a result: what follows it is the cut.
    check("u5 c r50 a5", 20, "|ucr|3");
    check("u5 c r50 c r5 a5 u5 a5", 20, "|ucrcr|5");
    check("u5 c r50 c r5 a5 u5 a5", 21, "|ucr|3");
    // Nothing but results follows: the call that they answer stays with them.
    check("u5 c r5 c r50", 20, "|ucr|3");
    check("u5 a5 u5 c r50 r50", 60, "ua|u|3");
    check("u5 c r50", 20, "|u|1");
}

#[test]
fn what_may_be_the_first_that_stays() {
    for (word, history, prefix) in [
        ("u9", "ua", ""),
        ("a9", "", "ua"),
        ("b9", "ua", ""),
        ("e9", "", "ua"),
        ("x9", "ua", ""),
        ("s9", "ua", ""),
    ] {
        check(
            &format!("u5 a5 {word}"),
            9,
            &format!("{history}|{prefix}|2"),
        );
    }
    // A role that is not known never enters the context, so it does not count either.
    check("u5 a5 q a5", 5, "|ua|3");
}

#[test]
fn entries_before_the_cut_that_are_no_messages_stay_too() {
    check("u5 a5 m l i u9", 9, "ua||2");
    check("u5 a5 ? u9", 9, "ua||2");
    check("u5 a5 x1 u9", 9, "ua||2");
    // Up to a compaction, which does not stay.
    check("u5 a5 K0 m u9", 9, "ua||3");
    // They do not make a turn out of what began before them.
    check("u5 m a9", 9, "|u|1");
}

#[test]
fn the_beginning_of_a_split_turn() {
    check("u5 a5 u5 a5 a9", 9, "ua|ua|4");
    check("u5 a5 b5 a9", 9, "ua|b|3");
    check("u5 a5 x5 a5 a9", 9, "ua|xa|4");
    check("u5 a5 s5 a5 a9", 9, "ua|sa|4");
    // A custom message among messages begins no turn.
    check("u5 e5 a9", 9, "|ux|2");
    // Without a beginning all of it is history.
    check("a5 a5 a9", 9, "aa||2");
    check("a5 c r5 a9", 9, "acr||3");
}

#[test]
fn only_what_follows_the_boundary_counts() {
    // The compaction keeps from 2: 0 and 1 are summarised already.
    check("u5 a5 u5 a5 K2 u5 a9", 9, "ua|u|6");
    check("u5 a5 u5 a5 K2 u5 a9", 14, "ua||5");
    check("u5 a5 u5 a5 K2 u5 a9", 15, "|u|3");
    check("u5 a5 u5 a5 K2 u5 a9", 24, TOO_SMALL);
    // What it keeps begins in the middle of a turn.
    check("u5 a5 c r5 a5 K2 u5 a9", 9, "cra|u|7");
    check("u5 a5 c r5 a5 K2 u5 a9", 14, "cra||6");
    // What it keeps is not there: only what follows it.
    check("u5 a5 K77 u5 a5 u5 a9", 9, "ua|u|6");
    check("u5 a5 K77 u5 a9", 50, TOO_SMALL);
    // The last of two.
    check("u5 a5 K0 u5 a5 K3 u5 a9", 9, "ua|u|7");
    check("u5 a5 K0 u5 a5 K1 u5 a9", 9, "aua|u|7");
}

#[test]
fn a_compaction_is_not_compacted_again() {
    check("u5 a5 u5 a5 K2", 1, ALREADY);
    check("u5 a5 u5 a5 K2 m l i", 1, ALREADY);
    check("K77", 1, ALREADY);
    check("u5 a5 u5 a5 K2 u5", 1, "ua||5");
}

#[test]
fn a_context_that_did_not_fit_keeps_half_at_most() {
    let half = |tokens| Keep {
        tokens,
        at_most_half: true,
    };
    check_keep("u5 a5 u5 a5", half(1_000), "ua||2");
    check_keep("u5 a5 u5 a5", half(5), "ua|u|3");
    check_keep("u50", half(1_000), TOO_SMALL);
    check_keep("u5 c r50 a1", half(1_000), "|ucr|3");
}

#[test]
fn other_branches_do_not_count() {
    let mut all = entries("u5 a5 u5 a5");
    all.push(entry("other", Some("1"), kind("u500")));
    all.push(entry("end", Some("3"), kind("u9")));
    let store = Memory.create(header(), all);
    let keep = Keep {
        tokens: 9,
        at_most_half: false,
    };
    assert_eq!(
        shape(cut::cut(&*store, Some("end"), keep, &tokens)),
        "uaua||end"
    );
    assert_eq!(shape(cut::cut(&*store, Some("3"), keep, &tokens)), "ua||2");
    assert_eq!(
        shape(cut::cut(&*store, Some("gone"), keep, &tokens)),
        TOO_SMALL
    );
    assert_eq!(shape(cut::cut(&*store, None, keep, &tokens)), TOO_SMALL);
}

/// A store that notes what is read and cannot read some of it.
struct Noting {
    inner: MemoryStore,
    lost: &'static [&'static str],
    read: Mutex<Vec<String>>,
}

impl Noting {
    fn new(script: &str, lost: &'static [&'static str]) -> Self {
        Self {
            inner: MemoryStore::with_entries(header(), entries(script)),
            lost,
            read: Mutex::default(),
        }
    }
}

impl SessionStore for Noting {
    fn header(&self) -> Header {
        self.inner.header()
    }

    fn append(&self, entry: Entry, durability: Durability) -> Result<Arc<Entry>, StoreError> {
        self.inner.append(entry, durability)
    }

    fn read_index(&self, look: &mut dyn FnMut(&Index)) {
        self.inner.read_index(look);
    }

    fn payload(&self, id: &str) -> Result<Arc<Entry>, StoreError> {
        self.read.lock().unwrap().push(id.to_owned());
        if self.lost.contains(&id) {
            return Err(StoreError::Unreadable { id: id.to_owned() });
        }
        self.inner.payload(id)
    }

    fn damage(&self) -> DamageReport {
        self.inner.damage()
    }

    fn notices(&self) -> Vec<Notice> {
        self.inner.notices()
    }

    fn path(&self) -> Option<std::path::PathBuf> {
        self.inner.path()
    }

    fn saved(&self) -> bool {
        self.inner.saved()
    }
}

#[test]
fn nothing_before_the_boundary_is_read_and_nothing_twice() {
    let store = Noting::new("u5 a5 u5 a5 u5 a5 K4 u5 a5 u5 a5 m u5 a9", &[]);
    let keep = Keep {
        tokens: 19,
        at_most_half: false,
    };
    assert_eq!(shape(cut_at_end(&store, keep)), "uaua|u|10");
    let mut read = store.read.into_inner().unwrap();
    read.sort_by_key(|id| id.parse::<u32>().unwrap());
    assert_eq!(read, ["4", "5", "6", "7", "8", "9", "10", "12", "13"]);
}

#[test]
fn a_session_that_is_too_small_is_read_once() {
    let store = Noting::new("u5 a5 u5 a5", &[]);
    let keep = Keep {
        tokens: 100,
        at_most_half: false,
    };
    assert_eq!(shape(cut_at_end(&store, keep)), TOO_SMALL);
    assert_eq!(store.read.into_inner().unwrap().len(), 4);
}

#[test]
fn entries_that_cannot_be_read_count_as_nothing() {
    let keep = |tokens| Keep {
        tokens,
        at_most_half: false,
    };
    let lost_message = Noting::new("u5 a5 u5 a5", &["2"]);
    assert_eq!(shape(cut_at_end(&lost_message, keep(6))), "|u|1");
    assert_eq!(shape(cut_at_end(&lost_message, keep(5))), "|ua|3");
    // A compaction that cannot be read is none; the one before it counts.
    let lost_compaction = Noting::new("u5 a5 K1 u5 a5 K4 u5 a9", &["5"]);
    assert_eq!(shape(cut_at_end(&lost_compaction, keep(9))), "aua|u|7");
    let both = Noting::new("u5 a5 K1 u5 a5 K4 u5 a9", &["5", "2"]);
    assert_eq!(shape(cut_at_end(&both, keep(9))), "uaua|u|7");
}

#[test]
fn the_compaction_before_comes_along() {
    let store = Memory.create(header(), entries("u5 a5 K1 u5 a9"));
    let keep = Keep {
        tokens: 9,
        at_most_half: false,
    };
    let found = cut_at_end(&*store, keep).unwrap();
    assert_eq!(found.previous.unwrap().summary, "from 1");
}
