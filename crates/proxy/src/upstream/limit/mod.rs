//! How many requests endpoints have at a time, and who waits where they have as many as they may.
//!
//! `limiter` finds the limit of an endpoint and `queue` says who is next, both without a clock or wakers of their own, so that `simulation`
//! can drive them; `fair` says whose clients ask for more than others; `endpoint` and `cluster` are what a worker keeps of both.

mod cluster;
pub(super) mod endpoint;
mod fair;
mod limiter;
#[cfg(test)]
mod plot;
mod queue;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod simulation_tests;

pub(crate) use cluster::{ClusterLimits, NoPlace, Place, Queued, Wish, is_last};
pub(crate) use fair::Excess;

use limiter::Peers;

/// What is known of a cluster's endpoints together: the median of their limits and latencies without load.
fn peers(known: impl Iterator<Item = Option<(f64, f64)>>) -> Peers {
    let (mut limits, mut bases): (Vec<_>, Vec<_>) = known.flatten().unzip();
    // The lower one of two.
    let median = |values: &mut Vec<f64>| {
        let middle = values.len().checked_sub(1)? / 2;
        Some(*values.select_nth_unstable_by(middle, f64::total_cmp).1)
    };
    Peers { base: median(&mut bases), limit: median(&mut limits) }
}
