//! Further attempts of one request, behind one effect.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fluzo_agent::{
    Agent, AgentOptions, Effects, Halt, Intent, NativeAgent, NoHooks, Outcome, Record, RunEnd,
    RunOutcome, TimeEffect,
};
use fluzo_llm::{Finish, FormSwitch, StreamError, StreamErrorKind, StreamEvent, Usage};
use fluzo_runtime::compose::{Layers, compose};
use fluzo_runtime::operation::OperationEvent;
use fluzo_runtime::provider_attempts::policy;
use fluzo_runtime::retry::RetryPolicy;
use fluzo_testkit::reply::{failing, text};
use fluzo_testkit::{Reply, World, poll_once, poll_to_end, spec, tools};

use crate::operations::{Log, Stopped, operation};

const LONGEST: Duration = Duration::from_secs(60);

fn agent(world: &World, time: Option<Arc<dyn TimeEffect>>, policy: RetryPolicy) -> NativeAgent {
    let base = world.effects();
    let base = Effects {
        time: time.unwrap_or_else(|| Arc::clone(&base.time)),
        ..base
    };
    let layers = Layers {
        record: true,
        attempts: Some(policy),
        ..Layers::default()
    };
    let effects = compose(base, &layers);
    NativeAgent::new(
        effects,
        world.gate(),
        Arc::new(NoHooks),
        AgentOptions::default(),
    )
}

fn run(world: &World, policy: RetryPolicy) -> RunOutcome {
    let agent = agent(world, None, policy);
    poll_to_end(agent.start(spec("go", tools([]))).unwrap())
}

/// Requests that were made and milliseconds that passed.
#[track_caller]
fn check(
    replies: impl IntoIterator<Item = Reply>,
    policy: RetryPolicy,
    made: usize,
    waited: i64,
) -> RunOutcome {
    let world = World::new(replies);
    let before = world.time.now_ms();
    let outcome = run(&world, policy);
    let found = (world.model.requests().len(), world.time.now_ms() - before);
    assert_eq!(found, (made, waited), "{:?}", outcome.end);
    outcome
}

fn busy() -> Reply {
    failing(StreamErrorKind::Transient, "503 busy")
}

fn asks_to_wait(ms: u64) -> Reply {
    Reply::new().fail(StreamError {
        retry_after_ms: Some(ms),
        ..StreamError::new(StreamErrorKind::RateLimit, "429 slow down")
    })
}

#[test]
fn a_passing_failure_before_any_output_is_tried_again_behind_one_effect() {
    let world = World::new([
        busy(),
        failing(StreamErrorKind::Connect, "refused"),
        text(["ok"]),
    ]);
    let before = world.time.now_ms();
    let outcome = run(&world, policy(2, LONGEST));
    assert_eq!(outcome.end, RunEnd::Completed);
    assert_eq!(outcome.messages.len(), 2, "the failures are no messages");
    assert_eq!(world.time.now_ms() - before, 500 + 1000);
    // Each is a request of its own to whoever counts them.
    let framed = world.journal.records().into_iter().filter_map(|r| match r {
        Record::Intent(Intent::RequestModel { .. }) => Some("intent".to_owned()),
        Record::Outcome(Outcome::RequestModel { ok }) => Some(format!("outcome {ok}")),
        _ => None,
    });
    let expected = [
        "intent",
        "outcome false",
        "intent",
        "outcome false",
        "intent",
        "outcome true",
    ];
    assert_eq!(framed.collect::<Vec<_>>(), expected);
}

#[test]
fn the_last_failure_is_the_one_that_counts() {
    let last = failing(StreamErrorKind::Timeout, "timed out");
    let outcome = check([busy(), busy(), last], policy(2, LONGEST), 3, 1500);
    let RunEnd::Failed(error) = outcome.end else {
        panic!("{:?}", outcome.end)
    };
    assert_eq!(
        (error.kind, error.message.as_str()),
        (StreamErrorKind::Timeout, "timed out")
    );
}

#[test]
fn without_attempts_a_failure_is_final() {
    check([busy()], policy(0, LONGEST), 1, 0);
}

#[test]
fn what_is_not_tried_again() {
    use StreamErrorKind::{
        Authentication, InvalidRequest, Overflow, Quota, Redirect, Refused, TooLarge,
    };
    for kind in [
        Authentication,
        InvalidRequest,
        Overflow,
        Quota,
        Redirect,
        Refused,
        TooLarge,
    ] {
        check([failing(kind, "no")], policy(3, LONGEST), 1, 0);
    }
    let form = StreamError {
        alternative: Some(FormSwitch::MaxTokens),
        ..StreamError::new(StreamErrorKind::FormRefused, "400 form")
    };
    check([Reply::new().fail(form)], policy(3, LONGEST), 1, 0);
    // Requests that a server limits are for a policy that says so.
    let strict = RetryPolicy {
        limited_too: false,
        ..policy(3, LONGEST)
    };
    for kind in [StreamErrorKind::RateLimit, StreamErrorKind::Capacity] {
        check([failing(kind, "429")], strict, 1, 0);
    }
}

#[test]
fn after_output_nothing_is_sent_again() {
    let lost = || StreamError::new(StreamErrorKind::Incomplete, "lost");
    let replies = [
        Reply::new().open_text(["a"]).fail(lost()),
        Reply::new().open_text([]).fail(lost()),
        Reply::without_start().thinking(["hm"]).fail(lost()),
        Reply::new().open_call("c1", "t", ["{"]).fail(lost()),
    ];
    for reply in replies {
        check([reply], policy(3, LONGEST), 1, 0);
    }
    let paid = Usage {
        output: 7,
        ..Usage::default()
    };
    let paid = StreamEvent::Failed(Box::new(Finish::failed(lost(), paid)));
    check([Reply::new().finish(paid)], policy(3, LONGEST), 1, 0);
}

#[test]
fn what_a_server_asks_for_is_waited_for_up_to_the_limit() {
    let ok = || text(["ok"]);
    check([asks_to_wait(3000), ok()], policy(1, LONGEST), 2, 3000);
    check([asks_to_wait(100), ok()], policy(1, LONGEST), 2, 500);
    check([asks_to_wait(60_000), ok()], policy(1, LONGEST), 2, 60_000);
    check([asks_to_wait(60_001)], policy(9, LONGEST), 1, 0);
    check(
        [asks_to_wait(90_000_000), ok()],
        policy(1, Duration::MAX),
        2,
        90_000_000,
    );
    check([busy(), ok()], policy(1, Duration::from_millis(50)), 2, 50);
    // Waits of its own do not grow for ever.
    let many = (0..8).map(|_| busy());
    check(
        many,
        policy(7, LONGEST),
        8,
        500 + 1000 + 2000 + 4000 + 8000 + 8000 + 8000,
    );
}

#[test]
fn an_abort_ends_the_wait_at_once() {
    let world = World::new([busy(), text(["ok"])]);
    let agent = agent(&world, Some(Arc::new(Stopped)), policy(3, LONGEST));
    let mut run = agent.start(spec("go", tools([]))).unwrap();
    assert!(poll_once(&mut run).is_pending());
    agent.cancel();
    assert_eq!(poll_to_end(run).end, RunEnd::Aborted);
    assert_eq!(world.model.requests().len(), 1);
}

#[test]
fn a_later_attempt_that_cannot_be_recorded_halts_the_run() {
    let world = World::new([busy(), text(["ok"])]);
    let seen = Arc::new(Mutex::new(0));
    world.journal.fail_when(move |_, record| {
        let is_intent = matches!(record, Record::Intent(Intent::RequestModel { .. }));
        let mut seen = seen.lock().unwrap();
        *seen += usize::from(is_intent);
        is_intent && *seen == 2
    });
    let outcome = run(&world, policy(1, LONGEST));
    assert!(
        matches!(outcome.end, RunEnd::Halted(Halt::Append(_))),
        "{:?}",
        outcome.end
    );
    assert_eq!(world.model.requests().len(), 1);
}

#[test]
fn attempts_of_a_request_and_of_a_session_are_counted_apart() {
    // Two for each of the operation's two.
    let world = World::new([busy(), busy(), busy(), text(["ok"])]);
    let agent: Arc<dyn Agent> = Arc::new(agent(&world, None, policy(1, LONGEST)));
    let session = RetryPolicy {
        max_retries: 1,
        ..RetryPolicy::default()
    };
    let log = Arc::new(Log::default());
    let time = Arc::clone(&world.time) as _;
    let operation = operation(agent, time, session, &Arc::default(), Arc::clone(&log) as _);
    let outcome = poll_to_end(operation.run(spec("go", tools([])))).unwrap();
    assert_eq!(outcome.end, RunEnd::Completed);
    assert_eq!(world.model.requests().len(), 4);
    let told: Vec<(u32, u64)> = log
        .0
        .lock()
        .unwrap()
        .iter()
        .filter_map(|event| match event {
            OperationEvent::RetryStart {
                attempt, delay_ms, ..
            } => Some((*attempt, *delay_ms)),
            _ => None,
        })
        .collect();
    assert_eq!(told, [(1, 2000)]);
    let roles: Vec<&str> = outcome.messages.iter().map(|m| m.role()).collect();
    assert_eq!(roles, ["user", "assistant", "assistant"]);
}
