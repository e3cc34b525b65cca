//! Runs the fuzz target `compile` for a moment.

mod checks;
#[path = "../../../../fuzz/smoke.rs"]
mod driver;

/// Mutations of each entry of the corpus.
const ROUNDS: u64 = 1_500;

/// Pieces of text that occur in the corpus.
const WORDS: &[&[u8]] =
    &[b"\n", b"\n=", b"\n/", b"\n^/", b"\n? ", b"\n--\n", b"/", b"//", b"a", b"*.", b".", b":80", b" ", b"A"];

#[test]
fn models() {
    driver::smoke("compile", ROUNDS, WORDS, checks::compile);
}
