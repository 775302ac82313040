//! Print mode.

use fluzo_llm::StopReason;
use fluzo_modes::{PrintOutput, print};

use crate::endpoint::{Act, Gone, Played, Sheet, Stopped, block_on, prompts};

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
    check(
        &[Act::Stopped("a", "the run was stopped\nhint: b")],
        false,
        1,
        "",
        "the run was stopped\nhint: b\n",
    );
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

#[test]
fn without_a_reader_no_further_prompt_is_asked_in_a_terminal() {
    let output = PrintOutput {
        out: Gone,
        is_terminal: true,
    };
    let endpoint = Played::new([Act::SaysUntilAborted("a"), Act::Says(&["never"])]);
    let served = std::sync::Arc::clone(&endpoint);
    let code = block_on(print(
        served,
        prompts(&["x", "y"]),
        output,
        &mut Sheet::default(),
    ));
    assert_eq!(code, 1);
    assert_eq!(*endpoint.prompts.lock().unwrap(), ["x"]);
}

/// The run ends while the reader stands still: nothing of it waits for the reader.
#[test]
fn a_reader_that_stands_still_does_not_hold_a_run() {
    for is_terminal in [true, false] {
        let sheet = Sheet::default();
        let (gate, wait) = std::sync::mpsc::channel();
        let out = Stopped {
            wait: Some(wait),
            sheet: sheet.clone(),
        };
        let endpoint = Played::new([Act::Says(&["a"]), Act::Says(&["b"])]);
        let served = std::sync::Arc::clone(&endpoint);
        let output = PrintOutput { out, is_terminal };
        let mut errors = Sheet::default();
        let code = block_on(async {
            let mut work = std::pin::pin!(print(served, prompts(&["x", "y"]), output, &mut errors));
            assert!(futures_util::poll!(work.as_mut()).is_pending());
            assert_eq!(endpoint.prompts.lock().unwrap().len(), 2);
            gate.send(()).unwrap();
            work.await
        });
        let text = if is_terminal { "a\nb\n" } else { "b\n" };
        assert_eq!((code, sheet.text().as_str()), (0, text));
    }
}
