#![no_main]

#[path = "../../crates/routing/tests/smoke/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::compile(input));
