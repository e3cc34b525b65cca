#![no_main]

#[path = "../../crates/control/tests/smoke/tenants.rs"]
mod tenants;

libfuzzer_sys::fuzz_target!(|input: &[u8]| tenants::tenants(input));
