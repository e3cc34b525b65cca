//! The layout of histograms in the cells of a series.

use super::CacheResult;
use super::local_counter::LocalCounter;
use super::names::{self, Metric};
use super::options::MetricsOptions;

/// The unit of a histogram's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Nanoseconds,
    Bytes,
}

/// One histogram of a series: a sum, then a cell for each bucket, which are not cumulative.
#[derive(Debug)]
pub(super) struct Histogram {
    pub(super) metric: &'static Metric,
    pub(super) unit: Unit,
    /// Upper bounds as configured, in seconds or bytes.
    pub(super) bounds: Vec<f64>,
    /// Upper bounds in the unit of the values.
    limits: Box<[u64]>,
    /// The lowest possible bucket of a value, by the number of its bits. The search starts there.
    first_bucket: [u16; u64::BITS as usize + 1],
    sum: usize,
}

/// The histograms of a series, one after the other in its cells.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) request_duration: Histogram,
    pub(super) response_duration: Histogram,
    pub(super) header_duration: Histogram,
    pub(super) connect_duration: Histogram,
    pub(super) request_size: Histogram,
    pub(super) response_size: Histogram,
    pub(super) bytes_sent: Histogram,
    /// Index of the first cell of the cache results.
    pub(super) cache: usize,
    pub(super) cells: usize,
}

impl Layout {
    pub(super) fn new(options: &MetricsOptions) -> Self {
        let mut cells = 0;
        let mut time = |metric| Histogram::new(metric, Unit::Nanoseconds, &options.time_buckets, &mut cells);
        let request_duration = time(&names::REQUEST_DURATION);
        let response_duration = time(&names::RESPONSE_DURATION);
        let header_duration = time(&names::HEADER_DURATION);
        let connect_duration = time(&names::CONNECT_DURATION);
        let mut bytes = |metric, bounds| Histogram::new(metric, Unit::Bytes, bounds, &mut cells);
        let request_size = bytes(&names::REQUEST_SIZE, &options.length_buckets);
        let response_size = bytes(&names::RESPONSE_SIZE, &options.length_buckets);
        let bytes_sent = bytes(&names::BYTES_SENT, &options.size_buckets);
        Self {
            request_duration,
            response_duration,
            header_duration,
            connect_duration,
            request_size,
            response_size,
            bytes_sent,
            cache: cells,
            cells: cells + CacheResult::ALL.len(),
        }
    }

    pub(super) fn histograms(&self) -> [&Histogram; 7] {
        [
            &self.request_duration,
            &self.response_duration,
            &self.header_duration,
            &self.connect_duration,
            &self.request_size,
            &self.response_size,
            &self.bytes_sent,
        ]
    }
}

impl Histogram {
    /// A histogram whose cells follow the `cells` that are already assigned; `cells` is advanced past them.
    pub(super) fn new(metric: &'static Metric, unit: Unit, bounds: &[f64], cells: &mut usize) -> Self {
        let mut bounds = bounds.to_vec();
        bounds.sort_by(f64::total_cmp);
        bounds.dedup();
        let sum = *cells;
        *cells += 1 + bounds.len() + 1;
        let limits: Box<[u64]> = bounds.iter().map(|bound| unit.limit(*bound)).collect();
        let first_bucket = std::array::from_fn(|bits| {
            let smallest = if bits == 0 { 0 } else { 1 << (bits - 1) };
            u16::try_from(limits.partition_point(|limit| *limit < smallest)).unwrap_or(u16::MAX)
        });
        Self { metric, unit, bounds, limits, first_bucket, sum }
    }

    pub(super) fn observe(&self, cells: &[LocalCounter], value: u64) {
        cells[self.sum].add(value);
        cells[self.sum + 1 + self.bucket(value)].inc();
    }

    /// Index of the bucket of a value. Most durations are in the first one. For sizes, the search starts at
    /// the first bucket for their number of bits: by default 1,180 bytes then take no comparison instead of
    /// ten.
    #[inline]
    fn bucket(&self, value: u64) -> usize {
        if self.limits.first().is_some_and(|limit| value <= *limit) {
            return 0;
        }
        let first = usize::from(self.first_bucket[(u64::BITS - value.leading_zeros()) as usize]);
        let beyond = self.limits.get(first..).unwrap_or_default();
        first + beyond.iter().position(|limit| value <= *limit).unwrap_or(beyond.len())
    }

    /// The cells of the histogram among those of a series.
    pub(super) fn cells(&self) -> std::ops::Range<usize> {
        self.sum..self.sum + 1 + self.limits.len() + 1
    }

    /// The cells of its buckets among those of a series.
    pub(super) fn bucket_cells(&self) -> std::ops::Range<usize> {
        self.sum + 1..self.cells().end
    }

    /// The cell with the sum of all values.
    pub(super) fn sum_cell(&self) -> usize {
        self.sum
    }

    pub(super) fn sum(&self, cells: &[u64]) -> u64 {
        cells[self.sum]
    }

    /// The number of values in each bucket; the last bucket has no upper bound.
    pub(super) fn buckets<'a>(&self, cells: &'a [u64]) -> &'a [u64] {
        &cells[self.sum + 1..][..=self.limits.len()]
    }
}

impl Unit {
    #[expect(clippy::cast_sign_loss, reason = "a cast saturates, and no value is below zero")]
    fn limit(self, bound: f64) -> u64 {
        match self {
            Self::Nanoseconds => (bound * 1e9).round() as u64,
            Self::Bytes => bound.floor() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_the_bucket_below_it() {
        let mut cells = 3;
        let histogram = Histogram::new(&names::REQUEST_SIZE, Unit::Bytes, &[20.0, 10.0], &mut cells);
        assert_eq!(cells, 3 + 1 + 3);
        let tallies: Vec<LocalCounter> = (0..cells).map(|_| LocalCounter::default()).collect();
        for value in [0, 10, 11, 20, 21, 1000] {
            histogram.observe(&tallies, value);
        }
        let values: Vec<u64> = tallies.iter().map(LocalCounter::get).collect();
        assert_eq!(histogram.buckets(&values), [2, 2, 2]);
        assert_eq!(histogram.sum(&values), 1062);
    }

    #[test]
    fn seconds_are_counted_in_nanoseconds() {
        assert_eq!(Unit::Nanoseconds.limit(0.005), 5_000_000);
        assert_eq!(Unit::Bytes.limit(10.5), 10);
    }
}
