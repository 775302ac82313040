//! JSON mode.

use fluzo_llm::{Content, StopReason, ToolOutput};
use fluzo_modes::{EventPump, json};
use fluzo_protocol::{Event, MergingQueue};

use crate::endpoint::{Act, Gone, Played, Sheet, Stopped, block_on, prompts};

fn check(acts: &[Act], code: i32, names: &[&str], err: &str) {
    let endpoint = Played::new(acts.iter().cloned());
    let texts: Vec<&str> = acts.iter().map(|_| "x").collect();
    let (sheet, mut errors) = (Sheet::default(), Sheet::default());
    let ended = block_on(json(endpoint, prompts(&texts), sheet.clone(), &mut errors));
    let name = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        value["type"].as_str().unwrap().to_owned()
    };
    let lines: Vec<String> = sheet.text().lines().map(name).collect();
    assert_eq!(
        (ended, lines),
        (code, names.iter().map(|n| (*n).to_owned()).collect())
    );
    assert_eq!(errors.text(), format!("Warning: careful\n{err}"));
}

#[test]
fn the_header_then_one_object_a_line() {
    let response = ["agent_start", "message_start", "message_end", "agent_end"];
    let names = |times: usize| [&["session"][..], &response.repeat(times)].concat();
    check(&[Act::Says(&[])], 0, &names(1), "");
    check(&[Act::Says(&[]), Act::Says(&[])], 0, &names(2), "");
    check(
        &[Act::Fails(StopReason::Error, Some("e"))],
        1,
        &names(1),
        "",
    );
    check(&[Act::Refused("no key")], 1, &names(0), "Error: no key\n");
    check(
        &[Act::Stopped("x", "the run was stopped")],
        1,
        &[
            &names(1)[..3],
            &["message_update"; 3],
            &["message_end", "agent_end"],
        ]
        .concat(),
        "Error: the run was stopped\n",
    );
}

#[test]
fn a_reader_that_is_gone_aborts_the_run() {
    let endpoint = Played::new([Act::UntilAborted]);
    assert_eq!(
        block_on(json(endpoint, prompts(&["x"]), Gone, &mut Sheet::default())),
        1
    );
}

/// A reader that has stopped, and what reaches it once it goes on.
#[test]
fn behind_a_stopped_reader_updates_of_one_call_are_one_and_lines_keep_their_place() {
    let sheet = Sheet::default();
    let (gate, wait) = std::sync::mpsc::channel();
    let out = Stopped {
        wait: Some(wait),
        sheet: sheet.clone(),
    };
    let whole = block_on(async {
        let pump = EventPump::start(out, || {});
        let sink = pump.sink();
        for n in 0..1000 {
            sink.on_event(&update(&n.to_string())).await;
        }
        pump.line("{\"type\":\"answer\"}".into());
        sink.on_event(&Event::TurnStart).await;
        gate.send(()).unwrap();
        pump.finish().await
    });
    assert!(whole);
    let text = sheet.text();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() <= MergingQueue::BEHIND + 4, "{}", lines.len());
    let [.., last, answer, turn] = lines[..] else {
        panic!("{text}")
    };
    assert!(last.contains("999"), "{last}");
    assert_eq!(
        (answer, turn),
        (r#"{"type":"answer"}"#, r#"{"type":"turn_start"}"#)
    );
}

fn update(text: &str) -> Event {
    Event::ToolExecutionUpdate {
        call_id: "c1".into(),
        tool_name: "bash".into(),
        args: Default::default(),
        partial: ToolOutput {
            content: vec![Content::text(text)],
            ..ToolOutput::default()
        },
    }
}
