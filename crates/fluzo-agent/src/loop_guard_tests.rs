//! What counts as a repetition, as tables.

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
