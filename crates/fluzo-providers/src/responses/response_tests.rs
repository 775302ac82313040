//! How responses are read and how they end.

use std::sync::Arc;

use fluzo_llm::{Content, Message, StreamErrorKind, Transcript};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::drive::{End, Reader};
use crate::responses::request;
use crate::responses::script::{
    WHOLE, WHOLE_SHOWN, check, events, message, read, reader_of, request_after, shown, sse,
};

#[test]
fn a_response_as_the_reference_describes_it() {
    let events = read(&[WHOLE.as_bytes()], End::Clean);
    assert_eq!(shown(&events), WHOLE_SHOWN);
    let (_, finish) = message(&events);
    assert_eq!(finish.response_id.as_deref(), Some("resp_1"));
    assert_eq!(finish.response_model.as_deref(), Some("m-2026"));
    let usage = finish.usage;
    assert_eq!((usage.cache_read, usage.total_tokens), (10, 37));
    assert!((usage.cost.total - 27.0).abs() < 1e-9);
    let bytes: Vec<&[u8]> = WHOLE.as_bytes().chunks(1).collect();
    assert_eq!(shown(&read(&bytes, End::Clean)), WHOLE_SHOWN);
}

#[test]
fn the_answer_of_a_server_that_does_not_stream() {
    let last = WHOLE.trim().rsplit("data: ").next().unwrap();
    let last: Value = serde_json::from_str(last).unwrap();
    let read_json = |json: &Value| shown(&read(&[json.to_string().as_bytes()], End::Clean));
    assert_eq!(read_json(&last["response"]), WHOLE_SHOWN);
    let rows = [
        (r#"{"output":SAID}"#, "text:hi ; stop 0/0"),
        (
            r#"{"output":SAID,"status":"completed"}"#,
            "text:hi ; stop 0/0",
        ),
        (
            r#"{"output":SAID,"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}"#,
            "text:hi ; length 0/0",
        ),
        (
            r#"{"status":"failed","error":{"code":"server_error","message":"oops"}}"#,
            "Transient: oops",
        ),
        (
            r#"{"status":"in_progress","output":[]}"#,
            "Incomplete: the server's answer is no whole response",
        ),
        (
            r#"{"choices":[]}"#,
            "Incomplete: the server's answer is no whole response",
        ),
    ];
    let said = r#"[{"type":"message","content":[{"type":"output_text","text":"hi"}]}]"#;
    for (answer, expected) in rows {
        let answer = answer.replace("SAID", said);
        assert_eq!(shown(&read(&[answer.as_bytes()], End::Clean)), expected);
    }
}

#[test]
fn cut_at_every_byte_no_call_runs_that_is_not_whole() {
    let body = WHOLE.as_bytes();
    // The last event is whole without its blank line.
    let complete = body.len() - 2;
    for cut in 0..body.len() {
        let end = match cut % 16 {
            0 => End::Cut(incomplete("cut")),
            _ => End::Clean,
        };
        let (message, finish) = message(&read(&[&body[..cut]], end));
        assert_eq!(finish.error.is_some(), cut < complete, "at {cut}");
        for call in message.tool_calls() {
            let path = call.arguments.get("path");
            let whole = path.is_some_and(|path| path == "a" || path == "b");
            assert!(whole || call.raw_arguments.is_some(), "at {cut}: {call:?}");
        }
    }
}

#[test]
fn how_responses_end() {
    let rows = [
        ("end", "stop 12/7"),
        (r#"{"type":"response.completed","response":{}}"#, "stop 0/0"),
        (
            r#"{"type":"response.completed","usage":{"input_tokens":3,"output_tokens":2}}"#,
            "stop 3/2",
        ),
        (r#"{"type":"response.done"}"#, "stop 0/0"),
        ("limit", "length 3/2"),
        (
            r#"{"type":"response.incomplete","response":{}}"#,
            "length 0/0",
        ),
        ("filter", "Refused: incomplete: content_filter"),
        // Some servers call every end completed.
        (
            r#"{"type":"response.completed","response":{"status":"incomplete"}}"#,
            "length 0/0",
        ),
        (
            r#"{"type":"response.completed","response":{"status":"cancelled"}}"#,
            "Transient: the server cancelled the response",
        ),
        (
            r#"{"type":"response.completed","response":{"status":"in_progress"}}"#,
            "stop 0/0",
        ),
        (
            r#"{"type":"response.cancelled"}"#,
            "Transient: the server cancelled the response",
        ),
        (
            r#"{"type":"response.failed","response":{"error":null}}"#,
            "Transient: the server says that the response failed and not why",
        ),
        (
            r#"{"type":"response.failed","response":{"error":{"message":"server error, no code"}}}"#,
            "Transient: server error, no code",
        ),
        (
            r#"{"type":"response.failed","response":{"incomplete_details":{"reason":"odd"}}}"#,
            "Transient: incomplete: odd",
        ),
        (
            r#"{"type":"error","code":"server_error","message":"oops","param":null}"#,
            "Transient: Error Code server_error: oops",
        ),
        (
            r#"{"type":"error","error":{"code":"rate_limit_exceeded","message":"slow"}}"#,
            "RateLimit: Error Code rate_limit_exceeded: slow",
        ),
        (
            r#"{"type":"error","code":null,"message":"overloaded"}"#,
            "Transient: overloaded",
        ),
        (
            r#"{"error":{"message":"overloaded"}}"#,
            "Transient: overloaded",
        ),
        (
            "[DONE]",
            "Incomplete: Stream ended without response.completed",
        ),
        ("{}", "Incomplete: Stream ended without response.completed"),
        (
            "nonsense",
            "Incomplete: the server sent an event that is no response",
        ),
        ("end | text~=late | nonsense", "stop 12/7"),
    ];
    for (script, expected) in rows {
        check(script, expected);
    }
    let named = b"event: error\ndata: {\"code\":\"server_error\",\"message\":\"oops\"}\n\n";
    let expected = "Transient: Error Code server_error: oops";
    assert_eq!(shown(&read(&[named], End::Clean)), expected);
}

#[test]
fn failures_are_classified_and_what_came_before_stands() {
    let rows = [
        ("server_error", "oops", "Transient"),
        ("rate_limit_exceeded", "slow down", "RateLimit"),
        ("insufficient_quota", "pay", "Quota"),
        ("context_length_exceeded", "long", "Overflow"),
        ("invalid_prompt", "no", "InvalidRequest"),
    ];
    let signed = r#"text:a <{"v":1,"id":"msg_1"}> ; "#;
    for (code, text, kind) in rows {
        let failed = json!({"type": "response.failed", "response": {"status": "failed", "error": {"code": code, "message": text}}});
        check(
            &format!("text~=a | {failed}"),
            &format!("{signed}{kind}: {code}: {text}"),
        );
    }
    check("text~=a | [DONE]", &format!("{signed}stop 0/0"));
    let open = "Incomplete: Stream ended without response.completed";
    check("text~=a", &format!("{signed}{open}"));
}

#[test]
fn why_the_body_broke_off_is_told_unless_the_response_is_whole() {
    let signed = r#"text:a <{"v":1,"id":"msg_1"}> ; "#;
    for (script, expected) in [
        ("text~=a", "Timeout: too slow"),
        ("text~=a | end", "stop 12/7"),
    ] {
        let cut = End::Cut(StreamError::new(StreamErrorKind::Timeout, "too slow"));
        let body = sse(&events(script));
        assert_eq!(shown(&read(&[&body], cut)), format!("{signed}{expected}"));
    }
}

#[test]
fn what_is_not_known_is_passed_over_and_odd_types_do_no_harm() {
    let strange = [
        r#"{"type":"keepalive","sequence_number":3}"#,
        r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"ws_1","type":"web_search_call"}}"#,
        r#"{"type":"response.web_search_call.completed","output_index":0,"item_id":"ws_1"}"#,
        r#"{"type":"response.output_item.added"}"#,
        r#"{"type":"response.output_item.done","item":7}"#,
        r#"{"type":"response.output_text.delta","delta":null}"#,
        r#"{"type":"response.output_text.delta","delta":{"a":1},"output_index":"x","item_id":7}"#,
        r#"{"type":"response.function_call_arguments.done"}"#,
        r#"{"type":"response.reasoning_summary_part.added","part":[]}"#,
        r#"{"type":"response.created","response":"odd"}"#,
        r#"{"type":7}"#,
        r#"{"type":"response.mcp_call.failed","error":"x"}"#,
        "null",
        "7",
    ];
    for odd in strange {
        let body = sse(&events(&format!("{odd} | text~=a | {odd} | end")));
        let (message, finish) = message(&read(&[&body], End::Clean));
        let texts = message.content.iter().filter_map(Content::as_text);
        assert_eq!(
            (texts.collect::<String>().as_str(), finish.error),
            ("a", None),
            "{odd}"
        );
    }
}

#[test]
fn generated_ids_do_not_repeat_those_of_the_history() {
    let earlier = json!({
        "role": "assistant", "content": [{"type": "toolCall", "id": "call_1", "name": "read", "arguments": {}}],
        "api": "a", "provider": "p", "model": "m", "usage": {}, "stopReason": "toolUse", "timestamp": 1,
    });
    let history: Vec<Arc<Message>> = vec![Arc::new(serde_json::from_value(earlier).unwrap())];
    let mut reader = reader_of(&request_after(Transcript::from_context(&history)));
    let mut out = Events::new();
    reader
        .push(&sse(&events("call.#-={} | end")), &mut out)
        .unwrap();
    reader.finish(End::Clean, &mut out);
    assert_eq!(
        shown(out.make_contiguous()),
        "call call_2 bash {} ; toolUse 12/7"
    );
}

/// Signatures survive the session: what came is sent back unaltered.
#[test]
fn a_response_goes_back_as_it_came() {
    let (message, _) = message(&read(&[WHOLE.as_bytes()], End::Clean));
    let line = serde_json::to_string(&Message::Assistant(message)).unwrap();
    let stored: Message = serde_json::from_str(&line).unwrap();
    let transcript = Transcript::from_context(&[Arc::new(stored)]);
    let body = request::body(&request_after(transcript)).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let input = body["input"].as_array().unwrap();
    let reasoning = json!({
        "id": "rs_1", "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "look at 1"}, {"type": "summary_text", "text": "then 2"}],
        "encrypted_content": "gA+/=",
    });
    assert_eq!(input[0], reasoning);
    let field = |item: &Value, name: &str| item[name].as_str().unwrap_or("-").to_owned();
    let fields = ["type", "id", "call_id", "phase"];
    let shown = |item: &Value| fields.map(|name| field(item, name)).join(" ");
    let rest: Vec<String> = input[1..].iter().map(shown).collect();
    let expected = [
        "message msg_1 - commentary",
        "function_call fc_1 call_1 -",
        "function_call fc_2 call_2 -",
        "function_call_output - call_1 -",
        "function_call_output - call_2 -",
    ];
    assert_eq!(rest, expected);
}

#[test]
fn the_tier_that_the_server_used_sets_the_price() {
    for (tier, total) in [("default", 19.0), ("flex", 9.5), ("priority", 38.0)] {
        let created = r#"{"type":"response.created","response":{"service_tier":"auto"}}"#;
        let usage = json!({"input_tokens": 12, "output_tokens": 7});
        let last = json!({"type": "response.completed", "response": {"service_tier": tier, "usage": usage}});
        let body = sse(&[created.to_owned(), last.to_string()]);
        let (_, finish) = message(&read(&[&body], End::Clean));
        assert!((finish.usage.cost.total - total).abs() < 1e-9, "{tier}");
    }
}

#[test]
fn progress_tells_output_from_signs_of_life() {
    let mut reader = reader_of(&request_after(Transcript::default()));
    let mut out = Events::new();
    let rows = [
        ("", (false, false, false, false)),
        (
            r#"{"type":"response.created"}"#,
            (true, false, false, false),
        ),
        ("reasoning+", (true, false, false, false)),
        ("text~=a", (true, true, false, false)),
        ("", (false, true, false, false)),
        ("end", (true, true, true, true)),
    ];
    for (script, expected) in rows {
        let body = match script {
            "" => b": ping\n\n".to_vec(),
            script => sse(&events(script)),
        };
        let p = reader.push(&body, &mut out).unwrap();
        assert_eq!((p.alive, p.output, p.ending, p.complete), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn whatever_comes_the_events_are_well_formed(
        order in proptest::collection::vec(0usize..60, 0..24),
        noise in "[{}\":,a-c\\[\\]]{0,20}",
        cut in 0usize..8000,
    ) {
        let mut known: Vec<&str> = WHOLE.split("\n\n").collect();
        let rest = events(r#"call+ | call~={"a | call~#-@-=" | call.= | text+ | text~=x | text.= | text~#-@-=y | thinking~#-@-=z | reasoning. | end with call={} | limit | [DONE]"#);
        known.extend(rest.iter().map(String::as_str));
        known.push(&noise);
        let items = order.iter().map(|n| known[n % known.len()]);
        let mut body: String = items.map(|item| format!("data: {}\n\n", item.trim_start_matches("data: "))).collect();
        while !body.is_char_boundary(cut.min(body.len())) {
            body.pop();
        }
        body.truncate(cut);
        read(&[body.as_bytes()], End::Clean);
    }

    #[test]
    fn whatever_bytes_come_there_is_one_last_event(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        read(&[&bytes], End::Clean);
    }
}
