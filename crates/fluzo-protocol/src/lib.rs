//! What a front end may say and see.
//!
//! Inside, only deltas travel. [`PiWriter`] makes pi's full JSON form of an event when
//! it is written: with the whole partial message in every update.

mod command;
mod endpoint;
mod event;
mod queue;
mod slash;
mod snapshot;
mod writer;

pub use command::{Command, Direction, DrainMode, QueueBehavior, Response};
pub use endpoint::{Endpoint, EventSink, Executed, Prompt, RunReport, Submitted};
pub use event::{CompactionReason, CompactionResult, Event};
pub use queue::{MergingQueue, Waiting};
pub use slash::{Invocation, SLASH_COMMANDS, SlashCommand};
pub use snapshot::Snapshot;
pub use writer::PiWriter;
