#![no_main]

#[path = "../../crates/control/tests/smoke/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::translate(input));
