//! Ids and signatures: what of an earlier response is stored in a message and goes back with
//! the next request.
//!
//! A call is stored under `CALLID|ITEMID`, the signature of a text is JSON
//! `{"v":1,"id":…,"phase":…}`, that of thinking is the JSON of its whole reasoning item.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::adapt::plain_id;

/// Longest id that the API takes.
pub(crate) const ID_LIMIT: usize = 64;

/// What ids of items that hold calls begin with.
const CALL_ITEM: &str = "fc_";

/// What ids of items that hold text begin with.
const TEXT_ITEM: &str = "msg_";

/// The id under which a call is stored. Without an id of its own it has that of its item.
pub(crate) fn stored_id(call: &str, item: &str) -> String {
    match (call, item) {
        ("", item) => item.to_owned(),
        (call, "") => call.to_owned(),
        (call, item) => format!("{call}|{item}"),
    }
}

/// The call's part of a stored id, in the form that the API takes.
pub(crate) fn call_part(stored: &str) -> String {
    let call = stored.split_once('|').map_or(stored, |(call, _)| call);
    plain_id(call, ID_LIMIT)
}

/// The item's part of an id that this provider and dialect gave.
pub(crate) fn own_item(stored: &str) -> Option<Cow<'_, str>> {
    let (_, item) = stored
        .split_once('|')
        .filter(|(_, item)| !item.is_empty())?;
    let fits = item.starts_with(CALL_ITEM) && plain_id(item, ID_LIMIT) == item;
    Some(match fits {
        true => Cow::Borrowed(item),
        false => Cow::Owned(hashed(CALL_ITEM, item)),
    })
}

/// An item id for a call that another provider or dialect gave, when its id names an item.
pub(crate) fn foreign_item(stored: &str) -> Option<String> {
    let (_, item) = stored
        .split_once('|')
        .filter(|(_, item)| !item.is_empty())?;
    Some(hashed(CALL_ITEM, item))
}

/// What a text is stored with, to be the same item when it goes back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TextSignature {
    v: u8,
    /// Id of the item.
    pub id: String,
    /// Whether the text was said on the way or as the answer, in the server's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
}

impl TextSignature {
    /// The signature of the text of item `id`.
    pub(crate) fn new(id: &str, phase: Option<&str>) -> Self {
        Self {
            v: 1,
            id: id.to_owned(),
            phase: phase.map(str::to_owned),
        }
    }

    /// The signature as it is stored.
    pub(crate) fn stored(&self) -> String {
        // Serialising a struct of strings cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads a stored signature. One that is no JSON is the id alone, as older sessions have it.
    pub(crate) fn read(stored: &str) -> Option<Self> {
        if !stored.starts_with('{') {
            return (!stored.is_empty()).then(|| Self::new(stored, None));
        }
        let read: Self = serde_json::from_str(stored).ok()?;
        (read.v == 1 && !read.id.is_empty()).then_some(read)
    }

    /// The id in the form that the API takes.
    pub(crate) fn fit_id(&self) -> String {
        let fits = self.id.starts_with(TEXT_ITEM) && plain_id(&self.id, ID_LIMIT) == self.id;
        match fits {
            true => self.id.clone(),
            false => hashed(TEXT_ITEM, &self.id),
        }
    }
}

/// The id of the `n`th text that has none of its own.
pub(crate) fn numbered_text(n: usize) -> String {
    format!("{TEXT_ITEM}{n}")
}

/// The reasoning item that a signature holds, to be sent as it is; `None` when it holds none,
/// or one of which the server would know nothing: it keeps nothing of earlier responses, so
/// only what the item itself carries counts.
pub(crate) fn reasoning_item(signature: &str) -> Option<&RawValue> {
    #[derive(Deserialize)]
    struct Kept {
        r#type: String,
        encrypted_content: Option<Value>,
        content: Option<Value>,
    }
    let kept: Kept = serde_json::from_str(signature).ok()?;
    let encrypted = kept.encrypted_content.as_ref().and_then(Value::as_str);
    let carries = encrypted.is_some_and(|text| !text.is_empty())
        || matches!(&kept.content, Some(Value::Array(parts)) if !parts.is_empty());
    if kept.r#type != "reasoning" || !carries {
        return None;
    }
    serde_json::from_str(signature).ok()
}

/// `prefix` and 16 digits that depend on the whole of `text` (FNV-1a), the same in every
/// process and version.
fn hashed(prefix: &str, text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{prefix}{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_calls() {
        // stored, call, item of the same provider and dialect
        let rows = [
            ("call_a|fc_b", "call_a", Some("fc_b")),
            ("call_a", "call_a", None),
            ("call_a|", "call_a", None),
            ("|fc_b", "", Some("fc_b")),
            ("call/a|fc_b", "call_a", Some("fc_b")),
            ("a|b", "a", Some("fc_af63df4c8601f1a5")),
            ("a|fc_b/c", "a", Some("fc_0a8061fc025261f5")),
        ];
        for (stored, call, item) in rows {
            assert_eq!(call_part(stored), call, "{stored}");
            assert_eq!(own_item(stored).as_deref(), item, "{stored}");
        }
        let long = format!("{0}|fc_{0}", "x".repeat(400));
        assert_eq!(call_part(&long).len(), 64);
        assert_eq!(own_item(&long).unwrap().len(), 19);
    }

    #[test]
    fn items_of_foreign_calls_are_hashed() {
        assert_eq!(foreign_item("a|b").as_deref(), Some("fc_af63df4c8601f1a5"));
        assert_ne!(foreign_item("a|fc_b"), Some("fc_b".to_owned()));
        assert_eq!(foreign_item("a"), None);
    }

    #[test]
    fn what_is_stored_of_a_call() {
        for (call, item, stored) in [
            ("c", "f", "c|f"),
            ("c", "", "c"),
            ("", "f", "f"),
            ("", "", ""),
        ] {
            assert_eq!(stored_id(call, item), stored);
        }
    }

    #[test]
    fn signatures_of_texts() {
        let signed = TextSignature::new("msg_1", Some("commentary"));
        assert_eq!(
            signed.stored(),
            r#"{"v":1,"id":"msg_1","phase":"commentary"}"#
        );
        assert_eq!(
            TextSignature::new("m", None).stored(),
            r#"{"v":1,"id":"m"}"#
        );
        let rows = [
            (
                r#"{"v":1,"id":"msg_1","phase":"commentary"}"#,
                Some("msg_1"),
            ),
            (r#"{"v":1,"id":"uuid"}"#, Some("msg_7d8b2e2f0a9b5e4c")),
            ("msg_old", Some("msg_old")),
            ("", None),
            (r#"{"v":2,"id":"msg_1"}"#, None),
            (r#"{"v":1,"id":""}"#, None),
            (r#"{"v":1}"#, None),
            ("{", None),
        ];
        for (stored, id) in rows {
            let read = TextSignature::read(stored).map(|signature| signature.fit_id());
            match id {
                // Only the form of a hashed id matters.
                Some(id) if stored.contains("uuid") => assert_eq!(read.unwrap().len(), id.len()),
                id => assert_eq!(read.as_deref(), id, "{stored}"),
            }
        }
    }

    #[test]
    fn only_reasoning_that_carries_itself_goes_back() {
        let rows = [
            (
                r#"{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"}"#,
                true,
            ),
            (
                r#"{"type":"reasoning","content":[{"type":"reasoning_text","text":"hm"}]}"#,
                true,
            ),
            (
                r#"{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm"}]}"#,
                false,
            ),
            (
                r#"{"type":"reasoning","encrypted_content":"","content":[]}"#,
                false,
            ),
            (r#"{"type":"message","encrypted_content":"x"}"#, false),
            ("reasoning_content", false),
            ("[1]", false),
            ("", false),
        ];
        for (signature, goes) in rows {
            let item = reasoning_item(signature).map(RawValue::get);
            assert_eq!(item, goes.then_some(signature));
        }
    }
}
