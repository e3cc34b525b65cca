//! Random numbers: cheap ones for balancing, unpredictable ones for request ids.

use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher, RandomState};

/// A worker's source of random numbers.
pub struct Random {
    /// `SplitMix64` (Steele, Lea, Flood 2014), seeded by the operating system. Nothing secret depends on it.
    state: Cell<u64>,
    ids: RefCell<Ids>,
}

/// Unused bytes of a cryptographic generator, fetched many at a time, since a call costs far more than the
/// bytes.
struct Ids {
    bytes: [u8; ID_BYTES * IDS_AHEAD],
    used: usize,
}

const ID_BYTES: usize = 16;
const IDS_AHEAD: usize = 64;

impl Random {
    /// A generator with a seed from the operating system.
    #[expect(clippy::new_without_default, reason = "two of them are different")]
    pub fn new() -> Self {
        Self::from_state(RandomState::new().hash_one(0))
    }

    /// A generator whose numbers, but for the ids, are always the same for a seed: for simulations.
    pub fn seeded(seed: u64) -> Self {
        Self::from_state(seed)
    }

    fn from_state(state: u64) -> Self {
        let bytes = [0; ID_BYTES * IDS_AHEAD];
        Self { state: Cell::new(state), ids: RefCell::new(Ids { bytes, used: bytes.len() }) }
    }

    /// A number of 64 bits.
    #[inline]
    pub fn next(&self) -> u64 {
        let state = self.state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.state.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which must not be zero.
    #[inline]
    pub fn below(&self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// A number from 0 up to, but not including, 1.
    #[inline]
    pub fn chance(&self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// 16 bytes of the cryptographic generator: they cannot be predicted from earlier ones.
    pub fn id(&self) -> [u8; ID_BYTES] {
        self.ids.borrow_mut().take()
    }

    /// An [`id`](Self::id) as 32 hexadecimal digits, the form of `X-Request-ID`.
    pub fn hex_id(&self) -> [u8; 2 * ID_BYTES] {
        let mut id = [0; 2 * ID_BYTES];
        for (digits, byte) in id.chunks_exact_mut(2).zip(self.id()) {
            digits.copy_from_slice(&HEX[usize::from(byte)]);
        }
        id
    }
}

impl Ids {
    fn take(&mut self) -> [u8; ID_BYTES] {
        if self.used == self.bytes.len() {
            aws_lc_rs::rand::fill(&mut self.bytes)
                .expect("aws-lc aborts where the system has no random numbers");
            self.used = 0;
        }
        let mut id = [0; ID_BYTES];
        id.copy_from_slice(&self.bytes[self.used..][..ID_BYTES]);
        self.used += ID_BYTES;
        id
    }
}

/// The two hexadecimal digits of each byte.
static HEX: [[u8; 2]; 256] = {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut hex = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        hex[byte] = [DIGITS[byte >> 4], DIGITS[byte & 15]];
        byte += 1;
    }
    hex
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_hexadecimal_and_none_comes_twice() {
        let random = Random::seeded(7);
        let ids: std::collections::HashSet<_> = (0..3 * IDS_AHEAD).map(|_| random.hex_id()).collect();
        assert_eq!(ids.len(), 3 * IDS_AHEAD);
        assert!(ids.iter().flatten().all(|digit| digit.is_ascii_digit() || (b'a'..=b'f').contains(digit)));
    }

    #[test]
    fn ids_do_not_follow_from_what_balancing_uses() {
        assert_ne!(Random::seeded(7).hex_id(), Random::seeded(7).hex_id());
    }
}
