//! The conversation in the form of this dialect.

use std::borrow::Cow;

use fluzo_llm::{Extra, ImageContent, Model, Transcript};
use serde::Serialize;
use serde_json::{Map, Value};

use super::compat::Compat;
use crate::adapt::{Answer, AnswerPart, Ids, Piece, ToolReply, Turn, adapt, plain_id};

const SEE_IMAGE: &str = "(see attached image)";
const TOOL_IMAGES: &str = "Attached image(s) from tool result:";
const AFTER_RESULTS: &str = "I have processed the tool results.";
const NO_OUTPUT: &str = "(no output)";

/// Fields in which servers send thinking, and take it back.
const THINKING_FIELDS: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_text"];

/// Longest id that every server takes.
const ID_LIMIT: usize = 40;

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
        content: Option<Cow<'a, str>>,
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
}

/// The only mark in use.
pub(crate) const EPHEMERAL: CacheControl = CacheControl {
    r#type: "ephemeral",
};

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

/// The messages of a request to `model`, the system prompt first.
pub(crate) fn messages<'a>(
    model: &'a Model,
    compat: &'a Compat,
    system_prompt: &'a str,
    transcript: &'a Transcript,
) -> Vec<WireMessage<'a>> {
    let mut writer = Writer {
        model,
        compat,
        out: Vec::new(),
        images: Vec::new(),
        after_result: false,
    };
    if !system_prompt.is_empty() {
        writer.system(system_prompt);
    }
    for turn in adapt(model, ids(model), transcript) {
        match turn {
            Turn::User(pieces) => writer.user(pieces),
            Turn::Assistant(answer) => writer.assistant(answer),
            Turn::Result(reply) => writer.result(reply),
        }
    }
    writer.flush_images();
    if compat.anthropic_cache_control {
        mark_last(&mut writer.out);
    }
    writer.out
}

/// Ids of other dialects carry more than a call's id; OpenAI refuses long ones.
fn ids(model: &Model) -> Ids {
    let form: fn(&str) -> String = match model.provider.as_str() {
        "openai" => |id| first_part(id).unwrap_or_else(|| id.chars().take(ID_LIMIT).collect()),
        _ => |id| first_part(id).unwrap_or_else(|| id.to_owned()),
    };
    Ids {
        form,
        own: false,
        longest: ID_LIMIT,
    }
}

/// The call's part of an id that names an item too.
fn first_part(id: &str) -> Option<String> {
    let (call, _) = id.split_once('|')?;
    Some(plain_id(call, ID_LIMIT))
}

struct Writer<'a> {
    model: &'a Model,
    compat: &'a Compat,
    out: Vec<WireMessage<'a>>,
    /// Images of the tool results of the last turn.
    images: Vec<&'a ImageContent>,
    /// The last message is a tool result.
    after_result: bool,
}

impl<'a> Writer<'a> {
    fn system(&mut self, prompt: &'a str) {
        let developer = self.model.reasoning && self.compat.supports_developer_role;
        let role = if developer { "developer" } else { "system" };
        self.out.push(if self.compat.anthropic_cache_control {
            let cache_control = Some(EPHEMERAL);
            WireMessage::Parts {
                role,
                content: vec![Part::Text {
                    text: prompt.into(),
                    cache_control,
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
        let part = |piece| match piece {
            Piece::Text(text) => text_part(text),
            Piece::Image(image) => image_part(image),
        };
        self.out.push(WireMessage::Parts {
            role: "user",
            content: pieces.into_iter().map(part).collect(),
        });
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
        let empty = self
            .compat
            .requires_assistant_after_tool_result
            .then_some(Cow::Borrowed(""));
        self.out.push(WireMessage::Assistant {
            role: "assistant",
            content: if text.is_empty() { empty } else { Some(text) },
            thinking,
            tool_calls,
            reasoning_details,
        });
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
                } if self.compat.requires_thinking_as_text && !text.trim().is_empty() => {
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
        let thinking = answer.parts.iter().filter_map(|part| match part {
            AnswerPart::Thinking {
                text, signature, ..
            } if !text.trim().is_empty() => Some((*text, *signature)),
            _ => None,
        });
        let (texts, fields): (Vec<&str>, Vec<Option<&str>>) = thinking.unzip();
        let field = fields.into_iter().flatten().next();
        let field = field.filter(|name| THINKING_FIELDS.contains(name));
        match field.filter(|_| !self.compat.requires_thinking_as_text) {
            Some(name) => Map::from_iter([(name.to_owned(), texts.join("\n").into())]),
            None => self.no_thinking(),
        }
    }

    fn no_thinking(&self) -> Map<String, Value> {
        let required =
            self.model.reasoning && self.compat.requires_reasoning_content_on_assistant_messages;
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
            name: self.compat.requires_tool_result_name.then_some(reply.name),
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
        if std::mem::take(&mut self.after_result)
            && self.compat.requires_assistant_after_tool_result
        {
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
fn mark_last(messages: &mut [WireMessage<'_>]) {
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
                *mark = Some(EPHEMERAL);
                return;
            }
        }
    }
}
