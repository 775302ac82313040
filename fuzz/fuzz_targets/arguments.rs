//! The assembly of tool calls from fragments. The property is `fluzo_providers::fuzzing::arguments`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fluzo_providers::fuzzing::arguments(data));
