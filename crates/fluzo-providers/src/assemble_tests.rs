//! Shapes of tool-call fragments, as rows.

use super::*;

/// `index id name arguments` of one fragment; `-` is missing, `""` is empty. Fragments of
/// one event are joined by ` | `, events are the items of `events`.
fn run(tools: &[&str], events: &[&str], ending: Ending) -> (Vec<ToolCall>, Events) {
    let spec = |name: &&str| ToolSpec {
        name: (*name).to_owned(),
        description: String::new(),
        parameters: serde_json::Value::Null,
    };
    let mut blocks = Blocks::new(tools.iter().map(spec).collect());
    let mut out = Events::new();
    for event in events {
        let several = event.contains(" | ");
        for (place, part) in event.split(" | ").enumerate() {
            let place = several.then_some(place);
            blocks.fragment(
                Fragment {
                    place,
                    ..fragment(part)
                },
                &mut out,
            );
        }
    }
    blocks.close(ending, &|id| id == "call_1", &mut out);
    let calls = out.iter().filter_map(|event| match event {
        StreamEvent::ToolCallEnd { call, .. } => Some((**call).clone()),
        _ => None,
    });
    (calls.collect(), out)
}

fn fragment(text: &str) -> Fragment {
    let mut parts = text
        .splitn(4, ' ')
        .map(|part| if part == "-" { "" } else { part });
    let mut next = || parts.next().unwrap_or_default().to_owned();
    Fragment {
        index: next().parse().ok(),
        id: next(),
        name: next(),
        arguments: next(),
        place: None,
    }
}

fn check(tools: &[&str], events: &[&str], expected: &[&str]) {
    let (calls, _) = run(tools, events, Ending::Complete);
    let shown: Vec<String> = calls
        .iter()
        .map(|call| {
            let arguments = serde_json::to_string(&call.arguments).unwrap();
            let arguments = call
                .raw_arguments
                .as_ref()
                .map_or(arguments, |raw| format!("RAW {raw}"));
            format!("{} {} {arguments}", call.id, call.name)
        })
        .collect();
    assert_eq!(shown, expected, "{events:?}");
}

#[test]
fn fragments_of_one_call() {
    let whole = ["a read {\"p\":1}"];
    check(&["read"], &["0 a read {\"p\":1}"], &whole);
    check(
        &["read"],
        &["0 a read ", "0 - - {\"p\":", "0 - - 1}"],
        &whole,
    );
    check(
        &["read"],
        &["0 a read ", "0 a - {\"p\":", "0 a read 1}"],
        &whole,
    );
    check(&["read"], &["0 - read ", "0 a - {\"p\":1}"], &whole);
    check(
        &["read"],
        &["- a read ", "- a - {\"p\":", "- a - 1}"],
        &whole,
    );
    check(
        &["read"],
        &["- a read ", "- - - {\"p\":", "- - - 1}"],
        &whole,
    );
    check(&["read"], &["0 a read {\"p\"", "- - - :1}"], &whole);
    check(&[], &["0 a re ", "0 - ad ", "0 - - {\"p\":1}"], &whole);
    check(
        &["read"],
        &["0 a re ", "0 - ad ", "0 - - {\"p\":1}"],
        &whole,
    );
    check(&["read"], &["0 a read ", "0 - read {\"p\":1}"], &whole);
    check(
        &["read", "read_file"],
        &["0 a read ", "0 - _file {}"],
        &["a read_file {}"],
    );
}

#[test]
fn same_id_in_every_fragment_is_one_call() {
    let events = ["0 a read {", "0 a - \"p\"", "0 a - :", "0 a - 1}"];
    check(&["read"], &events, &["a read {\"p\":1}"]);
}

#[test]
fn interleaved_fragments_with_the_id_only_first() {
    let events = [
        "0 a read {\"x\"",
        "1 b bash {\"y\"",
        "0 - - :1}",
        "1 - - :2}",
    ];
    check(
        &["read", "bash"],
        &events,
        &["a read {\"x\":1}", "b bash {\"y\":2}"],
    );
}

#[test]
fn several_calls_in_one_event_without_index() {
    let two = ["a read {\"p\":1}", "b read {\"p\":2}"];
    check(
        &["read"],
        &["- a read {\"p\":1} | - b read {\"p\":2}"],
        &two,
    );
    check(
        &["read"],
        &["- a read  | - b read ", "- - - {\"p\":1} | - - - {\"p\":2}"],
        &two,
    );
}

#[test]
fn calls_without_index_and_id() {
    let two = ["call_2 read {\"p\":1}", "call_3 bash {\"p\":2}"];
    check(
        &["read", "bash"],
        &["- - read {\"p\":1} | - - bash {\"p\":2}"],
        &two,
    );
    check(
        &["read", "bash"],
        &["- - read {\"p\":1}", "- - bash {\"p\":2}"],
        &two,
    );
    check(
        &["read", "bash"],
        &["- - read {\"p\"", "- - - :1}", "- - bash {\"p\":2}"],
        &two,
    );
    check(
        &["ls"],
        &["- - ls  | - - ls "],
        &["call_2 ls {}", "call_3 ls {}"],
    );
}

#[test]
fn every_call_with_index_zero() {
    let events = ["0 a read {\"p\":1}", "0 b read {\"p\":2}"];
    check(
        &["read"],
        &events,
        &["a read {\"p\":1}", "b read {\"p\":2}"],
    );
    // A new id in each fragment of one call is not another call.
    check(
        &["read"],
        &["0 a read {\"p\"", "0 b read :1}"],
        &["a read {\"p\":1}"],
    );
}

#[test]
fn ids_become_unique() {
    let events = ["0 a read {}", "1 a read {}", "2 a_2 read {}"];
    let (calls, _) = run(&["read"], &events, Ending::Complete);
    let mut ids: Vec<_> = calls.iter().map(|call| call.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 3);
    assert_eq!(calls[0].id, "a");
}

#[test]
fn malformed_arguments_are_kept_as_text() {
    for text in ["{\"command\":\"x", "\"\"", "[1]", "\"str\"", "{\"a\":1}}"] {
        let event = format!("0 a read {text}");
        check(&["read"], &[&event], &[&format!("a read RAW {text}")]);
    }
    check(&["read"], &["0 a read "], &["a read {}"]);
}

#[test]
fn a_call_cut_off_before_its_arguments_cannot_run() {
    let (calls, _) = run(&["read"], &["0 a read "], Ending::Cut);
    assert_eq!(calls[0].raw_arguments.as_deref(), Some(""));
    let (calls, _) = run(&["read"], &["0 a read {\"p\":1}"], Ending::Cut);
    assert_eq!(calls[0].raw_arguments, None);
}

#[test]
fn every_fragment_yields_a_delta_and_ends_come_last_in_content_order() {
    let mut blocks = Blocks::new(Arc::new([]));
    let mut out = Events::new();
    blocks.text(String::new(), &mut out);
    blocks.text("ok".into(), &mut out);
    blocks.fragment(fragment("0 c1 read "), &mut out);
    blocks.fragment(fragment("0 - - {}"), &mut out);
    blocks.text("!".into(), &mut out);
    blocks.close(Ending::Complete, &|_| false, &mut out);
    blocks.close(Ending::Complete, &|_| false, &mut out);
    let shown: Vec<String> = out.iter().map(name).collect();
    let expected = [
        "text_start 0",
        "text_delta 0",
        "toolcall_start 1",
        "toolcall_delta 1",
        "toolcall_delta 1",
        "text_delta 0",
        "text_end 0",
        "toolcall_end 1",
    ];
    assert_eq!(shown, expected);
}

fn name(event: &StreamEvent) -> String {
    match event {
        StreamEvent::TextStart { index } => format!("text_start {index}"),
        StreamEvent::TextDelta { index, .. } => format!("text_delta {index}"),
        StreamEvent::TextEnd { index, .. } => format!("text_end {index}"),
        StreamEvent::ToolCallStart { index, .. } => format!("toolcall_start {index}"),
        StreamEvent::ToolCallDelta { index, .. } => format!("toolcall_delta {index}"),
        StreamEvent::ToolCallEnd { index, .. } => format!("toolcall_end {index}"),
        other => format!("{other:?}"),
    }
}

#[test]
fn brackets_inside_strings_do_not_count() {
    for (text, closed) in [
        ("", false),
        (" ", false),
        ("{", false),
        ("{}", true),
        (r#"{"a":"}"#, false),
        (r#"{"a":"\"}"}"#, true),
        ("[{}]", true),
    ] {
        let mut balance = Balance::default();
        text.chars()
            .for_each(|c| balance.feed(c.encode_utf8(&mut [0; 4])));
        assert_eq!(balance.closed(), closed, "{text}");
    }
}
