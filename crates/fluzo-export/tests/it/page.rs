//! What a page shows.

use std::fs;
use std::sync::Arc;

use fluzo_export::Extras;
use fluzo_llm::tool::ToolSpec;
use fluzo_session::{Compaction, EntryKind, Header, JsonlStore, MemoryStore, SessionStore};
use fluzo_stdx::ids::RandomIds;
use serde_json::json;

use crate::html;
use crate::support::{Built, page};

/// The page of what `fill` adds, and that each of `parts` stands on it, in order.
fn check(fill: impl FnOnce(&mut Built), parts: &[&str]) {
    let mut built = Built::new();
    fill(&mut built);
    let page = built.page();
    html::check(&page);
    in_order(&page, parts);
}

fn in_order(page: &str, parts: &[&str]) {
    let mut rest = page;
    for part in parts {
        let at = rest
            .find(part)
            .unwrap_or_else(|| panic!("no {part:?} in {rest}"));
        rest = &rest[at + part.len()..];
    }
}

#[test]
fn a_call_and_its_result_are_one_fold() {
    check(
        |built| {
            built.user("go");
            built.call(
                "read",
                json!({"path": "src/a.rs"}),
                "fn a() {}\nfn b() {}\n",
            );
        },
        &[
            "<h3>User</h3><time>2026-12-01 08:37:28Z</time>",
            "<div class=w>go</div>",
            "<details class=t><summary><b>read</b> <code>src/a.rs</code> <small>2 lines</small></summary>",
            "<div id=n2><pre tabindex=0><k->fn",
            "</details>",
        ],
    );
}

#[test]
fn results_find_their_calls_in_any_order() {
    check(
        |built| {
            let call =
                |id: &str| json!({"type": "toolCall", "id": id, "name": id, "arguments": {}});
            built.assistant(json!([call("one"), call("two"), call("none")]));
            built.result("two", "two", "second");
            built.result("other", "other", "whose");
            built.result("one", "one", "first");
        },
        &[
            "<b>one</b>",
            "first",
            "<b>two</b>",
            "second",
            "<b>none</b> <small>no result</small>",
            "Result of <b>other</b>",
            "whose",
        ],
    );
}

#[test]
fn edits_show_their_diff() {
    check(
        |built| {
            let edit = json!({"path": "a", "edits": [{"oldText": "x", "newText": "y"}]});
            built.assistant(
                json!([{"type": "toolCall", "id": "e", "name": "edit", "arguments": edit}]),
            );
            built.message(
                json!({"role": "toolResult", "toolCallId": "e", "toolName": "edit", "content": [],
                "details": {"diff": " 1 a\n-2 x\n+2 y"}, "isError": false, "timestamp": 3}),
            );
            built.assistant(
                json!([{"type": "toolCall", "id": "f", "name": "edit", "arguments": edit}]),
            );
        },
        &[
            "<details class=t open>",
            " 1 a\n<del>-2 x\n</del><ins>+2 y</ins>",
            "<details class=t>",
            "<del>x</del>\n<ins>y</ins>",
        ],
    );
}

#[test]
fn every_kind_of_entry_has_its_form() {
    check(
        |built| {
            built.add(EntryKind::ModelChange {
                provider: "p".to_owned(),
                model_id: "m".to_owned(),
            });
            built.add(EntryKind::ThinkingLevelChange {
                level: "high".to_owned(),
            });
            let user = built.user("hello");
            built.assistant(
                json!([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "*ok*"}]),
            );
            built.add(EntryKind::Label {
                target_id: user.clone(),
                label: Some("start".to_owned()),
            });
            built.add(EntryKind::Compaction(Compaction {
                summary: "## Goal".to_owned(),
                first_kept_entry_id: user,
                tokens_before: 150_000,
                ..Default::default()
            }));
            built.add(EntryKind::BranchSummary {
                from_id: "root".to_owned(),
                summary: "left".to_owned(),
                details: None,
                from_hook: None,
            });
            built.add(EntryKind::Custom {
                custom_type: "todo".to_owned(),
                data: Some(json!([1])),
            });
            built.add(EntryKind::CustomMessage {
                custom_type: "x".to_owned(),
                content: fluzo_llm::message::UserContent::Text("note".to_owned()),
                display: false,
                details: None,
            });
            built.add(EntryKind::SessionInfo {
                name: "Named".to_owned(),
            });
            built.add(EntryKind::Unknown {
                type_name: "usage".to_owned(),
            });
            built.message(json!({"role": "bashExecution", "command": "ls", "output": "a", "exitCode": 2, "cancelled": false, "truncated": false, "excludeFromContext": true, "timestamp": 1}));
        },
        &[
            "<title>Named</title>",
            "<h1>Named</h1>",
            "Model: p/m",
            "Thinking level: high",
            "<mark>start</mark>",
            "<details class=k><summary>Thinking</summary><div class=w>hm</div></details>",
            "<em>ok</em>",
            "Label start",
            "<a href=#n2>to the entry</a>",
            "<h3>Compaction</h3>",
            "about 150,000 tokens; kept from <a href=#n2>this entry</a> on",
            "<details><summary>Summary</summary><div class=m><h5>Goal</h5>",
            "<h3>Summary of a branch that was left</h3>",
            "State of extension todo",
            "Hidden message of extension x",
            "note",
            "Name: Named",
            "Entry of type usage",
            "<mark>current entry</mark>",
            "<b>$</b> <code>ls</code> <em>exit 2</em> <em>not sent to the model</em>",
        ],
    );
}

#[test]
fn a_failed_response_says_why() {
    check(
        |built| {
            let mut response = crate::support::response(json!([]));
            response["stopReason"] = json!("error");
            response["errorMessage"] = json!("429 <slow down>");
            built.message(response);
        },
        &["<p class=z>Failed: 429 &lt;slow down></p>"],
    );
}

#[test]
fn images_stand_in_the_page() {
    let image = |data: &str, kind: &str| json!({"type": "image", "data": data, "mimeType": kind});
    check(
        |built| {
            let blocks = json!([
                image("iVBORw0KGgo=", "image/png"),
                image("PHN2Zz4=", "image/svg+xml"),
                image("no base64!", "image/png")
            ]);
            built.message(json!({"role": "user", "content": blocks, "timestamp": 1}));
        },
        &[
            "src=\"data:image/png;base64,iVBORw0KGgo=\">",
            "not shown: image/svg+xml",
            "not shown: image/png",
        ],
    );
}

#[test]
fn branches_are_lists_inside_and_the_path_is_marked() {
    let mut built = Built::new();
    let root = built.user("root");
    let left = built.user("left");
    built.says("left answer");
    built.back_to(Some(&root));
    let right = built.user("right");
    let (page, report) = built.page_at(Some(&right));
    html::check(&page);
    assert_eq!(report.entries, 4);
    let nested = [
        "root",
        "<li class=h><details><summary>Branch of 2 entries: left</summary><ol class=p>",
        "left answer",
        "</ol></details></li>",
        "class=u aria-current=location>",
        "right",
        "</ol>",
    ];
    in_order(&page, &[&["<ol class=p>"], nested.as_slice()].concat());
    in_order(
        &page,
        &[
            "<nav aria-label=Contents>",
            "<li><a href=#n0>root</a>",
            "<li>Branch of 2 entries<ul>",
            "<li><a href=#n1>left</a>",
            "</ul></li>",
            "<a href=#n3>right</a>",
        ],
    );
    in_order(&page, &["With all branches<dd>3 of the user, 1 response"]);
    let (page, _) = built.page_at(Some(&left));
    in_order(
        &page,
        &[
            "<ol class=p>",
            "root",
            "aria-current=location>",
            "left",
            "Branch of 1 entry",
            "left answer",
        ],
    );
}

#[test]
fn facts_and_extras_stand_at_the_top() {
    let mut built = Built::new();
    built.user("hello");
    built.says("ok");
    let leaf = built.entries[1].id.clone();
    let store = MemoryStore::with_entries(
        Header::new("s-1", "2026-12-01T08:37:28.123Z", "/work"),
        built.entries,
    );
    let tools = [ToolSpec {
        name: "read".to_owned(),
        description: "Reads".to_owned(),
        parameters: json!({"type": "object"}),
    }];
    let extras = Extras {
        system_prompt: Some("You are <helpful>"),
        tools: &tools,
    };
    let (page, _) = page(&store, Some(&leaf), &extras);
    html::check(&page);
    in_order(
        &page,
        &[
            "<h1>hello</h1>",
            "<dt>Session<dd>s-1",
            "<dt>Begun<dd><time>2026-12-01 08:37:28Z</time>",
            "<dt>Folder<dd>/work",
            "<dt>Messages<dd>1 of the user, 1 response, 0 tool calls",
            "<dt>Tokens<dd>12 (10 input, 2 output)",
            "<dt>Cost<dd>0.5000",
            "System prompt</summary><pre tabindex=0>You are &lt;helpful></pre>",
            "Tools <small>1</small>",
            "<h3>read</h3>",
            "Reads",
            "object",
            "<main>",
        ],
    );
}

#[test]
fn what_cannot_be_read_is_named() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("s.jsonl");
    let mut built = Built::new();
    built.user("hello");
    built.call("bash", json!({}), "out");
    built.user("later");
    let header = Header::new("s", "2026-12-01T08:37:28.123Z", "/w");
    let entries = built.entries.clone();
    drop(JsonlStore::create(&path, header, entries, Arc::new(RandomIds)).unwrap());
    let store = JsonlStore::open(&path, Arc::new(RandomIds)).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    fs::write(
        &path,
        text.replace("\"hello\"", "\"he\\xo\"")
            .replace("\"out\"", "\"o\\x\""),
    )
    .unwrap();
    let leaf = built.entries.last().unwrap().id.clone();
    let (page, report) = page(&store as &dyn SessionStore, Some(&leaf), &Extras::default());
    html::check(&page);
    assert!(report.unreadable >= 1 && report.entries >= 1, "{report:?}");
    in_order(
        &page,
        &[
            "This entry cannot be read",
            "cannot be read and are missing here.",
        ],
    );
}

#[test]
fn a_session_without_entries_is_a_page() {
    check(|_| {}, &["<h1>Session</h1>", "<ol class=p>\n</ol>"]);
}

#[test]
fn a_session_of_any_depth_is_flat_on_the_page() {
    let mut built = Built::new();
    for _ in 0..3_000 {
        built.user("y");
    }
    assert!(html::check(&built.page()).deepest < 12);
}
