//! The same response as different servers send it.

use super::script::{check, thought};

#[test]
fn a_call_cut_off_in_its_arguments_is_an_error_and_never_runs() {
    let inside = "Incomplete: the response ended inside the arguments of a tool call";
    let open = r#"call+ | call~={"command":"rm -r bui"#;
    let raw = r#"call call_1|fc_1 bash RAW {"command":"rm -r bui ; "#;
    let usage =
        r#"{"type":"response.created","response":{"usage":{"input_tokens":1,"output_tokens":1}}}"#;
    let rows = [
        ("end", inside),
        (r#"end with call={"command":"rm -r bui"#, inside),
        ("end with call=", inside),
        ("end with call={}", inside),
        ("call.= | end", inside),
        ("call.={} | end", inside),
        ("call!= | end", inside),
        ("call!={} | end", inside),
        ("[DONE]", inside),
        (usage, inside),
        ("{}", "Incomplete: Stream ended without response.completed"),
        // The output limit cut it off: no error, and the call does not run either.
        ("limit", "length 3/2"),
    ];
    for (tail, end) in rows {
        check(&format!("{open} | {tail}"), &format!("{raw}{end}"));
    }
    check("call+ | limit", "call call_1|fc_1 bash RAW  ; length 3/2");
    check(
        "call+={} | limit",
        "call call_1|fc_1 bash RAW  ; length 3/2",
    );
    // The whole text, where pieces were lost, is the server's word.
    let whole = r#"end with call={"command":"ls"}"#;
    let ran = r#"call call_1|fc_1 bash {"command":"ls"} ; toolUse 12/7"#;
    check(&format!("{open} | {whole}"), ran);
}

#[test]
fn a_call_in_every_shape() {
    let rows = [
        // Pieces only; whole only; both; whole at the end only.
        "call+ | call~=LS | end",
        "call.=LS | end",
        "call+ | call.=LS | end",
        "call+ | call!=LS | end",
        "end with call=LS",
        "call+ | end with call=LS",
        // Arguments in the announcement, repeated or not.
        "call+=LS | end",
        "call+=LS | call~=LS | call.=LS | end",
        "call+={} | call~=LS | end",
        // The item begins after its first piece, or never.
        r#"call~={"command" | call+ | call~=:"ls"} | end"#,
        "call~=LS | call.=LS | end",
        "call~#-@-=LS | call.=LS | end",
        // Its name changes from event to event, or is left out; its place is wrong.
        "call+ | call~#other=LS | end",
        "call+ | call~@5=LS | end",
        "call+ | call~#-@-=LS | end",
        "call+ | call~#call_1@-=LS | end",
        "call+ | call~#-@-=LS | call!#-@-=LS | end",
        // Said twice.
        "call+ | call+ | call~=LS | call.=LS | call.=LS | end",
        "call+ | call~=LS | call.=LS | call~=late | end with call=LS",
        "call+ | call~=LS | call.=LS | end with call#fc_9=LS",
        "call+ | call~=LS | end with call#fc_9={}",
        "call+ | call~=LS | call.=LS | call!#-@-={} | end",
    ];
    for script in rows {
        let script = script.replace("LS", r#"{"command":"ls"}"#);
        let one = r#"call call_1|fc_1 bash {"command":"ls"} ; toolUse 12/7"#;
        check(&script, one);
    }
    let rows = [
        ("call+ | end", "call_1|fc_1 bash {}"),
        ("call+={} | end", "call_1|fc_1 bash {}"),
        // A server that gives no ids, only that of the call, or only that of the item.
        ("call.#-={} | end", "call_1 bash {}"),
        (
            r#"{"type":"response.output_item.done","item":{"type":"function_call","call_id":"c","name":"bash","arguments":{}}} | end"#,
            "c bash {}",
        ),
        (
            r#"{"type":"response.output_item.added","item":{"type":"function_call","id":"fc_7","name":"bash","arguments":"{}"}} | end"#,
            "fc_7 bash {}",
        ),
        (
            r#"{"type":"response.function_call_arguments.done","item_id":"fc_7","call_id":"c","name":"bash","arguments":{"a":1}} | end"#,
            r#"c|fc_7 bash {"a":1}"#,
        ),
    ];
    for (script, call) in rows {
        check(script, &format!("call {call} ; toolUse 12/7"));
    }
}

#[test]
fn calls_that_a_server_puts_all_at_one_place() {
    check(
        r#"call+ | call~={"n":1} | call+#fc_2 | call~#fc_2={"n":2} | end"#,
        r#"call call_1|fc_1 bash {"n":1} ; call call_2|fc_2 bash {"n":2} ; toolUse 12/7"#,
    );
}

#[test]
fn a_text_in_every_shape() {
    let rows = [
        "text+ | text~=he | text~=llo | text.=hello | end",
        // Without beginning, without end, without either.
        "text~=he | text~=llo | text.=hello | end",
        "text+ | text~=he | text~=llo | end",
        "text~=he | text~=llo | end",
        // Whole only: at the end of the part, of the item, of the response.
        "text!=hello | end",
        "text+ | text.=hello | end",
        "text.=hello | end",
        "end with text=hello",
        // Said twice.
        "text+ | text+ | text~=hello | text!=hello | text.=hello | text.=hello | end with text#other=hello",
        "text+ | text~=hello | text.=hello | text~=late | end",
        "text~=hello | end with text=hello",
        "text~#-@-=hello | end with text=hello",
        // Parts are numbered across items, places are wrong.
        "text+ | text~@3^4=hello | text.@7=hello | end",
    ];
    for script in rows {
        check(script, r#"text:hello <{"v":1,"id":"msg_1"}> ; stop 12/7"#);
    }
    let two = r#"{"type":"response.output_item.done","item":{"type":"message","id":"msg_1","content":[{"type":"output_text","text":"a"},{"type":"refusal","refusal":"no"}]}}"#;
    let rows = [
        ("text~#-@-=hello | end", "text:hello ; stop 12/7"),
        (
            "text~#-@-=hello | text!#-@-=hello | end",
            "text:hello ; stop 12/7",
        ),
        (
            "refusal~=no | refusal!=no | end",
            r#"text:no <{"v":1,"id":"msg_1"}> ; stop 12/7"#,
        ),
        (
            "refusal!=no | end",
            r#"text:no <{"v":1,"id":"msg_1"}> ; stop 12/7"#,
        ),
        // One that stays empty leaves no trace.
        ("text+ | text~= | text!= | text.= | end", "stop 12/7"),
        // The second of two parts comes whole only.
        (
            &format!("text+ | text~=a | {two} | end"),
            r#"text:ano <{"v":1,"id":"msg_1"}> ; stop 12/7"#,
        ),
        // A server that gives all texts one name.
        (
            "text+ | text~=a | text+@1 | text~@1=b | text~=c | end",
            r#"text:ac <{"v":1,"id":"msg_1"}> ; text:b <{"v":1,"id":"msg_1"}> ; stop 12/7"#,
        ),
    ];
    for (script, expected) in rows {
        check(script, expected);
    }
}

#[test]
fn thinking_in_every_shape() {
    // The response, the thinking, the item that signs it.
    let rows = [
        // Parts are joined by a blank line, known by their number or their announcement.
        (
            "reasoning+ | summary~=a | summary~^1=b | reasoning.",
            "a\n\nb",
            Some(""),
        ),
        (
            "reasoning+ | summary+ | summary~^-=a | summary+ | summary~^-=b | reasoning.",
            "a\n\nb",
            Some(""),
        ),
        (
            "reasoning+ | thinking~^4=a | thinking~^4=b | thinking!^4=ab | reasoning.",
            "ab",
            Some(""),
        ),
        // The same in short and word for word counts once.
        (
            "reasoning+ | thinking~=a | summary~=a | summary!=a | reasoning.=a b",
            "a",
            Some("a b"),
        ),
        // Whole only.
        ("reasoning+ | summary!=a | reasoning.=a b", "a", Some("a b")),
        ("reasoning.=a b", "a\n\nb", Some("a b")),
        ("reasoning.=:a b", "a\n\nb", Some(":a b")),
        // Hidden.
        ("reasoning+ | reasoning.", "", Some("")),
        // Never begun, never ended.
        (
            r#"{"type":"response.reasoning.delta","delta":"a"}"#,
            "a",
            None,
        ),
        ("reasoning+", "", None),
    ];
    let signed = |text: Option<&str>| match text {
        Some(text) => format!(" <{}>", thought(Some("rs_1".into()), text)),
        None => String::new(),
    };
    for (script, thinking, signature) in rows {
        let signature = signed(signature);
        check(
            &format!("{script} | end"),
            &format!("thinking:{thinking}{signature} ; stop 12/7"),
        );
    }
    // Its end comes with the end of the response.
    for begins in [
        "reasoning+ | ",
        "reasoning+ | thinking~=a | ",
        "thinking~=a | ",
        "",
    ] {
        let expected = format!("thinking:a{} ; stop 12/7", signed(Some(":a")));
        check(&format!("{begins}end with reasoning=:a"), &expected);
    }
}
