//! JSON mode.

use fluzo_llm::StopReason;
use fluzo_modes::json;

use crate::endpoint::{Act, Gone, Played, Sheet, block_on, prompts};

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
}

#[test]
fn a_reader_that_is_gone_aborts_the_run() {
    let endpoint = Played::new([Act::UntilAborted]);
    assert_eq!(
        block_on(json(endpoint, prompts(&["x"]), Gone, &mut Sheet::default())),
        1
    );
}
