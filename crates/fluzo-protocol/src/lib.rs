//! What a front end may say and see.
//!
//! Inside, only deltas travel. [`PiWriter`] makes pi's full JSON form of an event when
//! it is written: with the whole partial message in every update.

mod command;
mod endpoint;
mod event;
mod queue;
mod snapshot;
mod writer;

pub use command::{Command, QueueBehavior, Response};
pub use endpoint::{Endpoint, EventSink, Prompt, RunReport, Submitted};
pub use event::Event;
pub use queue::{MergingQueue, Waiting};
pub use snapshot::Snapshot;
pub use writer::PiWriter;
