//! An event of a response, read leniently: a field of an odd type never spoils the rest.

use serde::Deserialize;
use serde_json::Value;

use crate::loose::Loose;

/// One event's data. What a field means depends on the event's type.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Event<'a> {
    #[serde(borrow)]
    pub r#type: Loose<'a>,
    #[serde(borrow)]
    pub item_id: Loose<'a>,
    #[serde(borrow)]
    pub output_index: Loose<'a>,
    #[serde(borrow)]
    pub content_index: Loose<'a>,
    #[serde(borrow)]
    pub summary_index: Loose<'a>,
    #[serde(borrow)]
    pub delta: Loose<'a>,
    #[serde(borrow)]
    pub text: Loose<'a>,
    #[serde(borrow)]
    pub refusal: Loose<'a>,
    #[serde(borrow)]
    pub arguments: Loose<'a>,
    #[serde(borrow)]
    pub name: Loose<'a>,
    #[serde(borrow)]
    pub call_id: Loose<'a>,
    pub item: Option<Value>,
    pub response: Option<Value>,
    pub error: Option<Value>,
}

/// The string in the field `name` of `value`; empty when there is none.
pub(crate) fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}
