//! What the tests of all dialects share: requests from JSON, and what a response is read as.

use std::sync::Arc;

use fluzo_llm::{
    AssistantMessage, Finish, Message, Model, ModelRequest, RequestAuth, RequestOptions,
    StreamEvent, Transcript,
};
use serde_json::{Value, json};

use crate::assemble::Events;
use crate::drive::{End, Reader};
use crate::failure::Context;
use crate::fuzzing::check_grammar;
use crate::limits::Limits;
use crate::reader::{BodyReader, Meaning};
use crate::redact::Redactor;

/// The model `usual` with `changes` merged into it.
pub(crate) fn model(mut usual: Value, changes: Value) -> Model {
    if let (Some(map), Value::Object(changes)) = (usual.as_object_mut(), changes) {
        map.extend(changes);
    }
    serde_json::from_value(usual).unwrap()
}

/// A request to `model` after `history`, messages without their time.
pub(crate) fn request(model: Model, history: &[Value]) -> ModelRequest {
    let messages = history.iter().map(|message| {
        let mut message = message.clone();
        message["timestamp"] = json!(1);
        Arc::new(serde_json::from_value::<Message>(message).unwrap())
    });
    request_after(model, Transcript::new(messages.collect()).unwrap())
}

/// A request to `model` after `transcript`.
pub(crate) fn request_after(model: Model, transcript: Transcript) -> ModelRequest {
    ModelRequest {
        model: Arc::new(model),
        system_prompt: "".into(),
        transcript,
        tools: Arc::new([]),
        options: RequestOptions::default(),
        auth: RequestAuth::default(),
    }
}

/// What a user said.
pub(crate) fn user(content: Value) -> Value {
    json!({"role": "user", "content": content})
}

/// What the tool `read` returned to the call `id`.
pub(crate) fn result(id: &str, content: Value) -> Value {
    json!({"role": "toolResult", "toolCallId": id, "toolName": "read", "content": content, "isError": false})
}

/// A reader with room for events of 1 MiB, at the time `now`.
pub(crate) fn reader(now: i64, meaning: impl FnOnce(Context) -> Box<dyn Meaning>) -> BodyReader {
    let context = Context {
        redactor: Redactor::default(),
        clock: Arc::new(move || now),
    };
    let limits = Limits {
        max_event_bytes: 1 << 20,
        ..Limits::open(true)
    };
    BodyReader::new(meaning(context.clone()), &limits, context)
}

/// The events of a response whose body comes in `chunks` and ends in `end`, unless it cannot be
/// read. They are well-formed.
pub(crate) fn read(mut reader: BodyReader, chunks: &[&[u8]], end: End) -> Vec<StreamEvent> {
    let mut out = Events::new();
    let mut chunks = chunks.iter();
    let failed = chunks.find_map(|chunk| reader.push(chunk, &mut out).err());
    reader.finish(failed.map_or(end, End::Failed), &mut out);
    check_grammar(out.make_contiguous());
    out.into()
}

/// The message of `model` that `events` add up to, and how it ended.
pub(crate) fn message(model: &Model, events: &[StreamEvent]) -> (AssistantMessage, Finish) {
    let mut message = AssistantMessage::begin(model, 0);
    events.iter().for_each(|event| message.apply(event));
    match events.last() {
        Some(StreamEvent::Done(finish) | StreamEvent::Failed(finish)) => {
            (message, (**finish).clone())
        }
        other => panic!("{other:?}"),
    }
}

/// How a response ended: the error, or why it stopped and its tokens.
pub(crate) fn end(finish: &Finish) -> String {
    match &finish.error {
        Some(error) => format!("{:?}: {}", error.kind, error.message),
        None => format!(
            "{} {}/{}",
            finish.stop_reason.as_str(),
            finish.usage.input,
            finish.usage.output
        ),
    }
}
