//! The conversation in the form of this dialect.

use std::borrow::Cow;

use fluzo_llm::{Extra, ImageContent, Model, Transcript};
use serde::Serialize;

use super::family::Family;
use super::wire::signature;
use crate::adapt::{Answer, AnswerPart, Ids, Piece, ToolReply, Turn, adapt, plain_id};

const SEE_IMAGE: &str = "(see attached image)";
const TOOL_IMAGES: &str = "Tool result image:";

const IMAGE_OMITTED: &str = "(image omitted: model does not support images of this type)";

/// The types of images that the server reads.
const IMAGE_TYPES: [&str; 5] = [
    "image/png",
    "image/jpeg",
    "image/webp",
    "image/heic",
    "image/heif",
];

/// What the user is taken to have said where the server wants a content of the user: before
/// an answer that begins a conversation, and after one that ends it.
const NOTHING_SAID: &str = "(no message)";

/// The signature of a call that Gemini 3 did not make itself. It refuses a call without one in
/// the first place of a step, and takes this value, named in "Thought Signatures" at
/// ai.google.dev/gemini-api/docs/thought-signatures for histories of other models, unchecked.
const UNCHECKED: &str = "skip_thought_signature_validator";

/// Longest id, in characters.
const ID_LIMIT: usize = 64;

/// What one side said.
#[derive(Debug, Serialize)]
pub(crate) struct WireContent<'a> {
    role: &'static str,
    parts: Vec<Part<'a>>,
}

/// A part of a content: one of text, image, call and result. The order of the fields is the
/// order of the keys.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Part<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    thought: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inline_data: Option<InlineData<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<FunctionCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_response: Option<FunctionResponse<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<&'a str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct InlineData<'a> {
    mime_type: &'a str,
    data: &'a str,
}

#[derive(Debug, Serialize)]
struct FunctionCall<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Cow<'a, str>>,
    name: Cow<'a, str>,
    args: &'a Extra,
}

#[derive(Debug, Serialize)]
struct FunctionResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Cow<'a, str>>,
    name: Cow<'a, str>,
    response: Returned<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<Part<'a>>,
}

/// What a tool returned.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
enum Returned<'a> {
    Output(Cow<'a, str>),
    Error(Cow<'a, str>),
}

impl<'a> Part<'a> {
    /// A part that is text.
    pub(crate) fn text(text: &'a str) -> Self {
        Self {
            text: Some(text),
            ..Self::default()
        }
    }

    fn image(image: &'a ImageContent) -> Self {
        Self {
            inline_data: Some(InlineData {
                mime_type: &image.mime_type,
                data: &image.data,
            }),
            ..Self::default()
        }
    }

    fn of(piece: Piece<'a>) -> Self {
        match taken(piece) {
            Piece::Text(text) => Self::text(text),
            Piece::Image(image) => Self::image(image),
        }
    }
}

/// Who speaks in a content.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Speaker {
    User,
    Model,
    Tools,
}

/// The contents of a request to `model`: the first and the last are the user's.
pub(crate) fn contents<'a>(model: &Model, transcript: &'a Transcript) -> Vec<WireContent<'a>> {
    let ids = Ids {
        form: |id| plain_id(id, ID_LIMIT),
        own: true,
        longest: ID_LIMIT,
    };
    let mut writer = Writer {
        family: Family::of(&model.id),
        out: Vec::new(),
        last: None,
        images: Vec::new(),
    };
    for turn in adapt(model, ids, transcript) {
        match turn {
            Turn::User(pieces) => {
                writer.flush_images();
                writer.push(Speaker::User, pieces.into_iter().map(Part::of));
            }
            Turn::Assistant(answer) => writer.answer(answer),
            Turn::Result(reply) => writer.result(reply),
        }
    }
    writer.flush_images();
    if matches!(writer.last, None | Some(Speaker::Model)) {
        writer.push(Speaker::User, std::iter::once(Part::text(NOTHING_SAID)));
    }
    writer.out
}

struct Writer<'a> {
    family: Family,
    out: Vec<WireContent<'a>>,
    /// Who speaks in the last content.
    last: Option<Speaker>,
    /// Images of the results of the last turn that are not in the results.
    images: Vec<&'a ImageContent>,
}

impl<'a> Writer<'a> {
    /// Adds parts to the last content if it is of the same kind: the results of one turn have
    /// to stand in one content by themselves, and nothing may come between a call and them.
    fn push(&mut self, speaker: Speaker, parts: impl Iterator<Item = Part<'a>>) {
        if self.last.is_none() && speaker == Speaker::Model {
            self.push(Speaker::User, std::iter::once(Part::text(NOTHING_SAID)));
        }
        match self.out.last_mut().filter(|_| self.last == Some(speaker)) {
            Some(last) => last.parts.extend(parts),
            None => self.out.push(WireContent {
                role: match speaker {
                    Speaker::Model => "model",
                    Speaker::User | Speaker::Tools => "user",
                },
                parts: parts.collect(),
            }),
        }
        self.last = Some(speaker);
    }

    fn answer(&mut self, answer: Answer<'a>) {
        self.flush_images();
        let parts = answer.parts.into_iter().filter_map(|part| self.part(part));
        let mut parts: Vec<_> = parts.collect();
        if self.family.is_gemini_3() {
            let first = parts.iter_mut().find(|part| part.function_call.is_some());
            if let Some(call) = first {
                call.thought_signature.get_or_insert(UNCHECKED);
            }
        }
        if !parts.is_empty() {
            self.push(Speaker::Model, parts.into_iter());
        }
    }

    fn part(&self, part: AnswerPart<'a>) -> Option<Part<'a>> {
        match part {
            AnswerPart::Text {
                text, signature: s, ..
            } => Some(Part {
                thought_signature: s.and_then(signature),
                ..Part::text(text)
            }),
            AnswerPart::Thinking {
                text,
                signature: s,
                redacted,
            } => {
                let thought_signature = s.and_then(signature);
                let text = if redacted { "" } else { text };
                let says = !text.trim().is_empty() || thought_signature.is_some();
                says.then(|| Part {
                    thought: Some(true),
                    thought_signature,
                    ..Part::text(text)
                })
            }
            AnswerPart::Call {
                id,
                name,
                arguments,
                signature: s,
                ..
            } => Some(Part {
                function_call: Some(FunctionCall {
                    id: self.family.has_ids().then_some(id),
                    name: function_name(name),
                    args: arguments,
                }),
                thought_signature: s.and_then(signature),
                ..Part::default()
            }),
        }
    }

    fn result(&mut self, reply: ToolReply<'a>) {
        let (mut texts, mut images) = (Vec::new(), Vec::new());
        for piece in reply.pieces {
            match taken(piece) {
                Piece::Text(text) => texts.push(text),
                Piece::Image(image) => images.push(image),
            }
        }
        let text: Cow<'a, str> = match texts.as_slice() {
            [] if !images.is_empty() => Cow::Borrowed(SEE_IMAGE),
            [one] => Cow::Borrowed(one),
            texts => Cow::Owned(texts.join("\n")),
        };
        let response = match reply.is_error {
            true => Returned::Error(text),
            false => Returned::Output(text),
        };
        let mut parts = Vec::new();
        match self.family.takes_images_in_results() {
            true => parts.extend(images.into_iter().map(Part::image)),
            false => self.images.append(&mut images),
        }
        let function_response = FunctionResponse {
            id: self.family.has_ids().then_some(reply.id),
            name: function_name(reply.name),
            response,
            parts,
        };
        let part = Part {
            function_response: Some(function_response),
            ..Part::default()
        };
        self.push(Speaker::Tools, std::iter::once(part));
    }

    /// Images that results cannot hold follow all results of the turn.
    fn flush_images(&mut self) {
        if self.images.is_empty() {
            return;
        }
        let images = std::mem::take(&mut self.images);
        let images = images.into_iter().map(Part::image);
        let parts = std::iter::once(Part::text(TOOL_IMAGES)).chain(images);
        self.push(Speaker::User, parts);
    }
}

/// `piece`, or words for an image of a type that the server refuses.
fn taken(piece: Piece<'_>) -> Piece<'_> {
    match piece {
        Piece::Image(image) if !IMAGE_TYPES.contains(&image.mime_type.as_str()) => {
            Piece::Text(IMAGE_OMITTED)
        }
        other => other,
    }
}

/// `name` as the server takes it. Models call tools that do not exist by any name, and a name
/// that is refused would spoil every later request.
fn function_name(name: &str) -> Cow<'_, str> {
    const LONGEST: usize = 64;
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"_.:-".contains(&b);
    let begins = |b: u8| b.is_ascii_alphabetic() || b == b'_';
    let good = name.len() <= LONGEST && name.bytes().all(fits);
    if good && name.bytes().next().is_some_and(begins) {
        return Cow::Borrowed(name);
    }
    let fitting = |c: char| match u8::try_from(c) {
        Ok(b) if fits(b) => c,
        _ => '_',
    };
    let mut out: String = name.chars().map(fitting).take(LONGEST - 1).collect();
    if !out.bytes().next().is_some_and(begins) {
        out.insert(0, '_');
    }
    Cow::Owned(out)
}
