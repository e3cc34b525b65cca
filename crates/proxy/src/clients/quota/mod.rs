//! How many requests of clients have been admitted in windows of time, for all workers together, and what other replicas have admitted of
//! them.
//!
//! Never in here: requests, how replicas tell each other, and how Redis is asked.

mod shared;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod simulation_stored;
mod store;
mod stored;
mod told;
mod window;

use std::collections::HashMap;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use model::QuotaWindow;
use parking_lot::Mutex;

use crate::clock::Moment;
use crate::limits::QUOTA_COUNTERS_MAX;
use shared::SharedCount;
pub(crate) use store::{Away, Store, Stored, ToStore};
use stored::{Slot, StoredCount};
pub(crate) use told::Told;
use window::Window;

/// Parts of the table, so that workers seldom wait for each other.
const SHARDS: usize = 64;
const COUNTERS_PER_SHARD: usize = QUOTA_COUNTERS_MAX / SHARDS;

/// What has been admitted.
pub(crate) struct Quotas {
    shards: Box<[Mutex<HashMap<CounterKey, Counter>>]>,
    /// Counters that other replicas, or Redis, are to be told of.
    due: Mutex<Vec<CounterKey>>,
    /// What is known of the Redis that counts what replicas share; none where they tell each other.
    store: Option<Store>,
}

/// Who is counted: the digest of a zone and a value, the same in every replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Subject(u128);

/// A subject, and the length of a window in seconds.
type CounterKey = (Subject, u32);

struct Counter {
    last: Moment,
    window: Window,
    sharing: Sharing,
}

/// Who else counts.
enum Sharing {
    Nobody,
    Replicas(Box<SharedCount>),
    Store(Box<StoredCount>),
}

/// What a replica tells the others of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) subject: u128,
    pub(crate) seconds: u32,
    /// All requests that it has admitted, ever, modulo 2^32.
    pub(crate) admitted: u32,
    /// Those of them that can still be in the window.
    pub(crate) recent: u32,
}

/// What a client has left of a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Left {
    pub(crate) window: QuotaWindow,
    /// Requests.
    pub(crate) requests: u32,
    /// Seconds until there are more.
    pub(crate) seconds: u64,
}

/// What becomes of a request.
pub(crate) struct Verdict {
    pub(crate) is_admitted: bool,
    pub(crate) left: Vec<Left>,
}

impl Subject {
    /// Who is told apart by a value within a zone.
    pub(crate) fn of(zone: u64, is_shared: bool, value: &[u8]) -> Self {
        let text = [&zone.to_be_bytes()[..], &[u8::from(is_shared)], value].concat();
        let digest = digest(&SHA256, &text);
        Self(u128::from_be_bytes(*digest.as_ref().first_chunk().expect("a digest has 32 bytes")))
    }
}

impl Default for Quotas {
    fn default() -> Self {
        Self::with_store(None)
    }
}

impl Quotas {
    /// Nothing is counted yet. With a store, what replicas share is counted there.
    pub(crate) fn with_store(store: Option<Store>) -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), due: Mutex::default(), store }
    }

    /// What is known of the Redis that counts what replicas share, if there is one.
    pub(crate) fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    fn shard(&self, subject: Subject) -> &Mutex<HashMap<CounterKey, Counter>> {
        &self.shards[(subject.0 % SHARDS as u128) as usize]
    }

    /// Counts a request if it is within all windows. One that is not changes nothing.
    pub(crate) fn take(
        &self,
        subject: Subject,
        windows: &[QuotaWindow],
        is_shared: bool,
        now: Moment,
    ) -> Verdict {
        let mut shard = self.shard(subject).lock();
        let counters = &mut *shard;
        let mut is_admitted = true;
        for &window in windows {
            let counter = self.counter(counters, (subject, window.seconds.get()), is_shared, now);
            is_admitted &= counter.used(window, now) + 1.0 <= f64::from(window.requests.get());
        }
        let mut left = Vec::with_capacity(windows.len());
        for &window in windows {
            let key = (subject, window.seconds.get());
            let counter = self.counter(counters, key, is_shared, now);
            if counter.count(is_admitted) {
                self.owe(key, counter);
            }
            left.push(counter.left(window, now));
        }
        Verdict { is_admitted, left }
    }

    /// Notes that others are to be told of a counter. Where nobody is told, as long as there is no other replica or no Redis, as many wait as
    /// there are counters; further ones are told of with a later change.
    fn owe(&self, key: CounterKey, counter: &mut Counter) {
        let mut due = self.due.lock();
        if due.len() < QUOTA_COUNTERS_MAX {
            due.push(key);
            return;
        }
        match &mut counter.sharing {
            Sharing::Nobody => {}
            Sharing::Replicas(shared) => shared.is_due = false,
            Sharing::Store(stored) => stored.is_due = false,
        }
    }

    /// Takes what another replica says of its counters.
    pub(crate) fn hear(&self, replica: u64, counts: &[Count], now: Moment) {
        for count in counts.iter().filter(|count| count.seconds > 0) {
            let subject = Subject(count.subject);
            let mut shard = self.shard(subject).lock();
            let counter = self.counter(&mut shard, (subject, count.seconds), true, now);
            if let Sharing::Replicas(shared) = &mut counter.sharing {
                let new = shared.hear(replica, count.admitted, count.recent, now);
                counter.window.add(new);
            }
        }
    }

    /// What the other replicas are to be told, at most so many counters at a time. Each is told of once more after its last change, so that
    /// they learn that it has come to rest.
    pub(crate) fn tell(&self, max: usize, now: Moment) -> Vec<Count> {
        let mut due = std::mem::take(&mut *self.due.lock());
        let later = due.split_off(due.len().min(max));
        let mut again = Vec::new();
        let mut counts = Vec::with_capacity(due.len());
        for key in due {
            let (subject, seconds) = key;
            let mut shard = self.shard(subject).lock();
            let Some(Counter { sharing: Sharing::Replicas(shared), .. }) = shard.get_mut(&key) else {
                continue;
            };
            shared.recent.advance(Duration::from_secs(seconds.into()), now);
            let is_changed = std::mem::replace(&mut shared.told, shared.own) != shared.own;
            shared.is_due = is_changed;
            again.extend(is_changed.then_some(key));
            let (admitted, recent) = (shared.own, shared.recent.recent());
            counts.push(Count { subject: subject.0, seconds, admitted, recent });
        }
        // Those that had no room come first the next time.
        let mut due = self.due.lock();
        due.splice(0..0, later.into_iter().chain(again));
        counts
    }

    /// A counter as of this moment, which is new where there is none.
    fn counter<'a>(
        &self,
        counters: &'a mut HashMap<CounterKey, Counter>,
        key: CounterKey,
        is_shared: bool,
        now: Moment,
    ) -> &'a mut Counter {
        if !counters.contains_key(&key) {
            make_room(counters);
        }
        let length = Duration::from_secs(key.1.into());
        let store = self.store.as_ref().filter(|_| is_shared);
        let slot = store.map(|store| store.slot(length, now));
        let counter = counters.entry(key).or_insert_with(|| Counter::new(is_shared, slot, now));
        match (&mut counter.sharing, slot) {
            (Sharing::Store(stored), Some(slot)) => stored.advance(&mut counter.window, slot, now),
            (Sharing::Replicas(shared), _) => {
                counter.window.advance(length, now);
                shared.recent.advance(length, now);
            }
            _ => counter.window.advance(length, now),
        }
        counter.last = counter.last.max(now);
        counter
    }
}

impl Counter {
    fn new(is_shared: bool, slot: Option<Slot>, now: Moment) -> Self {
        let mut window = Window::new(now);
        let sharing = match slot {
            Some(slot) => Sharing::Store(Box::new(StoredCount::new(&mut window, slot, now))),
            None if is_shared => Sharing::Replicas(Box::new(SharedCount::new(now))),
            None => Sharing::Nobody,
        };
        Self { last: now, window, sharing }
    }

    /// Requests in the window, those of other replicas included.
    fn used(&self, window: QuotaWindow, now: Moment) -> f64 {
        let ahead = match &self.sharing {
            Sharing::Nobody => 0.0,
            Sharing::Replicas(shared) => shared.ahead(now),
            Sharing::Store(stored) => stored.ahead(now),
        };
        self.window.used(length(window), now) + ahead
    }

    /// Counts a request, where it is admitted. True if others are to be told of the counter from now on. Redis is asked also while it is full:
    /// what others admit meanwhile is not there for us.
    fn count(&mut self, is_admitted: bool) -> bool {
        let admitted = u32::from(is_admitted);
        self.window.add(admitted);
        match &mut self.sharing {
            Sharing::Nobody => false,
            Sharing::Replicas(shared) => {
                shared.own = shared.own.wrapping_add(admitted);
                shared.recent.add(admitted);
                is_admitted && !std::mem::replace(&mut shared.is_due, true)
            }
            Sharing::Store(stored) => {
                stored.admit(admitted);
                !std::mem::replace(&mut stored.is_due, true)
            }
        }
    }

    fn left(&self, window: QuotaWindow, now: Moment) -> Left {
        let room = f64::from(window.requests.get()) - self.used(window, now);
        let requests = u32::try_from(room as i64).unwrap_or(0);
        let time = match requests {
            0 => self.window.time_to_room(window.requests.get(), length(window), now),
            _ => self.window.rest(length(window), now),
        };
        let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
        Left { window, requests, seconds: seconds.max(1) }
    }
}

fn length(window: QuotaWindow) -> Duration {
    Duration::from_secs(window.seconds.get().into())
}

/// Forgets those counters that have not been used for longest: an eighth of them at a time, since to find one all are looked at.
fn make_room(counters: &mut HashMap<CounterKey, Counter>) {
    if counters.len() < COUNTERS_PER_SHARD {
        return;
    }
    let mut lasts: Vec<Moment> = counters.values().map(|counter| counter.last).collect();
    let (_, oldest_kept, _) = lasts.select_nth_unstable(COUNTERS_PER_SHARD / 8);
    let oldest_kept = *oldest_kept;
    counters.retain(|_, counter| counter.last > oldest_kept);
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;
    use crate::clock::Clock;

    fn window(requests: u32, seconds: u32) -> QuotaWindow {
        let number = |number| NonZeroU32::new(number).unwrap();
        QuotaWindow { requests: number(requests), seconds: number(seconds) }
    }

    #[test]
    fn what_nobody_is_told_does_not_pile_up() {
        let (quotas, now) = (Quotas::default(), Clock::new(Clock::begin()).now());
        for client in 0..2 * QUOTA_COUNTERS_MAX as u64 {
            quotas.take(Subject::of(1, true, &client.to_be_bytes()), &[window(10, 60)], true, now);
        }
        assert_eq!(quotas.due.lock().len(), QUOTA_COUNTERS_MAX);
    }

    #[test]
    fn each_window_counts_and_a_refused_request_counts_in_none() {
        let (quotas, begin) = (Quotas::default(), Clock::new(Clock::begin()).now());
        let (windows, subject) = ([window(2, 1), window(3, 60)], Subject::of(1, false, b"a"));
        let take = |millis| quotas.take(subject, &windows, false, begin.after(Duration::from_millis(millis)));
        assert!(take(0).is_admitted && take(1).is_admitted);
        let refused = take(2);
        assert!(!refused.is_admitted);
        let left: Vec<_> = refused.left.iter().map(|left| (left.requests, left.seconds)).collect();
        assert_eq!(left, [(0, 2), (1, 60)]);
        assert!(take(2500).is_admitted, "the refused one is not among the three");
        let refused = take(2600);
        assert_eq!((refused.is_admitted, refused.left[0].requests, refused.left[1].requests), (false, 1, 0));
        let another = Subject::of(1, false, b"b");
        assert!(quotas.take(another, &windows, false, begin).is_admitted);
    }

    #[test]
    fn subjects_are_told_apart_by_zone_and_value() {
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
    fn the_table_is_bounded_and_forgets_the_oldest() {
        let (quotas, begin) = (Quotas::default(), Clock::new(Clock::begin()).now());
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
    fn a_count_is_told_until_it_has_come_to_rest() {
        let (quotas, now) = (Quotas::default(), Clock::new(Clock::begin()).now());
        let windows = [window(5, 60)];
        let subjects = [1, 2, 3].map(Subject);
        for subject in subjects {
            quotas.take(subject, &windows, true, now);
        }
        quotas.take(subjects[0], &windows, true, now);
        let told = |max| {
            quotas.tell(max, now).iter().map(|count| (count.subject, count.admitted)).collect::<Vec<_>>()
        };
        assert_eq!(told(2), [(1, 2), (2, 1)]);
        assert_eq!(told(9), [(3, 1), (1, 2), (2, 1)]);
        assert_eq!(told(9), [(3, 1)]);
        assert_eq!(told(9), []);
        quotas.take(Subject(7), &windows, false, now);
        assert_eq!(told(9), [], "what is not shared is not told");
    }

    #[test]
    fn what_others_say_counts_once_whatever_is_lost_or_begins_anew() {
        let (quotas, now) = (Quotas::default(), Clock::new(Clock::begin()).now());
        let windows = [window(100, 60)];
        let hear = |replica, admitted, recent| {
            quotas.hear(replica, &[Count { subject: 1, seconds: 60, admitted, recent }], now);
            let shard = quotas.shard(Subject(1)).lock();
            shard[&(Subject(1), 60)].window.recent()
        };
        assert_eq!(hear(1, 1000, 10), 10, "of one that was not known, what is recent");
        assert_eq!(hear(1, 1000, 10), 10, "nothing new");
        assert_eq!(hear(1, 1007, 17), 17, "one that was lost is made good");
        assert_eq!(hear(2, 3, 3), 20, "another replica");
        assert_eq!(hear(1, 4, 4), 24, "it has forgotten, and begun anew");
        assert_eq!(hear(2, u32::MAX, 5), 29, "never more than what is recent");
        let verdict = quotas.take(Subject(1), &windows, true, now);
        assert_eq!((verdict.is_admitted, verdict.left[0].requests), (true, 70));
    }
}
