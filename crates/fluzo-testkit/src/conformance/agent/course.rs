//! Start, course and end of runs.

use std::sync::{Arc, Mutex, PoisonError};

use fluzo_agent::{Listener, RunEnd, StartError};
use fluzo_llm::{AgentEvent, BoxFuture, Phase, StateCell, StopReason, StreamErrorKind};

use super::{AgentCheck, Factory, Subject, finish, stall};
use crate::polling::poll_until_stalled;
use crate::{Switch, assert_valid_history, context, name, poll_once, poll_to_end, reply, spec};

pub(super) const CHECKS: &[AgentCheck] = &[
    ("events frame a simple prompt", frame),
    (
        "busy while a run is active, idle before and after",
        busy_and_idle,
    ),
    ("refusals have pi's texts", refusals),
    ("a failed response ends the run", failure),
    ("a reply without its last event is a failure", cut),
    (
        "cancel while streaming keeps what has arrived",
        cancel_while_streaming,
    ),
    (
        "cancel between start and the first poll",
        cancel_before_first_poll,
    ),
    (
        "cancel while idle does nothing to the next run",
        cancel_while_idle,
    ),
    ("each run has its own abort", fresh_abort),
    ("a dropped run leaves nothing behind", dropped),
    (
        "a run that was never polled leaves nothing behind",
        never_polled,
    ),
    ("state fits every event", state_at_each_event),
    (
        "the error of a run is kept until the next one",
        error_is_kept,
    ),
    ("listeners are awaited in order", listeners_in_order),
    ("a dropped subscription hears nothing more", unsubscribe),
    (
        "idle waits for listeners of the end",
        idle_waits_for_listeners,
    ),
    ("idle returns after a dropped run", idle_after_drop),
    ("a run sees the context it was started with", snapshot),
];

const SIMPLE: [&str; 7] = [
    "agent_start",
    "turn_start",
    "message_start(user)",
    "message_end(user)",
    "message_start(assistant)",
    "message_end(assistant)",
    "turn_end([])",
];

fn frame(factory: Factory<'_>) {
    let subject = Subject::new(factory, [reply::text(["Hel", "lo"])]);
    let outcome = finish(subject.start("hi"));
    assert_eq!(outcome.end, RunEnd::Completed);
    assert_eq!(subject.log.frame(), [&SIMPLE[..], &["agent_end"]].concat());
    let updates: Vec<_> = subject.log.names();
    let updates: Vec<_> = updates
        .iter()
        .filter_map(|name| name.strip_prefix("message_update:"))
        .collect();
    assert_eq!(
        updates,
        ["text_start", "text_delta", "text_delta", "text_end"]
    );
    assert_eq!(outcome.messages.len(), 2);
    assert_valid_history(&outcome.messages);
    subject.agent.state().read(|state| {
        assert_eq!(state.messages, outcome.messages);
    });
    let end = subject.log.seen().pop().map(|seen| seen.event);
    let Some(AgentEvent::AgentEnd { messages }) = end else {
        panic!("the last event ends the run");
    };
    assert_eq!(messages, outcome.messages);
}

fn busy_and_idle(factory: Factory<'_>) {
    let subject = Subject::new(factory, [reply::never_ending(["a"]), reply::text(["b"])]);
    let agent = &subject.agent;
    assert_eq!(agent.state().phase(), Phase::Idle);
    assert!(poll_once(&mut agent.idle()).is_ready());
    let mut run = subject.start("one");
    assert!(agent.state().read(|state| state.is_streaming));
    assert!(poll_once(&mut agent.idle()).is_pending());
    assert_eq!(
        agent.start(spec("two", Default::default())).err(),
        Some(StartError::Busy)
    );
    assert_eq!(
        agent.resume(spec("", Default::default())).err(),
        Some(StartError::BusyContinue)
    );
    stall(&mut run);
    assert_eq!(agent.state().phase(), Phase::Streaming);
    assert_eq!(
        agent.start(spec("two", Default::default())).err(),
        Some(StartError::Busy)
    );
    agent.cancel();
    let _ = finish(run);
    assert_eq!(agent.state().phase(), Phase::Idle);
    assert!(poll_once(&mut agent.idle()).is_ready());
    assert_eq!(finish(subject.start("two")).end, RunEnd::Completed);
}

fn refusals(factory: Factory<'_>) {
    let subject = Subject::new(factory, [reply::never_ending(["a"])]);
    let agent = &subject.agent;
    let text = |refused: Option<StartError>| refused.map(|error| error.to_string());
    let nothing = agent.resume(spec("", Default::default())).err();
    assert_eq!(
        text(nothing).as_deref(),
        Some("No messages to continue from")
    );
    let run = subject.start("hi");
    let busy = agent.start(spec("hi", Default::default())).err();
    assert_eq!(
        text(busy).as_deref(),
        Some(
            "Agent is already processing a prompt. Use steer() or followUp() to queue messages, or wait for completion."
        )
    );
    let busy = agent.resume(spec("hi", Default::default())).err();
    assert_eq!(
        text(busy).as_deref(),
        Some("Agent is already processing. Wait for completion before continuing.")
    );
    drop(run);
    // A refusal claims nothing.
    let again = agent.resume(spec("", Default::default())).err();
    assert_eq!(again, Some(StartError::NothingToContinue));
    assert_eq!(agent.state().phase(), Phase::Idle);
}

fn failure(factory: Factory<'_>) {
    let subject = Subject::new(
        factory,
        [reply::failing(StreamErrorKind::RateLimit, "slow down")],
    );
    let outcome = finish(subject.start("hi"));
    let RunEnd::Failed(error) = &outcome.end else {
        panic!("{:?}", outcome.end);
    };
    assert_eq!(
        (error.kind, error.message.as_str()),
        (StreamErrorKind::RateLimit, "slow down")
    );
    let expected = [
        &SIMPLE[..4],
        &[
            "message_start(assistant error)",
            "message_end(assistant error)",
        ],
        &["turn_end([])", "agent_end"],
    ];
    let mut frame = subject.log.frame();
    // A response may have begun before it failed.
    if let Some(start) = frame.iter_mut().find(|name| *name == SIMPLE[4]) {
        expected[1][0].clone_into(start);
    }
    assert_eq!(frame, expected.concat());
    let message = outcome
        .messages
        .last()
        .and_then(|m| m.as_assistant().cloned());
    let message = message.unwrap_or_else(|| panic!("no response"));
    assert_eq!(message.stop_reason, StopReason::Error);
    assert_eq!(message.error_message.as_deref(), Some("slow down"));
}

fn cut(factory: Factory<'_>) {
    let subject = Subject::new(factory, [reply::cut(["par"])]);
    let outcome = finish(subject.start("hi"));
    let RunEnd::Failed(error) = &outcome.end else {
        panic!("{:?}", outcome.end);
    };
    assert_eq!(error.kind, StreamErrorKind::Incomplete);
    assert_valid_history(&outcome.messages);
}

fn cancel_while_streaming(factory: Factory<'_>) {
    let subject = Subject::new(factory, [reply::never_ending(["par", "tial"])]);
    let mut run = subject.start("hi");
    stall(&mut run);
    subject.agent.cancel();
    let outcome = finish(run);
    assert_eq!(outcome.end, RunEnd::Aborted);
    let expected = [
        &SIMPLE[..5],
        &[
            "message_end(assistant aborted)",
            "turn_end([])",
            "agent_end",
        ],
    ];
    assert_eq!(subject.log.frame(), expected.concat());
    let message = outcome
        .messages
        .last()
        .and_then(|m| m.as_assistant().cloned());
    let message = message.unwrap_or_else(|| panic!("no response"));
    assert_eq!(fluzo_llm::content::joined_text(&message.content), "partial");
    assert_eq!(
        message.error_message.as_deref(),
        Some("Request was aborted")
    );
}

fn cancel_before_first_poll(factory: Factory<'_>) {
    let subject = Subject::new(factory, [reply::text(["never asked for"])]);
    let run = subject.start("hi");
    subject.agent.cancel();
    let outcome = finish(run);
    assert_eq!(outcome.end, RunEnd::Aborted);
    let message = outcome
        .messages
        .last()
        .and_then(|m| m.as_assistant().cloned());
    let message = message.unwrap_or_else(|| panic!("no response"));
    assert!(message.content.is_empty());
    assert_eq!(
        message.error_message.as_deref(),
        Some("Request was aborted.")
    );
    assert_eq!(subject.agent.state().phase(), Phase::Idle);
}

fn cancel_while_idle(factory: Factory<'_>) {
    let subject = Subject::new(factory, [reply::text(["a"])]);
    subject.agent.cancel();
    assert_eq!(finish(subject.start("hi")).end, RunEnd::Completed);
    subject.agent.cancel();
    assert_eq!(subject.agent.state().phase(), Phase::Idle);
}

fn fresh_abort(factory: Factory<'_>) {
    let replies = [
        reply::never_ending(["a"]),
        reply::text(["b"]),
        reply::text(["c"]),
    ];
    let subject = Subject::new(factory, replies);
    let mut run = subject.start("one");
    stall(&mut run);
    subject.agent.cancel();
    assert_eq!(finish(run).end, RunEnd::Aborted);
    for prompt in ["two", "three"] {
        assert_eq!(finish(subject.start(prompt)).end, RunEnd::Completed);
    }
}

fn dropped(factory: Factory<'_>) {
    let subject = Subject::new(factory, [reply::never_ending(["a"]), reply::text(["b"])]);
    let mut run = subject.start("one");
    stall(&mut run);
    drop(run);
    subject.agent.state().read(|state| {
        assert_eq!(state.phase(), Phase::Idle);
        assert!(!state.is_streaming);
        assert!(state.streaming_message.is_none());
        assert!(state.pending_tool_calls.is_empty());
    });
    assert_eq!(finish(subject.start("two")).end, RunEnd::Completed);
}

fn never_polled(factory: Factory<'_>) {
    let subject = Subject::new(factory, [reply::text(["b"])]);
    drop(subject.start("one"));
    assert_eq!(subject.agent.state().phase(), Phase::Idle);
    assert!(subject.log.names().is_empty());
    assert_eq!(finish(subject.start("two")).end, RunEnd::Completed);
}

fn state_at_each_event(factory: Factory<'_>) {
    let subject = Subject::new(factory, [reply::text(["a", "b", "c"])]);
    let _ = finish(subject.start("hi"));
    let mut joined = String::new();
    let mut messages = 0;
    for seen in subject.log.seen() {
        let label = &seen.name;
        assert!(seen.is_streaming, "{label}");
        assert_ne!(seen.phase, Phase::Idle, "{label}");
        match &seen.event {
            AgentEvent::MessageUpdate {
                delta: fluzo_llm::StreamEvent::TextDelta { delta, .. },
            } => joined.push_str(delta),
            AgentEvent::MessageEnd { .. } => messages += 1,
            _ => {}
        }
        let streams = label.starts_with("message_update") || label == "message_start(assistant)";
        let partial = streams.then_some(joined.as_str());
        assert_eq!(seen.partial.as_deref(), partial, "{label}");
        assert_eq!(seen.messages, messages, "{label}");
    }
    assert_eq!(joined, "abc");
}

fn error_is_kept(factory: Factory<'_>) {
    let replies = [
        reply::failing(StreamErrorKind::Quota, "used up"),
        reply::text(["b"]),
    ];
    let subject = Subject::new(factory, replies);
    let error = || {
        subject
            .agent
            .state()
            .read(|state| state.error_message.clone())
    };
    let _ = finish(subject.start("one"));
    assert_eq!(error().as_deref(), Some("used up"));
    let run = subject.start("two");
    assert_eq!(error(), None);
    let _ = finish(run);
    assert_eq!(error(), None);
}

/// Notes its name with each event, and waits for a switch at one of them.
struct Slow {
    name: &'static str,
    at: &'static str,
    until: Switch,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Slow {
    fn note(&self, what: &str) {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.push(format!("{} {what}", self.name));
    }
}

impl Listener for Slow {
    fn on_event<'a>(&'a self, event: &'a AgentEvent, _state: &'a StateCell) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if name(event) == self.at {
                self.note("begins");
                self.until.wait().await;
                self.note("ends");
            }
        })
    }
}

fn listeners_in_order(factory: Factory<'_>) {
    let subject = Subject::new(factory, [reply::text(["a"])]);
    let heard = Arc::default();
    let switches = [Switch::new(), Switch::new()];
    let _subscriptions = [0, 1].map(|at| {
        subject.agent.subscribe(Arc::new(Slow {
            name: ["first", "second"][at],
            at: "turn_start",
            until: switches[at].clone(),
            heard: Arc::clone(&heard),
        }))
    });
    let mut run = subject.start("hi");
    let heard = || heard.lock().unwrap_or_else(PoisonError::into_inner).clone();
    stall(&mut run);
    assert_eq!(heard(), ["first begins"]);
    switches[0].flip();
    stall(&mut run);
    assert_eq!(heard(), ["first begins", "first ends", "second begins"]);
    // The run itself waits as well.
    assert_eq!(subject.log.names(), ["agent_start", "turn_start"]);
    switches[1].flip();
    let _ = finish(run);
    assert_eq!(heard()[3..], ["second ends"]);
}

fn unsubscribe(factory: Factory<'_>) {
    let subject = Subject::new(factory, [reply::text(["a"]), reply::text(["b"])]);
    let log = Arc::new(crate::EventLog::new());
    let subscription = subject.agent.subscribe(Arc::clone(&log) as _);
    let _ = finish(subject.start("one"));
    let heard = log.names();
    assert_eq!(heard, subject.log.names());
    drop(subscription);
    let _ = finish(subject.start("two"));
    assert_eq!(log.names(), heard);
    assert_eq!(subject.log.names().len(), 2 * heard.len());
}

fn idle_waits_for_listeners(factory: Factory<'_>) {
    let subject = Subject::new(factory, [reply::text(["a"])]);
    let switch = Switch::new();
    let _subscription = subject.agent.subscribe(Arc::new(Slow {
        name: "slow",
        at: "agent_end",
        until: switch.clone(),
        heard: Arc::default(),
    }));
    let mut run = subject.start("hi");
    let mut idle = subject.agent.idle();
    stall(&mut run);
    assert_eq!(
        subject.log.names().last().map(String::as_str),
        Some("agent_end")
    );
    assert!(poll_once(&mut idle).is_pending());
    assert!(subject.agent.state().read(|state| state.is_streaming));
    let busy = subject.agent.start(spec("two", Default::default())).err();
    assert_eq!(busy, Some(StartError::Busy));
    switch.flip();
    let _ = finish(run);
    assert!(poll_once(&mut idle).is_ready());
}

fn idle_after_drop(factory: Factory<'_>) {
    let subject = Subject::new(factory, [reply::never_ending(["a"])]);
    let mut run = subject.start("hi");
    stall(&mut run);
    let mut idle = subject.agent.idle();
    assert!(poll_until_stalled(&mut idle).is_pending());
    drop(run);
    poll_to_end(idle);
}

fn snapshot(factory: Factory<'_>) {
    let subject = Subject::new(factory, [reply::text(["a"])]);
    let mut given = spec("hi", Default::default());
    given.context = context(Default::default());
    given.context.messages.push(crate::user("before"));
    let run = match subject.agent.start(given.clone()) {
        Ok(run) => run,
        Err(error) => panic!("{error}"),
    };
    given.context.messages.clear();
    given.prompt.clear();
    let outcome = finish(run);
    assert_eq!(outcome.messages.len(), 2);
    subject.agent.state().read(|state| {
        assert_eq!(state.messages.len(), 3);
        assert_eq!(state.messages[0], crate::user("before"));
    });
}
