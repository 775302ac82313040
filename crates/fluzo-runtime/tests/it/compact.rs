//! Compaction: what is asked, what is stored, and that nothing is stored when it does not
//! come to that.

use std::pin::Pin;
use std::sync::Arc;

use fluzo_agent::Halt;
use fluzo_agent::compaction::SUMMARY_SYSTEM_PROMPT;
use fluzo_llm::{FormSwitch, StreamError, StreamErrorKind, ThinkingLevel};
use fluzo_runtime::compact::{
    CompactionError, CompactionReason, CompactionRequest, OVERFLOW_AGAIN, ReadyCompaction, prepare,
};
use fluzo_runtime::drive::ManualDrive;
use fluzo_runtime::forms::FormMemory;
use fluzo_session::store::{DamageReport, Durability, Notice};
use fluzo_session::{Entry, EntryKind, Header, Index, SessionStore, StoreError};
use fluzo_testkit::polling::poll_until_stalled;
use fluzo_testkit::reply::{cut, failing, never_ending, text, thinking};
use fluzo_testkit::{Reply, poll_to_end, user};
use serde_json::json;

use crate::compacting::{
    SAID_AT, Stage, conversation, keeping, kind_of, memory, named, request, to_end, until,
    with_usage,
};

/// A turn that ends, then one that is kept.
const TWO_TURNS: &str = "u:one c:read:a c:edit:b a:done u:two";
/// One turn that is split before its last answer.
const SPLIT: &str = "u:zero a:done u:one c:read:a c:edit:b a:last";

#[test]
fn a_summary_stands_for_what_came_before() {
    let stage = Stage::new([with_usage("SUMMARY", 70, 5)]);
    let ids = stage.say(TWO_TURNS);
    let done = stage.compact(&request()).unwrap();
    let summary =
        "SUMMARY\n\n<read-files>\na\n</read-files>\n\n<modified-files>\nb\n</modified-files>";
    let details = json!({"readFiles": ["a"], "modifiedFiles": ["b"]});
    assert_eq!(done.summary, summary);
    assert_eq!(done.first_kept_entry_id, *ids.last().unwrap());
    assert_eq!(done.details.as_ref(), Some(&details));
    assert_eq!((done.usage.input, done.usage.output), (70, 5));
    // 3 characters, 2 calls of 14 and "ok", "done", 3 characters.
    assert_eq!(done.tokens_before, 1 + (4 + 1) + (4 + 1) + 1 + 1);
    let EntryKind::Compaction(stored) = kind_of(&stage, &done.entry_id) else {
        panic!("a compaction is stored")
    };
    assert_eq!(stored.summary, summary);
    assert_eq!(stored.first_kept_entry_id, done.first_kept_entry_id);
    assert_eq!(stored.tokens_before, done.tokens_before);
    assert_eq!(stored.details, Some(details));
    assert_eq!(stored.from_hook, Some(false));
    assert_eq!(stage.session.leaf_id(), Some(done.entry_id));
    assert_eq!(stage.roles(), ["compactionSummary", "user"]);
}

#[test]
fn the_request_is_plain() {
    let stage = Stage::new([text(["S"])]);
    stage.say(TWO_TURNS);
    let asked = CompactionRequest {
        model: named("small", 0),
        thinking: ThinkingLevel::High,
        custom_instructions: Some("FOCUS".into()),
        session_id: Some("id".into()),
        ..request()
    };
    stage.compact(&asked).unwrap();
    let request = stage.world.model.requests().remove(0);
    assert_eq!(request.model.id, "small");
    assert_eq!(&*request.system_prompt, SUMMARY_SYSTEM_PROMPT);
    assert!(request.tools.is_empty());
    assert_eq!(
        request.options.max_output_tokens,
        Some(4096),
        "what the model can say"
    );
    assert_eq!(request.options.thinking, ThinkingLevel::High);
    assert_eq!(request.options.session_id.as_deref(), Some("id"));
    let text = stage.asked().remove(0);
    assert_eq!(
        conversation(&text),
        "[User]: one\n\n[Assistant tool calls]: read(path=\"a\")\n\n[Tool result]: ok\n\n\
         [Assistant tool calls]: edit(path=\"b\")\n\n[Tool result]: ok\n\n[Assistant]: done"
    );
    assert!(text.ends_with("\n\nAdditional focus: FOCUS"));
}

#[test]
fn the_cap_of_a_summary_follows_the_window_of_the_session() {
    let mut talkative = fluzo_testkit::model();
    talkative.max_tokens = 100_000;
    for (window, cap) in [(200_000, 13_107), (8_000, 1_600)] {
        let stage = Stage::new([text(["S"])]);
        stage.say(TWO_TURNS);
        let asked = CompactionRequest {
            model: Arc::new(talkative.clone()),
            window_model: named("m1", window),
            ..request()
        };
        stage.compact(&asked).unwrap();
        let request = stage.world.model.requests().remove(0);
        assert_eq!(request.options.max_output_tokens, Some(cap));
    }
}

#[test]
fn thinking_is_no_part_of_a_summary() {
    let stage = Stage::new([thinking(["hm"], "S")]);
    stage.say("u:one a:done u:two");
    assert_eq!(stage.compact(&request()).unwrap().summary, "S");
}

#[test]
fn nothing_is_asked_when_there_is_nothing_to_compact() {
    let rows = [
        ("", request(), "Nothing to compact (session too small)"),
        ("u:one", request(), "Nothing to compact (session too small)"),
        (
            TWO_TURNS,
            keeping(1_000),
            "Nothing to compact (session too small)",
        ),
    ];
    for (script, request, expected) in rows {
        let stage = Stage::new([]);
        let ids = stage.say(script);
        let error = stage.compact(&request).unwrap_err();
        assert!(error.is_nothing_to_do());
        assert_eq!(error.to_string(), expected);
        stage.check_untouched(ids.last());
    }
    let stage = Stage::new([text(["S"])]);
    stage.say(TWO_TURNS);
    stage.compact(&request()).unwrap();
    let again = stage.compact(&request()).unwrap_err();
    assert!(matches!(again, CompactionError::AlreadyCompacted));
    assert_eq!(stage.world.model.requests().len(), 1);
}

#[test]
fn failures_are_told_by_reason() {
    let rows = [
        (
            CompactionReason::Manual,
            "manual",
            "Compaction failed: Already compacted",
        ),
        (
            CompactionReason::Threshold,
            "threshold",
            "Auto-compaction failed: Already compacted",
        ),
        (
            CompactionReason::Overflow,
            "overflow",
            "Context overflow recovery failed: Already compacted",
        ),
    ];
    for (reason, name, told) in rows {
        assert_eq!(reason.as_str(), name);
        assert_eq!(reason.failure(&CompactionError::AlreadyCompacted), told);
    }
    assert_eq!(
        OVERFLOW_AGAIN,
        "Context overflow recovery failed after one compact-and-retry attempt. Try reducing context or switching to a larger-context model."
    );
}

#[test]
fn history_and_the_beginning_of_a_split_turn_are_asked_for_at_once() {
    let drive = ManualDrive::new();
    let stage = Stage::driven(
        [with_usage("HISTORY", 1, 2), with_usage("PREFIX", 10, 20)],
        &drive,
    );
    let ids = stage.say(SPLIT);
    let asked = request();
    let mut running: Pin<Box<dyn Future<Output = _>>> = Box::pin(stage.compactor.compact(
        &stage.session,
        &asked,
        &stage.abort,
    ));
    until(&mut running, &drive, &["request_model", "request_model"]);
    let done = to_end(&mut running, &drive).unwrap();
    assert_eq!(
        done.summary,
        "HISTORY\n\n---\n\n**Turn Context (split turn):**\n\nPREFIX\n\n\
         <read-files>\na\n</read-files>\n\n<modified-files>\nb\n</modified-files>"
    );
    assert_eq!(done.first_kept_entry_id, *ids.last().unwrap());
    assert_eq!((done.usage.input, done.usage.total_tokens), (11, 33));
    let texts = stage.asked();
    assert_eq!(conversation(&texts[0]), "[User]: zero\n\n[Assistant]: done");
    assert!(conversation(&texts[1]).starts_with("[User]: one\n\n[Assistant tool calls]: read"));
    assert!(texts[0].contains("## Goal") && texts[1].contains("## Original Request"));
    let caps: Vec<_> = stage
        .world
        .model
        .requests()
        .iter()
        .map(|r| r.options.max_output_tokens)
        .collect();
    assert_eq!(caps, [Some(4096), Some(4096)]);
}

/// A server with one slot ends a response when the next request comes.
#[test]
fn summaries_that_cut_each_other_off_are_asked_for_one_after_the_other() {
    let cut = || failing(StreamErrorKind::Incomplete, "cut off");
    let pair = || [never_ending(["x"]), cut()];
    let answers = [with_usage("HISTORY", 1, 2), with_usage("PREFIX", 10, 20)];
    let stage = Stage::new(pair().into_iter().chain(answers));
    stage.say(SPLIT);
    let done = stage.compact(&request()).unwrap();
    let merged = "HISTORY\n\n---\n\n**Turn Context (split turn):**\n\nPREFIX";
    assert!(done.summary.starts_with(merged), "{}", done.summary);
    assert_eq!(stage.world.model.requests().len(), 4);

    let stage = Stage::new(pair().into_iter().chain([cut()]));
    stage.say(SPLIT);
    let error = stage.compact(&request()).unwrap_err();
    assert_eq!(error.to_string(), "Summarization failed: cut off");
    assert_eq!(stage.world.model.requests().len(), 3, "once more only");
}

#[test]
fn a_turn_that_is_split_right_at_the_beginning_has_no_history() {
    let stage = Stage::new([text(["PREFIX"])]);
    stage.say("u:one c:read:a a:last");
    let done = stage.compact(&request()).unwrap();
    assert!(done.summary.starts_with(
        "No prior history.\n\n---\n\n**Turn Context (split turn):**\n\nPREFIX\n\n<read-files>"
    ));
    assert_eq!(stage.world.model.requests().len(), 1);
}

#[test]
fn a_response_that_fails_is_no_summary() {
    let refused = || failing(StreamErrorKind::InvalidRequest, "503: no");
    let rows = [
        (TWO_TURNS, vec![refused()], "Summarization failed: 503: no"),
        (
            SPLIT,
            vec![refused(), never_ending(["x"])],
            "Summarization failed: 503: no",
        ),
        (
            SPLIT,
            vec![never_ending(["x"]), refused()],
            "Turn prefix summarization failed: 503: no",
        ),
        (
            TWO_TURNS,
            vec![cut(["half"])],
            "Summarization failed: the response ended without its last event",
        ),
        (
            TWO_TURNS,
            vec![text(["  \n"])],
            "Summarization failed: the model returned no summary (it ended with `stop`)",
        ),
        (
            TWO_TURNS,
            vec![Reply::new().call("c", "read", "{}")],
            "Summarization failed: the model returned no summary (it ended with `toolUse`)",
        ),
    ];
    for (script, replies, expected) in rows {
        let stage = Stage::new(replies);
        let ids = stage.say(script);
        let error = stage.compact(&request()).unwrap_err();
        assert_eq!(error.to_string(), expected);
        stage.check_untouched(ids.last());
    }
}

#[test]
fn an_abort_before_the_result_wins_and_after_it_comes_too_late() {
    // Where the abort comes: what waits then, and whether it is still in time.
    let places: [(&[&str], bool); 4] = [
        (&["request_model"], true),
        (&["stream:text_delta"], true),
        (&["stream:done"], true),
        (&[], false),
    ];
    for (place, in_time) in places {
        let drive = ManualDrive::new();
        let stage = Stage::driven([text(["SUMMARY"])], &drive);
        let ids = stage.say(TWO_TURNS);
        let asked = request();
        let mut running: Pin<Box<dyn Future<Output = _>>> = Box::pin(stage.compactor.compact(
            &stage.session,
            &asked,
            &stage.abort,
        ));
        let ended = if in_time {
            until(&mut running, &drive, place);
            stage.abort.cancel();
            to_end(&mut running, &drive)
        } else {
            let ended = to_end(&mut running, &drive);
            stage.abort.cancel();
            ended
        };
        drop(running);
        assert!(drive.parked().is_empty(), "nothing goes on");
        match ended {
            Err(CompactionError::Cancelled) => {
                assert!(in_time, "{place:?}");
                stage.check_untouched(ids.last());
            }
            Ok(done) => {
                assert!(!in_time, "{place:?}");
                assert_eq!(stage.session.leaf_id(), Some(done.entry_id));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn an_abort_ends_both_requests() {
    let stage = Stage::new([never_ending(["x"]), never_ending(["y"])]);
    let ids = stage.say(SPLIT);
    let asked = request();
    let mut running = Box::pin(
        stage
            .compactor
            .compact(&stage.session, &asked, &stage.abort),
    );
    assert!(poll_until_stalled(&mut running).is_pending());
    stage.abort.cancel();
    assert!(matches!(
        poll_to_end(running),
        Err(CompactionError::Cancelled)
    ));
    assert!(
        stage
            .world
            .model
            .aborts()
            .iter()
            .all(|abort| abort.is_cancelled())
    );
    stage.check_untouched(ids.last());
}

#[test]
fn an_abort_between_summary_and_store_stores_nothing() {
    let stage = Stage::new([text(["SUMMARY"])]);
    let ids = stage.say(TWO_TURNS);
    let asked = request();
    let prepared = prepare(&stage.session, &asked).unwrap();
    let ready = poll_to_end(stage.compactor.summarise(&prepared, &asked, &stage.abort)).unwrap();
    stage.abort.cancel();
    let error = stage
        .compactor
        .store(&stage.session, &prepared, ready, &stage.abort)
        .unwrap_err();
    assert!(matches!(error, CompactionError::Cancelled));
    stage.check_untouched(ids.last());
}

#[test]
fn whoever_drops_a_compaction_leaves_the_session_as_it_was() {
    for place in [
        "request_model",
        "stream:start",
        "stream:text_delta",
        "stream:done",
    ] {
        let drive = ManualDrive::new();
        let stage = Stage::driven([text(["SUMMARY"])], &drive);
        let ids = stage.say(TWO_TURNS);
        let asked = request();
        let mut running: Pin<Box<dyn Future<Output = _>>> = Box::pin(stage.compactor.compact(
            &stage.session,
            &asked,
            &stage.abort,
        ));
        until(&mut running, &drive, &[place]);
        assert!(drive.drop_effect(place));
        drop(running);
        assert!(drive.parked().is_empty());
        stage.check_untouched(ids.last());
    }
}

#[test]
fn effects_that_fail_or_halt_fail_the_compaction() {
    let drive = ManualDrive::new();
    let stage = Stage::driven([], &drive);
    let ids = stage.say(TWO_TURNS);
    let asked = request();
    let mut running: Pin<Box<dyn Future<Output = _>>> = Box::pin(stage.compactor.compact(
        &stage.session,
        &asked,
        &stage.abort,
    ));
    until(&mut running, &drive, &["request_model"]);
    assert!(drive.fail("request_model", "no network"));
    let error = to_end(&mut running, &drive).unwrap_err();
    assert_eq!(error.to_string(), "Summarization failed: no network");
    let mut running: Pin<Box<dyn Future<Output = _>>> = Box::pin(stage.compactor.compact(
        &stage.session,
        &asked,
        &stage.abort,
    ));
    until(&mut running, &drive, &["request_model"]);
    assert!(drive.halt("request_model", "enough"));
    let error = to_end(&mut running, &drive).unwrap_err();
    assert!(
        matches!(error, CompactionError::Halted(Halt::Stopped(_))),
        "{error}"
    );
    stage.check_untouched(ids.last());
}

/// A store that refuses compactions.
struct Refusing(Arc<dyn SessionStore>);

impl SessionStore for Refusing {
    fn header(&self) -> Header {
        self.0.header()
    }

    fn append(&self, entry: Entry, durability: Durability) -> Result<Arc<Entry>, StoreError> {
        match entry.kind {
            EntryKind::Compaction(_) => Err(StoreError::Unreadable { id: "full".into() }),
            _ => self.0.append(entry, durability),
        }
    }

    fn read_index(&self, look: &mut dyn FnMut(&Index)) {
        self.0.read_index(look);
    }

    fn payload(&self, id: &str) -> Result<Arc<Entry>, StoreError> {
        self.0.payload(id)
    }

    fn damage(&self) -> DamageReport {
        self.0.damage()
    }

    fn notices(&self) -> Vec<Notice> {
        self.0.notices()
    }

    fn path(&self) -> Option<std::path::PathBuf> {
        self.0.path()
    }

    fn saved(&self) -> bool {
        self.0.saved()
    }
}

#[test]
fn an_append_that_fails_leaves_the_session_as_it_was() {
    let store = Arc::new(Refusing(memory()));
    let stage = Stage::with([text(["SUMMARY"])], |effects| effects, store);
    let ids = stage.say(TWO_TURNS);
    let error = stage.compact(&request()).unwrap_err();
    assert!(matches!(error, CompactionError::Store(_)));
    assert_eq!(
        CompactionReason::Threshold.failure(&error),
        "Auto-compaction failed: the session could not be read or saved: entry `full` can no longer be read"
    );
    stage.check_untouched(ids.last());
    assert_eq!(stage.roles().len(), ids.len());
}

#[test]
fn what_is_said_while_a_summary_is_made_stays() {
    let stage = Stage::new([text(["SUMMARY"])]);
    let ids = stage.say(TWO_TURNS);
    let asked = request();
    let prepared = prepare(&stage.session, &asked).unwrap();
    let ready = poll_to_end(stage.compactor.summarise(&prepared, &asked, &stage.abort)).unwrap();
    stage
        .session
        .append_message(user("meanwhile"), SAID_AT)
        .unwrap();
    let done = stage
        .compactor
        .store(&stage.session, &prepared, ready, &stage.abort)
        .unwrap();
    assert_eq!(done.first_kept_entry_id, *ids.last().unwrap());
    assert_eq!(stage.roles(), ["compactionSummary", "user", "user"]);
}

#[test]
fn a_summary_is_not_stored_where_it_does_not_belong() {
    // On another branch, and behind another compaction.
    for elsewhere in [true, false] {
        let stage = Stage::new([text(["SUMMARY"]), text(["OTHER"])]);
        let ids = stage.say(TWO_TURNS);
        let asked = request();
        let prepared = prepare(&stage.session, &asked).unwrap();
        let ready =
            poll_to_end(stage.compactor.summarise(&prepared, &asked, &stage.abort)).unwrap();
        if elsewhere {
            stage.session.branch(&ids[0]).unwrap();
        } else {
            stage.compact(&asked).unwrap();
        }
        let leaf = stage.session.leaf_id();
        let error = stage
            .compactor
            .store(&stage.session, &prepared, ready, &stage.abort)
            .unwrap_err();
        assert!(matches!(error, CompactionError::Moved), "{error}");
        assert_eq!(stage.session.leaf_id(), leaf);
    }
}

#[test]
fn a_hook_sees_what_is_summarised_and_may_bring_the_summary() {
    let stage = Stage::new([text(["SUMMARY"])]);
    let ids = stage.say(SPLIT);
    let asked = request();
    let seen = prepare(&stage.session, &asked).unwrap();
    let roles = |messages: &[Arc<fluzo_llm::Message>]| {
        messages
            .iter()
            .map(|message| message.role().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(roles(&seen.messages_to_summarize), ["user", "assistant"]);
    assert_eq!(roles(&seen.turn_prefix_messages).len(), 5);
    assert!(seen.is_split_turn());
    assert_eq!(seen.first_kept_entry_id, *ids.last().unwrap());
    assert_eq!(seen.previous_summary, None);
    assert_eq!(seen.file_operations.read_files(), ["a"]);
    assert_eq!(seen.settings, asked.settings);
    let ready = ReadyCompaction {
        summary: "BY HOOK".into(),
        first_kept_entry_id: ids[2].clone(),
        tokens_before: seen.tokens_before,
        details: Some(json!({"readFiles": ["hooked"]})),
        from_hook: true,
        usage: fluzo_llm::Usage::default(),
    };
    let with_hook = CompactionRequest {
        ready_made: Some(ready),
        ..asked.clone()
    };
    let done = stage.compact(&with_hook).unwrap();
    let EntryKind::Compaction(stored) = kind_of(&stage, &done.entry_id) else {
        panic!("a compaction is stored")
    };
    assert_eq!(
        (&*stored.summary, stored.from_hook),
        ("BY HOOK", Some(true))
    );
    assert!(stage.world.model.requests().is_empty());
    // The next one brings its summary up to date, but does not trust its details.
    stage.say("u:three");
    let next = stage.compact(&request()).unwrap();
    assert_eq!(
        next.details,
        files(&["a"], &["b"]),
        "the split turn is summarised again"
    );
    assert!(stage.asked()[0].contains("<previous-summary>\nBY HOOK\n</previous-summary>"));
}

fn files(read: &[&str], modified: &[&str]) -> Option<serde_json::Value> {
    Some(json!({"readFiles": read, "modifiedFiles": modified}))
}

#[test]
fn what_a_hook_brings_is_checked() {
    let ready = |summary: &str, first: &str| ReadyCompaction {
        summary: summary.into(),
        first_kept_entry_id: first.into(),
        tokens_before: 1,
        details: None,
        from_hook: true,
        usage: fluzo_llm::Usage::default(),
    };
    let rows = [
        (
            ready("S", ""),
            "First kept entry has no UUID - session may need migration",
        ),
        (
            ready(" \n", "x"),
            "the summary is empty, so the messages stay",
        ),
    ];
    for (ready, expected) in rows {
        let stage = Stage::new([]);
        let ids = stage.say(TWO_TURNS);
        let asked = CompactionRequest {
            ready_made: Some(ready),
            ..request()
        };
        assert_eq!(stage.compact(&asked).unwrap_err().to_string(), expected);
        stage.check_untouched(ids.last());
    }
}

#[test]
fn a_refused_form_is_said_in_another_one() {
    let switch = FormSwitch::SystemRole;
    let refused = StreamError {
        alternative: Some(switch),
        ..StreamError::new(StreamErrorKind::FormRefused, "no such role")
    };
    let replies = || [Reply::new().fail(refused.clone()), text(["S"])];
    let without = Stage::new(replies());
    without.say(TWO_TURNS);
    let error = without.compact(&request()).unwrap_err();
    assert_eq!(error.to_string(), "Summarization failed: no such role");
    let mut stage = Stage::new(replies());
    stage.compactor = stage.compactor.with_forms(Arc::new(FormMemory::new()));
    stage.say(TWO_TURNS);
    assert_eq!(
        stage.compact(&request()).unwrap().details,
        files(&["a"], &["b"])
    );
    assert_eq!(stage.world.model.requests().len(), 2);
}
