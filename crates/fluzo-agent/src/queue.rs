//! Queues of messages that wait for a run to take them in.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use fluzo_llm::Message;

use crate::Input;

/// How much of a queue one poll takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum QueueMode {
    /// The oldest message.
    #[default]
    OneAtATime,
    /// All messages.
    All,
}

/// What waits in both queues.
#[derive(Debug, Clone, Default)]
pub struct QueueSnapshot {
    /// Taken in after the current turn.
    pub steering: Vec<Arc<Message>>,
    /// Taken in when the run would end.
    pub follow_up: Vec<Arc<Message>>,
}

impl QueueSnapshot {
    /// What waits, as it was put in.
    pub fn inputs(self) -> impl Iterator<Item = Input> {
        let steering = self.steering.into_iter().map(Input::Steer);
        steering.chain(self.follow_up.into_iter().map(Input::FollowUp))
    }
}

/// The steering and the follow-up queue.
#[derive(Debug)]
pub(crate) struct Queues {
    waiting: Mutex<Waiting>,
}

/// One of the two queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Taken in after the current turn.
    Steering,
    /// Taken in when the run would end.
    FollowUp,
}

/// Messages that a run is taking in. Those that came from a queue and are not stored
/// when this is dropped go back to its front: a run that is dropped or halts loses none.
pub(crate) struct Taken {
    from: Option<(Arc<Queues>, Lane)>,
    messages: VecDeque<Arc<Message>>,
}

#[derive(Debug, Default)]
struct Waiting {
    steering: VecDeque<Arc<Message>>,
    follow_up: VecDeque<Arc<Message>>,
    modes: (QueueMode, QueueMode),
}

impl Queues {
    pub(crate) fn new(steering_mode: QueueMode, follow_up_mode: QueueMode) -> Self {
        let queues = Self {
            waiting: Mutex::default(),
        };
        queues.set_modes(steering_mode, follow_up_mode);
        queues
    }

    /// How much one poll of each queue takes from here on.
    pub(crate) fn set_modes(&self, steering: QueueMode, follow_up: QueueMode) {
        self.with(|waiting| waiting.modes = (steering, follow_up));
    }

    pub(crate) fn push(&self, input: Input) {
        self.with(|waiting| match input {
            Input::Steer(message) => waiting.steering.push_back(message),
            Input::FollowUp(message) => waiting.follow_up.push_back(message),
        });
    }

    /// Takes what one poll of `lane` gives.
    pub(crate) fn poll(self: &Arc<Self>, lane: Lane) -> Taken {
        let messages = self.with(|waiting| match lane {
            Lane::Steering => take(&mut waiting.steering, waiting.modes.0),
            Lane::FollowUp => take(&mut waiting.follow_up, waiting.modes.1),
        });
        Taken {
            from: Some((Arc::clone(self), lane)),
            messages,
        }
    }

    pub(crate) fn snapshot(&self) -> QueueSnapshot {
        self.with(|waiting| QueueSnapshot {
            steering: waiting.steering.iter().cloned().collect(),
            follow_up: waiting.follow_up.iter().cloned().collect(),
        })
    }

    pub(crate) fn clear(&self) -> QueueSnapshot {
        self.with(|waiting| QueueSnapshot {
            steering: waiting.steering.drain(..).collect(),
            follow_up: waiting.follow_up.drain(..).collect(),
        })
    }

    fn with<R>(&self, f: impl FnOnce(&mut Waiting) -> R) -> R {
        f(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn take(queue: &mut VecDeque<Arc<Message>>, mode: QueueMode) -> VecDeque<Arc<Message>> {
    match mode {
        QueueMode::OneAtATime => queue.pop_front().into_iter().collect(),
        QueueMode::All => std::mem::take(queue),
    }
}

impl Taken {
    /// Messages that came from no queue.
    pub(crate) fn given(messages: Vec<Arc<Message>>) -> Self {
        Self {
            from: None,
            messages: messages.into(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// The next message; it stays until [`Taken::stored`].
    pub(crate) fn next(&self) -> Option<Arc<Message>> {
        self.messages.front().cloned()
    }

    /// The next message is stored.
    pub(crate) fn stored(&mut self) {
        self.messages.pop_front();
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let Some((queues, lane)) = &self.from else {
            return;
        };
        let left = std::mem::take(&mut self.messages);
        queues.with(|waiting| {
            let queue = match lane {
                Lane::Steering => &mut waiting.steering,
                Lane::FollowUp => &mut waiting.follow_up,
            };
            left.into_iter()
                .rev()
                .for_each(|message| queue.push_front(message));
        });
    }
}
