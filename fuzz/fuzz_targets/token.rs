#![no_main]

#[path = "../../crates/identity/tests/smoke/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::token(input));
