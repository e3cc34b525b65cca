//! Sets of bytes.
//!
//! Never in here: positions.

/// A set of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ByteSet([u64; 4]);

impl ByteSet {
    /// All bytes outside of ASCII.
    pub(crate) const HIGH: ByteSet = ByteSet([0, 0, u64::MAX, u64::MAX]);

    /// Letters, digits, and what else nearly every text has: their presence says little.
    pub(crate) const PLAIN: ByteSet =
        ByteSet::constant(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.");

    /// Quotes, brackets, and other signs that most values have none of.
    pub(crate) const RARE: ByteSet = ByteSet::constant(b"\"'`()[]{}<>\\$|&;!*?^~#@%");

    /// The set of some bytes, as a constant.
    pub(crate) const fn constant(bytes: &[u8]) -> ByteSet {
        let mut words = [0u64; 4];
        let mut index = 0;
        while index < bytes.len() {
            words[(bytes[index] >> 6) as usize] |= 1 << (bytes[index] & 63);
            index += 1;
        }
        ByteSet(words)
    }

    /// The set of the bytes that a text has.
    pub(crate) fn of(text: &[u8]) -> ByteSet {
        // Neighbours go to different words, so that one does not wait for the other.
        let mut lanes = [ByteSet::default(); 4];
        let (groups, rest) = text.as_chunks::<4>();
        for group in groups {
            for (lane, &byte) in lanes.iter_mut().zip(group) {
                lane.insert(byte);
            }
        }
        for &byte in rest {
            lanes[0].insert(byte);
        }
        lanes[0].union(&lanes[1]).union(&lanes[2].union(&lanes[3]))
    }

    /// Adds one byte.
    pub(crate) fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    /// Adds all bytes of a range.
    pub(crate) fn insert_range(&mut self, range: std::ops::RangeInclusive<u8>) {
        for byte in range {
            self.insert(byte);
        }
    }

    /// True if the byte is in the set.
    pub(crate) const fn contains(&self, byte: u8) -> bool {
        self.0[(byte >> 6) as usize] & (1 << (byte & 63)) != 0
    }

    /// True if a byte is in both sets.
    pub(crate) fn meets(&self, other: &ByteSet) -> bool {
        self.0.iter().zip(other.0).any(|(one, two)| one & two != 0)
    }

    /// The bytes that are not in the other set.
    pub(crate) fn without(mut self, other: &ByteSet) -> ByteSet {
        for (one, two) in self.0.iter_mut().zip(other.0) {
            *one &= !two;
        }
        self
    }

    /// The bytes of both sets.
    pub(crate) fn union(mut self, other: &ByteSet) -> ByteSet {
        for (one, two) in self.0.iter_mut().zip(other.0) {
            *one |= two;
        }
        self
    }

    /// The bytes in their order.
    pub(crate) fn iter(self) -> impl Iterator<Item = u8> {
        self.0.into_iter().enumerate().flat_map(|(index, mut word)| {
            std::iter::from_fn(move || {
                let bit = (word != 0).then(|| word.trailing_zeros())?;
                word &= word - 1;
                Some((index as u32 * 64 + bit) as u8)
            })
        })
    }
}

impl FromIterator<u8> for ByteSet {
    fn from_iter<I: IntoIterator<Item = u8>>(bytes: I) -> ByteSet {
        let mut set = ByteSet::default();
        for byte in bytes {
            set.insert(byte);
        }
        set
    }
}
