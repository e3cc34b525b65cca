//! Failover between clusters that serve the same requests in an order: the first that is in use takes them.
//!
//! A cluster that was out of use is preferred again only once it has been in use for a while. Where nothing
//! but requests can tell whether it is back, one request in a while probes it.
//!
//! Must not be in here: a clock, and when an endpoint is in use.

use std::cell::Cell;
use std::time::Duration;

use clock::Moment;

use crate::limits::FAILOVER_PROBE_INTERVAL;

/// Whether a cluster can serve requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usability {
    /// An endpoint is in use.
    InUse,
    /// No endpoint is in use, and a request may find out whether one is again.
    Probable,
    /// No endpoint is in use.
    Out,
}

/// The past of a cluster, as one worker observes it.
#[derive(Debug, Default)]
pub struct Standing {
    /// When the cluster was last found out of use; none for never.
    last_out: Cell<Option<Moment>>,
    last_probe: Cell<Option<Moment>>,
}

impl Standing {
    /// Whether the cluster has been in use for so long.
    fn is_steady(&self, recovery: Duration, now: Moment) -> bool {
        self.last_out.get().is_none_or(|out| now.since(out) >= recovery)
    }

    /// Records a probe, if one is due.
    fn takes_probe(&self, now: Moment) -> bool {
        let is_due = self.last_probe.get().is_none_or(|sent| now.since(sent) >= FAILOVER_PROBE_INTERVAL);
        if is_due {
            self.last_probe.set(Some(now));
        }
        is_due
    }
}

/// Chooses the cluster for a request by its place in the order; none if no cluster is in use or worth a
/// probe. `recovery` is the time for which a cluster has to be in use again before it is preferred.
pub fn choose<'s>(
    clusters: impl Iterator<Item = (Usability, &'s Standing)>,
    recovery: Duration,
    may_probe: bool,
    now: Moment,
) -> Option<usize> {
    let (mut returning, mut doubtful) = (None, None);
    for (at, (usability, standing)) in clusters.enumerate() {
        match usability {
            Usability::InUse if standing.is_steady(recovery, now) => return Some(at),
            Usability::InUse => {
                returning.get_or_insert(at);
            }
            Usability::Probable => {
                standing.last_out.set(Some(now));
                if may_probe && standing.takes_probe(now) {
                    return Some(at);
                }
                doubtful.get_or_insert(at);
            }
            Usability::Out => standing.last_out.set(Some(now)),
        }
    }
    returning.or(doubtful)
}

#[cfg(test)]
mod tests {
    use clock::Clock;

    use super::Usability::{InUse, Out, Probable};
    use super::*;

    const RECOVERY: Duration = Duration::from_secs(10);

    struct World {
        clock: Clock,
        standings: [Standing; 3],
    }

    impl World {
        fn new() -> Self {
            Self { clock: Clock::new(Clock::begin()), standings: Default::default() }
        }

        fn choose(&self, usability: [Usability; 3], may_probe: bool) -> Option<usize> {
            let clusters = usability.into_iter().zip(&self.standings);
            choose(clusters, RECOVERY, may_probe, self.clock.now())
        }

        fn wait(&self, seconds: u64) {
            self.clock.advance(Duration::from_secs(seconds));
        }
    }

    #[test]
    fn the_first_that_is_in_use_takes_requests() {
        let world = World::new();
        for (usability, expected) in [
            ([InUse, InUse, InUse], Some(0)),
            ([Out, InUse, InUse], Some(1)),
            ([Out, Out, InUse], Some(2)),
            ([Out, Out, Out], None),
        ] {
            assert_eq!(world.choose(usability, true), expected, "{usability:?}");
        }
    }

    #[test]
    fn one_that_comes_back_is_preferred_after_its_recovery() {
        let world = World::new();
        assert_eq!(world.choose([Out, InUse, InUse], true), Some(1));
        world.wait(9);
        assert_eq!(world.choose([InUse; 3], true), Some(1));
        world.wait(1);
        assert_eq!(world.choose([InUse; 3], true), Some(0));
        // One that is in use for moments only never gets so far.
        for _ in 0..5 {
            assert_eq!(world.choose([Out, InUse, InUse], true), Some(1));
            world.wait(9);
            assert_eq!(world.choose([InUse; 3], true), Some(1));
        }
    }

    #[test]
    fn one_that_comes_back_is_better_than_none() {
        let world = World::new();
        assert_eq!(world.choose([Out; 3], true), None);
        assert_eq!(world.choose([Out, InUse, InUse], true), Some(1));
    }

    #[test]
    fn probes_are_few_and_do_not_end_the_recovery() {
        let world = World::new();
        let usability = [Probable, InUse, InUse];
        let chosen: Vec<_> = (0..4).map(|_| world.choose(usability, true)).collect();
        assert_eq!(chosen, [Some(0), Some(1), Some(1), Some(1)]);
        world.wait(1);
        assert_eq!(world.choose(usability, false), Some(1), "a request that must not be repeated");
        assert_eq!(world.choose(usability, true), Some(0));
        assert_eq!(world.choose([InUse; 3], true), Some(1), "the probe was good a moment ago");
        assert_eq!(world.choose([Probable, Out, Out], false), Some(0), "there is no other");
    }
}
