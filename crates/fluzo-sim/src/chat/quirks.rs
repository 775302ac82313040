//! What servers with quirks refuse, and how their answers look.

use serde_json::{Value, json};

use crate::capabilities::ModelCapabilities;
use crate::check::{is_name, items, text};
use crate::quirk::Quirk;
use crate::reply::{Completion, FinishReason, IdPlacement};

const REASONING: &[&str] = &["reasoning_content", "reasoning", "reasoning_text"];

/// An error answer as such servers give it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QuirkRefusal {
    pub quirk: Quirk,
    pub status: u16,
    pub body: Value,
}

/// The first quirk that refuses the request.
pub(crate) fn quirk_refusal(
    quirks: &[Quirk],
    body: &Value,
    model: &ModelCapabilities,
) -> Option<QuirkRefusal> {
    quirks.iter().find_map(|quirk| {
        let (status, body) = refusal(*quirk, body, model)?;
        Some(QuirkRefusal {
            quirk: *quirk,
            status,
            body,
        })
    })
}

/// The completion as a server with these quirks sends it.
pub(crate) fn with_habits(completion: &Completion, quirks: &[Quirk]) -> Completion {
    let mut changed = completion.clone();
    let has = |quirk| quirks.contains(&quirk);
    if has(Quirk::OmitsIndex) {
        changed.fragmenting.index = false;
    }
    if has(Quirk::RepeatsIds) {
        changed.fragmenting.id = IdPlacement::Every;
    }
    if has(Quirk::SplitsNames) {
        changed.fragmenting.name_bytes = Some(2);
    }
    if has(Quirk::OddFinishReasons) && changed.finish_reason == FinishReason::Auto {
        let word = if changed.tool_calls.is_empty() {
            "eos"
        } else {
            "function_call"
        };
        changed.finish_reason = FinishReason::Named(word.to_owned());
    }
    changed
}

fn refusal(quirk: Quirk, body: &Value, model: &ModelCapabilities) -> Option<(u16, Value)> {
    match quirk {
        Quirk::RefusesNullContent => content_of_calls(body, Value::is_null).map(|at| {
            invalid(
                &format!("Invalid type for 'messages[{at}].content': expected one of a string or array of objects, but got null instead."),
                &format!("messages[{at}].content"),
                "invalid_type",
            )
        }),
        Quirk::RefusesEmptyContent => content_of_calls(body, |content| content == "").map(|at| {
            bare(400, &format!("Invalid request: the message at position {at} with role 'assistant' must not be empty"))
        }),
        Quirk::RefusesTextParts => {
            let at = position(body, |message| is_text_list(message.get("content")))?;
            Some(invalid(
                &format!("Invalid type for 'messages[{at}].content': expected a string, but got an array instead."),
                &format!("messages[{at}].content"),
                "invalid_type",
            ))
        }
        Quirk::RefusesReasoning => refused_reasoning(body),
        Quirk::DemandsReasoning => {
            let at = position(body, |message| lacks_reasoning(message, model))?;
            Some(bare(400, &format!("Missing `reasoning_content` field in the assistant message at message index {at}. The `reasoning_content` in the thinking mode must be passed back to the API.")))
        }
        Quirk::RefusesStreamOptions => unknown(body, "stream_options"),
        Quirk::RefusesMaxCompletionTokens => unknown(body, "max_completion_tokens"),
        Quirk::RefusesReasoningEffort => unknown(body, "reasoning_effort"),
        Quirk::RefusesMaxTokens => body.get("max_tokens").map(|_| {
            invalid(
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
                "max_tokens",
                "unsupported_parameter",
            )
        }),
        Quirk::RefusesDeveloperRole => {
            let at = position(body, |message| text(message, "role") == Some("developer"))?;
            Some(bare(400, &format!("Failed to deserialize the JSON body into the target type: messages[{at}].role: unknown variant `developer`, expected one of `system`, `user`, `assistant`, `tool`")))
        }
        Quirk::RefusesStore => forbidden(body, "store"),
        Quirk::RefusesPromptCacheKey => forbidden(body, "prompt_cache_key"),
        Quirk::RefusesParallelToolCalls => forbidden(body, "parallel_tool_calls"),
        Quirk::RefusesStrict => {
            let strict = |tool: &Value| tool.pointer("/function/strict").is_some();
            let at = items(body, "tools").iter().position(strict)?;
            Some(bare(400, &format!("tools[{at}].function.strict: Extra inputs are not permitted")))
        }
        Quirk::RefusesUserAfterTool => {
            let messages = items(body, "messages");
            let is = |message: &Value, role| text(message, "role") == Some(role);
            messages
                .windows(2)
                .any(|pair| is(&pair[0], "tool") && is(&pair[1], "user"))
                .then(|| mistral("Unexpected role 'user' after role 'tool'", "invalid_request_message_order", "3230"))
        }
        Quirk::DemandsNineCharacterIds => {
            let id = call_ids(body).find(|id| id.len() != 9 || !is_name(id, 9) || id.contains(['_', '-']))?;
            Some(mistral(
                &format!("Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9."),
                "invalid_function_call",
                "3280",
            ))
        }
        Quirk::OmitsIndex
        | Quirk::RepeatsIds
        | Quirk::SplitsNames
        | Quirk::OddFinishReasons
        | Quirk::CountsCacheHits
        | Quirk::UsageInChoice => None,
    }
}

fn position(body: &Value, test: impl Fn(&Value) -> bool) -> Option<usize> {
    items(body, "messages").iter().position(test)
}

/// The first assistant message with calls whose content passes; a missing one is null.
fn content_of_calls(body: &Value, test: impl Fn(&Value) -> bool) -> Option<usize> {
    position(body, |message| {
        let content = message.get("content").unwrap_or(&Value::Null);
        !items(message, "tool_calls").is_empty() && test(content)
    })
}

fn is_text_list(content: Option<&Value>) -> bool {
    let is_text = |part: &Value| text(part, "type") == Some("text");
    content
        .and_then(Value::as_array)
        .is_some_and(|parts| parts.iter().all(is_text))
}

fn refused_reasoning(body: &Value) -> Option<(u16, Value)> {
    let field = |message: &Value| REASONING.iter().find(|key| message.get(key).is_some());
    let messages = items(body, "messages");
    let at = messages
        .iter()
        .position(|message| field(message).is_some())?;
    let key = messages.get(at).and_then(field)?;
    Some(bare(
        400,
        &format!(
            "'messages.{at}' : for 'role:assistant' the following must be satisfied[('messages.{at}' : property '{key}' is unsupported)]"
        ),
    ))
}

fn lacks_reasoning(message: &Value, model: &ModelCapabilities) -> bool {
    let calls = items(message, "tool_calls");
    let Some(first) = calls.first() else {
        return false;
    };
    let Some(given) = text(message, "reasoning_content") else {
        return true;
    };
    let thought = text(first, "id").and_then(|id| model.thought_calls.get(id));
    thought.is_some_and(|thought| thought != given)
}

fn call_ids(body: &Value) -> impl Iterator<Item = &str> {
    let messages = items(body, "messages").iter();
    messages.flat_map(|message| {
        let own = items(message, "tool_calls").iter();
        own.filter_map(|call| text(call, "id"))
            .chain(text(message, "tool_call_id"))
    })
}

fn bare(status: u16, message: &str) -> (u16, Value) {
    let error = json!({"message": message, "type": "invalid_request_error", "param": null, "code": "invalid_request_error"});
    (status, json!({ "error": error }))
}

fn invalid(message: &str, param: &str, code: &str) -> (u16, Value) {
    let error =
        json!({"message": message, "type": "invalid_request_error", "param": param, "code": code});
    (400, json!({ "error": error }))
}

fn unknown(body: &Value, key: &str) -> Option<(u16, Value)> {
    body.get(key)?;
    let message = format!("Unrecognized request argument supplied: {key}");
    let error =
        json!({"message": message, "type": "invalid_request_error", "param": null, "code": null});
    Some((400, json!({ "error": error })))
}

/// As servers refuse it that check a request against its declared fields.
fn forbidden(body: &Value, key: &str) -> Option<(u16, Value)> {
    let input = body.get(key)?;
    let detail = json!([{"type": "extra_forbidden", "loc": ["body", key], "msg": "Extra inputs are not permitted", "input": input}]);
    Some((
        422,
        json!({"object": "error", "message": {"detail": detail}, "type": "invalid_request_error", "param": null, "code": null}),
    ))
}

fn mistral(message: &str, kind: &str, code: &str) -> (u16, Value) {
    (
        400,
        json!({"object": "error", "message": message, "type": kind, "param": null, "code": code}),
    )
}
