//! The state at every event, and what a run is made of.

use std::sync::{Arc, Mutex};

use fluzo_agent::{Agent, Listener, RunEnd, ToolSet};
use fluzo_llm::{
    AgentEvent, BoxFuture, Content, Phase, StateCell, StreamError, StreamErrorKind, StreamEvent,
    ThinkingLevel,
};
use fluzo_testkit::polling::poll_until_stalled;
use fluzo_testkit::{FakeTool, Reply, Switch, context, poll_to_end, reply, spec, user};
use serde_json::json;

use crate::stage::{Stage, said, tool};

#[test]
fn is_streaming_exactly_while_a_run_is_active() {
    let stage = Stage::new(
        [reply::calls([("c1", "a", json!({}))]), reply::text(["ok"])],
        [tool(FakeTool::new("a"))],
    );
    let streaming = || stage.agent.state().read(|state| state.is_streaming);
    assert!(!streaming());
    let run = stage.start();
    assert!(streaming());
    poll_to_end(run);
    assert!(!streaming());
    assert!(stage.log.seen().iter().all(|seen| seen.is_streaming));
}

#[test]
fn the_phase_can_be_read_at_each_step_of_a_run() {
    let [asked, begun, ran] = [Switch::new(), Switch::new(), Switch::new()];
    let slow = tool(FakeTool::new("slow").wait(&ran));
    let first = Reply::new()
        .wait(&asked)
        .open_text(["a"])
        .wait(&begun)
        .call("c1", "slow", "{}");
    let stage = Stage::new([first, reply::never_ending([])], [slow]);
    let phase = || stage.agent.state().phase();
    assert_eq!(phase(), Phase::Idle);
    let mut run = stage.start();
    assert_eq!(phase(), Phase::Thinking);
    let steps = [
        (None, Phase::Thinking),
        (Some(asked), Phase::Streaming),
        (Some(begun), Phase::ExecutingTool),
        (Some(ran), Phase::Streaming),
    ];
    for (switch, expected) in steps {
        switch.iter().for_each(Switch::flip);
        assert!(poll_until_stalled(&mut run).is_pending());
        assert_eq!(phase(), expected);
    }
    stage.agent.cancel();
    poll_to_end(run);
    assert_eq!(phase(), Phase::Idle);
}

#[test]
fn pending_calls_are_those_that_run() {
    let go = Switch::new();
    let slow = tool(FakeTool::new("slow").wait(&go));
    let fast = tool(FakeTool::new("fast").flip(&go));
    let calls = [
        ("c1", "slow", json!({})),
        ("c2", "fast", json!({})),
        ("c3", "gone", json!({})),
    ];
    let stage = Stage::new([reply::calls(calls), reply::text(["ok"])], [slow, fast]);
    stage.run();
    let pending = |name: &str| {
        let seen = stage
            .log
            .seen()
            .into_iter()
            .find(|seen| seen.name == name)
            .unwrap();
        (seen.pending.join(" "), seen.phase)
    };
    let rows = [
        ("tool_execution_start(c1)", "c1", Phase::ExecutingTool),
        ("tool_execution_start(c2)", "c1 c2", Phase::ExecutingTool),
        ("tool_execution_start(c3)", "c1 c2 c3", Phase::ExecutingTool),
        ("tool_execution_end(c3)", "c1 c2", Phase::ExecutingTool),
        ("tool_execution_end(c2)", "c1", Phase::ExecutingTool),
        ("tool_execution_end(c1)", "", Phase::Thinking),
        ("turn_end([c1,c2,c3])", "", Phase::Thinking),
    ];
    for (name, ids, phase) in rows {
        assert_eq!(pending(name), (ids.to_owned(), phase), "{name}");
    }
}

/// Compares the partial message with what the deltas add up to, at each event.
#[derive(Default)]
struct Adds(Mutex<Vec<String>>);

impl Listener for Adds {
    fn on_event<'a>(&'a self, event: &'a AgentEvent, state: &'a StateCell) -> BoxFuture<'a, ()> {
        let mut blocks = self.0.lock().unwrap();
        match event {
            AgentEvent::MessageUpdate { delta } => {
                add(&mut blocks, delta);
                let partial = state.read(|state| state.streaming_message.clone()).unwrap();
                let texts: Vec<_> = partial.content.iter().map(text_of).collect();
                assert_eq!(texts, *blocks, "{delta:?}");
            }
            AgentEvent::MessageStart { message } if message.as_assistant().is_some() => {
                assert!(state.read(|state| state.streaming_message.is_some()));
            }
            _ => assert!(
                state.read(|state| state.streaming_message.is_none()),
                "{}",
                event.name()
            ),
        }
        Box::pin(std::future::ready(()))
    }
}

fn add(blocks: &mut Vec<String>, delta: &StreamEvent) {
    match delta {
        StreamEvent::TextStart { .. }
        | StreamEvent::ThinkingStart { .. }
        | StreamEvent::ToolCallStart { .. } => blocks.push(String::new()),
        StreamEvent::TextDelta { index, delta }
        | StreamEvent::ThinkingDelta { index, delta }
        | StreamEvent::ToolCallDelta { index, delta } => blocks[*index].push_str(delta),
        StreamEvent::ToolCallEnd { index, call } => {
            blocks[*index] = serde_json::to_string(&call.arguments).unwrap();
        }
        _ => {}
    }
}

fn text_of(block: &Content) -> String {
    match block {
        Content::Text(text) => text.text.clone(),
        Content::Thinking(thinking) => thinking.thinking.clone(),
        Content::ToolCall(call) if call.open => call.partial_arguments.clone(),
        Content::ToolCall(call) => serde_json::to_string(&call.arguments).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_partial_message_is_what_its_deltas_add_up_to() {
    let all = Reply::new()
        .thinking(["let ", "me ", "see"])
        .text(["Hel", "lo"])
        .call_in_chunks("c1", "a", [r#"{"pa"#, r#"th":"#, r#""x"}"#]);
    let stage = Stage::new([all], [tool(FakeTool::new("a").terminates("bye"))]);
    let _subscription = stage.agent.subscribe(Arc::new(Adds::default()));
    stage.run();
    assert_eq!(stage.events("message_update").len(), 14);
}

#[test]
fn error_message_is_the_last_runs_error() {
    let lost = Reply::new()
        .text(["par"])
        .fail(StreamError::new(StreamErrorKind::Transient, "lost"));
    let stage = Stage::new([lost, reply::text(["ok"])], []);
    let error = || {
        stage
            .agent
            .state()
            .read(|state| state.error_message.clone())
    };
    assert!(matches!(stage.run().end, RunEnd::Failed(_)));
    assert_eq!(error().as_deref(), Some("lost"));
    let at_end = stage
        .log
        .seen()
        .into_iter()
        .find(|seen| seen.name == "turn_end([])")
        .unwrap();
    assert_eq!(at_end.error.as_deref(), Some("lost"));
    let run = stage.start();
    assert_eq!(error(), None);
    poll_to_end(run);
    assert_eq!(error(), None);
}

#[test]
fn a_callers_lists_are_its_own() {
    let stage = Stage::new([reply::text(["ok"])], []);
    let mut messages = vec![user("before")];
    let mut list: Vec<Arc<dyn fluzo_agent::Tool>> = vec![tool(FakeTool::new("a"))];
    let mut given = spec("hi", ToolSet::new(list.iter().cloned()));
    given.context.messages.clone_from(&messages);
    let run = stage.agent.start(given).unwrap();
    messages.push(user("sneaked in"));
    list.push(tool(FakeTool::new("b")));
    poll_to_end(run);
    stage
        .agent
        .state()
        .read(|state| assert_eq!(said(&state.messages), "before hi |"));
    let request = stage.world.model.requests().remove(0);
    assert_eq!((request.transcript.len(), request.tools.len()), (2, 1));
}

/// The context of an agent may change in mid-run; the run goes on with what it got.
#[test]
fn a_run_works_on_a_snapshot_until_the_next_run() {
    let go = Switch::new();
    let slow = tool(FakeTool::new("slow").wait(&go));
    let replies = [
        reply::calls([("c1", "slow", json!({}))]),
        reply::text(["a"]),
        reply::text(["b"]),
    ];
    let stage = Stage::new(replies, [slow]);
    let mut mine = spec("hi", stage.tools.clone());
    let mut run = stage.agent.start(mine.clone()).unwrap();
    assert!(poll_until_stalled(&mut run).is_pending());
    mine.context.tools = ToolSet::default();
    mine.context.system_prompt = "changed".into();
    go.flip();
    poll_to_end(run);
    let run = stage.agent.start(mine).unwrap();
    poll_to_end(run);
    let prompts: Vec<_> = stage
        .world
        .model
        .requests()
        .iter()
        .map(|r| (r.system_prompt.to_string(), r.tools.len()))
        .collect();
    let old = ("system".to_owned(), 1);
    assert_eq!(prompts, [old.clone(), old, ("changed".to_owned(), 0)]);
}

#[test]
fn a_request_is_made_of_model_context_and_options() {
    let stage = Stage::new([reply::text(["ok"])], []);
    let mut context = context(fluzo_testkit::tools([&tool(FakeTool::new("a"))]));
    context.thinking = ThinkingLevel::Low;
    context.session_id = Some("s1".into());
    context.messages = vec![user("before")];
    let prompt = vec![user("hi")];
    poll_to_end(
        stage
            .agent
            .start(fluzo_agent::RunSpec { prompt, context })
            .unwrap(),
    );
    let request = stage.world.model.requests().remove(0);
    assert_eq!(
        (request.model.id.as_str(), &*request.system_prompt),
        ("m1", "system")
    );
    assert_eq!(
        (request.transcript.len(), request.tools[0].name.as_str()),
        (2, "a")
    );
    let told = serde_json::to_value(&request.tools[0]).unwrap();
    assert!(
        told.as_object()
            .unwrap()
            .keys()
            .eq(["name", "description", "parameters"])
    );
    assert_eq!(request.options.thinking, ThinkingLevel::Low);
    assert_eq!(request.options.session_id.as_deref(), Some("s1"));
}

#[test]
fn all_ten_kinds_of_event_occur() {
    let update = tool(FakeTool::new("a").update("u"));
    let stage = Stage::new(
        [reply::calls([("c1", "a", json!({}))]), reply::text(["ok"])],
        [update],
    );
    stage.run();
    let mut kinds: Vec<_> = stage
        .log
        .seen()
        .iter()
        .map(|seen| seen.event.name())
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    let expected = [
        "agent_end",
        "agent_start",
        "message_end",
        "message_start",
        "message_update",
        "tool_execution_end",
        "tool_execution_start",
        "tool_execution_update",
        "turn_end",
        "turn_start",
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn turn_end_carries_the_response_and_its_results() {
    let calls = [("c1", "a", json!({})), ("c2", "gone", json!({}))];
    let stage = Stage::new(
        [reply::calls(calls), reply::text(["ok"])],
        [tool(FakeTool::new("a"))],
    );
    let outcome = stage.run();
    let ends = stage
        .log
        .seen()
        .into_iter()
        .filter_map(|seen| match seen.event {
            AgentEvent::TurnEnd {
                message,
                tool_results,
            } => Some((message, tool_results)),
            _ => None,
        });
    let ends: Vec<_> = ends.collect();
    assert_eq!(ends[0].0, outcome.messages[1]);
    assert_eq!(ends[0].1, outcome.messages[2..4]);
    assert_eq!((&ends[1].0, ends[1].1.len()), (&outcome.messages[4], 0));
}
