//! Quantiles from the buckets of a histogram.

use super::state::{Latency, Quantile};

/// Quantiles p50 and p99 of buckets, which are not cumulative; the last one has no upper bound.
pub(super) fn latency(bounds: &[f64], buckets: &[u64]) -> Latency {
    Latency { p50: quantile(bounds, buckets, 0.5), p99: quantile(bounds, buckets, 0.99) }
}

/// The estimate of a quantile in seconds; none where nothing was counted.
pub(crate) fn estimate(bounds: &[f64], buckets: &[u64], share: f64) -> Option<f64> {
    quantile(bounds, buckets, share).map(|found| found.estimate_seconds)
}

/// A quantile; none where nothing was counted.
fn quantile(bounds: &[f64], buckets: &[u64], share: f64) -> Option<Quantile> {
    let total: u64 = buckets.iter().sum();
    if total == 0 {
        return None;
    }
    let rank = share * total as f64;
    let mut below = 0;
    for (at, &count) in buckets.iter().enumerate() {
        if count == 0 || ((below + count) as f64) < rank {
            below += count;
            continue;
        }
        let above_seconds = if at == 0 { 0.0 } else { bounds[at - 1] };
        let at_most_seconds = bounds.get(at).copied();
        let within = (rank - below as f64) / count as f64;
        let width = at_most_seconds.map_or(0.0, |bound| bound - above_seconds);
        let estimate_seconds = above_seconds + width * within;
        return Some(Quantile { above_seconds, at_most_seconds, estimate_seconds });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: [f64; 3] = [0.25, 0.5, 1.0];

    #[test]
    fn a_quantile_is_in_the_bucket_of_its_rank() {
        let of = |buckets, share| {
            let found = quantile(&BOUNDS, buckets, share)?;
            Some((found.above_seconds, found.at_most_seconds, found.estimate_seconds))
        };
        assert_eq!(of(&[0, 0, 0, 0], 0.5), None);
        assert_eq!(of(&[4, 0, 0, 0], 0.5), Some((0.0, Some(0.25), 0.125)));
        assert_eq!(of(&[2, 0, 2, 0], 0.5), Some((0.0, Some(0.25), 0.25)), "at the boundary the lower one");
        assert_eq!(of(&[0, 0, 2, 0], 0.5), Some((0.5, Some(1.0), 0.75)));
        assert_eq!(of(&[1, 0, 0, 99], 0.99), Some((1.0, None, 1.0)), "what has no bound is not made up");
    }
}
