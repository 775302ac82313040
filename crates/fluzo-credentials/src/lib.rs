//! Keys and sign-ins: where what authorises a request comes from, and how it is renewed.
//!
//! Files, processes, sockets, the clock and randomness enter as the traits of [`outside`] or
//! as values; nothing here opens one. No error, log or `Debug` output holds a secret.

pub mod auth_json;
pub mod env_file;
pub mod governed;
pub mod oauth;
pub mod outside;
mod ring;
mod secret_value;
mod sign_ins;
mod store;

pub use ring::{Available, Environment, KeyRing};
pub use secret_value::SecretValue;
pub use sign_ins::SignIns;
pub use store::{AuthStore, StoreError};
