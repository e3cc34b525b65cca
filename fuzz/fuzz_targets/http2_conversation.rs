#![no_main]

#[path = "../../crates/wire/tests/smoke/conversation.rs"]
mod conversation;

libfuzzer_sys::fuzz_target!(|input: &[u8]| conversation::http2_conversation(input));
