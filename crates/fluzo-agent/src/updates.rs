//! Partial results on their way from running tools to the loop.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use fluzo_llm::ToolOutput;

/// Updates of one call that wait at the same time; beyond it the newest replaces the one before.
const WAITING_PER_CALL: usize = 4;

/// Takes partial results of one call. Never blocks and never grows without bound:
/// when the loop is behind, a newer result takes the place of the last waiting one.
#[derive(Debug, Clone)]
pub struct UpdateSink {
    call: usize,
    inbox: Inbox,
}

/// Where the loop finds the updates of a batch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Inbox(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    queue: VecDeque<(usize, ToolOutput)>,
    waker: Option<Waker>,
}

impl UpdateSink {
    /// A sink whose updates nobody reads; for running a tool outside a loop.
    pub fn discarding() -> Self {
        Inbox::default().sink(0)
    }

    /// Offers a partial result.
    pub fn send(&self, partial: ToolOutput) {
        let waker = self.inbox.with(|waiting| {
            waiting.put(self.call, partial);
            waiting.waker.take()
        });
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Inbox {
    /// The sink of call number `call`.
    pub(crate) fn sink(&self, call: usize) -> UpdateSink {
        UpdateSink {
            call,
            inbox: self.clone(),
        }
    }

    /// The next update, if one waits.
    pub(crate) fn take(&self) -> Option<(usize, ToolOutput)> {
        self.with(|waiting| waiting.queue.pop_front())
    }

    /// Ready with the next update; else wakes when one comes.
    pub(crate) fn poll_take(&self, context: &mut Context<'_>) -> Poll<(usize, ToolOutput)> {
        self.with(|waiting| match waiting.queue.pop_front() {
            Some(update) => Poll::Ready(update),
            None => {
                waiting.waker = Some(context.waker().clone());
                Poll::Pending
            }
        })
    }

    fn with<R>(&self, f: impl FnOnce(&mut Waiting) -> R) -> R {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Waiting {
    fn put(&mut self, call: usize, partial: ToolOutput) {
        let of_call = self.queue.iter().filter(|(c, _)| *c == call).count();
        if of_call >= WAITING_PER_CALL
            && let Some(last) = self.queue.iter_mut().rev().find(|(c, _)| *c == call)
        {
            last.1 = partial;
            return;
        }
        self.queue.push_back((call, partial));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_updates_are_bounded_and_the_newest_survives() {
        let inbox = Inbox::default();
        let (a, b) = (inbox.sink(0), inbox.sink(1));
        b.send(ToolOutput::text("b"));
        (0..100).for_each(|n| a.send(ToolOutput::text(n.to_string())));
        let texts: Vec<_> = std::iter::from_fn(|| inbox.take())
            .map(|(call, out)| (call, fluzo_llm::content::joined_text(&out.content)))
            .collect();
        let expected = [(1, "b"), (0, "0"), (0, "1"), (0, "2"), (0, "99")];
        assert_eq!(texts, expected.map(|(c, t)| (c, t.to_owned())));
    }
}
