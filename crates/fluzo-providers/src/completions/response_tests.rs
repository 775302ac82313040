//! Bodies of responses, as rows.

use std::sync::Arc;

use fluzo_llm::{AssistantMessage, Content, Message, Model, StreamErrorKind, ToolCall};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::drive::{End, Reader};
use crate::reader::BodyReader;
use crate::testing;

fn model() -> Model {
    serde_json::from_value(json!({
        "id": "m", "name": "m", "api": "openai-completions", "provider": "p", "baseUrl": "http://h/v1",
        "input": ["text"], "contextWindow": 1000, "maxTokens": 100,
    }))
    .unwrap()
}

fn reader() -> BodyReader {
    reader_after(Transcript::default())
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
            "thinking({}):{}",
            t.thinking_signature.clone().unwrap_or_default(),
            t.thinking
        ),
        Content::ToolCall(call) => format!("call {}", call_text(call)),
        other => format!("{other:?}"),
    };
    let mut parts: Vec<String> = message.content.iter().map(block).collect();
    parts.push(testing::end(&finish));
    parts.join(" ; ")
}

fn call_text(call: &ToolCall) -> String {
    let arguments = serde_json::to_string(&call.arguments).unwrap();
    format!(
        "{} {} {}",
        call.id,
        call.name,
        call.raw_arguments
            .as_ref()
            .map_or(arguments, |raw| format!("RAW {raw}"))
    )
}

/// Each item is the data of one event.
fn sse(items: &[&str]) -> Vec<u8> {
    items
        .iter()
        .flat_map(|item| format!("data: {item}\n\n").into_bytes())
        .collect()
}

fn check(items: &[&str], expected: &str) {
    assert_eq!(
        shown(&read(&[&sse(items)], End::Clean)),
        expected,
        "{items:?}"
    );
}

const STOP: &str = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
const CALLS: &str = r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#;
const USAGE: &str = r#"{"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":7}}"#;

fn text(text: &str) -> String {
    json!({"choices": [{"delta": {"content": text}}]}).to_string()
}

#[test]
fn plain_answers() {
    check(
        &[&text("he"), &text("llo"), STOP, USAGE, "[DONE]"],
        "text:hello ; stop 12/7",
    );
    check(
        &[&text("hello"), STOP, "[DONE]", &text("after the end")],
        "text:hello ; stop 0/0",
    );
    check(&[&text(""), STOP], "stop 0/0");
    check(
        &[
            r#"{"choices":[{"delta":{"role":"assistant","content":"","reasoning_content":null,"tool_calls":null}}]}"#,
            &text("x"),
            STOP,
        ],
        "text:x ; stop 0/0",
    );
    check(
        &[r#"{"choices":[{"delta":{"refusal":"no"}}]}"#, STOP],
        "text:no ; stop 0/0",
    );
    check(
        &[
            r#"{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"a"}]}}]}"#,
            STOP,
        ],
        "thinking(reasoning_content):hm ; text:a ; stop 0/0",
    );
    check(&["null", "7", "{}", &text("x"), STOP], "text:x ; stop 0/0");
}

#[test]
fn thinking_is_signed_with_the_field_it_came_in() {
    for field in ["reasoning_content", "reasoning", "reasoning_text"] {
        let chunk = format!(r#"{{"choices":[{{"delta":{{"{field}":"hm"}}}}]}}"#);
        check(
            &[&chunk, &chunk, &text("a"), STOP],
            &format!("thinking({field}):hmhm ; text:a ; stop 0/0"),
        );
    }
    let both = r#"{"choices":[{"delta":{"reasoning_content":"hm","reasoning":"hm"}}]}"#;
    check(&[both, STOP], "thinking(reasoning_content):hm ; stop 0/0");
}

#[test]
fn usage_in_every_place_counts_once() {
    let zeros = r#"{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":0,"completion_tokens":0}}"#;
    let finish = r#"{"choices":[{"delta":{"role":"assistant","content":null},"finish_reason":"stop"}],"usage":{"prompt_tokens":12,"completion_tokens":7}}"#;
    check(&[zeros, zeros, finish, "[DONE]"], "text:aa ; stop 12/7");
    check(&[&text("a"), finish, USAGE, "[DONE]"], "text:a ; stop 12/7");
    let in_choice = r#"{"choices":[{"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":12,"completion_tokens":7}}]}"#;
    check(&[&text("a"), in_choice], "text:a ; stop 12/7");
    let vendor = r#"{"choices":[],"x_groq":{"usage":{"prompt_tokens":12,"completion_tokens":7}}}"#;
    check(&[&text("a"), STOP, vendor], "text:a ; stop 12/7");
}

#[test]
fn calls_in_a_stream() {
    let first = r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"read","arguments":""}}]}}]}"#;
    let more = r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"p\":1}"}}]}}]}"#;
    check(
        &[first, more, CALLS, USAGE, "[DONE]"],
        r#"call c1 read {"p":1} ; toolUse 12/7"#,
    );
    let object = r#"{"choices":[{"delta":{"tool_calls":[{"id":"c1","function":{"name":"read","arguments":{"p":1}}}]}}]}"#;
    check(&[object, CALLS], r#"call c1 read {"p":1} ; toolUse 0/0"#);
    let two = r#"{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"read","arguments":"{\"p\":1}"}},{"id":"b","function":{"name":"read","arguments":"{}"}}]}}]}"#;
    check(
        &[two, CALLS],
        r#"call a read {"p":1} ; call b read {} ; toolUse 0/0"#,
    );
    let legacy = [
        r#"{"choices":[{"delta":{"function_call":{"name":"read","arguments":""}}}]}"#,
        r#"{"choices":[{"delta":{"function_call":{"arguments":"{\"p\":1}"}}}]}"#,
        r#"{"choices":[{"delta":{},"finish_reason":"function_call"}]}"#,
    ];
    check(&legacy, r#"call call_1 read {"p":1} ; toolUse 0/0"#);
}

#[test]
fn provider_data_of_a_call_is_kept_with_it() {
    let chunk = r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"read","arguments":"{}"}}],"reasoning_details":[{"type":"reasoning.encrypted","id":"c1","data":"x"}]}}]}"#;
    let (message, _) = message(&read(&[&sse(&[chunk, CALLS])], End::Clean));
    let signature = message
        .tool_calls()
        .next()
        .unwrap()
        .thought_signature
        .clone();
    assert_eq!(
        signature.as_deref(),
        Some(r#"{"type":"reasoning.encrypted","id":"c1","data":"x"}"#)
    );
}

#[test]
fn a_call_before_the_limit_runs_if_it_is_whole() {
    let chunk = |arguments: &str| {
        json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "bash", "arguments": arguments}}]}}]}).to_string()
    };
    let length = r#"{"choices":[{"delta":{},"finish_reason":"length"}]}"#;
    check(
        &[&chunk(r#"{"command":"ls"}"#), length],
        r#"call c bash {"command":"ls"} ; length 0/0"#,
    );
    check(
        &[&chunk(r#"{"command":"rm -r bui"#), length],
        r#"call c bash RAW {"command":"rm -r bui ; length 0/0"#,
    );
    check(&[&chunk(""), length], "call c bash RAW  ; length 0/0");
    check(&[&chunk(""), CALLS], "call c bash {} ; toolUse 0/0");
}

#[test]
fn a_stream_cut_inside_tool_arguments_gives_no_call_that_can_run() {
    let chunk = r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"bash","arguments":"{\"command\":\"rm -r bui"}}]}}]}"#;
    for (tail, end) in [
        (vec![], "clean"),
        (vec!["[DONE]"], "clean"),
        (vec![USAGE, "[DONE]"], "clean"),
        (vec![], "cut"),
        (vec![CALLS], "cut"),
    ] {
        let items: Vec<&str> = std::iter::once(chunk).chain(tail.iter().copied()).collect();
        let end = if end == "clean" {
            End::Clean
        } else {
            End::Cut(incomplete("cut"))
        };
        let (message, finish) = message(&read(&[&sse(&items)], end));
        let call = message.tool_calls().next().unwrap();
        assert_eq!(
            call.raw_arguments.as_deref(),
            Some(r#"{"command":"rm -r bui"#)
        );
        let finished = tail.contains(&CALLS);
        assert_eq!(
            finish.error.map(|e| e.kind),
            (!finished).then_some(StreamErrorKind::Incomplete)
        );
    }
}

#[test]
fn without_a_finish_reason() {
    check(
        &[&text("whole."), USAGE, "[DONE]"],
        "text:whole. ; stop 12/7",
    );
    check(
        &[&text("cut in the mid")],
        "text:cut in the mid ; Incomplete: Stream ended without finish_reason",
    );
    check(&[], "Incomplete: Stream ended without finish_reason");
    check(
        &["[DONE]"],
        "Incomplete: Stream ended without finish_reason",
    );
}

#[test]
fn a_cut_after_the_finish_reason_does_not_matter_and_before_it_does() {
    let cut = || End::Cut(incomplete("connection lost"));
    let whole = sse(&[&text("a"), STOP]);
    assert_eq!(shown(&read(&[&whole], cut())), "text:a ; stop 0/0");
    let part = sse(&[&text("a")]);
    assert_eq!(
        shown(&read(&[&part], cut())),
        "text:a ; Incomplete: connection lost"
    );
    let before_done = sse(&[&text("a"), USAGE]);
    assert_eq!(
        shown(&read(&[&before_done], cut())),
        "text:a ; Incomplete: connection lost"
    );
}

#[test]
fn a_last_event_without_its_blank_line_counts_when_it_is_whole() {
    let mut body = sse(&[&text("a")]);
    body.extend_from_slice(format!("data: {STOP}").as_bytes());
    assert_eq!(shown(&read(&[&body], End::Clean)), "text:a ; stop 0/0");
    body.truncate(body.len() - 5);
    assert_eq!(
        shown(&read(&[&body], End::Clean)),
        "text:a ; Incomplete: Stream ended without finish_reason"
    );
}

#[test]
fn errors_inside_a_stream_that_began_well() {
    check(
        &[
            &text("a"),
            r#"{"error":{"message":"overloaded","code":503}}"#,
        ],
        "text:a ; Transient: overloaded",
    );
    check(
        &[r#"{"error":{"message":"too long","code":"context_length_exceeded"}}"#],
        "Overflow: too long",
    );
    check(
        &[&text("a"), "no json"],
        "text:a ; Incomplete: the server sent an event that is no chat completion",
    );
    check(
        &[r#"{"error":null,"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}"#],
        "text:a ; stop 0/0",
    );
    let named = b"event: error\ndata: {\"message\":\"server_error\"}\n\n";
    assert_eq!(
        shown(&read(&[named], End::Clean)),
        "Transient: server_error"
    );
}

#[test]
fn answers_that_are_not_streamed() {
    let rows = [
        (
            r#"{"id":"r","choices":[{"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":12,"completion_tokens":7}}"#,
            "text:hello ; stop 12/7",
        ),
        (
            r#"{"choices":[{"message":{"content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{\"p\":1}"}}]},"finish_reason":"tool_calls"}]}"#,
            r#"call c1 read {"p":1} ; toolUse 0/0"#,
        ),
        (
            r#"{"choices":[{"message":{"content":"x","reasoning_content":"hm"}}]}"#,
            "thinking(reasoning_content):hm ; text:x ; stop 0/0",
        ),
        (
            r#"{"error":{"message":"overloaded"}}"#,
            "Transient: overloaded",
        ),
        (
            r#"[{"error":{"message":"overloaded"}}]"#,
            "Transient: overloaded",
        ),
        (
            r#"{"object":"error","message":"overloaded","code":503}"#,
            "Transient: overloaded",
        ),
        (
            r#"{"ok":true}"#,
            "Incomplete: the server's answer is no chat completion",
        ),
        (
            r#"{"choices":[{"message":{"content":"hel"#,
            "Incomplete: the server's answer is no API response",
        ),
    ];
    for (body, expected) in rows {
        for body in [body.to_owned(), format!("\u{FEFF}\n {body}\n")] {
            let bytes: Vec<&[u8]> = body.as_bytes().chunks(3).collect();
            assert_eq!(shown(&read(&bytes, End::Clean)), expected, "{body}");
        }
    }
    let cut = read(
        &[br#"{"choices":[{"mess"#],
        End::Cut(incomplete("connection lost")),
    );
    assert_eq!(shown(&cut), "Incomplete: connection lost");
}

#[test]
fn a_character_split_over_chunks_stays_whole() {
    let body = sse(&[&text("你🌍"), STOP, "[DONE]"]);
    for at in 0..=body.len() {
        assert_eq!(
            shown(&read(&[&body[..at], &body[at..]], End::Clean)),
            "text:你🌍 ; stop 0/0",
            "split at {at}"
        );
    }
    let single: Vec<&[u8]> = body.chunks(1).collect();
    assert_eq!(shown(&read(&single, End::Clean)), "text:你🌍 ; stop 0/0");
}

#[test]
fn an_endless_event_is_refused() {
    let part = vec![b'x'; 64 * 1024];
    let mut reader = reader();
    let mut out = Events::new();
    reader.push(b"data: ", &mut out).unwrap();
    let error = (0..64)
        .find_map(|_| reader.push(&part, &mut out).err())
        .unwrap();
    assert_eq!(error.kind, StreamErrorKind::TooLarge);
}

#[test]
fn generated_ids_do_not_repeat_those_of_the_history() {
    let earlier = json!({
        "role": "assistant", "content": [{"type": "toolCall", "id": "call_1", "name": "read", "arguments": {}}],
        "api": "a", "provider": "p", "model": "m", "usage": {}, "stopReason": "toolUse", "timestamp": 1,
    });
    let history: Vec<Arc<Message>> = vec![Arc::new(serde_json::from_value(earlier).unwrap())];
    let mut reader = reader_after(Transcript::from_context(&history));
    let mut out = Events::new();
    let call =
        r#"{"choices":[{"delta":{"tool_calls":[{"function":{"name":"read","arguments":"{}"}}]}}]}"#;
    reader.push(&sse(&[call, CALLS]), &mut out).unwrap();
    reader.finish(End::Clean, &mut out);
    assert_eq!(
        shown(out.make_contiguous()),
        "call call_2 read {} ; toolUse 0/0"
    );
}

#[test]
fn ids_of_response_and_model() {
    let chunk = r#"{"id":"r1","model":"m-2026","choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}"#;
    let (_, finish) = message(&read(&[&sse(&[chunk, chunk])], End::Clean));
    assert_eq!(
        (
            finish.response_id.as_deref(),
            finish.response_model.as_deref()
        ),
        (Some("r1"), Some("m-2026"))
    );
    let same = chunk.replace("m-2026", "m");
    let (_, finish) = message(&read(&[&sse(&[&same])], End::Clean));
    assert_eq!(finish.response_model, None);
}

#[test]
fn progress_tells_output_from_signs_of_life() {
    let mut reader = reader();
    let mut out = Events::new();
    let rows = [
        (b": ping\n\n".to_vec(), (false, false, false, false)),
        (
            sse(&[r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#]),
            (true, false, false, false),
        ),
        (sse(&[&text("a")]), (true, true, false, false)),
        (b": ping\n\n".to_vec(), (false, true, false, false)),
        (sse(&[STOP]), (true, true, true, false)),
        (sse(&["[DONE]"]), (true, true, true, true)),
    ];
    for (bytes, expected) in rows {
        let p = reader.push(&bytes, &mut out).unwrap();
        assert_eq!((p.alive, p.output, p.ending, p.complete), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_comes_the_events_are_well_formed(
        items in proptest::collection::vec(prop_oneof![
            Just(text("a")), Just(STOP.to_owned()), Just(CALLS.to_owned()), Just(USAGE.to_owned()), Just("[DONE]".to_owned()),
            Just(r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"x","arguments":"{\""}}]}}]}"#.to_owned()),
            Just(r#"{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"a\":1}"}},{"id":"d"}]}}]}"#.to_owned()),
            Just(r#"{"choices":[{"delta":{"reasoning":"hm"}}]}"#.to_owned()),
            "[{}\":,a-c\\[\\]]{0,20}",
        ], 0..12),
        cut in 0usize..2000,
    ) {
        let items: Vec<&str> = items.iter().map(String::as_str).collect();
        let mut body = sse(&items);
        body.truncate(cut);
        let events = read(&[&body], End::Clean);
        let (message, finish) = message(&events);
        if finish.error.is_none() {
            let runnable = message.tool_calls().filter(|call| call.raw_arguments.is_none());
            prop_assert!(runnable.count() <= message.content.len());
        }
    }
}
