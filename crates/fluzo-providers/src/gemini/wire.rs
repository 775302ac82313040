//! A chunk of a response, read leniently: a field of an odd type never spoils the rest.

use serde::Deserialize;
use serde_json::Value;

use crate::loose::Loose;

/// One event's data, or a whole answer that was not streamed.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Chunk<'a> {
    #[serde(borrow)]
    pub candidates: Option<Vec<Candidate<'a>>>,
    #[serde(borrow)]
    pub prompt_feedback: Option<Feedback<'a>>,
    pub usage_metadata: Option<Value>,
    #[serde(borrow)]
    pub model_version: Loose<'a>,
    #[serde(borrow)]
    pub response_id: Loose<'a>,
    pub error: Option<Value>,
}

/// One of the answers; there is never more than one.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Candidate<'a> {
    #[serde(borrow)]
    pub content: Option<Content<'a>>,
    #[serde(borrow)]
    pub finish_reason: Loose<'a>,
    #[serde(borrow)]
    pub finish_message: Loose<'a>,
}

/// The content of an answer.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Content<'a> {
    #[serde(borrow)]
    pub parts: Option<Vec<Part<'a>>>,
}

/// One part of it. Parts that hold anything else, such as executed code, have none of these.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Part<'a> {
    #[serde(borrow)]
    pub text: Loose<'a>,
    pub thought: Option<Value>,
    #[serde(borrow, alias = "thought_signature")]
    pub thought_signature: Loose<'a>,
    #[serde(borrow)]
    pub function_call: Option<FunctionCall<'a>>,
}

/// A tool call.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct FunctionCall<'a> {
    #[serde(borrow)]
    pub id: Loose<'a>,
    #[serde(borrow)]
    pub name: Loose<'a>,
    pub args: Option<Value>,
    pub partial_args: Option<Value>,
    pub will_continue: Option<Value>,
}

/// What the server says of the prompt.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Feedback<'a> {
    #[serde(borrow)]
    pub block_reason: Loose<'a>,
    #[serde(borrow)]
    pub block_reason_message: Loose<'a>,
}

/// `signature` when it is base64 in full groups, in either alphabet; anything else did not
/// come from the API and is refused by it.
pub(crate) fn signature(signature: &str) -> Option<&str> {
    let body = signature.trim_end_matches('=');
    let padding = signature.len() - body.len();
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"+/-_".contains(&b);
    let whole = signature.len().is_multiple_of(4) && padding <= 2 && !body.is_empty();
    (whole && body.bytes().all(plain)).then_some(signature)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures() {
        let good = [
            "QUJD",
            "QUI=",
            "QQ==",
            "a-_/+bcd",
            "skip_thought_signature_validator",
        ];
        for text in good {
            assert_eq!(signature(text), Some(text));
        }
        for text in [
            "",
            "=",
            "====",
            "QUJ",
            "Q===",
            "QU=D",
            "QU D",
            "reasoning_content",
            "ü===",
        ] {
            assert_eq!(signature(text), None, "{text}");
        }
    }
}
