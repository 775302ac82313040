//! Tests of pages.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::disallowed_methods, reason = "tests make session files")]

mod attack;
mod html;
mod page;
mod size;
mod support;
