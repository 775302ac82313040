//! The session's own attempts: when they are made, what is told, what is kept.

use std::sync::{Arc, Mutex};

use fluzo_agent::{
    Agent, AgentOptions, Effects, Listener, NativeAgent, NoHooks, RunEnd, Subscription, TimeEffect,
};
use fluzo_llm::{AgentEvent, BoxFuture, StateCell, StreamErrorKind};
use fluzo_runtime::journal::SessionJournal;
use fluzo_runtime::operation::{OperationEvent, OperationListener, RunOperation};
use fluzo_runtime::retry::RetryPolicy;
use fluzo_session::{EntryKind, Header, MemoryStore, Session};
use fluzo_stdx::ids::RandomIds;
use fluzo_testkit::reply::{calls, failing, text};
use fluzo_testkit::{FakeTool, Reply, World, name, poll_once, poll_to_end, spec, tools};
use serde_json::json;

use crate::operations::{Stopped, operation};

/// Short names of everything that is told, in order.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    fn note(&self, text: String) -> BoxFuture<'static, ()> {
        self.0.lock().unwrap().push(text);
        Box::pin(std::future::ready(()))
    }

    /// What is told but messages and their updates.
    fn course(&self) -> Vec<String> {
        let told = self.0.lock().unwrap().clone();
        let kept = |name: &String| {
            !name.starts_with("message_start") && !name.starts_with("message_update")
        };
        told.into_iter().filter(kept).collect()
    }

    /// Starts and ends of attempts.
    fn attempts(&self) -> Vec<String> {
        let told = self.0.lock().unwrap().clone();
        told.into_iter()
            .filter(|name| name.starts_with("retry"))
            .collect()
    }
}

impl Listener for Told {
    fn on_event<'a>(&'a self, event: &'a AgentEvent, _state: &'a StateCell) -> BoxFuture<'a, ()> {
        self.note(name(event))
    }
}

impl OperationListener for Told {
    fn on_operation<'a>(&'a self, event: OperationEvent) -> BoxFuture<'a, ()> {
        self.note(match event {
            OperationEvent::RetryStart {
                attempt,
                max_attempts,
                delay_ms,
                error_message,
            } => {
                format!("retry {attempt}/{max_attempts} after {delay_ms}: {error_message}")
            }
            OperationEvent::RetryEnd {
                success,
                attempt,
                final_error,
                ..
            } => {
                format!(
                    "retry end {success} {attempt} {}",
                    final_error.unwrap_or_default()
                )
            }
            other => format!("{other:?}"),
        })
    }
}

struct Scene {
    world: World,
    told: Told,
    session: Arc<Session>,
    operation: RunOperation,
    _subscription: Subscription,
}

fn scene(replies: impl IntoIterator<Item = Reply>, policy: RetryPolicy, stopped: bool) -> Scene {
    let world = World::new(replies);
    let time: Arc<dyn TimeEffect> = if stopped {
        Arc::new(Stopped)
    } else {
        Arc::clone(&world.time) as _
    };
    let store = Arc::new(MemoryStore::new(Header::new("s", "t", "/w")));
    let session = Arc::new(Session::new(store, Arc::new(RandomIds)));
    let journal = SessionJournal::new(Arc::clone(&session), Arc::clone(&time));
    let effects = Effects {
        journal: Arc::new(journal),
        ..world.effects()
    };
    let options = AgentOptions::default();
    let agent: Arc<dyn Agent> = Arc::new(NativeAgent::new(
        effects,
        world.gate(),
        Arc::new(NoHooks),
        options,
    ));
    let told = Told::default();
    let subscription = agent.subscribe(Arc::new(told.clone()));
    let listener = Arc::new(told.clone());
    let operation = operation(agent, time, policy, &Arc::default(), listener);
    Scene {
        world,
        told,
        session,
        operation,
        _subscription: subscription,
    }
}

impl Scene {
    fn run(&self) -> RunEnd {
        let tool = Arc::new(FakeTool::new("one"));
        poll_to_end(self.operation.run(spec("go", tools([&tool]))))
            .unwrap()
            .end
    }

    /// Roles of the stored messages, with the stop reason of responses.
    fn stored(&self) -> Vec<String> {
        let mut stored = Vec::new();
        let mut next = self.session.leaf_id();
        while let Some(id) = next {
            let entry = self.session.entry(&id).unwrap();
            if let EntryKind::Message(message) = &entry.kind {
                stored.push(match message.as_assistant() {
                    Some(response) => format!("assistant:{}", response.stop_reason.as_str()),
                    None => message.role().to_owned(),
                });
            }
            next = entry.parent_id.clone();
        }
        stored.reverse();
        stored
    }
}

fn busy() -> Reply {
    failing(StreamErrorKind::Transient, "503 overloaded")
}

fn at_most(max_retries: u32) -> RetryPolicy {
    RetryPolicy {
        max_retries,
        base_delay: std::time::Duration::from_millis(50),
        ..RetryPolicy::default()
    }
}

#[test]
fn the_course_of_events_until_success() {
    let scene = scene([busy(), busy(), text(["ok"])], at_most(3), false);
    let before = scene.world.time.now_ms();
    assert_eq!(scene.run(), RunEnd::Completed);
    let expected = [
        "agent_start",
        "turn_start",
        "message_end(user)",
        "message_end(assistant error)",
        "turn_end([])",
        "agent_end",
        "retry 1/3 after 50: 503 overloaded",
        "agent_start",
        "turn_start",
        "message_end(assistant error)",
        "turn_end([])",
        "agent_end",
        "retry 2/3 after 100: 503 overloaded",
        "agent_start",
        "turn_start",
        "message_end(assistant)",
        "retry end true 2 ",
        "turn_end([])",
        "agent_end",
    ];
    assert_eq!(scene.told.course(), expected);
    assert_eq!(scene.world.time.now_ms() - before, 150);
    assert_eq!(
        scene.stored(),
        [
            "user",
            "assistant:error",
            "assistant:error",
            "assistant:stop"
        ]
    );
    // Neither failure is sent, and each request ends with what the user said.
    let sent: Vec<usize> = scene
        .world
        .model
        .requests()
        .iter()
        .map(|r| r.transcript.len())
        .collect();
    assert_eq!(sent, [1, 1, 1]);
}

#[test]
fn the_course_of_events_when_attempts_run_out() {
    let scene = scene([busy(), busy(), busy()], at_most(2), false);
    assert!(matches!(scene.run(), RunEnd::Failed(_)));
    let expected = [
        "retry 1/2 after 50: 503 overloaded",
        "retry 2/2 after 100: 503 overloaded",
        "retry end false 2 503 overloaded",
    ];
    assert_eq!(scene.told.attempts(), expected);
    let course = scene.told.course();
    assert_eq!(course[course.len() - 2..], ["agent_end", expected[2]]);
}

#[test]
fn a_good_response_begins_the_count_anew() {
    let call = calls([("c1", "one", json!({}))]);
    let replies = [busy(), busy(), call, busy(), busy(), text(["ok"])];
    let scene = scene(replies, at_most(2), false);
    assert_eq!(scene.run(), RunEnd::Completed);
    let both = [
        "retry 1/2 after 50: 503 overloaded",
        "retry 2/2 after 100: 503 overloaded",
        "retry end true 2 ",
    ];
    assert_eq!(scene.told.attempts(), [both, both].concat());
    // The second series goes on from the result of the call.
    let sent: Vec<usize> = scene
        .world
        .model
        .requests()
        .iter()
        .map(|r| r.transcript.len())
        .collect();
    assert_eq!(sent, [1, 1, 1, 3, 3, 3]);
}

#[test]
fn an_operation_is_over_only_after_its_attempts_and_a_wait_can_be_cancelled() {
    for whole in [false, true] {
        let scene = scene([busy(), text(["ok"])], at_most(3), true);
        let mut run = Box::pin(scene.operation.run(spec("go", tools([]))));
        assert!(poll_once(&mut run).is_pending());
        assert!(scene.operation.is_waiting());
        if whole {
            scene.operation.cancel();
        } else {
            scene.operation.cancel_wait();
        }
        poll_to_end(run).unwrap();
        assert_eq!(
            scene.told.attempts(),
            [
                "retry 1/3 after 50: 503 overloaded",
                "retry end false 1 Retry cancelled"
            ]
        );
        assert_eq!(scene.world.model.requests().len(), 1);
        assert_eq!(scene.stored(), ["user", "assistant:error"]);
    }
}

#[test]
fn switched_off_a_failure_is_final_and_nothing_is_told() {
    let off = RetryPolicy {
        enabled: false,
        ..at_most(3)
    };
    let scene = scene([busy()], off, false);
    assert!(matches!(scene.run(), RunEnd::Failed(_)));
    assert!(scene.told.attempts().is_empty());
}
