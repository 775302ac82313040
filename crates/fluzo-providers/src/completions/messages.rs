//! The conversation in the form of this dialect.

use std::borrow::Cow;

use fluzo_llm::{Extra, ImageContent, Model, ModelRequest};
use serde::Serialize;
use serde_json::{Map, Value};

use super::compat::Compat;
use crate::adapt::{Answer, AnswerPart, Ids, Piece, ToolReply, Turn, adapt, plain_id};
use crate::quirks::{CallOnlyContent, IdForm, Replay};

const SEE_IMAGE: &str = "(see attached image)";
const TOOL_IMAGES: &str = "Attached image(s) from tool result:";
const AFTER_RESULTS: &str = "I have processed the tool results.";
/// Stands where a user said nothing between two answers.
const NOTHING_SAID: &str = "(no message)";
const NO_OUTPUT: &str = "(no output)";

/// Fields in which servers send thinking, and take it back.
const THINKING_FIELDS: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_text"];

/// Longest id that every server takes.
const ID_LIMIT: usize = 40;

/// Length of ids where they are short.
const SHORT_ID: usize = 9;

/// A message on the wire. The order of the fields is the order of the keys.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum WireMessage<'a> {
    Plain {
        role: &'static str,
        content: Cow<'a, str>,
    },
    Parts {
        role: &'static str,
        content: Vec<Part<'a>>,
    },
    Assistant {
        role: &'static str,
        /// `Some(None)` is written as `null`.
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<Option<Cow<'a, str>>>,
        #[serde(flatten)]
        thinking: Map<String, Value>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<WireCall<'a>>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        reasoning_details: Vec<Value>,
    },
    Tool {
        role: &'static str,
        content: Cow<'a, str>,
        tool_call_id: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<&'a str>,
    },
}

/// A part of a message's content.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Part<'a> {
    Text {
        text: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    ImageUrl {
        image_url: ImageUrl,
    },
}

/// An image as a data URL.
#[derive(Debug, Serialize)]
pub(crate) struct ImageUrl {
    url: String,
}

/// A mark up to which a server may cache.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct CacheControl {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<&'static str>,
}

impl CacheControl {
    /// The mark that is in use; what is before it is kept for an hour when `long`.
    pub(crate) fn ephemeral(long: bool) -> Self {
        Self {
            r#type: "ephemeral",
            ttl: long.then_some("1h"),
        }
    }
}

/// A tool call of an earlier response.
#[derive(Debug, Serialize)]
pub(crate) struct WireCall<'a> {
    id: Cow<'a, str>,
    r#type: &'static str,
    function: WireFunction<'a>,
}

#[derive(Debug, Serialize)]
struct WireFunction<'a> {
    name: &'a str,
    arguments: String,
}

/// The messages of `request`, the system prompt first, marked for caching with `mark`.
pub(crate) fn messages<'a>(
    request: &'a ModelRequest,
    compat: &'a Compat,
    mark: Option<CacheControl>,
) -> Vec<WireMessage<'a>> {
    let model = &*request.model;
    let mut writer = Writer {
        model,
        compat,
        mark,
        out: Vec::new(),
        images: Vec::new(),
        after_result: false,
    };
    if !request.system_prompt.is_empty() {
        writer.system(&request.system_prompt);
    }
    for turn in adapt(model, ids(compat.quirks.ids), &request.transcript) {
        match turn {
            Turn::User(pieces) => writer.user(pieces),
            Turn::Assistant(answer) => writer.assistant(answer),
            Turn::Result(reply) => writer.result(reply),
        }
    }
    writer.flush_images();
    if let Some(mark) = mark {
        mark_last(&mut writer.out, mark);
    }
    writer.out
}

/// Ids of other dialects carry more than a call's id; some servers refuse long ones.
fn ids(form: IdForm) -> Ids {
    let (form, own, longest): (fn(&str) -> String, bool, usize) = match form {
        IdForm::Any => (
            |id| first_part(id).unwrap_or_else(|| id.to_owned()),
            false,
            ID_LIMIT,
        ),
        IdForm::AtMost40 => (
            |id| first_part(id).unwrap_or_else(|| id.chars().take(ID_LIMIT).collect()),
            false,
            ID_LIMIT,
        ),
        IdForm::Short => (short_id, true, SHORT_ID),
    };
    Ids { form, own, longest }
}

/// Nine letters and digits: the id itself, or what stands for it.
fn short_id(id: &str) -> String {
    if id.len() == SHORT_ID && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return id.to_owned();
    }
    const SIGNS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    // FNV-1a: the same on every machine and in every version.
    let mut hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut sign = || {
        let place = usize::try_from(hash % 62).unwrap_or(0);
        hash /= 62;
        char::from(SIGNS[place])
    };
    (0..SHORT_ID).map(|_| sign()).collect()
}

/// The call's part of an id that names an item too.
fn first_part(id: &str) -> Option<String> {
    let (call, _) = id.split_once('|')?;
    Some(plain_id(call, ID_LIMIT))
}

struct Writer<'a> {
    model: &'a Model,
    compat: &'a Compat,
    mark: Option<CacheControl>,
    out: Vec<WireMessage<'a>>,
    /// Images of the tool results of the last turn.
    images: Vec<&'a ImageContent>,
    /// The last message is a tool result.
    after_result: bool,
}

impl<'a> Writer<'a> {
    fn system(&mut self, prompt: &'a str) {
        let developer = self.model.reasoning && self.compat.developer_role;
        let role = if developer { "developer" } else { "system" };
        self.out.push(if self.mark.is_some() {
            WireMessage::Parts {
                role,
                content: vec![Part::Text {
                    text: prompt.into(),
                    cache_control: self.mark,
                }],
            }
        } else {
            WireMessage::Plain {
                role,
                content: prompt.into(),
            }
        });
    }

    fn user(&mut self, pieces: Vec<Piece<'a>>) {
        self.flush_images();
        self.bridge();
        if let Some(text) = self.plain_text(&pieces) {
            self.out.push(WireMessage::Plain {
                role: "user",
                content: text.into(),
            });
            return;
        }
        let part = |piece| match piece {
            Piece::Text(text) => text_part(text),
            Piece::Image(image) => image_part(image),
        };
        self.out.push(WireMessage::Parts {
            role: "user",
            content: pieces.into_iter().map(part).collect(),
        });
    }

    /// A user message as one text, where the server wants it so and it has no image.
    fn plain_text(&self, pieces: &[Piece<'a>]) -> Option<String> {
        if !self.compat.quirks.plain_user_content || self.mark.is_some() {
            return None;
        }
        let text = |piece: &Piece<'a>| match piece {
            Piece::Text(text) => Some(*text),
            Piece::Image(_) => None,
        };
        let texts: Option<Vec<&str>> = pieces.iter().map(text).collect();
        Some(texts?.join("\n"))
    }

    fn assistant(&mut self, answer: Answer<'a>) {
        self.flush_images();
        self.after_result = false;
        let text = self.text(&answer);
        let thinking = self.thinking(&answer);
        let (mut tool_calls, mut reasoning_details) = (Vec::new(), Vec::new());
        for part in answer.parts {
            let AnswerPart::Call {
                id,
                name,
                arguments,
                signature,
                ..
            } = part
            else {
                continue;
            };
            tool_calls.push(wire_call(id, name, arguments));
            let detail = signature.and_then(|text| serde_json::from_str(text).ok());
            reasoning_details.extend(detail.filter(Value::is_object));
        }
        if text.is_empty() && tool_calls.is_empty() {
            return;
        }
        if self.compat.quirks.reasoning == Replay::Never {
            reasoning_details.clear();
        }
        // Two answers in a row are no dialogue for the templates of many models.
        if let Some(WireMessage::Assistant { .. }) = self.out.last() {
            self.out.push(WireMessage::Plain {
                role: "user",
                content: NOTHING_SAID.into(),
            });
        }
        self.out.push(WireMessage::Assistant {
            role: "assistant",
            content: self.content(text),
            thinking,
            tool_calls,
            reasoning_details,
        });
    }

    fn content(&self, text: Cow<'a, str>) -> Option<Option<Cow<'a, str>>> {
        if !text.is_empty() {
            return Some(Some(text));
        }
        match self.compat.quirks.call_only_content {
            CallOnlyContent::Null if self.compat.quirks.answer_after_results => {
                Some(Some(Cow::Borrowed("")))
            }
            CallOnlyContent::Null => Some(None),
            CallOnlyContent::Empty => Some(Some(Cow::Borrowed(""))),
            CallOnlyContent::LeftOut => None,
        }
    }

    /// Text, with thinking that cannot be sent back as such before it.
    fn text(&self, answer: &Answer<'a>) -> Cow<'a, str> {
        let (mut thoughts, mut texts) = (Vec::new(), Vec::new());
        for part in &answer.parts {
            match part {
                AnswerPart::Text {
                    text,
                    thought: true,
                    ..
                } => thoughts.push(*text),
                AnswerPart::Text { text, .. } => texts.push(*text),
                AnswerPart::Thinking {
                    text,
                    redacted: false,
                    ..
                } if self.compat.quirks.thinking_as_text && !text.trim().is_empty() => {
                    thoughts.push(*text);
                }
                AnswerPart::Thinking { .. } | AnswerPart::Call { .. } => {}
            }
        }
        match (thoughts.as_slice(), texts.as_slice()) {
            ([], []) => Cow::Borrowed(""),
            ([], [one]) => Cow::Borrowed(one),
            _ => {
                let text = texts.concat();
                thoughts.extend((!text.is_empty()).then_some(text.as_str()));
                Cow::Owned(thoughts.join("\n\n"))
            }
        }
    }

    /// Thinking of this model, under the field it came in.
    fn thinking(&self, answer: &Answer<'a>) -> Map<String, Value> {
        if self.compat.quirks.reasoning == Replay::Never {
            return Map::new();
        }
        let thinking = answer.parts.iter().filter_map(|part| match part {
            AnswerPart::Thinking {
                text, signature, ..
            } if !text.trim().is_empty() => Some((*text, *signature)),
            _ => None,
        });
        let (texts, fields): (Vec<&str>, Vec<Option<&str>>) = thinking.unzip();
        let field = fields.into_iter().flatten().next();
        let field = field.filter(|name| THINKING_FIELDS.contains(name));
        match field.filter(|_| !self.compat.quirks.thinking_as_text) {
            Some(name) => Map::from_iter([(name.to_owned(), texts.join("\n").into())]),
            None => self.no_thinking(),
        }
    }

    fn no_thinking(&self) -> Map<String, Value> {
        let required = self.model.reasoning && self.compat.quirks.reasoning == Replay::Required;
        let field = required.then(|| (THINKING_FIELDS[0].to_owned(), Value::String(String::new())));
        field.into_iter().collect()
    }

    fn result(&mut self, reply: ToolReply<'a>) {
        let mut texts: Vec<&str> = Vec::new();
        let mut images = 0;
        for piece in reply.pieces {
            match piece {
                Piece::Text(text) => texts.push(text),
                Piece::Image(image) => {
                    self.images.push(image);
                    images += 1;
                }
            }
        }
        let content: Cow<'a, str> = match texts.as_slice() {
            [one] => Cow::Borrowed(one),
            [] if images > 0 => Cow::Borrowed(SEE_IMAGE),
            [] => Cow::Borrowed(NO_OUTPUT),
            texts => Cow::Owned(texts.join("\n")),
        };
        self.out.push(WireMessage::Tool {
            role: "tool",
            content,
            tool_call_id: reply.id,
            name: self.compat.quirks.tool_result_name.then_some(reply.name),
        });
        self.after_result = true;
    }

    /// Images of tool results follow all results of the turn: a result itself is only text.
    fn flush_images(&mut self) {
        if self.images.is_empty() {
            return;
        }
        self.bridge();
        let images = std::mem::take(&mut self.images).into_iter().map(image_part);
        let content = std::iter::once(text_part(TOOL_IMAGES))
            .chain(images)
            .collect();
        self.out.push(WireMessage::Parts {
            role: "user",
            content,
        });
    }

    /// Some servers refuse a user message right after a tool result.
    fn bridge(&mut self) {
        if std::mem::take(&mut self.after_result) && self.compat.quirks.answer_after_results {
            self.out.push(WireMessage::Plain {
                role: "assistant",
                content: AFTER_RESULTS.into(),
            });
        }
    }
}

fn wire_call<'a>(id: Cow<'a, str>, name: &'a str, arguments: &Extra) -> WireCall<'a> {
    WireCall {
        id,
        r#type: "function",
        function: WireFunction {
            name,
            // Serialising a map of strings to JSON values cannot fail.
            arguments: serde_json::to_string(arguments).unwrap_or_else(|_| "{}".to_owned()),
        },
    }
}

fn text_part(text: &str) -> Part<'_> {
    Part::Text {
        text: Cow::Borrowed(text),
        cache_control: None,
    }
}

fn image_part<'a>(image: &ImageContent) -> Part<'a> {
    Part::ImageUrl {
        image_url: ImageUrl {
            url: format!("data:{};base64,{}", image.mime_type, image.data),
        },
    }
}

/// Marks the last text of the last user message.
fn mark_last(messages: &mut [WireMessage<'_>], cache: CacheControl) {
    for message in messages.iter_mut().rev() {
        if let WireMessage::Parts {
            role: "user",
            content,
        } = message
        {
            let texts = content.iter_mut().rev().filter_map(|part| match part {
                Part::Text { cache_control, .. } => Some(cache_control),
                Part::ImageUrl { .. } => None,
            });
            if let Some(mark) = texts.into_iter().next() {
                *mark = Some(cache);
                return;
            }
        }
    }
}
