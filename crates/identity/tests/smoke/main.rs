//! Runs the fuzz target `token` for a short time.

mod checks;
#[path = "../../../../fuzz/smoke.rs"]
mod driver;

/// Mutations of each entry of the corpus.
const ROUNDS: u64 = 5_000;

/// Texts with a meaning in tokens, keys and rules, which mutations insert.
const WORDS: &[&[u8]] = &[
    b".",
    b"..",
    b"=",
    b"\"",
    b"\\u0000",
    b"{",
    b"}",
    b"[",
    b"]",
    b"eyJhbGciOiJub25lIn0",
    b"eyJhbGciOiJFUzI1NiJ9",
    b"\"kid\":\"1\",",
    b"\"kty\":\"oct\",",
    b"\"d\":\"AQ\",",
    b"claims.",
    b" and ",
    b" or not ",
    b" has \"a\"",
    b" in [1, 2]",
    b"(",
    b")",
    b"\n/a when ",
    b"-1e999",
    b"\xff",
];

#[test]
fn tokens() {
    driver::smoke("token", ROUNDS, WORDS, checks::token);
}
