//! What the server puts out, item by item, as content blocks.
//!
//! The same text may come in pieces, whole at the end of its part, of its item and of the
//! response, or only in some of these: it counts once.

use std::cell::OnceCell;

use fluzo_llm::Transcript;
use serde_json::Value;

use super::ids::{TextSignature, stored_id};
use super::items::{Items, Joins, Kind, Named, OutputItem, Source};
use super::wire::{Event, text};
use crate::adapt::call_ids;
use crate::assemble::{Ending, Events};
use crate::indexed::IndexedBlocks;
use crate::redact::Redactor;

/// Between the parts of thinking.
const BLANK_LINE: &str = "\n\n";

/// The blocks of one response.
pub(crate) struct OutputBlocks {
    items: Items,
    /// The blocks, under the positions of their items.
    blocks: IndexedBlocks,
    /// There has been text, thinking or a call.
    spoke: bool,
    /// The conversation, whose ids of calls are taken.
    transcript: Transcript,
    redactor: Redactor,
}

impl OutputBlocks {
    /// Nothing yet, after `transcript`.
    pub(crate) fn new(transcript: Transcript, redactor: Redactor) -> Self {
        Self {
            items: Items::default(),
            blocks: IndexedBlocks::default(),
            spoke: false,
            transcript,
            redactor,
        }
    }

    /// Whether there has been text, thinking or a call.
    pub(crate) fn spoke(&self) -> bool {
        self.spoke
    }

    /// Whether there are calls.
    pub(crate) fn has_calls(&self) -> bool {
        self.blocks.has_calls()
    }

    /// Whether the arguments of every call are closed or absent.
    pub(crate) fn calls_closed(&self) -> bool {
        self.blocks.calls_closed()
    }

    /// Understands an event of type `kind`. One that is not known says nothing.
    pub(crate) fn understand(&mut self, kind: &str, event: &Event<'_>, out: &mut Events) {
        match kind {
            "response.output_item.added" => self.item_begins(event, out),
            "response.output_item.done" => self.item_ends(event, out),
            "response.output_text.delta" => self.says(event, event.delta.as_text(), out),
            "response.refusal.delta" => self.refuses(event, event.delta.as_text(), out),
            "response.output_text.done" => {
                if self.is_news(Kind::Message, Source::Answer, event) {
                    self.says(event, event.text.as_text(), out);
                }
            }
            "response.refusal.done" => {
                if self.is_news(Kind::Message, Source::Answer, event) {
                    self.refuses(event, event.refusal.as_text(), out);
                }
            }
            "response.reasoning_summary_part.added" => {
                let at = self.items.find(Kind::Reasoning, named(event));
                if let Some(item) = at.and_then(|at| self.items.get_mut(at)) {
                    item.received.announce();
                }
            }
            "response.function_call_arguments.delta" => self.calls(event, out),
            "response.function_call_arguments.done" => self.called(event, out),
            _ => self.thinking(kind, event, out),
        }
    }

    /// Events about thinking. Any other event says nothing.
    fn thinking(&mut self, kind: &str, event: &Event<'_>, out: &mut Events) {
        let (source, news) = match kind {
            "response.reasoning_summary_text.delta" | "response.reasoning_summary.delta" => {
                (Source::Summary, event.delta.as_text())
            }
            "response.reasoning_summary_text.done" | "response.reasoning_summary.done" => {
                (Source::Summary, event.text.as_text())
            }
            "response.reasoning_text.delta" | "response.reasoning.delta" => {
                (Source::Thinking, event.delta.as_text())
            }
            "response.reasoning_text.done" | "response.reasoning.done" => {
                (Source::Thinking, event.text.as_text())
            }
            _ => return,
        };
        let Some(news) = news else { return };
        if kind.ends_with(".done") && !self.is_news(Kind::Reasoning, source, event) {
            return;
        }
        let at = self.items.find_or_imply(Kind::Reasoning, named(event));
        self.think(at, source, part_index(source, event), news, out);
    }

    /// Whether the whole text of a part, which an event brings at its end, has not come before.
    fn is_news(&self, kind: Kind, source: Source, event: &Event<'_>) -> bool {
        let named = named(event);
        match self.items.find(kind, named) {
            Some(at) => {
                let item = self.items.get(at);
                item.is_some_and(|item| !item.received.has(source, part_index(source, event)))
            }
            // It may be the end of any of the items before it.
            None => !named.nothing() || self.items.nth(kind, 0).is_none(),
        }
    }

    fn says(&mut self, event: &Event<'_>, news: Option<&str>, out: &mut Events) {
        if let Some(news) = news {
            let at = self.items.find_or_imply(Kind::Message, named(event));
            self.say(at, part_index(Source::Answer, event), news, out);
        }
    }

    fn refuses(&mut self, event: &Event<'_>, news: Option<&str>, out: &mut Events) {
        // Often words of the server, not of the model.
        let news = news.map(|news| self.redactor.clean(news.to_owned()));
        self.says(event, news.as_deref(), out);
    }

    /// More of the text of the item at `at`.
    fn say(&mut self, at: usize, part: u64, news: &str, out: &mut Events) {
        let Some(item) = self.items.get_mut(at).filter(|item| item.open) else {
            return;
        };
        if news.is_empty() {
            return;
        }
        item.received.note(Source::Answer, part);
        self.blocks.open_text(key(at), out);
        self.blocks.push(key(at), news, out);
        self.spoke = true;
    }

    /// More of the thinking of the item at `at`.
    fn think(&mut self, at: usize, source: Source, part: u64, news: &str, out: &mut Events) {
        let Some(item) = self.items.get_mut(at).filter(|item| item.open) else {
            return;
        };
        if news.is_empty() {
            return;
        }
        let joins = item.received.note(source, part);
        if joins == Joins::Never {
            return;
        }
        self.blocks.open_thinking(key(at), false, out);
        if joins == Joins::NewPart {
            self.blocks.push(key(at), BLANK_LINE, out);
        }
        self.blocks.push(key(at), news, out);
        self.spoke = true;
    }

    fn calls(&mut self, event: &Event<'_>, out: &mut Events) {
        let at = self.items.find_or_imply(Kind::Call, named(event));
        self.call(at, "", out);
        let piece = event.delta.as_text().unwrap_or_default();
        self.blocks.push(key(at), piece, out);
    }

    fn called(&mut self, event: &Event<'_>, out: &mut Events) {
        let named = named(event);
        let found = self.items.find(Kind::Call, named);
        if found.is_none() && named.nothing() && self.items.nth(Kind::Call, 0).is_some() {
            return;
        }
        let at = found.unwrap_or_else(|| self.items.find_or_imply(Kind::Call, named));
        self.call(at, event.name.as_text().unwrap_or_default(), out);
        let whole = event.arguments.to_text();
        self.blocks.whole_arguments(key(at), &whole, out);
    }

    /// The call of the item at `at`, and what is known of it.
    fn call(&mut self, at: usize, name: &str, out: &mut Events) {
        let Some(item) = self.items.get_mut(at) else {
            return;
        };
        // The id of the item alone is no id of a call as long as that may follow.
        let id = match item.call_id.is_empty() {
            true => String::new(),
            false => stored_id(&item.call_id, &item.id),
        };
        self.blocks.open_call(key(at), &id, name, out);
        self.blocks.identify(key(at), &id, name);
        self.spoke = true;
    }

    fn item_begins(&mut self, event: &Event<'_>, out: &mut Events) {
        let Some((kind, item)) = item_of(event) else {
            return;
        };
        let at = self.items.begin(kind, named_by(item, event));
        self.begins(at, item, out);
    }

    fn begins(&mut self, at: usize, item: &Value, out: &mut Events) {
        let Some(known) = self.items.get_mut(at) else {
            return;
        };
        let phase = text(item, "phase");
        if !phase.is_empty() {
            known.phase = Some(phase.to_owned());
        }
        match known.kind {
            // Many servers announce texts that stay empty.
            Kind::Message => {}
            Kind::Reasoning => self.blocks.open_thinking(key(at), false, out),
            Kind::Call => {
                known.first_arguments = arguments_of(item);
                self.call(at, text(item, "name"), out);
            }
        }
    }

    fn item_ends(&mut self, event: &Event<'_>, out: &mut Events) {
        let Some((kind, item)) = item_of(event) else {
            return;
        };
        let named = named_by(item, event);
        let at = self.items.find_or_imply(kind, named);
        self.ends(at, item, named, out);
    }

    /// The item at `at` is whole, and is `item`.
    fn ends(&mut self, at: usize, item: &Value, named: Named<'_>, out: &mut Events) {
        let Some(known) = self.items.get_mut(at).filter(|known| known.open) else {
            return;
        };
        known.learn(named);
        match known.kind {
            Kind::Message => {
                let phase = text(item, "phase");
                if !phase.is_empty() {
                    known.phase = Some(phase.to_owned());
                }
                self.message_ends(at, item, out);
            }
            Kind::Reasoning => self.reasoning_ends(at, item, out),
            Kind::Call => self.call_ends(at, item, out),
        }
    }

    fn message_ends(&mut self, at: usize, item: &Value, out: &mut Events) {
        let parts = item.get("content").and_then(Value::as_array);
        let received = self.received(at);
        for (index, part) in parts.into_iter().flatten().enumerate().skip(received) {
            let refusal = self.redactor.clean(text(part, "refusal").to_owned());
            for news in [text(part, "text"), &refusal] {
                self.say(at, index as u64, news, out);
            }
        }
        self.sign_text(at);
        self.close(at, out);
    }

    fn reasoning_ends(&mut self, at: usize, item: &Value, out: &mut Events) {
        if self.received(at) == 0 {
            let parts = |field: &str| item.get(field).and_then(Value::as_array);
            let summary = parts("summary").filter(|parts| !parts.is_empty());
            let (source, parts) = match summary {
                Some(parts) => (Source::Summary, Some(parts)),
                None => (Source::Thinking, parts("content")),
            };
            for (index, part) in parts.into_iter().flatten().enumerate() {
                self.think(at, source, index as u64, text(part, "text"), out);
            }
        }
        self.blocks.open_thinking(key(at), false, out);
        self.blocks.sign(key(at), &item.to_string());
        self.close(at, out);
    }

    fn call_ends(&mut self, at: usize, item: &Value, out: &mut Events) {
        self.call(at, text(item, "name"), out);
        self.blocks
            .whole_arguments(key(at), &arguments_of(item), out);
        if text(item, "status") == "incomplete" {
            return;
        }
        self.give_first_arguments(at, out);
        // One without arguments may have been cut off before them: the end of the response tells.
        if self.blocks.has_whole_arguments(key(at)) {
            self.close(at, out);
        }
    }

    /// Arguments that the call began with count when no others came.
    fn give_first_arguments(&mut self, at: usize, out: &mut Events) {
        if let Some(item) = self.items.get_mut(at) {
            let first = std::mem::take(&mut item.first_arguments);
            if !first.is_empty() && !self.blocks.has_arguments(key(at)) {
                self.blocks.push(key(at), &first, out);
            }
        }
    }

    fn received(&self, at: usize) -> usize {
        self.items.get(at).map_or(0, |item| item.received.count())
    }

    fn sign_text(&mut self, at: usize) {
        let item = self.items.get(at).filter(|item| !item.id.is_empty());
        if let Some(item) = item {
            let signature = TextSignature::new(&item.id, item.phase.as_deref());
            self.blocks.sign(key(at), &signature.stored());
        }
    }

    fn close(&mut self, at: usize, out: &mut Events) {
        if let Some(item) = self.items.get_mut(at) {
            item.open = false;
        }
        let used = OnceCell::new();
        let transcript = &self.transcript;
        let taken = |id: &str| used.get_or_init(|| call_ids(transcript)).contains(id);
        self.blocks.close(key(at), &taken, out);
    }

    /// Ends all blocks that are open, in content order.
    pub(crate) fn close_all(&mut self, ending: Ending, out: &mut Events) {
        let open = |(at, item): (usize, &OutputItem)| item.open.then_some(at);
        let open: Vec<usize> = self.items.iter().filter_map(open).collect();
        for at in open {
            self.sign_open(at);
        }
        let used = OnceCell::new();
        let transcript = &self.transcript;
        let taken = |id: &str| used.get_or_init(|| call_ids(transcript)).contains(id);
        self.blocks.close_all(ending, &taken, out);
    }

    /// What can be said of an item whose end nobody told.
    fn sign_open(&mut self, at: usize) {
        let Some(item) = self.items.get(at) else {
            return;
        };
        match item.kind {
            Kind::Message => self.sign_text(at),
            Kind::Reasoning => {}
            Kind::Call => {
                let id = stored_id(&item.call_id, &item.id);
                self.blocks.identify(key(at), &id, "");
            }
        }
    }

    /// Takes in the last state of the response, in which all items stand whole.
    pub(crate) fn settle(&mut self, response: &Value, out: &mut Events) {
        let output = response.get("output").and_then(Value::as_array);
        let mut counts = [0; 3];
        for item in output.into_iter().flatten() {
            let Some(kind) = Kind::of(text(item, "type")) else {
                continue;
            };
            let n = &mut counts[kind as usize];
            self.whole(kind, *n, item, out);
            *n += 1;
        }
    }

    /// Nothing more comes: arguments that calls began with count.
    pub(crate) fn give_all_first_arguments(&mut self, out: &mut Events) {
        for at in 0..self.items.len() {
            self.give_first_arguments(at, out);
        }
    }

    /// The `n`th item of its kind as the last state of the response has it. Servers name the
    /// items there in another way than in events, so only the order tells which it is, and
    /// what has come in events stands.
    fn whole(&mut self, kind: Kind, n: usize, item: &Value, out: &mut Events) {
        let named = named_item(item);
        let at = match self.items.nth(kind, n) {
            Some(at) => at,
            None => {
                let at = self.items.append(kind, named);
                self.begins(at, item, out);
                at
            }
        };
        let stranger = self.items.get(at).is_none_or(|known| {
            kind == Kind::Call && !known.call_id.is_empty() && known.call_id != named.call_id
        });
        if !stranger {
            self.ends(at, item, named, out);
        }
    }
}

/// The key of the block of the item at `at`.
fn key(at: usize) -> u64 {
    at as u64
}

fn part_index(source: Source, event: &Event<'_>) -> u64 {
    let index = match source {
        Source::Summary => &event.summary_index,
        Source::Answer | Source::Thinking => &event.content_index,
    };
    index.as_index().unwrap_or(0)
}

fn named<'e>(event: &'e Event<'_>) -> Named<'e> {
    Named {
        id: event.item_id.as_text().unwrap_or_default(),
        call_id: event.call_id.as_text().unwrap_or_default(),
        place: event.output_index.as_index(),
    }
}

fn named_item(item: &Value) -> Named<'_> {
    Named {
        id: text(item, "id"),
        call_id: text(item, "call_id"),
        place: None,
    }
}

fn named_by<'e>(item: &'e Value, event: &Event<'_>) -> Named<'e> {
    Named {
        place: event.output_index.as_index(),
        ..named_item(item)
    }
}

/// The item that an event brings, when it is of a kind that matters.
fn item_of<'e>(event: &'e Event<'_>) -> Option<(Kind, &'e Value)> {
    let item = event.item.as_ref()?;
    Some((Kind::of(text(item, "type"))?, item))
}

/// The argument text of a call; some servers send the arguments themselves.
fn arguments_of(item: &Value) -> String {
    match item.get("arguments") {
        Some(Value::String(text)) => text.clone(),
        Some(object @ Value::Object(_)) => object.to_string(),
        _ => String::new(),
    }
}
