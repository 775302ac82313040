//! Calls of one response side by side and one after the other.

use std::sync::{Arc, Mutex};

use fluzo_agent::{
    AfterToolCall, Permit, RunEnd, Tool, ToolContext, ToolError, ToolSet, UpdateSink,
};
use fluzo_llm::{BoxFuture, ToolOutput, ToolSpec};
use fluzo_testkit::polling::poll_until_stalled;
use fluzo_testkit::{FakeTool, Reply, ScriptedHooks, Switch, World, poll_to_end, reply, spec};
use serde_json::{Value, json};
use tokio::sync::Barrier;

use crate::stage::{Stage, good, result, said, tool};

fn calls(names: &[&str]) -> Reply {
    let ids = ["c1", "c2", "c3", "c4"];
    reply::calls(
        ids.into_iter()
            .zip(names)
            .map(|(id, name)| (id, *name, json!({}))),
    )
}

#[test]
fn parallel_calls_meet_while_all_are_running() {
    let barrier = Arc::new(Barrier::new(3));
    let meets = tool(FakeTool::new("meets").meet(&barrier));
    let stage = Stage::new([calls(&["meets"; 3]), reply::text(["ok"])], [meets]);
    assert_eq!(said(&stage.run().messages), "hi | =c1 =c2 =c3 |");
}

#[test]
fn parallel_calls_are_prepared_in_source_order_before_any_runs() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let note = |what: &str, id: &str| format!("{what} {id}");
    let (judged, ran) = (Arc::clone(&order), Arc::clone(&order));
    let fakes = ["a", "b", "c"].map(|name| {
        let ran = Arc::clone(&ran);
        tool(FakeTool::new(name).computes(move |_| {
            ran.lock().unwrap().push(note("run", name));
            Ok(ToolOutput::text(name))
        }))
    });
    let hooks = ScriptedHooks::new().before(move |call| {
        judged.lock().unwrap().push(note("judge", call.tool));
        Default::default()
    });
    Stage::hooked([calls(&["a", "b", "c"]), reply::text(["ok"])], fakes, hooks).run();
    let expected = ["judge a", "judge b", "judge c", "run a", "run b", "run c"];
    assert_eq!(*order.lock().unwrap(), expected);
}

#[test]
fn an_update_sent_in_the_poll_that_completes_the_call_comes_before_its_end() {
    let quick = tool(FakeTool::new("quick").update("1").update("2"));
    let slow = tool(FakeTool::new("slow").update("3").pause().update("4"));
    let stage = Stage::new(
        [calls(&["quick", "slow"]), reply::text(["ok"])],
        [quick, slow],
    );
    stage.run();
    for id in ["c1", "c2"] {
        let of_call = stage.events("tool_execution");
        let of_call: Vec<_> = of_call
            .iter()
            .filter(|name| name.ends_with(&format!("({id})")))
            .collect();
        let updates = [
            format!("tool_execution_update({id})"),
            format!("tool_execution_update({id})"),
        ];
        let expected = [
            format!("tool_execution_start({id})"),
            updates[0].clone(),
            updates[1].clone(),
            format!("tool_execution_end({id})"),
        ];
        assert!(of_call.into_iter().eq(&expected), "{id}");
    }
}

#[test]
fn a_flood_of_updates_is_bounded_and_the_newest_is_shown() {
    let flood = (0..1000).fold(FakeTool::new("flood"), |tool, n| {
        tool.update(&n.to_string())
    });
    let stage = Stage::new([calls(&["flood"]), reply::text(["ok"])], [tool(flood)]);
    stage.run();
    let updates = stage.events("tool_execution_update");
    assert!((1..10).contains(&updates.len()), "{}", updates.len());
    let last = stage
        .log
        .seen()
        .into_iter()
        .rev()
        .find_map(|seen| match seen.event {
            fluzo_llm::AgentEvent::ToolExecutionUpdate { partial, .. } => Some(partial),
            _ => None,
        });
    assert_eq!(last, Some(ToolOutput::text("999")));
}

/// Gives its update sink away, as a tool does that leaves something running.
struct Leaky {
    spec: ToolSpec,
    sink: Mutex<Option<UpdateSink>>,
}

impl Tool for Leaky {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run(
        self: Arc<Self>,
        permit: Permit,
        context: ToolContext,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        *self.sink.lock().unwrap() = Some(context.updates);
        let redeemed: Result<Value, _> = permit.redeem(&*self);
        Box::pin(std::future::ready(
            redeemed.map(|_| ToolOutput::text("left")),
        ))
    }
}

#[test]
fn an_update_after_the_end_of_a_call_is_not_shown() {
    let spec_of = FakeTool::new("leaky");
    let leaky = Arc::new(Leaky {
        spec: spec_of.spec().clone(),
        sink: Mutex::default(),
    });
    let go = Switch::new();
    let slow = tool(FakeTool::new("slow").wait(&go));
    let world = World::new([calls(&["leaky", "slow"]), reply::text(["ok"])]);
    let stage = Stage::with(world, fluzo_agent::NoHooks, Default::default(), []);
    let both = ToolSet::new([leaky.clone() as Arc<dyn Tool>, slow]);
    let mut run = fluzo_agent::Agent::start(&stage.agent, spec("hi", both)).unwrap();
    assert!(poll_until_stalled(&mut run).is_pending());
    leaky
        .sink
        .lock()
        .unwrap()
        .as_ref()
        .unwrap()
        .send(ToolOutput::text("late"));
    assert!(poll_until_stalled(&mut run).is_pending());
    go.flip();
    poll_to_end(run);
    assert!(stage.events("tool_execution_update").is_empty());
}

#[test]
fn a_batch_in_which_all_terminate_ends_the_run() {
    let bye = tool(FakeTool::new("bye").terminates("bye"));
    let stage = Stage::new([calls(&["bye", "bye"])], [bye]);
    let outcome = stage.run();
    assert_eq!(outcome.end, RunEnd::Completed);
    assert_eq!(said(&outcome.messages), "hi | =c1 =c2");
    assert_eq!(stage.world.model.requests().len(), 1);
}

#[test]
fn a_batch_in_which_only_some_terminate_goes_on() {
    let bye = || tool(FakeTool::new("bye").terminates("bye"));
    let more = || tool(FakeTool::new("more"));
    for names in [["bye", "more"], ["more", "bye"], ["bye", "missing"]] {
        let stage = Stage::new([calls(&names), reply::text(["ok"])], [bye(), more()]);
        assert_eq!(said(&stage.run().messages), "hi | =c1 =c2 |", "{names:?}");
    }
}

#[test]
fn sequential_calls_terminate_by_the_same_rule() {
    let bye = || tool(FakeTool::new("bye").terminates("bye").sequential());
    let stage = Stage::new([calls(&["bye", "bye"])], [bye()]);
    assert_eq!(said(&stage.run().messages), "hi | =c1 =c2");
    let more = tool(FakeTool::new("more"));
    let stage = Stage::new(
        [calls(&["bye", "more"]), reply::text(["ok"])],
        [bye(), more],
    );
    assert_eq!(said(&stage.run().messages), "hi | =c1 =c2 |");
}

#[test]
fn what_the_after_hook_says_of_termination_counts() {
    let plain = tool(FakeTool::new("plain"));
    let hooks = ScriptedHooks::new().after(|_, _, _| AfterToolCall {
        terminate: Some(true),
        ..AfterToolCall::default()
    });
    let stage = Stage::hooked([calls(&["plain"])], [plain], hooks);
    let outcome = stage.run();
    assert_eq!(result(&outcome, "c1"), good("plain"));
    assert_eq!(stage.world.model.requests().len(), 1);
}

#[test]
fn a_second_call_with_the_same_id_is_not_run() {
    let (first, second) = (tool(FakeTool::new("a")), tool(FakeTool::new("b")));
    let twice = [("c1", "a", json!({})), ("c1", "b", json!({}))];
    let stage = Stage::new(
        [reply::calls(twice), reply::text(["ok"])],
        [first.clone(), second.clone()],
    );
    let outcome = poll_to_end(stage.start());
    assert_eq!(said(&outcome.messages), "hi | =c1 =c1 |");
    assert_eq!((first.runs().len(), second.runs().len()), (1, 0));
    // The model is told of the one that ran.
    let request = &stage.world.model.requests()[1];
    let results: Vec<_> = request.transcript.iter().skip(2).collect();
    let [fluzo_llm::ModelMessage::ToolResult(result)] = results[..] else {
        panic!("{results:?}");
    };
    assert_eq!((result.tool_name.as_str(), result.is_error), ("a", false));
}

#[test]
fn a_failing_tool_beside_others_fails_alone() {
    let bad = tool(FakeTool::new("bad").pause().fails("no such file"));
    let fine = tool(FakeTool::new("fine"));
    let stage = Stage::new([calls(&["bad", "fine"]), reply::text(["ok"])], [bad, fine]);
    let outcome = stage.run();
    assert_eq!(result(&outcome, "c1"), crate::stage::error("no such file"));
    assert_eq!(result(&outcome, "c2"), good("fine"));
}
