//! An event of a response, read leniently.

use serde::Deserialize;
use serde_json::Value;

use crate::loose::Loose;

/// One event's data.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Event<'a> {
    #[serde(borrow)]
    pub r#type: Loose<'a>,
    #[serde(borrow)]
    pub index: Loose<'a>,
    #[serde(borrow)]
    pub content_block: Option<Block<'a>>,
    #[serde(borrow)]
    pub delta: Option<Delta<'a>>,
    #[serde(borrow)]
    pub message: Option<Start<'a>>,
    pub usage: Option<Value>,
    pub error: Option<Value>,
    #[serde(borrow)]
    pub request_id: Loose<'a>,
}

/// What is known of the message when it begins, or all of it in an answer that is not streamed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Start<'a> {
    #[serde(borrow)]
    pub id: Loose<'a>,
    #[serde(borrow)]
    pub model: Loose<'a>,
    pub usage: Option<Value>,
    #[serde(borrow)]
    pub content: Option<Vec<Block<'a>>>,
    #[serde(borrow)]
    pub stop_reason: Loose<'a>,
    pub stop_details: Option<Value>,
}

/// A block as it begins, or all of it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Block<'a> {
    #[serde(borrow)]
    pub r#type: Loose<'a>,
    #[serde(borrow)]
    pub text: Loose<'a>,
    #[serde(borrow)]
    pub thinking: Loose<'a>,
    #[serde(borrow)]
    pub signature: Loose<'a>,
    #[serde(borrow)]
    pub data: Loose<'a>,
    #[serde(borrow)]
    pub id: Loose<'a>,
    #[serde(borrow)]
    pub name: Loose<'a>,
    #[serde(borrow)]
    pub input: Loose<'a>,
}

/// What is new in a block, or of the message as a whole.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta<'a> {
    #[serde(borrow)]
    pub r#type: Loose<'a>,
    #[serde(borrow)]
    pub text: Loose<'a>,
    #[serde(borrow)]
    pub thinking: Loose<'a>,
    #[serde(borrow)]
    pub signature: Loose<'a>,
    #[serde(borrow)]
    pub partial_json: Loose<'a>,
    #[serde(borrow)]
    pub stop_reason: Loose<'a>,
    pub stop_details: Option<Value>,
}
