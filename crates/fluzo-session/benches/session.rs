//! Append and open.
fn main() {}
