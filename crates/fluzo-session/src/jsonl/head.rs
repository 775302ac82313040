//! What one line of a session file is, without building its payload.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use fluzo_llm::Extra;
use serde::de::{Error, IgnoredAny, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::Header;
use crate::entry::parse_object;
use crate::index::{NodeKind, Role};
use crate::store::DamageReason;

/// What a line holds, and where in the line it stands.
#[derive(Debug, PartialEq)]
pub(super) struct Line {
    pub(super) content: Content,
    /// Bytes before the JSON text.
    pub(super) skip: usize,
    /// Length of the JSON text.
    pub(super) len: usize,
    /// What is wrong with a line that holds something all the same.
    pub(super) blemish: Option<DamageReason>,
}

#[derive(Debug, PartialEq)]
pub(super) enum Content {
    Blank,
    Header(Header),
    Entry(Head),
    /// An object that lacks what every entry has.
    OddObject(DamageReason),
    Damaged(DamageReason),
}

/// The head of an entry. In files of version 1 there is no id.
#[derive(Debug, PartialEq)]
pub(super) struct Head {
    pub(super) id: Option<Arc<str>>,
    pub(super) parent: Option<Arc<str>>,
    pub(super) kind: NodeKind,
    pub(super) first_kept_index: Option<u64>,
}

/// Reads one line, which has no line end.
pub(super) fn read_line(bytes: &[u8]) -> Line {
    let line = read_trimmed(bytes, bytes.trim_ascii());
    if !matches!(line.content, Content::Damaged(_)) || memchr::memchr(0, bytes).is_none() {
        return line;
    }
    // A power cut leaves NUL bytes, and what was appended later stands behind them.
    let inner = trim_nul(bytes.trim_ascii());
    read_trimmed(bytes, inner.trim_ascii()).behind_nuls()
}

impl Line {
    /// What the line is when there are NUL bytes around this.
    pub(super) fn behind_nuls(self) -> Self {
        let reason = DamageReason::NulBytes;
        let content = match self.content {
            Content::Header(_) | Content::Entry(_) => {
                return Self {
                    blemish: Some(reason),
                    ..self
                };
            }
            _ => Content::Damaged(reason),
        };
        Self { content, ..self }
    }
}

fn read_trimmed(line: &[u8], text: &[u8]) -> Line {
    let skip = text.as_ptr().addr().saturating_sub(line.as_ptr().addr());
    Line {
        content: read_text(text),
        skip,
        len: text.len(),
        blemish: None,
    }
}

fn read_text(text: &[u8]) -> Content {
    if text.is_empty() {
        return Content::Blank;
    }
    let Ok(text) = std::str::from_utf8(text) else {
        return Content::Damaged(DamageReason::InvalidUtf8);
    };
    match serde_json::from_str::<Fields<'_>>(text) {
        Ok(fields) if text.starts_with('{') => fields.content(text),
        // Odd types, double keys, or no JSON at all.
        _ => read_slowly(text),
    }
}

fn read_slowly(text: &str) -> Content {
    match parse_object(text) {
        Ok(object) => OwnedFields::of(&object).borrow().content(text),
        Err(_) if serde_json::from_str::<IgnoredAny>(text).is_ok() && !text.starts_with('{') => {
            Content::Damaged(DamageReason::NotAnObject)
        }
        Err(_) => Content::Damaged(DamageReason::MalformedJson),
    }
}

fn trim_nul(mut bytes: &[u8]) -> &[u8] {
    while let Some(rest) = bytes.strip_prefix(b"\0") {
        bytes = rest;
    }
    while let Some(rest) = bytes.strip_suffix(b"\0") {
        bytes = rest;
    }
    bytes
}

/// The fields that say what a line is. All others are skipped, not built.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Fields<'a> {
    #[serde(rename = "type", borrow)]
    type_name: Option<Text<'a>>,
    #[serde(borrow)]
    id: Option<Text<'a>>,
    #[serde(borrow)]
    parent_id: Option<Text<'a>>,
    #[serde(borrow)]
    message: Option<MessageFields<'a>>,
    #[serde(borrow)]
    thinking_level: Option<Text<'a>>,
    #[serde(borrow)]
    provider: Option<Text<'a>>,
    #[serde(borrow)]
    model_id: Option<Text<'a>>,
    #[serde(borrow)]
    first_kept_entry_id: Option<Text<'a>>,
    first_kept_entry_index: Option<u64>,
    #[serde(borrow)]
    target_id: Option<Text<'a>>,
    #[serde(borrow)]
    label: Option<Text<'a>>,
    #[serde(borrow)]
    name: Option<Text<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MessageFields<'a> {
    #[serde(borrow)]
    role: Option<Text<'a>>,
}

impl Fields<'_> {
    fn content(&self, text: &str) -> Content {
        let Some(type_name) = &self.type_name else {
            return Content::OddObject(DamageReason::MissingType);
        };
        if &*type_name.0 == "session" {
            let header = parse_object(text).ok().and_then(Header::from_object);
            return header.map_or(Content::OddObject(DamageReason::MissingId), Content::Header);
        }
        let shared = |text: &Option<Text<'_>>| text.as_ref().map(|text| Arc::from(&*text.0));
        Content::Entry(Head {
            id: shared(&self.id),
            parent: shared(&self.parent_id),
            kind: self.kind(&type_name.0).unwrap_or(NodeKind::Unknown),
            first_kept_index: self.first_kept_entry_index,
        })
    }

    fn kind(&self, type_name: &str) -> Option<NodeKind> {
        let string = |text: &Option<Text<'_>>| text.as_ref().map(|text| text.0.to_string());
        let shared = |text: &Option<Text<'_>>| text.as_ref().map(|text| Arc::from(&*text.0));
        Some(match type_name {
            "message" => {
                let role = self.message.as_ref()?.role.as_ref();
                NodeKind::Message(role.map_or(Role::Other, |role| Role::from_name(&role.0)))
            }
            "thinking_level_change" => NodeKind::ThinkingLevelChange(shared(&self.thinking_level)?),
            "model_change" => {
                NodeKind::ModelChange(Arc::new((string(&self.provider)?, string(&self.model_id)?)))
            }
            "compaction" => {
                NodeKind::Compaction(shared(&self.first_kept_entry_id).unwrap_or_else(|| "".into()))
            }
            "branch_summary" => NodeKind::BranchSummary,
            "custom" => NodeKind::Custom,
            "custom_message" => NodeKind::CustomMessage,
            "label" => NodeKind::Label(Arc::new((shared(&self.target_id)?, string(&self.label)))),
            "session_info" => {
                NodeKind::SessionInfo(shared(&self.name).unwrap_or_else(|| "".into()))
            }
            _ => return None,
        })
    }
}

/// A string that is borrowed where the text allows it.
pub(super) struct Text<'a>(Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(TextVisitor)
    }
}

/// The fields of an object that was built after all.
struct OwnedFields<'a>(&'a Extra);

impl<'a> OwnedFields<'a> {
    fn of(object: &'a Extra) -> Self {
        Self(object)
    }

    fn text(&self, key: &str) -> Option<Text<'a>> {
        self.0
            .get(key)
            .and_then(Value::as_str)
            .map(|text| Text(Cow::Borrowed(text)))
    }

    fn borrow(&self) -> Fields<'a> {
        let message = self.0.get("message").and_then(Value::as_object);
        let role = |message: &'a Extra| message.get("role").and_then(Value::as_str);
        Fields {
            type_name: self.text("type"),
            id: self.text("id"),
            parent_id: self.text("parentId"),
            message: message.map(|message| MessageFields {
                role: role(message).map(|role| Text(Cow::Borrowed(role))),
            }),
            thinking_level: self.text("thinkingLevel"),
            provider: self.text("provider"),
            model_id: self.text("modelId"),
            first_kept_entry_id: self.text("firstKeptEntryId"),
            first_kept_entry_index: self.0.get("firstKeptEntryIndex").and_then(Value::as_u64),
            target_id: self.text("targetId"),
            label: self.text("label"),
            name: self.text("name"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &[u8], damage: DamageReason) {
        match read_line(line).content {
            Content::Damaged(reason) | Content::OddObject(reason) => assert_eq!(reason, damage),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_no_entry_has_a_reason() {
        check(
            br#"{"type":"message","id":"x","pa"#,
            DamageReason::MalformedJson,
        );
        check(b"[1]", DamageReason::NotAnObject);
        check(b"7", DamageReason::NotAnObject);
        check(b"\0\0\0", DamageReason::NulBytes);
        check(b"{\"a\":\"\xe4\xbd", DamageReason::InvalidUtf8);
        check(
            b"{\"type\":\"x\",\"a\":\"\xe4\xbd\"}",
            DamageReason::InvalidUtf8,
        );
        check(br#"{"id":"x"}"#, DamageReason::MissingType);
        check(br#"{"type":"session","id":5}"#, DamageReason::MissingId);
    }

    #[test]
    fn an_entry_behind_nul_bytes_is_read() {
        let line = read_line(b"\0\0 {\"type\":\"custom\",\"id\":\"a\"}");
        assert_eq!(
            (line.skip, line.len, line.blemish),
            (3, 26, Some(DamageReason::NulBytes))
        );
        assert!(matches!(line.content, Content::Entry(_)));
    }

    #[test]
    fn odd_types_and_double_keys_are_read_slowly() {
        for json in [
            r#"{"type":"message","id":"a","parentId":7,"message":{"role":"user"}}"#,
            r#"{"type":"message","id":"b","id":"a","message":{"role":"user"}}"#,
        ] {
            let Content::Entry(head) = read_line(json.as_bytes()).content else {
                panic!("{json}")
            };
            assert_eq!(head.id.as_deref(), Some("a"));
            assert_eq!(head.parent, None);
            assert_eq!(head.kind, NodeKind::Message(Role::User));
        }
    }

    #[test]
    fn white_space_is_no_line() {
        for line in ["", "  ", "\r"] {
            assert_eq!(read_line(line.as_bytes()).content, Content::Blank);
        }
    }
}
