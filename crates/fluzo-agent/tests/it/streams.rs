//! Providers that do not keep to the contract.

use fluzo_agent::{Agent, RunEnd};
use fluzo_llm::{BoxFuture, EventStream, StopReason, StreamErrorKind, StreamEvent, content};
use fluzo_testkit::polling::poll_until_stalled;
use fluzo_testkit::{FakeTool, Reply, World, poll_to_end, reply, spec};

use crate::stage::{OPENING, Stage, tool};

fn kind(end: &RunEnd) -> Option<StreamErrorKind> {
    match end {
        RunEnd::Failed(error) => Some(error.kind),
        _ => None,
    }
}

#[test]
fn a_stream_without_its_last_event_is_incomplete() {
    let replies = [
        Reply::without_start().cut(),
        Reply::new().cut(),
        reply::cut(["par"]),
        Reply::new().open_text(["par"]).cut(),
        Reply::new().call("c1", "read", "{}").cut(),
        Reply::new().open_call("c1", "read", [r#"{"a"#]).cut(),
    ];
    let read = tool(FakeTool::new("read"));
    for reply in replies {
        let stage = Stage::new([reply.clone()], [read.clone()]);
        let outcome = stage.run();
        assert_eq!(
            kind(&outcome.end),
            Some(StreamErrorKind::Incomplete),
            "{reply:?}"
        );
        let last = outcome
            .messages
            .last()
            .unwrap()
            .as_assistant()
            .unwrap()
            .clone();
        assert_eq!(last.stop_reason, StopReason::Error);
        assert!(last.error_message.is_some());
        let end = stage.frame(stage.log.frame().len() - 3);
        assert_eq!(
            end,
            ["message_end(assistant error)", "turn_end([])", "agent_end"]
        );
    }
    assert!(read.runs().is_empty());
}

#[test]
fn a_provider_that_ignores_an_abort_does_not_keep_the_run() {
    for reply in [
        Reply::without_start().forever(),
        Reply::new().open_text(["a"]).forever(),
    ] {
        let stage = Stage::new([reply], []);
        let mut run = stage.start();
        assert!(poll_until_stalled(&mut run).is_pending());
        stage.agent.cancel();
        assert_eq!(poll_to_end(run).end, RunEnd::Aborted);
    }
}

/// Sends text for ever and never looks at the abort signal.
struct Flood;

impl fluzo_agent::ModelEffect for Flood {
    fn request<'a>(
        &'a self,
        _request: fluzo_llm::ModelRequest,
        _abort: fluzo_llm::AbortSignal,
    ) -> BoxFuture<'a, Result<EventStream, fluzo_agent::Halt>> {
        let delta = || StreamEvent::TextDelta {
            index: 0,
            delta: "x".into(),
        };
        let start =
            futures_util::stream::iter([StreamEvent::Start, StreamEvent::TextStart { index: 0 }]);
        let rest = futures_util::stream::repeat_with(delta);
        let stream: EventStream = Box::pin(futures_util::StreamExt::chain(start, rest));
        Box::pin(std::future::ready(Ok(stream)))
    }
}

#[test]
fn a_provider_that_floods_after_an_abort_is_left() {
    /// Aborts at the third delta.
    struct Stops(std::sync::OnceLock<std::sync::Arc<dyn Agent>>);
    impl fluzo_agent::Listener for Stops {
        fn on_event<'a>(
            &'a self,
            _event: &'a fluzo_llm::AgentEvent,
            state: &'a fluzo_llm::StateCell,
        ) -> BoxFuture<'a, ()> {
            let text = state.read(|state| {
                let partial = state.streaming_message.as_ref();
                partial.map(|message| content::joined_text(&message.content))
            });
            if text.as_deref() == Some("xxx") {
                self.0.get().unwrap().cancel();
            }
            Box::pin(std::future::ready(()))
        }
    }
    let world = World::new([]);
    let mut effects = world.effects();
    effects.model = std::sync::Arc::new(Flood);
    let agent = fluzo_agent::NativeAgent::new(
        effects,
        world.gate(),
        std::sync::Arc::new(fluzo_agent::NoHooks),
        Default::default(),
    );
    let agent: std::sync::Arc<dyn Agent> = std::sync::Arc::new(agent);
    let stops = std::sync::Arc::new(Stops(Default::default()));
    let _ = stops.0.set(std::sync::Arc::clone(&agent));
    let _subscription = agent.subscribe(stops);
    let outcome = poll_to_end(agent.start(spec("hi", Default::default())).unwrap());
    assert_eq!(outcome.end, RunEnd::Aborted);
    let last = outcome.messages.last().unwrap().as_assistant().unwrap();
    assert_eq!(content::joined_text(&last.content), "xxx");
}

#[test]
fn blocks_closed_after_an_abort_are_shown() {
    let closes = Reply::new()
        .open_text(["a"])
        .pause()
        .event(StreamEvent::TextEnd {
            index: 0,
            signature: None,
        })
        .until_abort();
    let stage = Stage::new([closes], []);
    let mut run = stage.start();
    // One poll: the reply pauses before it closes its block.
    assert!(fluzo_testkit::poll_once(&mut run).is_pending());
    stage.agent.cancel();
    assert_eq!(poll_to_end(run).end, RunEnd::Aborted);
    let updates = stage.events("message_update");
    assert_eq!(
        updates.last().map(String::as_str),
        Some("message_update:text_end")
    );
}

#[test]
fn events_without_a_start_imply_one() {
    let stage = Stage::new([Reply::without_start().text(["a"])], []);
    assert_eq!(stage.run().end, RunEnd::Completed);
    let rest = ["message_end(assistant)", "turn_end([])", "agent_end"];
    assert_eq!(stage.log.frame(), [&OPENING[..], &rest].concat());
}

#[test]
fn a_second_start_is_not_shown() {
    let stage = Stage::new([Reply::new().event(StreamEvent::Start).text(["a"])], []);
    stage.run();
    assert_eq!(stage.events("message_start(assistant)").len(), 1);
}

#[test]
fn a_failed_stream_says_what_happened() {
    for kind in [
        StreamErrorKind::Connect,
        StreamErrorKind::Timeout,
        StreamErrorKind::Overflow,
    ] {
        let stage = Stage::new([reply::failing(kind, "what happened")], []);
        let outcome = stage.run();
        assert_eq!(self::kind(&outcome.end), Some(kind));
        let last = outcome.messages.last().unwrap().as_assistant().unwrap();
        assert_eq!(last.error_message.as_deref(), Some("what happened"));
    }
}
