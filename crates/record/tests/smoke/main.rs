//! Runs the fuzz target for a moment: the corpus in `fuzz/corpus`, and mutations of it from a fixed seed, so
//! that a failure is reproducible.

mod checks;
#[path = "../../../../fuzz/smoke.rs"]
mod driver;

/// The number of mutations of each entry of the corpus.
const ROUNDS: u64 = 3_000;

/// Pieces with a meaning: numbers, marks of numbers in shapes, entries.
const WORDS: &[&[u8]] = &[
    b"\x00",
    b"\x01",
    b"\x03\x01\x00",
    b"\x05\x02\x04\x01",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\xff\xff\x3f",
    b"FBBK",
    b"FBRECO\n\x01",
    b"\x01\x03\x01\x02\x01\n\x00\x00\x01\x00",
];

#[test]
fn record() {
    driver::smoke("record", ROUNDS, WORDS, checks::record);
}
