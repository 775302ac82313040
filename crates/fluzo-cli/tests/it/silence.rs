//! The program talks to what the user configured and to nothing else.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use fluzo_sim::{Reply, Simulator};

use crate::authority::Authority;
use crate::credentials::{expecting, signed_in};
use crate::recorder::{Recording, follow, start};
use crate::support::{Stage, approve, bash, scenario, simulator};

/// Two turns with a command between them.
fn conversation() -> Simulator {
    let first = Reply::calls([bash("c1", "true")]);
    simulator(scenario().step(first).step(Reply::text("done")))
}

fn endpoint(simulator: &Simulator) -> SocketAddr {
    let url = simulator.base_url();
    let rest = url.strip_prefix("http://").unwrap();
    rest.split('/').next().unwrap().parse().unwrap()
}

/// Runs a program to its end; returns what it connected to and its standard output.
#[expect(clippy::zombie_processes, reason = "following it waits for it")]
fn record(mut command: Command) -> (Recording, String) {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = start(&mut command);
    let mut out = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        out.read_to_string(&mut text).unwrap();
        text
    });
    let recording = follow(&child);
    (recording, reader.join().unwrap())
}

#[track_caller]
fn only(recording: &Recording, endpoint: SocketAddr) {
    assert_eq!(recording.code, 0, "{recording:?}");
    assert!(!recording.addresses.is_empty(), "{recording:?}");
    let elsewhere: Vec<_> = recording
        .addresses
        .iter()
        .filter(|address| **address != endpoint)
        .collect();
    assert!(elsewhere.is_empty(), "{recording:?}");
    assert!(recording.others.is_empty(), "{recording:?}");
}

#[test]
fn the_recorder_sees_what_a_child_of_the_program_sends() {
    let mut command = Command::new("bash");
    command.args(["-c", "true; (echo x > /dev/udp/127.0.0.1/9)"]);
    let (recording, _) = record(command);
    let expected: SocketAddr = "127.0.0.1:9".parse().unwrap();
    assert_eq!(recording.addresses, [expected], "{recording:?}");
}

#[test]
fn print_and_json_mode_talk_to_the_configured_endpoint_only() {
    for arguments in [&["pi", "-p", "go"][..], &["pi", "--mode", "json", "go"][..]] {
        let simulator = conversation();
        let stage = Stage::with_fake(&simulator);
        let (recording, out) = record(stage.command(arguments));
        assert!(out.contains("done"), "{out}");
        only(&recording, endpoint(&simulator));
        approve(simulator);
    }
}

#[test]
#[expect(clippy::zombie_processes, reason = "following it waits for it")]
fn rpc_mode_talks_to_the_configured_endpoint_only() {
    let simulator = conversation();
    let stage = Stage::with_fake(&simulator);
    let mut command = stage.command(&["pi", "--mode", "rpc"]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = start(&mut command);
    let mut input = child.stdin.take().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let front_end = std::thread::spawn(move || {
        input
            .write_all(b"{\"type\":\"prompt\",\"message\":\"go\"}\n")
            .unwrap();
        // Input stays open until the run has ended.
        out.lines()
            .map(Result::unwrap)
            .find(|line| line.contains("\"type\":\"agent_end\""))
            .is_some()
    });
    let recording = follow(&child);
    assert!(front_end.join().unwrap());
    only(&recording, endpoint(&simulator));
    approve(simulator);
}

#[test]
fn a_renewal_talks_to_the_server_of_the_sign_in_besides_and_to_nobody_else() {
    let authority = Authority::start();
    let simulator = expecting("at-1", 1);
    let stage = Stage::with_fake(&simulator);
    signed_in(&stage, &authority);
    let (mut recording, out) = record(stage.command(&["pi", "-p", "go"]));
    assert_eq!(out, "ok\n");
    assert_eq!(authority.renewals(), 1);
    let url = authority.url("/");
    let signing: SocketAddr = url.split('/').nth(2).unwrap().parse().unwrap();
    assert!(recording.addresses.contains(&signing), "{recording:?}");
    recording.addresses.retain(|address| *address != signing);
    only(&recording, endpoint(&simulator));
    approve(simulator);
}

#[test]
fn what_needs_no_model_talks_to_nobody() {
    let simulator = simulator(scenario());
    let stage = Stage::with_fake(&simulator);
    for arguments in [
        &["--version"][..],
        &["pi", "--version"][..],
        &["pi", "--help"][..],
        &["pi", "--list-models"][..],
        &["pi", "--print-system-prompt"][..],
    ] {
        let (recording, out) = record(stage.command(arguments));
        assert_eq!(recording.code, 0, "{arguments:?}");
        assert!(!out.is_empty(), "{arguments:?}");
        assert!(
            recording.addresses.is_empty(),
            "{arguments:?} {recording:?}"
        );
        assert!(recording.others.is_empty(), "{arguments:?} {recording:?}");
    }
}
