//! An agent in a world of doubles, with its tools and a log of its events.

use std::sync::Arc;

use fluzo_agent::{
    Agent, AgentOptions, Hooks, NativeAgent, NoHooks, Run, RunOutcome, Subscription, ToolSet,
};
use fluzo_llm::{AgentEvent, Message, content};
use fluzo_testkit::{
    EventLog, FakeTool, Reply, World, assert_valid_history, poll_to_end, spec, tools,
};

pub struct Stage {
    pub world: World,
    pub agent: NativeAgent,
    pub log: Arc<EventLog>,
    pub tools: ToolSet,
    _subscription: Subscription,
}

/// A tool that the test keeps.
pub fn tool(fake: FakeTool) -> Arc<FakeTool> {
    Arc::new(fake)
}

impl Stage {
    pub fn new(
        replies: impl IntoIterator<Item = Reply>,
        fakes: impl IntoIterator<Item = Arc<FakeTool>>,
    ) -> Self {
        Self::with(World::new(replies), NoHooks, AgentOptions::default(), fakes)
    }

    pub fn hooked(
        replies: impl IntoIterator<Item = Reply>,
        fakes: impl IntoIterator<Item = Arc<FakeTool>>,
        hooks: impl Hooks + 'static,
    ) -> Self {
        Self::with(World::new(replies), hooks, AgentOptions::default(), fakes)
    }

    pub fn with(
        world: World,
        hooks: impl Hooks + 'static,
        options: AgentOptions,
        fakes: impl IntoIterator<Item = Arc<FakeTool>>,
    ) -> Self {
        let agent = world.native_with(hooks, options);
        let log = Arc::new(EventLog::new());
        let fakes: Vec<_> = fakes.into_iter().collect();
        Self {
            _subscription: agent.subscribe(Arc::clone(&log) as _),
            tools: tools(&fakes),
            world,
            agent,
            log,
        }
    }

    /// Starts a run on the prompt `hi`.
    pub fn start(&self) -> Run {
        self.agent.start(spec("hi", self.tools.clone())).unwrap()
    }

    /// A whole run. What it stored is a valid history, and what it says it added.
    pub fn run(&self) -> RunOutcome {
        let outcome = poll_to_end(self.start());
        assert_valid_history(&self.world.journal.messages());
        assert_eq!(outcome.messages, self.world.journal.messages());
        outcome
    }

    /// The events without updates of messages, the first `skip` left out.
    pub fn frame(&self, skip: usize) -> Vec<String> {
        self.log.frame().split_off(skip)
    }

    /// Only the events whose name begins so.
    pub fn events(&self, prefix: &str) -> Vec<String> {
        let mut names = self.log.names();
        names.retain(|name| name.starts_with(prefix));
        names
    }
}

/// What a simple turn of `hi` shows before the response ends.
pub const OPENING: [&str; 5] = [
    "agent_start",
    "turn_start",
    "message_start(user)",
    "message_end(user)",
    "message_start(assistant)",
];

/// What a last turn shows that only says something.
pub const LAST_TURN: [&str; 5] = [
    "turn_start",
    "message_start(assistant)",
    "message_end(assistant)",
    "turn_end([])",
    "agent_end",
];

/// Text of the result of call `id`, and whether it is an error.
pub fn result(outcome: &RunOutcome, id: &str) -> (String, bool) {
    let results = outcome.messages.iter().filter_map(|m| m.as_tool_result());
    let mut of_call = results.filter(|r| r.tool_call_id == id);
    let found = of_call
        .next()
        .unwrap_or_else(|| panic!("no result of {id}"));
    assert!(of_call.next().is_none(), "a second result of {id}");
    (content::joined_text(&found.content), found.is_error)
}

/// An error result with this text.
pub fn error(text: &str) -> (String, bool) {
    (text.to_owned(), true)
}

/// A good result with this text.
pub fn good(text: &str) -> (String, bool) {
    (text.to_owned(), false)
}

/// What was said: user texts, `|` for each response, `=id` for each result.
pub fn said(messages: &[Arc<Message>]) -> String {
    let one = |message: &Arc<Message>| match &**message {
        Message::User(user) => user.content.text(),
        Message::Assistant(_) => "|".to_owned(),
        Message::ToolResult(result) => format!("={}", result.tool_call_id),
        other => other.role().to_owned(),
    };
    messages.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// The event that ended call `id`.
pub fn end_of(log: &EventLog, id: &str) -> AgentEvent {
    let is_end = |event: &AgentEvent| matches!(event, AgentEvent::ToolExecutionEnd { call_id, .. } if call_id == id);
    log.seen()
        .into_iter()
        .map(|seen| seen.event)
        .find(is_end)
        .unwrap()
}
