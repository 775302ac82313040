//! A chunk of a response, read leniently: a field of an odd type never spoils the rest.

use serde::Deserialize;
use serde_json::Value;

use crate::loose::Loose;

/// One event's data, or a whole answer that was not streamed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Chunk<'a> {
    #[serde(borrow)]
    pub id: Loose<'a>,
    #[serde(borrow)]
    pub model: Loose<'a>,
    #[serde(borrow)]
    pub choices: Option<Vec<Choice<'a>>>,
    pub usage: Option<Value>,
    pub x_groq: Option<Value>,
    pub error: Option<Value>,
}

/// One of the answers; there is never more than one.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Choice<'a> {
    #[serde(borrow)]
    pub delta: Option<Delta<'a>>,
    #[serde(borrow)]
    pub message: Option<Delta<'a>>,
    #[serde(borrow)]
    pub finish_reason: Loose<'a>,
    pub usage: Option<Value>,
}

/// What is new, or all of it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Delta<'a> {
    #[serde(borrow)]
    pub content: Loose<'a>,
    #[serde(borrow)]
    pub refusal: Loose<'a>,
    #[serde(borrow)]
    pub reasoning_content: Loose<'a>,
    #[serde(borrow)]
    pub reasoning: Loose<'a>,
    #[serde(borrow)]
    pub reasoning_text: Loose<'a>,
    #[serde(borrow)]
    pub tool_calls: Option<Vec<Option<Call<'a>>>>,
    #[serde(borrow)]
    pub function_call: Option<Function<'a>>,
    pub reasoning_details: Option<Value>,
}

/// A piece of a tool call.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Call<'a> {
    #[serde(borrow)]
    pub index: Loose<'a>,
    #[serde(borrow)]
    pub id: Loose<'a>,
    #[serde(borrow)]
    pub function: Option<Function<'a>>,
}

/// Name and arguments of a call.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Function<'a> {
    #[serde(borrow)]
    pub name: Loose<'a>,
    #[serde(borrow)]
    pub arguments: Loose<'a>,
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    #[test]
    fn odd_types_are_read() {
        let json = r#"{"id":7,"model":null,"choices":[{"delta":{"content":"a\nb","tool_calls":[null,{"index":"1","id":null,"function":{"name":"x","arguments":{"a":[1]}}}]},"finish_reason":null}],"usage":null,"other":{}}"#;
        let chunk: Chunk<'_> = serde_json::from_str(json).unwrap();
        assert_eq!(chunk.id.into_string(), "7");
        let choice = chunk.choices.unwrap().remove(0);
        let delta = choice.delta.unwrap();
        assert_eq!(delta.content.as_text(), Some("a\nb"));
        let call = delta.tool_calls.unwrap().remove(1).unwrap();
        assert_eq!(call.index.as_index(), Some(1));
        assert_eq!(
            call.function.unwrap().arguments.into_string(),
            r#"{"a":[1]}"#
        );
        assert_eq!(choice.finish_reason, Loose::Nothing);
    }

    #[test]
    fn plain_strings_are_borrowed() {
        let chunk: Chunk<'_> = serde_json::from_str(r#"{"id":"x"}"#).unwrap();
        assert!(matches!(chunk.id, Loose::Text(Cow::Borrowed("x"))));
    }
}
