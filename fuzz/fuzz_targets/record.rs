#![no_main]

#[path = "../../crates/record/tests/smoke/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::record(input));
