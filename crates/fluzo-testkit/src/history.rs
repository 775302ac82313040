//! A strict reading of a conversation, independent of the one that requests pass.

use std::collections::HashSet;
use std::sync::Arc;

use fluzo_llm::{AssistantMessage, Message, ToolResultMessage};

/// Fails the test unless `messages` are a conversation that is over or waits for the model.
///
/// # Panics
///
/// With the first thing that is wrong; see [`check_history`].
#[track_caller]
pub fn assert_valid_history(messages: &[Arc<Message>]) {
    if let Err(wrong) = check_history(messages) {
        panic!("{wrong}\nin {messages:#?}");
    }
}

/// Checks that every call of a response that did not fail has exactly one result,
/// directly after it, in the order of the calls, under the right name; that calls of a
/// failed response have none; that no id serves two calls; that a call whose arguments
/// were cut off failed; that nothing of streaming is left behind.
///
/// # Errors
///
/// Says which message is wrong.
pub fn check_history(messages: &[Arc<Message>]) -> Result<(), String> {
    let mut reader = Reader::default();
    for (index, message) in messages.iter().enumerate() {
        reader
            .read(message)
            .map_err(|wrong| format!("message {index}: {wrong}"))?;
    }
    reader.nothing_due()
}

#[derive(Default)]
struct Reader {
    due: std::collections::VecDeque<Due>,
    ids: HashSet<String>,
}

struct Due {
    id: String,
    name: String,
    must_fail: bool,
}

impl Reader {
    fn read(&mut self, message: &Message) -> Result<(), String> {
        if let Message::ToolResult(result) = message {
            return self.result(result);
        }
        self.nothing_due()?;
        match message {
            Message::Assistant(assistant) => self.response(assistant),
            _ => Ok(()),
        }
    }

    fn response(&mut self, assistant: &AssistantMessage) -> Result<(), String> {
        if assistant.failed() != assistant.error_message.is_some() {
            return Err("a failed response, and no other, says what went wrong".into());
        }
        for call in assistant.tool_calls() {
            if call.open || !call.partial_arguments.is_empty() {
                return Err(format!("call `{}` is still streaming", call.id));
            }
            if assistant.failed() {
                continue;
            }
            if !self.ids.insert(call.id.clone()) {
                return Err(format!("call id `{}` is used twice", call.id));
            }
            self.due.push_back(Due {
                id: call.id.clone(),
                name: call.name.clone(),
                must_fail: call.raw_arguments.is_some(),
            });
        }
        Ok(())
    }

    fn result(&mut self, result: &ToolResultMessage) -> Result<(), String> {
        let id = &result.tool_call_id;
        let due = self.due.pop_front();
        let due = due.ok_or_else(|| format!("result `{id}` answers no call"))?;
        if due.id != *id {
            return Err(format!("result `{id}` where `{}` is due", due.id));
        }
        if due.name != result.tool_name {
            return Err(format!("result `{id}` names tool `{}`", result.tool_name));
        }
        if due.must_fail && !result.is_error {
            return Err(format!("call `{id}` ran with arguments that were cut off"));
        }
        Ok(())
    }

    fn nothing_due(&self) -> Result<(), String> {
        match self.due.front() {
            Some(due) => Err(format!("call `{}` has no result", due.id)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluzo_llm::{Content, StopReason, ToolCall, transcript::missing_result};

    fn response(ids: &[&str], stop_reason: StopReason) -> Arc<Message> {
        let mut message = AssistantMessage::begin(&crate::model(), 1);
        let call = |id: &&str| Content::ToolCall(ToolCall::from_text(*id, "t", "{}"));
        message.content = ids.iter().map(call).collect();
        if stop_reason == StopReason::Error {
            message.error_message = Some("e".into());
        }
        message.stop_reason = stop_reason;
        Arc::new(Message::Assistant(message))
    }

    fn result(id: &str, name: &str) -> Arc<Message> {
        Arc::new(missing_result(id.into(), name.into(), "r", 1))
    }

    #[test]
    fn strictness() {
        let ask = |ids: &[&str]| response(ids, StopReason::ToolUse);
        let rows = [
            (
                vec![ask(&["a", "b"]), result("a", "t"), result("b", "t")],
                "",
            ),
            (vec![response(&["a"], StopReason::Error)], ""),
            (vec![ask(&["a"])], "call `a` has no result"),
            (
                vec![ask(&["a"]), crate::user("u")],
                "message 1: call `a` has no result",
            ),
            (
                vec![result("a", "t")],
                "message 0: result `a` answers no call",
            ),
            (
                vec![ask(&["a", "b"]), result("b", "t"), result("a", "t")],
                "message 1: result `b` where `a` is due",
            ),
            (
                vec![ask(&["a"]), result("a", "u")],
                "message 1: result `a` names tool `u`",
            ),
            (
                vec![ask(&["a", "a"])],
                "message 0: call id `a` is used twice",
            ),
            (
                vec![response(&["a"], StopReason::Error), result("a", "t")],
                "message 1: result `a` answers no call",
            ),
        ];
        for (messages, wrong) in rows {
            let found = check_history(&messages).err().unwrap_or_default();
            assert_eq!(found, wrong);
        }
    }
}
