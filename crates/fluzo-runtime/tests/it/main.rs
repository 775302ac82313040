//! Effects of the runtime: keys, spans, records and the manual drive.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods
)]

mod branch_summary;
mod compact;
mod compact_again;
mod compacting;
mod drive;
mod keys;
mod operations;
mod provider_attempts;
mod records;
mod retry;
mod spans;
