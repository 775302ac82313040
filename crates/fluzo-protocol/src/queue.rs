//! What is on its way to a reader that may be slow.

use std::collections::VecDeque;

use fluzo_llm::StreamEvent;

use crate::Event;

/// Holds events and lines for a writer, in order. While the reader keeps up, every event
/// stays as it is. Once more than [`MergingQueue::BEHIND`] wait, an event that adds to
/// or replaces what a waiting one says becomes one with it: deltas of one block, updates
/// of one tool call, states of the queues. So what waits is bounded by what differs, not
/// by how often it was said.
#[derive(Debug, Default)]
pub struct MergingQueue {
    waiting: VecDeque<Waiting>,
}

/// What waits to be written.
#[derive(Debug, Clone)]
pub enum Waiting {
    /// An event.
    Event(Event),
    /// A line that is no event. Nothing merges across it.
    Line(String),
}

impl MergingQueue {
    /// Events that may wait before they merge.
    pub const BEHIND: usize = 64;

    /// Adds an event at the end.
    pub fn push(&mut self, event: Event) {
        if self.waiting.len() >= Self::BEHIND && self.merge(&event) {
            return;
        }
        self.waiting.push_back(Waiting::Event(event));
    }

    /// Adds a line at the end.
    pub fn push_line(&mut self, line: String) {
        self.waiting.push_back(Waiting::Line(line));
    }

    /// Takes the oldest.
    pub fn pop(&mut self) -> Option<Waiting> {
        self.waiting.pop_front()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Looks for a waiting event that takes `next` in, from the end, as far as the order
    /// of the two does not matter.
    fn merge(&mut self, next: &Event) -> bool {
        for waiting in self.waiting.iter_mut().rev() {
            let Waiting::Event(earlier) = waiting else {
                return false;
            };
            if absorb(earlier, next) {
                return true;
            }
            if !may_pass(next, earlier) {
                return false;
            }
        }
        false
    }
}

/// Makes one event of two that speak of the same thing; false when they do not.
fn absorb(earlier: &mut Event, next: &Event) -> bool {
    match (earlier, next) {
        (Event::MessageUpdate { delta: earlier }, Event::MessageUpdate { delta: next }) => {
            match (text_of(earlier), grown(next)) {
                (Some((block, text)), Some((same, more))) if block == same => {
                    text.push_str(more);
                    true
                }
                _ => false,
            }
        }
        (
            Event::ToolExecutionUpdate {
                call_id, partial, ..
            },
            Event::ToolExecutionUpdate {
                call_id: same,
                partial: newer,
                ..
            },
        ) if call_id == same => {
            partial.clone_from(newer);
            true
        }
        (earlier @ Event::QueueUpdate { .. }, Event::QueueUpdate { .. }) => {
            earlier.clone_from(next);
            true
        }
        _ => false,
    }
}

/// Whether `next` may be shown before `other`, which came earlier.
fn may_pass(next: &Event, other: &Event) -> bool {
    match (next, other) {
        (Event::MessageUpdate { .. }, Event::MessageUpdate { delta }) => grown(delta).is_some(),
        (
            Event::ToolExecutionUpdate { call_id, .. },
            Event::ToolExecutionUpdate { call_id: of, .. }
            | Event::ToolExecutionStart { call_id: of, .. }
            | Event::ToolExecutionEnd { call_id: of, .. },
        ) => call_id != of,
        (Event::ToolExecutionUpdate { .. }, Event::QueueUpdate { .. })
        | (Event::QueueUpdate { .. }, Event::ToolExecutionUpdate { .. }) => true,
        _ => false,
    }
}

type Block = (&'static str, usize);

fn text_of(delta: &mut StreamEvent) -> Option<(Block, &mut String)> {
    let name = delta.name();
    match delta {
        StreamEvent::TextDelta { index, delta }
        | StreamEvent::ThinkingDelta { index, delta }
        | StreamEvent::ToolCallDelta { index, delta } => Some(((name, *index), delta)),
        _ => None,
    }
}

fn grown(delta: &StreamEvent) -> Option<(Block, &str)> {
    match delta {
        StreamEvent::TextDelta { index, delta: text }
        | StreamEvent::ThinkingDelta { index, delta: text }
        | StreamEvent::ToolCallDelta { index, delta: text } => Some(((delta.name(), *index), text)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use fluzo_llm::{Content, Extra, ToolOutput};

    use super::*;

    fn delta(index: usize, text: &str) -> Event {
        Event::MessageUpdate {
            delta: StreamEvent::TextDelta {
                index,
                delta: text.into(),
            },
        }
    }

    fn update(call_id: &str, text: &str) -> Event {
        Event::ToolExecutionUpdate {
            call_id: call_id.into(),
            tool_name: "bash".into(),
            args: Extra::new(),
            partial: ToolOutput {
                content: vec![Content::text(text)],
                ..ToolOutput::default()
            },
        }
    }

    fn start(call_id: &str) -> Event {
        Event::ToolExecutionStart {
            call_id: call_id.into(),
            tool_name: "bash".into(),
            args: Extra::new(),
        }
    }

    fn steering(text: &str) -> Event {
        Event::QueueUpdate {
            steering: vec![text.into()],
            follow_up: Vec::new(),
        }
    }

    fn show(waiting: Waiting) -> String {
        match waiting {
            Waiting::Line(line) => line,
            Waiting::Event(event) => match event {
                Event::MessageUpdate {
                    delta: StreamEvent::TextDelta { index, delta },
                } => format!("{index}:{delta}"),
                Event::ToolExecutionUpdate {
                    call_id, partial, ..
                } => format!("{call_id}={}", partial.content[0].as_text().unwrap()),
                Event::QueueUpdate { steering, .. } => format!("queue:{}", steering.join(",")),
                other => other.name().to_owned(),
            },
        }
    }

    /// What is left of `events` behind a reader that has stopped.
    #[track_caller]
    fn check(events: impl IntoIterator<Item = Event>, left: &[&str]) {
        let mut queue = MergingQueue::default();
        for _ in 0..MergingQueue::BEHIND {
            queue.push(Event::TurnStart);
        }
        for event in events {
            queue.push(event);
        }
        let all: Vec<String> = std::iter::from_fn(|| queue.pop()).map(show).collect();
        assert_eq!(all[MergingQueue::BEHIND..], *left);
    }

    #[test]
    fn a_reader_that_keeps_up_sees_every_event() {
        let mut queue = MergingQueue::default();
        for _ in 0..MergingQueue::BEHIND / 2 {
            queue.push(delta(0, "a"));
            queue.push(update("c", "a"));
        }
        let left = std::iter::from_fn(|| queue.pop()).count();
        assert_eq!(left, MergingQueue::BEHIND);
    }

    #[test]
    fn behind_it_deltas_of_one_block_merge() {
        let events = [
            delta(0, "a"),
            delta(0, "b"),
            delta(1, "c"),
            delta(0, "d"),
            Event::TurnStart,
            delta(1, "e"),
        ];
        check(events, &["0:abd", "1:c", "turn_start", "1:e"]);
    }

    #[test]
    fn behind_it_a_state_replaces_the_one_before() {
        let events = (0..1000).flat_map(|n| {
            let text = n.to_string();
            [update("a", &text), update("b", &text), steering(&text)]
        });
        let begun = [start("a"), start("b")].into_iter();
        let names = ["tool_execution_start", "tool_execution_start"];
        let left = [&names[..], &["a=999", "b=999", "queue:999"]].concat();
        check(begun.chain(events), &left);
    }

    #[test]
    fn an_update_never_leaves_its_call() {
        let events = [update("a", "1"), start("a"), update("a", "2")];
        check(events, &["a=1", "tool_execution_start", "a=2"]);
    }

    #[test]
    fn nothing_merges_across_a_line() {
        let mut queue = MergingQueue::default();
        for _ in 0..MergingQueue::BEHIND {
            queue.push_line("x".into());
        }
        queue.push(delta(0, "a"));
        queue.push_line("line".into());
        queue.push(delta(0, "b"));
        let all: Vec<String> = std::iter::from_fn(|| queue.pop()).map(show).collect();
        assert_eq!(all[MergingQueue::BEHIND..], ["0:a", "line", "0:b"]);
    }
}
