#![no_main]

#[path = "../../crates/observe/tests/smoke/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::log_format(input));
