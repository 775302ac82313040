//! Whatever happens, in whatever order: the journal holds a valid history.

use fluzo_agent::{Agent, Input, Run, RunEnd, RunOutcome};
use fluzo_llm::{Phase, StopReason, StreamError, StreamErrorKind, Transcript};
use fluzo_testkit::{FakeTool, Reply, assert_valid_history, check_history, poll_once, user};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::stage::{Stage, tool};

const TOOLS: [&str; 7] = ["fine", "fails", "slow", "hangs", "alone", "bye", "missing"];

#[derive(Debug, Clone)]
struct Response {
    calls: Vec<(usize, bool)>,
    ending: Ends,
    pauses: bool,
}

#[derive(Debug, Clone, Copy)]
enum Ends {
    Done,
    Length,
    Failed,
    Cut,
    UntilAbort,
    Forever,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Nothing,
    Abort(usize),
    Drop(usize),
    JournalFails(usize),
    Halt(usize),
}

fn response() -> impl Strategy<Value = Response> {
    let ending = prop_oneof![
        8 => Just(Ends::Done),
        1 => Just(Ends::Length),
        1 => Just(Ends::Failed),
        1 => Just(Ends::Cut),
        1 => Just(Ends::UntilAbort),
        1 => Just(Ends::Forever),
    ];
    // A call is of a tool, with whole or broken arguments.
    let calls = vec((0..TOOLS.len(), prop::bool::weighted(0.9)), 0..4);
    (calls, ending, any::<bool>()).prop_map(|(calls, ending, pauses)| Response {
        calls,
        ending,
        pauses,
    })
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        Just(Fate::Nothing),
        (0_usize..12).prop_map(Fate::Abort),
        (0_usize..12).prop_map(Fate::Drop),
        (0_usize..12).prop_map(Fate::JournalFails),
        (0_usize..6).prop_map(Fate::Halt),
    ]
}

fn reply(turn: usize, response: &Response) -> Reply {
    let mut reply = Reply::new().text(["thinking aloud"]);
    for (at, (which, whole)) in response.calls.iter().enumerate() {
        let text = if *whole { r#"{"a":1}"# } else { r#"{"a":"# };
        reply = reply.call(&format!("t{turn}c{at}"), TOOLS[*which], text);
        if response.pauses {
            reply = reply.pause();
        }
    }
    match response.ending {
        Ends::Done => reply,
        Ends::Length => reply.done(StopReason::Length),
        Ends::Failed => reply.fail(StreamError::new(StreamErrorKind::Transient, "lost")),
        Ends::Cut => reply.cut(),
        Ends::UntilAbort => reply.until_abort(),
        Ends::Forever => reply.forever(),
    }
}

fn stage(responses: &[Response]) -> Stage {
    let replies = responses
        .iter()
        .enumerate()
        .map(|(turn, response)| reply(turn, response));
    // However many turns the queues add, the model has something to say.
    let last = std::iter::repeat_with(|| fluzo_testkit::reply::text(["ok"])).take(8);
    let fakes = [
        FakeTool::new("fine"),
        FakeTool::new("fails").fails("no"),
        FakeTool::new("slow").pause().update("half").pause(),
        FakeTool::new("hangs").until_abort(),
        FakeTool::new("alone").sequential().pause(),
        FakeTool::new("bye").terminates("bye"),
    ];
    Stage::new(replies.chain(last), fakes.map(tool))
}

/// Polls a bounded number of times, does what the fate says at its poll, and aborts in
/// the end whatever still hangs. `None` when the run was dropped.
fn drive(stage: &Stage, mut run: Run, fate: Fate) -> Option<RunOutcome> {
    for poll in 0..200 {
        if fate == Fate::Drop(poll) {
            return None;
        }
        if fate == Fate::Abort(poll) || poll == 100 {
            stage.agent.cancel();
        }
        if let std::task::Poll::Ready(outcome) = poll_once(&mut run) {
            return Some(outcome);
        }
    }
    panic!("the run neither ends nor can be aborted");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_course_ends_in_a_valid_history(
        responses in vec(response(), 1..5),
        fate in fate(),
        steers in 0_usize..3,
        follow_ups in 0_usize..3,
    ) {
        let stage = stage(&responses);
        match fate {
            Fate::JournalFails(at) => stage.world.journal.fail_at(at),
            Fate::Halt(at) => {
                let now = fluzo_testkit::Switch::new();
                now.flip();
                let halt = fluzo_agent::Halt::Stopped("stopped".into());
                stage.world.tools.halt(&format!("t{}c{}", at / 3, at % 3), &now, halt);
            }
            _ => {}
        }
        (0..steers).for_each(|n| stage.agent.send(Input::Steer(user(&format!("S{n}")))));
        (0..follow_ups).for_each(|n| stage.agent.send(Input::FollowUp(user(&format!("F{n}")))));
        let outcome = drive(&stage, stage.start(), fate);
        let stored = stage.world.journal.messages();
        match &outcome {
            // What was cut short may lack results, but no result lacks its call, and the
            // next request is whole all the same.
            None | Some(RunOutcome { end: RunEnd::Halted(_), .. }) => {
                if let Err(wrong) = check_history(&stored) {
                    prop_assert!(wrong.ends_with("has no result"), "{wrong}");
                }
            }
            Some(outcome) => {
                assert_valid_history(&stored);
                prop_assert_eq!(&outcome.messages, &stored);
                let names = stage.log.names();
                prop_assert_eq!(names.last().map(String::as_str), Some("agent_end"));
                let turns = |what: &str| names.iter().filter(|name| name.starts_with(what)).count();
                prop_assert_eq!(turns("turn_start"), turns("turn_end"));
                prop_assert_eq!(turns("tool_execution_start"), turns("tool_execution_end"));
                prop_assert_eq!(turns("message_start"), turns("message_end"));
            }
        }
        let transcript = Transcript::from_context(&stored);
        let users = stored.iter().filter(|message| message.role() == "user").count();
        prop_assert!(transcript.len() >= users);
        stage.agent.state().read(|state| {
            assert_eq!(state.phase(), Phase::Idle);
            assert!(state.pending_tool_calls.is_empty() && state.streaming_message.is_none());
        });
        // No call was dispatched twice.
        let mut dispatched = stage.world.tools.dispatched();
        let count = dispatched.len();
        dispatched.sort();
        dispatched.dedup();
        prop_assert_eq!(dispatched.len(), count);
    }
}
