//! What every [`Agent`] does, whatever drives it.

mod course;
mod queues;

use std::sync::Arc;
use std::task::Poll;

use fluzo_agent::{Agent, QueueMode, Run, RunOutcome, Subscription};

use crate::polling::poll_until_stalled;
use crate::{EventLog, Reply};

/// What an agent under test is made of.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// The replies of its model, in order.
    pub replies: Vec<Reply>,
    /// Mode of its steering queue.
    pub steering: QueueMode,
    /// Mode of its follow-up queue.
    pub follow_up: QueueMode,
}

/// Makes an idle agent without tools.
pub type Factory<'a> = &'a dyn Fn(Script) -> Arc<dyn Agent>;

/// One check of the suite.
pub type AgentCheck = (&'static str, fn(Factory<'_>));

/// Runs the whole suite.
///
/// # Panics
///
/// When the agent fails a check.
pub fn agent(factory: impl Fn(Script) -> Arc<dyn Agent>) {
    for (_, check) in agent_checks() {
        check(&factory);
    }
}

/// The checks by name.
pub fn agent_checks() -> Vec<AgentCheck> {
    [course::CHECKS, queues::CHECKS].concat()
}

/// An agent under test with a log of its events.
struct Subject {
    agent: Arc<dyn Agent>,
    log: Arc<EventLog>,
    _subscription: Subscription,
}

impl Subject {
    fn new(factory: Factory<'_>, replies: impl IntoIterator<Item = Reply>) -> Self {
        let replies = replies.into_iter().collect();
        Self::of(
            factory,
            Script {
                replies,
                ..Script::default()
            },
        )
    }

    fn of(factory: Factory<'_>, script: Script) -> Self {
        let agent = factory(script);
        let log = Arc::new(EventLog::new());
        let subscription = agent.subscribe(Arc::clone(&log) as _);
        Self {
            agent,
            log,
            _subscription: subscription,
        }
    }

    /// Starts a run on a prompt.
    #[track_caller]
    fn start(&self, prompt: &str) -> Run {
        match self.agent.start(crate::spec(prompt, Default::default())) {
            Ok(run) => run,
            Err(error) => panic!("the agent should be idle: {error}"),
        }
    }
}

/// Polls a run until it waits for the test.
#[track_caller]
fn stall(run: &mut Run) {
    if let Poll::Ready(outcome) = poll_until_stalled(run) {
        panic!("the run should wait, and ended: {outcome:?}");
    }
}

/// Polls a run that only waited for what the test has just done.
#[track_caller]
fn finish(mut run: Run) -> RunOutcome {
    match poll_until_stalled(&mut run) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => panic!("the run should end"),
    }
}
