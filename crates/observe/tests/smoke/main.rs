//! Runs the fuzz target `log_format` for a short time.

mod checks;
#[path = "../../../../fuzz/smoke.rs"]
mod driver;

/// Mutations of each entry of the corpus.
const ROUNDS: u64 = 5_000;

/// Texts with a meaning in formats and log lines, which mutations insert.
const WORDS: &[&[u8]] = &[
    b"$",
    b"${",
    b"}",
    b"$request",
    b"$http_",
    b"$sent_http_x_y",
    b"\"",
    b"\\",
    b"\n",
    b"\r",
    b"\0",
    b"\x7f",
    b"\xff",
    b"\xe2\x80\xa8",
    b"\x1b[0m",
];

#[test]
fn formats() {
    driver::smoke("log_format", ROUNDS, WORDS, checks::log_format);
}
