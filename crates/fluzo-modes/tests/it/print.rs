//! Print mode.

use fluzo_llm::StopReason;
use fluzo_modes::{PrintOutput, print};

use crate::endpoint::{Act, Gone, Played, Sheet, block_on, prompts};

const WARNING: &str = "Warning: careful\n";

fn check(acts: &[Act], is_terminal: bool, code: i32, out: &str, err: &str) {
    let endpoint = Played::new(acts.iter().cloned());
    let texts: Vec<&str> = acts.iter().map(|_| "x").collect();
    let (sheet, mut errors) = (Sheet::default(), Sheet::default());
    let output = PrintOutput {
        out: sheet.clone(),
        is_terminal,
    };
    let ended = block_on(print(endpoint, prompts(&texts), output, &mut errors));
    assert_eq!(
        (ended, sheet.text().as_str(), errors.text().as_str()),
        (code, out, format!("{WARNING}{err}").as_str())
    );
}

#[test]
fn the_text_blocks_of_the_last_response_each_on_its_line() {
    check(&[Act::Says(&["a", "b"])], false, 0, "a\nb\n", "");
    check(&[Act::Says(&["a"]), Act::Says(&["b"])], false, 0, "b\n", "");
    check(&[Act::Says(&[])], false, 0, "", "");
    check(&[], false, 0, "", "");
}

#[test]
fn why_a_response_failed_is_on_standard_error() {
    let error = |text| [Act::Fails(StopReason::Error, text)];
    check(
        &error(Some("500 broken\u{1b}[2J")),
        false,
        1,
        "",
        "500 broken\n",
    );
    check(&error(None), false, 1, "", "Request error\n");
    check(
        &[Act::Fails(StopReason::Aborted, None)],
        false,
        1,
        "",
        "Request aborted\n",
    );
    check(&[Act::Refused("no key")], false, 1, "", "Error: no key\n");
}

#[test]
fn a_terminal_sees_text_as_it_comes_and_no_control_characters() {
    check(&[Act::Says(&["a\u{1b}[31m", "b"])], true, 0, "a\nb\n", "");
}

#[test]
fn a_reader_that_is_gone_is_a_failure() {
    let output = PrintOutput {
        out: Gone,
        is_terminal: false,
    };
    let endpoint = Played::new([Act::Says(&["a"])]);
    assert_eq!(
        block_on(print(
            endpoint,
            prompts(&["x"]),
            output,
            &mut Sheet::default()
        )),
        1
    );
}
