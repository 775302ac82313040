//! Whatever a session holds, what is sent is valid: random conversations over models of all
//! dialects, judged by the strict rules of the simulator, which shares no code with them.

use std::collections::BTreeSet;
use std::sync::Arc;

use fluzo_llm::{
    Message, Model, ModelMessage, ModelRequest, RequestAuth, RequestOptions, ThinkingLevel,
    ToolSpec, Transcript,
};
use fluzo_sim::{Endpoint, ModelCapabilities, check_request};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::dialect::SPOKEN;

/// Dialect, provider, model, and who judges its requests. Two models of one dialect switch
/// within it.
const MODELS: &[(&str, &str, &str, Endpoint)] = &[
    ("openai-completions", "sim", "chat", Endpoint::Chat),
    ("openai-completions", "openai", "gpt-4.1", Endpoint::Chat),
    ("openai-completions", "mistral", "devstral", Endpoint::Chat),
    ("openai-completions", "deepseek", "v4", Endpoint::Chat),
    (
        "anthropic-messages",
        "anthropic",
        "claude-sonnet-4-5",
        Endpoint::Messages,
    ),
    (
        "anthropic-messages",
        "anthropic",
        "claude-opus-4-7",
        Endpoint::Messages,
    ),
    (
        "google-generative-ai",
        "google",
        "gemini-3-pro-preview",
        Endpoint::Gemini,
    ),
    (
        "google-generative-ai",
        "google",
        "gemini-2.5-flash",
        Endpoint::Gemini,
    ),
    ("openai-responses", "openai", "gpt-5.4", Endpoint::Responses),
    (
        "azure-openai-responses",
        "azure-openai-responses",
        "gpt-5.4",
        Endpoint::Responses,
    ),
];

/// Ids as servers give them, and as they break them.
const IDS: &[&str] = &[
    "call_1",
    "call_2",
    "call_1|fc_abc",
    "toolu_01",
    "",
    "a b/ü:1",
    "functions.read:0",
    "call_|",
    "|",
    "abcdefgh9",
    "chatcmpl-tool-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
];

const TEXTS: &[&str] = &["", " ", "hi", "tail \n", "\u{1f600}", "\u{0}"];

#[derive(Debug, Clone)]
enum Step {
    User(Vec<u8>),
    Assistant {
        model: usize,
        blocks: Vec<Block>,
        end: u8,
    },
    /// Answers the calls of the last response but those whose bit is set.
    Answers {
        without: u8,
        kind: u8,
    },
    /// A result for any id.
    Stray {
        id: usize,
        kind: u8,
    },
}

#[derive(Debug, Clone)]
enum Block {
    Text {
        text: usize,
        signature: u8,
    },
    Thinking {
        text: usize,
        signature: u8,
    },
    Call {
        id: usize,
        arguments: u8,
        signature: u8,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let block = prop_oneof![
        (0..TEXTS.len(), 0..4u8).prop_map(|(text, signature)| Block::Text { text, signature }),
        (0..TEXTS.len(), 0..5u8).prop_map(|(text, signature)| Block::Thinking { text, signature }),
        (0..IDS.len(), 0..5u8, 0..4u8).prop_map(|(id, arguments, signature)| Block::Call {
            id,
            arguments,
            signature
        }),
    ];
    let assistant = (0..MODELS.len(), prop::collection::vec(block, 0..5), 0..8u8)
        .prop_map(|(model, blocks, end)| Step::Assistant { model, blocks, end });
    let step = prop_oneof![
        2 => prop::collection::vec(0..8u8, 0..4).prop_map(Step::User),
        4 => assistant,
        3 => (prop_oneof![3 => Just(0u8), 1 => any::<u8>()], 0..6u8)
            .prop_map(|(without, kind)| Step::Answers { without, kind }),
        1 => (0..IDS.len(), 0..6u8).prop_map(|(id, kind)| Step::Stray { id, kind }),
    ];
    prop::collection::vec(step, 0..12)
}

/// A conversation, and what each model has signed in it.
#[derive(Default)]
struct Story {
    messages: Vec<Arc<Message>>,
    /// Ids of the calls of the last response.
    calls: Vec<String>,
    signed: Vec<(usize, String, String)>,
    count: usize,
}

impl Story {
    fn of(steps: &[Step]) -> Self {
        let mut story = Self::default();
        // A session begins with what a user says, and nothing empty is accepted from one.
        story.user(&[2]);
        for step in steps {
            match step {
                Step::User(parts) => story.user(parts),
                Step::Assistant { model, blocks, end } => story.assistant(*model, blocks, *end),
                Step::Answers { without, kind } => {
                    for (at, id) in std::mem::take(&mut story.calls).iter().enumerate() {
                        if without >> (at % 8) & 1 == 0 {
                            story.result(id, *kind);
                        }
                    }
                }
                Step::Stray { id, kind } => story.result(IDS[*id], *kind),
            }
        }
        story
    }

    fn push(&mut self, mut message: Value) {
        message["timestamp"] = json!(1);
        let message: Message = serde_json::from_value(message).unwrap();
        self.messages.push(Arc::new(message));
    }

    fn user(&mut self, parts: &[u8]) {
        let content = match parts {
            [one] => json!(TEXTS[usize::from(*one) % TEXTS.len()]),
            parts => parts.iter().map(|part| piece(*part)).collect(),
        };
        self.push(json!({"role": "user", "content": content}));
    }

    fn result(&mut self, id: &str, kind: u8) {
        let content: Value = match kind {
            0 => json!([]),
            1 => json!([{"type": "text", "text": ""}]),
            2 => json!([piece(7)]),
            3 => json!([piece(2), piece(7), piece(7)]),
            _ => json!([piece(2)]),
        };
        self.push(json!({
            "role": "toolResult", "toolCallId": id, "toolName": "read", "content": content, "isError": kind == 4,
        }));
    }

    fn assistant(&mut self, model: usize, blocks: &[Block], end: u8) {
        let (api, provider, id, endpoint) = MODELS[model];
        self.calls.clear();
        let content: Vec<Value> = blocks
            .iter()
            .map(|block| self.block(model, endpoint, block))
            .collect();
        let stop = match end {
            0 => "error",
            1 => "aborted",
            2 => "length",
            _ if self.calls.is_empty() => "stop",
            _ => "toolUse",
        };
        let mut message = json!({
            "role": "assistant", "content": content, "api": api, "provider": provider, "model": id,
            "usage": {}, "stopReason": stop,
        });
        if end < 2 {
            message["errorMessage"] = json!("503 overloaded");
        }
        self.push(message);
    }

    fn block(&mut self, model: usize, endpoint: Endpoint, block: &Block) -> Value {
        self.count += 1;
        let n = self.count;
        match block {
            Block::Text { text, signature } => {
                let mut block = json!({"type": "text", "text": TEXTS[*text]});
                let given = match (signature, endpoint) {
                    (0, Endpoint::Gemini) => self.sign(model, "", n),
                    (0, _) => json!({"v": 1, "id": format!("msg_{n}")}).to_string(),
                    (1, Endpoint::Gemini) => return block,
                    (1, _) => "msg_odd".to_owned(),
                    _ => return block,
                };
                block["textSignature"] = json!(given);
                block
            }
            Block::Thinking { text, signature } => {
                // Each thought is said once, so that its signature is its own.
                let thought = match TEXTS[*text] {
                    text if text.trim().is_empty() => text.to_owned(),
                    text => format!("{text}{n}"),
                };
                let mut block = json!({"type": "thinking", "thinking": thought});
                match (signature, endpoint) {
                    // A server of this dialect signs all its thinking, or asks for none back.
                    (_, Endpoint::Messages) | (0, Endpoint::Gemini) => {
                        block["thinkingSignature"] = json!(self.sign(model, &thought, n));
                    }
                    (0, Endpoint::Responses) => {
                        let sealed = self.sign(model, &thought, n);
                        let item = json!({
                            "type": "reasoning", "id": format!("rs_{n}"), "encrypted_content": sealed,
                            "summary": [{"type": "summary_text", "text": thought}],
                        });
                        block["thinkingSignature"] = json!(item.to_string());
                    }
                    (0, _) => block["thinkingSignature"] = json!("reasoning_content"),
                    (1, Endpoint::Chat) => block["thinkingSignature"] = json!("odd"),
                    (2, _) => block["thinkingSignature"] = json!(""),
                    _ => {}
                }
                block
            }
            Block::Call {
                id,
                arguments,
                signature,
            } => {
                let id = IDS[*id];
                self.calls.push(id.to_owned());
                let arguments_value = json!({"n": n});
                let mut block = json!({"type": "toolCall", "id": id, "name": "read", "arguments": arguments_value});
                match arguments {
                    0 => block["arguments"] = json!({}),
                    1 => {
                        block["arguments"] = json!({});
                        block["rawArguments"] = json!("{\"path\":\"rm -r bui");
                    }
                    _ => {}
                }
                let content = format!("read {}", block["arguments"]);
                if endpoint == Endpoint::Gemini {
                    if *signature == 0 && *arguments > 1 {
                        block["thoughtSignature"] = json!(self.sign(model, &content, n));
                    } else {
                        self.signed.push((model, content, String::new()));
                    }
                } else if *signature == 1 {
                    block["thoughtSignature"] =
                        json!("{\"type\":\"reasoning.encrypted\",\"id\":\"x\",\"data\":\"y\"}");
                }
                block
            }
        }
    }

    /// Notes every call of a Gemini request as one that `model` did not sign.
    fn unsigned(&mut self, model: usize, body: &Value) {
        let contents = body["contents"].as_array().into_iter().flatten();
        let parts = contents.flat_map(|content| content["parts"].as_array().into_iter().flatten());
        for call in parts.filter_map(|part| part.get("functionCall")) {
            let content = format!("read {}", call["args"]);
            self.signed.push((model, content, String::new()));
        }
    }

    fn sign(&mut self, model: usize, content: &str, n: usize) -> String {
        // Valid base64.
        let signature = format!("{n:08}");
        self.signed
            .push((model, content.to_owned(), signature.clone()));
        signature
    }
}

fn piece(part: u8) -> Value {
    match part {
        6 | 7 => json!({"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}),
        part => json!({"type": "text", "text": TEXTS[usize::from(part) % TEXTS.len()]}),
    }
}

fn request(
    model: usize,
    images: bool,
    thinking: ThinkingLevel,
    messages: &[Arc<Message>],
) -> ModelRequest {
    let (api, provider, id, _) = MODELS[model];
    let input = if images {
        json!(["text", "image"])
    } else {
        json!(["text"])
    };
    let model: Model = serde_json::from_value(json!({
        "id": id, "name": id, "api": api, "provider": provider, "baseUrl": "http://h/v1", "reasoning": true,
        "input": input, "contextWindow": 200_000, "maxTokens": 32_000,
    }))
    .unwrap();
    let tool = |name: &str| ToolSpec {
        name: name.into(),
        description: name.into(),
        parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
    };
    ModelRequest {
        model: Arc::new(model),
        system_prompt: "Be brief.".into(),
        transcript: Transcript::from_context(messages),
        tools: Arc::new([tool("read"), tool("bash")]),
        options: RequestOptions {
            thinking,
            session_id: Some("s1".into()),
            ..RequestOptions::default()
        },
        auth: RequestAuth::default(),
    }
}

/// What the judge finds in the request of `model` after `steps` and a last word of the user.
fn faults(steps: &[Step], model: usize, images: bool, thinking: ThinkingLevel) -> Vec<String> {
    let mut story = Story::of(steps);
    let sent = Transcript::from_context(&story.messages);
    // What follows results goes on by itself; anything else waits for the user.
    if !matches!(sent.iter().last(), Some(ModelMessage::ToolResult(_))) {
        story.user(&[2]);
    }
    let request = request(model, images, thinking, &story.messages);
    let (api, _, id, endpoint) = MODELS[model];
    let (_, dialect) = SPOKEN.iter().find(|(name, _)| *name == api).unwrap();
    let body: Value = serde_json::from_slice(&dialect.body(&request).unwrap()).unwrap();
    if id.starts_with("gemini-2") {
        // Only from Gemini 3 on are signatures of calls demanded.
        story.unsigned(model, &body);
    }
    let own = story.signed.iter().filter(|(by, ..)| *by == model);
    let judge = ModelCapabilities {
        id: id.into(),
        images,
        reasoning: true,
        own_tools: ["read".to_owned()].into(),
        own_signatures: own
            .map(|(_, content, signature)| (content.clone(), signature.clone()))
            .collect(),
        unthought_calls: excused(&body),
        ..ModelCapabilities::default()
    };
    let found = check_request(endpoint, &body, &judge);
    let shown = |violation| {
        format!(
            "{violation:?}\n{}",
            serde_json::to_string(
                &body["messages"]
                    .as_array()
                    .or(body["input"].as_array())
                    .or(body["contents"].as_array())
            )
            .unwrap()
        )
    };
    found.iter().map(shown).collect()
}

/// Calls of a Messages request that owe no thinking, which the judge cannot tell by itself: a
/// model that began its turn with thinking need not think between its calls, and a turn that
/// the user has spoken after is over.
fn excused(body: &Value) -> BTreeSet<String> {
    let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    let mut calls = BTreeSet::new();
    let (mut all, mut thought) = (BTreeSet::new(), false);
    let mut spoken = false;
    for message in list(body, "messages") {
        let blocks = list(&message, "content");
        let is = |block: &Value, kind: &str| block["type"] == kind;
        spoken = blocks.iter().any(|block| !is(block, "tool_result"));
        if message["role"] == "user" {
            thought &= !spoken;
            continue;
        }
        thought |= blocks.first().is_some_and(|block| is(block, "thinking"));
        let ids = blocks.iter().filter_map(|block| block["id"].as_str());
        let ids: Vec<String> = ids.map(str::to_owned).collect();
        all.extend(ids.clone());
        if thought {
            calls.extend(ids);
        }
    }
    if spoken { all } else { calls }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_sent_is_valid_for_every_dialect(
        steps in steps(), images in any::<bool>(), thinks in any::<bool>(),
    ) {
        let thinking = if thinks { ThinkingLevel::High } else { ThinkingLevel::Off };
        for (model, (_, _, id, _)) in MODELS.iter().enumerate() {
            let found = faults(&steps, model, images, thinking);
            prop_assert!(found.is_empty(), "{id} {}", found.join("\n"));
        }
    }
}
