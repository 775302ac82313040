//! Bodies of responses, as rows.

use std::sync::Arc;

use fluzo_llm::{AssistantMessage, Content, Message, Model, ToolCall};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::drive::{End, Reader};
use crate::reader::BodyReader;
use crate::testing;

fn model() -> Model {
    serde_json::from_value(json!({
        "id": "m", "name": "m", "api": "google-generative-ai", "provider": "p", "baseUrl": "http://h/v1",
        "input": ["text"], "contextWindow": 1000, "maxTokens": 100, "reasoning": true,
    }))
    .unwrap()
}

fn reader_after(transcript: Transcript) -> BodyReader {
    let request = testing::request_after(model(), transcript);
    testing::reader(7, |context| Box::new(Response::new(&request, context)))
}

fn read(chunks: &[&[u8]], end: End) -> Vec<StreamEvent> {
    read_after(Transcript::default(), chunks, end)
}

fn read_after(transcript: Transcript, chunks: &[&[u8]], end: End) -> Vec<StreamEvent> {
    testing::read(reader_after(transcript), chunks, end)
}

fn message(events: &[StreamEvent]) -> (AssistantMessage, Finish) {
    testing::message(&model(), events)
}

/// One line of what came: blocks with their signatures in parentheses, then how it ended.
fn shown(events: &[StreamEvent]) -> String {
    let (message, finish) = message(events);
    let signed = |signature: &Option<String>| {
        signature
            .as_ref()
            .map_or_else(String::new, |s| format!("({s})"))
    };
    let block = |block: &Content| match block {
        Content::Text(text) => format!("text{}:{}", signed(&text.text_signature), text.text),
        Content::Thinking(t) => format!("thinking{}:{}", signed(&t.thinking_signature), t.thinking),
        Content::ToolCall(call) => {
            format!(
                "call{} {}",
                signed(&call.thought_signature),
                call_text(call)
            )
        }
        other => format!("{other:?}"),
    };
    let mut parts: Vec<String> = message.content.iter().map(block).collect();
    parts.push(testing::end(&finish));
    parts.join(" ; ")
}

fn call_text(call: &ToolCall) -> String {
    let arguments = serde_json::to_string(&call.arguments).unwrap();
    let raw = call.raw_arguments.as_ref().map(|raw| format!("RAW {raw}"));
    format!("{} {} {}", call.id, call.name, raw.unwrap_or(arguments))
}

/// Each item is the data of one event.
fn sse(items: &[&str]) -> Vec<u8> {
    let event = |item: &&str| format!("data: {item}\r\n\r\n").into_bytes();
    items.iter().flat_map(event).collect()
}

fn check(items: &[&str], expected: &str) {
    assert_eq!(
        shown(&read(&[&sse(items)], End::Clean)),
        expected,
        "{items:?}"
    );
}

/// A chunk with one part.
fn part(part: Value) -> String {
    json!({"candidates": [{"content": {"parts": [part], "role": "model"}, "index": 0}]}).to_string()
}

fn text(text: &str) -> String {
    part(json!({"text": text}))
}

fn thought(text: &str) -> String {
    part(json!({"text": text, "thought": true}))
}

fn finish(reason: &str) -> String {
    json!({"candidates": [{"content": {}, "finishReason": reason}]}).to_string()
}

const STOP: &str = r#"{"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":12,"candidatesTokenCount":5,"thoughtsTokenCount":2,"totalTokenCount":19},"modelVersion":"m"}"#;

#[test]
fn plain_answers() {
    check(&[&text("he"), &text("llo"), STOP], "text:hello ; stop 12/7");
    check(&[STOP], "stop 12/7");
    check(
        &[&thought("hm"), &thought("m"), &text("a"), STOP],
        "thinking:hmm ; text:a ; stop 12/7",
    );
    check(
        &[&text("a"), &thought("hm"), &text("b"), STOP],
        "text:a ; thinking:hm ; text:b ; stop 12/7",
    );
    check(
        &[
            "{}",
            "null",
            "7",
            r#"{"usageMetadata":{"promptTokenCount":1}}"#,
            &text("x"),
            STOP,
            "[DONE]",
        ],
        "text:x ; stop 12/7",
    );
    check(&[&text("x"), &finish("MAX_TOKENS")], "text:x ; length 0/0");
}

#[test]
fn parts_that_are_not_for_us_say_nothing() {
    let odd = [
        json!({"executableCode": {"language": "PYTHON", "code": "1"}}),
        json!({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}),
        json!({"inlineData": {"mimeType": "image/png", "data": "AA=="}}),
        json!({"text": 7}),
        json!({"text": null, "thought": "x", "thoughtSignature": 3}),
        json!({}),
    ];
    for odd in odd {
        check(
            &[&text("a"), &part(odd), &text("b"), STOP],
            "text:ab ; stop 12/7",
        );
    }
}

#[test]
fn calls() {
    let call = |call: Value| part(json!({"functionCall": call}));
    let rows = [
        (
            json!({"name": "read", "args": {"p": 1}}),
            r#"call read_7_1 read {"p":1}"#,
        ),
        (
            json!({"id": "x1", "name": "read", "args": {"p": 1}}),
            r#"call x1 read {"p":1}"#,
        ),
        (json!({"name": "read"}), "call read_7_1 read {}"),
        (
            json!({"name": "read", "args": null, "id": ""}),
            "call read_7_1 read {}",
        ),
        (
            json!({"name": "read", "args": "{\"p\":1}"}),
            r#"call read_7_1 read {"p":1}"#,
        ),
        (
            json!({"name": "read", "args": [1]}),
            "call read_7_1 read RAW [1]",
        ),
        (
            json!({"name": "two words"}),
            "call two_words_7_1 two words {}",
        ),
        (json!({}), "call _7_1  {}"),
    ];
    for (value, expected) in rows {
        check(&[&call(value), STOP], &format!("{expected} ; toolUse 12/7"));
    }
    let three = json!({"candidates": [{"content": {"parts": [
        {"functionCall": {"name": "read", "args": {"p": 1}}, "thoughtSignature": "QUJD"},
        {"functionCall": {"name": "read", "args": {"p": 2}}},
        {"functionCall": {"name": "bash", "args": {"c": "x"}}},
    ]}, "finishReason": "STOP"}]});
    check(
        &[&three.to_string()],
        r#"call(QUJD) read_7_1 read {"p":1} ; call read_7_2 read {"p":2} ; call bash_7_1 bash {"c":"x"} ; toolUse 0/0"#,
    );
}

#[test]
fn arguments_in_pieces_never_run() {
    let pieces = json!({"name": "read", "partialArgs": [{"jsonPath": "$.p", "stringValue": "rm -r bui"}], "willContinue": true});
    let pieces = part(json!({"functionCall": pieces}));
    check(
        &[&text("a"), &pieces, STOP],
        "text:a ; Incomplete: the server sent the arguments of a tool call in pieces",
    );
}

#[test]
fn a_signature_belongs_to_its_part_or_to_what_came_before() {
    let signed = |mut value: Value, signature: &str| {
        value["thoughtSignature"] = json!(signature);
        part(value)
    };
    let empty = signed(json!({"text": ""}), "QUJD");
    let bare = signed(json!({}), "QUJD");
    let call = json!({"functionCall": {"name": "t", "args": {}}});
    check(&[&text("a"), &empty, STOP], "text(QUJD):a ; stop 12/7");
    check(&[&text("a"), &bare, STOP], "text(QUJD):a ; stop 12/7");
    check(
        &[&thought("h"), &bare, &text("a"), STOP],
        "thinking(QUJD):h ; text:a ; stop 12/7",
    );
    check(
        &[
            &signed(json!({"text": "a"}), "QUJD"),
            &text("b"),
            &signed(json!({"text": ""}), "REVG"),
            STOP,
        ],
        "text(REVG):ab ; stop 12/7",
    );
    check(
        &[&text("a"), &signed(call.clone(), "REVG"), &empty, STOP],
        "text:a ; call(REVG) t_7_1 t {} ; toolUse 12/7",
    );
    check(
        &[&part(call.clone()), &empty, STOP],
        "call(QUJD) t_7_1 t {} ; toolUse 12/7",
    );
    check(
        &[&signed(call, "no base64"), STOP],
        "call t_7_1 t {} ; toolUse 12/7",
    );
    check(&[&empty, &text("a"), STOP], "text:a ; stop 12/7");
}

#[test]
fn ends_that_are_failures() {
    check(
        &[&text("a"), &finish("SAFETY")],
        "text:a ; Refused: Provider finish_reason: SAFETY",
    );
    let malformed = r#"{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"Malformed function call: call:read{"}]}"#;
    check(
        &[malformed],
        "Transient: Provider finish_reason: MALFORMED_FUNCTION_CALL: Malformed function call: call:read{",
    );
    let blocked = r#"{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"usageMetadata":{"promptTokenCount":3}}"#;
    check(
        &[blocked],
        "Refused: Provider block_reason: PROHIBITED_CONTENT",
    );
    check(
        &[r#"{"promptFeedback":{"blockReason":"SAFETY","blockReasonMessage":"no"}}"#],
        "Refused: Provider block_reason: SAFETY: no",
    );
    check(
        &[
            r#"{"promptFeedback":{"safetyRatings":[]}}"#,
            &text("a"),
            STOP,
        ],
        "text:a ; stop 12/7",
    );
    check(
        &[&text("a")],
        "text:a ; Incomplete: Stream ended without finish_reason",
    );
    check(&[], "Incomplete: Stream ended without finish_reason");
}

#[test]
fn errors_inside_a_stream() {
    let error = |code: u16, status: &str, message: &str| {
        json!({"error": {"code": code, "message": message, "status": status}}).to_string()
    };
    check(
        &[
            &text("a"),
            &error(503, "UNAVAILABLE", "The model is overloaded."),
        ],
        "text:a ; Transient: The model is overloaded.",
    );
    check(
        &[&error(
            400,
            "INVALID_ARGUMENT",
            "The input token count (9) exceeds the maximum number of tokens allowed (8).",
        )],
        "Overflow: The input token count (9) exceeds the maximum number of tokens allowed (8).",
    );
    check(
        &[&format!(
            "[{}]",
            error(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted")
        )],
        "RateLimit: Resource has been exhausted",
    );
    check(
        &[r#"{"candidates":7}"#],
        "Incomplete: the server sent an event that is no Gemini response",
    );
    check(
        &["no json"],
        "Incomplete: the server sent an event that is no Gemini response",
    );
    let named = b"event: error\ndata: {\"error\":{\"code\":500,\"message\":\"x\"}}\n\n";
    assert_eq!(shown(&read(&[named], End::Clean)), "Transient: x");
}

#[test]
fn answers_that_are_not_streamed() {
    let (a, b) = (text("a"), text("b"));
    let rows = [
        (STOP.to_owned(), "stop 12/7"),
        (format!("[{a},\n{b},{STOP}]"), "text:ab ; stop 12/7"),
        (format!("[{a}]"), "text:a ; Incomplete: Stream ended without finish_reason"),
        (
            r#"{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}]}"#.to_owned(),
            "text:a ; stop 0/0",
        ),
        (
            r#"[{"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}]"#.to_owned(),
            "Transient: overloaded",
        ),
        (r#"{"ok":true}"#.to_owned(), "Incomplete: the server's answer is no Gemini response"),
        ("[]".to_owned(), "Incomplete: the server's answer is empty"),
        (
            r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"bash","args":{"c":"rm -r"#.to_owned(),
            "Incomplete: the server's answer is no API response",
        ),
    ];
    for (body, expected) in rows {
        for body in [body.clone(), format!("\u{FEFF}\n {body}\n")] {
            let bytes: Vec<&[u8]> = body.as_bytes().chunks(3).collect();
            assert_eq!(shown(&read(&bytes, End::Clean)), expected, "{body}");
        }
    }
}

#[test]
fn a_recorded_stream_cut_at_every_byte() {
    let call = part(
        json!({"functionCall": {"name": "bash", "args": {"command": "rm -r build"}}, "thoughtSignature": "QUJD"}),
    );
    let items = [thought("hm 你"), text("ok 🌍"), call, STOP.to_owned()];
    let items: Vec<&str> = items.iter().map(String::as_str).collect();
    let body = sse(&items);
    let whole = r#"thinking:hm 你 ; text:ok 🌍 ; call(QUJD) bash_7_1 bash {"command":"rm -r build"} ; toolUse 12/7"#;
    // The last event counts without its blank line, as soon as it is whole.
    let end = body.len() - "\r\n\r\n".len();
    for at in 0..=body.len() {
        assert_eq!(
            shown(&read(&[&body[..at], &body[at..]], End::Clean)),
            whole,
            "split at {at}"
        );
        for cut in [End::Clean, End::Cut(incomplete("cut"))] {
            let (message, finish) = message(&read(&[&body[..at]], cut));
            assert_eq!(finish.error.is_none(), at >= end, "cut at {at}");
            for call in message.tool_calls() {
                assert_eq!(
                    serde_json::to_string(&call.arguments).unwrap(),
                    r#"{"command":"rm -r build"}"#
                );
            }
        }
    }
}

#[test]
fn made_ids_do_not_repeat_those_of_the_history() {
    let earlier = json!({
        "role": "assistant", "content": [{"type": "toolCall", "id": "read_7_1", "name": "read", "arguments": {}}],
        "api": "a", "provider": "p", "model": "m", "usage": {}, "stopReason": "toolUse", "timestamp": 1,
    });
    let history: Vec<Arc<Message>> = vec![Arc::new(serde_json::from_value(earlier).unwrap())];
    let call = part(json!({"functionCall": {"name": "read", "args": {}}}));
    let events = read_after(
        Transcript::from_context(&history),
        &[&sse(&[&call, &call, STOP])],
        End::Clean,
    );
    assert_eq!(
        shown(&events),
        "call read_7_2 read {} ; call read_7_3 read {} ; toolUse 12/7"
    );
}

#[test]
fn ids_of_response_and_model() {
    let chunk = r#"{"responseId":"r1","modelVersion":"m-001","candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}]}"#;
    let (_, finish) = message(&read(&[&sse(&[chunk, chunk])], End::Clean));
    let named = (
        finish.response_id.as_deref(),
        finish.response_model.as_deref(),
    );
    assert_eq!(named, (Some("r1"), Some("m-001")));
    let (_, finish) = message(&read(&[&sse(&[STOP])], End::Clean));
    assert_eq!((finish.response_id, finish.response_model), (None, None));
}

#[test]
fn progress_tells_output_from_signs_of_life() {
    let mut reader = reader_after(Transcript::default());
    let mut out = Events::new();
    let rows = [
        (b": ping\n\n".to_vec(), (false, false, false)),
        (
            sse(&[r#"{"usageMetadata":{"promptTokenCount":1}}"#]),
            (true, false, false),
        ),
        (sse(&[&text("a")]), (true, true, false)),
        (sse(&[STOP]), (true, true, true)),
    ];
    for (bytes, expected) in rows {
        let p = reader.push(&bytes, &mut out).unwrap();
        assert_eq!((p.alive, p.output, p.ending), expected);
        assert!(!p.complete);
    }
}

#[test]
fn what_came_before_the_last_part_is_shown_at_once() {
    let mut reader = reader_after(Transcript::default());
    let mut out = Events::new();
    let call = part(json!({"functionCall": {"name": "t", "args": {}}}));
    reader
        .push(&sse(&[&thought("h"), &text("a"), &call]), &mut out)
        .unwrap();
    let names: Vec<_> = out.iter().map(StreamEvent::name).collect();
    let expected = [
        "thinking_start",
        "thinking_delta",
        "thinking_end",
        "text_start",
        "text_delta",
        "text_end",
        "toolcall_start",
        "toolcall_delta",
    ];
    assert_eq!(names, expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_comes_the_events_are_well_formed(
        items in proptest::collection::vec(prop_oneof![
            Just(text("a")), Just(thought("h")), Just(STOP.to_owned()), Just(finish("OTHER")),
            Just(part(json!({"functionCall": {"name": "t", "args": {"a": "b"}}}))),
            Just(part(json!({"functionCall": {"id": "x", "name": "t"}, "thoughtSignature": "QUJD"}))),
            Just(part(json!({"thoughtSignature": "QUJD"}))),
            Just(r#"{"error":{"message":"x"}}"#.to_owned()),
            "[{}\":,a-c\\[\\]]{0,20}",
        ], 0..12),
        cut in 0usize..2000,
    ) {
        let items: Vec<&str> = items.iter().map(String::as_str).collect();
        let mut body = sse(&items);
        body.truncate(cut);
        let (message, _) = message(&read(&[&body], End::Clean));
        let mut ids: Vec<&str> = message.tool_calls().map(|call| call.id.as_str()).collect();
        let calls = ids.len();
        ids.sort_unstable();
        ids.dedup();
        prop_assert_eq!(ids.len(), calls);
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        read(&[b"data: ", &bytes, b"\n\n"], End::Clean);
        read(&[&bytes], End::Clean);
    }
}
