//! A completion as Messages, streamed or whole.

use serde_json::{Value, json};

use crate::render::{Asked, fragments, pieces};
use crate::reply::{Completion, FinishReason, Pieces, ToolCall, Usage, UsagePlacement};
use crate::seal::{Purpose, enclose, sign};

/// The data payloads of a streamed completion; their `type` names the event.
pub(crate) fn payloads(completion: &Completion, asked: &Asked<'_>) -> Vec<String> {
    let mut events = vec![start(completion, asked)];
    let blocks = blocks(completion, asked);
    for (index, block) in blocks.iter().enumerate() {
        events.push(
            json!({"type": "content_block_start", "index": index, "content_block": block.opening}),
        );
        if index == 0 {
            events.push(json!({"type": "ping"}));
        }
        let delta =
            |delta: &Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
        events.extend(block.deltas.iter().map(delta));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    if let Some(error) = &completion.error {
        events.push(json!({"type": "error", "error": error}));
    } else {
        events.extend(end(completion));
    }
    events.iter().map(Value::to_string).collect()
}

/// A completion without streaming.
pub(crate) fn object(completion: &Completion, asked: &Asked<'_>) -> Value {
    if let Some(error) = &completion.error {
        return json!({"type": "error", "error": error});
    }
    let mut message = message(asked);
    message["content"] = blocks(completion, asked)
        .into_iter()
        .map(|block| block.whole)
        .collect();
    message["stop_reason"] = stop_reason(completion).into();
    if completion.usage_at != UsagePlacement::None {
        message["usage"] = usage(&completion.usage, completion.usage.completion_tokens);
    }
    message
}

/// One content block in both of its forms.
struct Block {
    whole: Value,
    opening: Value,
    deltas: Vec<Value>,
}

fn blocks(completion: &Completion, asked: &Asked<'_>) -> Vec<Block> {
    let mut out = Vec::new();
    if let Some(thinking) = &completion.thinking {
        let signature = completion
            .signature
            .given(|| sign(Purpose::Thinking, asked.model, thinking));
        out.push(thinking_block(thinking, &signature, completion.pieces));
    }
    if let Some(hidden) = &completion.redacted_thinking {
        let data = enclose(Purpose::Redacted, asked.model, hidden);
        let whole = json!({"type": "redacted_thinking", "data": data});
        out.push(Block {
            opening: whole.clone(),
            whole,
            deltas: Vec::new(),
        });
    }
    if let Some(text) = &completion.text {
        let delta = |piece| json!({"type": "text_delta", "text": piece});
        out.push(Block {
            whole: json!({"type": "text", "text": text}),
            opening: json!({"type": "text", "text": ""}),
            deltas: pieces(text, completion.pieces)
                .into_iter()
                .map(delta)
                .collect(),
        });
    }
    let bytes = completion.fragmenting.bytes;
    out.extend(
        completion
            .tool_calls
            .iter()
            .map(|call| call_block(call, bytes)),
    );
    out
}

fn thinking_block(thinking: &str, signature: &str, how: Pieces) -> Block {
    let delta = |piece| json!({"type": "thinking_delta", "thinking": piece});
    let mut deltas: Vec<Value> = pieces(thinking, how).into_iter().map(delta).collect();
    if !signature.is_empty() {
        deltas.push(json!({"type": "signature_delta", "signature": signature}));
    }
    Block {
        whole: json!({"type": "thinking", "thinking": thinking, "signature": signature}),
        opening: json!({"type": "thinking", "thinking": "", "signature": ""}),
        deltas,
    }
}

fn call_block(call: &ToolCall, bytes: Option<usize>) -> Block {
    let delta = |json: String| json!({"type": "input_json_delta", "partial_json": json});
    let mut deltas = vec![delta(String::new())];
    deltas.extend(
        fragments(&call.arguments_text(), bytes)
            .into_iter()
            .map(delta),
    );
    let block = |input: Value| json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input});
    Block {
        whole: block(call.arguments_value()),
        opening: block(json!({})),
        deltas,
    }
}

fn message(asked: &Asked<'_>) -> Value {
    json!({
        "id": format!("msg_sim{}", asked.index),
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
    })
}

fn start(completion: &Completion, asked: &Asked<'_>) -> Value {
    let mut message = message(asked);
    let none = Usage {
        prompt_tokens: 0,
        completion_tokens: 0,
        ..Usage::default()
    };
    message["usage"] = match completion.usage_at {
        UsagePlacement::None | UsagePlacement::WithFinish => usage(&none, 0),
        _ => usage(&completion.usage, 1),
    };
    json!({"type": "message_start", "message": message})
}

fn end(completion: &Completion) -> Vec<Value> {
    let mut events = Vec::new();
    if completion.finish_reason != FinishReason::Absent {
        let mut delta = json!({
            "type": "message_delta",
            "delta": {"stop_reason": stop_reason(completion), "stop_sequence": null},
        });
        match completion.usage_at {
            UsagePlacement::None => {}
            UsagePlacement::WithFinish | UsagePlacement::EveryChunk => {
                delta["usage"] = usage(&completion.usage, completion.usage.completion_tokens);
            }
            UsagePlacement::FinalChunk => {
                delta["usage"] = json!({"output_tokens": completion.usage.completion_tokens});
            }
        }
        events.push(delta);
        if completion.done {
            events.push(json!({"type": "message_stop"}));
        }
    }
    events
}

/// The input is counted without what the cache gave or took.
fn usage(usage: &Usage, output: u64) -> Value {
    let read = usage.cached_tokens.unwrap_or(0);
    let written = usage.cache_write_tokens.unwrap_or(0);
    json!({
        "input_tokens": usage.prompt_tokens.saturating_sub(read).saturating_sub(written),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "output_tokens": output,
    })
}

fn stop_reason(completion: &Completion) -> Option<&str> {
    match &completion.finish_reason {
        FinishReason::Auto if completion.tool_calls.is_empty() => Some("end_turn"),
        FinishReason::Auto => Some("tool_use"),
        FinishReason::Absent => None,
        FinishReason::Named(reason) => Some(reason),
    }
}
