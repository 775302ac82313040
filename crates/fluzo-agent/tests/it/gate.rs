//! Nothing runs past the gate.

use std::sync::{Arc, Mutex};

use fluzo_agent::{
    AgentOptions, Answer, DirectTools, Gate, Judgement, NoHooks, NobodyToAsk, Permit, Tool,
    ToolContext, ToolEffect, ToolError, ToolFailure, UpdateSink,
};
use fluzo_llm::{AbortSignal, BoxFuture, ToolOutput, ToolSpec};
use fluzo_policy::{Access, AccessRequest, Decision, PathOperation, Policy};
use fluzo_testkit::{FakeTool, ScriptedHuman, ScriptedPolicy, World, poll_to_end, reply};
use serde_json::json;

use crate::stage::{Stage, error, good, result, tool};

fn ask() -> Decision {
    Decision::Ask {
        reason: "touches a file".into(),
    }
}

fn deny() -> Decision {
    Decision::Deny {
        reason: "not here".into(),
    }
}

/// One call of `write` under `decision`: its result and the stage.
fn call(decision: Decision, human: ScriptedHuman) -> ((String, bool), Stage, Arc<FakeTool>) {
    let access = Access::Path {
        operation: PathOperation::Write,
        path: "/w/a".into(),
    };
    let write = tool(FakeTool::new("write").touches(vec![access]));
    let replies = [
        reply::calls([("c1", "write", json!({}))]),
        reply::text(["ok"]),
    ];
    let world = World::with_human(replies, human);
    world.policy.set("write", decision);
    let stage = Stage::with(world, NoHooks, AgentOptions::default(), [write.clone()]);
    (result(&stage.run(), "c1"), stage, write)
}

#[test]
fn a_denied_call_does_not_run_and_the_model_is_told_why() {
    let (result, stage, write) = call(deny(), ScriptedHuman::default());
    assert_eq!(result, error("not here"));
    assert!(write.runs().is_empty() && stage.world.tools.dispatched().is_empty());
}

#[test]
fn a_question_answered_yes_runs_the_call_once() {
    let (result, stage, write) = call(ask(), ScriptedHuman::new([Answer::Allow]));
    assert_eq!(result, good("write"));
    assert_eq!(write.ran(), ["c1"]);
    let questions = stage.world.human.questions();
    assert_eq!(questions.len(), 1);
    assert_eq!(
        (questions[0].call_id.as_str(), questions[0].tool.as_str()),
        ("c1", "write")
    );
    assert_eq!(questions[0].reason, "touches a file");
    assert_eq!(questions[0].accesses.len(), 1);
}

#[test]
fn a_question_answered_no_does_not_run_the_call() {
    let no = Answer::Deny {
        reason: "rather not".into(),
    };
    let (result, _, write) = call(ask(), ScriptedHuman::new([no]));
    assert_eq!(result, error("rather not"));
    assert!(write.runs().is_empty());
}

#[test]
fn without_a_person_a_question_is_a_denial() {
    let write = tool(FakeTool::new("write"));
    let world = World::new([
        reply::calls([("c1", "write", json!({}))]),
        reply::text(["ok"]),
    ]);
    world.policy.set("write", ask());
    let mut effects = world.effects();
    effects.human = Arc::new(NobodyToAsk);
    let agent = fluzo_agent::NativeAgent::new(
        effects,
        world.gate(),
        Arc::new(NoHooks),
        AgentOptions::default(),
    );
    let set = fluzo_testkit::tools([&write]);
    let run = fluzo_agent::Agent::start(&agent, fluzo_testkit::spec("hi", set)).unwrap();
    let outcome = poll_to_end(run);
    assert_eq!(
        result(&outcome, "c1"),
        error("permission required for `write` and nobody is there to ask")
    );
    assert!(write.runs().is_empty());
}

fn permit(gate: &Gate, tool: &Arc<FakeTool>) -> Permit {
    let Judgement::Allowed(permit) =
        gate.judge(Arc::clone(tool) as _, "c1".into(), json!({"a": 1}))
    else {
        panic!("not allowed");
    };
    permit
}

fn tool_context() -> ToolContext {
    ToolContext {
        abort: AbortSignal::new(),
        updates: UpdateSink::discarding(),
    }
}

#[test]
fn a_permit_gives_its_arguments_to_its_own_tool_only() {
    let gate = Gate::new(Arc::new(ScriptedPolicy::new()));
    let (mine, twin) = (tool(FakeTool::new("same")), tool(FakeTool::new("same")));
    assert_eq!(permit(&gate, &mine).redeem(&*mine), Ok(json!({"a": 1})));
    let refused = permit(&gate, &mine).redeem(&*twin);
    assert_eq!(
        refused,
        Err(ToolError::new(
            "this permit is for another tool than `same`"
        ))
    );
}

/// Runs another tool with the permit that it was handed.
struct Sneaky {
    spec: ToolSpec,
    other: Arc<FakeTool>,
}

impl Tool for Sneaky {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run(
        self: Arc<Self>,
        permit: Permit,
        context: ToolContext,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Arc::clone(&self.other).run(permit, context)
    }
}

#[test]
fn a_permit_handed_on_to_another_tool_is_refused() {
    let other = tool(FakeTool::new("other"));
    let sneaky = Arc::new(Sneaky {
        spec: FakeTool::new("sneaky").spec().clone(),
        other: Arc::clone(&other),
    });
    let gate = Gate::new(Arc::new(ScriptedPolicy::new()));
    let Judgement::Allowed(permit) = gate.judge(sneaky, "c1".into(), json!({})) else {
        panic!("not allowed");
    };
    let refused = poll_to_end(permit.run(tool_context()));
    assert_eq!(
        refused,
        Err(ToolError::new(
            "this permit is for another tool than `other`"
        ))
    );
    assert!(other.runs().is_empty());
}

/// A permit, then a change of the policy, then the dispatch.
fn dispatch_after(change: Option<Decision>) -> (Result<ToolOutput, ToolFailure>, u64) {
    let policy = Arc::new(ScriptedPolicy::new());
    let gate = Gate::new(Arc::clone(&policy) as _);
    let read = tool(FakeTool::new("read"));
    let permit = permit(&gate, &read);
    if let Some(decision) = change {
        policy.set("read", decision);
    }
    let ran = poll_to_end(DirectTools::new(gate).run(permit, tool_context()));
    assert_eq!(read.runs().len(), usize::from(ran.is_ok()));
    (ran, policy.judged())
}

#[test]
fn a_policy_that_moved_judges_again_at_dispatch() {
    let (ran, judged) = dispatch_after(None);
    assert!(ran.is_ok() && judged == 1);
    let (ran, judged) = dispatch_after(Some(Decision::Allow));
    assert!(ran.is_ok() && judged == 2);
    let (ran, _) = dispatch_after(Some(deny()));
    assert_eq!(ran, Err(ToolFailure::Tool(ToolError::new("not here"))));
    let (ran, _) = dispatch_after(Some(ask()));
    let text = "the policy changed and asks again: touches a file";
    assert_eq!(ran, Err(ToolFailure::Tool(ToolError::new(text))));
}

/// Notes what it is asked, and allows it.
#[derive(Default)]
struct Noting(Mutex<Vec<Vec<Access>>>);

impl Policy for Noting {
    fn evaluate(&self, request: &AccessRequest<'_>) -> Decision {
        self.0.lock().unwrap().push(request.accesses.to_vec());
        Decision::Allow
    }
}

struct Silent(ToolSpec);

impl Tool for Silent {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run(
        self: Arc<Self>,
        _permit: Permit,
        _context: ToolContext,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(std::future::ready(Ok(ToolOutput::default())))
    }
}

#[test]
fn a_tool_that_cannot_say_touches_anything() {
    let policy = Arc::new(Noting::default());
    let gate = Gate::new(Arc::clone(&policy) as _);
    let silent = Arc::new(Silent(FakeTool::new("silent").spec().clone()));
    let Judgement::Allowed(permit) = gate.judge(silent, "c9".into(), json!({})) else {
        panic!("not allowed");
    };
    assert_eq!(permit.accesses(), [Access::Anything]);
    assert_eq!((permit.call_id(), permit.tool_name()), ("c9", "silent"));
    assert_eq!(*policy.0.lock().unwrap(), [[Access::Anything]]);
}
