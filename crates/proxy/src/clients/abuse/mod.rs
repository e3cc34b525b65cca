//! Clients whose behaviour is far off the others': workers count, window by window, and one thread judges what all of them have counted. What
//! is held against clients is a table that workers take over when there is another one.
//!
//! Never in here: requests and connections, and what becomes of them.

mod counts;
mod judge;
mod key;
mod record;
#[cfg(test)]
mod simulation;
mod sketch;
mod value;
mod verdicts;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::SeedableRandomState as RandomState;
use parking_lot::Mutex;

pub(crate) use counts::Signal;
use judge::Judge;
pub use key::{ClientKey, NoClient};
pub(crate) use record::Standing;
use sketch::Window;
use value::legible;
pub(crate) use verdicts::Verdict;
use verdicts::Verdicts;

use crate::clock::Moment;
use crate::limits::{
    ABUSE_ACTIVE_CLIENTS_MIN, ABUSE_DELAYED_MAX, ABUSE_RATE_MIN, ABUSE_TICKS_PER_WINDOW,
    ABUSE_WINDOWS_WAITING_MAX, TICK,
};
use crate::places::{Place, Places};

/// What all workers and the thread that judges have in common.
pub(crate) struct Abuse {
    workers: usize,
    hasher: RandomState,
    /// Makes the hashes that stand for values, which nobody can foresee.
    of_values: std::hash::RandomState,
    /// Windows that are to be judged.
    full: Mutex<Vec<Window>>,
    /// Windows that were, with their memory.
    spare: Mutex<Vec<Window>>,
    judge: Mutex<Judge>,
    verdicts: Mutex<Arc<Verdicts>>,
    /// Of the verdicts.
    generation: AtomicU64,
    ticks: AtomicU64,
}

/// A client that was noticed, for operators.
#[derive(Clone, Debug, PartialEq)]
pub struct NoticedClient {
    /// Who it is.
    pub client: ClientKey,
    /// The beginning of the value by which it is told from others, where something is held against it and it has asked for something since.
    pub value: Option<String>,
    /// What becomes of what it asks for: `watched`, `slowed` or `refused`.
    pub standing: &'static str,
    /// Seconds for which it is still refused.
    pub refused_for_s: u32,
    /// Refusals that are not forgotten.
    pub refusals: u8,
    /// By what it is far off the others.
    pub signals: Vec<&'static str>,
    /// Of each kind, in a second, over the last ten seconds or so.
    pub rates: Vec<(&'static str, f32)>,
}

/// Clients that are to be released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whom {
    /// One of them.
    One(ClientKey),
    /// Those that send a value, as far as that is told.
    WithValue(String),
    /// All of them.
    All,
}

/// Figures for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Clients that are watched, slowed and refused.
    pub(crate) clients: [u64; 3],
    /// Memory of all of it.
    pub(crate) bytes: u64,
}

impl Abuse {
    /// Nobody has been noticed.
    pub(crate) fn new(workers: usize) -> Arc<Self> {
        Self::with(workers, RandomState::random())
    }

    fn with(workers: usize, hasher: RandomState) -> Arc<Self> {
        Arc::new(Self {
            workers,
            judge: Mutex::new(Judge::new(hasher.clone())),
            verdicts: Mutex::new(Arc::new(Verdicts::new(
                0,
                std::iter::empty(),
                threshold(workers, 0.0),
                |_| 0,
            ))),
            hasher,
            of_values: std::hash::RandomState::new(),
            full: Mutex::default(),
            spare: Mutex::default(),
            generation: AtomicU64::new(0),
            ticks: AtomicU64::new(0),
        })
    }

    fn hash(&self, client: ClientKey) -> u64 {
        self.hasher.hash_one(client.bits())
    }

    /// Judges what has been counted, once for each window. It is to be called at each tick, by one thread. Returns new figures, if any.
    pub(crate) fn tick(&self, now: Moment) -> Option<Figures> {
        let ticks = self.ticks.fetch_add(1, Ordering::Relaxed) + 1;
        ticks.is_multiple_of(ABUSE_TICKS_PER_WINDOW).then(|| self.conclude(now))
    }

    fn conclude(&self, now: Moment) -> Figures {
        let mut full = std::mem::take(&mut *self.full.lock());
        let mut judge = self.judge.lock();
        judge.begin();
        for window in &full {
            judge.add(window);
        }
        let has_changed = judge.conclude(second(now));
        // As much again for those in which workers count meanwhile.
        let windows = full.iter().map(Window::bytes).sum::<usize>() * 2;
        for window in &mut full {
            window.clear();
        }
        self.spare.lock().append(&mut full);
        self.publish(&judge, has_changed);
        let bytes = windows + judge.bytes() + self.verdicts.lock().bytes();
        Figures { clients: judge.count(), bytes: bytes as u64 }
    }

    /// Hands new verdicts to the workers, if there are any.
    fn publish(&self, judge: &Judge, has_changed: bool) {
        let overview = judge.overview();
        // Of few clients the busiest is the one in the middle, and would go unnoticed for that.
        let median = if overview.active < ABUSE_ACTIVE_CLIENTS_MIN { 0.0 } else { overview.median };
        let threshold = threshold(self.workers, median);
        if has_changed || self.verdicts.lock().threshold != threshold {
            let [_, slowed, refused] = judge.count();
            let count = (slowed + refused) as usize;
            let verdicts = Verdicts::new(count, judge.held(), threshold, |client| self.hash(client));
            *self.verdicts.lock() = Arc::new(verdicts);
            self.generation.fetch_add(1, Ordering::Release);
        }
    }

    /// The clients that were noticed, those first against whom something is held, and then the busiest.
    pub(crate) fn list(&self, now: Moment) -> Vec<NoticedClient> {
        let judge = self.judge.lock();
        let mut clients: Vec<_> = judge.clients().map(|(client, record)| (client, *record)).collect();
        let values: HashMap<_, _> = clients
            .iter()
            .filter_map(|(client, _)| Some((*client, judge.value(*client)?.to_owned())))
            .collect();
        drop(judge);
        clients.sort_unstable_by(|(_, one), (_, other)| other.weight().total_cmp(&one.weight()));
        let told = clients.into_iter().map(|(client, record)| NoticedClient {
            client,
            value: values.get(&client).cloned(),
            standing: match record.standing {
                Standing::Watched => "watched",
                Standing::Slowed => "slowed",
                Standing::Refused => "refused",
            },
            refused_for_s: match record.standing {
                Standing::Refused => record.until_s.saturating_sub(second(now)),
                _ => 0,
            },
            refusals: record.strikes,
            signals: Signal::ALL
                .iter()
                .filter(|signal| record.signals & signal.bit() != 0)
                .map(|signal| signal.name())
                .collect(),
            rates: Signal::ALL.iter().map(|signal| (signal.name(), record.rate(*signal))).collect(),
        });
        told.collect()
    }

    /// Forgets what is held against clients. Returns against how many something was.
    pub(crate) fn release(&self, whom: &Whom) -> usize {
        let mut judge = self.judge.lock();
        let released = match whom {
            Whom::One(client) => usize::from(judge.release(*client)),
            Whom::WithValue(value) => {
                let clients = judge.with_value(&legible(value.as_bytes()));
                clients.into_iter().filter(|client| judge.release(*client)).count()
            }
            Whom::All => judge.release_all(),
        };
        self.publish(&judge, true);
        released
    }
}

/// Whole seconds since the proxy began.
fn second(now: Moment) -> u32 {
    u32::try_from(now.since_begin().as_secs()).unwrap_or(u32::MAX)
}

/// How many points get a client noticed within a window of one worker. Half of what takes to be far off, so that what is not counted one
/// by one before makes no difference; twice the median at least, so that a busy proxy does not count everybody.
#[expect(
    clippy::cast_sign_loss,
    reason = "no rate is below zero, and what is too large for the type gives its largest value"
)]
fn threshold(workers: usize, median: f32) -> u16 {
    let whole = (ABUSE_RATE_MIN / 2.0).max(median * 2.0);
    ((whole / workers.max(1) as f32) as u16).max(THRESHOLD_MIN)
}

/// Points below which nobody is noticed, however many workers there are.
const THRESHOLD_MIN: u16 = 4;

// === impl AbuseCounter ===

/// Requests of a connection that are counted with its next one, or when it ends: the tick that they came in, whose they are, how many,
/// and how many of them were errors. So one that sends many costs the sketch no more than ten of them in a second.
#[derive(Default)]
pub(crate) struct Tally(Cell<(u64, ClientKey, [u16; 2])>);

/// What one worker counts, and what it is told.
pub(crate) struct AbuseCounter {
    shared: Arc<Abuse>,
    window: RefCell<Window>,
    verdicts: RefCell<Arc<Verdicts>>,
    threshold: Cell<u16>,
    /// Nothing is held against anybody.
    is_quiet: Cell<bool>,
    generation: Cell<u64>,
    ticks: Cell<u64>,
    delayed: Places,
}

impl AbuseCounter {
    pub(crate) fn new(shared: &Arc<Abuse>) -> Self {
        let verdicts = Arc::clone(&shared.verdicts.lock());
        Self {
            window: RefCell::new(Window::new(shared.hasher.clone(), shared.workers)),
            threshold: Cell::new(verdicts.threshold),
            is_quiet: Cell::new(true),
            verdicts: RefCell::new(verdicts),
            generation: Cell::new(u64::MAX),
            ticks: Cell::new(0),
            delayed: Places::new(ABUSE_DELAYED_MAX),
            shared: Arc::clone(shared),
        }
    }

    /// Counts requests, and how many of them were errors.
    pub(crate) fn count_requests(&self, client: ClientKey, counts: [u16; 2]) {
        let hash = self.shared.hash(client);
        self.window.borrow_mut().count_requests(client, hash, counts, self.threshold.get());
    }

    /// Counts a request of a connection together with the others that it has of the same client within a tick.
    #[inline]
    pub(crate) fn count_request(&self, tally: &Tally, client: ClientKey, is_error: bool) {
        let now = self.ticks.get();
        let (tick, whose, [requests, errors]) = tally.0.get();
        let counts = if (tick, whose) == (now, client) {
            [requests.saturating_add(1), errors.saturating_add(is_error.into())]
        } else {
            self.conclude(tally);
            [1, is_error.into()]
        };
        tally.0.set((now, client, counts));
    }

    /// Counts what a connection has had, the last time.
    #[cold]
    pub(crate) fn conclude(&self, tally: &Tally) {
        let (_, client, counts) = tally.0.take();
        if counts != [0; 2] {
            self.count_requests(client, counts);
        }
    }

    /// Counts anything else.
    #[cold]
    pub(crate) fn count(&self, client: ClientKey, signal: Signal) {
        let hash = self.shared.hash(client);
        self.window.borrow_mut().count(client, hash, signal, self.threshold.get());
    }

    /// Who sends a value that tells clients apart within a zone.
    pub(crate) fn with_value(&self, zone: u64, value: &[u8]) -> ClientKey {
        ClientKey::of_hash(self.shared.of_values.hash_one((zone, value)))
    }

    /// Takes note of the value of a client against whom something is held, for operators.
    #[cold]
    pub(crate) fn note_value(&self, client: ClientKey, value: &[u8]) {
        self.window.borrow_mut().note_value(client, value);
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.is_quiet.get()
    }

    /// What is held against a client.
    pub(crate) fn verdict(&self, client: ClientKey) -> Option<Verdict> {
        self.verdicts.borrow().get(client, self.shared.hash(client))
    }

    /// A place among the requests that wait; none where there are too many.
    pub(crate) fn delay(&self) -> Option<Place> {
        self.delayed.take()
    }

    /// Takes over new verdicts, and hands over what was counted at the end of a window.
    pub(crate) fn tick(&self) {
        let generation = self.shared.generation.load(Ordering::Acquire);
        if self.generation.replace(generation) != generation {
            let verdicts = Arc::clone(&self.shared.verdicts.lock());
            self.threshold.set(verdicts.threshold);
            self.is_quiet.set(verdicts.is_empty());
            *self.verdicts.borrow_mut() = verdicts;
        }
        self.ticks.set(self.ticks.get() + 1);
        if self.ticks.get().is_multiple_of(ABUSE_TICKS_PER_WINDOW) {
            self.hand_over();
        }
    }

    fn hand_over(&self) {
        let mut window = self.window.borrow_mut();
        if window.is_empty() {
            return;
        }
        let mut full = self.shared.full.lock();
        if full.len() >= ABUSE_WINDOWS_WAITING_MAX * self.shared.workers {
            return;
        }
        let spare = self.shared.spare.lock().pop();
        let next = spare.unwrap_or_else(|| Window::new(self.shared.hasher.clone(), self.shared.workers));
        full.push(std::mem::replace(&mut *window, next));
    }
}

/// Seconds after which a client that is refused may ask again: when its refusal ends, and up to a fifth later, so that not all ask at once.
pub(crate) fn retry_after(until_s: u32, now: Moment, random: u64) -> u64 {
    let left = u64::from(until_s.saturating_sub(second(now))).max(1);
    left + random % (left / 5 + 2)
}

const _: () = assert!(TICK.as_millis() as u64 * ABUSE_TICKS_PER_WINDOW == 1000, "rates are of a second");
