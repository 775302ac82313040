//! The seven built-in tools: read, bash, edit, write, grep, find, ls.
//!
//! Tools reach files and processes only through the traits of `fluzo-exec`, and know
//! their limits only as values handed in. Texts that the model sees are pi's.

mod env;
mod paths;

pub use env::{BashEnvironment, SpillPolicy, ToolEnv, ToolLimits};
