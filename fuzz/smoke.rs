//! What a fuzz target does, for a moment, in a test of its crate: the corpus in `fuzz/corpus`, and mutations of it from fixed
//! seeds, so that a failure comes again. `words` are pieces that mean something to what is tested.

use std::fs;
use std::path::Path;

/// `SplitMix64`: a seed, and the same numbers ever again.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>, words: &[&[u8]]) {
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
                let word = words[self.below(words.len())];
                bytes.splice(from..from, word.iter().copied());
            }
        }
    }
}

/// Checks the corpus of a target, and so many mutations of each of its entries.
pub(crate) fn smoke(target: &str, rounds: u64, words: &[&[u8]], check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files: Vec<_> =
        fs::read_dir(&folder).expect("a corpus").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "no corpus in {}", folder.display());
    for file in files {
        let entry = fs::read(&file).expect("a file");
        check(&entry);
        for seed in 0..rounds {
            let (mut random, mut bytes) = (Random(seed), entry.clone());
            for _ in 0..=random.below(4) {
                random.mutate(&mut bytes, words);
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
