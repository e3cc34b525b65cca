//! The requests to a mainline and to its canary, counted by all workers.
//!
//! Must not be in here: conclusions from the counts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets of times: eight for each power of two, so that a time is known to an eighth.
pub(super) const BUCKETS: usize = 8 * OCTAVES + 1;

/// Powers of two from the shortest time on: up to about two minutes.
const OCTAVES: usize = 21;

/// The upper end of the first bucket, in microseconds.
const FIRST_MICROS: u64 = 64;

/// One side of a comparison: the mainline or the canary.
#[derive(Debug)]
pub(super) struct Side {
    requests: AtomicU64,
    errors: AtomicU64,
    times: [AtomicU64; BUCKETS],
}

/// The end of a request, as far as a canary is judged by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RolloutOutcome {
    /// The endpoint or the way to it has failed the request.
    pub is_error: bool,
    /// Time from the request to the head of the response; none where there was none.
    pub time: Option<Duration>,
}

/// The counts of a side at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) requests: u64,
    pub(super) errors: u64,
    pub(super) times: [u64; BUCKETS],
}

impl Default for Side {
    fn default() -> Self {
        Self {
            requests: AtomicU64::default(),
            errors: AtomicU64::default(),
            times: std::array::from_fn(|_| AtomicU64::default()),
        }
    }
}

impl Default for Counts {
    fn default() -> Self {
        Self { requests: 0, errors: 0, times: [0; BUCKETS] }
    }
}

impl Side {
    /// Counts a request that has ended.
    pub(super) fn note(&self, outcome: RolloutOutcome) {
        if let Some(time) = outcome.time {
            self.times[bucket(time)].fetch_add(1, Ordering::Relaxed);
        }
        if outcome.is_error {
            self.errors.fetch_add(1, Ordering::Relaxed);
        }
        // Later than the others, so that a reader finds no more errors than requests.
        self.requests.fetch_add(1, Ordering::Release);
    }

    /// The counts so far.
    pub(super) fn counts(&self) -> Counts {
        let requests = self.requests.load(Ordering::Acquire);
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let times = std::array::from_fn(|bucket| load(&self.times[bucket]));
        Counts { requests, errors: load(&self.errors), times }
    }
}

impl Counts {
    /// The counts since an earlier moment.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let times = std::array::from_fn(|bucket| self.times[bucket].saturating_sub(earlier.times[bucket]));
        Self {
            requests: self.requests.saturating_sub(earlier.requests),
            errors: self.errors.saturating_sub(earlier.errors),
            times,
        }
    }

    /// Requests whose time is known, and those among them above a bucket.
    pub(super) fn above(&self, bucket: usize) -> (u64, u64) {
        let above = self.times.iter().skip(bucket + 1).sum();
        (self.times.iter().sum(), above)
    }
}

/// The bucket of a time.
pub(super) fn bucket(time: Duration) -> usize {
    let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    if micros < FIRST_MICROS {
        return 0;
    }
    let octave = (micros / FIRST_MICROS).ilog2();
    let eighth = (micros >> (octave + FIRST_MICROS.ilog2() - 3)) & 7;
    (1 + 8 * octave as usize + eighth as usize).min(BUCKETS - 1)
}

/// The time at which a bucket ends.
pub(super) fn end_of(bucket: usize) -> Duration {
    let Some(number) = bucket.checked_sub(1) else { return Duration::from_micros(FIRST_MICROS) };
    let begin = FIRST_MICROS << (number / 8);
    Duration::from_micros(begin + begin / 8 * (number as u64 % 8 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_known_to_an_eighth() {
        for micros in [0, 1, 63, 64, 65, 71, 72, 100, 128, 1_000, 12_345, 1_000_000, 60_000_000] {
            let time = Duration::from_micros(micros);
            let bucket = bucket(time);
            assert!(time < end_of(bucket), "{time:?} {bucket}");
            assert!(bucket == 0 || time >= end_of(bucket - 1), "{time:?} {bucket}");
            assert!(bucket == 0 || end_of(bucket) <= time.mul_f64(1.126), "{time:?} {bucket}");
        }
        assert_eq!(bucket(Duration::from_secs(100_000)), BUCKETS - 1);
    }

    #[test]
    fn counts_are_those_since_the_last_look() {
        let side = Side::default();
        let time = Some(Duration::from_millis(5));
        side.note(RolloutOutcome { is_error: true, time: None });
        let before = side.counts();
        side.note(RolloutOutcome { is_error: false, time });
        side.note(RolloutOutcome { is_error: true, time });
        let since = side.counts().since(&before);
        assert_eq!((since.requests, since.errors), (2, 1));
        let of_time = bucket(Duration::from_millis(5));
        assert_eq!((since.above(of_time), since.above(of_time - 1)), ((2, 0), (2, 2)));
    }
}
