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

/// The steering and the follow-up queue.
#[derive(Debug)]
pub(crate) struct Queues {
    steering_mode: QueueMode,
    follow_up_mode: QueueMode,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    steering: VecDeque<Arc<Message>>,
    follow_up: VecDeque<Arc<Message>>,
}

impl Queues {
    pub(crate) fn new(steering_mode: QueueMode, follow_up_mode: QueueMode) -> Self {
        Self {
            steering_mode,
            follow_up_mode,
            waiting: Mutex::default(),
        }
    }

    pub(crate) fn push(&self, input: Input) {
        self.with(|waiting| match input {
            Input::Steer(message) => waiting.steering.push_back(message),
            Input::FollowUp(message) => waiting.follow_up.push_back(message),
        });
    }

    pub(crate) fn poll_steering(&self) -> Vec<Arc<Message>> {
        self.with(|waiting| take(&mut waiting.steering, self.steering_mode))
    }

    pub(crate) fn poll_follow_up(&self) -> Vec<Arc<Message>> {
        self.with(|waiting| take(&mut waiting.follow_up, self.follow_up_mode))
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

fn take(queue: &mut VecDeque<Arc<Message>>, mode: QueueMode) -> Vec<Arc<Message>> {
    match mode {
        QueueMode::OneAtATime => queue.pop_front().into_iter().collect(),
        QueueMode::All => queue.drain(..).collect(),
    }
}
