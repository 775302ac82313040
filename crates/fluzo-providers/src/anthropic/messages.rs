//! The conversation in the form of this dialect.

use std::borrow::Cow;

use fluzo_llm::{Extra, ImageContent, Model, Transcript};
use serde::Serialize;

use super::compat::Compat;
use crate::adapt::{Answer, AnswerPart, Ids, Piece, ToolReply, Turn, adapt, plain_id};

const SEE_IMAGE: &str = "(see attached image)";
const NO_OUTPUT: &str = "(no output)";
const FORMAT_OMITTED: &str = "(image omitted: only JPEG, PNG, GIF and WebP can be sent)";

/// Stands where the API wants to hear the user and the user said nothing.
const NOTHING_SAID: &str = "(no message)";

/// Thinking of a step that had none; some servers take an empty text for nothing.
const NO_THOUGHT: &str = " ";

/// Longest id of a call, and longest name of a tool.
const ID_LIMIT: usize = 64;
const NAME_LIMIT: usize = 128;

/// A mark up to which the server keeps the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct CacheControl {
    pub r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<&'static str>,
}

/// A message on the wire.
#[derive(Debug, Serialize)]
pub(super) struct WireMessage<'a> {
    role: Role,
    content: Vec<Block<'a>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    User,
    Assistant,
}

/// A block of content. The order of the fields is the order of the keys.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text {
        text: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    Image {
        source: Source<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        input: &'a Extra,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        content: ResultContent<'a>,
        is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
}

#[derive(Debug, Serialize)]
struct Source<'a> {
    r#type: &'static str,
    media_type: &'static str,
    data: &'a str,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum ResultContent<'a> {
    Text(Cow<'a, str>),
    Blocks(Vec<Block<'a>>),
}

impl Block<'_> {
    fn is_thought(&self) -> bool {
        matches!(self, Self::Thinking { .. } | Self::RedactedThinking { .. })
    }

    fn mark(&mut self, mark: CacheControl) {
        match self {
            Self::Text { cache_control, .. }
            | Self::Image { cache_control, .. }
            | Self::ToolResult { cache_control, .. } => *cache_control = Some(mark),
            Self::Thinking { .. } | Self::RedactedThinking { .. } | Self::ToolUse { .. } => {}
        }
    }
}

/// The messages of a request.
#[derive(Debug)]
pub(super) struct Conversation<'a> {
    pub messages: Vec<WireMessage<'a>>,
    /// What goes on began with thinking, or nothing goes on: a model with a budget refuses to
    /// go on thinking after tool results where it did not begin with it.
    pub has_thought: bool,
}

impl<'a> Conversation<'a> {
    /// The messages of a request to `model`.
    pub(super) fn of(model: &Model, compat: &Compat, transcript: &'a Transcript) -> Self {
        let ids = Ids {
            form: |id| plain_id(id, ID_LIMIT),
            own: true,
            longest: ID_LIMIT,
        };
        let mut writer = Writer {
            compat: *compat,
            out: Vec::new(),
            open: false,
            images: Vec::new(),
            thought: None,
        };
        for turn in adapt(model, ids, transcript) {
            match turn {
                Turn::User(pieces) => writer.user(pieces),
                Turn::Assistant(answer) => writer.assistant(answer),
                Turn::Result(reply) => writer.result(reply),
            }
        }
        writer.end_results();
        let goes_on = writer
            .out
            .last()
            .is_some_and(|last| last.role == Role::User);
        Self {
            messages: writer.out,
            has_thought: !goes_on
                || compat.quirks.empty_signature
                || writer.thought.unwrap_or(true),
        }
    }

    /// Marks the last block of the last user message.
    pub(super) fn mark_last(&mut self, mark: CacheControl) {
        let users = self.messages.iter_mut().rev();
        let last = users.into_iter().find(|message| message.role == Role::User);
        if let Some(block) = last.and_then(|message| message.content.last_mut()) {
            block.mark(mark);
        }
    }

    /// Takes the thinking out of the turn that goes on: a model that must not think refuses it
    /// there, and ignores it in earlier turns.
    pub(super) fn forget_thoughts(&mut self) {
        let is_result = |block: &Block<'_>| matches!(block, Block::ToolResult { .. });
        let turn = self.messages.iter_mut().rev().take_while(|message| {
            message.role == Role::Assistant || message.content.iter().any(is_result)
        });
        for message in turn {
            message.content.retain(|block| !block.is_thought());
        }
    }

    /// Gives each step with calls the thinking that it lacks.
    pub(super) fn fill_in_thoughts(&mut self) {
        for message in &mut self.messages {
            let calls = message
                .content
                .iter()
                .any(|block| matches!(block, Block::ToolUse { .. }));
            if calls && !message.content.iter().any(Block::is_thought) {
                let thinking = NO_THOUGHT;
                message.content.insert(
                    0,
                    Block::Thinking {
                        thinking,
                        signature: "",
                    },
                );
            }
        }
    }

    /// Makes an end of which the model can go on. A model that goes on with its own last words
    /// (`prefills`) must not find white space after them; any other one needs the user's word.
    pub(super) fn end(&mut self, prefills: bool) {
        let Some(last) = self
            .messages
            .last_mut()
            .filter(|m| m.role == Role::Assistant)
        else {
            return;
        };
        if !prefills {
            return self.messages.push(nothing_said());
        }
        if let Some(Block::Text { text, .. }) = last.content.last_mut() {
            *text = match text {
                Cow::Borrowed(text) => Cow::Borrowed(text.trim_end()),
                Cow::Owned(text) => Cow::Owned(text.trim_end().to_owned()),
            };
        }
    }
}

struct Writer<'a> {
    compat: Compat,
    out: Vec<WireMessage<'a>>,
    /// The last message takes further results.
    open: bool,
    /// Images of failed results of the last message.
    images: Vec<Block<'a>>,
    /// Since the user's last word: whether the answer began with thinking.
    thought: Option<bool>,
}

impl<'a> Writer<'a> {
    fn user(&mut self, pieces: Vec<Piece<'a>>) {
        self.end_results();
        let blocks: Vec<_> = pieces.into_iter().filter_map(block).collect();
        if !blocks.is_empty() {
            self.push(Role::User, blocks);
            self.thought = None;
        }
    }

    fn assistant(&mut self, answer: Answer<'a>) {
        self.end_results();
        let own = answer.own;
        // A server that does not sign its thinking cannot demand it either.
        let unsigned = own
            && matches!(
                answer.parts.first(),
                Some(AnswerPart::Thinking {
                    signature: None,
                    redacted: false,
                    ..
                })
            );
        let parts = answer.parts.into_iter();
        let blocks: Vec<_> = parts.filter_map(|part| self.answer_block(part)).collect();
        let blocks = in_order(blocks);
        let Some(first) = blocks.first() else {
            return;
        };
        let thinks = first.is_thought() || unsigned;
        // Two answers in a row, or one before any question, are no dialogue for the API.
        if self
            .out
            .last()
            .is_none_or(|last| last.role == Role::Assistant)
        {
            self.out.push(nothing_said());
            self.thought = None;
        }
        self.thought = Some(match self.thought {
            None => thinks,
            // Between its calls a model need not think, but another model's step breaks the turn.
            Some(before) => before && (thinks || own),
        });
        self.push(Role::Assistant, blocks);
    }

    fn answer_block(&self, part: AnswerPart<'a>) -> Option<Block<'a>> {
        match part {
            AnswerPart::Text { text, .. } => text_block(text),
            AnswerPart::Thinking {
                signature: None,
                redacted: true,
                ..
            } => None,
            AnswerPart::Thinking {
                signature: Some(data),
                redacted: true,
                ..
            } => Some(Block::RedactedThinking { data }),
            AnswerPart::Thinking {
                text,
                signature: Some(signature),
                ..
            } => Some(Block::Thinking {
                thinking: text,
                signature,
            }),
            AnswerPart::Thinking {
                text,
                signature: None,
                ..
            } if self.compat.quirks.empty_signature => Some(Block::Thinking {
                thinking: text,
                signature: "",
            }),
            AnswerPart::Thinking { text, .. } => text_block(text),
            AnswerPart::Call {
                id,
                name,
                arguments,
                ..
            } => Some(Block::ToolUse {
                id,
                name: tool_name(name),
                input: arguments,
            }),
        }
    }

    /// Results of one turn go into one message.
    fn result(&mut self, reply: ToolReply<'a>) {
        let mut blocks: Vec<_> = reply.pieces.into_iter().filter_map(block).collect();
        let mut images = false;
        if reply.is_error {
            // The API takes only text in a failed result; its images follow all results.
            let is_image = |block: &mut Block<'_>| matches!(block, Block::Image { .. });
            let before = self.images.len();
            self.images.extend(blocks.extract_if(.., is_image));
            images = self.images.len() > before;
        }
        let result = Block::ToolResult {
            tool_use_id: reply.id,
            content: result_content(blocks, images),
            is_error: reply.is_error,
            cache_control: None,
        };
        match self.out.last_mut().filter(|_| self.open) {
            Some(message) => message.content.push(result),
            None => self.push(Role::User, vec![result]),
        }
        self.open = true;
    }

    fn end_results(&mut self) {
        self.open = false;
        let images = std::mem::take(&mut self.images);
        if let Some(message) = self.out.last_mut() {
            message.content.extend(images);
        }
    }

    fn push(&mut self, role: Role, content: Vec<Block<'a>>) {
        self.out.push(WireMessage { role, content });
    }
}

/// Thinking stands first and never last; an answer of thinking alone is left out.
fn in_order(mut blocks: Vec<Block<'_>>) -> Vec<Block<'_>> {
    let begins = blocks.first().is_some_and(Block::is_thought);
    if !begins && blocks.iter().any(Block::is_thought) {
        blocks.sort_by_key(|block| !block.is_thought());
    }
    while blocks.last().is_some_and(Block::is_thought) {
        blocks.pop();
    }
    blocks
}

/// Joined text, or blocks where there are images. `elsewhere` says that its images are.
fn result_content(mut blocks: Vec<Block<'_>>, elsewhere: bool) -> ResultContent<'_> {
    let is_text = |block: &Block<'_>| matches!(block, Block::Text { .. });
    if !blocks.iter().all(is_text) {
        if !blocks.iter().any(is_text) {
            blocks.splice(..0, text_block(SEE_IMAGE));
        }
        return ResultContent::Blocks(blocks);
    }
    let texts = blocks.into_iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(text),
        _ => None,
    });
    let joined = texts.reduce(|all, text| Cow::Owned(format!("{all}\n{text}")));
    let nothing = if elsewhere { SEE_IMAGE } else { NO_OUTPUT };
    ResultContent::Text(joined.unwrap_or(Cow::Borrowed(nothing)))
}

fn block(piece: Piece<'_>) -> Option<Block<'_>> {
    match piece {
        Piece::Text(text) => text_block(text),
        Piece::Image(image) => Some(image_block(image)),
    }
}

/// The API refuses blocks of white space.
fn text_block(text: &str) -> Option<Block<'_>> {
    let text = Cow::Borrowed(text);
    (!text.trim().is_empty()).then_some(Block::Text {
        text,
        cache_control: None,
    })
}

fn image_block(image: &ImageContent) -> Block<'_> {
    let media_type = match image.mime_type.as_str() {
        "image/jpeg" | "image/jpg" => "image/jpeg",
        "image/png" => "image/png",
        "image/gif" => "image/gif",
        "image/webp" => "image/webp",
        _ => {
            return Block::Text {
                text: Cow::Borrowed(FORMAT_OMITTED),
                cache_control: None,
            };
        }
    };
    Block::Image {
        source: Source {
            r#type: "base64",
            media_type,
            data: &image.data,
        },
        cache_control: None,
    }
}

/// A name that a model made up may hold what the API refuses.
fn tool_name(name: &str) -> Cow<'_, str> {
    match plain_id(name, NAME_LIMIT) {
        same if same == name && !same.is_empty() => Cow::Borrowed(name),
        empty if empty.is_empty() => Cow::Borrowed("unnamed"),
        other => Cow::Owned(other),
    }
}

fn nothing_said<'a>() -> WireMessage<'a> {
    WireMessage {
        role: Role::User,
        content: text_block(NOTHING_SAID).into_iter().collect(),
    }
}
