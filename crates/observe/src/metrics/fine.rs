//! A fine histogram of times beside those of `/metrics`, for the console and `top`. It has two buckets for
//! each power of two, so that its index comes from the leading zeros of the value, and its bounds are never
//! configured.

use std::sync::atomic::{AtomicU32, Ordering};

/// Times below three quarters of twice this many nanoseconds share the first bucket: 2^14 ns are 16 µs.
const SMALLEST: u32 = 14;

/// Powers of two with buckets of their own. The last bucket, from 51 s, has no upper bound.
const POWERS: u32 = 22;

/// Buckets of a fine histogram.
pub(super) const BUCKETS: usize = POWERS as usize * 2;

/// Counts of times by bucket. One worker writes them. A count wraps after 2^32 requests, which differences
/// between two reads survive.
#[derive(Debug)]
pub(super) struct FineTimes([AtomicU32; BUCKETS]);

impl Default for FineTimes {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU32::new(0)))
    }
}

impl FineTimes {
    pub(super) fn count(&self, bucket: usize) {
        let cell = &self.0[bucket];
        cell.store(cell.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// The present counts.
    pub(super) fn get(&self) -> [u32; BUCKETS] {
        std::array::from_fn(|at| self.0[at].load(Ordering::Relaxed))
    }
}

/// The bucket of a time: its power of two, and the bit below the leading one.
pub(super) fn bucket(nanoseconds: u64) -> usize {
    let value = nanoseconds.max(1 << SMALLEST);
    let power = value.ilog2();
    let half = (value >> (power - 1)) & 1;
    (((power - SMALLEST) as usize) << 1 | half as usize).min(BUCKETS - 1)
}

/// Upper bounds of the buckets in seconds; one more bucket has none.
pub(super) fn bounds() -> Vec<f64> {
    let lower_bound = |at: usize| ((2 + (at as u64 & 1)) << (SMALLEST as usize + at / 2 - 1)) as f64;
    (1..BUCKETS).map(|at| lower_bound(at) / 1e9).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_between_the_bounds_of_its_bucket() {
        let bounds = bounds();
        assert_eq!(bounds.len(), BUCKETS - 1);
        for nanoseconds in
            (0..40).flat_map(|power| [1 << power, (1_u64 << power) * 5 / 4, (1 << power) * 7 / 4])
        {
            let at = bucket(nanoseconds);
            let seconds = nanoseconds as f64 / 1e9;
            assert!(at == 0 || bounds[at - 1] <= seconds, "{nanoseconds} ns is below bucket {at}");
            assert!(
                bounds.get(at).is_none_or(|bound| seconds < *bound),
                "{nanoseconds} ns is above bucket {at}"
            );
        }
        assert_eq!((bucket(u64::MAX), bucket(0)), (BUCKETS - 1, 0));
    }

    #[test]
    fn bounds_are_close_to_each_other() {
        let all = bounds();
        assert!(all[0] < 25e-6 && all[BUCKETS - 2] > 50.0);
        assert!(all.windows(2).all(|pair| pair[1] > pair[0] && pair[1] <= pair[0] * 1.5));
    }
}
