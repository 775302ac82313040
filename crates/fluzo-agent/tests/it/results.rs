//! The shape of result messages and of prompts.

use fluzo_agent::ToolError;
use fluzo_llm::{Content, Message, ToolOutput};
use fluzo_testkit::{FakeTool, reply};
use serde_json::{Value, json};

use crate::stage::{Stage, tool};

/// The JSON of the result of one call, and that it survives a round trip.
fn shape(fake: FakeTool) -> Value {
    let replies = [
        reply::calls([("c1", "read", json!({}))]),
        reply::text(["ok"]),
    ];
    let outcome = Stage::new(replies, [tool(fake)]).run();
    let text = serde_json::to_string(&outcome.messages[2]).unwrap();
    let back: Message = serde_json::from_str(&text).unwrap();
    assert_eq!(back, *outcome.messages[2]);
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_good_result_has_the_fields_of_the_contract() {
    let plain = shape(FakeTool::new("read"));
    let expected = json!({
        "role": "toolResult", "toolCallId": "c1", "toolName": "read",
        "content": [{"type": "text", "text": "read"}], "isError": false, "timestamp": 1_700_000_000_000_i64,
    });
    assert_eq!(plain, expected);
    let detailed =
        shape(FakeTool::new("read").returns(ToolOutput::text("x").with_details(json!({"n": 1}))));
    assert_eq!(detailed["details"], json!({"n": 1}));
}

#[test]
fn an_error_result_has_the_same_fields_and_empty_details() {
    let failed = shape(FakeTool::new("read").fails("no such file"));
    let expected = json!({
        "role": "toolResult", "toolCallId": "c1", "toolName": "read",
        "content": [{"type": "text", "text": "no such file"}], "details": {},
        "isError": true, "timestamp": 1_700_000_000_000_i64,
    });
    assert_eq!(failed, expected);
    let detailed = shape(FakeTool::new("read").computes(|_| {
        Err(ToolError {
            message: "exit 1".into(),
            details: Some(json!({"code": 1})),
        })
    }));
    assert_eq!(detailed["details"], json!({"code": 1}));
}

#[test]
fn a_prompt_is_one_text_block_and_its_images() {
    let text = serde_json::to_value(Message::user("hi", 1)).unwrap();
    assert_eq!(
        text,
        json!({"role": "user", "content": [{"type": "text", "text": "hi"}], "timestamp": 1})
    );
    let blocks = vec![Content::text("look"), Content::image("AA==", "image/png")];
    let image = serde_json::to_value(Message::user_blocks(blocks, 1)).unwrap();
    assert_eq!(
        image["content"][1],
        json!({"type": "image", "data": "AA==", "mimeType": "image/png"})
    );
}
