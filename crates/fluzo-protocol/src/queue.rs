//! Events on their way to a reader that may be slow.

use std::collections::VecDeque;

use fluzo_llm::StreamEvent;

use crate::Event;

/// Holds events for a writer. While the reader keeps up, every event stays as it is.
/// Once more than [`MergingQueue::BEHIND`] wait, deltas of one block become one.
#[derive(Debug, Default)]
pub struct MergingQueue {
    waiting: VecDeque<Event>,
}

impl MergingQueue {
    /// Events that may wait before deltas are merged.
    pub const BEHIND: usize = 64;

    /// Adds an event at the end.
    pub fn push(&mut self, event: Event) {
        if self.waiting.len() >= Self::BEHIND
            && let Some(last) = self.waiting.back_mut()
            && merge(last, &event)
        {
            return;
        }
        self.waiting.push_back(event);
    }

    /// Takes the oldest event.
    pub fn pop(&mut self) -> Option<Event> {
        self.waiting.pop_front()
    }

    /// Whether no event waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

fn merge(last: &mut Event, next: &Event) -> bool {
    let (Event::MessageUpdate { delta: last }, Event::MessageUpdate { delta: next }) = (last, next)
    else {
        return false;
    };
    use StreamEvent::{TextDelta, ThinkingDelta, ToolCallDelta};
    match (last, next) {
        (
            TextDelta { index: a, delta },
            TextDelta {
                index: b,
                delta: more,
            },
        )
        | (
            ThinkingDelta { index: a, delta },
            ThinkingDelta {
                index: b,
                delta: more,
            },
        )
        | (
            ToolCallDelta { index: a, delta },
            ToolCallDelta {
                index: b,
                delta: more,
            },
        ) if a == b => {
            delta.push_str(more);
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delta(index: usize, text: &str) -> Event {
        Event::MessageUpdate {
            delta: StreamEvent::TextDelta {
                index,
                delta: text.into(),
            },
        }
    }

    fn drain(queue: &mut MergingQueue) -> Vec<String> {
        std::iter::from_fn(|| queue.pop())
            .map(|event| match event {
                Event::MessageUpdate {
                    delta: StreamEvent::TextDelta { index, delta },
                } => format!("{index}:{delta}"),
                other => other.name().to_owned(),
            })
            .collect()
    }

    #[test]
    fn a_reader_that_keeps_up_sees_every_delta() {
        let mut queue = MergingQueue::default();
        for _ in 0..MergingQueue::BEHIND {
            queue.push(delta(0, "a"));
        }
        assert_eq!(drain(&mut queue).len(), MergingQueue::BEHIND);
    }

    #[test]
    fn behind_it_deltas_of_one_block_merge_and_nothing_else_does() {
        let mut queue = MergingQueue::default();
        for _ in 0..MergingQueue::BEHIND {
            queue.push(Event::TurnStart);
        }
        for event in [
            delta(0, "a"),
            delta(0, "b"),
            delta(1, "c"),
            Event::TurnStart,
            delta(1, "d"),
        ] {
            queue.push(event);
        }
        let all = drain(&mut queue);
        assert_eq!(
            all[MergingQueue::BEHIND..],
            ["0:ab", "1:c", "turn_start", "1:d"]
        );
    }
}
