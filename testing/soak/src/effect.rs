//! Changes in effect: the numbers of changes that were told by the beacon, an Ingress whose redirect has the
//! number of the last change in it. What was changed before the number that was seen has to be in effect; how
//! long that took is for the report, and not judged, since a machine may be busy.
//!
//! Must not be in here: how the beacon is looked at (`beacon`).

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::lock::locked;

/// The numbers that were sent, and the last one that was seen.
#[derive(Debug, Default)]
pub(crate) struct Effect(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Beacons that were not seen yet, the oldest first.
    sent: VecDeque<(u64, Instant)>,
    last: u64,
    /// The life of the process in which it was seen, and the number.
    seen: Option<(u64, u64)>,
    slowest: Duration,
}

impl Effect {
    /// Notes that a beacon of this number is given to the API server.
    pub(crate) fn send(&self, number: u64) {
        let mut state = locked(&self.0);
        state.sent.push_back((number, Instant::now()));
        state.last = number;
    }

    /// Notes the number that was seen in this life of the process.
    pub(crate) fn see(&self, life: u64, number: u64) {
        let mut state = locked(&self.0);
        state.seen = Some((life, number));
        while let Some((_, since)) = state.sent.pop_front_if(|(sent, _)| *sent <= number) {
            state.slowest = state.slowest.max(since.elapsed());
        }
    }

    /// The number up to which all changes are in effect, if that was seen in this life of the process.
    pub(crate) fn seen(&self, life: u64) -> Option<u64> {
        locked(&self.0).seen.filter(|(of, _)| *of == life).map(|(_, number)| number)
    }

    /// The last number that was sent.
    pub(crate) fn last(&self) -> u64 {
        locked(&self.0).last
    }

    /// The longest time until a change was seen to be in effect.
    pub(crate) fn slowest(&self) -> Duration {
        locked(&self.0).slowest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_counts_in_the_life_in_which_it_was_seen() {
        let effect = Effect::default();
        effect.send(20);
        effect.send(40);
        assert_eq!((effect.last(), effect.seen(0)), (40, None));
        effect.see(0, 20);
        assert_eq!((effect.seen(0), effect.seen(1)), (Some(20), None));
        let slowest = effect.slowest();
        // A process that begins with what was kept on disk is behind the one before.
        effect.see(1, 0);
        assert_eq!((effect.seen(0), effect.seen(1)), (None, Some(0)));
        assert_eq!(effect.slowest(), slowest, "nothing new was seen");
        effect.see(1, 40);
        assert!(effect.slowest() >= slowest);
    }
}
