//! What the run operation does after a failure: waits, other forms, giving up.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fluzo_agent::{
    Agent, AgentOptions, Effects, NativeAgent, NoHooks, RunEnd, RunOutcome, TimeEffect,
};
use fluzo_llm::{
    BoxFuture, CredentialError, Credentials, FormSwitch, Model, Provider, RequestAuth, StreamError,
    StreamErrorKind,
};
use fluzo_runtime::attempts::Attempts;
use fluzo_runtime::forms::FormMemory;
use fluzo_runtime::model::{Dialects, ProviderModel};
use fluzo_runtime::operation::{NoContinuation, OperationEvent, OperationListener, RunOperation};
use fluzo_runtime::retry::RetryPolicy;
use fluzo_testkit::reply::{calls, text};
use fluzo_testkit::{
    FakeTool, Reply, ScriptedProvider, World, poll_once, poll_to_end, spec, tools,
};
use serde_json::json;

struct One(Arc<ScriptedProvider>);

impl Dialects for One {
    fn provider(&self, _api: &str) -> Result<Arc<dyn Provider>, String> {
        Ok(Arc::clone(&self.0) as _)
    }
}

struct NoKey;

impl Credentials for NoKey {
    fn resolve<'a>(
        &'a self,
        _model: &'a Model,
    ) -> BoxFuture<'a, Result<RequestAuth, CredentialError>> {
        Box::pin(std::future::ready(Ok(RequestAuth::default())))
    }
}

/// Writes events down.
#[derive(Default)]
pub struct Log(pub Mutex<Vec<OperationEvent>>);

impl OperationListener for Log {
    fn on_operation<'a>(&'a self, event: OperationEvent) -> BoxFuture<'a, ()> {
        self.0.lock().unwrap().push(event);
        Box::pin(std::future::ready(()))
    }
}

/// The operation of `agent` under `policy`.
pub fn operation(
    agent: Arc<dyn Agent>,
    time: Arc<dyn TimeEffect>,
    policy: RetryPolicy,
    forms: &Arc<FormMemory>,
    listener: Arc<dyn OperationListener>,
) -> RunOperation {
    let attempts = Arc::new(Attempts::new(policy, Arc::clone(forms)));
    RunOperation::new(agent, time, attempts, listener, Arc::new(NoContinuation))
}

/// A wait that never ends by itself.
pub struct Stopped;

impl TimeEffect for Stopped {
    fn now_ms(&self) -> i64 {
        0
    }

    fn sleep<'a>(&'a self, _duration: Duration) -> BoxFuture<'a, ()> {
        Box::pin(std::future::pending())
    }
}

/// An agent whose provider plays a script, and its operation.
struct Scene {
    provider: Arc<ScriptedProvider>,
    world: World,
    operation: RunOperation,
    log: Arc<Log>,
}

impl Scene {
    fn new(replies: impl IntoIterator<Item = Reply>, forms: &Arc<FormMemory>) -> Self {
        let world = World::new([]);
        let time = Arc::clone(&world.time) as _;
        Self::with_time(replies, forms, world, time)
    }

    fn with_time(
        replies: impl IntoIterator<Item = Reply>,
        forms: &Arc<FormMemory>,
        world: World,
        time: Arc<dyn TimeEffect>,
    ) -> Self {
        let provider = Arc::new(ScriptedProvider::new(replies));
        let dialects = Arc::new(One(Arc::clone(&provider)));
        let model = ProviderModel::new(dialects, Arc::new(NoKey), Arc::clone(forms));
        let effects = Effects {
            model: Arc::new(model),
            ..world.effects()
        };
        let options = AgentOptions::default();
        let agent: Arc<dyn Agent> = Arc::new(NativeAgent::new(
            effects,
            world.gate(),
            Arc::new(NoHooks),
            options,
        ));
        let log = Arc::new(Log::default());
        let policy = RetryPolicy::default();
        let operation = operation(agent, time, policy, forms, Arc::clone(&log) as _);
        Self {
            provider,
            world,
            operation,
            log,
        }
    }

    fn run(&self) -> RunOutcome {
        let tool = Arc::new(FakeTool::new("one"));
        poll_to_end(self.operation.run(spec("go", tools([&tool])))).unwrap()
    }

    /// The forms of each request.
    fn forms(&self) -> Vec<Vec<FormSwitch>> {
        let requests = self.provider.script().requests();
        requests.into_iter().map(|r| r.options.forms).collect()
    }

    fn events(&self) -> Vec<OperationEvent> {
        std::mem::take(&mut self.log.0.lock().unwrap())
    }
}

fn fails(error: StreamError) -> Reply {
    Reply::new().fail(error)
}

fn refused(switch: FormSwitch, text: &str) -> Reply {
    fails(StreamError {
        alternative: Some(switch),
        ..StreamError::new(StreamErrorKind::FormRefused, text)
    })
}

fn limited(kind: StreamErrorKind, text: &str, wait_ms: Option<u64>) -> Reply {
    fails(StreamError {
        retry_after_ms: wait_ms,
        status: Some(429),
        ..StreamError::new(kind, text)
    })
}

fn error_of(outcome: &RunOutcome) -> &StreamError {
    match &outcome.end {
        RunEnd::Failed(error) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_refused_form_is_sent_in_another_one_at_once_and_remembered() {
    use FormSwitch::MaxTokens;
    let forms = Arc::default();
    let replies = [
        refused(MaxTokens, "400 no `max_completion_tokens`"),
        text(["ok"]),
        text(["again"]),
    ];
    let scene = Scene::new(replies, &forms);
    let before = scene.world.time.now_ms();
    let outcome = scene.run();
    assert!(matches!(outcome.end, RunEnd::Completed));
    assert_eq!(scene.world.time.now_ms(), before, "nothing is waited for");
    let switched = OperationEvent::FormSwitched {
        switch: MaxTokens,
        error_message: "400 no `max_completion_tokens`".into(),
    };
    assert_eq!(scene.events(), [switched]);
    // The refusal stays in the session and is not sent again.
    assert_eq!(outcome.messages.len(), 3);
    assert_eq!(scene.provider.script().requests()[1].transcript.len(), 1);
    scene.run();
    assert_eq!(
        scene.forms(),
        [vec![], vec![MaxTokens], vec![MaxTokens]],
        "another run knows it"
    );
    let other = Scene::new([text(["ok"])], &forms);
    other.run();
    assert_eq!(other.forms(), [vec![MaxTokens]], "another session as well");
}

#[test]
fn once_per_request() {
    use FormSwitch::{MaxTokens, NoStore};
    let scene = Scene::new(
        [
            refused(MaxTokens, "400 first"),
            refused(NoStore, "400 second"),
        ],
        &Arc::default(),
    );
    let outcome = scene.run();
    let error = error_of(&outcome);
    assert_eq!(
        error.message,
        "400 second; the request had been sent again with \"maxTokensField\": \"max_tokens\", because the server first answered: 400 first; \
         the server may accept another form: set \"supportsStore\": false in the model's `compat`"
    );
    let last = outcome.messages.last().unwrap().as_assistant().unwrap();
    assert_eq!(last.error_message.as_deref(), Some(error.message.as_str()));
    assert_eq!(scene.forms().len(), 2);
}

#[test]
fn a_passing_failure_in_between_does_not_make_it_another_request() {
    use FormSwitch::{MaxTokens, NoStore};
    let replies = [
        refused(MaxTokens, "400 first"),
        limited(StreamErrorKind::Transient, "503", None),
        refused(NoStore, "400 second"),
    ];
    let scene = Scene::new(replies, &Arc::default());
    let outcome = scene.run();
    assert_eq!(error_of(&outcome).kind, StreamErrorKind::FormRefused);
    assert_eq!(scene.forms().len(), 3);
}

#[test]
fn each_request_of_a_run_has_its_own_switch() {
    use FormSwitch::{EmptyContent, MaxTokens};
    let replies = [
        refused(MaxTokens, "400 first"),
        calls([("c1", "one", json!({}))]),
        refused(EmptyContent, "400 null"),
        text(["ok"]),
    ];
    let scene = Scene::new(replies, &Arc::default());
    let outcome = scene.run();
    assert!(matches!(outcome.end, RunEnd::Completed));
    // The calls of the first turn are not run again.
    let roles: Vec<&str> = outcome.messages.iter().map(|m| m.role()).collect();
    assert_eq!(
        roles,
        [
            "user",
            "assistant",
            "assistant",
            "toolResult",
            "assistant",
            "assistant"
        ]
    );
    assert_eq!(scene.forms()[3], [EmptyContent, MaxTokens]);
}

#[test]
fn a_form_that_did_not_help_is_forgotten() {
    let invalid = || {
        fails(StreamError::new(
            StreamErrorKind::InvalidRequest,
            "400 still",
        ))
    };
    let replies = [
        refused(FormSwitch::MaxTokens, "400 first"),
        invalid(),
        text(["ok"]),
    ];
    let scene = Scene::new(replies, &Arc::default());
    scene.run();
    scene.run();
    assert_eq!(scene.forms(), [vec![], vec![FormSwitch::MaxTokens], vec![]]);
}

#[test]
fn switched_off_the_refusal_ends_the_run_and_names_the_key() {
    let scene = Scene::new(
        [refused(FormSwitch::MaxTokens, "400 first")],
        &Arc::new(FormMemory::off()),
    );
    let outcome = scene.run();
    let error = error_of(&outcome);
    assert_eq!(error.kind, StreamErrorKind::FormRefused);
    assert!(error.message.contains("\"maxTokensField\""), "{error}");
    assert_eq!((scene.forms().len(), scene.events()), (1, vec![]));
}

#[test]
fn case_s18_another_refusal_is_sent_once_and_ends_the_run() {
    let text = "400 invalid message content at messages.2 (request id req-7)";
    let scene = Scene::new(
        [fails(StreamError::new(
            StreamErrorKind::InvalidRequest,
            text,
        ))],
        &Arc::default(),
    );
    let outcome = scene.run();
    assert_eq!(error_of(&outcome).message, text);
    assert_eq!((scene.forms().len(), scene.events()), (1, vec![]));
}

#[test]
fn case_p01_a_wait_that_the_server_named_is_kept() {
    let replies = [
        limited(StreamErrorKind::RateLimit, "429 slow down", Some(3000)),
        text(["ok"]),
    ];
    let scene = Scene::new(replies, &Arc::default());
    let before = scene.world.time.now_ms();
    assert!(matches!(scene.run().end, RunEnd::Completed));
    assert!(scene.world.time.now_ms() - before >= 3000);
    let OperationEvent::RetryStart { delay_ms, .. } = &scene.events()[0] else {
        panic!("no wait is told")
    };
    assert_eq!(*delay_ms, 3000, "what a count-down starts from");
}

#[test]
fn case_p01_the_wait_can_be_cancelled() {
    let replies = [limited(
        StreamErrorKind::RateLimit,
        "429 slow down",
        Some(3000),
    )];
    let scene = Scene::with_time(replies, &Arc::default(), World::new([]), Arc::new(Stopped));
    let mut run = Box::pin(scene.operation.run(spec("go", tools([]))));
    assert!(poll_once(&mut run).is_pending());
    assert!(scene.operation.is_waiting());
    scene.operation.cancel_wait();
    let outcome = poll_to_end(run).unwrap();
    assert_eq!(error_of(&outcome).message, "429 slow down");
    assert_eq!(scene.forms().len(), 1);
}

#[test]
fn case_p02_a_used_up_allowance_is_not_waited_for() {
    let text = "429 monthly usage limit reached (the server asks to wait 16 days, until 2026-12-17 14:00 UTC)";
    for kind in [StreamErrorKind::Quota, StreamErrorKind::RateLimit] {
        let replies = [limited(kind, text, Some(1_382_400_000))];
        let scene = Scene::new(replies, &Arc::default());
        let before = scene.world.time.now_ms();
        let outcome = scene.run();
        assert_eq!(error_of(&outcome).message, text);
        assert_eq!(scene.world.time.now_ms(), before);
        assert_eq!(scene.forms().len(), 1);
    }
}

#[test]
fn case_p04_giving_up_tells_who_how_often_and_when_next() {
    let limit = |n: u32, wait| {
        let text = format!("429 slow down {n}");
        limited(StreamErrorKind::RateLimit, &text, wait)
    };
    for (wait, last) in [(Some(9000), true), (None, false)] {
        let replies = [
            limit(1, None),
            limit(2, None),
            limit(3, None),
            limit(4, wait),
            limit(5, None),
        ];
        let scene = Scene::new(replies, &Arc::default());
        let outcome = scene.run();
        assert_eq!(error_of(&outcome).message, "429 slow down 4");
        let Some(OperationEvent::RetryEnd {
            success: false,
            attempt: 3,
            given_up: Some(given_up),
            ..
        }) = scene.events().pop()
        else {
            panic!("the end is not told")
        };
        let asked = &scene.provider.script().requests()[0].model;
        assert_eq!(
            (&given_up.provider, &given_up.model),
            (&asked.provider, &asked.id)
        );
        assert_eq!(
            (given_up.requests, given_up.last_error.as_str()),
            (4, "429 slow down 4")
        );
        let next = last.then(|| scene.world.time.now_ms() + 9000);
        assert_eq!(given_up.next_at_ms, next);
    }
}
