//! Adaptive concurrency: how many requests each endpoint has in flight, and which requests wait where all are
//! at their limit.
//!
//! `limiter` finds the limit of an endpoint and `queue` orders the requests that wait, both without a clock
//! or wakers of their own, so that `simulation` drives them; `fair` finds the clients that send more than the
//! others; `endpoint` and `cluster` are the state that a worker keeps.

mod cluster;
mod endpoint;
mod fair;
mod limiter;
#[cfg(test)]
mod plot;
mod queue;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod simulation_tests;

pub use cluster::{ClusterLimits, Limited, NoSlot, Queued, Slot, SlotRequest, is_served_last};
pub use endpoint::{EndpointLimit, WorkerShare};
pub use fair::Overuse;

use limiter::Peers;

/// The medians over a cluster's endpoints of their limits and of their latencies without load, in seconds.
fn peers(known: impl Iterator<Item = Option<(f64, f64)>>) -> Peers {
    let (mut limits, mut bases): (Vec<_>, Vec<_>) = known.flatten().unzip();
    // Of an even number, the lower of the two in the middle.
    let median = |values: &mut Vec<f64>| {
        let middle = values.len().checked_sub(1)? / 2;
        Some(*values.select_nth_unstable_by(middle, f64::total_cmp).1)
    };
    Peers { base: median(&mut bases), limit: median(&mut limits) }
}
