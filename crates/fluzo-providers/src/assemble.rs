//! Content blocks of one response, assembled from fragments of every shape.
//!
//! Text, thinking and tool calls become stream events with one content index each, in the
//! order of their first fragment. A response has at most one text and one thinking block.
//! Blocks are closed together, in content order, when the response is judged.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use fluzo_llm::{StreamEvent, ToolCall, ToolSpec};

/// Events waiting to be delivered.
pub(crate) type Events = VecDeque<StreamEvent>;

/// A piece of a tool call. Everything may be missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fragment {
    /// Index of the call among the calls of the response.
    pub index: Option<u64>,
    /// Id, or empty.
    pub id: String,
    /// Name or a piece of it, or empty.
    pub name: String,
    /// More argument text.
    pub arguments: String,
    /// Place among the fragments of the same event, when there are several.
    pub place: Option<usize>,
}

/// How the response ended, as far as open calls are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The model was done: a call without argument text has no arguments.
    Complete,
    /// The output limit or a failure cut it off: a call without argument text never got any.
    Cut,
}

/// The blocks of one response.
#[derive(Debug)]
pub(crate) struct Blocks {
    tools: Arc<[ToolSpec]>,
    blocks: Vec<Block>,
    text: Option<usize>,
    thinking: Option<usize>,
    calls: Vec<usize>,
    by_index: HashMap<u64, usize>,
    by_id: HashMap<String, usize>,
    closed: bool,
}

#[derive(Debug)]
enum Block {
    Text,
    Thinking(String),
    Call(Call),
}

#[derive(Debug, Default)]
struct Call {
    id: String,
    name: String,
    arguments: String,
    balance: Balance,
    signature: Option<String>,
}

impl Blocks {
    /// No blocks yet; `tools` are the names that a call may have.
    pub(crate) fn new(tools: Arc<[ToolSpec]>) -> Self {
        Self {
            tools,
            blocks: Vec::new(),
            text: None,
            thinking: None,
            calls: Vec::new(),
            by_index: HashMap::new(),
            by_id: HashMap::new(),
            closed: false,
        }
    }

    /// More text. An empty piece opens no block.
    pub(crate) fn text(&mut self, delta: String, out: &mut Events) {
        if delta.is_empty() {
            return;
        }
        let index = *self.text.get_or_insert_with(|| {
            self.blocks.push(Block::Text);
            out.push_back(StreamEvent::TextStart {
                index: self.blocks.len() - 1,
            });
            self.blocks.len() - 1
        });
        out.push_back(StreamEvent::TextDelta { index, delta });
    }

    /// More thinking, which came in the field `signature`.
    pub(crate) fn thinking(&mut self, signature: &str, delta: String, out: &mut Events) {
        if delta.is_empty() {
            return;
        }
        let index = *self.thinking.get_or_insert_with(|| {
            self.blocks.push(Block::Thinking(signature.to_owned()));
            out.push_back(StreamEvent::ThinkingStart {
                index: self.blocks.len() - 1,
            });
            self.blocks.len() - 1
        });
        out.push_back(StreamEvent::ThinkingDelta { index, delta });
    }

    /// A piece of a tool call.
    pub(crate) fn fragment(&mut self, fragment: Fragment, out: &mut Events) {
        let index = match self.find(&fragment) {
            Some(index) => index,
            None => self.open(&fragment, out),
        };
        if let Some(key) = fragment.index {
            self.by_index.insert(key, index);
        }
        if !fragment.id.is_empty() {
            self.by_id.entry(fragment.id.clone()).or_insert(index);
        }
        let Some(Block::Call(call)) = self.blocks.get_mut(index) else {
            return;
        };
        if call.id.is_empty() {
            call.id = fragment.id;
        }
        join_name(&mut call.name, &fragment.name, &self.tools);
        call.balance.feed(&fragment.arguments);
        call.arguments.push_str(&fragment.arguments);
        out.push_back(StreamEvent::ToolCallDelta {
            index,
            delta: fragment.arguments,
        });
    }

    /// Provider data of the call `id`, to be sent back with it.
    pub(crate) fn sign(&mut self, id: &str, signature: String) {
        let index = self.by_id.get(id).copied();
        if let Some(Block::Call(call)) = index.and_then(|index| self.blocks.get_mut(index)) {
            call.signature = Some(signature);
        }
    }

    /// Whether anything has come.
    pub(crate) fn any(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// Whether there are tool calls.
    pub(crate) fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Whether the arguments of every call are closed.
    pub(crate) fn calls_closed(&self) -> bool {
        self.calls().all(|call| call.balance.closed())
    }

    /// Closes all blocks in content order; further calls do nothing.
    ///
    /// A call without an id gets one that `taken` does not know; ids are unique afterwards.
    pub(crate) fn close(&mut self, ending: Ending, taken: &dyn Fn(&str) -> bool, out: &mut Events) {
        if std::mem::replace(&mut self.closed, true) {
            return;
        }
        let mut ids: HashSet<String> = HashSet::new();
        for (index, block) in self.blocks.iter_mut().enumerate() {
            out.push_back(match block {
                Block::Text => StreamEvent::TextEnd {
                    index,
                    signature: None,
                },
                Block::Thinking(field) => StreamEvent::ThinkingEnd {
                    index,
                    signature: Some(std::mem::take(field)),
                    redacted: false,
                },
                Block::Call(call) => {
                    let id = unique_id(std::mem::take(&mut call.id), &ids, taken);
                    ids.insert(id.clone());
                    StreamEvent::ToolCallEnd {
                        index,
                        call: Box::new(finished(call, id, ending)),
                    }
                }
            });
        }
    }

    fn calls(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter_map(|index| self.call(*index))
    }

    fn call(&self, index: usize) -> Option<&Call> {
        match self.blocks.get(index) {
            Some(Block::Call(call)) => Some(call),
            _ => None,
        }
    }

    fn open(&mut self, fragment: &Fragment, out: &mut Events) -> usize {
        let index = self.blocks.len();
        self.blocks.push(Block::Call(Call::default()));
        self.calls.push(index);
        let (id, name) = (fragment.id.clone(), fragment.name.clone());
        out.push_back(StreamEvent::ToolCallStart { index, id, name });
        index
    }

    /// The block that `fragment` continues, if it continues one.
    fn find(&self, fragment: &Fragment) -> Option<usize> {
        if let Some(key) = fragment.index {
            let index = *self.by_index.get(&key)?;
            return (!self.is_another_call(index, fragment)).then_some(index);
        }
        if !fragment.id.is_empty() {
            return self.by_id.get(&fragment.id).copied();
        }
        if fragment.name.is_empty() {
            // Neither index, id nor name: the place in the event is all there is.
            let last = self.calls.last().copied();
            return match fragment.place {
                Some(place) => self.calls.get(place).copied().or(last),
                None => self.nameless(),
            };
        }
        let last = *self.calls.last()?;
        let call = self.call(last)?;
        let continues = fragment.place.is_none_or(|place| place == 0)
            && !call.balance.closed()
            && (!call.arguments.is_empty()
                || is_name_piece(&call.name, &fragment.name, &self.tools));
        continues.then_some(last)
    }

    /// The call that goes on when nothing says which: the last one still open.
    fn nameless(&self) -> Option<usize> {
        let open = |index: &&usize| {
            self.call(**index)
                .is_some_and(|call| !call.balance.closed())
        };
        self.calls
            .iter()
            .rev()
            .find(open)
            .or(self.calls.last())
            .copied()
    }

    /// Some servers give every call the index 0: a new id with a new name on top of
    /// finished or missing arguments is another call.
    fn is_another_call(&self, index: usize, fragment: &Fragment) -> bool {
        let Some(call) = self.call(index) else {
            return false;
        };
        let new_id = !fragment.id.is_empty() && !call.id.is_empty() && fragment.id != call.id;
        new_id && !fragment.name.is_empty() && (call.arguments.is_empty() || call.balance.closed())
    }
}

fn finished(call: &mut Call, id: String, ending: Ending) -> ToolCall {
    ended_call(
        id,
        std::mem::take(&mut call.name),
        std::mem::take(&mut call.arguments),
        ending,
        call.signature.take(),
    )
}

/// A call that ended in `ending`, with its arguments as text. One that was cut off before its
/// arguments is not taken for one without arguments.
pub(crate) fn ended_call(
    id: String,
    name: String,
    text: String,
    ending: Ending,
    signature: Option<String>,
) -> ToolCall {
    let mut done = ToolCall::from_text(id, name, &text);
    if ending == Ending::Cut && text.trim().is_empty() {
        done.raw_arguments = Some(text);
    }
    done.thought_signature = signature;
    done
}

/// `id` unlike any of `ids`; a made-up one, unlike those that are `taken` as well, for an empty one.
pub(crate) fn unique_id(id: String, ids: &HashSet<String>, taken: &dyn Fn(&str) -> bool) -> String {
    if id.is_empty() {
        let free = |id: &String| !ids.contains(id) && !taken(id);
        return (1u64..)
            .map(|n| format!("call_{n}"))
            .find(free)
            .unwrap_or_default();
    }
    if !ids.contains(&id) {
        return id;
    }
    (2u64..)
        .map(|n| format!("{id}_{n}"))
        .find(|id| !ids.contains(id))
        .unwrap_or_default()
}

/// Names may come whole, in pieces, or repeated in each fragment.
fn join_name(name: &mut String, piece: &str, tools: &[ToolSpec]) {
    if name.is_empty() || is_name_piece(name, piece, tools) {
        name.push_str(piece);
    }
}

fn is_name_piece(name: &str, piece: &str, tools: &[ToolSpec]) -> bool {
    let known = |candidate: &str| tools.iter().any(|tool| tool.name == candidate);
    if piece.is_empty() {
        return false;
    }
    known(&format!("{name}{piece}")) || !(known(name) || known(piece) || piece == name)
}

/// Follows brackets and strings of JSON text as it comes, without parsing it again.
#[derive(Debug, Default)]
pub(crate) struct Balance {
    depth: usize,
    in_string: bool,
    escaped: bool,
    started: bool,
}

impl Balance {
    pub(crate) fn feed(&mut self, text: &str) {
        for byte in text.bytes() {
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
            self.started |= !byte.is_ascii_whitespace();
        }
    }

    /// Whether one value has begun and nothing of it is open.
    pub(crate) fn closed(&self) -> bool {
        self.started && self.depth == 0 && !self.in_string
    }
}

#[cfg(test)]
#[path = "assemble_tests.rs"]
mod tests;
