//! Runs the fuzz target `expression` for a short time.

mod checks;
#[path = "../../../../fuzz/smoke.rs"]
mod driver;

/// Mutations of each entry of the corpus. An expression takes a while to compile.
const ROUNDS: u64 = 150;

/// Texts with a meaning in expressions, which mutations insert.
const WORDS: &[&[u8]] = &[
    b"|",
    b"(",
    b")",
    b"(?:",
    b"(?!",
    b"(?=",
    b"(?<=",
    b"(?i)",
    b"(?-i)",
    b"(?<n>",
    b"[",
    b"]",
    b"[^",
    b"*",
    b"+",
    b"?",
    b"{2}",
    b"{1,3}",
    b"^",
    b"$",
    b"\\",
    b"\\1",
    b"\\d",
    b"\\b",
    b"\\Q",
    b"\\E",
    b".",
    b"/",
    b"\n",
    b"\xff",
    b"\xc3\xa9",
    b"a",
    b"A",
];

#[test]
fn expressions() {
    driver::smoke("expression", ROUNDS, WORDS, checks::expression);
}
