//! The server-sent-events parser. The property is `fluzo_providers::fuzzing::stream`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fluzo_providers::fuzzing::stream(data));
