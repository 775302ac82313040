//! Signals and crashes: what ends, what is left, and that the session goes on.

use std::process::Stdio;

use fluzo_sim::{Reply, RequestExpectation, Simulator, Step};
use serde_json::json;

use crate::support::*;

/// The program in a call that would never end, and the pipe that the call holds open.
struct Stuck {
    simulator: Simulator,
    stage: Stage,
    fifo: Fifo,
}

impl Stuck {
    /// Answers after the call; with `steps` beyond what is played when the call is ended.
    fn new(next: impl IntoIterator<Item = Step>) -> Self {
        let stage = Stage::new();
        let fifo = Fifo::new(&stage);
        let script = scenario().step(Reply::calls([bash("c1", &fifo.stay())]));
        let simulator = simulator(next.into_iter().fold(script, fluzo_sim::Scenario::step));
        stage.models(&json!({"providers": {"fake": fake(&simulator.base_url())}}));
        Self {
            simulator,
            stage,
            fifo,
        }
    }

    fn start(&self, arguments: &[&str]) -> Live {
        let command = self.stage.command(&[&["pi"], arguments].concat());
        Live::start(command, Stdio::piped())
    }

    /// The session is whole: every call has a result, and nothing is damaged.
    fn assert_whole(&self) {
        let entries = entries(&self.stage.session());
        let kinds = kinds(&entries);
        assert_eq!(kinds[3..6], ["user", "assistant", "toolResult"]);
        assert_eq!(entries[5]["message"]["toolCallId"], "c1");
        assert_eq!(entries[5]["message"]["isError"], true);
    }
}

#[test]
fn a_signal_ends_call_run_and_program() {
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let stuck = Stuck::new([]);
        let mut live = stuck.start(&["-p", "hi", "never asked"]);
        live.close_input();
        let (pipe, _) = stuck.fifo.begun();
        live.signal(signal);
        gone(pipe);
        let (ended, out, _) = live.end();
        assert_eq!((ended, out.len()), (code, 0), "{signal}");
        stuck.assert_whole();
        approve(stuck.simulator);
    }
}

#[test]
fn an_rpc_server_that_waits_for_commands_ends_on_a_signal() {
    let simulator = simulator(scenario());
    let stage = Stage::with_fake(&simulator);
    for (signal, code) in [("TERM", 143), ("HUP", 129), ("INT", 130)] {
        let mut live = Live::start(stage.command(&["pi", "--mode", "rpc"]), Stdio::piped());
        live.command(&json!({"type": "get_state"}));
        live.answer("get_state");
        live.signal(signal);
        assert!(
            live.next().is_none(),
            "standard output ends while input is open"
        );
        assert_eq!(live.end().0, code);
    }
    approve(simulator);
}

/// More than a pipe holds, and a reader that takes the first of it and then stands still.
#[test]
fn a_reader_that_stands_still_does_not_hold_the_end() {
    let text = "many words\n".repeat(20_000);
    for (arguments, signal, code) in [
        (&["-p", "hi"][..], "TERM", 143),
        (&["--mode", "json", "hi"], "INT", 130),
    ] {
        let simulator = simulator(scenario().step(Reply::text(&text)));
        let stage = Stage::with_fake(&simulator);
        let command = stage.command(&[&["pi"], arguments].concat());
        let mut live = Live::start(command, Stdio::null());
        if arguments[0] == "-p" {
            live.first_byte();
        } else {
            live.until(|line| line["type"] == "message_update");
        }
        live.signal(signal);
        assert_eq!(live.end_unread(), code, "{arguments:?}");
        approve(simulator);
    }
}

#[test]
fn an_interrupted_session_goes_on() {
    let expect = RequestExpectation {
        last_user_contains: Some("again".into()),
        ..RequestExpectation::default()
    };
    let stuck = Stuck::new([Step::new(Reply::text("done")).expecting(expect)]);
    let mut live = stuck.start(&["-p", "hi"]);
    live.close_input();
    let (pipe, _) = stuck.fifo.begun();
    live.signal("INT");
    gone(pipe);
    assert_eq!(live.end().0, 130);
    stuck.stage.pi(&["-c", "-p", "again"]).is(0, "done\n", "");
    approve(stuck.simulator);
}

/// The call never got its result; the strict server accepts what is made of it.
#[test]
fn after_a_kill_the_call_is_told_to_be_interrupted() {
    let stuck = Stuck::new([Step::new(Reply::text("done"))]);
    let mut live = stuck.start(&["-p", "hi"]);
    live.close_input();
    let (pipe, pid) = stuck.fifo.begun();
    live.signal("KILL");
    assert_eq!(live.end().0, -9);
    // Nobody was left to end the command.
    end_tree(&pid.to_string());
    gone(pipe);
    assert_eq!(
        kinds(&entries(&stuck.stage.session()))[3..],
        ["user", "assistant"]
    );
    let ran = stuck.stage.pi(&["-c", "-p", "again"]);
    assert_eq!((ran.code(), ran.out().as_str()), (0, "done\n"));
    stuck.assert_whole();
    let result = entries(&stuck.stage.session())[5]["message"]["content"].to_string();
    assert!(result.contains("interrupted, outcome unknown"), "{result}");
    let messages = stuck.simulator.requests()[1].body["messages"].to_string();
    assert!(
        messages.contains("interrupted, outcome unknown"),
        "{messages}"
    );
    approve(stuck.simulator);
}

/// It is left alone and named; it does not hold the call or the program.
#[test]
fn a_background_process_is_named_when_the_program_ends() {
    let stage = Stage::new();
    let fifo = Fifo::new(&stage);
    let command = format!("( {} ) >/dev/null 2>&1 & echo started", fifo.stay());
    let script = scenario()
        .step(Reply::calls([bash("c1", &command)]))
        .step(Reply::text("done"));
    let simulator = simulator(script);
    stage.models(&json!({"providers": {"fake": fake(&simulator.base_url())}}));
    let mut live = Live::start(
        stage.command(&["pi", "--mode", "json", "hi"]),
        Stdio::null(),
    );
    let (pipe, _) = fifo.begun();
    let lines = live.until(|line| line["type"] == "agent_end");
    let (code, _, err) = live.end();
    assert_eq!(code, 0, "{lines:#?}");
    let words: Vec<&str> = err.trim().split(' ').collect();
    let ["Process", pid, "is", "still", "running"] = words[..] else {
        panic!("{err}")
    };
    let result = simulator.requests()[1].body["messages"].to_string();
    let line = format!("[Background process {pid} still running]");
    assert!(result.contains(&line), "{result}");
    end_tree(pid);
    gone(pipe);
    approve(simulator);
}

/// Ends a process and its children, by their ids.
fn end_tree(pid: &str) {
    let children = std::process::Command::new("ps")
        .args(["-o", "pid=", "--ppid", pid])
        .output()
        .unwrap();
    let children = String::from_utf8(children.stdout).unwrap();
    for child in children.split_whitespace().chain([pid]) {
        signal(child.parse().unwrap(), "KILL");
    }
}
