//! What the loop itself costs: per delta, and between a response and the next request.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use fluzo_agent::{Agent, Listener, NativeAgent, Run, Subscription};
use fluzo_llm::{AgentEvent, BoxFuture, Message, StateCell};
use fluzo_testkit::polling::poll_until_stalled;
use fluzo_testkit::{FakeTool, Reply, Switch, World, poll_to_end, spec, tools, user};

fn main() {
    divan::main();
}

/// Looks at the partial message at every event, as a front end does.
struct Looks;

impl Listener for Looks {
    fn on_event<'a>(&'a self, _event: &'a AgentEvent, state: &'a StateCell) -> BoxFuture<'a, ()> {
        state.read(|state| divan::black_box(&state.streaming_message).is_some());
        Box::pin(std::future::ready(()))
    }
}

/// A run that waits for the bench to poll it, with what keeps it alive.
struct Waiting {
    run: Run,
    go: Switch,
    _agent: NativeAgent,
    _subscription: Subscription,
}

fn waiting(replies: Vec<Reply>, history: usize, go: &Switch) -> Waiting {
    let agent = World::new(replies).native();
    let subscription = agent.subscribe(Arc::new(Looks));
    let write = Arc::new(FakeTool::new("write"));
    let bye = Arc::new(FakeTool::new("bye").terminates("bye"));
    let mut spec = spec("hi", tools([&write, &bye]));
    spec.context.messages = conversation(history);
    let run = agent.start(spec).unwrap();
    Waiting {
        run,
        go: go.clone(),
        _agent: agent,
        _subscription: subscription,
    }
}

fn conversation(messages: usize) -> Vec<Arc<Message>> {
    (0..messages)
        .map(|n| user(&format!("message {n}")))
        .collect()
}

/// A whole run of one call whose argument of this many bytes arrives 20 bytes at a time.
/// The time for each byte stays the same as the argument grows.
#[divan::bench(args = [25_000, 50_000, 100_000, 200_000, 400_000])]
fn deltas_of_a_tool_argument(bencher: Bencher<'_, '_>, bytes: usize) {
    let text = format!(r#"{{"content":"{}"}}"#, "x".repeat(bytes));
    let chunks: Vec<_> = text.as_bytes().chunks(20).collect();
    let chunks: Vec<_> = chunks
        .iter()
        .map(|chunk| std::str::from_utf8(chunk).unwrap())
        .collect();
    let reply = Reply::new().call_in_chunks("c1", "bye", chunks.iter().copied());
    bencher
        .counter(BytesCount::new(text.len()))
        .counter(ItemsCount::new(chunks.len()))
        .with_inputs(|| waiting(vec![reply.clone()], 0, &Switch::new()))
        .bench_local_values(|waiting| poll_to_end(waiting.run));
}

/// From the last event of a response with one tool call to the next request, after a
/// conversation of this many messages. The tool itself takes no time.
#[divan::bench(args = [0, 100, 1_000, 10_000])]
fn from_response_to_next_request(bencher: Bencher<'_, '_>, history: usize) {
    bencher
        .with_inputs(|| {
            let go = Switch::new();
            let call = Reply::new()
                .call("c1", "write", r#"{"path":"a"}"#)
                .wait(&go);
            let next = Reply::new().until_abort();
            let mut waiting = waiting(vec![call, next], history, &go);
            assert!(poll_until_stalled(&mut waiting.run).is_pending());
            waiting
        })
        .bench_local_values(|mut waiting| {
            waiting.go.flip();
            assert!(poll_until_stalled(&mut waiting.run).is_pending());
            waiting
        });
}
