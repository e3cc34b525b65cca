//! What requests know of the Redis that counts what replicas share, and what it is told and says of counters.
//!
//! Requests are decided by the numbers that are here. Only where Redis has said nothing of a counter yet, or not for a while, a request waits
//! for the next exchange, and no longer than that is worth it.
//!
//! Never in here: a connection.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use model::QuotaWindow;
use tokio::sync::{Notify, watch};

use super::stored::{Part, Said, Slot};
use super::{Counter, Quotas, Sharing, Subject};
use crate::clock::Moment;

/// Shared by the workers and the thread that talks to Redis.
pub(crate) struct Store {
    /// What the clock of Redis said when the proxy began, in microseconds since 1970: our own, until Redis was asked.
    clock: AtomicU64,
    state: AtomicU8,
    /// Changes with the end of each exchange, and when nobody is to wait for one any more.
    exchanges: watch::Sender<()>,
    /// Somebody waits for one.
    asked: Notify,
}

/// Why nobody waits for Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Away {
    /// It takes its time.
    Slow,
    /// It was not reached, or has said something else than what was asked.
    Gone,
}

/// What Redis is told of a counter for one fixed window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ToStore {
    pub(crate) subject: u128,
    pub(crate) seconds: u32,
    /// The number of the fixed window since 1970.
    pub(crate) slot: u64,
    /// Requests that were admitted here since the last time.
    pub(crate) add: u32,
    /// Requests in it that are known of, those included: Redis has forgotten some where it comes to less.
    pub(crate) known: u32,
}

/// What it says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    /// Requests in the fixed window.
    pub(crate) count: u32,
    /// Requests in the one before.
    pub(crate) before: u32,
}

const THERE: u8 = 0;
const SLOW: u8 = 1;
const GONE: u8 = 2;

impl Store {
    /// Redis was not asked yet; `began` is when the proxy began, since 1970.
    pub(crate) fn new(began: Duration) -> Self {
        let clock = AtomicU64::new(micros(began));
        let (exchanges, _) = watch::channel(());
        Self { clock, state: AtomicU8::new(THERE), exchanges, asked: Notify::new() }
    }

    /// Takes what the clock of Redis says at this moment, as a time since 1970.
    pub(crate) fn set_clock(&self, time: Duration, now: Moment) {
        self.clock.store(micros(time.saturating_sub(now.since_begin())), Ordering::Relaxed);
    }

    /// The fixed window of this moment.
    pub(super) fn slot(&self, length: Duration, now: Moment) -> Slot {
        let began = Duration::from_micros(self.clock.load(Ordering::Relaxed));
        Slot::at(began + now.since_begin(), length)
    }

    /// Why nobody waits for Redis; none where it is there.
    pub(crate) fn away(&self) -> Option<Away> {
        match self.state.load(Ordering::Relaxed) {
            THERE => None,
            SLOW => Some(Away::Slow),
            _ => Some(Away::Gone),
        }
    }

    /// Notes whether Redis is there, and lets those go on who wait.
    pub(crate) fn set_away(&self, away: Option<Away>) {
        let state = match away {
            None => THERE,
            Some(Away::Slow) => SLOW,
            Some(Away::Gone) => GONE,
        };
        self.state.store(state, Ordering::Relaxed);
        self.exchanges.send_replace(());
    }

    /// The end of each exchange from now on.
    pub(crate) fn exchanges(&self) -> watch::Receiver<()> {
        self.exchanges.subscribe()
    }

    /// Waits until somebody waits for an exchange.
    pub(crate) async fn asked(&self) {
        self.asked.notified().await;
    }
}

impl Quotas {
    /// Whether what is here does not suffice for a request, so that Redis has to be asked; it is, from now on.
    pub(crate) fn lacks_word(&self, subject: Subject, windows: &[QuotaWindow], now: Moment) -> bool {
        let Some(store) = &self.store else { return false };
        let mut shard = self.shard(subject).lock();
        let is_there = store.away() != Some(Away::Gone);
        let mut lacks = false;
        for &window in windows {
            let key = (subject, window.seconds.get());
            let counter = self.counter(&mut shard, key, true, now);
            if counter.lacks_word(window, is_there, now) {
                lacks = true;
                if counter.count(false) {
                    self.owe(key, counter);
                }
            }
        }
        if lacks {
            store.asked.notify_one();
        }
        lacks
    }

    /// What Redis is to be told and asked, for at most so many counters.
    pub(crate) fn to_store(&self, max: usize, now: Moment) -> Vec<ToStore> {
        let mut due = std::mem::take(&mut *self.due.lock());
        let later = due.split_off(due.len().min(max));
        let mut all = Vec::with_capacity(due.len());
        for (subject, seconds) in due {
            let mut shard = self.shard(subject).lock();
            if !shard.contains_key(&(subject, seconds)) {
                continue;
            }
            let Counter { window, sharing: Sharing::Store(stored), .. } =
                self.counter(&mut shard, (subject, seconds), true, now)
            else {
                continue;
            };
            stored.is_due = false;
            let part = |Part { slot, add, known }| ToStore { subject: subject.0, seconds, slot, add, known };
            all.extend(stored.owed(window).map(part));
        }
        self.due.lock().splice(0..0, later);
        all
    }

    /// Takes what Redis says of what it was told, in an exchange that took so long.
    pub(crate) fn stored(&self, told: &[ToStore], said: &[Stored], took: Duration, now: Moment) {
        for (told, &Stored { count, before }) in told.iter().zip(said) {
            let subject = Subject(told.subject);
            let mut shard = self.shard(subject).lock();
            let Some(Counter { window, sharing: Sharing::Store(stored), .. }) =
                shard.get_mut(&(subject, told.seconds))
            else {
                continue;
            };
            stored.hear(window, Said { slot: told.slot, count, before }, took, now);
        }
    }
}

impl Counter {
    /// Whether Redis has to be asked before a request. Where less than half of a limit is used as far as is known, it is enough to hear of it
    /// after the request, as long as Redis is there.
    fn lacks_word(&self, window: QuotaWindow, is_there: bool, now: Moment) -> bool {
        let Sharing::Store(stored) = &self.sharing else { return false };
        let is_far = || 2.0 * (self.used(window, now) + 1.0) <= f64::from(window.requests.get());
        let suffices = stored.is_known(now) || is_there && stored.was_heard() && is_far();
        !suffices
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
