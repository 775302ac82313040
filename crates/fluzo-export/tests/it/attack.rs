//! Sessions that want to be obeyed.

use fluzo_export::Extras;
use fluzo_llm::tool::ToolSpec;
use fluzo_session::{Entry, EntryKind, Header, MemoryStore};
use serde_json::{Value, json};

use crate::html;
use crate::support::{Built, page};

const ATTACKS: &[&str] = &[
    "</script><script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "' onmouseover='alert(1)",
    "</style><style>*{background:url(https://x.test/)}</style>",
    "</title></details></ol></li></pre></code>",
    "<!--",
    "]]>",
    "<![CDATA[",
    "<?xml?>",
    "<svg/onload=alert(1)>",
    "<base href=//x.test>",
    "[a](javascript:alert(1))",
    "[a](<java\nscript:alert(1)>)",
    "![x](https://x.test/p.png)",
    "[a]: javascript:x \"t\"\n\n[a]",
    "<a href=\"javascript:x\">y</a>",
    "<https://x.test/?\"onclick=x>",
    "`</code><b>`",
    "```html\"><script>\n</pre><script>alert(1)</script>\n```",
    "~~~ \"><x>\n</pre>\n~~~",
    "| <td> | \" |\n|-|-|\n| </table> | <x> |",
    "&lt;script&gt;&#60;b&#62;",
    "\u{202e}\u{0}\u{1b}[31m\r",
    "1. a\n   > - <ol>\n     ```\n     </ol>",
    "# </h4><h1>",
    "~~</s>~~ **</strong>** *</em>*",
    "<details open><summary>",
];

/// `attack` in every place that a session has for text.
fn everywhere(attack: &str) -> (MemoryStore, String) {
    let mut built = Built::new();
    let blocks = json!([{"type": "text", "text": attack}, {"type": "image", "data": attack, "mimeType": "image/png"},
        {"type": "image", "data": "AA==", "mimeType": attack}, {"type": attack, "x": attack}]);
    built.message(json!({"role": "user", "content": blocks, "timestamp": 1}));
    built.message(json!({"role": "user", "content": attack, "timestamp": 1}));
    let call = |name: &str, arguments: Value| json!({"type": "toolCall", "id": attack, "name": name, "arguments": arguments});
    let mut response = crate::support::response(json!([
        {"type": "text", "text": attack}, {"type": "thinking", "thinking": attack},
        call(attack, json!({attack: attack})), call("bash", json!({"command": attack, "timeout": attack})),
        call("write", json!({"path": format!("{attack}.rs"), "content": attack})),
        call("edit", json!({"path": attack, "edits": [{"oldText": attack, "newText": attack}]})),
        {"type": "toolCall", "id": "r", "name": "read", "arguments": {}, "rawArguments": attack},
    ]));
    for field in ["provider", "model", "stopReason", "errorMessage", "api"] {
        response[field] = json!(attack);
    }
    built.message(response);
    built.message(
        json!({"role": "toolResult", "toolCallId": attack, "toolName": attack, "content": blocks,
        "details": {"diff": attack}, "isError": true, "timestamp": 3}),
    );
    built.message(
        json!({"role": "toolResult", "toolCallId": "r", "toolName": "edit", "content": [],
        "details": {"diff": attack}, "isError": false, "timestamp": 3}),
    );
    built.message(json!({"role": "bashExecution", "command": attack, "output": attack, "exitCode": 3, "cancelled": true,
        "truncated": true, "fullOutputPath": attack, "excludeFromContext": true, "timestamp": 4}));
    built.message(json!({"role": attack, "x": attack}));
    built.message(json!({"role": "custom", "customType": attack, "content": attack, "display": true, "timestamp": 1}));
    let text = || attack.to_owned();
    let first = built.entries[0].id.clone();
    let kinds = [
        EntryKind::ModelChange {
            provider: text(),
            model_id: text(),
        },
        EntryKind::ThinkingLevelChange { level: text() },
        EntryKind::Compaction(fluzo_session::Compaction {
            summary: text(),
            first_kept_entry_id: text(),
            ..Default::default()
        }),
        EntryKind::BranchSummary {
            from_id: text(),
            summary: text(),
            details: None,
            from_hook: None,
        },
        EntryKind::Custom {
            custom_type: text(),
            data: Some(json!({attack: attack})),
        },
        EntryKind::Label {
            target_id: first,
            label: Some(text()),
        },
        EntryKind::Label {
            target_id: text(),
            label: Some(text()),
        },
        EntryKind::SessionInfo { name: text() },
        EntryKind::Unknown { type_name: text() },
    ];
    for kind in kinds {
        built.add(kind);
    }
    let last = built.entries.last().unwrap().id.clone();
    // A branch, and ids and times that are no such thing.
    let message = built.entries[1].kind.clone();
    built
        .entries
        .push(Entry::new(attack, Some(last.clone()), attack, message));
    let mut header = Header::new(attack, attack, attack);
    header.parent_session = Some(text());
    (MemoryStore::with_entries(header, built.entries), last)
}

#[test]
fn whatever_a_session_holds_is_text() {
    for attack in ATTACKS {
        let (store, leaf) = everywhere(attack);
        let tools = [ToolSpec {
            name: (*attack).to_owned(),
            description: (*attack).to_owned(),
            parameters: json!({*attack: attack}),
        }];
        let extras = Extras {
            system_prompt: Some(attack),
            tools: &tools,
        };
        let (page, report) = page(&store, Some(&leaf), &extras);
        html::check(&page);
        assert_eq!(report.unreadable, 0);
        for leaf in [Some(*attack), None] {
            html::check(&self::page(&store, leaf, &extras).0);
        }
    }
}

#[test]
fn the_page_forbids_itself_everything_but_its_style_and_its_images() {
    let page = Built::new().page();
    let policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";
    assert!(page.contains(&format!(
        "<meta http-equiv=Content-Security-Policy content=\"{policy}\">"
    )));
    // Nothing stands before it that could be loaded.
    let before = &page[..page.find("Content-Security-Policy").unwrap()];
    assert_eq!(
        before,
        "<!doctype html>\n<html lang=en>\n<meta charset=utf-8>\n<meta http-equiv="
    );
    assert!(!page.contains("<script") && !page.contains("http:") && !page.contains("https:"));
}

#[test]
fn every_attack_is_still_to_be_read() {
    let mut built = Built::new();
    built.user("</script><img onerror=alert(1)>");
    let page = built.page();
    assert!(page.contains("<div class=w>&lt;/script>&lt;img onerror=alert(1)></div>"));
}
