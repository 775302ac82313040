//! The header and the entries of a session, in pi's JSON form.
//!
//! Known fields are written in pi's order, unknown ones after them; nothing is lost.

use std::sync::Arc;

use fluzo_llm::message::UserContent;
use fluzo_llm::{Extra, Message};
use serde::de::{DeserializeOwned, Error as _};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// The version of the session format that is written.
pub const VERSION: u64 = 3;

/// The first line of a session: what it is and where it belongs.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    /// Version of the format; [`VERSION`] once a session is open.
    pub version: u64,
    /// Id of the session.
    pub id: String,
    /// When it began, ISO 8601 in UTC.
    pub timestamp: String,
    /// Working folder, absolute.
    pub cwd: String,
    /// Path of the session it was forked from, or free text.
    pub parent_session: Option<String>,
    /// Unknown fields.
    pub extra: Extra,
}

/// One node of the session tree.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its id, unique in the session.
    pub id: String,
    /// The entry before it on its branch; none for a root.
    pub parent_id: Option<String>,
    /// When it was made, ISO 8601 in UTC.
    pub timestamp: String,
    /// What it holds.
    pub kind: EntryKind,
    /// Unknown fields; of an unknown kind all fields.
    pub extra: Extra,
}

/// What an entry holds.
#[derive(Debug, Clone, PartialEq)]
pub enum EntryKind {
    /// A message of the transcript.
    Message(Arc<Message>),
    /// From here on the model thinks this much.
    ThinkingLevelChange {
        /// Name of the level.
        level: String,
    },
    /// From here on this model answers.
    ModelChange {
        /// Name of the provider.
        provider: String,
        /// Id of the model.
        model_id: String,
    },
    /// A summary stands for what came before.
    Compaction(Compaction),
    /// A summary of a branch that was left.
    BranchSummary {
        /// Entry the branch was left for, or `root`.
        from_id: String,
        /// The summary.
        summary: String,
        /// Facts about it.
        details: Option<Value>,
        /// Whether an extension made it.
        from_hook: Option<bool>,
    },
    /// State of an extension; never in the context.
    Custom {
        /// The extension's name for it.
        custom_type: String,
        /// The state.
        data: Option<Value>,
    },
    /// A context message of an extension.
    CustomMessage {
        /// The extension's name for it.
        custom_type: String,
        /// What the model gets.
        content: UserContent,
        /// Whether front ends show it.
        display: bool,
        /// Facts for the extension.
        details: Option<Value>,
    },
    /// A bookmark on another entry.
    Label {
        /// The entry.
        target_id: String,
        /// Its text; none takes the label away.
        label: Option<String>,
    },
    /// Facts about the session.
    SessionInfo {
        /// Its name; empty takes the name away.
        name: String,
    },
    /// A type this version does not know, or a known one whose fields are not as they should be.
    Unknown {
        /// Name of the type.
        type_name: String,
    },
}

/// A summary that stands for what came before.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Compaction {
    /// The summary.
    pub summary: String,
    /// First entry that is kept as it is.
    pub first_kept_entry_id: String,
    /// Estimated tokens of the context before.
    pub tokens_before: u64,
    /// Facts about it.
    pub details: Option<Value>,
    /// Whether an extension made it.
    pub from_hook: Option<bool>,
}

impl Header {
    /// A header of the current version.
    pub fn new(
        id: impl Into<String>,
        timestamp: impl Into<String>,
        cwd: impl Into<String>,
    ) -> Self {
        Self {
            version: VERSION,
            id: id.into(),
            timestamp: timestamp.into(),
            cwd: cwd.into(),
            parent_session: None,
            extra: Extra::new(),
        }
    }

    /// The header that `object` is; none when it is no session header with an id.
    pub fn from_object(mut object: Extra) -> Option<Self> {
        if object.shift_remove("type")?.as_str()? != "session" {
            return None;
        }
        let id = take_string(&mut object, "id")?;
        let version = match object.shift_remove("version") {
            None | Some(Value::Null) => 1,
            // A version that is no whole number was not written by any known program:
            // nothing is migrated then.
            Some(value) => value.as_u64().unwrap_or(VERSION),
        };
        Some(Self {
            version,
            id,
            timestamp: take_string(&mut object, "timestamp").unwrap_or_default(),
            cwd: take_string(&mut object, "cwd").unwrap_or_default(),
            parent_session: take_string(&mut object, "parentSession"),
            extra: object,
        })
    }

    /// The header as one line without its line end.
    ///
    /// # Errors
    ///
    /// When an unknown field cannot be written as JSON.
    pub fn to_line(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }
}

impl Entry {
    /// An entry without unknown fields.
    pub fn new(
        id: impl Into<String>,
        parent_id: Option<String>,
        timestamp: impl Into<String>,
        kind: EntryKind,
    ) -> Self {
        Self {
            id: id.into(),
            parent_id,
            timestamp: timestamp.into(),
            kind,
            extra: Extra::new(),
        }
    }

    /// The entry that `object` is; none without an id or a type.
    pub fn from_object(mut object: Extra) -> Option<Self> {
        let type_name = take_string(&mut object, "type")?;
        let id = take_string(&mut object, "id")?;
        let parent_id = take_string(&mut object, "parentId");
        let timestamp = take_string(&mut object, "timestamp").unwrap_or_default();
        let kind =
            EntryKind::take(&type_name, &mut object).unwrap_or(EntryKind::Unknown { type_name });
        Some(Self {
            id,
            parent_id,
            timestamp,
            kind,
            extra: object,
        })
    }

    /// The entry as one line without its line end.
    ///
    /// # Errors
    ///
    /// When a field cannot be written as JSON.
    pub fn to_line(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// The message of a message entry.
    pub fn message(&self) -> Option<&Arc<Message>> {
        match &self.kind {
            EntryKind::Message(message) => Some(message),
            _ => None,
        }
    }
}

impl EntryKind {
    /// The name of the type in JSON.
    pub fn type_name(&self) -> &str {
        match self {
            Self::Message(_) => "message",
            Self::ThinkingLevelChange { .. } => "thinking_level_change",
            Self::ModelChange { .. } => "model_change",
            Self::Compaction(_) => "compaction",
            Self::BranchSummary { .. } => "branch_summary",
            Self::Custom { .. } => "custom",
            Self::CustomMessage { .. } => "custom_message",
            Self::Label { .. } => "label",
            Self::SessionInfo { .. } => "session_info",
            Self::Unknown { type_name } => type_name,
        }
    }

    /// Takes the fields of a known type out of `object`. Takes nothing when one that
    /// must be there is not as it should be.
    fn take(type_name: &str, object: &mut Extra) -> Option<Self> {
        match type_name {
            "message" => take_message(object),
            "thinking_level_change" => {
                required(object, &["thinkingLevel"])?;
                Some(Self::ThinkingLevelChange {
                    level: take_string(object, "thinkingLevel")?,
                })
            }
            "model_change" => {
                required(object, &["provider", "modelId"])?;
                Some(Self::ModelChange {
                    provider: take_string(object, "provider")?,
                    model_id: take_string(object, "modelId")?,
                })
            }
            "compaction" => take_compaction(object),
            "branch_summary" => {
                required(object, &["summary"])?;
                Some(Self::BranchSummary {
                    from_id: take_string(object, "fromId").unwrap_or_default(),
                    summary: take_string(object, "summary")?,
                    details: object.shift_remove("details"),
                    from_hook: take(object, "fromHook"),
                })
            }
            "custom" => {
                required(object, &["customType"])?;
                Some(Self::Custom {
                    custom_type: take_string(object, "customType")?,
                    data: object.shift_remove("data"),
                })
            }
            "custom_message" => take_custom_message(object),
            "label" => {
                required(object, &["targetId"])?;
                Some(Self::Label {
                    target_id: take_string(object, "targetId")?,
                    label: take_string(object, "label"),
                })
            }
            "session_info" => Some(Self::SessionInfo {
                name: take_string(object, "name").unwrap_or_default(),
            }),
            _ => None,
        }
    }
}

impl Serialize for Header {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", "session")?;
        map.serialize_entry("version", &self.version)?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("timestamp", &self.timestamp)?;
        map.serialize_entry("cwd", &self.cwd)?;
        optional(&mut map, "parentSession", self.parent_session.as_ref())?;
        unknown_fields(&mut map, &self.extra)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_object(Extra::deserialize(deserializer)?)
            .ok_or_else(|| D::Error::custom("not a session header with an id"))
    }
}

impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", self.kind.type_name())?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("parentId", &self.parent_id)?;
        map.serialize_entry("timestamp", &self.timestamp)?;
        kind_fields(&mut map, &self.kind)?;
        unknown_fields(&mut map, &self.extra)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_object(Extra::deserialize(deserializer)?)
            .ok_or_else(|| D::Error::custom("not an entry with a type and an id"))
    }
}

/// Parses one line as a JSON object.
///
/// Half of a surrogate pair, which JavaScript writes and Rust text cannot hold, is
/// read as U+FFFD.
///
/// # Errors
///
/// When the text is no JSON object.
pub fn parse_object(text: &str) -> Result<Extra, serde_json::Error> {
    serde_json::from_str(text).or_else(|error| match mend_surrogates(text) {
        Some(mended) => serde_json::from_str(&mended),
        None => Err(error),
    })
}

fn kind_fields<M: SerializeMap>(map: &mut M, kind: &EntryKind) -> Result<(), M::Error> {
    match kind {
        EntryKind::Message(message) => map.serialize_entry("message", message),
        EntryKind::ThinkingLevelChange { level } => map.serialize_entry("thinkingLevel", level),
        EntryKind::ModelChange { provider, model_id } => {
            map.serialize_entry("provider", provider)?;
            map.serialize_entry("modelId", model_id)
        }
        EntryKind::Compaction(compaction) => {
            map.serialize_entry("summary", &compaction.summary)?;
            map.serialize_entry("firstKeptEntryId", &compaction.first_kept_entry_id)?;
            map.serialize_entry("tokensBefore", &compaction.tokens_before)?;
            optional(map, "details", compaction.details.as_ref())?;
            optional(map, "fromHook", compaction.from_hook.as_ref())
        }
        EntryKind::BranchSummary {
            from_id,
            summary,
            details,
            from_hook,
        } => {
            map.serialize_entry("fromId", from_id)?;
            map.serialize_entry("summary", summary)?;
            optional(map, "details", details.as_ref())?;
            optional(map, "fromHook", from_hook.as_ref())
        }
        EntryKind::Custom { custom_type, data } => {
            map.serialize_entry("customType", custom_type)?;
            optional(map, "data", data.as_ref())
        }
        EntryKind::CustomMessage {
            custom_type,
            content,
            display,
            details,
        } => {
            map.serialize_entry("customType", custom_type)?;
            map.serialize_entry("content", content)?;
            map.serialize_entry("display", display)?;
            optional(map, "details", details.as_ref())
        }
        EntryKind::Label { target_id, label } => {
            map.serialize_entry("targetId", target_id)?;
            optional(map, "label", label.as_ref())
        }
        EntryKind::SessionInfo { name } => map.serialize_entry("name", name),
        EntryKind::Unknown { .. } => Ok(()),
    }
}

fn optional<M: SerializeMap, T: Serialize>(
    map: &mut M,
    key: &str,
    value: Option<&T>,
) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| map.serialize_entry(key, value))
}

fn unknown_fields<M: SerializeMap>(map: &mut M, extra: &Extra) -> Result<(), M::Error> {
    extra
        .iter()
        .try_for_each(|(key, value)| map.serialize_entry(key, value))
}

fn take_message(object: &mut Extra) -> Option<EntryKind> {
    object.get("message")?.as_object()?;
    let value = object.shift_remove("message")?;
    let message = serde_json::from_value(value).ok()?;
    Some(EntryKind::Message(Arc::new(message)))
}

fn take_compaction(object: &mut Extra) -> Option<EntryKind> {
    required(object, &["summary"])?;
    Some(EntryKind::Compaction(Compaction {
        summary: take_string(object, "summary")?,
        first_kept_entry_id: take_string(object, "firstKeptEntryId").unwrap_or_default(),
        tokens_before: take_count(object, "tokensBefore"),
        details: object.shift_remove("details"),
        from_hook: take(object, "fromHook"),
    }))
}

fn take_custom_message(object: &mut Extra) -> Option<EntryKind> {
    required(object, &["customType"])?;
    let content = UserContent::deserialize(object.get("content")?).ok()?;
    object.shift_remove("content");
    Some(EntryKind::CustomMessage {
        custom_type: take_string(object, "customType")?,
        content,
        display: take(object, "display").unwrap_or_default(),
        details: object.shift_remove("details"),
    })
}

/// Some when all `keys` are strings.
fn required(object: &Extra, keys: &[&str]) -> Option<()> {
    keys.iter()
        .all(|key| object.get(*key).is_some_and(Value::is_string))
        .then_some(())
}

/// Takes a string; what is no string stays.
fn take_string(object: &mut Extra, key: &str) -> Option<String> {
    match object.get(key)? {
        Value::String(_) => take(object, key),
        Value::Null => {
            object.shift_remove(key);
            None
        }
        _ => None,
    }
}

/// Takes a value that fits `T`; what does not fit stays.
fn take<T: DeserializeOwned>(object: &mut Extra, key: &str) -> Option<T> {
    let value = T::deserialize(object.get(key)?).ok()?;
    object.shift_remove(key);
    Some(value)
}

/// Takes a count, written as a whole number or not.
fn take_count(object: &mut Extra, key: &str) -> u64 {
    if let Some(count) = take(object, key) {
        return count;
    }
    // A conversion from float saturates and maps NaN to zero, which is what a count needs.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    take::<f64>(object, key).map_or(0, |count| count as u64)
}

/// Replaces escaped halves of surrogate pairs; none when there are none.
fn mend_surrogates(text: &str) -> Option<String> {
    let mut out = String::new();
    let (mut at, mut kept) = (0, 0);
    while let Some(found) = memchr::memchr(b'\\', &text.as_bytes()[at..]) {
        let start = at + found;
        at = match (escaped_unit(text, start), escaped_unit(text, start + 6)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => start + 12,
            (Some(0xD800..=0xDFFF), _) => {
                out.push_str(&text[kept..start]);
                out.push_str("\\ufffd");
                kept = start + 6;
                kept
            }
            _ => (start + 2).min(text.len()),
        };
    }
    if kept == 0 {
        return None;
    }
    out.push_str(&text[kept..]);
    Some(out)
}

/// The code unit of the `\uXXXX` that starts at byte `start`.
fn escaped_unit(text: &str, start: usize) -> Option<u16> {
    let escape = text.get(start..start + 6)?.strip_prefix("\\u")?;
    u16::from_str_radix(escape, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: [&str; 11] = [
        r#"{"type":"message","id":"a","parentId":null,"timestamp":"t","message":{"role":"user","content":[{"type":"text","text":"hi"}],"timestamp":1}}"#,
        r#"{"type":"thinking_level_change","id":"a","parentId":"b","timestamp":"t","thinkingLevel":"high"}"#,
        r#"{"type":"model_change","id":"a","parentId":"b","timestamp":"t","provider":"p","modelId":"m"}"#,
        r#"{"type":"compaction","id":"a","parentId":"b","timestamp":"t","summary":"s","firstKeptEntryId":"k","tokensBefore":7,"details":{"readFiles":[]},"fromHook":true}"#,
        r#"{"type":"branch_summary","id":"a","parentId":"b","timestamp":"t","fromId":"root","summary":"s","details":{},"fromHook":false}"#,
        r#"{"type":"custom","id":"a","parentId":"b","timestamp":"t","customType":"x","data":[1,2.5,null]}"#,
        r#"{"type":"custom_message","id":"a","parentId":"b","timestamp":"t","customType":"x","content":"c","display":true,"details":1}"#,
        r#"{"type":"label","id":"a","parentId":"b","timestamp":"t","targetId":"k","label":"L"}"#,
        r#"{"type":"label","id":"a","parentId":"b","timestamp":"t","targetId":"k"}"#,
        r#"{"type":"session_info","id":"a","parentId":"b","timestamp":"t","name":"n"}"#,
        r#"{"type":"usage","id":"a","parentId":"b","timestamp":"t","kind":"x","usage":{"z":1,"a":[]}}"#,
    ];

    #[test]
    fn every_entry_type_survives_byte_for_byte() {
        for json in ROWS {
            let entry: Entry = serde_json::from_str(json).unwrap();
            assert_eq!(entry.to_line().unwrap(), json);
            let named = json.starts_with(&format!(r#"{{"type":"{}""#, entry.kind.type_name()));
            assert!(named, "{json}");
        }
    }

    #[test]
    fn unknown_fields_survive_byte_for_byte() {
        for json in ROWS {
            let longer = format!(
                r#"{},"later":{{"b":1,"a":[true]}},"n":1.5}}"#,
                &json[..json.len() - 1]
            );
            let entry: Entry = serde_json::from_str(&longer).unwrap();
            assert_eq!(entry.to_line().unwrap(), longer);
        }
    }

    #[test]
    fn a_known_type_with_odd_fields_is_kept_as_unknown() {
        let rows = [
            r#"{"type":"compaction","id":"a","parentId":null,"timestamp":"t","summary":5}"#,
            r#"{"type":"message","id":"a","parentId":null,"timestamp":"t","message":5}"#,
            r#"{"type":"label","id":"a","parentId":null,"timestamp":"t"}"#,
        ];
        for json in rows {
            let entry: Entry = serde_json::from_str(json).unwrap();
            assert!(matches!(entry.kind, EntryKind::Unknown { .. }), "{json}");
            assert_eq!(entry.to_line().unwrap(), json);
        }
    }

    #[test]
    fn header_has_pi_key_order_and_keeps_unknown_fields() {
        let json = r#"{"type":"session","version":3,"id":"i","timestamp":"t","cwd":"/w","parentSession":"p","x":1}"#;
        let header: Header = serde_json::from_str(json).unwrap();
        assert_eq!(header.to_line().unwrap(), json);
        let old: Header = serde_json::from_str(r#"{"type":"session","id":"i"}"#).unwrap();
        assert_eq!(old.version, 1);
        for bad in [
            r#"{"type":"session","id":5}"#,
            r#"{"type":"message","id":"i"}"#,
            "[]",
        ] {
            assert!(serde_json::from_str::<Header>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn half_surrogates_are_read_as_replacement_characters() {
        let rows = [
            (r#"{"a":"x\ud83dy"}"#, "x\u{fffd}y"),
            (r#"{"a":"\ud83d\ude00"}"#, "\u{1f600}"),
            (
                r#"{"a":"\ude00\\ud83d \ud83d"}"#,
                "\u{fffd}\\ud83d \u{fffd}",
            ),
        ];
        for (json, text) in rows {
            assert_eq!(parse_object(json).unwrap()["a"], text);
        }
        assert!(parse_object(r#"{"a":"\ud83d"#).is_err());
        assert!(parse_object("\\").is_err());
    }

    #[test]
    fn counts_are_read_leniently() {
        let json = r#"{"type":"compaction","id":"a","summary":"s","tokensBefore":12.7}"#;
        let entry: Entry = serde_json::from_str(json).unwrap();
        let EntryKind::Compaction(compaction) = entry.kind else {
            panic!("compaction")
        };
        assert_eq!(compaction.tokens_before, 12);
    }
}
