//! Content blocks of a response whose server says where each begins, goes on and ends.
//!
//! The server names a block by a key of its own; the stream event's index counts blocks in
//! the order in which they began.

use std::collections::{HashMap, HashSet};

use fluzo_llm::StreamEvent;

use crate::assemble::{Balance, Ending, Events, ended_call, unique_id};

/// The blocks of one response.
#[derive(Debug, Default)]
pub(crate) struct IndexedBlocks {
    blocks: Vec<Block>,
    by_key: HashMap<u64, usize>,
    ids: HashSet<String>,
}

#[derive(Debug)]
struct Block {
    kind: Kind,
    signature: String,
    open: bool,
}

#[derive(Debug)]
enum Kind {
    Text,
    Thinking { redacted: bool },
    Call(Box<Call>),
}

#[derive(Debug, Default)]
struct Call {
    id: String,
    name: String,
    arguments: String,
    balance: Balance,
}

impl IndexedBlocks {
    /// Begins a text block, unless `key` has one.
    pub(crate) fn open_text(&mut self, key: u64, out: &mut Events) {
        self.open(
            key,
            Kind::Text,
            |index| StreamEvent::TextStart { index },
            out,
        );
    }

    /// Begins a thinking block, unless `key` has one.
    pub(crate) fn open_thinking(&mut self, key: u64, redacted: bool, out: &mut Events) {
        let kind = Kind::Thinking { redacted };
        self.open(key, kind, |index| StreamEvent::ThinkingStart { index }, out);
    }

    /// Begins a tool call, unless `key` has one.
    pub(crate) fn open_call(&mut self, key: u64, id: &str, name: &str, out: &mut Events) {
        let call = Call {
            id: id.to_owned(),
            name: name.to_owned(),
            ..Call::default()
        };
        let start = |index| StreamEvent::ToolCallStart {
            index,
            id: id.to_owned(),
            name: name.to_owned(),
        };
        self.open(key, Kind::Call(Box::new(call)), start, out);
    }

    /// More text, thinking or argument text of the block `key`. A piece for a block that is
    /// not open changes nothing.
    pub(crate) fn push(&mut self, key: u64, delta: &str, out: &mut Events) {
        let Some((index, block)) = self.open_block(key) else {
            return;
        };
        if delta.is_empty() {
            return;
        }
        let delta_text = delta.to_owned();
        out.push_back(match &mut block.kind {
            Kind::Text => StreamEvent::TextDelta {
                index,
                delta: delta_text,
            },
            Kind::Thinking { .. } => StreamEvent::ThinkingDelta {
                index,
                delta: delta_text,
            },
            Kind::Call(call) => {
                call.balance.feed(delta);
                call.arguments.push_str(delta);
                StreamEvent::ToolCallDelta {
                    index,
                    delta: delta_text,
                }
            }
        });
    }

    /// Id and name of the call `key`, where it began without.
    pub(crate) fn identify(&mut self, key: u64, id: &str, name: &str) {
        if let Some((_, block)) = self.open_block(key)
            && let Kind::Call(call) = &mut block.kind
        {
            for (field, value) in [(&mut call.id, id), (&mut call.name, name)] {
                if field.is_empty() {
                    field.push_str(value);
                }
            }
        }
    }

    /// The whole argument text of the call `key`: what has not come in pieces is added. Text
    /// that differs from what came replaces it when it is a whole value that says something:
    /// pieces that were cut off never become a call without arguments.
    pub(crate) fn whole_arguments(&mut self, key: u64, text: &str, out: &mut Events) {
        let Some((_, block)) = self.open_block(key) else {
            return;
        };
        let Kind::Call(call) = &mut block.kind else {
            return;
        };
        if let Some(rest) = text.strip_prefix(call.arguments.as_str()) {
            let rest = rest.to_owned();
            return self.push(key, &rest, out);
        }
        let mut balance = Balance::default();
        balance.feed(text);
        let says_something = text.bytes().any(|byte| byte == b'"');
        if balance.closed() && says_something {
            call.arguments = text.to_owned();
            call.balance = balance;
        }
    }

    /// Provider data of the block `key`; pieces are joined.
    pub(crate) fn sign(&mut self, key: u64, piece: &str) {
        if let Some((_, block)) = self.open_block(key) {
            block.signature.push_str(piece);
        }
    }

    /// Whether anything has come.
    pub(crate) fn any(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// Whether there are tool calls.
    pub(crate) fn has_calls(&self) -> bool {
        self.blocks
            .iter()
            .any(|block| matches!(block.kind, Kind::Call(_)))
    }

    /// Whether argument text of the call `key` has come.
    pub(crate) fn has_arguments(&self, key: u64) -> bool {
        let block = self.by_key.get(&key).and_then(|at| self.blocks.get(*at));
        block.is_some_and(|block| match &block.kind {
            Kind::Call(call) => !call.arguments.trim().is_empty(),
            _ => false,
        })
    }

    /// Whether the call `key` is open and has a whole argument text.
    pub(crate) fn has_whole_arguments(&self, key: u64) -> bool {
        let block = self.by_key.get(&key).and_then(|at| self.blocks.get(*at));
        block.is_some_and(|block| match &block.kind {
            Kind::Call(call) => block.open && call.balance.closed(),
            _ => false,
        })
    }

    /// Whether the arguments of every call are closed or absent.
    pub(crate) fn calls_closed(&self) -> bool {
        self.blocks.iter().all(|block| match &block.kind {
            Kind::Call(call) => call.arguments.trim().is_empty() || call.balance.closed(),
            _ => true,
        })
    }

    /// Ends the block `key`. A call without an id gets one that `taken` does not know.
    pub(crate) fn close(&mut self, key: u64, taken: &dyn Fn(&str) -> bool, out: &mut Events) {
        if let Some(index) = self.by_key.get(&key).copied() {
            self.end(index, Ending::Complete, taken, out);
        }
    }

    /// Ends all blocks that are open, in content order.
    pub(crate) fn close_all(
        &mut self,
        ending: Ending,
        taken: &dyn Fn(&str) -> bool,
        out: &mut Events,
    ) {
        for index in 0..self.blocks.len() {
            self.end(index, ending, taken, out);
        }
    }

    fn open(
        &mut self,
        key: u64,
        kind: Kind,
        start: impl FnOnce(usize) -> StreamEvent,
        out: &mut Events,
    ) {
        if self.by_key.contains_key(&key) {
            return;
        }
        let index = self.blocks.len();
        self.by_key.insert(key, index);
        self.blocks.push(Block {
            kind,
            signature: String::new(),
            open: true,
        });
        out.push_back(start(index));
    }

    fn open_block(&mut self, key: u64) -> Option<(usize, &mut Block)> {
        let index = *self.by_key.get(&key)?;
        let block = self.blocks.get_mut(index).filter(|block| block.open)?;
        Some((index, block))
    }

    fn end(
        &mut self,
        index: usize,
        ending: Ending,
        taken: &dyn Fn(&str) -> bool,
        out: &mut Events,
    ) {
        let Some(block) = self.blocks.get_mut(index).filter(|block| block.open) else {
            return;
        };
        block.open = false;
        let signature = std::mem::take(&mut block.signature);
        let signature = (!signature.is_empty()).then_some(signature);
        out.push_back(match &mut block.kind {
            Kind::Text => StreamEvent::TextEnd { index, signature },
            Kind::Thinking { redacted } => StreamEvent::ThinkingEnd {
                index,
                signature,
                redacted: *redacted,
            },
            Kind::Call(call) => {
                let id = unique_id(std::mem::take(&mut call.id), &self.ids, taken);
                self.ids.insert(id.clone());
                let name = std::mem::take(&mut call.name);
                let arguments = std::mem::take(&mut call.arguments);
                let call = ended_call(id, name, arguments, ending, signature);
                StreamEvent::ToolCallEnd {
                    index,
                    call: Box::new(call),
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn never(_: &str) -> bool {
        false
    }

    #[test]
    fn interleaved_blocks_keep_their_indices_and_end_once() {
        let (mut blocks, mut out) = (IndexedBlocks::default(), Events::new());
        blocks.open_thinking(7, false, &mut out);
        blocks.open_text(3, &mut out);
        blocks.push(3, "a", &mut out);
        blocks.push(7, "hm", &mut out);
        blocks.sign(7, "si");
        blocks.sign(7, "g");
        blocks.close(7, &never, &mut out);
        blocks.push(7, "late", &mut out);
        blocks.close_all(Ending::Complete, &never, &mut out);
        blocks.close_all(Ending::Complete, &never, &mut out);
        let names: Vec<_> = out.iter().map(StreamEvent::name).collect();
        let expected = [
            "thinking_start",
            "text_start",
            "text_delta",
            "thinking_delta",
            "thinking_end",
            "text_end",
        ];
        assert_eq!(names, expected);
        assert!(out.contains(&StreamEvent::ThinkingEnd {
            index: 0,
            signature: Some("sig".into()),
            redacted: false
        }));
    }

    #[test]
    fn calls_get_unique_ids_and_whole_arguments() {
        let (mut blocks, mut out) = (IndexedBlocks::default(), Events::new());
        for key in 0..3 {
            blocks.open_call(key, if key == 2 { "" } else { "c" }, "t", &mut out);
        }
        blocks.push(0, "{\"a\"", &mut out);
        assert!(!blocks.calls_closed());
        blocks.whole_arguments(0, "{\"a\":1}", &mut out);
        blocks.whole_arguments(1, "{\"b\":2}", &mut out);
        blocks.close_all(Ending::Complete, &|id| id == "call_1", &mut out);
        let calls: Vec<_> = out
            .iter()
            .filter_map(|event| match event {
                StreamEvent::ToolCallEnd { call, .. } => Some((
                    call.id.as_str(),
                    serde_json::to_string(&call.arguments).unwrap(),
                )),
                _ => None,
            })
            .collect();
        let expected = [("c", r#"{"a":1}"#), ("c_2", r#"{"b":2}"#), ("call_2", "{}")];
        assert_eq!(calls, expected.map(|(id, text)| (id, text.to_owned())));
        assert!(blocks.calls_closed());
    }

    #[test]
    fn a_whole_text_replaces_pieces_only_when_it_says_something() {
        let rows = [
            (r#"{"a""#, r#"{"a":1}"#, r#"{"a":1}"#),
            (r#"{"a""#, "{}", r#"RAW {"a""#),
            (r#"{"a""#, "", r#"RAW {"a""#),
            (r#"{"a""#, r#"{"b"#, r#"RAW {"a""#),
            (r#"{"a""#, r#"{"b":2}"#, r#"{"b":2}"#),
            ("", "{}", "{}"),
        ];
        for (piece, whole, expected) in rows {
            let (mut blocks, mut out) = (IndexedBlocks::default(), Events::new());
            blocks.open_call(0, "", "", &mut out);
            blocks.push(0, piece, &mut out);
            blocks.whole_arguments(0, whole, &mut out);
            blocks.identify(0, "c", "t");
            blocks.identify(0, "late", "late");
            assert_eq!(blocks.has_whole_arguments(0), !expected.starts_with("RAW"));
            blocks.close(0, &never, &mut out);
            assert!(!blocks.has_whole_arguments(0));
            let Some(StreamEvent::ToolCallEnd { call, .. }) = out.pop_back() else {
                panic!("no call")
            };
            let text = serde_json::to_string(&call.arguments).unwrap();
            let raw = call.raw_arguments.map(|raw| format!("RAW {raw}"));
            assert_eq!(raw.unwrap_or(text), expected, "{piece} {whole}");
            assert_eq!((call.id.as_str(), call.name.as_str()), ("c", "t"));
        }
    }

    #[test]
    fn a_call_that_was_cut_off_before_its_arguments_is_not_executable() {
        let (mut blocks, mut out) = (IndexedBlocks::default(), Events::new());
        blocks.open_call(0, "c", "t", &mut out);
        blocks.close_all(Ending::Cut, &never, &mut out);
        let Some(StreamEvent::ToolCallEnd { call, .. }) = out.pop_back() else {
            panic!("no call")
        };
        assert!(call.raw_arguments.is_some());
    }
}
