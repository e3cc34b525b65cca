//! Cheap random numbers for balancing and request ids; nothing secret depends on them.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

/// `SplitMix64` (Steele, Lea, Flood 2014), seeded by the operating system.
pub(crate) struct Random(Cell<u64>);

impl Random {
    pub(crate) fn new() -> Self {
        Self(Cell::new(RandomState::new().hash_one(0)))
    }

    #[cfg(test)]
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(Cell::new(seed))
    }

    pub(crate) fn next(&self) -> u64 {
        let state = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which must not be zero.
    pub(crate) fn below(&self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// 32 hexadecimal digits, as `X-Request-ID` has them.
    pub(crate) fn hex_id(&self) -> [u8; 32] {
        let mut id = [0; 32];
        for half in id.chunks_exact_mut(16) {
            let mut number = self.next();
            for digit in half {
                *digit = b"0123456789abcdef"[number as usize & 15];
                number >>= 4;
            }
        }
        id
    }
}
