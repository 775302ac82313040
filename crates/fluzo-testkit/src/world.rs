//! A whole world for a run, made of doubles.

use std::sync::Arc;

use fluzo_agent::{
    AgentOptions, Effects, Gate, Hooks, NativeAgent, NoHooks, RunContext, RunSpec, Tool, ToolSet,
};
use fluzo_llm::{Message, Model, ThinkingLevel};
use serde_json::json;

use crate::{
    FakeTool, FixedTime, MemoryJournal, Reply, ScriptedHuman, ScriptedModel, ScriptedPolicy,
    WatchedTools,
};

/// Where the clock of a [`World`] stands, in Unix milliseconds.
pub const NOW: i64 = 1_700_000_000_000;

/// The five effects and the policy of an agent, each a double that can be asked
/// afterwards what happened.
#[derive(Clone)]
pub struct World {
    /// Answers requests.
    pub model: Arc<ScriptedModel>,
    /// Runs tools.
    pub tools: Arc<WatchedTools>,
    /// Answers questions.
    pub human: Arc<ScriptedHuman>,
    /// The clock.
    pub time: Arc<FixedTime>,
    /// Keeps messages.
    pub journal: Arc<MemoryJournal>,
    /// Judges calls.
    pub policy: Arc<ScriptedPolicy>,
}

impl World {
    /// A world whose model gives `replies`, where everything is allowed and nobody answers.
    pub fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::with_human(replies, ScriptedHuman::default())
    }

    /// The same with a person.
    pub fn with_human(replies: impl IntoIterator<Item = Reply>, human: ScriptedHuman) -> Self {
        let policy = Arc::new(ScriptedPolicy::new());
        Self {
            model: Arc::new(ScriptedModel::new(replies)),
            tools: Arc::new(WatchedTools::new(Gate::new(
                Arc::clone(&policy) as Arc<dyn fluzo_policy::Policy>
            ))),
            human: Arc::new(human),
            time: Arc::new(FixedTime::at(NOW)),
            journal: Arc::new(MemoryJournal::new()),
            policy,
        }
    }

    /// Its effects.
    pub fn effects(&self) -> Effects {
        Effects {
            model: Arc::clone(&self.model) as _,
            tools: Arc::clone(&self.tools) as _,
            human: Arc::clone(&self.human) as _,
            time: Arc::clone(&self.time) as _,
            journal: Arc::clone(&self.journal) as _,
        }
    }

    /// Its gate.
    pub fn gate(&self) -> Gate {
        Gate::new(Arc::clone(&self.policy) as _)
    }

    /// The native agent in this world.
    pub fn native(&self) -> NativeAgent {
        self.native_with(NoHooks, AgentOptions::default())
    }

    /// The native agent in this world with hooks and options.
    pub fn native_with(&self, hooks: impl Hooks + 'static, options: AgentOptions) -> NativeAgent {
        NativeAgent::new(self.effects(), self.gate(), Arc::new(hooks), options)
    }
}

/// A model without prices that takes text and can think.
pub fn model() -> Model {
    let json = json!({
        "id": "m1", "name": "Test model", "api": "test", "provider": "test", "baseUrl": "",
        "reasoning": true, "input": ["text"], "contextWindow": 100_000, "maxTokens": 4096,
    });
    match serde_json::from_value(json) {
        Ok(model) => model,
        Err(error) => panic!("the test model is no model: {error}"),
    }
}

/// A user message.
pub fn user(text: &str) -> Arc<Message> {
    Arc::new(Message::user(text, NOW))
}

/// A set of fake tools, each still in the test's hands.
pub fn tools<'a>(tools: impl IntoIterator<Item = &'a Arc<FakeTool>>) -> ToolSet {
    let upcast = |tool: &Arc<FakeTool>| Arc::clone(tool) as Arc<dyn Tool>;
    ToolSet::new(tools.into_iter().map(upcast))
}

/// A context with these tools and nothing said yet.
pub fn context(tools: ToolSet) -> RunContext {
    RunContext {
        system_prompt: Arc::from("system"),
        model: Arc::new(model()),
        thinking: ThinkingLevel::Off,
        tools,
        messages: Vec::new(),
        session_id: None,
    }
}

/// A prompt of one user message with these tools.
pub fn spec(prompt: &str, tools: ToolSet) -> RunSpec {
    RunSpec {
        prompt: vec![user(prompt)],
        context: context(tools),
    }
}
