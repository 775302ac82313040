//! The conversation as one model may get it: what another model left behind is taken out or
//! turned into text, images become words for a model that takes none, ids are made fit.
//!
//! Every dialect writes what this gives it and nothing else, so that the rules hold for all.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use fluzo_llm::{
    AssistantMessage, Content, Extra, ImageContent, Model, ModelMessage, ToolCall,
    ToolResultMessage, Transcript, UserContent, UserMessage,
};

const USER_IMAGE_OMITTED: &str = "(image omitted: model does not support images)";
const TOOL_IMAGE_OMITTED: &str = "(tool image omitted: model does not support images)";

/// What a dialect demands of ids.
#[derive(Clone, Copy)]
pub(crate) struct Ids {
    /// The id of a call as the dialect takes it.
    pub form: fn(&str) -> String,
    /// Whether ids that the model itself gave need the form too.
    pub own: bool,
    /// Longest id, in characters; room for a number that makes it unique.
    pub longest: usize,
}

/// One message for the model.
#[derive(Debug)]
pub(crate) enum Turn<'a> {
    /// What the user said; never empty.
    User(Vec<Piece<'a>>),
    /// What a model answered; never empty.
    Assistant(Answer<'a>),
    /// What a tool returned.
    Result(ToolReply<'a>),
}

/// Text or an image.
#[derive(Debug, PartialEq)]
pub(crate) enum Piece<'a> {
    Text(&'a str),
    Image(&'a ImageContent),
}

/// An answer of this or another model.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    /// It came from the very model that is asked now.
    pub own: bool,
    /// It came from the provider and dialect that are asked now, perhaps from another model.
    pub kin: bool,
    /// Its blocks, in order.
    pub parts: Vec<AnswerPart<'a>>,
}

/// One block of an answer.
#[derive(Debug)]
pub(crate) enum AnswerPart<'a> {
    /// Text; never blank.
    Text {
        text: &'a str,
        /// Only of this model.
        signature: Option<&'a str>,
        /// It was another model's thinking.
        thought: bool,
    },
    /// Thinking of this model, signed or not empty.
    Thinking {
        text: &'a str,
        signature: Option<&'a str>,
        redacted: bool,
    },
    /// A tool call.
    Call {
        id: Cow<'a, str>,
        /// The id as it is stored, for dialects whose ids say more.
        given: &'a str,
        name: &'a str,
        arguments: &'a Extra,
        /// Only of this model.
        signature: Option<&'a str>,
    },
}

/// The result of a call.
#[derive(Debug)]
pub(crate) struct ToolReply<'a> {
    /// The id of its call, renamed as that one.
    pub id: Cow<'a, str>,
    /// The tool.
    pub name: &'a str,
    /// Whether the call failed.
    pub is_error: bool,
    /// What it returned.
    pub pieces: Vec<Piece<'a>>,
}

/// `transcript` as `model` may get it.
pub(crate) fn adapt<'a>(model: &Model, ids: Ids, transcript: &'a Transcript) -> Vec<Turn<'a>> {
    let mut adapter = Adapter {
        model,
        ids,
        renamed: HashMap::new(),
        used: HashSet::new(),
    };
    transcript
        .iter()
        .filter_map(|message| match message {
            ModelMessage::User(user) => adapter.user(user),
            ModelMessage::Assistant(assistant) => adapter.assistant(assistant),
            ModelMessage::ToolResult(result) => Some(adapter.result(result)),
        })
        .collect()
}

/// All ids of tool calls of `transcript`.
pub(crate) fn call_ids(transcript: &Transcript) -> HashSet<String> {
    let calls = transcript.iter().filter_map(|message| match message {
        ModelMessage::Assistant(assistant) => Some(assistant.tool_calls()),
        _ => None,
    });
    calls.flatten().map(|call| call.id.clone()).collect()
}

/// `id` with every character but letters, digits, `_` and `-` replaced, cut to `longest`.
pub(crate) fn plain_id(id: &str, longest: usize) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '_' || c == '-' {
            c
        } else {
            '_'
        }
    };
    id.chars().map(plain).take(longest).collect()
}

struct Adapter<'m, 'a> {
    model: &'m Model,
    ids: Ids,
    /// New ids of the calls of the last turn.
    renamed: HashMap<&'a str, String>,
    /// Ids that are in use.
    used: HashSet<Cow<'a, str>>,
}

impl<'a> Adapter<'_, 'a> {
    fn user(&self, user: &'a UserMessage) -> Option<Turn<'a>> {
        let pieces = match &user.content {
            UserContent::Text(text) if text.is_empty() => Vec::new(),
            UserContent::Text(text) => vec![Piece::Text(text)],
            UserContent::Blocks(blocks) => self.pieces(blocks, USER_IMAGE_OMITTED),
        };
        (!pieces.is_empty()).then_some(Turn::User(pieces))
    }

    /// Texts that are not empty, and images or one note for each run of images.
    fn pieces(&self, blocks: &'a [Content], omitted: &'static str) -> Vec<Piece<'a>> {
        let mut pieces = Vec::with_capacity(blocks.len());
        for block in blocks {
            match block {
                Content::Text(text) if !text.text.is_empty() => {
                    pieces.push(Piece::Text(&text.text));
                }
                Content::Image(image) if self.model.takes_images() => {
                    pieces.push(Piece::Image(image));
                }
                Content::Image(_) if pieces.last() != Some(&Piece::Text(omitted)) => {
                    pieces.push(Piece::Text(omitted));
                }
                _ => {}
            }
        }
        pieces
    }

    fn assistant(&mut self, message: &'a AssistantMessage) -> Option<Turn<'a>> {
        let kin = message.provider == self.model.provider && message.api == self.model.api;
        let own = kin && message.model == self.model.id;
        self.renamed.clear();
        let parts = message.content.iter().filter_map(|block| match block {
            Content::Text(text) if !text.text.trim().is_empty() => Some(AnswerPart::Text {
                text: &text.text,
                signature: text.text_signature.as_deref().filter(|_| own),
                thought: false,
            }),
            Content::Thinking(thinking) => {
                let redacted = thinking.redacted == Some(true);
                let blank = thinking.thinking.trim().is_empty();
                let signature = thinking.thinking_signature.as_deref();
                let signature = signature.filter(|signature| !signature.is_empty());
                if own && (!blank || redacted || signature.is_some()) {
                    return Some(AnswerPart::Thinking {
                        text: &thinking.thinking,
                        signature,
                        redacted,
                    });
                }
                (!own && !blank && !redacted).then_some(AnswerPart::Text {
                    text: &thinking.thinking,
                    signature: None,
                    thought: true,
                })
            }
            Content::ToolCall(call) => Some(self.call(call, own)),
            _ => None,
        });
        let parts: Vec<_> = parts.collect();
        (!parts.is_empty()).then_some(Turn::Assistant(Answer { own, kin, parts }))
    }

    fn call(&mut self, call: &'a ToolCall, own: bool) -> AnswerPart<'a> {
        AnswerPart::Call {
            id: self.call_id(&call.id, own),
            given: &call.id,
            name: &call.name,
            arguments: &call.arguments,
            signature: call.thought_signature.as_deref().filter(|_| own),
        }
    }

    /// The id in the dialect's form, unlike any that is in use.
    fn call_id(&mut self, id: &'a str, own: bool) -> Cow<'a, str> {
        let wanted = if own && !self.ids.own {
            Cow::Borrowed(id)
        } else {
            match (self.ids.form)(id) {
                same if same == id => Cow::Borrowed(id),
                other => Cow::Owned(other),
            }
        };
        let unique = if wanted.is_empty() || self.used.contains(&wanted) {
            Cow::Owned(self.numbered(&wanted))
        } else {
            wanted
        };
        self.used.insert(unique.clone());
        if unique != id {
            self.renamed.insert(id, unique.clone().into_owned());
        }
        unique
    }

    fn numbered(&self, wanted: &str) -> String {
        let base = if wanted.is_empty() { "call" } else { wanted };
        let candidate = |n: u64| {
            let suffix = format!("_{n}");
            let room = self.ids.longest.saturating_sub(suffix.len());
            base.chars().take(room).collect::<String>() + &suffix
        };
        (2u64..)
            .map(candidate)
            // The number may not be fit either; as it is, it ends the search at the latest.
            .flat_map(|id| [(self.ids.form)(&id), id])
            .find(|id| !id.is_empty() && !self.used.contains(id.as_str()))
            .unwrap_or_default()
    }

    fn result(&self, result: &'a ToolResultMessage) -> Turn<'a> {
        let id = result.tool_call_id.as_str();
        let renamed = self.renamed.get(id).cloned();
        Turn::Result(ToolReply {
            id: renamed.map_or(Cow::Borrowed(id), Cow::Owned),
            name: &result.tool_name,
            is_error: result.is_error,
            pieces: self.pieces(&result.content, TOOL_IMAGE_OMITTED),
        })
    }
}

#[cfg(test)]
#[path = "adapt_tests.rs"]
mod tests;
