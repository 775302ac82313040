//! A conversation that is proven to be sendable.

use std::collections::HashSet;
use std::sync::Arc;

use crate::convert::to_model_messages;
use crate::{
    AssistantMessage, Content, Extra, Message, ToolResultMessage, UserContent, UserMessage,
};

/// Text of a result that stands in for one that is missing.
pub const NO_RESULT: &str = "No result provided";

/// A sequence of user, assistant and tool-result messages in which every call has
/// exactly one result and every result its call, in the turn that asked for it.
///
/// Only validation and mending make one, so a request cannot carry anything else.
#[derive(Debug, Clone, Default)]
pub struct Transcript(Arc<[Arc<Message>]>);

/// A message of a [`Transcript`].
#[derive(Debug, Clone, Copy)]
pub enum ModelMessage<'a> {
    /// What the user said.
    User(&'a UserMessage),
    /// What the model answered.
    Assistant(&'a AssistantMessage),
    /// What a tool returned.
    ToolResult(&'a ToolResultMessage),
}

/// Why messages are not a transcript.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TranscriptError {
    /// A call has no result.
    #[error("message {index}: tool call `{id}` has no result")]
    MissingResult {
        /// Position of the assistant message.
        index: usize,
        /// The call.
        id: String,
    },
    /// A result has no call in the turn before it, or a second one.
    #[error("message {index}: tool result `{id}` has no open call")]
    OrphanResult {
        /// Position of the result.
        index: usize,
        /// The call it names.
        id: String,
    },
    /// Two calls of one turn share an id.
    #[error("message {index}: tool call id `{id}` is used twice in one turn")]
    DuplicateCall {
        /// Position of the assistant message.
        index: usize,
        /// The id.
        id: String,
    },
    /// A response that failed must not be sent back.
    #[error("message {index}: a failed response cannot be sent")]
    FailedResponse {
        /// Position of the message.
        index: usize,
    },
    /// A role that models do not know.
    #[error("message {index}: role `{role}` cannot be sent")]
    Role {
        /// Position of the message.
        index: usize,
        /// Its role.
        role: String,
    },
}

impl Transcript {
    /// Proves that `messages` can be sent as they are.
    ///
    /// # Errors
    ///
    /// Names the first message that cannot.
    pub fn new(messages: Vec<Arc<Message>>) -> Result<Self, TranscriptError> {
        let mut open = OpenCalls::default();
        for (index, message) in messages.iter().enumerate() {
            match &**message {
                Message::User(_) => open.close()?,
                Message::Assistant(assistant) if assistant.failed() => {
                    return Err(TranscriptError::FailedResponse { index });
                }
                Message::Assistant(assistant) => {
                    open.close()?;
                    open.ask(index, assistant)?;
                }
                Message::ToolResult(result) => open.answer(index, result)?,
                other => {
                    return Err(TranscriptError::Role {
                        index,
                        role: other.role().to_owned(),
                    });
                }
            }
        }
        open.close()?;
        Ok(Self(messages.into()))
    }

    /// Converts internal messages and mends what cannot be sent.
    ///
    /// Failed responses are left out, together with what answered them; results without
    /// a call are left out; a call without a result gets an error result; a second call
    /// with the id of an earlier one in its turn is left out; responses without content are left out.
    pub fn from_context(messages: &[Arc<Message>]) -> Self {
        let mended = mend(to_model_messages(messages));
        debug_assert!(
            Self::new(mended.clone()).is_ok(),
            "mending leaves nothing to find"
        );
        Self(mended.into())
    }

    /// The same conversation with `text` in the place of its images, once for each run of them.
    #[must_use]
    pub fn with_text_for_images(&self, text: &str) -> Self {
        let kept = |message: &Arc<Message>| match texts_alone(message, text) {
            Some(message) => Arc::new(message),
            None => Arc::clone(message),
        };
        Self(self.0.iter().map(kept).collect())
    }

    /// The messages, typed.
    pub fn iter(&self) -> impl Iterator<Item = ModelMessage<'_>> {
        self.0.iter().filter_map(|message| match &**message {
            Message::User(user) => Some(ModelMessage::User(user)),
            Message::Assistant(assistant) => Some(ModelMessage::Assistant(assistant)),
            Message::ToolResult(result) => Some(ModelMessage::ToolResult(result)),
            _ => None,
        })
    }

    /// Number of messages.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// `message` with `text` in the place of its images; none when it has no image.
fn texts_alone(message: &Message, text: &str) -> Option<Message> {
    let is_image = |block: &Content| matches!(block, Content::Image(_));
    let blocks = match message {
        Message::User(UserMessage {
            content: UserContent::Blocks(blocks),
            ..
        }) => blocks,
        Message::ToolResult(result) => &result.content,
        _ => return None,
    };
    let mut blocks = blocks.iter().any(is_image).then(|| blocks.clone())?;
    let mut after_image = false;
    blocks.retain_mut(|block| {
        let again = std::mem::replace(&mut after_image, is_image(block));
        if after_image && !again {
            *block = Content::text(text);
        }
        !(after_image && again)
    });
    Some(match message {
        Message::ToolResult(result) => Message::ToolResult(ToolResultMessage {
            content: blocks,
            ..result.clone()
        }),
        Message::User(user) => Message::User(UserMessage {
            content: UserContent::Blocks(blocks),
            ..user.clone()
        }),
        other => other.clone(),
    })
}

#[derive(Default)]
struct OpenCalls {
    index: usize,
    ids: Vec<String>,
}

impl OpenCalls {
    fn ask(&mut self, index: usize, assistant: &AssistantMessage) -> Result<(), TranscriptError> {
        self.index = index;
        for call in assistant.tool_calls() {
            if self.ids.contains(&call.id) {
                return Err(TranscriptError::DuplicateCall {
                    index,
                    id: call.id.clone(),
                });
            }
            self.ids.push(call.id.clone());
        }
        Ok(())
    }

    fn answer(&mut self, index: usize, result: &ToolResultMessage) -> Result<(), TranscriptError> {
        let id = &result.tool_call_id;
        let at = self.ids.iter().position(|open| open == id);
        let at = at.ok_or_else(|| TranscriptError::OrphanResult {
            index,
            id: id.clone(),
        })?;
        self.ids.remove(at);
        Ok(())
    }

    fn close(&self) -> Result<(), TranscriptError> {
        match self.ids.first() {
            None => Ok(()),
            Some(id) => Err(TranscriptError::MissingResult {
                index: self.index,
                id: id.clone(),
            }),
        }
    }
}

fn mend(messages: Vec<Arc<Message>>) -> Vec<Arc<Message>> {
    let mut out = Vec::with_capacity(messages.len());
    let mut open: Vec<(String, String)> = Vec::new();
    for message in messages {
        match &*message {
            Message::ToolResult(result) => {
                let at = open.iter().position(|(id, _)| *id == result.tool_call_id);
                if let Some(at) = at {
                    open.remove(at);
                    out.push(message);
                }
            }
            Message::Assistant(assistant) => {
                answer_open(&mut out, &mut open);
                if !assistant.failed() && !is_blank(assistant) {
                    let message = without_duplicate_calls(message);
                    let calls = message
                        .as_assistant()
                        .into_iter()
                        .flat_map(AssistantMessage::tool_calls);
                    open.extend(calls.map(|call| (call.id.clone(), call.name.clone())));
                    out.push(message);
                }
            }
            _ => {
                answer_open(&mut out, &mut open);
                out.push(message);
            }
        }
    }
    answer_open(&mut out, &mut open);
    out
}

fn is_blank(assistant: &AssistantMessage) -> bool {
    assistant.content.iter().all(|block| match block {
        Content::Text(text) => text.text.is_empty(),
        Content::Thinking(thinking) => {
            thinking.thinking.is_empty() && thinking.thinking_signature.is_none()
        }
        Content::Unknown(_) => true,
        Content::ToolCall(_) | Content::Image(_) => false,
    })
}

fn without_duplicate_calls(message: Arc<Message>) -> Arc<Message> {
    let Some(assistant) = message.as_assistant() else {
        return message;
    };
    let mut seen = HashSet::new();
    if assistant
        .tool_calls()
        .all(|call| seen.insert(call.id.as_str()))
    {
        return message;
    }
    let mut copy = assistant.clone();
    let mut seen = HashSet::new();
    copy.content.retain(|block| match block {
        Content::ToolCall(call) => seen.insert(call.id.clone()),
        _ => true,
    });
    Arc::new(Message::Assistant(copy))
}

fn answer_open(out: &mut Vec<Arc<Message>>, open: &mut Vec<(String, String)>) {
    let timestamp = out.last().map_or(0, |m| timestamp(m));
    out.extend(
        open.drain(..)
            .map(|(id, name)| Arc::new(missing_result(id, name, NO_RESULT, timestamp))),
    );
}

/// An error result that stands for one that is missing.
pub fn missing_result(call_id: String, tool_name: String, text: &str, timestamp: i64) -> Message {
    Message::ToolResult(ToolResultMessage {
        tool_call_id: call_id,
        tool_name,
        content: vec![Content::text(text)],
        details: None,
        is_error: true,
        timestamp,
        extra: Extra::new(),
    })
}

fn timestamp(message: &Message) -> i64 {
    match message {
        Message::User(m) => m.timestamp,
        Message::Assistant(m) => m.timestamp,
        Message::ToolResult(m) => m.timestamp,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{StopReason, ToolCall};

    #[test]
    fn text_stands_for_each_run_of_images() {
        let (text, image) = (Content::text, || Content::image("AA==", "image/png"));
        let blocks = vec![text("a"), image(), image(), text("b"), image()];
        let plain = vec![text("a"), text("-"), text("b"), text("-")];
        let mut result = missing_result("c".into(), "t".into(), "r", 1);
        if let Message::ToolResult(result) = &mut result {
            result.content = vec![image()];
        }
        let messages = vec![
            Arc::new(Message::user_blocks(blocks, 1)),
            assistant(vec![call('c')], StopReason::ToolUse).into(),
            Arc::new(result),
            Arc::new(Message::user("u", 1)),
        ];
        let sent = Transcript::new(messages).unwrap().with_text_for_images("-");
        let sent: Vec<&Message> = sent.0.iter().map(|message| &**message).collect();
        assert_eq!(*sent[0], Message::user_blocks(plain, 1));
        assert_eq!(*sent[2], missing_result("c".into(), "t".into(), "-", 1));
        assert_eq!(*sent[3], Message::user("u", 1));
        assert_eq!(sent.len(), 4);
    }

    /// `u` user, `a` assistant text, `x` failed assistant with call `q`, `e` empty assistant,
    /// `A..` assistant that calls each following lower-case letter until `;`, `R?` result of call `?`.
    fn history(script: &str) -> Vec<Arc<Message>> {
        let mut chars = script.chars();
        let mut out = Vec::new();
        while let Some(c) = chars.next() {
            out.push(Arc::new(match c {
                'u' => Message::user("u", 1),
                'a' => assistant(vec![Content::text("a")], StopReason::Stop),
                'e' => assistant(vec![], StopReason::Stop),
                'x' => assistant(vec![call('q')], StopReason::Error),
                'A' => assistant(
                    chars.by_ref().take_while(|c| *c != ';').map(call).collect(),
                    StopReason::ToolUse,
                ),
                'R' => missing_result(chars.next().unwrap_or('?').to_string(), "t".into(), "r", 1),
                other => panic!("{other}"),
            }));
        }
        out
    }

    fn call(id: char) -> Content {
        Content::ToolCall(ToolCall {
            id: id.to_string(),
            name: "t".into(),
            ..ToolCall::default()
        })
    }

    fn assistant(content: Vec<Content>, stop_reason: StopReason) -> Message {
        let json = r#"{"id":"m","name":"m","api":"a","provider":"p","baseUrl":"","input":["text"],"contextWindow":1,"maxTokens":1}"#;
        let mut message = AssistantMessage::begin(&serde_json::from_str(json).unwrap(), 1);
        (message.content, message.stop_reason) = (content, stop_reason);
        Message::Assistant(message)
    }

    fn shape(transcript: &Transcript) -> String {
        let one = |m: ModelMessage<'_>| match m {
            ModelMessage::User(_) => "u".to_owned(),
            ModelMessage::Assistant(a) => {
                let calls: String = a.tool_calls().map(|c| c.id.clone()).collect();
                if calls.is_empty() {
                    "a".to_owned()
                } else {
                    format!("A{calls};")
                }
            }
            ModelMessage::ToolResult(r) => {
                let stand_in = r.content.first().and_then(Content::as_text) == Some(NO_RESULT);
                format!("{}{}", if stand_in { "!" } else { "R" }, r.tool_call_id)
            }
        };
        transcript.iter().map(one).collect()
    }

    #[test]
    fn validation() {
        let ok = ["", "u", "ua", "uAbc;RcRba", "uAb;RbAb;Rb"];
        for script in ok {
            assert!(Transcript::new(history(script)).is_ok(), "{script}");
        }
        let wrong = ["uAb;", "uAb;u", "uRb", "uAb;RbRb", "uAbb;RbRb", "ux"];
        for script in wrong {
            assert!(Transcript::new(history(script)).is_err(), "{script}");
        }
    }

    #[test]
    fn mending() {
        let rows = [
            ("uAbc;RcRba", "uAbc;RcRba"),
            ("uAbc;Rcu", "uAbc;Rc!bu"),
            ("uAb;", "uAb;!b"),
            ("uRbu", "uu"),
            ("uAb;RbRba", "uAb;Rba"),
            ("uxRqu", "uu"),
            ("uAbb;Rba", "uAb;Rba"),
            ("ueu", "uu"),
            ("uAb;eRb", "uAb;!b"),
        ];
        for (script, expected) in rows {
            assert_eq!(
                shape(&Transcript::from_context(&history(script))),
                expected,
                "{script}"
            );
        }
    }

    proptest! {
        #[test]
        fn whatever_happened_the_result_is_valid(script in "(u|a|e|x|A[b-d]{0,3};|R[b-e]){0,12}") {
            let mended = mend(to_model_messages(&history(&script)));
            prop_assert!(Transcript::new(mended).is_ok());
        }
    }
}
