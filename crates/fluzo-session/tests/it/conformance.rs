//! Both stores pass the suite.

use fluzo_session::conformance::run;

use crate::support::{Files, Memory};

#[test]
fn jsonl_store_passes_the_suite() {
    run(&Files::new(), &|name| println!("{name}"));
}

#[test]
fn memory_store_passes_the_suite() {
    run(&Memory, &|name| println!("{name}"));
}
