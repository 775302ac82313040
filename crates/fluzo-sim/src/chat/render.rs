//! A completion as Chat Completions, streamed or whole.

use serde_json::{Map, Value, json};

use super::quirks::with_habits;
use crate::quirk::Quirk;
use crate::render::{Asked, fragments, pieces};
use crate::reply::{
    Completion, FinishReason, FragmentOrder, Fragmenting, IdPlacement, ToolCall, Usage,
    UsagePlacement,
};

/// The data payloads of a streamed completion.
pub(crate) fn payloads(completion: &Completion, asked: &Asked<'_>) -> Vec<String> {
    let completion = &with_habits(completion, asked.quirks);
    let on_each = completion.usage_at == UsagePlacement::EveryChunk;
    let zeros = on_each.then(|| {
        let zeros = Usage {
            prompt_tokens: 0,
            completion_tokens: 0,
            ..completion.usage.clone()
        };
        usage_value(&zeros, asked.quirks)
    });
    let real = usage_value(&completion.usage, asked.quirks);
    let in_choice = asked.quirks.contains(&Quirk::UsageInChoice);
    let mut out: Vec<String> = deltas(completion)
        .into_iter()
        .map(|delta| chunk(asked, delta, Value::Null, zeros.clone()))
        .collect();
    if let Some(error) = &completion.error {
        out.push(json!({ "error": error }).to_string());
        return out;
    }
    if let Some(reason) = finish_reason(completion) {
        let delta = if completion.finish_has_role {
            json!({"role": "assistant", "content": null})
        } else {
            json!({})
        };
        let with_usage = match completion.usage_at {
            UsagePlacement::EveryChunk | UsagePlacement::WithFinish => true,
            UsagePlacement::FinalChunk => in_choice,
            UsagePlacement::None => false,
        };
        out.push(chunk(
            asked,
            delta,
            reason.into(),
            with_usage.then(|| real.clone()),
        ));
    }
    let apart = completion.usage_at == UsagePlacement::FinalChunk && !in_choice;
    if apart && includes_usage(asked) {
        let mut last = base(asked, "chat.completion.chunk");
        last.insert("choices".to_owned(), json!([]));
        last.insert("usage".to_owned(), real);
        out.push(Value::Object(last).to_string());
    }
    if completion.done {
        out.push("[DONE]".to_owned());
    }
    out
}

fn includes_usage(asked: &Asked<'_>) -> bool {
    asked.body.pointer("/stream_options/include_usage") == Some(&Value::Bool(true))
}

fn base(asked: &Asked<'_>, object: &str) -> Map<String, Value> {
    let mut map = Map::new();
    map.insert(
        "id".to_owned(),
        format!("chatcmpl-sim-{}", asked.index).into(),
    );
    map.insert("object".to_owned(), object.into());
    map.insert("created".to_owned(), 1_700_000_000.into());
    map.insert("model".to_owned(), asked.model.into());
    map
}

fn chunk(asked: &Asked<'_>, delta: Value, finish_reason: Value, usage: Option<Value>) -> String {
    let mut map = base(asked, "chat.completion.chunk");
    let mut choice = json!({"index": 0, "delta": delta, "finish_reason": finish_reason});
    match usage {
        Some(usage) if asked.quirks.contains(&Quirk::UsageInChoice) => choice["usage"] = usage,
        Some(usage) => drop(map.insert("usage".to_owned(), usage)),
        None => {}
    }
    map.insert("choices".to_owned(), json!([choice]));
    Value::Object(map).to_string()
}

fn usage_value(usage: &Usage, quirks: &[Quirk]) -> Value {
    let mut value = json!({
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens.saturating_add(usage.completion_tokens),
    });
    if quirks.contains(&Quirk::CountsCacheHits) {
        let hits = usage.cached_tokens.unwrap_or(0);
        value["prompt_cache_hit_tokens"] = hits.into();
        value["prompt_cache_miss_tokens"] = usage.prompt_tokens.saturating_sub(hits).into();
    } else if let Some(cached) = usage.cached_tokens {
        value["prompt_tokens_details"] = json!({ "cached_tokens": cached });
    }
    if let Some(written) = usage.cache_write_tokens {
        value["prompt_tokens_details"]["cache_write_tokens"] = written.into();
    }
    if let Some(reasoning) = usage.reasoning_tokens {
        value["completion_tokens_details"] = json!({ "reasoning_tokens": reasoning });
    }
    value
}

fn finish_reason(completion: &Completion) -> Option<&str> {
    match &completion.finish_reason {
        FinishReason::Auto if completion.tool_calls.is_empty() => Some("stop"),
        FinishReason::Auto => Some("tool_calls"),
        FinishReason::Absent => None,
        FinishReason::Named(reason) => Some(reason),
    }
}

/// The deltas of a completion, the opening one with the role included.
fn deltas(completion: &Completion) -> Vec<Value> {
    let mut out = vec![json!({"role": "assistant", "content": ""})];
    if let Some(thinking) = &completion.thinking {
        out.extend(
            pieces(thinking, completion.pieces)
                .into_iter()
                .map(|piece| {
                    let mut delta = Map::new();
                    delta.insert(completion.thinking_field.clone(), piece.into());
                    Value::Object(delta)
                }),
        );
    }
    if let Some(text) = &completion.text {
        out.extend(
            pieces(text, completion.pieces)
                .into_iter()
                .map(|piece| json!({ "content": piece })),
        );
    }
    out.extend(tool_deltas(&completion.tool_calls, &completion.fragmenting));
    out
}

fn tool_deltas(calls: &[ToolCall], how: &Fragmenting) -> Vec<Value> {
    let by_call: Vec<Vec<Value>> = calls
        .iter()
        .enumerate()
        .map(|(index, call)| entries(index, call, how))
        .collect();
    let rounds = by_call.iter().map(Vec::len).max().unwrap_or(0);
    let round = |number: usize| {
        by_call
            .iter()
            .filter_map(move |entries| entries.get(number).cloned())
    };
    match how.order {
        FragmentOrder::Sequential => by_call
            .into_iter()
            .flatten()
            .map(|entry| json!({ "tool_calls": [entry] }))
            .collect(),
        FragmentOrder::Interleaved => (0..rounds)
            .flat_map(round)
            .map(|entry| json!({ "tool_calls": [entry] }))
            .collect(),
        FragmentOrder::Together => (0..rounds)
            .map(|number| json!({ "tool_calls": round(number).collect::<Vec<_>>() }))
            .collect(),
    }
}

/// The deltas of one call.
fn entries(index: usize, call: &ToolCall, how: &Fragmenting) -> Vec<Value> {
    let arguments = fragments(&call.arguments_text(), how.bytes);
    let mut parts: Vec<(Option<String>, Option<String>)> = match how.name_bytes {
        Some(_) => {
            let names = fragments(&call.name, how.name_bytes);
            names.into_iter().map(|name| (Some(name), None)).collect()
        }
        None => Vec::new(),
    };
    for fragment in arguments {
        let named = parts.is_empty() || (how.name_repeated && how.name_bytes.is_none());
        parts.push((named.then(|| call.name.clone()), Some(fragment)));
    }
    parts
        .into_iter()
        .enumerate()
        .map(|(number, (name, arguments))| {
            let first = number == 0;
            let mut entry = Map::new();
            if how.index {
                entry.insert("index".to_owned(), index.into());
            }
            if let Some(id) = id_of(call, how.id, first) {
                entry.insert("id".to_owned(), id.into());
            }
            if first {
                entry.insert("type".to_owned(), "function".into());
            }
            let fields = [("name", name), ("arguments", arguments)];
            let function: Map<String, Value> = fields
                .into_iter()
                .filter_map(|(key, value)| Some((key.to_owned(), value?.into())))
                .collect();
            entry.insert("function".to_owned(), Value::Object(function));
            Value::Object(entry)
        })
        .collect()
}

/// The id that a delta of the call carries.
fn id_of(call: &ToolCall, how: IdPlacement, first: bool) -> Option<&str> {
    match how {
        IdPlacement::Never => None,
        IdPlacement::First if !first => None,
        IdPlacement::EmptyLater if !first => Some(""),
        IdPlacement::First | IdPlacement::EmptyLater | IdPlacement::Every => Some(&call.id),
    }
}

/// A completion without streaming.
pub(crate) fn object(completion: &Completion, asked: &Asked<'_>) -> Value {
    let completion = &with_habits(completion, asked.quirks);
    if let Some(error) = &completion.error {
        return json!({ "error": error });
    }
    let mut message = Map::new();
    message.insert("role".to_owned(), "assistant".into());
    message.insert("content".to_owned(), completion.text.clone().into());
    if let Some(thinking) = &completion.thinking {
        message.insert(completion.thinking_field.clone(), thinking.clone().into());
    }
    if !completion.tool_calls.is_empty() {
        let call = |call: &ToolCall| json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments_text()}});
        message.insert(
            "tool_calls".to_owned(),
            completion.tool_calls.iter().map(call).collect(),
        );
    }
    let mut map = base(asked, "chat.completion");
    map.insert(
        "choices".to_owned(),
        json!([{"index": 0, "message": message, "finish_reason": finish_reason(completion)}]),
    );
    if completion.usage_at != UsagePlacement::None {
        map.insert(
            "usage".to_owned(),
            usage_value(&completion.usage, asked.quirks),
        );
    }
    Value::Object(map)
}
