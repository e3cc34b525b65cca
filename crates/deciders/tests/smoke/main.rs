//! Runs the fuzz targets for a moment: the corpus in `fuzz/corpus`, and mutations of it from a fixed seed, so
//! that a failure is reproducible.

mod checks;
#[path = "../../../../fuzz/smoke.rs"]
mod driver;

/// The number of mutations of each entry of a corpus.
const ROUNDS: u64 = 5_000;

/// Pieces with a meaning for the protocol.
const WORDS: &[&[u8]] = &[
    b"\x00\x00\x00\x00\x02\x0a\x00",
    b"\x00\x00\x00\x00\x02\x1a\x00",
    b"\x00\x00\x00\x00\x00",
    b"\x0a\x05:path",
    b"\x0a\x07:status",
    b"\x0a\x07:method",
    b"\x0a\x04host",
    b"\x0a\x0econtent-length",
    b"\x1a\x02\r\n",
    b"\x18\x03",
    b"\xff\xff\xff\xff\x0f",
    b"\x52\x02\x08\x01",
    b"\x4a\x02\x18\x01",
];

#[test]
fn ext_proc() {
    driver::smoke("ext_proc", ROUNDS, WORDS, checks::ext_proc);
}
