//! Compactions and branch summaries: what is set up for them, for several test modules.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use fluzo_agent::Effects;
use fluzo_llm::{
    AbortSignal, Finish, Message, Model, ModelMessage, ModelRequest, StopReason, StreamEvent,
    ThinkingLevel, Usage,
};
use fluzo_runtime::compact::{
    Compacted, CompactionError, CompactionReason, CompactionRequest, CompactionSettings, Compactor,
};
use fluzo_runtime::compose::{Layers, compose};
use fluzo_runtime::drive::ManualDrive;
use fluzo_session::{EntryKind, Header, MemoryStore, Session, SessionStore};
use fluzo_stdx::ids::CountingIds;
use fluzo_testkit::polling::poll_until_stalled;
use fluzo_testkit::{Reply, World, model, poll_to_end, reply, user};
use serde_json::{Value, json};

/// Later than anything that is said, as responses are older than a compaction that follows them.
pub const SAID_AT: i64 = 1_600_000_000_000;

/// A session in memory, a model that answers by script, and what compacts.
pub struct Stage {
    pub world: World,
    pub session: Session,
    pub compactor: Compactor,
    pub abort: AbortSignal,
}

impl Stage {
    pub fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::with(replies, |effects| effects, memory())
    }

    pub fn driven(replies: impl IntoIterator<Item = Reply>, drive: &ManualDrive) -> Self {
        let layers = Layers {
            record: false,
            drive: Some(drive.clone()),
            ..Layers::default()
        };
        Self::with(replies, |effects| compose(effects, &layers), memory())
    }

    pub fn with(
        replies: impl IntoIterator<Item = Reply>,
        wrap: impl FnOnce(Effects) -> Effects,
        store: Arc<dyn SessionStore>,
    ) -> Self {
        let world = World::new(replies);
        let effects = wrap(world.effects());
        Self {
            world,
            session: Session::new(store, Arc::new(CountingIds::default())),
            compactor: Compactor::new(effects.model, effects.time),
            abort: AbortSignal::new(),
        }
    }

    /// Appends what the words of a script stand for; returns the ids of their entries.
    ///
    /// `u:TEXT` user, `a:TEXT` assistant, `c:NAME:PATH` a call with a result, `big` a call of
    /// `read` on `big` with a result of 8000 characters, `x` an aborted response with a call.
    pub fn say(&self, script: &str) -> Vec<String> {
        let mut ids = Vec::new();
        for word in script.split_whitespace() {
            let messages = match word.split(':').collect::<Vec<_>>()[..] {
                ["u", text] => vec![user(text)],
                ["a", text] => vec![said(json!([{"type": "text", "text": text}]), "stop")],
                ["c", name, path] => vec![call(name, path), result("ok")],
                ["big"] => vec![call("read", "big"), result(&"r".repeat(8_000))],
                ["x"] => vec![said(json!([call_block("read", "aborted")]), "aborted")],
                _ => panic!("{word}"),
            };
            for message in messages {
                let entry = self.session.append_message(message, SAID_AT).unwrap();
                ids.push(entry.id.clone());
            }
        }
        ids
    }

    pub fn compact(&self, request: &CompactionRequest) -> Result<Compacted, CompactionError> {
        poll_to_end(self.compactor.compact(&self.session, request, &self.abort))
    }

    /// Types of all entries.
    pub fn types(&self) -> Vec<String> {
        let ids = self.session.store().look(|index| {
            index
                .iter()
                .map(|node| node.id.to_string())
                .collect::<Vec<_>>()
        });
        let type_of = |id: &String| self.session.entry(id).unwrap().kind.type_name().to_owned();
        ids.unwrap().iter().map(type_of).collect()
    }

    /// That nothing was stored but what was said.
    #[track_caller]
    pub fn check_untouched(&self, leaf: Option<&String>) {
        assert_eq!(self.session.leaf_id().as_ref(), leaf);
        assert!(self.types().iter().all(|name| name == "message"));
    }

    /// The text of each request so far.
    pub fn asked(&self) -> Vec<String> {
        self.world
            .model
            .requests()
            .iter()
            .map(request_text)
            .collect()
    }

    pub fn roles(&self) -> Vec<String> {
        let messages = self.session.context().unwrap().messages;
        messages
            .iter()
            .map(|message| message.role().to_owned())
            .collect()
    }
}

pub fn memory() -> Arc<dyn SessionStore> {
    let header = Header::new("s", "2020-09-13T12:26:40.000Z", "/w");
    Arc::new(MemoryStore::new(header))
}

/// A manual compaction that keeps one token: the newest message.
pub fn request() -> CompactionRequest {
    CompactionRequest {
        settings: CompactionSettings {
            keep_recent_tokens: 1,
            ..CompactionSettings::default()
        },
        model: Arc::new(model()),
        window_model: Arc::new(model()),
        thinking: ThinkingLevel::Off,
        custom_instructions: None,
        reason: CompactionReason::Manual,
        ready_made: None,
        session_id: None,
    }
}

pub fn keeping(tokens: u64) -> CompactionRequest {
    let mut request = request();
    request.settings.keep_recent_tokens = tokens;
    request
}

pub fn named(id: &str, window: u64) -> Arc<Model> {
    Arc::new(Model {
        id: id.to_owned(),
        context_window: window,
        ..model()
    })
}

pub fn said(content: Value, stop: &str) -> Arc<Message> {
    let json = json!({
        "role": "assistant", "content": content, "api": "test", "provider": "test", "model": "m1",
        "usage": {}, "stopReason": stop, "timestamp": SAID_AT,
    });
    Arc::new(serde_json::from_value(json).unwrap())
}

pub fn call_block(name: &str, path: &str) -> Value {
    json!({"type": "toolCall", "id": "c1", "name": name, "arguments": {"path": path}})
}

pub fn call(name: &str, path: &str) -> Arc<Message> {
    said(json!([call_block(name, path)]), "toolUse")
}

pub fn result(text: &str) -> Arc<Message> {
    let json = json!({
        "role": "toolResult", "toolCallId": "c1", "toolName": "read",
        "content": [{"type": "text", "text": text}], "isError": false, "timestamp": SAID_AT,
    });
    Arc::new(serde_json::from_value(json).unwrap())
}

/// A complete reply of `text` that took these tokens.
pub fn with_usage(text: &str, input: u64, output: u64) -> Reply {
    let usage = Usage {
        input,
        output,
        total_tokens: input + output,
        ..Usage::default()
    };
    let finish = Finish::done(StopReason::Stop, usage);
    reply::text([text]).finish(StreamEvent::Done(Box::new(finish)))
}

/// The text of the one message of a request.
pub fn request_text(request: &ModelRequest) -> String {
    let messages: Vec<_> = request.transcript.iter().collect();
    match messages[..] {
        [ModelMessage::User(user)] => user.content.text(),
        _ => panic!("one user message"),
    }
}

/// The conversation that a request is about.
pub fn conversation(text: &str) -> &str {
    let inner = text.strip_prefix("<conversation>\n").unwrap();
    inner.split("\n</conversation>\n\n").next().unwrap()
}

/// Polls until `wanted` waits, and releases whatever else does.
pub fn until<T>(
    future: &mut Pin<Box<dyn Future<Output = T> + '_>>,
    drive: &ManualDrive,
    wanted: &[&str],
) {
    loop {
        assert!(
            poll_until_stalled(future).is_pending(),
            "{wanted:?} never came"
        );
        let parked = drive.parked();
        if parked == wanted {
            return;
        }
        assert!(drive.release(&parked[0]), "nothing waits");
    }
}

/// Releases whatever waits until the end.
pub fn to_end<T>(future: &mut Pin<Box<dyn Future<Output = T> + '_>>, drive: &ManualDrive) -> T {
    loop {
        match poll_until_stalled(future) {
            Poll::Ready(output) => return output,
            Poll::Pending => {
                let parked = drive.parked();
                assert!(parked.iter().any(|name| drive.release(name)), "it hangs");
            }
        }
    }
}

pub fn kind_of(stage: &Stage, id: &str) -> EntryKind {
    stage.session.entry(id).unwrap().kind.clone()
}
