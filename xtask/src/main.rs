//! Checks over the repository.
fn main() {}
