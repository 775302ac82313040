//! The program `fluzo`.
fn main() {}
