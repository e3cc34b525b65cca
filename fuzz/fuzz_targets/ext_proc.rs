#![no_main]

#[path = "../../crates/deciders/tests/smoke/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::ext_proc(input));
