//! What a tool call touches and whether it may. Pure: no I/O, no clock, no state
//! but what is passed in.

mod access;
mod decision;

pub use access::{Access, PathOperation};
pub use decision::{AccessRequest, AllowAll, Decision, Policy};
