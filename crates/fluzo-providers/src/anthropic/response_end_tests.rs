//! How responses end, and what becomes of those that do not.

use super::*;

#[test]
fn a_call_that_the_limit_cut_off_never_runs() {
    let rows: [(Vec<String>, &str); 5] = [
        (
            vec![
                open_call(0, "c"),
                input(0, "{\"command\":\"ls\"}"),
                close(0),
            ],
            r#"call c read {"command":"ls"}"#,
        ),
        (
            vec![
                open_call(0, "c"),
                input(0, "{\"command\":\"rm -r bui"),
                close(0),
            ],
            r#"call c read RAW {"command":"rm -r bui"#,
        ),
        (
            vec![open_call(0, "c"), input(0, ""), close(0)],
            "call c read RAW ",
        ),
        (vec![open_call(0, "c")], "call c read RAW "),
        (
            vec![
                open_call(0, "c"),
                close(0),
                open_text(1),
                text(1, "a"),
                close(1),
            ],
            "call c read {} ; text:a",
        ),
    ];
    for (blocks, expected) in rows {
        check(
            &whole(&blocks, "max_tokens"),
            &format!("{expected} ; length 12/7"),
        );
    }
}

#[test]
fn a_stream_cut_inside_tool_arguments_gives_no_call_that_can_run() {
    let part = [
        begin(),
        open_call(0, "c"),
        input(0, "{\"command\":\"rm -r bui"),
    ];
    let tails: [&[String]; 5] = [
        &[],
        &[close(0)],
        &[end()],
        &[stop("tool_use")],
        &[stop("tool_use"), end()],
    ];
    for tail in tails {
        let items = [&part[..], tail].concat();
        let (message, finish) = message(&read(&[&sse(&items)], End::Clean));
        let call = message.tool_calls().next().unwrap();
        assert_eq!(
            call.raw_arguments.as_deref(),
            Some(r#"{"command":"rm -r bui"#)
        );
        let whole = tail.len() == 2;
        let kind = finish.error.map(|error| error.kind);
        assert_eq!(
            kind,
            (!whole).then_some(StreamErrorKind::Incomplete),
            "{tail:?}"
        );
    }
}

#[test]
fn only_message_stop_is_the_end() {
    let text_only = [begin(), open_text(0), text(0, "a"), close(0)];
    let ended = "text:a ; Incomplete: stream ended before message_stop";
    check(&text_only, ended);
    check(&[&text_only[..], &[stop("end_turn")]].concat(), ended);
    check(&[], "Incomplete: stream ended before message_stop");
    let lost = || End::Cut(incomplete("connection lost"));
    assert_eq!(
        shown(&read(&[&sse(&text_only)], lost())),
        "text:a ; Incomplete: connection lost"
    );
    let all = whole(&text_only[1..], "end_turn");
    assert_eq!(shown(&read(&[&sse(&all)], lost())), "text:a ; stop 12/7");
    // Some servers leave the reason out.
    check(&[&text_only[..], &[end()]].concat(), "text:a ; stop 12/1");
    check(
        &[begin(), open_call(0, "c"), input(0, "{}"), close(0), end()],
        "call c read {} ; toolUse 12/1",
    );
    check(
        &[begin(), end()],
        "Incomplete: the message ended without a stop_reason",
    );
}

#[test]
fn however_the_bytes_are_cut_there_is_one_last_event_and_no_cut_call_runs() {
    let body = sse(&rich());
    for at in 0..=body.len() {
        assert_eq!(
            shown(&read(&[&body[..at], &body[at..]], End::Clean)),
            RICH,
            "split at {at}"
        );
        let events = read(&[&body[..at]], End::Clean);
        let (message, finish) = message(&events);
        let whole = message
            .tool_calls()
            .filter(|call| call.raw_arguments.is_none());
        for call in whole {
            let arguments = serde_json::to_string(&call.arguments).unwrap();
            assert!(
                call.id != "c1" || arguments == r#"{"path":"a🌍"}"#,
                "cut at {at}"
            );
        }
        // What closes the last event's line makes it whole.
        let complete = at + 2 >= body.len();
        assert_eq!(finish.error.is_none(), complete, "cut at {at}");
        if let Some(error) = finish.error {
            assert_eq!(error.kind, StreamErrorKind::Incomplete, "cut at {at}");
        }
    }
    let single: Vec<&[u8]> = body.chunks(1).collect();
    assert_eq!(shown(&read(&single, End::Clean)), RICH);
}

#[test]
fn stop_reasons_that_are_failures() {
    let blocks = [open_text(0), text(0, "a"), close(0)];
    let rows = [
        ("pause_turn", "stop 12/7"),
        ("stop_sequence", "stop 12/7"),
        ("sensitive", "Refused: Provider stop_reason: sensitive"),
        (
            "model_context_window_exceeded",
            "Overflow: Provider stop_reason: model_context_window_exceeded",
        ),
        ("abc", "Refused: Unhandled stop reason: abc"),
    ];
    for (reason, expected) in rows {
        check(&whole(&blocks, reason), &format!("text:a ; {expected}"));
    }
    let details = json!({"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": {"type": "refusal", "category": "cyber", "explanation": "not this"}}});
    check(
        &[begin(), details.to_string(), end()],
        "Refused: Provider stop_reason: refusal (not this)",
    );
}

#[test]
fn errors_inside_a_stream_that_began_well() {
    let error = |kind: &str, message: &str| {
        json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})
            .to_string()
    };
    let rows = [
        ("overloaded_error", "Overloaded", "Transient"),
        ("api_error", "Unexpected", "Transient"),
        ("timeout_error", "Slow", "Transient"),
        ("rate_limit_error", "Slow down", "RateLimit"),
        ("authentication_error", "Bad key", "Authentication"),
        ("permission_error", "Not yours", "Authentication"),
        ("billing_error", "Pay", "Quota"),
        ("request_too_large", "Too big", "Overflow"),
        (
            "invalid_request_error",
            "prompt is too long: 213462 tokens > 200000 maximum",
            "Overflow",
        ),
        (
            "invalid_request_error",
            "messages.1: strange",
            "InvalidRequest",
        ),
    ];
    for (kind, message, expected) in rows {
        let items = [begin(), open_text(0), text(0, "a"), error(kind, message)];
        check(&items, &format!("text:a ; {expected}: {message}"));
    }
    let (_, finish) = message(&read(
        &[&sse(&[error("overloaded_error", "Overloaded")])],
        End::Clean,
    ));
    let failure = finish.error.unwrap();
    assert_eq!(
        (failure.status, failure.request_id.as_deref()),
        (Some(529), Some("req_1"))
    );
    let bare = b"event: error\ndata: {\"message\":\"server_error\"}\n\n";
    assert_eq!(shown(&read(&[bare], End::Clean)), "Transient: server_error");
    let plain = b"event: error\ndata: overloaded\n\n";
    assert_eq!(shown(&read(&[plain], End::Clean)), "Transient: overloaded");
    check(
        &[json!({"error": {"message": "overloaded"}}).to_string()],
        "Transient: overloaded",
    );
    let broken = "Incomplete: the server sent an event that is no part of a message";
    check(&[begin(), "{\"type\":".into()], broken);
    check(
        &[
            begin(),
            json!({"type": "content_block_delta", "delta": 7}).to_string(),
        ],
        broken,
    );
}

fn some_event() -> impl Strategy<Value = String> {
    let index = 0u64..3;
    prop_oneof![
        Just(begin()),
        Just(ping()),
        Just(end()),
        prop_oneof![Just("end_turn"), Just("tool_use"), Just("max_tokens"), Just("x")].prop_map(stop),
        (index.clone(), prop_oneof![Just("text"), Just("thinking"), Just("redacted_thinking"), Just("tool_use"), Just("later")])
            .prop_map(|(index, kind)| open(index, json!({"type": kind, "id": "c", "name": "x", "data": "d"}))),
        (index.clone(), prop_oneof![Just("text_delta"), Just("thinking_delta"), Just("signature_delta"), Just("input_json_delta"), Just("y")])
            .prop_map(|(index, kind)| delta(index, json!({"type": kind, "text": "t", "thinking": "h", "signature": "s", "partial_json": "{\"a\":1}"}))),
        index.clone().prop_map(|index| input(index, "{\"")),
        index.prop_map(close),
        "[{}\":,a-c\\[\\]]{0,20}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn whatever_comes_the_events_are_well_formed(
        items in proptest::collection::vec(some_event(), 0..16),
        cut in 0usize..3000,
    ) {
        let mut body = sse(&items);
        body.truncate(cut);
        let (message, finish) = message(&read(&[&body], End::Clean));
        let stopped = items.contains(&end());
        prop_assert!(stopped || finish.error.is_some());
        for call in message.tool_calls().filter(|call| call.raw_arguments.is_none()) {
            let text = serde_json::to_string(&call.arguments).unwrap();
            prop_assert!(text == "{}" || text == "{\"a\":1}", "{text}");
        }
    }

    #[test]
    fn whatever_bytes_come_there_is_one_last_event(bytes in proptest::collection::vec(any::<u8>(), 0..400), tail in any::<bool>()) {
        let mut body = if tail { sse(&[begin(), open_text(0)]) } else { Vec::new() };
        body.extend(bytes);
        let (_, finish) = message(&read(&[&body], End::Clean));
        prop_assert!(finish.error.is_some());
    }
}
