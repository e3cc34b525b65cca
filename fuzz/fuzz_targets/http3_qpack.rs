#![no_main]

#[path = "../../crates/wire/tests/smoke/checks.rs"]
#[allow(dead_code, reason = "one target calls one of the checks")]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::http3_qpack(input));
