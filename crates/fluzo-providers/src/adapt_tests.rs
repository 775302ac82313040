//! Conversations as they reach a model.

use std::sync::Arc;

use fluzo_llm::Message;
use serde_json::{Value, json};

use super::*;

const IDS: Ids = Ids {
    form: |id| plain_id(id, 8),
    own: false,
    longest: 8,
};

/// The turns of `messages` for model `m` of provider `p`, as short lines.
fn turns(images: bool, messages: Value) -> Vec<String> {
    let inputs: &[&str] = if images {
        &["text", "image"]
    } else {
        &["text"]
    };
    let model: Model = serde_json::from_value(json!({
        "id": "m", "name": "m", "api": "a", "provider": "p", "baseUrl": "",
        "input": inputs, "contextWindow": 1, "maxTokens": 1,
    }))
    .unwrap();
    let messages: Vec<Message> = serde_json::from_value(messages).unwrap();
    let transcript = Transcript::new(messages.into_iter().map(Arc::new).collect()).unwrap();
    adapt(&model, IDS, &transcript).iter().map(line).collect()
}

fn line(turn: &Turn<'_>) -> String {
    let pieces = |pieces: &[Piece<'_>]| {
        let one = |piece: &Piece<'_>| match piece {
            Piece::Text(text) => (*text).to_owned(),
            Piece::Image(image) => format!("<{}>", image.data),
        };
        pieces.iter().map(one).collect::<Vec<_>>().join("|")
    };
    match turn {
        Turn::User(content) => format!("user {}", pieces(content)),
        Turn::Result(reply) => format!("result {} {}", reply.id, pieces(&reply.pieces)),
        Turn::Assistant(answer) => {
            let one = |part: &AnswerPart<'_>| match part {
                AnswerPart::Text {
                    text, signature, ..
                } => format!("text {text}{}", signature.unwrap_or_default()),
                AnswerPart::Thinking {
                    text,
                    signature,
                    redacted,
                } => format!(
                    "thinking {text}{}{}",
                    signature.unwrap_or_default(),
                    if *redacted { " redacted" } else { "" }
                ),
                AnswerPart::Call { id, signature, .. } => {
                    format!("call {id}{}", signature.unwrap_or_default())
                }
            };
            answer.parts.iter().map(one).collect::<Vec<_>>().join("|")
        }
    }
}

fn answer(model: &str, content: Value) -> Value {
    json!({"role": "assistant", "content": content, "api": "a", "provider": "p", "model": model,
        "usage": {}, "stopReason": "stop", "timestamp": 1})
}

fn result(id: &str, content: Value) -> Value {
    json!({"role": "toolResult", "toolCallId": id, "toolName": "t", "content": content, "isError": false, "timestamp": 1})
}

fn image(data: &str) -> Value {
    json!({"type": "image", "data": data, "mimeType": "image/png"})
}

#[test]
fn thinking_and_signatures_stay_with_their_model() {
    let content = json!([
        {"type": "thinking", "thinking": "hm", "thinkingSignature": "+s"},
        {"type": "thinking", "thinking": "", "thinkingSignature": "+empty"},
        {"type": "thinking", "thinking": " "},
        {"type": "thinking", "thinking": "hidden", "thinkingSignature": "+d", "redacted": true},
        {"type": "text", "text": "yes", "textSignature": "+t"},
        {"type": "text", "text": " "},
    ]);
    let rows = [
        (
            "m",
            "thinking hm+s|thinking +empty|thinking hidden+d redacted|text yes+t",
        ),
        ("other", "text hm|text yes"),
    ];
    for (model, expected) in rows {
        assert_eq!(
            turns(true, json!([answer(model, content.clone())])),
            [expected]
        );
    }
}

#[test]
fn images_become_one_note_for_each_run() {
    let messages = json!([
        {"role": "user", "timestamp": 1, "content": [{"type": "text", "text": "a"}, image("1"), image("2"), {"type": "text", "text": "b"}, image("3")]},
        answer("m", json!([{"type": "toolCall", "id": "c", "name": "t", "arguments": {}}])),
        result("c", json!([image("4"), image("5")])),
    ]);
    assert_eq!(
        turns(true, messages.clone()),
        ["user a|<1>|<2>|b|<3>", "call c", "result c <4>|<5>"]
    );
    let (user, tool) = (USER_IMAGE_OMITTED, TOOL_IMAGE_OMITTED);
    assert_eq!(
        turns(false, messages),
        [
            format!("user a|{user}|b|{user}"),
            "call c".into(),
            format!("result c {tool}")
        ]
    );
}

#[test]
fn ids_are_made_fit_and_unique_and_results_follow() {
    let call = |id: &str| json!({"type": "toolCall", "id": id, "name": "t", "arguments": {}, "thoughtSignature": "+s"});
    let text = || json!([{"type": "text", "text": "r"}]);
    let messages = json!([
        answer(
            "other",
            json!([call("call_1|fc"), call("call_1/fc"), call("ok")])
        ),
        result("call_1/fc", text()),
        result("call_1|fc", text()),
        result("ok", text()),
        answer("m", json!([call("ok"), call("own|id")])),
        result("ok", text()),
        result("own|id", text()),
    ]);
    let expected = [
        "call call_1_f|call call_1_2|call ok",
        "result call_1_2 r",
        "result call_1_f r",
        "result ok r",
        "call ok_2+s|call own|id+s",
        "result ok_2 r",
        "result own|id r",
    ];
    assert_eq!(turns(true, messages), expected);
}

#[test]
fn what_says_nothing_is_left_out() {
    let messages = json!([
        {"role": "user", "content": "", "timestamp": 1},
        {"role": "user", "content": [], "timestamp": 1},
        answer("other", json!([{"type": "thinking", "thinking": ""}, {"type": "text", "text": ""}])),
        {"role": "user", "content": "u", "timestamp": 1},
    ]);
    assert_eq!(turns(true, messages), ["user u"]);
}
