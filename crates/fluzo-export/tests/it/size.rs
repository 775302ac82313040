//! A page is at most three times its session.

use std::io::{self, Write};

use fluzo_export::{Extras, write_page};
use fluzo_session::{EntryKind, Header, MemoryStore};
use serde_json::json;

use crate::html;
use crate::support::Built;

const CODE: &str = include_str!("../../src/highlight.rs");

/// What a page without entries takes.
fn frame() -> usize {
    Built::new().page().len() + 1_500
}

/// A name, and what fills a session.
type Shape<'a> = (&'a str, &'a dyn Fn(&mut Built));

fn check(shape: &str, built: &Built) {
    let page = built.page();
    let (bytes, most) = (built.bytes(), built.bytes() * 3 + frame());
    assert!(page.len() <= most, "{shape}: {} for {bytes}", page.len());
    html::check(&page);
}

#[test]
fn frames_are_small() {
    assert!(frame() < 10_000, "{}", frame());
}

#[test]
fn at_most_three_times_the_session() {
    let shapes: [Shape<'_>; 9] = [
        ("tiny messages", &|built| {
            for _ in 0..300 {
                built.user("y");
                built.says("k");
            }
        }),
        ("tiny branches", &|built| {
            let root = built.user("y");
            for _ in 0..300 {
                built.back_to(Some(&root));
                built.user("z");
            }
        }),
        ("code", &|built| {
            built.call("read", json!({"path": "a.rs"}), CODE);
            built.call("write", json!({"path": "a.rs", "content": CODE}), "ok");
            built.says(&format!("```rust\n{CODE}\n```"));
        }),
        ("dense code", &|built| {
            built.says(&format!("```js\n{}\n```", "a=1;b='';".repeat(500)));
            built.call(
                "x",
                json!({"a": vec![1; 3_000], "b": vec![json!({}); 500]}),
                "ok",
            );
        }),
        ("diffs", &|built| {
            let id = built.assistant(json!([{"type": "toolCall", "id": "e", "name": "edit", "arguments": {"path": "a"}}]));
            built.message(
                json!({"role": "toolResult", "toolCallId": "e", "toolName": "edit", "content": [],
                "details": {"diff": "+\n-\n".repeat(2_000)}, "isError": false, "timestamp": 3}),
            );
            built.back_to(Some(&id));
        }),
        ("marks", &|built| {
            built.says(&"*a* ".repeat(3_000));
            built.says(&("|a".repeat(30) + "\n" + &"|-".repeat(30) + "\n" + &"|b".repeat(3_000)));
            built.says(&(">".repeat(3_000) + "a"));
            built.says(&"- a\n".repeat(3_000));
            built.says(&"# a\n".repeat(3_000));
        }),
        ("markup", &|built| {
            built.call(
                "read",
                json!({"path": "a.html"}),
                &"<p class=\"x\">text</p>\n".repeat(500),
            );
            built.user(&"<b>x</b> & y\n".repeat(500));
        }),
        ("images", &|built| {
            let image =
                json!({"type": "image", "data": "A".repeat(40_000), "mimeType": "image/png"});
            built.message(json!({"role": "user", "content": [image], "timestamp": 1}));
        }),
        ("events", &|built| {
            for _ in 0..200 {
                built.add(EntryKind::ThinkingLevelChange {
                    level: "low".to_owned(),
                });
                built.call("bash", json!({"command": "ls"}), "");
            }
        }),
    ];
    for (shape, fill) in shapes {
        let mut built = Built::new();
        fill(&mut built);
        check(shape, &built);
    }
}

/// Counts what is written and keeps none of it.
#[derive(Default)]
struct Counting {
    bytes: usize,
    largest: usize,
}

impl Write for Counting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes += bytes.len();
        self.largest = self.largest.max(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_long_session_is_written_piece_by_piece() {
    let mut built = Built::new();
    for number in 0..500 {
        built.user(&format!("step {number}"));
        built.call("bash", json!({"command": "ls"}), &"output\n".repeat(1_000));
    }
    let leaf = built.entries.last().unwrap().id.clone();
    let store = MemoryStore::with_entries(Header::new("s", "", ""), built.entries);
    let mut out = Counting::default();
    write_page(&store, Some(&leaf), &Extras::default(), &mut out).unwrap();
    assert!(out.bytes > 3_000_000, "{}", out.bytes);
    assert!(out.largest < 20_000, "{}", out.largest);
}

#[test]
fn a_writer_that_refuses_ends_the_export() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let store = MemoryStore::new(Header::new("s", "", ""));
    let error = write_page(&store, None, &Extras::default(), &mut Full).unwrap_err();
    assert_eq!(error.to_string(), "cannot write the page");
}
