//! Tests of the agent loop over doubles: no executor, no network, no clock.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod aborts;
mod arguments;
mod batch;
mod checklist;
mod conformance;
mod gate;
mod hooks;
mod loops;
mod persistence;
mod queues;
mod random;
mod results;
mod sequences;
mod stage;
mod state;
mod streams;
