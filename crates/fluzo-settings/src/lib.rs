//! The registry of settings: every key with its type, default and meaning, and the
//! value that wins over several layers together with where it came from; also whether a
//! project is trusted. Pure.

mod kind;
pub mod legacy;
mod registry;
mod resolve;
pub mod trust;
mod unknown;

pub use kind::SettingKind;
pub use registry::{OPEN, Scope, SettingDef, find, key};
pub use resolve::{Problem, Settings, Source};
pub use trust::{ProjectTrust, TrustReason};
