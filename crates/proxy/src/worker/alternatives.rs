//! The hosts whose clients have reached Forebay over HTTP/3 lately. With `forebay-http3: auto` only they are
//! offered HTTP/3 in each response.
//!
//! Nothing but a client's handshake shows that UDP passes: the load balancer, the firewall and the cloud in
//! between are the clients' way, and not that of a probe from inside. So a host without such a handshake is
//! offered HTTP/3 on a small share of its connections and for a minute; once one has come, on all, and for as
//! long as it has been working.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clock::Moment;
use model::ListenerId;

use crate::limits::{
    HTTP3_OFFER_MAX, HTTP3_OFFER_MIN, HTTP3_PROVEN_AGE_MAX, HTTP3_PROVEN_HOSTS, HTTP3_TRIAL_SHARE,
};

/// The hosts that clients have reached. Two hosts that share a place displace each other, and are then
/// offered HTTP/3 less often.
pub(crate) struct Alternatives {
    hasher: RandomState,
    places: Box<[Place]>,
}

#[derive(Default)]
struct Place {
    /// The hash of listener and host; 0 for none.
    key: AtomicU64,
    /// When the first of the handshakes came that followed each other, in nanoseconds since the clock began.
    since: AtomicU64,
    /// When the last one came.
    last: AtomicU64,
}

impl Default for Alternatives {
    fn default() -> Self {
        let places = (0..HTTP3_PROVEN_HOSTS).map(|_| Place::default()).collect();
        Self { hasher: RandomState::new(), places }
    }
}

impl Alternatives {
    fn place(&self, listener: ListenerId, host: &[u8]) -> (u64, &Place) {
        let key = self.hasher.hash_one((listener, host.to_ascii_lowercase())).max(1);
        (key, &self.places[key as usize % self.places.len()])
    }

    /// Notes that a client has completed a handshake.
    pub(crate) fn note(&self, listener: ListenerId, host: &[u8], now: Moment) {
        let (key, place) = self.place(listener, host);
        let at = nanos(now);
        let goes_on = place.key.swap(key, Ordering::Relaxed) == key
            && at.saturating_sub(place.last.load(Ordering::Relaxed)) <= duration_nanos(HTTP3_PROVEN_AGE_MAX);
        if !goes_on {
            place.since.store(at, Ordering::Relaxed);
        }
        place.last.store(at, Ordering::Relaxed);
    }

    /// The time for which a client may remember that a host is served over HTTP/3; none where a connection is
    /// not told of it. `serial` is the connection's number.
    pub(crate) fn offer(
        &self,
        listener: ListenerId,
        host: &[u8],
        serial: u64,
        now: Moment,
    ) -> Option<Duration> {
        let (key, place) = self.place(listener, host);
        let at = nanos(now);
        let age = at.saturating_sub(place.last.load(Ordering::Relaxed));
        if place.key.load(Ordering::Relaxed) == key && age <= duration_nanos(HTTP3_PROVEN_AGE_MAX) {
            let since = Duration::from_nanos(at.saturating_sub(place.since.load(Ordering::Relaxed)));
            return Some(since.clamp(HTTP3_OFFER_MIN, HTTP3_OFFER_MAX));
        }
        (serial % HTTP3_TRIAL_SHARE == 1).then_some(HTTP3_OFFER_MIN)
    }
}

fn nanos(at: Moment) -> u64 {
    duration_nanos(at.since_begin())
}

fn duration_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use clock::Clock;
    use model::ListenerKind;

    use super::*;

    #[test]
    fn a_host_that_clients_have_reached_is_offered_to_all_for_as_long_as_it_has_worked() {
        let (alternatives, clock) = (Alternatives::default(), Clock::new(Clock::begin()));
        let id = |port| ListenerId { kind: ListenerKind::Https, port, address: None };
        let offered =
            |host: &str, port, serial| alternatives.offer(id(port), host.as_bytes(), serial, clock.now());
        let trials = || (0..160).filter_map(|serial| offered("web.test", 443, serial)).collect::<Vec<_>>();
        assert_eq!(trials(), [HTTP3_OFFER_MIN; 10]);
        alternatives.note(id(443), b"web.test", clock.now());
        assert_eq!(trials().len(), 160);
        assert_eq!(offered("Web.Test", 443, 2), Some(HTTP3_OFFER_MIN));
        assert_eq!(offered("web.test", 8443, 2), None, "another port");
        assert_eq!(offered("other.test", 443, 2), None, "another host");
        let half = HTTP3_PROVEN_AGE_MAX / 2;
        for handshakes in 1..4 {
            clock.advance(half);
            alternatives.note(id(443), b"web.test", clock.now());
            assert_eq!(offered("web.test", 443, 2), Some(half * handshakes));
        }
        clock.advance(HTTP3_PROVEN_AGE_MAX);
        assert!(offered("web.test", 443, 2).is_some());
        clock.advance(Duration::from_secs(1));
        assert_eq!(offered("web.test", 443, 2), None, "nobody has come for too long");
        alternatives.note(id(443), b"web.test", clock.now());
        assert_eq!(offered("web.test", 443, 2), Some(HTTP3_OFFER_MIN), "it begins again");
    }
}
