//! Responses in short, and one-line views of what they are understood as, for tests.

use fluzo_llm::{
    AssistantMessage, Content, Finish, Model, ModelRequest, StreamEvent, ToolCall, Transcript,
};
use serde_json::{Value, json};

use super::response::Response;
use crate::drive::End;
use crate::reader::BodyReader;
use crate::testing;

/// A response as the reference describes it: thinking, a text, two calls at once.
pub(crate) const WHOLE: &str = include_str!("whole.sse");

/// What [`WHOLE`] is understood as.
pub(crate) const WHOLE_SHOWN: &str = concat!(
    "thinking:look at 1\n\nthen 2 ",
    r#"<{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"look at 1"},{"type":"summary_text","text":"then 2"}],"encrypted_content":"gA+/="}> ; "#,
    r#"text:I läs. <{"v":1,"id":"msg_1","phase":"commentary"}> ; "#,
    r#"call call_1|fc_1 read {"path":"a"} ; call call_2|fc_2 read {"path":"b"} ; toolUse 20/7"#,
);

fn model() -> Model {
    serde_json::from_value(json!({
        "id": "m", "name": "m", "api": "openai-responses", "provider": "p", "baseUrl": "http://h/v1",
        "input": ["text"], "contextWindow": 1000, "maxTokens": 100, "reasoning": true,
        "cost": {"input": 1_000_000, "output": 1_000_000, "cacheRead": 0, "cacheWrite": 0},
    }))
    .unwrap()
}

/// A request with the history `transcript`.
pub(crate) fn request_after(transcript: Transcript) -> ModelRequest {
    testing::request_after(model(), transcript)
}

/// The reader of the response to `request`.
pub(crate) fn reader_of(request: &ModelRequest) -> BodyReader {
    testing::reader(0, |context| Box::new(Response::new(request, context)))
}

/// The events of a response whose body comes in `chunks`.
pub(crate) fn read(chunks: &[&[u8]], end: End) -> Vec<StreamEvent> {
    testing::read(
        reader_of(&request_after(Transcript::default())),
        chunks,
        end,
    )
}

/// The message that the events add up to, and how it ended.
pub(crate) fn message(events: &[StreamEvent]) -> (AssistantMessage, Finish) {
    testing::message(&model(), events)
}

/// One line of what came: blocks with what they are signed with, then how it ended.
pub(crate) fn shown(events: &[StreamEvent]) -> String {
    let (message, finish) = message(events);
    let signed = |signature: &Option<String>| match signature {
        Some(signature) => format!(" <{signature}>"),
        None => String::new(),
    };
    let block = |block: &Content| match block {
        Content::Text(text) => format!("text:{}{}", text.text, signed(&text.text_signature)),
        Content::Thinking(t) => {
            format!("thinking:{}{}", t.thinking, signed(&t.thinking_signature))
        }
        Content::ToolCall(call) => format!("call {}", call_text(call)),
        other => format!("{other:?}"),
    };
    let mut parts: Vec<String> = message.content.iter().map(block).collect();
    parts.push(testing::end(&finish));
    parts.join(" ; ")
}

fn call_text(call: &ToolCall) -> String {
    let arguments = serde_json::to_string(&call.arguments).unwrap();
    let raw = call.raw_arguments.as_ref().map(|raw| format!("RAW {raw}"));
    format!("{} {} {}", call.id, call.name, raw.unwrap_or(arguments))
}

/// Each item is the data of one event.
pub(crate) fn sse(items: &[String]) -> Vec<u8> {
    let event = |item: &String| format!("data: {item}\n\n").into_bytes();
    items.iter().flat_map(event).collect()
}

/// What the response `script` is understood as; events are parted by ` | `.
pub(crate) fn check(script: &str, expected: &str) {
    let body = sse(&events(script));
    assert_eq!(shown(&read(&[&body], End::Clean)), expected, "{script}");
}

/// The data of the events of `script`.
pub(crate) fn events(script: &str) -> Vec<String> {
    script.split(" | ").map(event).collect()
}

/// One event in short: its name, then `#ID` of its item, `@PLACE` of its item and `^PART`,
/// where `-` leaves the field out, then `=TEXT`. The names end in `+` where something begins,
/// `~` where it goes on, `!` where a part of it is whole and `.` where all of it is. What is
/// no such name is the data itself.
fn event(word: &str) -> String {
    let (head, text) = word.split_once('=').unwrap_or((word, ""));
    let name = head.split(['#', '@', '^']).next().unwrap_or_default();
    let given = |mark: char| {
        let (_, rest) = head.split_once(mark)?;
        rest.split(['#', '@', '^']).next()
    };
    let field = |value: &str| (value != "-").then(|| value.to_owned());
    let id = |usual: &str| field(given('#').unwrap_or(usual));
    let number = |mark: char| {
        let value = field(given(mark).unwrap_or("0"))?;
        Some(json!(value.parse::<u64>().unwrap()))
    };
    let begins_or_ends = |item: Value| json!({"output_index": number('@'), "item": item});
    let about = |usual: &str, field: &str, value: &str| {
        let mut rest = json!({"item_id": id(usual), "output_index": number('@'), "content_index": number('^')});
        rest["summary_index"] = rest["content_index"].clone();
        rest[field] = json!(value);
        rest
    };
    let (kind, rest) = match name {
        "call+" => ("output_item.added", begins_or_ends(call(id("fc_1"), text))),
        "call." => ("output_item.done", begins_or_ends(call(id("fc_1"), text))),
        "call~" => (
            "function_call_arguments.delta",
            about("fc_1", "delta", text),
        ),
        "call!" => (
            "function_call_arguments.done",
            about("fc_1", "arguments", text),
        ),
        "text+" => ("output_item.added", begins_or_ends(said(id("msg_1"), text))),
        "text." => ("output_item.done", begins_or_ends(said(id("msg_1"), text))),
        "text~" => ("output_text.delta", about("msg_1", "delta", text)),
        "text!" => ("output_text.done", about("msg_1", "text", text)),
        "refusal~" => ("refusal.delta", about("msg_1", "delta", text)),
        "refusal!" => ("refusal.done", about("msg_1", "refusal", text)),
        "reasoning+" => ("output_item.added", begins_or_ends(thought(id("rs_1"), ""))),
        "reasoning." => (
            "output_item.done",
            begins_or_ends(thought(id("rs_1"), text)),
        ),
        "summary+" => ("reasoning_summary_part.added", about("rs_1", "text", "")),
        "summary~" => ("reasoning_summary_text.delta", about("rs_1", "delta", text)),
        "summary!" => ("reasoning_summary_text.done", about("rs_1", "text", text)),
        "thinking~" => ("reasoning_text.delta", about("rs_1", "delta", text)),
        "thinking!" => ("reasoning_text.done", about("rs_1", "text", text)),
        "end" => ("completed", completed(json!([]))),
        "end with call" => ("completed", completed(json!([call(id("fc_1"), text)]))),
        "end with text" => ("completed", completed(json!([said(id("msg_1"), text)]))),
        "end with reasoning" => ("completed", completed(json!([thought(id("rs_1"), text)]))),
        "limit" => ("incomplete", limited("max_output_tokens")),
        "filter" => ("incomplete", limited("content_filter")),
        _ => return word.to_owned(),
    };
    let mut event = json!({"type": format!("response.{kind}")});
    let map = event.as_object_mut().unwrap();
    map.extend(
        rest.as_object()
            .unwrap()
            .clone()
            .into_iter()
            .filter(|(_, v)| !v.is_null()),
    );
    event.to_string()
}

/// The call `call_N` in the item `fc_N`.
fn call(id: Option<String>, arguments: &str) -> Value {
    let call_id = id.as_ref().map(|id| id.replace("fc_", "call_"));
    without_nulls(
        json!({"id": id, "type": "function_call", "status": "completed", "call_id": call_id, "name": "bash", "arguments": arguments}),
    )
}

fn said(id: Option<String>, text: &str) -> Value {
    let part = json!({"type": "output_text", "text": text, "annotations": []});
    let parts = if text.is_empty() { vec![] } else { vec![part] };
    without_nulls(json!({"id": id, "type": "message", "role": "assistant", "content": parts}))
}

/// A reasoning item with a summary of the words in `text`, or its content when it begins with `:`.
pub(crate) fn thought(id: Option<String>, text: &str) -> Value {
    let part = |word: &str| json!({"type": "any", "text": word});
    let (summary, content): (Vec<Value>, Vec<Value>) = match text.strip_prefix(':') {
        Some(text) => (vec![], text.split_whitespace().map(part).collect()),
        None => (text.split_whitespace().map(part).collect(), vec![]),
    };
    without_nulls(json!({"id": id, "type": "reasoning", "summary": summary, "content": content}))
}

fn completed(output: Value) -> Value {
    let usage = json!({"input_tokens": 12, "output_tokens": 7, "total_tokens": 19});
    json!({"response": {"id": "resp_1", "status": "completed", "output": output, "usage": usage}})
}

fn limited(reason: &str) -> Value {
    let usage = json!({"input_tokens": 3, "output_tokens": 2});
    json!({"response": {"status": "incomplete", "incomplete_details": {"reason": reason}, "usage": usage}})
}

fn without_nulls(mut value: Value) -> Value {
    if let Some(map) = value.as_object_mut() {
        map.retain(|_, value| !value.is_null());
    }
    value
}
