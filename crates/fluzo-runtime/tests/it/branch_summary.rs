//! Summaries of branches that are left.

use std::sync::Arc;

use fluzo_llm::{StreamErrorKind, ThinkingLevel};
use fluzo_runtime::branch_summary::{BranchSummary, BranchSummaryError, BranchSummaryRequest};
use fluzo_testkit::polling::poll_until_stalled;
use fluzo_testkit::reply::{failing, never_ending, text};
use fluzo_testkit::{model, poll_to_end};
use serde_json::json;

use crate::compacting::{SAID_AT, Stage, conversation, named, request, with_usage};

const PREAMBLE: &str = "The user explored another branch of this conversation before returning here.\nSummary of that exploration:\n\n";

fn asked() -> BranchSummaryRequest {
    BranchSummaryRequest {
        model: Arc::new(model()),
        thinking: ThinkingLevel::High,
        reserve_tokens: 16_384,
        custom_instructions: None,
        replace_instructions: false,
        session_id: None,
    }
}

fn summarise(
    stage: &Stage,
    target: Option<&str>,
    request: &BranchSummaryRequest,
) -> Result<BranchSummary, BranchSummaryError> {
    let leaf = stage.session.leaf_id().unwrap();
    let future =
        stage
            .compactor
            .summarise_branch(&stage.session, &leaf, target, request, &stage.abort);
    poll_to_end(future)
}

#[test]
fn what_follows_the_common_ancestor_is_summarised() {
    let stage = Stage::new([with_usage("BRANCH", 7, 3)]);
    let ids = stage.say("u:one a:fork u:two c:read:a c:edit:b a:done");
    let before = stage.types();
    let done = summarise(&stage, Some(&ids[1]), &asked()).unwrap();
    assert_eq!(
        done.summary,
        format!(
            "{PREAMBLE}BRANCH\n\n<read-files>\na\n</read-files>\n\n<modified-files>\nb\n</modified-files>"
        )
    );
    assert_eq!(
        done.details,
        json!({"readFiles": ["a"], "modifiedFiles": ["b"]})
    );
    assert_eq!(done.usage.total_tokens, 10);
    let sent = stage.asked().remove(0);
    assert_eq!(
        conversation(&sent),
        "[User]: two\n\n[Assistant tool calls]: read(path=\"a\")\n\n\
         [Assistant tool calls]: edit(path=\"b\")\n\n[Assistant]: done",
        "results are left out"
    );
    let request = stage.world.model.requests().remove(0);
    assert_eq!(request.options.max_output_tokens, Some(2048));
    assert_eq!(
        request.options.thinking,
        ThinkingLevel::Off,
        "it would use up the summary"
    );
    assert!(request.tools.is_empty());
    assert_eq!(stage.types(), before, "nothing is stored");
    assert_eq!(stage.session.leaf_id().as_ref(), ids.last());
}

#[test]
fn the_words_may_be_added_to_or_replaced() {
    for (own, replace, ends) in [
        (Some("LOOK"), false, "\n\nAdditional focus: LOOK"),
        (Some("LOOK"), true, "</conversation>\n\nLOOK"),
        (Some("  "), true, "exactly as they are."),
        (None, true, "exactly as they are."),
    ] {
        let stage = Stage::new([text(["S"])]);
        stage.say("u:one a:done");
        let asked = BranchSummaryRequest {
            custom_instructions: own.map(str::to_owned),
            replace_instructions: replace,
            ..asked()
        };
        summarise(&stage, None, &asked).unwrap();
        assert!(stage.asked()[0].ends_with(ends), "{own:?} {replace}");
    }
}

#[test]
fn nothing_is_asked_when_nothing_was_said() {
    let stage = Stage::new([]);
    let ids = stage.say("u:one a:done");
    stage.session.append_session_info("name", SAID_AT).unwrap();
    let target = ids.last().map(String::as_str);
    let error = summarise(&stage, target, &asked()).unwrap_err();
    assert_eq!(error.to_string(), "No content to summarize");
}

#[test]
fn summaries_within_the_branch_are_summarised_again() {
    let stage = Stage::new([text(["FIRST"]), text(["BRANCH"])]);
    let ids = stage.say("u:zero a:fork u:one c:read:a a:done u:two");
    stage.compact(&request()).unwrap();
    stage.say("a:more");
    let details = json!({"readFiles": ["nested"], "modifiedFiles": []});
    let leaf = stage.session.leaf_id().unwrap();
    stage
        .session
        .branch_with_summary(Some(&leaf), "NESTED", Some(details), None, SAID_AT)
        .unwrap();
    let done = summarise(&stage, Some(&ids[1]), &asked()).unwrap();
    let sent = stage.asked().remove(1);
    let talk = conversation(&sent);
    assert!(
        talk.contains("compacted into the following summary:\n\n<summary>\nFIRST"),
        "{talk}"
    );
    assert!(talk.contains("<summary>\nNESTED</summary>"), "{talk}");
    assert_eq!(
        done.details,
        json!({"readFiles": ["a", "nested"], "modifiedFiles": []})
    );
}

#[test]
fn the_newest_part_that_fits_is_summarised() {
    let stage = Stage::new([text(["S"])]);
    stage.say("u:old");
    let long = Arc::new(fluzo_llm::Message::user("x".repeat(4_000), SAID_AT));
    stage.session.append_message(long, SAID_AT).unwrap();
    stage.say("u:new a:done");
    let small = BranchSummaryRequest {
        model: named("small", 1_000),
        ..asked()
    };
    summarise(&stage, None, &small).unwrap();
    let sent = stage.asked().remove(0);
    assert_eq!(conversation(&sent), "[User]: new\n\n[Assistant]: done");
}

#[test]
fn a_summary_that_fails_or_is_aborted_is_none() {
    let stage = Stage::new([
        failing(StreamErrorKind::Quota, "no money"),
        never_ending(["x"]),
    ]);
    let ids = stage.say("u:one a:done");
    let error = summarise(&stage, None, &asked()).unwrap_err();
    assert_eq!(error.to_string(), "Summarization failed: no money");
    let request = asked();
    let mut running = Box::pin(stage.compactor.summarise_branch(
        &stage.session,
        &ids[1],
        None,
        &request,
        &stage.abort,
    ));
    assert!(poll_until_stalled(&mut running).is_pending());
    stage.abort.cancel();
    let error = poll_to_end(running).unwrap_err();
    assert!(matches!(error, BranchSummaryError::Cancelled));
    stage.check_untouched(ids.last());
}
