#![no_main]

#[path = "../../crates/model/tests/smoke/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::expression(input));
