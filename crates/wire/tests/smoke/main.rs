//! What the fuzz targets do, for a moment: the corpus that is kept in `fuzz/corpus`, and mutations of it from a fixed seed,
//! so that a failure comes again.

mod checks;

use std::fs;
use std::path::Path;

/// Mutations of each entry of a corpus.
const ROUNDS: u64 = 20_000;

/// Pieces that mean something to the parsers.
const WORDS: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b"\0",
    b" ",
    b"\t",
    b":",
    b";",
    b",",
    b"0\r\n",
    b"ffffffffffffffff",
    b"Content-Length: 1\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Connection: close, x\r\n",
    b"HTTP/1.0",
    b"http://a",
    b"%2e%2e",
    b"/../",
    b"%",
    b"\x16\x03\x01\x00\x01",
    b"\x00\x00\x00\x09\x00\x07\x00\x00\x04a.te",
    b"PROXY ",
    b"TCP6 ::1 ",
    b"UNKNOWN",
    b"65535",
    b"\r\n\r\n\x00\r\nQUIT\n",
    b"\x03\x00\x04",
];

/// `SplitMix64`: a seed, and the same numbers ever again.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        let (from, to) = (self.below(bytes.len() + 1), self.below(bytes.len() + 1));
        let (from, to) = (from.min(to), from.max(to));
        match self.below(5) {
            0 if from < bytes.len() => bytes[from] = self.below(256) as u8,
            1 => drop(bytes.drain(from..to.min(from + 8))),
            2 => {
                let piece = bytes[from..to].to_vec();
                bytes.splice(from..from, piece);
            }
            _ => {
                let word = WORDS[self.below(WORDS.len())];
                bytes.splice(from..from, word.iter().copied());
            }
        }
    }
}

fn smoke(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files: Vec<_> =
        fs::read_dir(&folder).expect("a corpus").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "no corpus in {}", folder.display());
    for file in files {
        let entry = fs::read(&file).expect("a file");
        check(&entry);
        for seed in 0..ROUNDS {
            let (mut random, mut bytes) = (Random(seed), entry.clone());
            for _ in 0..=random.below(4) {
                random.mutate(&mut bytes);
            }
            assert!(
                std::panic::catch_unwind(|| check(&bytes)).is_ok(),
                "{target}: {} with seed {seed}: {:?}",
                file.display(),
                String::from_utf8_lossy(&bytes)
            );
        }
    }
}

#[test]
fn request_heads() {
    smoke("request_head", checks::request_head);
}

#[test]
fn response_heads() {
    smoke("response_head", checks::response_head);
}

#[test]
fn chunked_bodies() {
    smoke("chunked", checks::chunked);
}

#[test]
fn paths() {
    smoke("path", checks::path);
}

#[test]
fn client_hellos() {
    smoke("client_hello", checks::client_hello);
}

#[test]
fn proxy_headers() {
    smoke("proxy_header", checks::proxy_header);
}

#[test]
fn http2_heads() {
    smoke("http2_head", checks::http2_head);
}

#[test]
fn http2_frames() {
    smoke("http2_frames", checks::http2_frames);
}
