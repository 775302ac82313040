//! RPC mode.

use fluzo_modes::rpc;
use tokio::io::{AsyncWriteExt, BufReader};

use crate::endpoint::{Act, Gone, Played, Sheet, block_on};

/// Serves `pieces`, one write each, to the end of input; returns the lines.
fn serve(acts: impl IntoIterator<Item = Act>, pieces: &[&str]) -> Vec<String> {
    serve_telling(acts, pieces).0
}

/// The same, and what was written to standard error.
fn serve_telling(acts: impl IntoIterator<Item = Act>, pieces: &[&str]) -> (Vec<String>, String) {
    let mut errors = Sheet::default();
    let endpoint = Played::new(acts);
    let sheet = Sheet::default();
    let code = block_on(async {
        let (mut ours, theirs) = tokio::io::duplex(1);
        let write = async {
            for piece in pieces {
                ours.write_all(piece.as_bytes()).await.unwrap();
            }
            drop(ours);
        };
        let serve = rpc(endpoint, BufReader::new(theirs), sheet.clone(), &mut errors);
        tokio::join!(serve, write).0
    });
    assert_eq!(code, 0);
    let lines = sheet.text().lines().map(str::to_owned).collect();
    (lines, errors.text())
}

const STATE: &str =
    r#"{"type":"response","command":"get_state","success":true,"data":"get_state"}"#;

#[test]
fn a_line_ends_with_lf_or_the_end_of_input() {
    let command = r#"{"type":"get_state"}"#;
    let rows: [(&[&str], usize); 5] = [
        (&[command, "\n"], 1),
        (&[command, "\r\n"], 1),
        (&[command], 1),
        (&[command, "\n", command], 2),
        (&["\n", " \n"], 0),
    ];
    for (pieces, answers) in rows {
        assert_eq!(serve([], pieces), vec![STATE; answers], "{pieces:?}");
    }
}

#[test]
fn the_end_of_input_aborts_what_runs() {
    let lines = serve(
        [Act::UntilAborted],
        &[r#"{"id":1,"type":"prompt","message":"x"}"#, "\n"],
    );
    assert_eq!(
        lines[0],
        r#"{"id":1,"type":"response","command":"prompt","success":true}"#
    );
    assert!(
        lines.last().unwrap().starts_with(r#"{"type":"agent_end""#),
        "{lines:?}"
    );
}

#[test]
fn bytes_that_are_no_text_are_answered() {
    let lines = serve([], &["\u{fffd}\n"]);
    assert!(
        lines[0].starts_with(r#"{"type":"response","command":"parse","success":false"#),
        "{lines:?}"
    );
}

/// Input stays open: what ends the mode is that nobody reads.
#[test]
fn without_a_reader_no_further_command_is_taken() {
    let endpoint = Played::new([Act::UntilAborted, Act::Says(&["never"])]);
    let code = block_on(async {
        let (mut ours, theirs) = tokio::io::duplex(1024);
        let line = b"{\"type\":\"prompt\",\"message\":\"x\"}\n";
        ours.write_all(line).await.unwrap();
        let mut errors = Sheet::default();
        let served = std::sync::Arc::clone(&endpoint);
        let code = rpc(served, BufReader::new(theirs), Gone, &mut errors).await;
        assert!(ours.write_all(line).await.is_err(), "the input is let go");
        code
    });
    assert_eq!(code, 1);
    assert_eq!(*endpoint.prompts.lock().unwrap(), ["x"]);
}

#[test]
fn why_a_run_was_stopped_is_on_standard_error() {
    let prompt = "{\"type\":\"prompt\",\"message\":\"x\"}\n";
    let (lines, errors) = serve_telling(
        [Act::Stopped("a", "the run was stopped\u{1b}[2J")],
        &[prompt],
    );
    assert!(lines.last().unwrap().contains("agent_end"), "{lines:?}");
    assert_eq!(errors, "Warning: careful\nError: the run was stopped\n");
}
