//! The conversation in the form of this dialect.

use std::borrow::Cow;
use std::collections::HashMap;

use fluzo_llm::{
    AssistantMessage, Content, ImageContent, Model, ModelMessage, ToolResultMessage, Transcript,
    UserContent, UserMessage,
};
use serde::Serialize;
use serde_json::{Map, Value};

use super::compat::Compat;

const USER_IMAGE_OMITTED: &str = "(image omitted: model does not support images)";
const TOOL_IMAGE_OMITTED: &str = "(tool image omitted: model does not support images)";
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
        renamed: HashMap::new(),
        images: Vec::new(),
        after_result: false,
    };
    if !system_prompt.is_empty() {
        writer.system(system_prompt);
    }
    for message in transcript.iter() {
        match message {
            ModelMessage::User(user) => writer.user(user),
            ModelMessage::Assistant(assistant) => writer.assistant(assistant),
            ModelMessage::ToolResult(result) => writer.result(result),
        }
    }
    writer.flush_images();
    if compat.anthropic_cache_control {
        mark_last(&mut writer.out);
    }
    writer.out
}

struct Writer<'a> {
    model: &'a Model,
    compat: &'a Compat,
    out: Vec<WireMessage<'a>>,
    /// New ids of the calls of the last turn.
    renamed: HashMap<&'a str, String>,
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

    fn user(&mut self, user: &'a UserMessage) {
        let content = match &user.content {
            UserContent::Text(text) if text.is_empty() => Vec::new(),
            UserContent::Text(text) => vec![text_part(text)],
            UserContent::Blocks(blocks) => self.user_parts(blocks),
        };
        if !content.is_empty() {
            self.flush_images();
            self.bridge();
            self.out.push(WireMessage::Parts {
                role: "user",
                content,
            });
        }
    }

    fn user_parts(&self, blocks: &'a [Content]) -> Vec<Part<'a>> {
        let mut parts = Vec::with_capacity(blocks.len());
        let mut omitted = false;
        for block in blocks {
            match block {
                Content::Text(text) if !text.text.is_empty() => parts.push(text_part(&text.text)),
                Content::Image(image) if self.model.takes_images() => parts.push(image_part(image)),
                Content::Image(_) => {
                    if !std::mem::replace(&mut omitted, true) {
                        parts.push(text_part(USER_IMAGE_OMITTED));
                    }
                    continue;
                }
                _ => continue,
            }
            omitted = false;
        }
        parts
    }

    fn assistant(&mut self, message: &'a AssistantMessage) {
        self.flush_images();
        self.after_result = false;
        let same = self.is_same_model(message);
        let text = self.assistant_text(message, same);
        let tool_calls = self.calls(message, same);
        if text.is_empty() && tool_calls.is_empty() {
            return;
        }
        let empty = self
            .compat
            .requires_assistant_after_tool_result
            .then_some(Cow::Borrowed(""));
        let signatures = message
            .tool_calls()
            .filter(|_| same)
            .filter_map(|call| call.thought_signature.as_deref());
        self.out.push(WireMessage::Assistant {
            role: "assistant",
            content: if text.is_empty() { empty } else { Some(text) },
            thinking: if same {
                self.thinking(message)
            } else {
                self.no_thinking()
            },
            tool_calls,
            reasoning_details: signatures
                .filter_map(|s| serde_json::from_str(s).ok())
                .filter(Value::is_object)
                .collect(),
        });
    }

    fn is_same_model(&self, message: &AssistantMessage) -> bool {
        message.provider == self.model.provider
            && message.api == self.model.api
            && message.model == self.model.id
    }

    /// Text, with thinking that cannot be sent back as such before it.
    fn assistant_text(&self, message: &'a AssistantMessage, same: bool) -> Cow<'a, str> {
        let as_text = !same || self.compat.requires_thinking_as_text;
        let thinking = message.content.iter().filter_map(|block| match block {
            Content::Thinking(thinking) if as_text && thinking.redacted != Some(true) => {
                Some(thinking.thinking.as_str())
            }
            _ => None,
        });
        let thinking: Vec<&str> = thinking.filter(|text| !text.trim().is_empty()).collect();
        let texts = message.content.iter().filter_map(Content::as_text);
        let texts: Vec<&str> = texts.filter(|text| !text.trim().is_empty()).collect();
        match (thinking.as_slice(), texts.as_slice()) {
            ([], []) => Cow::Borrowed(""),
            ([], [one]) => Cow::Borrowed(one),
            _ => {
                let text = texts.concat();
                let parts = thinking
                    .into_iter()
                    .chain((!text.is_empty()).then_some(text.as_str()));
                Cow::Owned(parts.collect::<Vec<_>>().join("\n\n"))
            }
        }
    }

    /// Thinking of this model, under the field it came in.
    fn thinking(&self, message: &AssistantMessage) -> Map<String, Value> {
        if self.compat.requires_thinking_as_text {
            return self.no_thinking();
        }
        let mut field = None;
        let mut text = String::new();
        for block in &message.content {
            let Content::Thinking(thinking) = block else {
                continue;
            };
            if thinking.thinking.trim().is_empty() {
                continue;
            }
            field = field.or(thinking.thinking_signature.as_deref());
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&thinking.thinking);
        }
        match field.filter(|name| THINKING_FIELDS.contains(name)) {
            Some(name) => Map::from_iter([(name.to_owned(), Value::String(text))]),
            None => self.no_thinking(),
        }
    }

    fn no_thinking(&self) -> Map<String, Value> {
        let required =
            self.model.reasoning && self.compat.requires_reasoning_content_on_assistant_messages;
        let field = required.then(|| (THINKING_FIELDS[0].to_owned(), Value::String(String::new())));
        field.into_iter().collect()
    }

    fn calls(&mut self, message: &'a AssistantMessage, same: bool) -> Vec<WireCall<'a>> {
        self.renamed.clear();
        let mut calls = Vec::new();
        for call in message.tool_calls() {
            let id = if same {
                Cow::Borrowed(call.id.as_str())
            } else {
                self.rename(&call.id)
            };
            // Serialising a map of strings to JSON values cannot fail.
            let arguments =
                serde_json::to_string(&call.arguments).unwrap_or_else(|_| "{}".to_owned());
            calls.push(WireCall {
                id,
                r#type: "function",
                function: WireFunction {
                    name: &call.name,
                    arguments,
                },
            });
        }
        calls
    }

    /// The id of another model's call in the form of this dialect, unique in its turn.
    fn rename(&mut self, id: &'a str) -> Cow<'a, str> {
        let wanted = normalise_id(id, &self.model.provider);
        let used = |candidate: &str, renamed: &HashMap<&str, String>| {
            renamed.values().any(|v| v == candidate)
        };
        let mut unique = wanted.clone();
        let mut n = 2;
        while used(&unique, &self.renamed) {
            let suffix = format!("_{n}");
            let kept: String = wanted.chars().take(ID_LIMIT - suffix.len()).collect();
            unique = kept + &suffix;
            n += 1;
        }
        self.renamed.insert(id, unique.clone());
        Cow::Owned(unique)
    }

    fn result(&mut self, result: &'a ToolResultMessage) {
        let takes_images = self.model.takes_images();
        let mut texts: Vec<&str> = Vec::new();
        let mut images = 0;
        for block in &result.content {
            match block {
                Content::Text(text) => texts.push(&text.text),
                Content::Image(image) if takes_images => {
                    self.images.push(image);
                    images += 1;
                }
                Content::Image(_) if texts.last() != Some(&TOOL_IMAGE_OMITTED) => {
                    texts.push(TOOL_IMAGE_OMITTED)
                }
                _ => {}
            }
        }
        let content: Cow<'a, str> = match texts.as_slice() {
            [one] if !one.is_empty() => Cow::Borrowed(one),
            texts if texts.iter().any(|text| !text.is_empty()) => Cow::Owned(texts.join("\n")),
            _ if images > 0 => Cow::Borrowed(SEE_IMAGE),
            _ => Cow::Borrowed(NO_OUTPUT),
        };
        let id = result.tool_call_id.as_str();
        let tool_call_id = self
            .renamed
            .get(id)
            .map_or(Cow::Borrowed(id), |renamed| Cow::Owned(renamed.clone()));
        let name = self
            .compat
            .requires_tool_result_name
            .then_some(result.tool_name.as_str());
        self.out.push(WireMessage::Tool {
            role: "tool",
            content,
            tool_call_id,
            name,
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

fn normalise_id(id: &str, provider: &str) -> String {
    if let Some((call, _)) = id.split_once('|') {
        let safe = |c: char| {
            if c.is_ascii_alphanumeric() || c == '_' || c == '-' {
                c
            } else {
                '_'
            }
        };
        return call.chars().map(safe).take(ID_LIMIT).collect();
    }
    if provider == "openai" {
        id.chars().take(ID_LIMIT).collect()
    } else {
        id.to_owned()
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
