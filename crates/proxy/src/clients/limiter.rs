//! How much clients have asked for, for all workers together.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use model::Rate;
use parking_lot::Mutex;

use crate::clock::Moment;
use crate::limits::CLIENTS_LIMITED_MAX;

/// Parts of the table, so that workers seldom wait for each other.
const SHARDS: usize = 64;
const CLIENTS_PER_SHARD: usize = CLIENTS_LIMITED_MAX / SHARDS;
/// Rates that an entry has room for: by the second and by the minute.
const RATES_MAX: usize = 2;

/// What clients have asked for.
pub(crate) struct Limiter {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
}

/// A client and the zone that it counts in.
type Key = (IpAddr, u64);

#[derive(Default)]
struct Shard {
    buckets: HashMap<Key, Buckets>,
    at_work: HashMap<Key, u32>,
}

/// A leaky bucket for each rate: requests that have come before their time.
#[derive(Clone, Copy)]
struct Buckets {
    last: Moment,
    excess: [f64; RATES_MAX],
}

/// A place among the requests of a client that are at work, given back when it is dropped.
pub(crate) struct Slot {
    limiter: Arc<Limiter>,
    key: Key,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.limiter.leave(&self.key);
    }
}

impl Default for Limiter {
    fn default() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, hasher: RandomState::new() }
    }
}

impl Limiter {
    fn shard(&self, key: &Key) -> &Mutex<Shard> {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }

    /// What stands for a client that is told from others by a value of its requests: an address that no two values have in common, but by
    /// a chance that nobody can bring about.
    pub(crate) fn subject(&self, value: &[u8]) -> IpAddr {
        let halves = [0u8, 1].map(|half| u128::from(self.hasher.hash_one((half, value))));
        Ipv6Addr::from(halves[0] << 64 | halves[1]).into()
    }

    /// Whether another request is within all rates. One that is not changes nothing, as in nginx.
    pub(crate) fn take(&self, key: Key, rates: &[Rate], now: Moment) -> bool {
        if rates.is_empty() {
            return true;
        }
        let mut shard = self.shard(&key).lock();
        let Some(buckets) = shard.buckets.get_mut(&key) else {
            make_room(&mut shard.buckets);
            shard.buckets.insert(key, Buckets { last: now, excess: [0.0; RATES_MAX] });
            return true;
        };
        let elapsed = now.since(buckets.last);
        let mut excess = buckets.excess;
        for (excess, rate) in excess.iter_mut().zip(rates) {
            *excess = (*excess - drained(rate, elapsed) + 1.0).max(0.0);
            if *excess > rate.burst as f64 {
                return false;
            }
        }
        *buckets = Buckets { last: now, excess };
        true
    }

    /// A place for another request at work; none where there is no room.
    pub(crate) fn enter(self: &Arc<Self>, key: Key, max: u32) -> Option<Slot> {
        let mut shard = self.shard(&key).lock();
        let at_work = shard.at_work.entry(key).or_default();
        if *at_work >= max {
            return None;
        }
        *at_work += 1;
        Some(Slot { limiter: Arc::clone(self), key })
    }

    fn leave(&self, key: &Key) {
        let mut shard = self.shard(key).lock();
        if let Some(at_work) = shard.at_work.get_mut(key) {
            *at_work -= 1;
            if *at_work == 0 {
                shard.at_work.remove(key);
            }
        }
    }
}

/// Requests whose time has come meanwhile.
fn drained(rate: &Rate, elapsed: Duration) -> f64 {
    elapsed.as_secs_f64() * rate.per_minute as f64 / 60.0
}

/// Forgets those clients that have not come for longest: an eighth of them at a time, since to find one all are looked at.
fn make_room(buckets: &mut HashMap<Key, Buckets>) {
    if buckets.len() < CLIENTS_PER_SHARD {
        return;
    }
    let mut lasts: Vec<Moment> = buckets.values().map(|buckets| buckets.last).collect();
    let (_, oldest_kept, _) = lasts.select_nth_unstable(CLIENTS_PER_SHARD / 8);
    let oldest_kept = *oldest_kept;
    buckets.retain(|_, buckets| buckets.last > oldest_kept);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    const KEY: Key = (IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1);

    #[test]
    fn a_burst_passes_at_once_and_then_as_much_as_the_rate_gives() {
        let (limiter, clock) = (Limiter::default(), Clock::new(Clock::begin()));
        let rates = [Rate { per_minute: 120, burst: 3 }];
        let take = |now| limiter.take(KEY, &rates, now);
        let passed = (0..10).filter(|_| take(clock.now())).count();
        assert_eq!(passed, 1 + 3);
        let later = clock.now().after(Duration::from_millis(500));
        assert!(take(later) && !take(later), "two in a second");
        assert!(limiter.take((KEY.0, 2), &rates, later), "another zone");
        let much_later = clock.now().after(Duration::from_mins(1));
        assert_eq!((0..10).filter(|_| take(much_later)).count(), 4, "nothing is saved up");
    }

    #[test]
    fn each_of_two_rates_counts() {
        let (limiter, clock) = (Limiter::default(), Clock::new(Clock::begin()));
        let rates = [Rate { per_minute: 6000, burst: 500 }, Rate { per_minute: 1, burst: 5 }];
        assert_eq!((0..100).filter(|_| limiter.take(KEY, &rates, clock.now())).count(), 6);
    }

    #[test]
    fn a_place_is_given_back() {
        let limiter = Arc::new(Limiter::default());
        let places = (limiter.enter(KEY, 2).unwrap(), limiter.enter(KEY, 2).unwrap());
        assert!(limiter.enter(KEY, 2).is_none());
        drop(places.0);
        assert!(limiter.enter(KEY, 2).is_some());
        drop(places.1);
        assert!(limiter.shard(&KEY).lock().at_work.is_empty());
    }

    #[test]
    fn the_oldest_clients_go() {
        let clock = Clock::new(Clock::begin());
        let mut buckets = HashMap::new();
        let client = |at: u32| (IpAddr::from(at.to_be_bytes()), 1);
        for at in 0..CLIENTS_PER_SHARD as u32 {
            let last = clock.now().after(Duration::from_millis(at.into()));
            buckets.insert(client(at), Buckets { last, excess: [0.0; RATES_MAX] });
        }
        make_room(&mut buckets);
        assert!(buckets.len() < CLIENTS_PER_SHARD && buckets.len() > CLIENTS_PER_SHARD / 2);
        assert!(
            !buckets.contains_key(&client(0)) && buckets.contains_key(&client(CLIENTS_PER_SHARD as u32 - 1))
        );
    }
}
