//! Several things that go on in a life at once, and what must hold when all is over.

use std::sync::{Arc, Mutex};

use fluzo_llm::convert::to_model_messages;
use fluzo_llm::{
    AssistantMessage, BoxFuture, Finish, Message, StopReason, StreamEvent, Transcript, Usage,
};
use fluzo_protocol::{
    Command, Endpoint, Event, EventSink, Executed, Prompt, QueueBehavior, RunReport, Submitted,
};
use fluzo_runtime::drive::ManualDrive;
use fluzo_testkit::polling::poll_until_stalled;
use fluzo_testkit::reply::text;
use fluzo_testkit::{Reply, Switch, assert_valid_history, poll_to_end};
use serde_json::Value;

use crate::life::{Life, Place, Setup};

/// What a command gave: its data, null for none.
pub type Answer = Result<Value, String>;

type Working = (&'static str, BoxFuture<'static, Result<Executed, String>>);

/// A life with the commands that are being carried out in it.
pub struct Stage {
    pub life: Life,
    pub reports: Vec<RunReport>,
    working: Vec<Working>,
    done: Vec<(&'static str, Answer)>,
}

impl Stage {
    pub fn begin(place: &Place, setup: Setup<'_>) -> Self {
        Self {
            life: Life::begin(place, setup),
            reports: Vec::new(),
            working: Vec::new(),
            done: Vec::new(),
        }
    }

    fn drive(&self) -> &ManualDrive {
        self.life.drive.as_ref().expect("nothing parks by itself")
    }

    /// Begins a prompt and polls everything.
    pub fn prompt(&mut self, text: &str) {
        self.life.prompt(text);
        self.settle();
    }

    /// A prompt for a queue.
    pub fn queue(&mut self, text: &str, queue: QueueBehavior) {
        let prompt = Prompt {
            text: text.into(),
            queue: Some(queue),
            ..Prompt::default()
        };
        let queued = poll_to_end(self.life.session.prompt(prompt));
        assert!(matches!(queued, Ok(Submitted::Queued)));
    }

    /// Why a prompt without a queue is refused.
    pub fn refusal(&self, text: &str) -> Option<String> {
        let prompt = Prompt {
            text: text.into(),
            ..Prompt::default()
        };
        poll_to_end(self.life.session.prompt(prompt)).err()
    }

    /// Begins a command and polls everything.
    pub fn start(&mut self, command: Command) {
        let (session, name) = (Arc::clone(&self.life.session), command.name());
        let work = async move { session.execute(command).await };
        self.working.push((name, Box::pin(work)));
        self.settle();
    }

    /// Gives a command up, as a front end that goes away does.
    pub fn drop_command(&mut self, name: &str) {
        self.working.retain(|(working, _)| *working != name);
    }

    /// Carries a command out that waits for nobody.
    pub fn execute(&mut self, command: Command) -> Answer {
        let name = command.name();
        self.start(command);
        self.answer(name)
    }

    pub fn is_working(&self, name: &str) -> bool {
        self.working.iter().any(|(working, _)| *working == name)
    }

    /// What the last command of that name gave.
    pub fn answer(&self, name: &str) -> Answer {
        let mut done = self.done.iter().rev();
        let found = done.find(|(command, _)| *command == name);
        found
            .unwrap_or_else(|| panic!("`{name}` is not done"))
            .1
            .clone()
    }

    /// Polls everything until nothing moves.
    pub fn settle(&mut self) {
        let mut still = 0;
        while still < 3 {
            let before = self.life.drive.as_ref().map(ManualDrive::parked);
            let moved = self.poll_all();
            let after = self.life.drive.as_ref().map(ManualDrive::parked);
            still = if moved || before != after {
                0
            } else {
                still + 1
            };
        }
    }

    fn poll_all(&mut self) -> bool {
        let mut moved = false;
        if self.life.is_running()
            && let std::task::Poll::Ready(report) = self.life.poll()
        {
            self.reports.push(report);
            moved = true;
        }
        for (name, mut work) in std::mem::take(&mut self.working) {
            match poll_until_stalled(&mut work) {
                std::task::Poll::Pending => self.working.push((name, work)),
                std::task::Poll::Ready(result) => {
                    let answer = result.and_then(|executed| self.settled(executed));
                    self.done.push((name, answer));
                    moved = true;
                }
            }
        }
        moved
    }

    fn settled(&mut self, mut executed: Executed) -> Answer {
        if let Some(run) = executed.run.take() {
            assert!(!self.life.is_running(), "two runs at once");
            self.life.attend(run);
        }
        match executed.error.take() {
            Some(error) => Err(error),
            None if executed.data.is_none() => Ok(Value::Null),
            None => executed.value(),
        }
    }

    /// Lets everything happen until `effect` waits.
    pub fn until(&mut self, effect: &str) {
        loop {
            self.settle();
            let parked = self.drive().parked();
            if parked.iter().any(|name| name == effect) {
                return;
            }
            let first = parked
                .first()
                .unwrap_or_else(|| panic!("`{effect}` never waits"));
            self.drive().release(first);
        }
    }

    /// Lets `effect` happen, which waits.
    pub fn release(&mut self, effect: &str) {
        assert!(self.drive().release(effect), "`{effect}` does not wait");
        self.settle();
    }

    /// Lets everything happen until nothing goes on.
    pub fn run_out(&mut self) {
        loop {
            self.settle();
            if !self.life.is_running() && self.working.is_empty() {
                return;
            }
            let names: Vec<_> = self.working.iter().map(|(name, _)| *name).collect();
            let running = self.life.is_running();
            let drive = self.life.drive.as_ref();
            let parked = drive.map(ManualDrive::parked).unwrap_or_default();
            let first = parked.first();
            let first = first.unwrap_or_else(|| panic!("hangs: {names:?}, running: {running}"));
            self.drive().release(first);
        }
    }

    /// What must hold when nothing goes on: every beginning that was shown has its end, what
    /// is stored is a history that can be sent and is what the session takes it to be, and a
    /// further prompt is answered.
    pub fn check(mut self, place: &Place) -> Self {
        self.check_whole(place);
        self.life.world.model.push(text(["goes on"]));
        self.prompt("next");
        self.run_out();
        let last = self.reports.last().unwrap();
        assert!(last.halted.is_none(), "{:?}", last.halted);
        let said = last.last.as_ref().and_then(|m| m.as_assistant()).unwrap();
        assert!(!said.failed(), "{:?}", said.error_message);
        self.check_whole(place);
        self
    }

    /// The same without a further prompt.
    pub fn check_whole(&mut self, place: &Place) {
        check_events(&self.life.log.names());
        self.check_stored(place);
        let state = self.life.session.snapshot();
        assert!(!state.is_streaming && !state.is_compacting);
        assert_eq!(state.phase, "idle");
    }

    fn check_stored(&mut self, place: &Place) {
        let stored = place.messages();
        assert_valid_history(&stored);
        // What failed is no part of a request; the rest must need no mending.
        let failed = |m: &Arc<Message>| m.as_assistant().is_some_and(AssistantMessage::failed);
        let mut sent = to_model_messages(&stored);
        sent.retain(|message| !failed(message));
        Transcript::new(sent).unwrap();
        let shown = self.execute(Command::GetMessages).unwrap();
        assert_eq!(shown["messages"], serde_json::to_value(&stored).unwrap());
    }

    /// Roles of the messages that are stored.
    pub fn roles(place: &Place) -> Vec<String> {
        let role = |message: &Arc<Message>| message.role().to_owned();
        place.messages().iter().map(role).collect()
    }
}

fn check_events(names: &[String]) {
    let is = |name: &str, wanted: &str| name == wanted || name.starts_with(&format!("{wanted}("));
    let count = |wanted: &str| names.iter().filter(|name| is(name, wanted)).count();
    for what in ["agent", "turn", "message", "tool_execution"] {
        let (start, end) = (format!("{what}_start"), format!("{what}_end"));
        assert_eq!(count(&start), count(&end), "{what}: {names:?}");
    }
    // One that is not even tried has an end alone.
    assert!(
        count("compaction_start") <= count("compaction_end"),
        "{names:?}"
    );
    for what in ["compaction", "auto_retry"] {
        let last = |kind| {
            names
                .iter()
                .rposition(|name| *name == format!("{what}_{kind}"))
        };
        assert!(last("start") <= last("end"), "{what}: {names:?}");
    }
}

/// A response of `words` that reports a context of `tokens`, five of them its own.
pub fn reporting(words: &str, tokens: u64) -> Reply {
    let usage = Usage {
        input: tokens - 5,
        output: 5,
        total_tokens: tokens,
        ..Usage::default()
    };
    let finish = Finish::done(StopReason::Stop, usage);
    let reply = Reply::new().text([words]);
    reply.finish(StreamEvent::Done(Box::new(finish)))
}

/// A sink that keeps everyone waiting at an event, once.
pub struct Holds {
    at: &'static str,
    pub go_on: Switch,
    pub reached: Switch,
    over: Mutex<bool>,
}

impl Holds {
    /// Holds at the first event `at` that comes to `stage`.
    pub fn at(at: &'static str, stage: &Stage) -> Arc<Self> {
        let holds = Arc::new(Self {
            at,
            go_on: Switch::new(),
            reached: Switch::new(),
            over: Mutex::new(false),
        });
        stage.life.session.subscribe(Arc::clone(&holds) as _);
        holds
    }

    fn is_over(&self) -> bool {
        std::mem::replace(&mut *self.over.lock().unwrap(), true)
    }
}

impl EventSink for Holds {
    fn on_event<'a>(&'a self, event: &'a Event) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if event.name() != self.at || self.is_over() {
                return;
            }
            self.reached.flip();
            self.go_on.wait().await;
        })
    }
}
