//! Pi's JSON form of events.

use fluzo_llm::{AssistantMessage, Content, Extra, Message, StreamEvent, ToolCall, ToolOutput};
use jiter::{JsonValue, PartialMode};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::Event;

/// Writes events as pi does: every update carries the whole partial message twice.
///
/// Keeps a partial of its own, so that deltas are all it needs; a writer serves one
/// reader and must see every event.
#[derive(Debug, Default)]
pub struct PiWriter {
    partial: Option<AssistantMessage>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Update<'a> {
    r#type: &'static str,
    assistant_message_event: Delta<'a>,
    message: &'a RawValue,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Delta<'a> {
    r#type: &'static str,
    content_index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    delta: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call: Option<&'a ToolCall>,
    partial: &'a RawValue,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    content: &'a [Content],
    #[serde(skip_serializing_if = "Option::is_none")]
    details: &'a Option<Value>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    terminate: bool,
}

impl PiWriter {
    /// The event as one line of JSON without the line end.
    ///
    /// # Errors
    ///
    /// When a value in it has no JSON form, which values read from JSON always have.
    pub fn line(&mut self, event: &Event) -> serde_json::Result<String> {
        match event {
            Event::MessageStart { message } => {
                self.partial = message.as_assistant().cloned();
                to_line(event.name(), json!({ "message": message }))
            }
            Event::MessageUpdate { delta } => self.update(delta),
            Event::MessageEnd { message } => {
                self.partial = None;
                to_line(event.name(), json!({ "message": message }))
            }
            other => to_line(other.name(), fields(other)),
        }
    }

    fn update(&mut self, delta: &StreamEvent) -> serde_json::Result<String> {
        let Some(partial) = &mut self.partial else {
            return to_line("message_update", json!({}));
        };
        partial.apply(delta);
        let raw = serde_json::value::to_raw_value(&readable(partial))?;
        let block = |index: usize| partial.content.get(index);
        let mut out = Delta {
            r#type: delta.name(),
            content_index: 0,
            delta: None,
            content: None,
            tool_call: None,
            partial: &raw,
        };
        match delta {
            StreamEvent::TextDelta { index, delta }
            | StreamEvent::ThinkingDelta { index, delta }
            | StreamEvent::ToolCallDelta { index, delta } => {
                (out.content_index, out.delta) = (*index, Some(delta.as_str()));
            }
            StreamEvent::TextEnd { index, .. } | StreamEvent::ThinkingEnd { index, .. } => {
                out.content_index = *index;
                out.content = block(*index).map(block_text);
            }
            StreamEvent::ToolCallEnd { index, call } => {
                (out.content_index, out.tool_call) = (*index, Some(&**call));
            }
            StreamEvent::TextStart { index }
            | StreamEvent::ThinkingStart { index }
            | StreamEvent::ToolCallStart { index, .. } => out.content_index = *index,
            StreamEvent::Start | StreamEvent::Done(_) | StreamEvent::Failed(_) => {}
        }
        serde_json::to_string(&Update {
            r#type: "message_update",
            assistant_message_event: out,
            message: &raw,
        })
    }
}

fn block_text(block: &Content) -> &str {
    match block {
        Content::Text(text) => &text.text,
        Content::Thinking(thinking) => &thinking.thinking,
        _ => "",
    }
}

fn to_line(name: &str, fields: Value) -> serde_json::Result<String> {
    let mut object = Extra::new();
    object.insert("type".into(), Value::from(name));
    if let Value::Object(fields) = fields {
        object.extend(fields);
    }
    serde_json::to_string(&object)
}

fn fields(event: &Event) -> Value {
    match event {
        Event::ToolExecutionStart {
            call_id,
            tool_name,
            args,
        } => {
            json!({ "toolCallId": call_id, "toolName": tool_name, "args": args })
        }
        Event::ToolExecutionUpdate {
            call_id,
            tool_name,
            args,
            partial,
        } => {
            json!({ "toolCallId": call_id, "toolName": tool_name, "args": args, "partialResult": shown(partial) })
        }
        Event::ToolExecutionEnd {
            call_id,
            tool_name,
            result,
            is_error,
        } => {
            json!({ "toolCallId": call_id, "toolName": tool_name, "result": shown(result), "isError": is_error })
        }
        Event::TurnEnd {
            message,
            tool_results,
        } => json!({ "message": message, "toolResults": tool_results }),
        Event::AgentEnd {
            messages,
            will_retry,
        } => json!({ "messages": messages, "willRetry": will_retry }),
        Event::QueueUpdate {
            steering,
            follow_up,
        } => json!({ "steering": steering, "followUp": follow_up }),
        Event::AutoRetryStart {
            attempt,
            max_attempts,
            delay_ms,
            error_message,
        } => json!({
            "attempt": attempt, "maxAttempts": max_attempts, "delayMs": delay_ms, "errorMessage": error_message
        }),
        Event::AutoRetryEnd {
            success,
            attempt,
            final_error,
            given_up,
        } => {
            let mut fields = json!({ "success": success, "attempt": attempt });
            if let Some(error) = final_error {
                fields["finalError"] = Value::from(error.as_str());
            }
            if let Some(given_up) = given_up {
                fields["givenUp"] = json!(given_up);
            }
            fields
        }
        Event::FormSwitched {
            switch,
            error_message,
        } => json!({
            "key": switch.key(), "setting": switch, "errorMessage": error_message
        }),
        Event::CompactionStart { reason } => json!({ "reason": reason }),
        Event::CompactionEnd {
            reason,
            result,
            aborted,
            will_retry,
            error_message,
        } => {
            let mut fields = json!({ "reason": reason });
            if let Some(result) = result {
                fields["result"] = json!(result);
            }
            fields["aborted"] = json!(aborted);
            fields["willRetry"] = json!(will_retry);
            if let Some(error) = error_message {
                fields["errorMessage"] = Value::from(error.as_str());
            }
            fields
        }
        Event::SessionInfoChanged { name } => match name {
            Some(name) => json!({ "name": name }),
            None => json!({}),
        },
        Event::ThinkingLevelChanged { level } => json!({ "level": level }),
        Event::ExtensionError { path, event, error } => json!({
            "extensionPath": path, "event": event, "error": error
        }),
        Event::AgentStart
        | Event::TurnStart
        | Event::MessageStart { .. }
        | Event::MessageUpdate { .. }
        | Event::MessageEnd { .. } => json!({}),
    }
}

fn shown(output: &ToolOutput) -> Shown<'_> {
    Shown {
        content: &output.content,
        details: &output.details,
        terminate: output.terminate,
    }
}

/// The partial with what can be read of its unfinished arguments.
fn readable(partial: &AssistantMessage) -> Message {
    let mut copy = partial.clone();
    for block in &mut copy.content {
        if let Content::ToolCall(call) = block
            && call.open
        {
            call.arguments = partial_arguments(&call.partial_arguments);
        }
    }
    Message::Assistant(copy)
}

fn partial_arguments(text: &str) -> Extra {
    let mode = PartialMode::TrailingStrings;
    let parsed = JsonValue::parse_with_config(text.as_bytes(), false, mode);
    match parsed.map(|value| to_value(&value)) {
        Ok(Value::Object(map)) => map,
        _ => Extra::new(),
    }
}

fn to_value(value: &JsonValue<'_>) -> Value {
    match value {
        JsonValue::Null => Value::Null,
        JsonValue::Bool(b) => Value::from(*b),
        JsonValue::Int(n) => Value::from(*n),
        JsonValue::Float(n) => Value::from(*n),
        JsonValue::Str(text) => Value::from(text.as_ref()),
        JsonValue::Array(list) => list.iter().map(to_value).collect(),
        JsonValue::Object(map) => map
            .iter()
            .map(|(key, value)| (key.to_string(), to_value(value)))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn start() -> Event {
        let json = r#"{"id":"m","name":"m","api":"a","provider":"p","baseUrl":"","input":["text"],"contextWindow":1,"maxTokens":1}"#;
        let partial = AssistantMessage::begin(&serde_json::from_str(json).unwrap(), 1);
        Event::MessageStart {
            message: Arc::new(Message::Assistant(partial)),
        }
    }

    fn update(delta: StreamEvent) -> Event {
        Event::MessageUpdate { delta }
    }

    #[test]
    fn an_update_has_the_whole_partial_twice_in_pi_key_order() {
        let mut writer = PiWriter::default();
        writer.line(&start()).unwrap();
        writer
            .line(&update(StreamEvent::TextStart { index: 0 }))
            .unwrap();
        let line = writer
            .line(&update(StreamEvent::TextDelta {
                index: 0,
                delta: "He".into(),
            }))
            .unwrap();
        let prefix = r#"{"type":"message_update","assistantMessageEvent":{"type":"text_delta","contentIndex":0,"delta":"He","partial":{"role":"assistant","content":[{"type":"text","text":"He"}]"#;
        assert!(line.starts_with(prefix), "{line}");
        let value: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["message"], value["assistantMessageEvent"]["partial"]);
        let end = writer
            .line(&update(StreamEvent::TextEnd {
                index: 0,
                signature: None,
            }))
            .unwrap();
        assert!(
            end.contains(r#""type":"text_end","contentIndex":0,"content":"He","partial""#),
            "{end}"
        );
    }

    #[test]
    fn unfinished_arguments_are_shown_as_far_as_they_can_be_read() {
        let mut writer = PiWriter::default();
        writer.line(&start()).unwrap();
        writer
            .line(&update(StreamEvent::ToolCallStart {
                index: 0,
                id: "c".into(),
                name: "read".into(),
            }))
            .unwrap();
        let line = writer
            .line(&update(StreamEvent::ToolCallDelta {
                index: 0,
                delta: r#"{"path":"a.t"#.into(),
            }))
            .unwrap();
        let value: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            value["message"]["content"][0],
            json!({"type": "toolCall", "id": "c", "name": "read", "arguments": {"path": "a.t"}})
        );
    }

    #[test]
    fn other_events_have_pi_fields() {
        let output = ToolOutput::text("x").with_details(json!({}));
        let rows = [
            (Event::AgentStart, r#"{"type":"agent_start"}"#.to_owned()),
            (
                Event::ToolExecutionEnd { call_id: "c".into(), tool_name: "read".into(), result: output, is_error: true },
                r#"{"type":"tool_execution_end","toolCallId":"c","toolName":"read","result":{"content":[{"type":"text","text":"x"}],"details":{}},"isError":true}"#.into(),
            ),
            (Event::AgentEnd { messages: vec![], will_retry: false }, r#"{"type":"agent_end","messages":[],"willRetry":false}"#.into()),
            (
                Event::QueueUpdate { steering: vec!["S".into()], follow_up: vec![] },
                r#"{"type":"queue_update","steering":["S"],"followUp":[]}"#.into(),
            ),
            (
                Event::AutoRetryStart { attempt: 1, max_attempts: 3, delay_ms: 50, error_message: "e".into() },
                r#"{"type":"auto_retry_start","attempt":1,"maxAttempts":3,"delayMs":50,"errorMessage":"e"}"#.into(),
            ),
            (
                Event::AutoRetryEnd { success: false, attempt: 2, final_error: Some("e".into()), given_up: None },
                r#"{"type":"auto_retry_end","success":false,"attempt":2,"finalError":"e"}"#.into(),
            ),
            (
                Event::FormSwitched { switch: fluzo_llm::FormSwitch::MaxTokens, error_message: "e".into() },
                r#"{"type":"form_switched","key":"maxTokensField","setting":"\"maxTokensField\": \"max_tokens\"","errorMessage":"e"}"#.into(),
            ),
        ];
        for (event, json) in rows {
            assert_eq!(PiWriter::default().line(&event).unwrap(), json);
        }
    }
}
