//! Sessions: entries in a tree, context building, migrations, forks, and the stores
//! that keep them (pi's JSONL format, version 3, and memory).
//!
//! [`Session`] is the handle that a host uses. Time and ids come in as values; the
//! only module that touches files is [`jsonl`].

#[doc(hidden)]
pub mod conformance;
pub mod context;
pub mod cut;
pub mod entry;
pub mod fork;
pub mod index;
pub mod jsonl;
pub mod memory;
pub mod session;
pub mod stats;
pub mod store;
pub mod tree;

pub use context::SessionContext;
pub use cut::{Cut, CutError, Keep};
pub use entry::{Compaction, Entry, EntryKind, Header};
pub use fork::{Fork, ForkError};
pub use index::{Index, Node, NodeKind, Role};
pub use jsonl::JsonlStore;
pub use memory::MemoryStore;
pub use session::Session;
pub use stats::{ContextUsage, Stats};
pub use store::{
    Change, Claimed, Damage, DamageReason, DamageReport, Durability, Notice, SessionStore,
    StoreError,
};
