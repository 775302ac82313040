//! Older versions of the format, read as the current one.
//!
//! Version 1 has no tree: every entry follows the one before it, and a compaction names
//! the first entry it keeps by its place among the lines. Version 2 calls the messages of
//! extensions `hookMessage`.

use std::collections::HashMap;
use std::sync::Arc;

use fluzo_llm::Extra;
use serde_json::Value;

use super::head::Head;
use crate::entry::VERSION;
use crate::{Header, Node, NodeKind};

/// Gives the entries of a version 1 file their ids and parents.
///
/// Ids follow from the session and the place of the entry, so that a file that is only
/// read has the same ids each time.
#[derive(Debug, Default)]
pub(super) struct Linear {
    session: Option<u64>,
    last: Option<Arc<str>>,
    ids: HashMap<u64, Arc<str>>,
    /// Position of each compaction, and the line it names.
    compactions: Vec<(usize, u64)>,
    count: usize,
}

impl Linear {
    /// For the session of `header`; does nothing from version 2 on.
    pub(super) fn new(header: &Header) -> Self {
        let session =
            (header.version < 2).then(|| fnv(0xcbf2_9ce4_8422_2325, header.id.as_bytes()));
        Self {
            session,
            ..Self::default()
        }
    }

    /// Whether the file needs this.
    pub(super) fn applies(&self) -> bool {
        self.session.is_some()
    }

    /// The node of the entry whose line is the `ordinal`th that is JSON.
    pub(super) fn node(&mut self, head: Head, ordinal: u64, taken: impl Fn(&str) -> bool) -> Node {
        let mut hash = fnv(self.session.unwrap_or_default(), &ordinal.to_le_bytes());
        let mut id = short_id(hash);
        while taken(&id) {
            hash = fnv(hash, b"again");
            id = short_id(hash);
        }
        let id: Arc<str> = id.into();
        if let (NodeKind::Compaction(_), Some(index)) = (&head.kind, head.first_kept_index) {
            self.compactions.push((self.count, index));
        }
        self.count += 1;
        self.ids.insert(ordinal, Arc::clone(&id));
        Node {
            parent: self.last.replace(Arc::clone(&id)),
            id,
            kind: head.kind,
        }
    }

    /// For each compaction that names a line of an entry: its position and that entry.
    pub(super) fn first_kept(&self) -> Vec<(usize, Arc<str>)> {
        let named = self.compactions.iter();
        named
            .filter_map(|(at, line)| Some((*at, Arc::clone(self.ids.get(line)?))))
            .collect()
    }
}

/// Turns the object of an entry of `version` into the current form.
pub(super) fn entry(object: &mut Extra, node: &Node, version: u64) {
    if version < 2 {
        object.insert("id".to_owned(), Value::from(&*node.id));
        object.insert(
            "parentId".to_owned(),
            node.parent.as_deref().map_or(Value::Null, Value::from),
        );
        if object.shift_remove("firstKeptEntryIndex").is_some()
            && let NodeKind::Compaction(first) = &node.kind
            && !first.is_empty()
        {
            object.insert("firstKeptEntryId".to_owned(), Value::from(&**first));
        }
    }
    if version < VERSION
        && let Some(role) = object
            .get_mut("message")
            .and_then(|message| message.get_mut("role"))
        && role == "hookMessage"
    {
        *role = Value::from("custom");
    }
}

fn short_id(hash: u64) -> String {
    format!("{:08x}", (hash ^ (hash >> 32)) & 0xffff_ffff)
}

/// The FNV-1a hash of `bytes`, going on from `hash`.
fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
