//! The registry of settings: every key with its type, default and meaning, and the
//! value that wins over several layers together with where it came from. Pure.

mod registry;
mod resolve;

pub use registry::{OPEN, SettingDef, SettingKind, key};
pub use resolve::{Problem, Settings, Source};
