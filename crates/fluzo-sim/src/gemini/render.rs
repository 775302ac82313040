//! A completion as Gemini chunks, streamed or whole.

use serde_json::{Map, Value, json};

use crate::render::{Asked, pieces};
use crate::reply::{Completion, FinishReason, Pieces, Signature, ToolCall, Usage, UsagePlacement};
use crate::seal::{Purpose, sign};

/// The data payloads of a streamed completion.
pub(crate) fn payloads(completion: &Completion, asked: &Asked<'_>) -> Vec<String> {
    let mut parts = parts(completion, asked, completion.pieces);
    let last = if completion.error.is_none() {
        parts.pop()
    } else {
        None
    };
    let every = completion.usage_at == UsagePlacement::EveryChunk;
    let early = every.then(|| usage(&completion.usage, false));
    let mut chunks: Vec<Value> = parts
        .into_iter()
        .map(|part| chunk(asked, vec![part], None, early.clone()))
        .collect();
    match &completion.error {
        Some(error) => chunks.push(json!({ "error": error })),
        None => {
            let real = completion.usage_at != UsagePlacement::None;
            chunks.push(chunk(
                asked,
                last.into_iter().collect(),
                finish_reason(completion),
                real.then(|| usage(&completion.usage, true)),
            ));
        }
    }
    chunks.iter().map(Value::to_string).collect()
}

/// A completion without streaming.
pub(crate) fn object(completion: &Completion, asked: &Asked<'_>) -> Value {
    if let Some(error) = &completion.error {
        return json!({ "error": error });
    }
    let real = completion.usage_at != UsagePlacement::None;
    chunk(
        asked,
        parts(completion, asked, Pieces::Whole),
        finish_reason(completion),
        real.then(|| usage(&completion.usage, true)),
    )
}

fn parts(completion: &Completion, asked: &Asked<'_>, how: Pieces) -> Vec<Value> {
    let mut out = Vec::new();
    if let Some(thinking) = &completion.thinking {
        let part = |piece| json!({"text": piece, "thought": true});
        out.extend(pieces(thinking, how).into_iter().map(part));
    }
    if let Some(text) = &completion.text {
        let part = |piece| json!({ "text": piece });
        out.extend(pieces(text, how).into_iter().map(part));
    }
    let signed = match &completion.signature {
        Signature::Auto => asked.reasoning,
        Signature::Absent => false,
        Signature::Named(_) => true,
    };
    for (index, call) in completion.tool_calls.iter().enumerate() {
        let mut part = call_part(call);
        if signed && index == 0 {
            let make = || sign(Purpose::Call, asked.model, &call.signed_text());
            part["thoughtSignature"] = completion.signature.given(make).into();
        }
        out.push(part);
    }
    if signed && completion.tool_calls.is_empty() && completion.text.is_some() {
        let make = || sign(Purpose::Answer, asked.model, "");
        out.push(json!({"text": "", "thoughtSignature": completion.signature.given(make)}));
    }
    out
}

fn call_part(call: &ToolCall) -> Value {
    let mut inner = Map::new();
    if !call.id.is_empty() {
        inner.insert("id".to_owned(), call.id.clone().into());
    }
    inner.insert("name".to_owned(), call.name.clone().into());
    inner.insert("args".to_owned(), call.arguments_value());
    json!({ "functionCall": inner })
}

fn chunk(
    asked: &Asked<'_>,
    parts: Vec<Value>,
    finish_reason: Option<&str>,
    usage: Option<Value>,
) -> Value {
    let mut candidate = json!({"content": {"role": "model"}, "index": 0});
    if !parts.is_empty() {
        candidate["content"]["parts"] = parts.into();
    }
    if let Some(reason) = finish_reason {
        candidate["finishReason"] = reason.into();
    }
    let mut chunk = json!({ "candidates": [candidate] });
    if let Some(usage) = usage {
        chunk["usageMetadata"] = usage;
    }
    chunk["modelVersion"] = asked.model.into();
    chunk["responseId"] = format!("sim{}", asked.index).into();
    chunk
}

/// Thoughts are counted apart from the answer. Before the end only the request is known.
fn usage(usage: &Usage, whole: bool) -> Value {
    let thoughts = usage.reasoning_tokens.unwrap_or(0);
    let mut value =
        json!({"promptTokenCount": usage.prompt_tokens, "totalTokenCount": usage.prompt_tokens});
    if let Some(cached) = usage.cached_tokens {
        value["cachedContentTokenCount"] = cached.into();
    }
    if whole {
        value["candidatesTokenCount"] = usage.completion_tokens.saturating_sub(thoughts).into();
        value["totalTokenCount"] = usage
            .prompt_tokens
            .saturating_add(usage.completion_tokens)
            .into();
        if usage.reasoning_tokens.is_some() {
            value["thoughtsTokenCount"] = thoughts.into();
        }
    }
    value
}

fn finish_reason(completion: &Completion) -> Option<&str> {
    match &completion.finish_reason {
        FinishReason::Auto => Some("STOP"),
        FinishReason::Absent => None,
        FinishReason::Named(reason) => Some(reason),
    }
}
