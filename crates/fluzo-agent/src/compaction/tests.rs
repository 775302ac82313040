//! Tables for the decisions.

use std::sync::Arc;

use fluzo_llm::{Message, Model, ThinkingLevel};
use serde_json::{Value, json};

use super::*;

fn message(value: Value) -> Arc<Message> {
    Arc::new(serde_json::from_value(value).unwrap())
}

fn user(text: &str) -> Arc<Message> {
    Arc::new(Message::user(text, 1))
}

/// A response at `timestamp` whose usage has this total.
fn response(content: Value, stop: &str, total: u64, timestamp: i64) -> Arc<Message> {
    message(json!({
        "role": "assistant", "content": content, "api": "a", "provider": "p", "model": "m",
        "usage": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": total,
            "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}},
        "stopReason": stop, "timestamp": timestamp,
    }))
}

fn said(text: &str, total: u64) -> Arc<Message> {
    response(json!([{"type": "text", "text": text}]), "stop", total, 2)
}

fn result(text: &str) -> Arc<Message> {
    message(json!({
        "role": "toolResult", "toolCallId": "c", "toolName": "read",
        "content": [{"type": "text", "text": text}], "isError": false, "timestamp": 3,
    }))
}

fn summary(text: &str, timestamp: i64) -> Arc<Message> {
    message(json!({
        "role": "compactionSummary", "summary": text, "tokensBefore": 9, "timestamp": timestamp,
    }))
}

fn model(window: u64, max_tokens: u64, reasoning: bool) -> Model {
    serde_json::from_value(json!({
        "id": "m", "name": "m", "api": "a", "provider": "p", "baseUrl": "", "reasoning": reasoning,
        "input": ["text"], "contextWindow": window, "maxTokens": max_tokens,
    }))
    .unwrap()
}

fn image() -> Value {
    json!({"type": "image", "data": "AA==", "mimeType": "image/png"})
}

#[test]
fn estimates_of_each_kind() {
    let bash = |excluded: bool| {
        message(json!({
            "role": "bashExecution", "command": "ls -l", "output": "1234", "cancelled": false,
            "truncated": false, "excludeFromContext": excluded, "timestamp": 1,
        }))
    };
    let rows = [
        ("no text", user(""), 0),
        ("rounded up", user("12345"), 2),
        ("exact", user("1234"), 1),
        (
            "plain text",
            message(json!({"role": "user", "content": "12345", "timestamp": 1})),
            2,
        ),
        ("UTF-16 units, not bytes", user("ääää"), 1),
        ("two units each", user("😀😀😀"), 2),
        (
            "an image of the user",
            message(
                json!({"role": "user", "content": [{"type": "text", "text": "1"}, image()], "timestamp": 1}),
            ),
            1201,
        ),
        (
            "an image in a result",
            message(json!({
                "role": "toolResult", "toolCallId": "c", "toolName": "read", "content": [image(), image()],
                "isError": false, "timestamp": 3,
            })),
            2400,
        ),
        (
            "text, thinking, name and arguments",
            // 4 + 3 + 4 + 12
            response(
                json!([
                    {"type": "thinking", "thinking": "hmm", "thinkingSignature": "long signature"},
                    {"type": "text", "text": "1234"},
                    {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "a"}},
                ]),
                "toolUse",
                0,
                2,
            ),
            6,
        ),
        ("command and output", bash(false), 3),
        ("kept out of the context", bash(true), 0),
        ("a result", result("12345678"), 2),
        (
            "a message of an extension",
            message(
                json!({"role": "custom", "customType": "x", "content": "12345", "display": true, "timestamp": 1}),
            ),
            2,
        ),
        (
            "a branch summary",
            message(
                json!({"role": "branchSummary", "summary": "123456789", "fromId": "x", "timestamp": 1}),
            ),
            3,
        ),
        ("a compaction summary", summary("1234", 1), 1),
        (
            "an unknown role",
            message(json!({"role": "system", "x": "12345678"})),
            0,
        ),
    ];
    for (what, message, tokens) in rows {
        assert_eq!(estimate(&message), tokens, "{what}");
    }
}

#[test]
fn the_size_of_a_context() {
    let parts = message(json!({
        "role": "assistant", "content": [], "api": "a", "provider": "p", "model": "m",
        "usage": {"input": 1, "output": 20, "cacheRead": 300, "cacheWrite": 4000},
        "stopReason": "stop", "timestamp": 2,
    }));
    let after = |timestamp| response(json!([]), "stop", 70, timestamp);
    let rows = [
        ("nothing", vec![], (0, 0)),
        (
            "no usage: all estimated",
            vec![user("12345678"), said("1234", 0)],
            (0, 3),
        ),
        ("total", vec![user("x"), said("a", 100)], (100, 0)),
        (
            "total, then what follows",
            vec![said("a", 100), user("12345"), result("1234")],
            (100, 3),
        ),
        ("the four without a total", vec![parts], (4321, 0)),
        (
            "an error is no base",
            vec![
                said("a", 100),
                user("1234"),
                response(json!([]), "error", 999, 3),
            ],
            (100, 1),
        ),
        (
            "an aborted response neither; its text is estimated",
            vec![
                said("a", 100),
                response(json!([{"type": "text", "text": "1234"}]), "aborted", 999, 3),
            ],
            (100, 1),
        ),
        (
            "the last one counts",
            vec![said("a", 100), said("b", 60)],
            (60, 0),
        ),
        (
            "a report without tokens is none",
            vec![said("a", 100), said("1234", 0)],
            (100, 1),
        ),
        (
            "older than the summary",
            vec![summary("1234", 5), said("12345", 100), user("1")],
            (0, 4),
        ),
        (
            "as old as the summary",
            vec![summary("1234", 2), said("1234", 100)],
            (0, 2),
        ),
        (
            "newer than the summary",
            vec![summary("1234", 5), said("1", 100), after(6)],
            (70, 0),
        ),
    ];
    for (what, messages, (reported, estimated)) in rows {
        let expected = ContextTokens {
            tokens: reported + estimated,
            reported,
            estimated,
        };
        assert_eq!(context_tokens(&messages), expected, "{what}");
        assert_eq!(expected.is_reported(), reported > 0);
    }
}

#[test]
fn sizes_in_windows() {
    let usual = CompactionSettings::default();
    assert_eq!(
        (
            usual.enabled,
            usual.reserve_tokens,
            usual.keep_recent_tokens
        ),
        (true, 16_384, 20_000)
    );
    // Window, reserve, keep, limit.
    let rows = [
        (200_000, 16_384, 20_000, Some(183_616)),
        (65_536, 16_384, 20_000, Some(49_152)),
        (65_535, 16_383, 20_000, Some(49_152)),
        (32_768, 8_192, 16_384, Some(24_576)),
        (8_000, 2_000, 4_000, Some(6_000)),
        (4_096, 1_024, 2_048, Some(3_072)),
        (1, 0, 0, Some(1)),
        (0, 16_384, 20_000, None),
    ];
    for (window, reserve, keep, limit) in rows {
        assert_eq!(usual.reserve_in(window), reserve, "{window}");
        assert_eq!(usual.keep_in(window), keep, "{window}");
        assert_eq!(usual.limit_in(window), limit, "{window}");
    }
}

#[test]
fn what_is_kept_beside_what_is_no_message() {
    let usual = CompactionSettings::default();
    // Window, tokens beside the messages, of the summary, kept.
    let rows = [
        (200_000, 10_000, 13_107, 20_000),
        (65_536, 5_000, 13_107, 20_000),
        (65_536, 30_000, 13_107, 6_045),
        (4_096, 0, 819, 2_048),
        (4_096, 1_500, 819, 753),
        (4_096, 3_000, 819, 256),
        (100_000, 90_000, 13_107, 6_250),
        (0, 90_000, 13_107, 20_000),
    ];
    for (window, beside, summary, kept) in rows {
        assert_eq!(
            usual.keep_beside(window, beside, summary),
            kept,
            "{window} {beside}"
        );
    }
}

#[test]
fn when_compaction_is_due() {
    let usual = CompactionSettings::default();
    let off = CompactionSettings {
        enabled: false,
        ..usual
    };
    let rows = [
        (usual, 100_000, 83_616, false),
        (usual, 100_000, 83_617, true),
        (off, 100_000, 99_999, false),
        (usual, 4_096, 3_072, false),
        (usual, 4_096, 3_073, true),
        (usual, 0, u64::MAX, false),
    ];
    for (settings, window, tokens, due) in rows {
        let messages = [said("", tokens)];
        assert_eq!(
            needs_compaction(&messages, &model(window, 0, false), &settings),
            due,
            "{tokens} of {window}"
        );
        assert_eq!(
            is_due(tokens, window, &settings),
            due || (!settings.enabled)
        );
    }
}

#[test]
fn checklist_11_the_last_usage_and_estimates_of_what_follows_decide() {
    let settings = CompactionSettings::default();
    let model = model(100_000, 0, false);
    let follows = |length: usize| [said("a", 83_000), user(&"x".repeat(length))];
    assert!(!needs_compaction(&follows(616 * 4), &model, &settings));
    assert!(needs_compaction(&follows(616 * 4 + 1), &model, &settings));
}

#[test]
fn most_tokens_of_a_summary() {
    let usual = CompactionSettings::default();
    let odd = CompactionSettings {
        reserve_tokens: 9,
        ..usual
    };
    // Settings, window of the session, window and limit of the model, summary, turn prefix.
    let rows = [
        (usual, 200_000, 200_000, 0, 13_107, 8_192),
        (usual, 200_000, 200_000, 64_000, 13_107, 8_192),
        (usual, 200_000, 200_000, 4_096, 4_096, 4_096),
        (usual, 200_000, 200_000, 10_000, 10_000, 8_192),
        (usual, 200_000, 0, 0, 13_107, 8_192),
        (usual, 200_000, 8_000, 0, 4_000, 4_000),
        (odd, 200_000, 200_000, 0, 7, 4),
        (usual, 4_096, 4_096, 0, 819, 512),
        (usual, 1, 0, 0, 1, 1),
    ];
    for (settings, window, own, most, summary, prefix) in rows {
        let model = model(own, most, false);
        let caps = (
            settings.summary_cap(window, &model),
            settings.turn_prefix_cap(window, &model),
        );
        assert_eq!(caps, (summary, prefix), "{window} {own} {most}");
    }
    let rows = [
        (200_000, 0, 2_048),
        (0, 0, 2_048),
        (200_000, 1_000, 1_000),
        (8_192, 0, 2_048),
        (4_096, 0, 1_024),
    ];
    for (window, most, cap) in rows {
        assert_eq!(branch_summary_cap(&model(window, most, false)), cap);
    }
}

#[test]
fn how_much_is_thought() {
    use ThinkingLevel::{High, Minimal, Off, Xhigh};
    let mut always = model(0, 0, true);
    always.thinking_level_map.insert(Off, None);
    let rows = [
        (model(0, 0, true), High, 8_192, High),
        (model(0, 0, true), Xhigh, 8_192, High),
        (model(0, 0, true), Off, 8_192, Off),
        (model(0, 0, true), High, 4_095, Off),
        (model(0, 0, false), High, 8_192, Off),
        (always, High, 819, Minimal),
    ];
    for (model, level, cap, thinks) in rows {
        assert_eq!(
            summary_thinking(&model, level, cap),
            thinks,
            "{level:?} {cap}"
        );
    }
}

#[test]
fn a_conversation_as_text() {
    let long = "x".repeat(2_001);
    let messages = [
        user("hello\nworld"),
        response(
            json!([
                {"type": "thinking", "thinking": "first"},
                {"type": "text", "text": "I read."},
                {"type": "thinking", "thinking": "second"},
                {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "a \"b\"", "limit": 5, "x": {"y": [1]}}},
                {"type": "toolCall", "id": "c2", "name": "ls", "arguments": {}},
            ]),
            "toolUse",
            0,
            2,
        ),
        result("short"),
        result(&long),
        result(&"y".repeat(2_000)),
        result(&format!("{}😀z", "a".repeat(1_999))),
        result(""),
        response(
            json!([{"type": "text", "text": "cut off"}]),
            "aborted",
            0,
            2,
        ),
        message(json!({
            "role": "bashExecution", "command": "ls", "output": "o", "exitCode": 0, "cancelled": false,
            "truncated": false, "timestamp": 1,
        })),
        message(json!({"role": "branchSummary", "summary": "B", "fromId": "x", "timestamp": 1})),
        message(json!({"role": "user", "content": [image()], "timestamp": 1})),
    ];
    let parts = parts_of(&messages);
    let expected = [
        "[User]: hello\nworld".to_owned(),
        "[Assistant thinking]: first\nsecond".to_owned(),
        "[Assistant]: I read.".to_owned(),
        r#"[Assistant tool calls]: read(path="a \"b\"", limit=5, x={"y":[1]}); ls()"#.to_owned(),
        "[Tool result]: short".to_owned(),
        format!("[Tool result]: {}\n\n[... 1 more characters truncated]", "x".repeat(2_000)),
        format!("[Tool result]: {}", "y".repeat(2_000)),
        format!("[Tool result]: {}\n\n[... 3 more characters truncated]", "a".repeat(1_999)),
        "[User]: Ran `ls`\n```\no\n```".to_owned(),
        "[User]: The following is a summary of a branch that this conversation came back from:\n\n<summary>\nB</summary>".to_owned(),
    ];
    let texts: Vec<&str> = parts.iter().map(|part| part.text.as_str()).collect();
    assert_eq!(texts, expected);
    assert_eq!(text_of(&parts), expected.join("\n\n"));
}

const HEADINGS: [&str; 8] = [
    "## Goal\n",
    "## Constraints & Preferences\n",
    "## Progress\n### Done\n- [x] ",
    "### In Progress\n- [ ] ",
    "### Blocked\n",
    "## Key Decisions\n- **",
    "## Next Steps\n1. ",
    "## Critical Context\n",
];

#[test]
fn what_the_summary_of_a_history_is_asked_with() {
    let first = history_prompt("TALK", None, None);
    assert!(
        first.starts_with("<conversation>\nTALK\n</conversation>\n\n"),
        "{first}"
    );
    assert!(!first.contains("previous-summary") && !first.contains("Additional focus"));
    let update = history_prompt("TALK", Some("OLD"), Some(" FOCUS\n"));
    let head =
        "<conversation>\nTALK\n</conversation>\n\n<previous-summary>\nOLD\n</previous-summary>\n\n";
    assert!(update.starts_with(head), "{update}");
    assert!(update.ends_with("\n\nAdditional focus: FOCUS"), "{update}");
    assert_eq!(history_prompt("TALK", None, Some("  ")), first);
    for heading in HEADINGS {
        assert_eq!(first.matches(heading).count(), 1, "{heading}");
        assert_eq!(update.matches(heading).count(), 1, "{heading}");
    }
}

#[test]
fn what_other_summaries_are_asked_with() {
    let prefix = turn_prefix_prompt("TALK");
    let prefix_headings = [
        "## Original Request\n",
        "## Early Progress\n",
        "## Context for Suffix\n",
    ];
    for heading in prefix_headings {
        assert!(prefix.contains(heading), "{heading}");
    }
    let branch = branch_prompt("TALK", BranchWords::Usual);
    for heading in &HEADINGS[..7] {
        assert!(branch.contains(heading), "{heading}");
    }
    assert!(!branch.contains(HEADINGS[7]));
    for prompt in [&prefix, &branch] {
        assert!(prompt.starts_with("<conversation>\nTALK\n</conversation>\n\n"));
    }
    let focus = branch_prompt("TALK", BranchWords::Focus("F"));
    assert_eq!(focus, format!("{branch}\n\nAdditional focus: F"));
    let own = branch_prompt("TALK", BranchWords::Own("ONLY"));
    assert_eq!(own, "<conversation>\nTALK\n</conversation>\n\nONLY");
    assert_eq!(
        merge_split_turn("H", "P"),
        "H\n\n---\n\n**Turn Context (split turn):**\n\nP"
    );
}

#[test]
fn files_that_were_read_and_changed() {
    let call = |name: &str, arguments: Value| {
        response(
            json!([{"type": "toolCall", "id": "c", "name": name, "arguments": arguments}]),
            "toolUse",
            0,
            2,
        )
    };
    let mut files = FileOperations::default();
    assert_eq!(files.tags(), "");
    assert_eq!(
        files.details(),
        json!({"readFiles": [], "modifiedFiles": []})
    );
    for (name, arguments) in [
        ("read", json!({"path": "b"})),
        ("read", json!({"path": "a"})),
        ("read", json!({"path": "a"})),
        ("read", json!({"path": "both"})),
        ("edit", json!({"path": "both", "edits": []})),
        ("write", json!({"path": "new", "content": "x"})),
        ("read", json!({"path": ""})),
        ("read", json!({"path": 5})),
        ("grep", json!({"path": "searched"})),
    ] {
        files.add_message(&call(name, arguments));
    }
    files.add_message(&user("read"));
    files.add_details(&json!({"readFiles": ["old", 5, "new"], "modifiedFiles": ["older"], "x": 1}));
    files.add_details(&json!("nothing"));
    assert_eq!(files.read_files(), ["a", "b", "old"]);
    assert_eq!(files.modified_files(), ["both", "new", "older"]);
    let tags = "\n\n<read-files>\na\nb\nold\n</read-files>\n\n<modified-files>\nboth\nnew\nolder\n</modified-files>";
    assert_eq!(files.tags(), tags);
}

#[test]
fn lists_of_files_are_taken_off_a_summary() {
    let read = "\n\n<read-files>\na\n</read-files>";
    let modified = "\n\n<modified-files>\nb\n</modified-files>";
    let rows = [
        ("S".to_owned(), "S"),
        (format!("S{read}"), "S"),
        (format!("S{modified}"), "S"),
        (format!("S{read}{modified}"), "S"),
        (
            format!("S{read} and more"),
            "S\n\n<read-files>\na\n</read-files> and more",
        ),
        ("S\n</read-files>".to_owned(), "S\n</read-files>"),
        (String::new(), ""),
    ];
    for (summary, without) in rows {
        assert_eq!(
            FileOperations::without_tags(&summary),
            without,
            "{summary:?}"
        );
    }
}

#[test]
fn what_is_left_out_first() {
    let part = |text: &str, is_result| Part {
        text: text.to_owned(),
        is_result,
    };
    let long = |mark: &str| format!("{mark}{}", "x".repeat(99));
    // Two results of 100, three other parts of 100; each with two more between them.
    let whole = || {
        vec![
            part(&long("a"), false),
            part(&long("B"), true),
            part(&long("c"), false),
            part(&long("D"), true),
            part(&long("e"), false),
        ]
    };
    let rows = [
        (510, "aBcDe", Trimmed::default()),
        (
            509,
            "a[cDe",
            Trimmed {
                results: 1,
                ..Trimmed::default()
            },
        ),
        (
            435,
            "a[cDe",
            Trimmed {
                results: 1,
                ..Trimmed::default()
            },
        ),
        (
            434,
            "a[c[e",
            Trimmed {
                results: 2,
                ..Trimmed::default()
            },
        ),
        (
            350,
            "[[c[e",
            Trimmed {
                results: 2,
                parts: 1,
                newest: false,
            },
        ),
        (
            120,
            "[e",
            Trimmed {
                results: 2,
                parts: 4,
                newest: false,
            },
        ),
        (
            50,
            "[e",
            Trimmed {
                results: 2,
                parts: 4,
                newest: true,
            },
        ),
    ];
    for (length, shape, expected) in rows {
        let mut parts = whole();
        assert_eq!(trim(&mut parts, length), expected, "{length}");
        let firsts: String = parts
            .iter()
            .filter_map(|part| part.text.chars().next())
            .collect();
        assert_eq!(firsts, shape, "{length}");
    }
    let mut parts = whole();
    trim(&mut parts, 50);
    assert_eq!(
        parts[0].text,
        "[4 earlier parts of the conversation were left out]"
    );
    assert_eq!(parts[1].text, format!("{} [cut off]", &long("e")[..50]));
    assert_eq!(trim(&mut Vec::new(), 0), Trimmed::default());
}

#[test]
fn what_is_taken_of_a_branch() {
    let item = |tokens: usize, is_summary| BranchItem {
        message: user(&"x".repeat(tokens * 4)),
        is_summary,
    };
    let of_result = BranchItem {
        message: result(&"x".repeat(4_000)),
        is_summary: false,
    };
    // Newest first: tokens and whether it is a summary.
    let rows = [
        (vec![item(40, false), item(60, false)], vec![60, 40]),
        (
            vec![item(40, false), item(61, false), item(1, false)],
            vec![40],
        ),
        (vec![of_result, item(40, false)], vec![40]),
        (
            vec![item(89, false), item(500, true), item(1, false)],
            vec![500, 89],
        ),
        (vec![item(90, false), item(500, true)], vec![90]),
        (vec![item(500, true)], vec![500]),
        (vec![item(500, false)], vec![]),
    ];
    for (items, expected) in rows {
        let mut selection = BranchSelection::within(100);
        let taken = items
            .iter()
            .take_while(|item| selection.offer(item))
            .count();
        assert!(taken <= items.len());
        let (messages, tokens) = selection.finish();
        let sizes: Vec<u64> = messages.iter().map(|message| estimate(message)).collect();
        assert_eq!(sizes, expected);
        assert_eq!(tokens, sizes.iter().sum::<u64>());
    }
}

#[test]
fn case_h05_compaction_that_makes_no_room_ends_with_a_breakdown() {
    // Project rules of 16,000 tokens in a window of 20,000 with 5,000 in reserve.
    let settings = CompactionSettings::default();
    let model = model(20_000, 0, false);
    let rules = "r".repeat(64_000);
    let limit = settings.limit_in(20_000).unwrap();
    let mut guard = CompactionGuard::new();
    let mut made = 0;
    while guard.permits() {
        made += 1;
        guard.note(17_000, 16_500, limit);
        assert!(made < 10);
    }
    assert_eq!(made, 2);
    let tool = fluzo_llm::ToolSpec {
        name: "read".into(),
        description: "Reads.".into(),
        parameters: json!({"type": "object"}),
    };
    let messages = [summary(&"s".repeat(400), 5), user(&"u".repeat(800))];
    let filled = Breakdown::of(&rules, &[tool], &messages, &model, &settings);
    assert_eq!(
        filled.to_string(),
        "compaction makes no room: of 20000 tokens 5000 are reserved for the answer; system prompt 16000, tools 7, summary 100, messages 200. \
         Shorten the project rules, turn tools off, choose a model with a larger window, or begin a new session"
    );
}

#[test]
fn compactions_that_make_room_are_not_counted() {
    // Before, after, limit of each; whether another one may follow the last.
    let rows = [
        (vec![(90, 40, 80)], true),
        (vec![(90, 85, 80)], true),
        (vec![(90, 85, 80), (86, 82, 80)], false),
        (vec![(90, 85, 80), (86, 40, 80), (90, 85, 80)], true),
        (vec![(70, 70, 80), (70, 75, 80)], false),
    ];
    for (made, permits) in rows {
        let mut guard = CompactionGuard::new();
        for (before, after, limit) in &made {
            guard.note(*before, *after, *limit);
        }
        assert_eq!(guard.permits(), permits, "{made:?}");
        guard.reset();
        assert!(guard.permits());
    }
}
