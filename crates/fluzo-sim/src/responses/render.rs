//! A completion as a response, streamed or whole.

use serde_json::{Value, json};

use super::items::signed_text;
use super::rules::ENCRYPTED;
use crate::check::items;
use crate::render::{Asked, fragments, pieces};
use crate::reply::{Completion, FinishReason, Pieces, ToolCall, Usage, UsagePlacement};
use crate::seal::{Purpose, sign};

/// The data payloads of a streamed completion; their `type` names the event.
pub(crate) fn payloads(completion: &Completion, asked: &Asked<'_>) -> Vec<String> {
    let mut events = Events::default();
    let opening = response(asked, "in_progress", &[]);
    events.push("response.created", json!({ "response": opening }));
    events.push("response.in_progress", json!({ "response": opening }));
    let output = output(completion, asked);
    for (index, item) in output.iter().enumerate() {
        events.item(index, item);
    }
    let whole: Vec<Value> = output.into_iter().map(|item| item.whole).collect();
    match &completion.error {
        Some(error) if error["type"] == "error" => events.push("error", error.clone()),
        Some(_) => {
            let failed = ended(completion, asked, &whole);
            events.push("response.failed", json!({ "response": failed }));
        }
        None => {
            if let Some(end) = end_event(completion) {
                let ended = ended(completion, asked, &whole);
                events.push(end, json!({ "response": ended }));
            }
        }
    }
    events.0.iter().map(Value::to_string).collect()
}

/// A completion without streaming.
pub(crate) fn object(completion: &Completion, asked: &Asked<'_>) -> Value {
    if let Some(error) = completion
        .error
        .as_ref()
        .filter(|error| error["type"] == "error")
    {
        return json!({ "error": error });
    }
    let whole: Vec<Value> = output(completion, asked)
        .into_iter()
        .map(|item| item.whole)
        .collect();
    ended(completion, asked, &whole)
}

/// Numbered events.
#[derive(Default)]
struct Events(Vec<Value>);

impl Events {
    fn push(&mut self, kind: &str, fields: Value) {
        let mut event = json!({"type": kind, "sequence_number": self.0.len()});
        for (key, value) in fields.as_object().into_iter().flatten() {
            if key != "type" {
                event[key.as_str()] = value.clone();
            }
        }
        self.0.push(event);
    }

    fn item(&mut self, index: usize, item: &Item) {
        let place = json!({"item_id": item.whole["id"], "output_index": index});
        let at = |fields: Value| {
            let mut all = place.clone();
            for (key, value) in fields.as_object().into_iter().flatten() {
                all[key.as_str()] = value.clone();
            }
            all
        };
        let added = json!({"output_index": index, "item": item.opening});
        self.push("response.output_item.added", added);
        for (kind, fields) in &item.events {
            self.push(kind, at(fields.clone()));
        }
        let done = json!({"output_index": index, "item": item.whole});
        self.push("response.output_item.done", done);
    }
}

/// One output item in both of its forms.
struct Item {
    whole: Value,
    opening: Value,
    events: Vec<(&'static str, Value)>,
}

fn output(completion: &Completion, asked: &Asked<'_>) -> Vec<Item> {
    let mut out = Vec::new();
    let owner = match completion.thinking {
        Some(_) => format!("r{}", asked.index),
        None => format!("p{}", asked.index),
    };
    if let Some(thinking) = &completion.thinking {
        out.push(reasoning(
            &format!("rs_{owner}"),
            thinking,
            completion,
            asked,
        ));
    }
    if let Some(text) = &completion.text {
        out.push(message(&format!("msg_{owner}_0"), text, completion.pieces));
    }
    for (number, call) in completion.tool_calls.iter().enumerate() {
        let id = format!("fc_{owner}_{}", number + 1);
        out.push(function_call(&id, call, completion.fragmenting.bytes));
    }
    out
}

fn reasoning(id: &str, thinking: &str, completion: &Completion, asked: &Asked<'_>) -> Item {
    let mut whole = json!({"type": "reasoning", "id": id, "summary": [{"type": "summary_text", "text": thinking}]});
    if items(asked.body, "include")
        .iter()
        .any(|value| value == ENCRYPTED)
    {
        let content = signed_text(id, thinking);
        let given = completion
            .signature
            .given(|| sign(Purpose::Reasoning, asked.model, &content));
        whole["encrypted_content"] = given.into();
    }
    let part =
        |text: &str| json!({"summary_index": 0, "part": {"type": "summary_text", "text": text}});
    let mut events = vec![("response.reasoning_summary_part.added", part(""))];
    events.extend(
        pieces(thinking, completion.pieces)
            .into_iter()
            .map(|piece| {
                (
                    "response.reasoning_summary_text.delta",
                    json!({"summary_index": 0, "delta": piece}),
                )
            }),
    );
    let text = json!({"summary_index": 0, "text": thinking});
    events.push(("response.reasoning_summary_text.done", text));
    events.push(("response.reasoning_summary_part.done", part(thinking)));
    Item {
        whole,
        opening: json!({"type": "reasoning", "id": id, "summary": []}),
        events,
    }
}

fn message(id: &str, text: &str, how: Pieces) -> Item {
    let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
    let item = |status: &str, content: Vec<Value>| json!({"type": "message", "id": id, "status": status, "role": "assistant", "content": content});
    let at = |key: &str, value: Value| {
        let mut fields = json!({"content_index": 0});
        fields[key] = value;
        fields
    };
    let mut events = vec![("response.content_part.added", at("part", part("")))];
    let delta = |piece: String| ("response.output_text.delta", at("delta", piece.into()));
    events.extend(pieces(text, how).into_iter().map(delta));
    events.push(("response.output_text.done", at("text", text.into())));
    events.push(("response.content_part.done", at("part", part(text))));
    Item {
        whole: item("completed", vec![part(text)]),
        opening: item("in_progress", Vec::new()),
        events,
    }
}

fn function_call(id: &str, call: &ToolCall, bytes: Option<usize>) -> Item {
    let item = |status: &str, arguments: &str| {
        json!({
            "type": "function_call",
            "id": id,
            "call_id": call.id,
            "name": call.name,
            "arguments": arguments,
            "status": status,
        })
    };
    let arguments = call.arguments_text();
    let delta = |piece: String| {
        (
            "response.function_call_arguments.delta",
            json!({ "delta": piece }),
        )
    };
    let mut events: Vec<_> = fragments(&arguments, bytes)
        .into_iter()
        .map(delta)
        .collect();
    events.push((
        "response.function_call_arguments.done",
        json!({ "arguments": arguments }),
    ));
    Item {
        whole: item("completed", &arguments),
        opening: item("in_progress", ""),
        events,
    }
}

fn response(asked: &Asked<'_>, status: &str, output: &[Value]) -> Value {
    json!({
        "id": format!("resp_sim{}", asked.index),
        "object": "response",
        "created_at": 1_700_000_000,
        "status": status,
        "error": null,
        "incomplete_details": null,
        "model": asked.model,
        "output": output,
        "parallel_tool_calls": true,
        "store": asked.body.get("store").cloned().unwrap_or(Value::Bool(true)),
        "usage": null,
    })
}

/// The response at its end.
fn ended(completion: &Completion, asked: &Asked<'_>, output: &[Value]) -> Value {
    let (status, reason) = match &completion.finish_reason {
        _ if completion.error.is_some() => ("failed", None),
        FinishReason::Auto | FinishReason::Absent => ("completed", None),
        FinishReason::Named(word) if word == "completed" => ("completed", None),
        FinishReason::Named(word) if word == "cancelled" => ("cancelled", None),
        FinishReason::Named(word) => ("incomplete", Some(word)),
    };
    let mut response = response(asked, status, output);
    if let Some(error) = &completion.error {
        response["error"] = error.clone();
    }
    if let Some(reason) = reason {
        response["incomplete_details"] = json!({ "reason": reason });
    }
    if completion.usage_at != UsagePlacement::None && completion.error.is_none() {
        response["usage"] = usage(&completion.usage);
    }
    response
}

/// The event that ends the stream, if the script lets it end.
fn end_event(completion: &Completion) -> Option<&'static str> {
    match &completion.finish_reason {
        _ if !completion.done => None,
        FinishReason::Absent => None,
        FinishReason::Auto => Some("response.completed"),
        FinishReason::Named(word) if word == "completed" => Some("response.completed"),
        FinishReason::Named(_) => Some("response.incomplete"),
    }
}

fn usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens.unwrap_or(0)},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens.unwrap_or(0)},
        "total_tokens": usage.prompt_tokens.saturating_add(usage.completion_tokens),
    })
}
