//! The state of the Redis with the common counts of replicas, the updates that it gets, and its replies.
//!
//! Requests are decided by local numbers. A request waits for an exchange only where Redis has never replied
//! for its counter, or not for a while.
//!
//! Must not be in here: the connection to Redis.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use clock::Moment;
use model::QuotaWindow;
use tokio::sync::{Notify, watch};

use super::redis_count::{FixedWindow, WindowReply, WindowUpdate};
use super::{Counter, Quotas, Sharing, Subject};

/// The state that the workers and the thread with the connection to Redis share.
pub struct RedisState {
    /// The clock of Redis at the start of ours, in microseconds since 1970: the machine's, until Redis has
    /// replied.
    clock: AtomicU64,
    /// [`AVAILABLE`], or why it is not.
    state: AtomicU8,
    /// Changes with the end of each exchange, and when waiting for one becomes pointless.
    exchanges: watch::Sender<()>,
    /// A request waits for an exchange.
    wanted: Notify,
}

/// Why requests do not wait for Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// An exchange takes too long.
    Slow,
    /// The connection has failed, or a reply was invalid.
    Gone,
}

/// An update of a counter in Redis, for one fixed window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedisUpdate {
    /// The [`Subject`] whose requests are counted.
    pub subject: u128,
    /// Length of the window.
    pub seconds: u32,
    /// The number of the fixed window since 1970.
    pub window: u64,
    /// Requests admitted here since the last update.
    pub add: u32,
    /// Requests in the fixed window that are known of, those included. Where Redis comes to less, it has lost
    /// some.
    pub known: u32,
}

/// The reply of Redis to an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedisReply {
    /// Requests in the fixed window.
    pub count: u32,
    /// Requests in the one before.
    pub before: u32,
}

const AVAILABLE: u8 = 0;
const SLOW: u8 = 1;
const GONE: u8 = 2;

impl RedisState {
    /// The state before the first exchange; `start` is the clock's start, since 1970.
    pub fn new(start: Duration) -> Self {
        let clock = AtomicU64::new(micros(start));
        let (exchanges, _) = watch::channel(());
        Self { clock, state: AtomicU8::new(AVAILABLE), exchanges, wanted: Notify::new() }
    }

    /// Sets the clock of Redis: its time since 1970 at this moment.
    pub fn set_clock(&self, time: Duration, now: Moment) {
        self.clock.store(micros(time.saturating_sub(now.since_begin())), Ordering::Relaxed);
    }

    /// The fixed window of this moment.
    pub(super) fn fixed_window(&self, length: Duration, now: Moment) -> FixedWindow {
        let start = Duration::from_micros(self.clock.load(Ordering::Relaxed));
        FixedWindow::at(start + now.since_begin(), length)
    }

    /// Why requests do not wait for Redis; none where they do.
    pub fn unavailable(&self) -> Option<Unavailable> {
        match self.state.load(Ordering::Relaxed) {
            AVAILABLE => None,
            SLOW => Some(Unavailable::Slow),
            _ => Some(Unavailable::Gone),
        }
    }

    /// Sets whether Redis is available, and wakes the requests that wait.
    pub fn set_unavailable(&self, unavailable: Option<Unavailable>) {
        let state = match unavailable {
            None => AVAILABLE,
            Some(Unavailable::Slow) => SLOW,
            Some(Unavailable::Gone) => GONE,
        };
        self.state.store(state, Ordering::Relaxed);
        self.exchanges.send_replace(());
    }

    /// A receiver that changes with the end of each exchange from now on.
    pub fn exchanges(&self) -> watch::Receiver<()> {
        self.exchanges.subscribe()
    }

    /// Waits until a request waits for an exchange.
    pub async fn wanted(&self) {
        self.wanted.notified().await;
    }
}

impl Quotas {
    /// Whether the local numbers do not suffice to decide a request, so that it has to wait for an exchange.
    /// If so, one is requested.
    pub fn needs_redis(&self, subject: Subject, windows: &[QuotaWindow], now: Moment) -> bool {
        let Some(redis) = &self.redis else { return false };
        let mut shard = self.shard(subject).lock();
        let is_connected = redis.unavailable() != Some(Unavailable::Gone);
        let mut needs_redis = false;
        for &window in windows {
            let key = (subject, window.seconds.get());
            let counter = self.counter(&mut shard, key, true, now);
            if counter.needs_redis(window, is_connected, now) {
                needs_redis = true;
                if counter.count(false) {
                    self.schedule(key, counter);
                }
            }
        }
        if needs_redis {
            redis.wanted.notify_one();
        }
        needs_redis
    }

    /// Takes the updates that are due for Redis, of at most so many counters.
    pub fn redis_updates(&self, max: usize, now: Moment) -> Vec<RedisUpdate> {
        let mut due = std::mem::take(&mut *self.due.lock());
        let later = due.split_off(due.len().min(max));
        let mut all = Vec::with_capacity(due.len());
        for (subject, seconds) in due {
            let mut shard = self.shard(subject).lock();
            if !shard.contains_key(&(subject, seconds)) {
                continue;
            }
            let Counter { window, sharing: Sharing::Redis(count), .. } =
                self.counter(&mut shard, (subject, seconds), true, now)
            else {
                continue;
            };
            count.is_due = false;
            let update = |WindowUpdate { window, add, known }| RedisUpdate {
                subject: subject.0,
                seconds,
                window,
                add,
                known,
            };
            all.extend(count.updates(window).map(update));
        }
        self.due.lock().splice(0..0, later);
        all
    }

    /// Takes the replies of Redis to updates, in an exchange that took so long.
    pub fn receive_redis(
        &self,
        updates: &[RedisUpdate],
        replies: &[RedisReply],
        took: Duration,
        now: Moment,
    ) {
        for (update, reply) in updates.iter().zip(replies) {
            let subject = Subject(update.subject);
            let mut shard = self.shard(subject).lock();
            let Some(Counter { window, sharing: Sharing::Redis(count), .. }) =
                shard.get_mut(&(subject, update.seconds))
            else {
                continue;
            };
            let reply = WindowReply { window: update.window, count: reply.count, before: reply.before };
            count.receive(window, reply, took, now);
        }
    }
}

impl Counter {
    /// Whether a request has to wait for an exchange. Where less than half of the quota is used as far as is
    /// known, the exchange may follow the request, as long as Redis is connected.
    fn needs_redis(&self, window: QuotaWindow, is_connected: bool, now: Moment) -> bool {
        let Sharing::Redis(count) = &self.sharing else { return false };
        let is_below_half = || 2.0 * (self.used(window, now) + 1.0) <= f64::from(window.requests.get());
        let suffices = count.is_fresh(now) || is_connected && count.has_reply() && is_below_half();
        !suffices
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
