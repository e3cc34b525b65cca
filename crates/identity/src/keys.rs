//! The keys of an issuer, as those who fetch them and those who check tokens share them.
//!
//! The control plane fills a [`KeySource`], and workers read it. A worker that meets a key that is not known
//! requests a refresh, and may wait for its end; wakers of any executor serve. The last good set stays when
//! a fetch fails.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Serialize, Serializer};

use crate::jwk::KeySet;
use crate::limits::{REFRESH_INTERVAL, WAITING_MAX};

/// The keys of an issuer, which change while the process runs.
pub struct KeySource {
    /// Where the keys come from, for messages.
    name: String,
    /// A random number for each set that differs from the one before; 0 before there is one.
    generation: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    keys: Option<Arc<KeySet>>,
    /// Time since 1970 of the last fetch that gave keys.
    fetched: Option<Duration>,
    /// Time since 1970 of the last failure, and its reason; none once a fetch has given keys.
    failure: Option<(Duration, String)>,
    fetches: u64,
    failures: u64,
    /// Fetches that have ended.
    round: u64,
    /// Whether somebody fetches the keys again and again; without, they are fixed.
    has_fetcher: bool,
    /// Whether a fetch is under way, or the first one about to begin.
    is_fetching: bool,
    is_wanted: bool,
    /// When a worker last requested a refresh.
    asked: Option<Duration>,
    fetcher: Option<Waker>,
    /// Wakers of the tasks that wait for the end of a fetch.
    waiting: Vec<Waker>,
}

/// The state of the keys of an issuer, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Identifiers of the keys; `-` for one without.
    pub keys: Vec<String>,
    /// Keys that were ignored, each with the reason.
    pub ignored: Vec<String>,
    /// Time since 1970 of the last fetch that gave keys.
    pub fetched: Option<Duration>,
    /// Time since 1970 of the last failure since then, and its reason.
    pub failure: Option<(Duration, String)>,
    /// Fetches that gave keys.
    pub fetches: u64,
    /// Fetches that gave none.
    pub failures: u64,
}

impl KeySource {
    /// Keys that do not change.
    pub fn fixed(name: String, keys: KeySet) -> Self {
        let state = State { keys: Some(Arc::new(keys)), ..State::default() };
        Self { name, generation: AtomicU64::new(new_generation()), state: Mutex::new(state) }
    }

    /// Keys that somebody will fetch; none are known yet.
    pub fn fetched(name: String) -> Self {
        let state = State { has_fetcher: true, is_fetching: true, ..State::default() };
        Self { name, generation: AtomicU64::new(0), state: Mutex::new(state) }
    }

    /// Where the keys come from.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the keys are fetched, and so may change.
    pub fn is_fetched(&self) -> bool {
        self.state.lock().has_fetcher
    }

    /// A number that differs whenever the keys do, also from those of other sources; 0 before there are any.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The last good set, with its generation; none if there is none yet.
    pub fn current(&self) -> Option<(Arc<KeySet>, u64)> {
        let state = self.state.lock();
        let keys = state.keys.as_ref().map(Arc::clone)?;
        Some((keys, self.generation()))
    }

    /// Returns the state of the keys, for people.
    pub fn condition(&self) -> Condition {
        let state = self.state.lock();
        let keys = state.keys.iter().flat_map(|keys| keys.keys());
        Condition {
            keys: keys.map(|key| key.id().unwrap_or("-").to_owned()).collect(),
            ignored: state.keys.iter().flat_map(|keys| keys.ignored().iter().cloned()).collect(),
            fetched: state.fetched,
            failure: state.failure.clone(),
            fetches: state.fetches,
            failures: state.failures,
        }
    }

    /// Requests a refresh at a time since 1970. The future ends when a fetch has ended, whatever its result.
    /// A fetch that is under way serves for it. None if the keys are fixed, if a refresh was requested a
    /// short time ago and has ended, or if too many wait already.
    pub fn refresh(self: &Arc<Self>, now: Duration) -> Option<Refresh> {
        let mut state = self.state.lock();
        if !state.has_fetcher || state.waiting.len() >= WAITING_MAX {
            return None;
        }
        if !state.is_wanted && !state.is_fetching {
            let is_soon = state.asked.is_some_and(|asked| now < asked.saturating_add(REFRESH_INTERVAL));
            if is_soon {
                return None;
            }
            state.asked = Some(now);
            state.is_wanted = true;
            if let Some(fetcher) = state.fetcher.take() {
                fetcher.wake();
            }
        }
        Some(Refresh { source: Arc::clone(self), round: state.round })
    }

    /// Waits until a worker requests a refresh: for the one task that fetches.
    pub fn wanted(&self) -> impl Future<Output = ()> {
        std::future::poll_fn(|cx| {
            let mut state = self.state.lock();
            if state.is_wanted {
                return Poll::Ready(());
            }
            state.fetcher = Some(cx.waker().clone());
            Poll::Pending
        })
    }

    /// Begins a fetch.
    pub fn begin(&self) {
        let mut state = self.state.lock();
        state.is_fetching = true;
        state.is_wanted = false;
    }

    /// Ends a fetch at a time since 1970, and wakes all that wait for it. Returns whether the keys changed.
    pub fn put(&self, result: Result<KeySet, String>, now: Duration) -> bool {
        let mut state = self.state.lock();
        let differs = match result {
            Ok(keys) => {
                state.fetched = Some(now);
                state.failure = None;
                state.fetches += 1;
                let differs = state.keys.as_deref() != Some(&keys);
                state.keys = Some(Arc::new(keys));
                differs
            }
            Err(why) => {
                state.failure = Some((now, why));
                state.failures += 1;
                false
            }
        };
        if differs {
            self.generation.store(new_generation(), Ordering::Release);
        }
        state.round += 1;
        state.is_fetching = false;
        state.is_wanted = false;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
        differs
    }
}

/// A number that no other set has. Without randomness it is 0, for which nothing is remembered.
fn new_generation() -> u64 {
    let mut bytes = [0; 8];
    let _ = aws_lc_rs::rand::fill(&mut bytes);
    u64::from_be_bytes(bytes)
}

/// Sources of fixed keys are equal if their keys are; others are equal to themselves alone.
impl PartialEq for KeySource {
    fn eq(&self, other: &Self) -> bool {
        if std::ptr::eq(self, other) {
            return true;
        }
        let fixed = |source: &Self| {
            let state = source.state.lock();
            state.keys.as_ref().filter(|_| !state.has_fetcher).map(Arc::clone)
        };
        self.name == other.name && fixed(self).is_some_and(|keys| Some(keys) == fixed(other))
    }
}

impl Eq for KeySource {}

impl Serialize for KeySource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name)
    }
}

impl fmt::Debug for KeySource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name)
    }
}

/// A wait for the end of a fetch.
#[must_use = "it does nothing unless it is awaited"]
pub struct Refresh {
    source: Arc<KeySource>,
    round: u64,
}

impl Future for Refresh {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.source.state.lock();
        // A queue that is full is no reason to wait without being woken.
        if state.round != self.round || state.waiting.len() >= WAITING_MAX {
            return Poll::Ready(());
        }
        if !state.waiting.iter().any(|known| known.will_wake(cx.waker())) {
            state.waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests;
