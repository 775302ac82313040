//! A chunk of a response, read leniently: a field of an odd type never spoils the rest.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

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

/// A field that ought to be a string.
#[derive(Debug, Default, PartialEq)]
pub(crate) enum Loose<'a> {
    /// Missing or null.
    #[default]
    Nothing,
    /// A string.
    Text(Cow<'a, str>),
    /// Anything else.
    Other(Value),
}

impl Loose<'_> {
    /// The string in it; other values as their JSON.
    pub(crate) fn into_string(self) -> String {
        match self {
            Self::Nothing => String::new(),
            Self::Text(text) => text.into_owned(),
            Self::Other(value) => value.to_string(),
        }
    }

    /// The string, if it is one and not empty.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    /// The number in it.
    pub(crate) fn as_index(&self) -> Option<u64> {
        match self {
            Self::Text(text) => text.parse().ok(),
            Self::Other(value) => value.as_u64(),
            Self::Nothing => None,
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Loose<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LooseVisitor)
    }
}

struct LooseVisitor;

impl<'de> Visitor<'de> for LooseVisitor {
    type Value = Loose<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Loose::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Loose::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_string<E>(self, text: String) -> Result<Self::Value, E> {
        Ok(Loose::Text(Cow::Owned(text)))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Loose::Nothing)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Loose::Other(Value::Bool(value)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Loose::Other(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Loose::Other(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Loose::Other(value.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        Value::deserialize(MapAccessDeserializer::new(map)).map(Loose::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
        Value::deserialize(SeqAccessDeserializer::new(seq)).map(Loose::Other)
    }
}

#[cfg(test)]
mod tests {
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
