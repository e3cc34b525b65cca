//! Leader election by the rules of client-go, with a Lease of `coordination.k8s.io`.
//!
//! A Lease of another process has expired if this process has seen it unchanged for long enough, so the
//! clocks of machines need not agree. Each write names the version that was read: if two processes write, one
//! of them gets a conflict.
//!
//! Never in here: IO, a clock or a timer. Time is an argument.

use std::time::Duration;

use crate::names::NsName;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

/// A candidate, and its knowledge of the Lease.
#[derive(Debug)]
pub(super) struct Election {
    name: NsName,
    me: String,
    ttl: Duration,
    seen: Option<Seen>,
    /// The start of the last successful renewal; none if this candidate does not hold the Lease.
    renewed: Option<Instant>,
}

/// The Lease that was last read, and the time since which it is unchanged.
#[derive(Debug)]
struct Seen {
    lease: Lease,
    since: Instant,
}

/// The next step for the Lease.
#[derive(Debug, PartialEq)]
pub(super) enum Move {
    /// Wait, because another candidate holds the Lease.
    Wait,
    /// Create the missing Lease.
    Create(Box<Lease>),
    /// Replace the version that was read with this one.
    Replace(Box<Lease>),
}

impl Election {
    /// Creates a candidate that has not read the Lease. `me` identifies it among all candidates.
    pub(super) fn new(name: NsName, me: String, ttl: Duration) -> Self {
        Self { name, me, ttl, seen: None, renewed: None }
    }

    /// Time between two attempts, before jitter.
    pub(super) fn retry(&self) -> Duration {
        self.ttl / 4
    }

    /// The end of the time in which this candidate may assume that no other leads; none if it does not lead.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.renewed.map(|renewed| renewed + self.ttl / 2)
    }

    /// Whether this candidate leads.
    pub(super) fn leads(&self, now: Instant) -> bool {
        self.deadline().is_some_and(|deadline| now < deadline)
    }

    /// The holder of the Lease; none if it is not known.
    pub(super) fn holder(&self) -> Option<&str> {
        self.seen.as_ref().and_then(|seen| holder(&seen.lease))
    }

    /// The Lease that was last read or written.
    pub(super) fn seen(&self) -> Option<&Lease> {
        self.seen.as_ref().map(|seen| &seen.lease)
    }

    /// Records the Lease that was read; none if it does not exist.
    pub(super) fn read(&mut self, lease: Option<Lease>, now: Instant) {
        let Some(lease) = lease else {
            (self.seen, self.renewed) = (None, None);
            return;
        };
        if holder(&lease) != Some(&*self.me) {
            self.renewed = None;
        }
        let since = match &self.seen {
            Some(seen) if seen.lease.spec == lease.spec => seen.since,
            _ => now,
        };
        self.seen = Some(Seen { lease, since });
    }

    /// Records a Lease that was written as [`next`](Self::next) decided, by a request that began at this
    /// time.
    pub(super) fn wrote(&mut self, lease: Lease, began: Instant) {
        self.renewed = (holder(&lease) == Some(&*self.me)).then_some(began);
        self.seen = Some(Seen { lease, since: began });
    }

    /// The next step, by the Lease that was last read or written.
    pub(super) fn next(&self, now: Instant, clock: Timestamp) -> Move {
        let Some(seen) = &self.seen else {
            let metadata = ObjectMeta {
                namespace: Some(self.name.namespace.clone()),
                name: Some(self.name.name.clone()),
                ..ObjectMeta::default()
            };
            return Move::Create(Box::new(Lease { metadata, spec: Some(self.taken(None, clock)) }));
        };
        if self.is_anothers(seen, now) {
            return Move::Wait;
        }
        let spec = self.taken(seen.lease.spec.as_ref(), clock);
        Move::Replace(Box::new(Lease { spec: Some(spec), ..seen.lease.clone() }))
    }

    /// The Lease in released form, which another candidate can acquire at once; none if this one does not
    /// hold it.
    pub(super) fn release(&self, clock: Timestamp) -> Option<Lease> {
        let lease = &self.seen.as_ref()?.lease;
        self.renewed?;
        let spec = LeaseSpec {
            holder_identity: Some(String::new()),
            // The API's rule for this field: "must be greater than 0".
            lease_duration_seconds: Some(1),
            renew_time: Some(MicroTime(clock)),
            ..lease.spec.clone()?
        };
        Some(Lease { spec: Some(spec), ..lease.clone() })
    }

    fn is_anothers(&self, seen: &Seen, now: Instant) -> bool {
        match holder(&seen.lease) {
            None => false,
            Some(holder) => holder != self.me && now < seen.since + duration(&seen.lease).unwrap_or(self.ttl),
        }
    }

    fn taken(&self, before: Option<&LeaseSpec>, clock: Timestamp) -> LeaseSpec {
        let before = before.cloned().unwrap_or_default();
        let is_mine = before.holder_identity.as_deref() == Some(&*self.me);
        let transitions = before.lease_transitions.unwrap_or_default();
        let is_first = before.holder_identity.is_none();
        LeaseSpec {
            holder_identity: Some(self.me.clone()),
            lease_duration_seconds: Some(i32::try_from(self.ttl.as_secs()).unwrap_or(i32::MAX).max(1)),
            acquire_time: before.acquire_time.filter(|_| is_mine).or(Some(MicroTime(clock))),
            renew_time: Some(MicroTime(clock)),
            lease_transitions: Some(if is_mine || is_first {
                transitions
            } else {
                transitions.saturating_add(1)
            }),
            preferred_holder: None,
            strategy: None,
        }
    }
}

/// The holder of a Lease; none if the name is empty, which means that the Lease was released.
fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

fn duration(lease: &Lease) -> Option<Duration> {
    let seconds = lease.spec.as_ref()?.lease_duration_seconds?;
    u64::try_from(seconds).ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(30);

    fn election(me: &str) -> Election {
        Election::new(NsName::new("ingress", "leader"), me.to_owned(), TTL)
    }

    fn clock(second: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + second).unwrap()
    }

    /// The next version of the Lease, as the API server would make it of a step.
    fn accept(step: Move) -> Lease {
        match step {
            Move::Create(lease) => versioned(*lease, 1),
            Move::Replace(lease) => {
                let version: u64 = lease.metadata.resource_version.as_ref().unwrap().parse().unwrap();
                versioned(*lease, version + 1)
            }
            Move::Wait => panic!("nothing to write"),
        }
    }

    fn versioned(mut lease: Lease, version: u64) -> Lease {
        lease.metadata.resource_version = Some(version.to_string());
        lease
    }

    fn spec(lease: &Lease) -> &LeaseSpec {
        lease.spec.as_ref().unwrap()
    }

    #[test]
    fn the_first_creates_the_lease_and_renews_it() {
        let (start, mut a) = (Instant::now(), election("a"));
        a.read(None, start);
        let lease = accept(a.next(start, clock(0)));
        assert_eq!(lease.metadata.name.as_deref(), Some("leader"));
        assert_eq!(spec(&lease).holder_identity.as_deref(), Some("a"));
        assert_eq!(spec(&lease).lease_duration_seconds, Some(30));
        assert_eq!(spec(&lease).lease_transitions, Some(0));
        assert!(!a.leads(start), "nothing is written yet");
        a.wrote(lease, start);
        assert!(a.leads(start));

        let later = start + a.retry();
        let renewed = accept(a.next(later, clock(7)));
        assert_eq!(spec(&renewed).acquire_time, Some(MicroTime(clock(0))));
        assert_eq!(spec(&renewed).renew_time, Some(MicroTime(clock(7))));
        assert_eq!(spec(&renewed).lease_transitions, Some(0));
        a.wrote(renewed, later);
        assert_eq!(a.deadline(), Some(later + TTL / 2));
    }

    #[test]
    fn who_cannot_renew_stops_before_another_may_begin() {
        let (start, mut a, mut b) = (Instant::now(), election("a"), election("b"));
        a.read(None, start);
        let lease = accept(a.next(start, clock(0)));
        a.wrote(lease.clone(), start);
        b.read(Some(lease.clone()), start);
        for second in 0..30 {
            let now = start + Duration::from_secs(second);
            assert_eq!(a.leads(now), second < 15, "second {second}");
            b.read(Some(lease.clone()), now);
            assert_eq!(b.next(now, clock(0)), Move::Wait, "second {second}");
        }
        let taken = accept(b.next(start + TTL, clock(30)));
        assert_eq!(spec(&taken).holder_identity.as_deref(), Some("b"));
        assert_eq!(spec(&taken).lease_transitions, Some(1));
        assert_eq!(spec(&taken).acquire_time, Some(MicroTime(clock(30))));
        a.read(Some(taken), start + TTL);
        assert_eq!(a.holder(), Some("b"));
    }

    #[test]
    fn a_lease_runs_out_by_the_watch_of_who_sees_it() {
        let (start, mut b) = (Instant::now(), election("b"));
        let of_a = |renewed| {
            let mut a = election("a");
            a.read(None, start);
            let mut lease = accept(a.next(start, clock(0)));
            lease.spec.as_mut().unwrap().renew_time = Some(MicroTime(clock(renewed)));
            lease
        };
        // The holder's clock is a day behind.
        b.read(Some(of_a(-86_400)), start);
        assert_eq!(b.next(start, clock(0)), Move::Wait);
        // The renewal after 20 seconds starts the time again.
        let later = start + Duration::from_secs(20);
        b.read(Some(of_a(-86_380)), later);
        assert_eq!(b.next(start + TTL, clock(0)), Move::Wait);
        assert!(matches!(b.next(later + TTL, clock(0)), Move::Replace(_)));
    }

    #[test]
    fn a_lease_that_is_given_up_is_taken_at_once() {
        let (start, mut a, mut b) = (Instant::now(), election("a"), election("b"));
        assert_eq!(a.release(clock(0)), None);
        a.read(None, start);
        let lease = accept(a.next(start, clock(0)));
        a.wrote(lease.clone(), start);
        b.read(Some(lease), start);
        assert_eq!(b.next(start, clock(0)), Move::Wait);
        assert_eq!(b.release(clock(0)), None, "it is another's");
        let given_up = versioned(a.release(clock(1)).unwrap(), 2);
        b.read(Some(given_up), start);
        let taken = accept(b.next(start, clock(1)));
        assert_eq!(spec(&taken).holder_identity.as_deref(), Some("b"));
        assert_eq!(spec(&taken).lease_transitions, Some(1));
        b.wrote(taken, start);
        assert!(b.leads(start));
    }

    #[test]
    fn a_restarted_holder_goes_on() {
        let (start, mut before, mut after) = (Instant::now(), election("a"), election("a"));
        before.read(None, start);
        let lease = accept(before.next(start, clock(0)));
        after.read(Some(lease), start);
        assert!(!after.leads(start), "the Lease may be about to run out");
        let renewed = accept(after.next(start, clock(1)));
        assert_eq!(spec(&renewed).lease_transitions, Some(0));
        after.wrote(renewed, start);
        assert!(after.leads(start));
    }

    #[test]
    fn who_reads_that_another_holds_it_leads_no_longer() {
        let (start, mut a) = (Instant::now(), election("a"));
        a.read(None, start);
        let mut lease = accept(a.next(start, clock(0)));
        a.wrote(lease.clone(), start);
        lease.spec.as_mut().unwrap().holder_identity = Some("b".to_owned());
        a.read(Some(lease), start);
        assert!(!a.leads(start));
        a.read(None, start);
        assert!(matches!(a.next(start, clock(0)), Move::Create(_)));
    }
}
