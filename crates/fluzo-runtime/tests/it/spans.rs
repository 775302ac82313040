//! Every effect opens a span with its name from the table.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use fluzo_agent::{Agent, AgentOptions, Answer, NativeAgent, NoHooks};
use fluzo_policy::Decision;
use fluzo_runtime::compose::{Layers, compose};
use fluzo_runtime::spans::EFFECTS;
use fluzo_testkit::reply::{calls, text};
use fluzo_testkit::{FakeTool, ScriptedHuman, World, poll_to_end, spec, tools};
use serde_json::json;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Keeps the names of all spans.
#[derive(Clone, Default)]
struct Names(Arc<Mutex<BTreeSet<&'static str>>>);

impl Subscriber for Names {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.0.lock().unwrap().insert(span.metadata().name());
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Whether a span is recorded is decided when its place in the code is first reached, with the
/// subscribers of that moment; so this runs in a process where nothing else reaches it first.
#[test]
fn each_effect_has_the_span_that_the_table_names() {
    const ALONE: &str = "FLUZO_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let name = "spans::each_effect_has_the_span_that_the_table_names";
        let run = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(ALONE, "1")
            .output()
            .unwrap();
        let shown = String::from_utf8_lossy(&run.stdout);
        assert!(
            run.status.success() && shown.contains("1 passed"),
            "{run:?}"
        );
        return;
    }
    let names = Names::default();
    tracing::subscriber::with_default(names.clone(), || {
        let human = ScriptedHuman::new([Answer::Allow]);
        let replies = [calls([("c1", "one", json!({}))]), text(["ok"])];
        let world = World::with_human(replies, human);
        world.policy.set(
            "one",
            Decision::Ask {
                reason: "test".into(),
            },
        );
        let effects = compose(
            world.effects(),
            &Layers {
                record: true,
                drive: None,
                ..Layers::default()
            },
        );
        let agent = NativeAgent::new(
            effects.clone(),
            world.gate(),
            Arc::new(NoHooks),
            AgentOptions::default(),
        );
        let tool = Arc::new(FakeTool::new("one"));
        poll_to_end(agent.start(spec("go", tools([&tool]))).unwrap());
        poll_to_end(effects.time.sleep(std::time::Duration::ZERO));
    });
    let expected: BTreeSet<&str> = EFFECTS.into_iter().collect();
    assert_eq!(*names.0.lock().unwrap(), expected);
}
