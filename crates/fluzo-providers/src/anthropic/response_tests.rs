//! Bodies of responses, as rows.

use std::sync::Arc;

use fluzo_llm::{AssistantMessage, Content, Message, Model, StreamErrorKind};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::drive::{End, Reader};
use crate::reader::BodyReader;
use crate::testing;

fn model() -> Model {
    serde_json::from_value(json!({
        "id": "m", "name": "m", "api": "anthropic-messages", "provider": "p", "baseUrl": "http://h",
        "input": ["text"], "contextWindow": 1000, "maxTokens": 100,
        "cost": {"input": 1.0, "output": 2.0, "cacheRead": 3.0, "cacheWrite": 4.0},
    }))
    .unwrap()
}

fn reader_after(transcript: Transcript) -> BodyReader {
    let request = testing::request_after(model(), transcript);
    testing::reader(0, |context| Box::new(Response::new(&request, context)))
}

fn read(chunks: &[&[u8]], end: End) -> Vec<StreamEvent> {
    testing::read(reader_after(Transcript::default()), chunks, end)
}

fn message(events: &[StreamEvent]) -> (AssistantMessage, Finish) {
    testing::message(&model(), events)
}

/// One line of what came: blocks, then how it ended.
fn shown(events: &[StreamEvent]) -> String {
    let (message, finish) = message(events);
    let block = |block: &Content| match block {
        Content::Text(text) => format!("text:{}", text.text),
        Content::Thinking(t) => format!(
            "{}({}):{}",
            if t.redacted == Some(true) {
                "redacted"
            } else {
                "thinking"
            },
            t.thinking_signature.clone().unwrap_or_default(),
            t.thinking
        ),
        Content::ToolCall(call) => {
            let arguments = serde_json::to_string(&call.arguments).unwrap();
            let raw = call.raw_arguments.as_ref().map(|raw| format!("RAW {raw}"));
            format!(
                "call {} {} {}",
                call.id,
                call.name,
                raw.unwrap_or(arguments)
            )
        }
        other => format!("{other:?}"),
    };
    let mut parts: Vec<String> = message.content.iter().map(block).collect();
    parts.push(testing::end(&finish));
    parts.join(" ; ")
}

/// Each item is the data of one event, named as its type.
fn sse(items: &[String]) -> Vec<u8> {
    let one = |item: &String| {
        let kind = serde_json::from_str::<Value>(item).ok();
        let kind = kind.and_then(|value| value.get("type")?.as_str().map(str::to_owned));
        format!("event: {}\ndata: {item}\n\n", kind.unwrap_or_default()).into_bytes()
    };
    items.iter().flat_map(one).collect()
}

fn check(items: &[String], expected: &str) {
    assert_eq!(
        shown(&read(&[&sse(items)], End::Clean)),
        expected,
        "{items:?}"
    );
}

fn begin() -> String {
    json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 12, "output_tokens": 1}}}).to_string()
}

fn open(index: u64, block: Value) -> String {
    json!({"type": "content_block_start", "index": index, "content_block": block}).to_string()
}

fn open_text(index: u64) -> String {
    open(index, json!({"type": "text", "text": ""}))
}

fn open_call(index: u64, id: &str) -> String {
    open(
        index,
        json!({"type": "tool_use", "id": id, "name": "read", "input": {}}),
    )
}

fn delta(index: u64, delta: Value) -> String {
    json!({"type": "content_block_delta", "index": index, "delta": delta}).to_string()
}

fn text(index: u64, text: &str) -> String {
    delta(index, json!({"type": "text_delta", "text": text}))
}

fn thought(index: u64, text: &str) -> String {
    delta(index, json!({"type": "thinking_delta", "thinking": text}))
}

fn signature(index: u64, signature: &str) -> String {
    delta(
        index,
        json!({"type": "signature_delta", "signature": signature}),
    )
}

fn input(index: u64, text: &str) -> String {
    delta(
        index,
        json!({"type": "input_json_delta", "partial_json": text}),
    )
}

fn close(index: u64) -> String {
    json!({"type": "content_block_stop", "index": index}).to_string()
}

fn stop(reason: &str) -> String {
    json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null}, "usage": {"output_tokens": 7}}).to_string()
}

fn end() -> String {
    json!({"type": "message_stop"}).to_string()
}

fn ping() -> String {
    json!({"type": "ping"}).to_string()
}

/// A message of `blocks` that ends for `reason`.
fn whole(blocks: &[String], reason: &str) -> Vec<String> {
    let mut items = vec![begin(), ping()];
    items.extend(blocks.iter().cloned());
    items.extend([stop(reason), end()]);
    items
}

/// Thinking, text and two calls.
fn rich() -> Vec<String> {
    whole(
        &[
            open(
                0,
                json!({"type": "thinking", "thinking": "", "signature": ""}),
            ),
            thought(0, "hm "),
            thought(0, "你"),
            signature(0, "sig=="),
            close(0),
            open_text(1),
            text(1, "o"),
            ping(),
            text(1, "k"),
            close(1),
            open_call(2, "c1"),
            input(2, ""),
            input(2, "{\"path\": \"a"),
            input(2, "🌍\"}"),
            close(2),
            open_call(3, "c2"),
            input(3, ""),
            close(3),
        ],
        "tool_use",
    )
}

const RICH: &str = r#"thinking(sig==):hm 你 ; text:ok ; call c1 read {"path":"a🌍"} ; call c2 read {} ; toolUse 12/7"#;

#[test]
fn blocks_of_every_kind() {
    check(&rich(), RICH);
    check(
        &whole(
            &[open_text(0), text(0, "he"), text(0, "llo"), close(0)],
            "end_turn",
        ),
        "text:hello ; stop 12/7",
    );
    check(&whole(&[], "end_turn"), "stop 12/7");
    check(
        &whole(
            &[
                open(0, json!({"type": "redacted_thinking", "data": "abc=="})),
                close(0),
                open_text(1),
                text(1, "a"),
                close(1),
            ],
            "end_turn",
        ),
        "redacted(abc==):[Reasoning redacted] ; text:a ; stop 12/7",
    );
    check(
        &whole(
            &[
                open(
                    0,
                    json!({"type": "thinking", "thinking": "", "signature": ""}),
                ),
                signature(0, "sig"),
                close(0),
                open_text(1),
                text(1, "a"),
                close(1),
            ],
            "end_turn",
        ),
        "thinking(sig): ; text:a ; stop 12/7",
    );
}

#[test]
fn what_is_not_known_is_ignored() {
    let items = whole(
        &[
            open(
                0,
                json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}),
            ),
            input(0, "{\"query\":\"x\"}"),
            text(0, "no"),
            close(0),
            open(
                1,
                json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}),
            ),
            close(1),
            json!({"type": "later_event", "delta": "x"}).to_string(),
            "7".into(),
            "null".into(),
            "[DONE]".into(),
            open_text(2),
            delta(2, json!({"type": "citations_delta", "citation": {}})),
            text(2, "a"),
            close(2),
        ],
        "end_turn",
    );
    check(&items, "text:a ; stop 12/7");
}

#[test]
fn a_wrong_order_of_events_costs_nothing_that_came() {
    let call = |input: Value| {
        open(
            0,
            json!({"type": "tool_use", "id": "c", "name": "read", "input": input}),
        )
    };
    let rows: [(Vec<String>, &str, &str); 9] = [
        // No beginning, no stop, twice the beginning.
        (
            vec![text(0, "a"), text(0, "b"), close(0)],
            "end_turn",
            "text:ab",
        ),
        (vec![open_text(0), text(0, "a")], "end_turn", "text:a"),
        (
            vec![open_text(0), text(0, "a"), open_text(0), text(0, "b")],
            "end_turn",
            "text:ab",
        ),
        (
            vec![
                open_call(0, "c"),
                open_call(0, "c"),
                input(0, "{}"),
                close(0),
            ],
            "tool_use",
            "call c read {}",
        ),
        // After the stop, and one index for all.
        (
            vec![
                open_text(0),
                text(0, "a"),
                close(0),
                close(0),
                text(0, "late"),
            ],
            "end_turn",
            "text:a",
        ),
        (
            vec![
                open_text(0),
                text(0, "a"),
                close(0),
                call(json!({})),
                input(0, "{\"p\":1}"),
                close(0),
            ],
            "tool_use",
            r#"text:a ; call c read {"p":1}"#,
        ),
        // Pieces of another kind than the block.
        (
            vec![
                open_text(0),
                text(0, "a"),
                input(0, "{}"),
                signature(0, "s"),
                thought(0, "hm"),
                close(0),
            ],
            "end_turn",
            "text:a ; thinking():hm",
        ),
        (
            vec![input(0, "{}"), signature(4, "s"), close(9)],
            "end_turn",
            "",
        ),
        // Whole at the beginning.
        (
            vec![
                call(json!({"p": 1})),
                close(0),
                open(1, json!({"type": "text", "text": "a"})),
            ],
            "tool_use",
            r#"call c read {"p":1} ; text:a"#,
        ),
    ];
    for (blocks, reason, expected) in rows {
        let reason_shown = if reason == "tool_use" {
            "toolUse"
        } else {
            "stop"
        };
        let parts: Vec<&str> = [expected]
            .into_iter()
            .filter(|text| !text.is_empty())
            .collect();
        let ending = format!("{reason_shown} 12/7");
        let expected = [parts, vec![&ending]].concat().join(" ; ");
        check(&whole(&blocks, reason), &expected);
    }
}

#[test]
fn interleaved_blocks_stay_apart() {
    let blocks = [
        open_call(0, "a"),
        open_call(1, "b"),
        input(0, "{\"x\""),
        input(1, "{\"y\""),
        input(0, ":1}"),
        input(1, ":2}"),
        close(1),
        close(0),
    ];
    check(
        &whole(&blocks, "tool_use"),
        r#"call a read {"x":1} ; call b read {"y":2} ; toolUse 12/7"#,
    );
    let bare = [open_call(0, "a"), open_call(1, "b"), close(0), close(1)];
    check(
        &whole(&bare, "tool_use"),
        "call a read {} ; call b read {} ; toolUse 12/7",
    );
}

#[test]
fn answers_that_are_not_streamed() {
    let answer = |content: Value, reason: &str| {
        json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content,
            "stop_reason": reason, "usage": {"input_tokens": 12, "output_tokens": 7}}).to_string()
    };
    let call =
        |input: Value| json!({"type": "tool_use", "id": "c", "name": "read", "input": input});
    let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "sig"});
    let rows = [
        (answer(json!([thinking, {"type": "text", "text": "a"}, call(json!({"p": 1}))]), "tool_use"), r#"thinking(sig):hm ; text:a ; call c read {"p":1} ; toolUse 12/7"#),
        (answer(json!([call(json!({})), call(json!([1]))]), "tool_use"), "call c read {} ; call c_2 read RAW [1] ; toolUse 12/7"),
        (answer(json!([call(json!({}))]), "max_tokens"), "call c read RAW  ; length 12/7"),
        (answer(json!([{"type": "redacted_thinking", "data": "d"}, {"type": "later"}]), "end_turn"), "redacted(d):[Reasoning redacted] ; stop 12/7"),
        (json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}).to_string(), "Transient: Overloaded"),
        (json!({"ok": true}).to_string(), "Incomplete: the server's answer is no message"),
        (json!({"content": "text"}).to_string(), "Incomplete: the server's answer is no message"),
        ("{\"content\": [".to_owned(), "Incomplete: the server's answer is no API response"),
    ];
    for (body, expected) in rows {
        let bytes: Vec<&[u8]> = body.as_bytes().chunks(3).collect();
        assert_eq!(shown(&read(&bytes, End::Clean)), expected, "{body}");
    }
}

#[test]
fn usage_of_all_kinds_is_priced() {
    let start = json!({"type": "message_start", "message": {"usage": {"input_tokens": 1_000_000, "cache_creation_input_tokens": 2_000_000,
        "cache_read_input_tokens": 3_000_000, "output_tokens": 1}}});
    let last = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4_000_000}});
    let (_, finish) = message(&read(
        &[&sse(&[start.to_string(), last.to_string(), end()])],
        End::Clean,
    ));
    let usage = finish.usage;
    assert_eq!(
        (
            usage.input,
            usage.cache_write,
            usage.cache_read,
            usage.output
        ),
        (1_000_000, 2_000_000, 3_000_000, 4_000_000)
    );
    assert_eq!(
        (usage.total_tokens, usage.cost.total),
        (10_000_000, 1.0 + 8.0 + 9.0 + 8.0)
    );
    // What came before a failure was used as well.
    let (_, finish) = message(&read(&[&sse(&[begin()])], End::Clean));
    assert_eq!((finish.usage.input, finish.usage.output), (12, 1));
}

#[test]
fn ids_of_response_model_and_calls() {
    let (_, finish) = message(&read(&[&sse(&whole(&[], "end_turn"))], End::Clean));
    assert_eq!(
        (
            finish.response_id.as_deref(),
            finish.response_model.as_deref()
        ),
        (Some("msg_1"), None)
    );
    let dated = begin().replace("\"model\":\"m\"", "\"model\":\"m-20270101\"");
    let (_, finish) = message(&read(
        &[&sse(&[dated, stop("end_turn"), end()])],
        End::Clean,
    ));
    assert_eq!(finish.response_model.as_deref(), Some("m-20270101"));
    let earlier = json!({
        "role": "assistant", "content": [{"type": "toolCall", "id": "call_1", "name": "read", "arguments": {}}],
        "api": "a", "provider": "p", "model": "m", "usage": {}, "stopReason": "toolUse", "timestamp": 1,
    });
    let history: Vec<Arc<Message>> = vec![Arc::new(serde_json::from_value(earlier).unwrap())];
    let mut reader = reader_after(Transcript::from_context(&history));
    let mut out = Events::new();
    reader
        .push(
            &sse(&whole(
                &[open_call(0, ""), input(0, "{}"), close(0)],
                "tool_use",
            )),
            &mut out,
        )
        .unwrap();
    reader.finish(End::Clean, &mut out);
    assert_eq!(
        shown(out.make_contiguous()),
        "call call_2 read {} ; toolUse 12/7"
    );
}

#[test]
fn progress_tells_output_from_signs_of_life() {
    let mut reader = reader_after(Transcript::default());
    let mut out = Events::new();
    let rows = [
        (b": ping\n\n".to_vec(), (false, false, false, false)),
        (b"id: 7\n\n".to_vec(), (false, false, false, false)),
        (sse(&[ping()]), (true, false, false, false)),
        (sse(&[begin()]), (true, false, false, false)),
        (
            sse(&[json!({"type": "later"}).to_string()]),
            (true, false, false, false),
        ),
        (
            sse(&[open_text(0), text(0, "a"), close(0)]),
            (true, true, false, false),
        ),
        (sse(&[stop("end_turn")]), (true, true, true, false)),
        (sse(&[end()]), (true, true, true, true)),
    ];
    for (bytes, expected) in rows {
        let p = reader.push(&bytes, &mut out).unwrap();
        assert_eq!((p.alive, p.output, p.ending, p.complete), expected);
    }
}

#[test]
fn comments_between_events_are_no_events() {
    let comment = b": OPENROUTER PROCESSING\n\n:\n: ping\n\n".to_vec();
    let mut body = comment.clone();
    for item in rich() {
        body.extend(sse(&[item]));
        body.extend(&comment);
    }
    assert_eq!(shown(&read(&[&body], End::Clean)), RICH);
}

#[path = "response_end_tests.rs"]
mod end;
