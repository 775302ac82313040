//! A whole response in any dialect. The property is `fluzo_providers::fuzzing::response`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fluzo_providers::fuzzing::response(data));
