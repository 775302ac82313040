//! Steering and follow-ups around tools.

use fluzo_agent::{Agent, AgentOptions, Input, NoHooks, QueueMode};
use fluzo_testkit::polling::poll_until_stalled;
use fluzo_testkit::{FakeTool, Reply, Switch, World, poll_to_end, reply, spec, tools, user};
use serde_json::json;

use crate::stage::{Stage, said, tool};

/// What is said when `inputs` come while a tool runs; each capital letter in
/// `S1 F1` names a queue.
fn during_tool(inputs: &str, mode: QueueMode, answers: usize) -> String {
    let go = Switch::new();
    let slow = tool(FakeTool::new("slow").wait(&go));
    let first = reply::calls([("c1", "slow", json!({}))]);
    let rest = std::iter::repeat_with(|| reply::text(["ok"])).take(answers);
    let options = AgentOptions {
        steering: mode,
        follow_up: mode,
        ..AgentOptions::default()
    };
    let world = World::new(std::iter::once(first).chain(rest));
    let stage = Stage::with(world, NoHooks, options, [slow]);
    let mut run = stage.start();
    assert!(poll_until_stalled(&mut run).is_pending());
    for text in inputs.split_whitespace() {
        let message = user(text);
        stage.agent.send(match text.starts_with('S') {
            true => Input::Steer(message),
            false => Input::FollowUp(message),
        });
    }
    go.flip();
    let outcome = poll_to_end(run);
    assert_eq!(stage.world.model.left(), 0, "{inputs}");
    said(&outcome.messages)
}

#[test]
fn inputs_during_a_tool() {
    use QueueMode::{All, OneAtATime};
    let rows = [
        ("", OneAtATime, 1, "hi | =c1 |"),
        ("S1", OneAtATime, 1, "hi | =c1 S1 |"),
        ("S1 S2", OneAtATime, 2, "hi | =c1 S1 | S2 |"),
        ("S1 S2", All, 1, "hi | =c1 S1 S2 |"),
        ("F1", OneAtATime, 2, "hi | =c1 | F1 |"),
        ("F1 F2", OneAtATime, 3, "hi | =c1 | F1 | F2 |"),
        ("F1 F2", All, 2, "hi | =c1 | F1 F2 |"),
        ("F1 S1", OneAtATime, 2, "hi | =c1 S1 | F1 |"),
    ];
    for (inputs, mode, answers, expected) in rows {
        assert_eq!(
            during_tool(inputs, mode, answers),
            expected,
            "{inputs} {mode:?}"
        );
    }
}

#[test]
fn steering_after_a_batch_that_terminates_goes_on() {
    let go = Switch::new();
    let bye = tool(FakeTool::new("bye").wait(&go).terminates("bye"));
    let stage = Stage::new(
        [
            reply::calls([("c1", "bye", json!({}))]),
            reply::text(["ok"]),
        ],
        [bye],
    );
    let mut run = stage.start();
    assert!(poll_until_stalled(&mut run).is_pending());
    stage.agent.send(Input::Steer(user("S")));
    go.flip();
    assert_eq!(said(&poll_to_end(run).messages), "hi | =c1 S |");
}

#[test]
fn every_turn_after_the_first_opens_with_turn_start() {
    let replies = [
        reply::calls([("c1", "a", json!({}))]),
        reply::calls([("c2", "a", json!({}))]),
        reply::text(["ok"]),
    ];
    let stage = Stage::new(replies, [tool(FakeTool::new("a"))]);
    stage.agent.send(Input::FollowUp(user("F")));
    stage.world.model.push(reply::text(["ok"]));
    stage.run();
    let turns = stage.events("turn_");
    let expected = [
        "turn_end([c1])",
        "turn_end([c2])",
        "turn_end([])",
        "turn_end([])",
    ];
    let expected: Vec<_> = expected
        .iter()
        .flat_map(|end| ["turn_start", end])
        .collect();
    assert_eq!(turns, expected);
}

#[test]
fn injected_messages_reach_the_next_request_and_the_end_of_the_run() {
    let stage = Stage::new([Reply::new().text(["a"]), reply::text(["b"])], []);
    stage.agent.send(Input::FollowUp(user("F")));
    let outcome = stage.run();
    assert_eq!(stage.world.model.requests()[1].transcript.len(), 3);
    let end = stage.log.seen().pop().unwrap().event;
    let fluzo_llm::AgentEvent::AgentEnd { messages } = end else {
        panic!("the run ends");
    };
    assert_eq!(said(&messages), "hi | F |");
    assert_eq!(messages, outcome.messages);
}

#[test]
fn continue_after_a_tool_result_sends_what_is_there() {
    let stage = Stage::new(
        [reply::calls([("c1", "a", json!({}))]), reply::text(["x"])],
        [tool(FakeTool::new("a"))],
    );
    let mut messages = stage.run().messages;
    messages.pop();
    stage.log.clear();
    stage.world.model.push(reply::text(["again"]));
    let mut spec = fluzo_testkit::spec("ignored", stage.tools.clone());
    spec.context.messages = messages;
    let run = stage.agent.resume(spec).unwrap();
    assert_eq!(said(&poll_to_end(run).messages), "|");
    assert_eq!(stage.world.model.requests()[2].transcript.len(), 3);
    let frame = [
        "agent_start",
        "turn_start",
        "message_start(assistant)",
        "message_end(assistant)",
        "turn_end([])",
        "agent_end",
    ];
    assert_eq!(stage.log.frame(), frame);
}

/// A context that ends in a response, so that only queued messages can go on from it.
fn answered(world: &World) -> fluzo_agent::RunSpec {
    let agent = world.native();
    poll_to_end(agent.start(spec("go", tools([]))).unwrap());
    let mut next = spec("", tools([]));
    next.prompt.clear();
    next.context.messages = world.journal.messages();
    next
}

#[test]
fn what_a_resumed_run_took_goes_back_when_it_is_dropped_before_its_first_poll() {
    let world = World::new([reply::text(["a"])]);
    let next = answered(&world);
    let agent = world.native();
    agent.send(Input::FollowUp(user("later")));
    drop(agent.resume(next.clone()).unwrap());
    assert_eq!(agent.queued().follow_up.len(), 1);
    agent.send(Input::Steer(user("now")));
    drop(agent.resume(next).unwrap());
    assert_eq!(
        (
            agent.queued().steering.len(),
            agent.queued().follow_up.len()
        ),
        (1, 1)
    );
}

#[test]
fn a_queued_message_that_cannot_be_stored_goes_back_in_front() {
    let world = World::new([reply::text(["a"])]);
    let agent = world.native_with(
        NoHooks,
        AgentOptions {
            follow_up: QueueMode::All,
            ..AgentOptions::default()
        },
    );
    for message in ["one", "two"] {
        agent.send(Input::FollowUp(user(message)));
    }
    // The prompt, the response and the first follow-up are stored.
    world.journal.fail_at(3);
    poll_to_end(agent.start(spec("go", tools([]))).unwrap());
    let left: Vec<String> = agent
        .queued()
        .follow_up
        .iter()
        .filter_map(|message| match &**message {
            fluzo_llm::Message::User(user) => Some(user.content.text()),
            _ => None,
        })
        .collect();
    assert_eq!(left, ["two"]);
}
