//! One compaction after another, contexts that do not fit, and histories that others left.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fluzo_agent::{Halt, ModelEffect, TimeEffect};
use fluzo_llm::{
    AbortSignal, BoxFuture, EventStream, Finish, Message, ModelMessage, ModelRequest, StopReason,
    StreamErrorKind, StreamEvent, Transcript, Usage,
};
use fluzo_runtime::compact::{
    CompactionError, CompactionGuard, CompactionReason, CompactionRequest, CompactionSettings,
    Compactor, is_due, needs_compaction,
};
use fluzo_session::{Compaction, EntryKind};
use fluzo_testkit::reply::{failing, text};
use fluzo_testkit::{Reply, check_history, model, poll_to_end, user};
use serde_json::json;

use crate::compacting::{
    SAID_AT, Stage, call, call_block, conversation, keeping, named, request, request_text, result,
    said,
};

#[test]
fn a_second_compaction_brings_the_first_summary_up_to_date() {
    let stage = Stage::new([text(["FIRST"]), text(["SECOND"]), text(["THIRD"])]);
    stage.say("u:one c:read:a c:read:b a:done u:two");
    stage.compact(&request()).unwrap();
    stage.say("c:edit:b c:write:c a:done u:three");
    let second = stage.compact(&request()).unwrap();
    let asked = stage.asked().remove(1);
    assert!(conversation(&asked).starts_with("[User]: two\n\n[Assistant tool calls]: edit"));
    assert!(!asked.contains("[User]: one"), "it is summarised already");
    assert!(asked.contains("\n\n<previous-summary>\nFIRST\n</previous-summary>\n\n"));
    assert_eq!(
        second.summary,
        "SECOND\n\n<read-files>\na\n</read-files>\n\n<modified-files>\nb\nc\n</modified-files>"
    );
    assert_eq!(
        second.details,
        Some(json!({"readFiles": ["a"], "modifiedFiles": ["b", "c"]}))
    );
    assert_eq!(stage.roles(), ["compactionSummary", "user"]);
    stage.say("a:done u:four");
    let third = stage.compact(&request()).unwrap();
    assert!(stage.asked()[2].contains("<previous-summary>\nSECOND\n</previous-summary>"));
    assert_eq!(third.details, second.details);
}

#[test]
fn what_a_compaction_kept_from_the_middle_of_a_turn_is_summarised_by_the_next_one() {
    let stage = Stage::new([text(["HISTORY"]), text(["PREFIX"]), text(["NEXT"])]);
    stage.say("u:zero a:done u:one c:read:a c:read:b");
    let first = stage.compact(&keeping(6)).unwrap();
    assert!(first.summary.contains("(split turn)"));
    assert_eq!(
        stage.roles(),
        ["compactionSummary", "assistant", "toolResult"],
        "the kept part begins in the middle"
    );
    stage.say("a:done u:two");
    let second = stage.compact(&request()).unwrap();
    let asked = stage.asked().remove(2);
    assert_eq!(
        conversation(&asked),
        "[Assistant tool calls]: read(path=\"b\")\n\n[Tool result]: ok\n\n[Assistant]: done"
    );
    assert!(asked.contains("PREFIX\n</previous-summary>"), "{asked}");
    assert_eq!(
        second.details,
        Some(json!({"readFiles": ["a", "b"], "modifiedFiles": []}))
    );
    assert_eq!(stage.roles(), ["compactionSummary", "user"]);
    sendable(&stage);
}

#[test]
fn a_summary_that_nothing_new_belongs_to_is_carried_over() {
    let stage = Stage::new([text(["FIRST"]), text(["PREFIX"])]);
    stage.say("u:one c:read:a a:done u:two");
    stage.compact(&request()).unwrap();
    stage.say("c:read:b a:last");
    let second = stage.compact(&request()).unwrap();
    assert_eq!(
        second.summary,
        "FIRST\n\n---\n\n**Turn Context (split turn):**\n\nPREFIX\n\n<read-files>\na\nb\n</read-files>"
    );
    assert_eq!(stage.world.model.requests().len(), 2);
}

#[test]
fn the_context_is_within_its_limit_after_a_compaction() {
    let settings = CompactionSettings::default();
    let stage = Stage::new([text(["HISTORY"]), text(["PREFIX"])]);
    stage.say("u:one a:done u:two");
    let large = answer("x".repeat(80_000), 99_500, SAID_AT);
    stage.session.append_message(large, SAID_AT).unwrap();
    let needed = || {
        let messages = stage.session.context().unwrap().messages;
        needs_compaction(&messages, &model(), &settings)
    };
    assert!(needed());
    let asked = CompactionRequest {
        settings,
        reason: CompactionReason::Threshold,
        ..request()
    };
    stage.say("u:three");
    let done = stage.compact(&asked).unwrap();
    assert_eq!(done.tokens_before, 99_502, "with what was said since");
    assert!(!needed(), "what the kept response reported counts no more");
    // 99,500 were reported where 20,003 are estimated: the rest stands beside the messages.
    let summary = done.summary.len().div_ceil(4) as u64;
    assert_eq!(
        done.estimated_tokens_after,
        99_500 - 20_003 + summary + 20_000 + 2
    );
}

/// The messages that would be sent now, checked by what is stricter than what makes them.
fn sendable(stage: &Stage) -> Vec<String> {
    let sent = sent(stage);
    assert_eq!(check_history(&sent), Ok(()));
    shapes(&sent)
}

fn sent(stage: &Stage) -> Vec<Arc<Message>> {
    let messages = stage.session.context().unwrap().messages;
    let transcript = Transcript::from_context(&messages);
    let one = |message| {
        Arc::new(match message {
            ModelMessage::User(user) => Message::User(user.clone()),
            ModelMessage::Assistant(said) => Message::Assistant(said.clone()),
            ModelMessage::ToolResult(result) => Message::ToolResult(result.clone()),
        })
    };
    transcript.iter().map(one).collect()
}

fn shapes(sent: &[Arc<Message>]) -> Vec<String> {
    let shape = |message: &Arc<Message>| match &**message {
        Message::Assistant(said) => {
            let ids: Vec<&str> = said.tool_calls().map(|call| call.id.as_str()).collect();
            format!("assistant {}", ids.join("+")).trim_end().to_owned()
        }
        Message::ToolResult(result) if result.is_error => {
            format!("missing {}", result.tool_call_id)
        }
        Message::ToolResult(result) => format!("result {}", result.tool_call_id),
        other => other.role().to_owned(),
    };
    sent.iter().map(shape).collect()
}

fn call_of(id: &str) -> Arc<Message> {
    let mut block = call_block("read", id);
    block["id"] = json!(id);
    said(json!([block]), "toolUse")
}

fn result_of(id: &str) -> Arc<Message> {
    let Message::ToolResult(mut result) = Message::clone(&result(id)) else {
        panic!("a result")
    };
    result.tool_call_id = id.to_owned();
    Arc::new(Message::ToolResult(result))
}

fn append(stage: &Stage, message: Arc<Message>) -> String {
    stage
        .session
        .append_message(message, SAID_AT)
        .unwrap()
        .id
        .clone()
}

fn append_compaction(stage: &Stage, first: &str) -> String {
    let compaction = Compaction {
        summary: format!("from {first}"),
        first_kept_entry_id: first.to_owned(),
        ..Compaction::default()
    };
    stage
        .session
        .append_compaction(compaction, SAID_AT)
        .unwrap()
        .id
        .clone()
}

#[test]
fn case_h02_two_compactions_in_a_row_leave_a_request_that_is_valid() {
    let stage = Stage::new([]);
    stage.say("u:start");
    let call_a = append(&stage, call_of("A"));
    append_compaction(&stage, &call_a);
    let result_a = append(&stage, result_of("A"));
    assert_eq!(sendable(&stage), ["user", "assistant A", "result A"]);
    append(&stage, call_of("B"));
    append(&stage, result_of("B"));
    // The second keeps from the tail of the first: from the result whose call it took away.
    append_compaction(&stage, &result_a);
    assert_eq!(sendable(&stage), ["user", "assistant B", "result B"]);
    append(&stage, user("go on"));
    assert_eq!(sendable(&stage).last().unwrap(), "user");
}

#[test]
fn case_h02_our_own_cuts_never_part_a_call_from_its_result() {
    for keep in 1..40 {
        let stage = Stage::new((0..8).map(|_| text(["S"])));
        stage.say("u:start");
        let call_a = append(&stage, call_of("A"));
        append_compaction(&stage, &call_a);
        append(&stage, result_of("A"));
        append(&stage, call_of("B"));
        append(&stage, result_of("B"));
        match stage.compact(&keeping(keep)) {
            Ok(_) | Err(CompactionError::NothingToCompact) => {}
            Err(error) => panic!("{error}"),
        }
        let sent = sendable(&stage);
        assert!(
            !sent.iter().any(|shape| shape.starts_with("missing")),
            "{keep} {sent:?}"
        );
        stage.say("a:done u:two");
        stage.compact(&request()).unwrap();
        assert_eq!(sendable(&stage), ["user", "user"]);
    }
}

#[test]
fn case_h03_histories_whose_calls_and_results_were_parted_are_mended_whole() {
    // The call is summarised, its result stays in front of the user's next words.
    let orphan_result = Stage::new([]);
    append(&orphan_result, call_of("A"));
    let kept = append(&orphan_result, result_of("A"));
    append(&orphan_result, user("and this"));
    append_compaction(&orphan_result, &kept);
    assert_eq!(sendable(&orphan_result), ["user", "user"]);
    // A call without a result beside signed thinking: the blocks stay as they are.
    let orphan_call = Stage::new([]);
    let thinking = json!({"type": "thinking", "thinking": "hm", "thinkingSignature": "sig"});
    let kept = append(
        &orphan_call,
        said(json!([thinking, call_block("read", "a")]), "toolUse"),
    );
    append_compaction(&orphan_call, &kept);
    append(&orphan_call, user("go on"));
    assert_eq!(
        sendable(&orphan_call),
        ["user", "assistant c1", "missing c1", "user"]
    );
    let messages = orphan_call.session.context().unwrap().messages;
    let transcript = Transcript::from_context(&messages);
    let first = transcript.iter().find_map(|message| match message {
        ModelMessage::Assistant(said) => Some(said.content.clone()),
        _ => None,
    });
    let stored = messages[1].as_assistant().map(|said| said.content.clone());
    assert_eq!(first, stored);
    // The same id in two turns, which dialects tell apart, and twice in one.
    let same_id = Stage::new([]);
    let kept = append(&same_id, call("read", "a"));
    append(&same_id, result("ok"));
    append_compaction(&same_id, &kept);
    append(&same_id, call("read", "b"));
    append(&same_id, result("ok"));
    let twice = said(
        json!([call_block("read", "c"), call_block("read", "d")]),
        "toolUse",
    );
    append(&same_id, twice);
    append(&same_id, result("ok"));
    append(&same_id, result("again"));
    let turn = ["assistant c1", "result c1"];
    let sent = sent(&same_id);
    assert!(Transcript::new(sent.clone()).is_ok());
    assert_eq!(shapes(&sent), [&["user"][..], &turn, &turn, &turn].concat());
}

#[test]
fn a_summary_request_that_does_not_fit_loses_the_oldest_tool_outputs_first() {
    let overflow = || failing(StreamErrorKind::Overflow, "too long");
    let stage = Stage::new([overflow(), text(["S"])]);
    stage.say("u:one big big a:done u:two");
    stage.compact(&request()).unwrap();
    let asked = stage.asked();
    let (whole, less) = (conversation(&asked[0]), conversation(&asked[1]));
    assert_eq!(whole.matches(&"r".repeat(2_000)).count(), 2);
    assert!(
        less.len() * 2 <= whole.len() + 200,
        "{} of {}",
        less.len(),
        whole.len()
    );
    assert!(
        less.starts_with(
            "[User]: one\n\n[Assistant tool calls]: read(path=\"big\")\n\n[Tool result]: [left out]\n\n[Assistant tool calls]"
        ),
        "{less}"
    );
    assert!(less.ends_with("[Assistant]: done"));
}

#[test]
fn a_summary_request_that_never_fits_is_made_a_bounded_number_of_times() {
    let overflow = || failing(StreamErrorKind::Overflow, "too long");
    let silent = || {
        let mut finish = Finish::done(StopReason::Stop, Usage::default());
        finish.overflow = true;
        text(["half a summary"]).finish(StreamEvent::Done(Box::new(finish)))
    };
    let rows: [(&dyn Fn() -> Reply, &str); 2] = [
        (&overflow, "Summarization failed: too long"),
        (
            &silent,
            "Summarization failed: the conversation does not fit the context window of the model that is to summarise it",
        ),
    ];
    for (reply, expected) in rows {
        let stage = Stage::new((0..9).map(|_| reply()));
        stage.say("u:one big big");
        for _ in 0..16 {
            append(&stage, user(&"u".repeat(3_000)));
        }
        let ids = stage.say("a:done u:two");
        let error = stage.compact(&request()).unwrap_err();
        assert_eq!(error.to_string(), expected);
        let lengths: Vec<usize> = stage.asked().iter().map(String::len).collect();
        assert_eq!(lengths.len(), 5);
        assert!(
            lengths.windows(2).all(|pair| pair[1] < pair[0]),
            "{lengths:?}"
        );
        stage.check_untouched(ids.last());
    }
}

#[test]
fn a_summary_request_that_cannot_become_shorter_is_not_made_again() {
    let stage = Stage::new((0..9).map(|_| failing(StreamErrorKind::Overflow, "too long")));
    let ids = stage.say("u:one a:done u:two");
    stage.compact(&request()).unwrap_err();
    assert!(stage.world.model.requests().len() <= 2);
    stage.check_untouched(ids.last());
}

#[test]
fn a_request_that_cannot_fit_by_its_estimate_is_not_made_whole() {
    let stage = Stage::new([text(["S"])]);
    stage.say("u:one big big big big a:done u:two");
    let asked = CompactionRequest {
        model: named("small", 4_000),
        ..request()
    };
    stage.compact(&asked).unwrap();
    let sent = stage.asked().remove(0);
    assert!(sent.len() + 4 * 2_000 <= 4 * 4_000, "{}", sent.len());
    assert!(sent.contains("[left out]"));
}

/// A server with a window: what does not fit is refused, what fits is answered shortly.
struct Window {
    tokens: usize,
    requests: Mutex<Vec<(usize, bool)>>,
}

impl Window {
    fn size(request: &ModelRequest) -> usize {
        let one = |message: ModelMessage<'_>| match message {
            ModelMessage::User(user) => user.content.text().len(),
            ModelMessage::Assistant(said) => serde_json::to_string(&said.content).unwrap().len(),
            ModelMessage::ToolResult(result) => {
                serde_json::to_string(&result.content).unwrap().len()
            }
        };
        let messages: usize = request.transcript.iter().map(one).sum();
        (messages + request.system_prompt.len()) / 4
    }
}

impl ModelEffect for Window {
    fn request<'a>(
        &'a self,
        request: ModelRequest,
        abort: AbortSignal,
    ) -> BoxFuture<'a, Result<EventStream, Halt>> {
        let size = Self::size(&request);
        let fits = size <= self.tokens;
        self.requests.lock().unwrap().push((size, fits));
        let reply = if fits {
            text(["## Goal\nshort"])
        } else {
            failing(StreamErrorKind::Overflow, "context_length_exceeded")
        };
        Box::pin(std::future::ready(Ok(reply.stream(abort))))
    }
}

/// A session that grew beyond `window` tokens by turns of about 3,000 each.
fn grown(stage: &Stage, window: usize) {
    let mut size = 0;
    while size <= window {
        append(stage, user(&"u".repeat(1_000)));
        append(stage, call("read", "a"));
        append(stage, result(&"r".repeat(10_000)));
        append(
            stage,
            said(json!([{"type": "text", "text": "a".repeat(1_000)}]), "stop"),
        );
        size += 3_000;
    }
    append(stage, user("go on"));
}

#[test]
fn case_h08_one_compaction_makes_a_request_that_overflowed_fit() {
    // The window that the model is said to have, and the one that its server has.
    for (said_to_be, is) in [
        (8_000, 8_000),
        (128_000, 8_000),
        (0, 8_000),
        (128_000, 2_500),
    ] {
        let stage = Stage::new([]);
        grown(&stage, 8_000);
        let server = Arc::new(Window {
            tokens: is,
            requests: Mutex::default(),
        });
        let compactor =
            Compactor::new(Arc::clone(&server) as _, Arc::clone(&stage.world.time) as _);
        let asked = CompactionRequest {
            settings: CompactionSettings::default(),
            model: named("m1", said_to_be),
            window_model: named("m1", said_to_be),
            reason: CompactionReason::Overflow,
            ..request()
        };
        let done = poll_to_end(compactor.compact(&stage.session, &asked, &stage.abort)).unwrap();
        assert!(done.estimated_tokens_after < done.tokens_before);
        let messages = stage.session.context().unwrap().messages;
        assert_eq!(messages[0].role(), "compactionSummary");
        let again = ModelRequest {
            transcript: Transcript::from_context(&messages),
            ..any_request()
        };
        if is >= 8_000 {
            assert!(
                Window::size(&again) <= is,
                "{said_to_be} {is}: the next request fits"
            );
        }
        assert!(!is_due(
            done.estimated_tokens_after,
            said_to_be,
            &asked.settings
        ));
        let requests = server.requests.lock().unwrap();
        assert!(requests.len() <= 6, "{requests:?}");
        assert!(requests.iter().any(|(_, fits)| *fits));
    }
}

/// Tokens of a context as a server counts them that is stricter than the estimate: three
/// characters each, beside `overhead`.
fn counted(messages: &[Arc<Message>], overhead: u64) -> u64 {
    let transcript = Transcript::from_context(messages);
    let request = ModelRequest {
        transcript,
        system_prompt: Arc::from(""),
        ..any_request()
    };
    overhead + Window::size(&request) as u64 * 4 / 3
}

#[test]
fn a_long_conversation_goes_on_in_a_small_window() {
    let window = 4_096;
    let overhead = 1_200;
    let stage = Stage::new([]);
    let server = Arc::new(Window {
        tokens: 4_096,
        requests: Mutex::default(),
    });
    let compactor = Compactor::new(Arc::clone(&server) as _, Arc::clone(&stage.world.time) as _);
    let asked = CompactionRequest {
        settings: CompactionSettings::default(),
        model: named("m1", window),
        window_model: named("m1", window),
        reason: CompactionReason::Threshold,
        ..request()
    };
    let limit = asked.settings.limit_in(window).unwrap();
    let (mut guard, mut made) = (CompactionGuard::new(), 0);
    let messages = || stage.session.context().unwrap().messages;
    for turn in 0..40 {
        stage.world.time.advance(Duration::from_secs(1));
        let path = format!("file{turn}");
        append(&stage, user(&"u".repeat(200)));
        append(&stage, call("read", &path));
        append(&stage, result(&"r".repeat(900)));
        let total = counted(&messages(), overhead);
        assert!(total <= window, "turn {turn}: {total}");
        let now = stage.world.time.now_ms();
        append(&stage, answer("a".repeat(300), total + 100, now));
        if needs_compaction(&messages(), &asked.window_model, &asked.settings) {
            assert!(guard.permits(), "turn {turn}");
            let done =
                poll_to_end(compactor.compact(&stage.session, &asked, &stage.abort)).unwrap();
            guard.note(done.tokens_before, done.estimated_tokens_after, limit);
            assert!(counted(&messages(), overhead) <= limit, "turn {turn}");
            made += 1;
        }
    }
    assert!(made > 5, "{made}");
}

/// An answer whose usage has this total.
fn answer(text: String, total: u64, timestamp: i64) -> Arc<Message> {
    let json = json!({
        "role": "assistant", "content": [{"type": "text", "text": text}],
        "api": "test", "provider": "test", "model": "m1",
        "usage": {"input": total, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": total},
        "stopReason": "stop", "timestamp": timestamp,
    });
    Arc::new(serde_json::from_value(json).unwrap())
}

/// Any request, to be filled.
fn any_request() -> ModelRequest {
    let scene = Stage::new([text(["S"])]);
    scene.say("u:one a:done u:two");
    scene.compact(&request()).unwrap();
    let made = scene.world.model.requests().remove(0);
    assert!(request_text(&made).starts_with("<conversation>"));
    made
}

#[test]
fn a_response_that_was_aborted_is_not_summarised() {
    let stage = Stage::new([text(["S"])]);
    stage.say("u:one x u:two a:done u:three");
    let done = stage.compact(&request()).unwrap();
    let asked = stage.asked().remove(0);
    assert_eq!(
        conversation(&asked),
        "[User]: one\n\n[User]: two\n\n[Assistant]: done"
    );
    assert!(matches!(
        stage.session.entry(&done.entry_id).unwrap().kind,
        EntryKind::Compaction(_)
    ));
}
