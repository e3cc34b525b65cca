#![no_main]

#[path = "../../crates/waf/tests/smoke/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::waf_rules(input));
