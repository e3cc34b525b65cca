//! Random numbers from a seed, the same on every machine.

/// A generator of numbers (Steele, Lea, Flood: splitmix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Random {
    /// Numbers of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Numbers of one case of an attack: another seed, name or number gives others.
    pub fn of_case(seed: u64, name: &str, number: u64) -> Self {
        let name = name.bytes().fold(0_u64, |sum, byte| mix(sum ^ u64::from(byte)));
        Self(mix(mix(seed.wrapping_add(STEP)) ^ name) ^ mix(number.wrapping_mul(STEP)))
    }

    /// A random number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number below a limit, which is not zero.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.number() % limit as u64) as usize
    }

    /// True once in so many times.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of several.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// So many bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.number() as u8).collect()
    }

    /// Cuts bytes into at most so many pieces at random places.
    pub fn pieces(&mut self, bytes: &[u8], max: usize) -> Vec<Vec<u8>> {
        let mut cuts: Vec<usize> = (0..self.below(max)).map(|_| self.below(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|ends| bytes[ends[0]..ends[1]].to_vec());
        pieces.filter(|piece| !piece.is_empty()).collect()
    }
}

fn mix(mut number: u64) -> u64 {
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_the_same_each_time_and_unlike_others() {
        let first = |seed, name, number| Random::of_case(seed, name, number).number();
        assert_eq!(first(1, "a", 2), first(1, "a", 2));
        let others = [first(2, "a", 2), first(1, "b", 2), first(1, "a", 3)];
        assert!(!others.contains(&first(1, "a", 2)));
    }

    #[test]
    fn pieces_are_the_whole() {
        let mut random = Random::new(7);
        for len in 0..50 {
            let bytes = random.bytes(len);
            assert_eq!(random.pieces(&bytes, 5).concat(), bytes);
        }
    }
}
