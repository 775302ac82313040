//! An endpoint that plays a script, and places to write to.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use fluzo_llm::{AssistantMessage, BoxFuture, Content, Message, Model, StopReason, StreamEvent};
use fluzo_protocol::{Command, Endpoint, Event, EventSink, Executed, Prompt, RunReport, Submitted};
use serde_json::{Value, json};
use tokio::sync::Notify;

/// What becomes of a prompt.
#[derive(Clone)]
pub enum Act {
    /// A response of these text blocks.
    Says(&'static [&'static str]),
    /// A response that ends this way.
    Fails(StopReason, Option<&'static str>),
    /// A response of this text, and then the run is stopped for this reason.
    Stopped(&'static str, &'static str),
    /// It cannot start.
    Refused(&'static str),
    /// It ends when it is aborted.
    UntilAborted,
    /// This text, and then it ends when it is aborted.
    SaysUntilAborted(&'static str),
}

/// Plays one act for each prompt.
pub struct Played {
    acts: Mutex<VecDeque<Act>>,
    sinks: Arc<Mutex<Vec<Arc<dyn EventSink>>>>,
    pub prompts: Mutex<Vec<String>>,
    notices: Mutex<Vec<String>>,
    aborted: Arc<Notify>,
}

impl Played {
    pub fn new(acts: impl IntoIterator<Item = Act>) -> Arc<Self> {
        Arc::new(Self {
            acts: Mutex::new(acts.into_iter().collect()),
            sinks: Arc::default(),
            prompts: Mutex::default(),
            notices: Mutex::new(vec!["careful\u{1b}[31m".into()]),
            aborted: Arc::new(Notify::new()),
        })
    }
}

fn message(texts: &[&str], stop: StopReason, error: Option<&str>) -> Message {
    let json = r#"{"id":"m","name":"m","api":"a","provider":"p","baseUrl":"","input":["text"],"contextWindow":1,"maxTokens":1}"#;
    let model: Model = serde_json::from_str(json).unwrap();
    let mut message = AssistantMessage::begin(&model, 1);
    message.content = texts.iter().map(|text| Content::text(*text)).collect();
    message.stop_reason = stop;
    message.error_message = error.map(str::to_owned);
    Message::Assistant(message)
}

/// The events of a response of `texts`.
fn events(texts: &[&str], end: &Arc<Message>) -> Vec<Event> {
    let begun = Arc::new(message(&[], StopReason::Stop, None));
    let mut events = vec![Event::AgentStart, Event::MessageStart { message: begun }];
    for (index, text) in texts.iter().enumerate() {
        let deltas = [
            StreamEvent::TextStart { index },
            StreamEvent::TextDelta {
                index,
                delta: (*text).into(),
            },
            StreamEvent::TextEnd {
                index,
                signature: None,
            },
        ];
        events.extend(deltas.map(|delta| Event::MessageUpdate { delta }));
    }
    events.push(Event::MessageEnd {
        message: Arc::clone(end),
    });
    events.push(Event::AgentEnd {
        messages: vec![Arc::clone(end)],
        will_retry: false,
    });
    events
}

impl Endpoint for Played {
    fn prompt(&self, prompt: Prompt) -> BoxFuture<'_, Result<Submitted, String>> {
        self.prompts.lock().unwrap().push(prompt.text);
        let act = self.acts.lock().unwrap().pop_front().unwrap();
        let (texts, end) = match &act {
            Act::Refused(text) => return Box::pin(std::future::ready(Err((*text).to_owned()))),
            Act::Says(texts) => (*texts, message(texts, StopReason::Stop, None)),
            Act::Fails(stop, error) => (&[][..], message(&[], stop.clone(), *error)),
            Act::Stopped(text, _) => (
                std::slice::from_ref(text),
                message(&[text], StopReason::ToolUse, None),
            ),
            Act::UntilAborted => (&[][..], message(&[], StopReason::Aborted, None)),
            Act::SaysUntilAborted(text) => (
                std::slice::from_ref(text),
                message(&[text], StopReason::Aborted, None),
            ),
        };
        let end = Arc::new(end);
        let events = events(texts, &end);
        let sinks = Arc::clone(&self.sinks);
        let wait = matches!(act, Act::UntilAborted | Act::SaysUntilAborted(_))
            .then(|| Arc::clone(&self.aborted));
        let halted = match &act {
            Act::Stopped(_, why) => Some((*why).to_owned()),
            _ => None,
        };
        let run = async move {
            let sinks = sinks.lock().unwrap().clone();
            for event in &events {
                for sink in &sinks {
                    sink.on_event(event).await;
                }
            }
            if let Some(aborted) = wait {
                aborted.notified().await;
            }
            RunReport {
                last: Some(end),
                halted,
            }
        };
        Box::pin(std::future::ready(Ok(Submitted::Run(Box::pin(run)))))
    }

    fn execute(&self, command: Command) -> BoxFuture<'_, Result<Executed, String>> {
        Box::pin(std::future::ready(Executed::with(&command.name())))
    }

    fn abort(&self) {
        self.aborted.notify_one();
    }

    fn subscribe(&self, sink: Arc<dyn EventSink>) {
        self.sinks.lock().unwrap().push(sink);
    }

    fn header(&self) -> Value {
        json!({"type": "session"})
    }

    fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut *self.notices.lock().unwrap())
    }
}

/// Keeps what is written.
#[derive(Clone, Default)]
pub struct Sheet(Arc<Mutex<Vec<u8>>>);

impl Sheet {
    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Sheet {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A reader that takes nothing before it is told to.
pub struct Stopped {
    pub wait: Option<std::sync::mpsc::Receiver<()>>,
    pub sheet: Sheet,
}

impl Write for Stopped {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(wait) = self.wait.take() {
            wait.recv().unwrap();
        }
        self.sheet.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A reader that is gone.
pub struct Gone;

impl Write for Gone {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::BrokenPipe.into())
    }
}

pub fn prompts(texts: &[&str]) -> Vec<Prompt> {
    let prompt = |text: &&str| Prompt {
        text: (*text).into(),
        ..Prompt::default()
    };
    texts.iter().map(prompt).collect()
}

/// Runs on one thread, as the program does.
pub fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(work)
}
