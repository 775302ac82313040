//! Steering, follow-ups and going on.

use std::sync::Arc;

use fluzo_agent::{Agent, Input, QueueMode, RunEnd, RunSpec, StartError};
use fluzo_llm::{AssistantMessage, Content, Message};

use super::{AgentCheck, Factory, Script, Subject, finish, stall};
use crate::{Reply, Switch, context, reply, user};

pub(super) const CHECKS: &[AgentCheck] = &[
    ("steering waits for the turn's end", steering),
    (
        "steering before the prompt is taken in at once",
        steering_before,
    ),
    ("a follow-up waits until the run would end", follow_up),
    ("steering goes before follow-ups", steering_first),
    (
        "queues give one message at a time by default",
        one_at_a_time,
    ),
    ("mode all gives the whole queue", all),
    ("queues can be seen and cleared", cleared),
    (
        "after an abort the queues keep what they have",
        kept_after_abort,
    ),
    (
        "resume after a user message takes no prompt",
        resume_from_user,
    ),
    (
        "resume after a response needs a queued message",
        resume_refused,
    ),
    (
        "resume takes steering without a second poll",
        resume_steering,
    ),
    (
        "resume takes follow-ups when there is no steering",
        resume_follow_up,
    ),
    ("a refused resume keeps the queues", resume_busy_keeps),
];

fn steer(agent: &dyn Agent, text: &str) {
    agent.send(Input::Steer(user(text)));
}

fn follow(agent: &dyn Agent, text: &str) {
    agent.send(Input::FollowUp(user(text)));
}

fn answers<const N: usize>() -> [Reply; N] {
    std::array::from_fn(|_| reply::text(["ok"]))
}

/// What was said: user texts, and `|` for each response.
fn said(messages: &[Arc<Message>]) -> String {
    let one = |message: &Arc<Message>| match &**message {
        Message::User(user) => user.content.text(),
        Message::Assistant(_) => "|".to_owned(),
        other => other.role().to_owned(),
    };
    messages.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// A first response that waits for `switch`, so that the test can act in mid-run.
fn held(switch: &Switch) -> Reply {
    Reply::new().text(["a"]).wait(switch)
}

fn during(subject: &Subject, switch: &Switch, act: impl FnOnce(&dyn Agent)) -> String {
    let mut run = subject.start("P");
    stall(&mut run);
    act(&*subject.agent);
    switch.flip();
    said(&finish(run).messages)
}

fn steering(factory: Factory<'_>) {
    let switch = Switch::new();
    let subject = Subject::new(factory, [held(&switch), reply::text(["b"])]);
    let said = during(&subject, &switch, |agent| steer(agent, "S"));
    assert_eq!(said, "P | S |");
    let expected = [
        "agent_start",
        "turn_start",
        "message_start(user)",
        "message_end(user)",
        "message_start(assistant)",
        "message_end(assistant)",
        "turn_end([])",
        "turn_start",
        "message_start(user)",
        "message_end(user)",
        "message_start(assistant)",
        "message_end(assistant)",
        "turn_end([])",
        "agent_end",
    ];
    assert_eq!(subject.log.frame(), expected);
}

fn steering_before(factory: Factory<'_>) {
    let subject = Subject::new(factory, answers::<1>());
    steer(&*subject.agent, "S");
    let outcome = finish(subject.start("P"));
    assert_eq!(said(&outcome.messages), "P S |");
    let turns = subject.log.names();
    assert_eq!(turns.iter().filter(|name| *name == "turn_start").count(), 1);
}

fn follow_up(factory: Factory<'_>) {
    let switch = Switch::new();
    let subject = Subject::new(factory, [held(&switch), reply::text(["b"])]);
    let said = during(&subject, &switch, |agent| follow(agent, "F"));
    assert_eq!(said, "P | F |");
}

fn steering_first(factory: Factory<'_>) {
    let switch = Switch::new();
    let subject = Subject::new(
        factory,
        [held(&switch), reply::text(["b"]), reply::text(["c"])],
    );
    let said = during(&subject, &switch, |agent| {
        follow(agent, "F");
        steer(agent, "S");
    });
    assert_eq!(said, "P | S | F |");
}

fn one_at_a_time(factory: Factory<'_>) {
    let subject = Subject::new(factory, answers::<4>());
    for text in ["S1", "S2"] {
        steer(&*subject.agent, text);
    }
    for text in ["F1", "F2"] {
        follow(&*subject.agent, text);
    }
    let outcome = finish(subject.start("P"));
    assert_eq!(said(&outcome.messages), "P S1 | S2 | F1 | F2 |");
}

fn all(factory: Factory<'_>) {
    let script = Script {
        replies: answers::<2>().into(),
        steering: QueueMode::All,
        follow_up: QueueMode::All,
    };
    let subject = Subject::of(factory, script);
    for text in ["S1", "S2"] {
        steer(&*subject.agent, text);
    }
    for text in ["F1", "F2"] {
        follow(&*subject.agent, text);
    }
    let outcome = finish(subject.start("P"));
    assert_eq!(said(&outcome.messages), "P S1 S2 | F1 F2 |");
}

fn cleared(factory: Factory<'_>) {
    let subject = Subject::new(factory, answers::<1>());
    let agent = &*subject.agent;
    steer(agent, "S");
    follow(agent, "F");
    let queued = agent.queued();
    assert_eq!(
        (said(&queued.steering), said(&queued.follow_up)),
        ("S".into(), "F".into())
    );
    let cleared = agent.clear_queues();
    assert_eq!(
        (said(&cleared.steering), said(&cleared.follow_up)),
        ("S".into(), "F".into())
    );
    assert!(agent.queued().steering.is_empty() && agent.queued().follow_up.is_empty());
    assert_eq!(said(&finish(subject.start("P")).messages), "P |");
}

fn kept_after_abort(factory: Factory<'_>) {
    let subject = Subject::new(factory, [reply::never_ending(["a"])]);
    let agent = &*subject.agent;
    let mut run = subject.start("P");
    stall(&mut run);
    steer(agent, "S");
    follow(agent, "F");
    agent.cancel();
    assert_eq!(finish(run).end, RunEnd::Aborted);
    let queued = agent.queued();
    assert_eq!(
        (said(&queued.steering), said(&queued.follow_up)),
        ("S".into(), "F".into())
    );
    let run = subject.start("again");
    agent.cancel();
    assert_eq!(said(&finish(run).messages), "again |");
    assert_eq!(said(&agent.queued().steering), "S");
}

fn transcript(ends_in_response: bool) -> RunSpec {
    let mut context = context(Default::default());
    context.messages.push(user("U"));
    if ends_in_response {
        let mut response = AssistantMessage::begin(&context.model, 1);
        response.content = vec![Content::text("done")];
        context
            .messages
            .push(Arc::new(Message::Assistant(response)));
    }
    RunSpec {
        prompt: vec![user("ignored")],
        context,
    }
}

fn resume(subject: &Subject, ends_in_response: bool) -> String {
    match subject.agent.resume(transcript(ends_in_response)) {
        Ok(run) => said(&finish(run).messages),
        Err(error) => panic!("{error}"),
    }
}

fn resume_from_user(factory: Factory<'_>) {
    let subject = Subject::new(factory, answers::<1>());
    assert_eq!(resume(&subject, false), "|");
    let expected = [
        "agent_start",
        "turn_start",
        "message_start(assistant)",
        "message_end(assistant)",
        "turn_end([])",
        "agent_end",
    ];
    assert_eq!(subject.log.frame(), expected);
}

fn resume_refused(factory: Factory<'_>) {
    let subject = Subject::new(factory, answers::<1>());
    let refused = subject.agent.resume(transcript(true)).err();
    assert_eq!(refused, Some(StartError::ContinueFromAssistant));
    let text = refused.map(|error| error.to_string());
    assert_eq!(
        text.as_deref(),
        Some("Cannot continue from message role: assistant")
    );
    assert!(subject.log.names().is_empty());
    assert_eq!(said(&finish(subject.start("P")).messages), "P |");
}

fn resume_steering(factory: Factory<'_>) {
    let subject = Subject::new(factory, answers::<3>());
    for text in ["S1", "S2"] {
        steer(&*subject.agent, text);
    }
    follow(&*subject.agent, "F");
    // With a second poll at once S2 would come before the first response.
    assert_eq!(resume(&subject, true), "S1 | S2 | F |");
}

fn resume_follow_up(factory: Factory<'_>) {
    let subject = Subject::new(factory, answers::<2>());
    for text in ["F1", "F2"] {
        follow(&*subject.agent, text);
    }
    assert_eq!(resume(&subject, true), "F1 | F2 |");
}

fn resume_busy_keeps(factory: Factory<'_>) {
    let subject = Subject::new(factory, [reply::never_ending(["a"])]);
    let mut run = subject.start("P");
    stall(&mut run);
    steer(&*subject.agent, "S");
    let refused = subject.agent.resume(transcript(true)).err();
    assert_eq!(refused, Some(StartError::BusyContinue));
    assert_eq!(said(&subject.agent.queued().steering), "S");
    drop(run);
}
