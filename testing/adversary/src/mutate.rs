//! Bytes changed at random: flipped, left out, doubled, exchanged, put in.

use crate::Random;

/// Bytes that parsers tend to stumble over.
const AWKWARD: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b"\t",
    b":",
    b"\r\n\r\n",
    b"\xff",
    b"0",
    b"%00",
    b"..",
    b";",
    b",",
    b"\x7f",
    b"\x0b",
    b"99999999999999999999",
    b"-1",
    b"chunked",
    b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"\x80\x00",
];

/// Changes bytes in up to `max` places.
pub fn mutate(random: &mut Random, bytes: &mut Vec<u8>, max: usize) {
    for _ in 0..=random.below(max) {
        let at = random.below(bytes.len() + 1);
        let end = (at + 1 + random.below(8)).min(bytes.len());
        match random.below(6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 => drop(bytes.drain(at..end)),
            2 => {
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
            3 if at < bytes.len() => bytes[at] = random.number() as u8,
            4 if !bytes.is_empty() => {
                let (a, b) = (random.below(bytes.len()), random.below(bytes.len()));
                bytes.swap(a, b);
            }
            _ => {
                let awkward = *random.pick(AWKWARD);
                bytes.splice(at..at, awkward.iter().copied());
            }
        }
    }
}
