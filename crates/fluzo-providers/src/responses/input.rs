//! The conversation as input items.

use std::borrow::Cow;
use std::collections::HashSet;

use fluzo_llm::{Extra, ImageContent, Model, Transcript};
use serde::Serialize;
use serde_json::value::RawValue;

use super::ids::{
    ID_LIMIT, TextSignature, call_part, foreign_item, numbered_text, own_item, reasoning_item,
};
use crate::adapt::{Answer, AnswerPart, Ids, Piece, ToolReply, Turn, adapt};

const SEE_IMAGE: &str = "(see attached image)";
const NO_OUTPUT: &str = "(no output)";

/// Calls are told apart by their own part of the id.
const IDS: Ids = Ids {
    form: call_part,
    own: true,
    longest: ID_LIMIT,
};

/// An item of the input. The order of the fields is the order of the keys.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Item<'a> {
    System {
        role: &'static str,
        content: &'a str,
    },
    User {
        role: &'static str,
        content: Vec<Part<'a>>,
    },
    Text {
        r#type: &'static str,
        role: &'static str,
        content: [OutputText<'a>; 1],
        status: &'static str,
        id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<String>,
    },
    Reasoning(&'a RawValue),
    Call {
        r#type: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<Cow<'a, str>>,
        call_id: Cow<'a, str>,
        name: &'a str,
        arguments: String,
    },
    Output {
        r#type: &'static str,
        call_id: Cow<'a, str>,
        output: Output<'a>,
    },
}

/// A part of what the user or a tool says.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Part<'a> {
    InputText {
        text: Cow<'a, str>,
    },
    InputImage {
        detail: &'static str,
        image_url: String,
    },
}

/// What a model said.
#[derive(Debug, Serialize)]
pub(crate) struct OutputText<'a> {
    r#type: &'static str,
    text: &'a str,
    annotations: [(); 0],
}

/// What a tool returned.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Output<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

/// The items of a request to `model`, the system prompt first, in the role `system_role`.
pub(crate) fn input<'a>(
    model: &Model,
    system_role: &'static str,
    system_prompt: &'a str,
    transcript: &'a Transcript,
) -> Vec<Item<'a>> {
    let mut writer = Writer::default();
    if !system_prompt.is_empty() {
        writer.out.push(Item::System {
            role: system_role,
            content: system_prompt,
        });
    }
    for turn in adapt(model, IDS, transcript) {
        match turn {
            Turn::User(pieces) => writer.out.push(Item::User {
                role: "user",
                content: pieces.into_iter().map(part).collect(),
            }),
            Turn::Assistant(answer) => writer.answer(answer),
            Turn::Result(reply) => writer.out.push(Item::Output {
                r#type: "function_call_output",
                call_id: reply.id.clone(),
                output: output(reply),
            }),
        }
    }
    writer.out
}

#[derive(Default)]
struct Writer<'a> {
    out: Vec<Item<'a>>,
    /// Ids of texts and calls that are in use.
    used: HashSet<String>,
    /// Texts that have got a number for an id.
    numbered: usize,
}

impl<'a> Writer<'a> {
    fn answer(&mut self, answer: Answer<'a>) {
        // An item is known to the server by its id, and refused when the reasoning that led to
        // it is missing; so is reasoning without the item that it led to.
        let paired = answer.own && !loses_reasoning(&answer);
        let (mut reasoning, mut calls) = (Vec::new(), Vec::new());
        for part in answer.parts {
            let item = match part {
                AnswerPart::Thinking { signature, .. } => {
                    let kept = signature.filter(|_| paired).and_then(reasoning_item);
                    reasoning.extend(kept.map(Item::Reasoning));
                    continue;
                }
                AnswerPart::Text {
                    text, signature, ..
                } => {
                    let item = self.text(text, signature, paired);
                    self.out.append(&mut reasoning);
                    self.out.push(item);
                    continue;
                }
                AnswerPart::Call {
                    id,
                    given,
                    name,
                    arguments,
                    ..
                } => {
                    let item = match (answer.own, answer.kin) {
                        (true, _) => own_item(given).filter(|_| paired),
                        (false, true) => None,
                        (false, false) => foreign_item(given).map(Cow::Owned),
                    };
                    let item = item.filter(|item| self.used.insert(item.clone().into_owned()));
                    call(item, id, name, arguments)
                }
            };
            // Some servers want nothing between calls and their outputs, so calls come last.
            calls.append(&mut reasoning);
            calls.push(item);
        }
        self.out.append(&mut calls);
    }

    fn text(&mut self, text: &'a str, signature: Option<&str>, paired: bool) -> Item<'a> {
        let signature = signature.and_then(TextSignature::read);
        let own = signature.as_ref().filter(|_| paired);
        let own = own.map(TextSignature::fit_id);
        let id = match own.filter(|id| !self.used.contains(id)) {
            Some(id) => id,
            None => self.number(),
        };
        self.used.insert(id.clone());
        Item::Text {
            r#type: "message",
            role: "assistant",
            content: [OutputText {
                r#type: "output_text",
                text,
                annotations: [],
            }],
            status: "completed",
            id,
            phase: signature.and_then(|signature| signature.phase),
        }
    }

    fn number(&mut self) -> String {
        loop {
            let id = numbered_text(self.numbered);
            self.numbered += 1;
            if !self.used.contains(&id) {
                return id;
            }
        }
    }
}

/// Whether reasoning of `answer` that led to one of its items does not go back.
fn loses_reasoning(answer: &Answer<'_>) -> bool {
    answer.parts.iter().any(|part| match part {
        AnswerPart::Thinking { signature, .. } => signature.and_then(reasoning_item).is_none(),
        _ => false,
    })
}

fn call<'a>(
    item: Option<Cow<'a, str>>,
    call_id: Cow<'a, str>,
    name: &'a str,
    arguments: &Extra,
) -> Item<'a> {
    Item::Call {
        r#type: "function_call",
        id: item,
        call_id,
        name,
        // Serialising a map of strings to JSON values cannot fail.
        arguments: serde_json::to_string(arguments).unwrap_or_else(|_| "{}".to_owned()),
    }
}

/// Text as a string; with images a list of parts.
fn output(reply: ToolReply<'_>) -> Output<'_> {
    let (mut texts, mut images) = (Vec::new(), Vec::new());
    for piece in reply.pieces {
        match piece {
            Piece::Text(text) => texts.push(text),
            Piece::Image(image) => images.push(image_part(image)),
        }
    }
    let text = match texts.as_slice() {
        [] if images.is_empty() => Cow::Borrowed(NO_OUTPUT),
        [] => Cow::Borrowed(SEE_IMAGE),
        [one] => Cow::Borrowed(*one),
        several => Cow::Owned(several.join("\n")),
    };
    if images.is_empty() {
        return Output::Text(text);
    }
    let text = (!texts.is_empty()).then_some(Part::InputText { text });
    Output::Parts(text.into_iter().chain(images).collect())
}

fn part(piece: Piece<'_>) -> Part<'_> {
    match piece {
        Piece::Text(text) => Part::InputText { text: text.into() },
        Piece::Image(image) => image_part(image),
    }
}

fn image_part<'a>(image: &ImageContent) -> Part<'a> {
    Part::InputImage {
        detail: "auto",
        image_url: format!("data:{};base64,{}", image.mime_type, image.data),
    }
}
