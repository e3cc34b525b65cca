//! Quotas: requests admitted in sliding windows of time, for all workers together, and the requests that
//! other replicas have admitted.
//!
//! Replicas either report their counts to each other, or keep common counts in Redis. Must not be in here:
//! requests, the messages between replicas, and the connection to Redis.

mod redis;
mod redis_count;
mod replicas;
#[cfg(test)]
mod simulation;
mod window;

use std::collections::HashMap;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use clock::Moment;
use model::QuotaWindow;
use parking_lot::Mutex;

use crate::eviction::make_room;
use crate::limits::QUOTA_COUNTERS_MAX;
pub use redis::{RedisReply, RedisState, RedisUpdate, Unavailable};
use redis_count::{FixedWindow, RedisCount};
use replicas::ReplicaCounts;
use window::Window;

/// Shards of the table, each with a lock, so that workers seldom wait for each other.
const SHARDS: usize = 64;
const COUNTERS_PER_SHARD: usize = QUOTA_COUNTERS_MAX / SHARDS;

/// The counters of admitted requests.
pub struct Quotas {
    shards: Box<[Mutex<HashMap<CounterKey, Counter>>]>,
    /// Counters that have changed since they were reported to the other replicas, or to Redis.
    due: Mutex<Vec<CounterKey>>,
    /// The state of the Redis with the common counts; none where replicas report to each other.
    redis: Option<RedisState>,
}

/// Whose requests a counter counts: the digest of a zone and a value, the same in every replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Subject(u128);

/// A subject, and the length of a window in seconds.
type CounterKey = (Subject, u32);

struct Counter {
    last_use: Moment,
    window: Window,
    sharing: Sharing,
}

/// How a counter is shared with other replicas.
enum Sharing {
    None,
    Replicas(Box<ReplicaCounts>),
    Redis(Box<RedisCount>),
}

/// A report of a counter to the other replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// The [`Subject`] whose requests are counted.
    pub subject: u128,
    /// Length of the window.
    pub seconds: u32,
    /// Requests that the replica has admitted since it began to count, modulo 2^32.
    pub admitted: u32,
    /// The part of them that can still be in the window.
    pub recent: u32,
}

/// The remaining requests of a quota.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Remaining {
    /// The quota and its window.
    pub window: QuotaWindow,
    /// Requests that are still admitted.
    pub requests: u32,
    /// Seconds until there are more, 1 at least.
    pub seconds: u64,
}

/// The decision about a request.
pub struct Decision {
    /// Whether the request is within all quotas.
    pub is_admitted: bool,
    /// The remaining requests of each quota, in their order.
    pub remaining: Vec<Remaining>,
}

impl Subject {
    /// The subject that is identified by a value within a zone. `is_shared` says whether replicas count it
    /// together.
    pub fn of(zone: u64, is_shared: bool, value: &[u8]) -> Self {
        let text = [&zone.to_be_bytes()[..], &[u8::from(is_shared)], value].concat();
        let mut half = [0; 16];
        half.copy_from_slice(&digest(&SHA256, &text).as_ref()[..16]);
        Self(u128::from_be_bytes(half))
    }
}

impl Quotas {
    /// No requests have been counted. With `redis`, shared counts are kept there.
    pub fn new(redis: Option<RedisState>) -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), due: Mutex::default(), redis }
    }

    /// The state of the Redis with the shared counts, if there is one.
    pub fn redis(&self) -> Option<&RedisState> {
        self.redis.as_ref()
    }

    fn shard(&self, subject: Subject) -> &Mutex<HashMap<CounterKey, Counter>> {
        &self.shards[(subject.0 % SHARDS as u128) as usize]
    }

    /// Counts a request if it is within the quotas of all windows. One that is not changes nothing.
    pub fn take(&self, subject: Subject, windows: &[QuotaWindow], is_shared: bool, now: Moment) -> Decision {
        let mut shard = self.shard(subject).lock();
        let counters = &mut *shard;
        let mut is_admitted = true;
        for &window in windows {
            let counter = self.counter(counters, (subject, window.seconds.get()), is_shared, now);
            is_admitted &= counter.used(window, now) + 1.0 <= f64::from(window.requests.get());
        }
        let mut remaining = Vec::with_capacity(windows.len());
        for &window in windows {
            let key = (subject, window.seconds.get());
            let counter = self.counter(counters, key, is_shared, now);
            if counter.count(is_admitted) {
                self.schedule(key, counter);
            }
            remaining.push(counter.remaining(window, now));
        }
        Decision { is_admitted, remaining }
    }

    /// Schedules a report of a counter. Reports pile up while there is no other replica, or no Redis: no more
    /// than there are counters; others are scheduled with a later change.
    fn schedule(&self, key: CounterKey, counter: &mut Counter) {
        let mut due = self.due.lock();
        if due.len() < QUOTA_COUNTERS_MAX {
            due.push(key);
            return;
        }
        match &mut counter.sharing {
            Sharing::None => {}
            Sharing::Replicas(counts) => counts.is_due = false,
            Sharing::Redis(count) => count.is_due = false,
        }
    }

    /// Adds what another replica reports of its counters.
    pub fn receive(&self, replica: u64, counts: &[Count], now: Moment) {
        for count in counts.iter().filter(|count| count.seconds > 0) {
            let subject = Subject(count.subject);
            let mut shard = self.shard(subject).lock();
            let counter = self.counter(&mut shard, (subject, count.seconds), true, now);
            if let Sharing::Replicas(counts) = &mut counter.sharing {
                let new = counts.receive(replica, count.admitted, count.recent, now);
                counter.window.add(new);
            }
        }
    }

    /// Takes the reports that are due for the other replicas, at most so many. A counter is reported once
    /// more after its last change, so that the others learn that it has come to rest.
    pub fn outgoing(&self, max: usize, now: Moment) -> Vec<Count> {
        let mut due = std::mem::take(&mut *self.due.lock());
        let later = due.split_off(due.len().min(max));
        let mut again = Vec::new();
        let mut counts = Vec::with_capacity(due.len());
        for key in due {
            let (subject, seconds) = key;
            let mut shard = self.shard(subject).lock();
            let Some(Counter { sharing: Sharing::Replicas(own), .. }) = shard.get_mut(&key) else {
                continue;
            };
            own.recent.advance(Duration::from_secs(seconds.into()), now);
            let is_changed = std::mem::replace(&mut own.reported, own.admitted) != own.admitted;
            own.is_due = is_changed;
            again.extend(is_changed.then_some(key));
            let (admitted, recent) = (own.admitted, own.recent.recent());
            counts.push(Count { subject: subject.0, seconds, admitted, recent });
        }
        // Counters that were left out come first the next time.
        let mut due = self.due.lock();
        due.splice(0..0, later.into_iter().chain(again));
        counts
    }

    /// A counter, advanced to this moment; a new one where there is none.
    fn counter<'a>(
        &self,
        counters: &'a mut HashMap<CounterKey, Counter>,
        key: CounterKey,
        is_shared: bool,
        now: Moment,
    ) -> &'a mut Counter {
        if !counters.contains_key(&key) {
            make_room(counters, COUNTERS_PER_SHARD, |counter| counter.last_use, |_| ());
        }
        let length = Duration::from_secs(key.1.into());
        let redis = self.redis.as_ref().filter(|_| is_shared);
        let fixed = redis.map(|redis| redis.fixed_window(length, now));
        let counter = counters.entry(key).or_insert_with(|| Counter::new(is_shared, fixed, now));
        match (&mut counter.sharing, fixed) {
            (Sharing::Redis(count), Some(fixed)) => count.advance(&mut counter.window, fixed, now),
            (Sharing::Replicas(counts), _) => {
                counter.window.advance(length, now);
                counts.recent.advance(length, now);
            }
            _ => counter.window.advance(length, now),
        }
        counter.last_use = counter.last_use.max(now);
        counter
    }
}

impl Counter {
    fn new(is_shared: bool, fixed: Option<FixedWindow>, now: Moment) -> Self {
        let mut window = Window::new(now);
        let sharing = match fixed {
            Some(fixed) => Sharing::Redis(Box::new(RedisCount::new(&mut window, fixed, now))),
            None if is_shared => Sharing::Replicas(Box::new(ReplicaCounts::new(now))),
            None => Sharing::None,
        };
        Self { last_use: now, window, sharing }
    }

    /// Requests in the window, with the estimate of those that other replicas have not reported yet.
    fn used(&self, window: QuotaWindow, now: Moment) -> f64 {
        let unreported = match &self.sharing {
            Sharing::None => 0.0,
            Sharing::Replicas(counts) => counts.unreported(now),
            Sharing::Redis(count) => count.unreported(now),
        };
        self.window.used(length(window), now) + unreported
    }

    /// Counts a request if it is admitted. Returns whether a report has to be scheduled. With Redis, one is
    /// scheduled for a refused request too, to learn how many requests the others have admitted meanwhile.
    fn count(&mut self, is_admitted: bool) -> bool {
        let admitted = u32::from(is_admitted);
        self.window.add(admitted);
        match &mut self.sharing {
            Sharing::None => false,
            Sharing::Replicas(counts) => {
                counts.admitted = counts.admitted.wrapping_add(admitted);
                counts.recent.add(admitted);
                is_admitted && !std::mem::replace(&mut counts.is_due, true)
            }
            Sharing::Redis(count) => {
                count.admit(admitted);
                !std::mem::replace(&mut count.is_due, true)
            }
        }
    }

    fn remaining(&self, window: QuotaWindow, now: Moment) -> Remaining {
        let room = f64::from(window.requests.get()) - self.used(window, now);
        let requests = u32::try_from(room as i64).unwrap_or(0);
        let time = match requests {
            0 => self.window.time_to_room(window.requests.get(), length(window), now),
            _ => self.window.rest(length(window), now),
        };
        let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
        Remaining { window, requests, seconds: seconds.max(1) }
    }
}

fn length(window: QuotaWindow) -> Duration {
    Duration::from_secs(window.seconds.get().into())
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use clock::Clock;

    use super::*;

    fn window(requests: u32, seconds: u32) -> QuotaWindow {
        let number = |number| NonZeroU32::new(number).unwrap();
        QuotaWindow { requests: number(requests), seconds: number(seconds) }
    }

    #[test]
    fn reports_that_nobody_takes_are_bounded() {
        let (quotas, now) = (Quotas::new(None), Clock::new(Clock::begin()).now());
        for client in 0..2 * QUOTA_COUNTERS_MAX as u64 {
            quotas.take(Subject::of(1, true, &client.to_be_bytes()), &[window(10, 60)], true, now);
        }
        assert_eq!(quotas.due.lock().len(), QUOTA_COUNTERS_MAX);
    }

    #[test]
    fn each_window_counts_and_a_refused_request_counts_in_none() {
        let (quotas, begin) = (Quotas::new(None), Clock::new(Clock::begin()).now());
        let (windows, subject) = ([window(2, 1), window(3, 60)], Subject::of(1, false, b"a"));
        let take = |millis| quotas.take(subject, &windows, false, begin.after(Duration::from_millis(millis)));
        assert!(take(0).is_admitted && take(1).is_admitted);
        let refused = take(2);
        assert!(!refused.is_admitted);
        let remaining: Vec<_> = refused.remaining.iter().map(|it| (it.requests, it.seconds)).collect();
        assert_eq!(remaining, [(0, 2), (1, 60)]);
        assert!(take(2500).is_admitted, "the refused one is not among the three");
        let refused = take(2600);
        assert_eq!(
            (refused.is_admitted, refused.remaining[0].requests, refused.remaining[1].requests),
            (false, 1, 0)
        );
        let another = Subject::of(1, false, b"b");
        assert!(quotas.take(another, &windows, false, begin).is_admitted);
    }

    #[test]
    fn subjects_differ_by_zone_and_value() {
        let all = [
            Subject::of(1, false, b"a"),
            Subject::of(2, false, b"a"),
            Subject::of(1, true, b"a"),
            Subject::of(1, false, b"b"),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(all[at + 1..].iter().all(|other| other != one));
        }
        assert_eq!(Subject::of(1, false, b"a"), all[0], "the same in every process");
    }

    #[test]
    fn the_table_is_bounded_and_the_oldest_counters_are_evicted() {
        let (quotas, begin) = (Quotas::new(None), Clock::new(Clock::begin()).now());
        let windows = [window(5, 60)];
        let subjects = 3 * QUOTA_COUNTERS_MAX as u32;
        for number in 0..subjects {
            let subject = Subject(u128::from(number));
            quotas.take(subject, &windows, false, begin.after(Duration::from_millis(number.into())));
        }
        let counters: usize = quotas.shards.iter().map(|shard| shard.lock().len()).sum();
        assert!(counters <= QUOTA_COUNTERS_MAX, "{counters}");
        let newest = Subject(u128::from(subjects - 1));
        assert!(quotas.shard(newest).lock().contains_key(&(newest, 60)));
    }

    #[test]
    fn a_count_is_reported_until_it_has_come_to_rest() {
        let (quotas, now) = (Quotas::new(None), Clock::new(Clock::begin()).now());
        let windows = [window(5, 60)];
        let subjects = [1, 2, 3].map(Subject);
        for subject in subjects {
            quotas.take(subject, &windows, true, now);
        }
        quotas.take(subjects[0], &windows, true, now);
        let reported = |max| {
            quotas.outgoing(max, now).iter().map(|count| (count.subject, count.admitted)).collect::<Vec<_>>()
        };
        assert_eq!(reported(2), [(1, 2), (2, 1)]);
        assert_eq!(reported(9), [(3, 1), (1, 2), (2, 1)]);
        assert_eq!(reported(9), [(3, 1)]);
        assert_eq!(reported(9), []);
        quotas.take(Subject(7), &windows, false, now);
        assert_eq!(reported(9), [], "a counter that is not shared is not reported");
    }

    #[test]
    fn requests_of_others_count_once_even_if_reports_are_lost_or_a_replica_restarts() {
        let (quotas, now) = (Quotas::new(None), Clock::new(Clock::begin()).now());
        let windows = [window(100, 60)];
        let receive = |replica, admitted, recent| {
            quotas.receive(replica, &[Count { subject: 1, seconds: 60, admitted, recent }], now);
            let shard = quotas.shard(Subject(1)).lock();
            shard[&(Subject(1), 60)].window.recent()
        };
        assert_eq!(receive(1, 1000, 10), 10, "of an unknown replica, the recent requests");
        assert_eq!(receive(1, 1000, 10), 10, "nothing new");
        assert_eq!(receive(1, 1007, 17), 17, "a report was lost");
        assert_eq!(receive(2, 3, 3), 20, "another replica");
        assert_eq!(receive(1, 4, 4), 24, "it has restarted");
        assert_eq!(receive(2, u32::MAX, 5), 29, "never more than the recent requests");
        let decision = quotas.take(Subject(1), &windows, true, now);
        assert_eq!((decision.is_admitted, decision.remaining[0].requests), (true, 70));
    }
}
