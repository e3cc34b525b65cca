//! Rate limits and limits of concurrent requests by client, for all workers together.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use clock::Moment;
use model::Rate;
use parking_lot::Mutex;

use crate::eviction::make_room;
use crate::limits::CLIENTS_LIMITED_MAX;

/// Shards of the table, each with a lock, so that workers seldom wait for each other.
const SHARDS: usize = 64;
const CLIENTS_PER_SHARD: usize = CLIENTS_LIMITED_MAX / SHARDS;
/// Rates of a zone: by the second and by the minute.
const RATES_MAX: usize = 2;

/// The requests of clients that limits count.
pub struct RateLimiter {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
}

/// A client, and the zone of the limit.
type Key = (IpAddr, u64);

#[derive(Default)]
struct Shard {
    buckets: HashMap<Key, Buckets>,
    /// Requests that are in flight, by client.
    in_flight: HashMap<Key, u32>,
}

/// A leaky bucket for each rate.
#[derive(Clone, Copy)]
struct Buckets {
    /// The last request that was within the rates.
    last: Moment,
    /// Requests ahead of the rate.
    excess: [f64; RATES_MAX],
}

/// One of the concurrent requests of a client, until this is dropped.
pub struct RequestSlot {
    limiter: Arc<RateLimiter>,
    key: Key,
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        self.limiter.leave(&self.key);
    }
}

impl Default for RateLimiter {
    fn default() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, hasher: RandomState::new() }
    }
}

impl RateLimiter {
    fn shard(&self, key: &Key) -> &Mutex<Shard> {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }

    /// The subject of a client that is identified by a value of its requests. It is an address derived from a
    /// keyed hash, so that nobody can find two values with the same one.
    pub fn subject(&self, value: &[u8]) -> IpAddr {
        let halves = [0u8, 1].map(|half| u128::from(self.hasher.hash_one((half, value))));
        Ipv6Addr::from(halves[0] << 64 | halves[1]).into()
    }

    /// Counts a request if it is within all rates, and returns whether it is. One that is not changes
    /// nothing, as in nginx.
    pub fn take(&self, key: Key, rates: &[Rate], now: Moment) -> bool {
        if rates.is_empty() {
            return true;
        }
        let mut shard = self.shard(&key).lock();
        let Some(buckets) = shard.buckets.get_mut(&key) else {
            make_room(&mut shard.buckets, CLIENTS_PER_SHARD, |buckets| buckets.last, |_| ());
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

    /// Counts a concurrent request; none if there are `max` already.
    pub fn enter(self: &Arc<Self>, key: Key, max: u32) -> Option<RequestSlot> {
        let mut shard = self.shard(&key).lock();
        let in_flight = shard.in_flight.entry(key).or_default();
        if *in_flight >= max {
            return None;
        }
        *in_flight += 1;
        Some(RequestSlot { limiter: Arc::clone(self), key })
    }

    fn leave(&self, key: &Key) {
        let mut shard = self.shard(key).lock();
        if let Some(in_flight) = shard.in_flight.get_mut(key) {
            *in_flight -= 1;
            if *in_flight == 0 {
                shard.in_flight.remove(key);
            }
        }
    }
}

/// Requests that leak from a bucket in a time.
fn drained(rate: &Rate, elapsed: Duration) -> f64 {
    elapsed.as_secs_f64() * rate.per_minute as f64 / 60.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use clock::Clock;

    const KEY: Key = (IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1);

    #[test]
    fn a_burst_passes_at_once_and_then_as_much_as_the_rate_gives() {
        let (limiter, clock) = (RateLimiter::default(), Clock::new(Clock::begin()));
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
        let (limiter, clock) = (RateLimiter::default(), Clock::new(Clock::begin()));
        let rates = [Rate { per_minute: 6000, burst: 500 }, Rate { per_minute: 1, burst: 5 }];
        assert_eq!((0..100).filter(|_| limiter.take(KEY, &rates, clock.now())).count(), 6);
    }

    #[test]
    fn a_slot_is_freed() {
        let limiter = Arc::new(RateLimiter::default());
        let slots = (limiter.enter(KEY, 2).unwrap(), limiter.enter(KEY, 2).unwrap());
        assert!(limiter.enter(KEY, 2).is_none());
        drop(slots.0);
        assert!(limiter.enter(KEY, 2).is_some());
        drop(slots.1);
        assert!(limiter.shard(&KEY).lock().in_flight.is_empty());
    }

    #[test]
    fn the_oldest_clients_are_evicted() {
        let clock = Clock::new(Clock::begin());
        let mut buckets = HashMap::new();
        let client = |at: u32| (IpAddr::from(at.to_be_bytes()), 1);
        for at in 0..CLIENTS_PER_SHARD as u32 {
            let last = clock.now().after(Duration::from_millis(at.into()));
            buckets.insert(client(at), Buckets { last, excess: [0.0; RATES_MAX] });
        }
        make_room(&mut buckets, CLIENTS_PER_SHARD, |buckets| buckets.last, |_| ());
        assert!(buckets.len() < CLIENTS_PER_SHARD && buckets.len() > CLIENTS_PER_SHARD / 2);
        assert!(
            !buckets.contains_key(&client(0)) && buckets.contains_key(&client(CLIENTS_PER_SHARD as u32 - 1))
        );
    }
}
