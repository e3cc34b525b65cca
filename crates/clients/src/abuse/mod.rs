//! Detection of clients whose behaviour is far off the others'. Each worker counts in windows of a second,
//! one thread judges the counts of all workers, and workers replace their table of verdicts when there is a
//! new one.
//!
//! Must not be in here: requests and connections, and the consequences of a verdict for them.

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

use clock::{Moment, TICK};
use foldhash::fast::SeedableRandomState as RandomState;
use parking_lot::Mutex;

pub use counts::Signal;
use judge::Judge;
pub use key::{ClientKey, NoClient};
use record::Treatment;
use sketch::Window;
use value::legible;
pub use verdicts::Verdict;
use verdicts::Verdicts;

use crate::limits::{
    ABUSE_ACTIVE_CLIENTS_MIN, ABUSE_RATE_MIN, ABUSE_TICKS_PER_WINDOW, ABUSE_WINDOWS_WAITING_MAX,
};

/// The state that all workers and the thread that judges share.
pub struct Abuse {
    workers: usize,
    hasher: RandomState,
    /// Hashes the values by which clients are identified; keyed, so that nobody can predict the hashes.
    value_hasher: std::hash::RandomState,
    /// Windows to be judged.
    full: Mutex<Vec<Window>>,
    /// Windows that have been judged, whose memory is used again.
    spare: Mutex<Vec<Window>>,
    judge: Mutex<Judge>,
    verdicts: Mutex<Arc<Verdicts>>,
    /// The number of the verdicts, so that workers see without the lock whether there are new ones.
    generation: AtomicU64,
    ticks: AtomicU64,
}

/// A client that the sketch has noticed, for operators.
#[derive(Clone, Debug, PartialEq)]
pub struct NoticedClient {
    /// The address of the client, or the network that it is counted with.
    pub client: ClientKey,
    /// The beginning of the value that identifies it; none for an address, and until the client has sent a
    /// request under a verdict.
    pub value: Option<String>,
    /// How its requests are treated: `watched`, `slowed` or `refused`.
    pub treatment: &'static str,
    /// Seconds until its refusal ends; 0 if it is not refused.
    pub refused_for_s: u32,
    /// Recent refusals, by which the next one becomes longer.
    pub refusals: u8,
    /// The signals by which it is far off the others.
    pub signals: Vec<&'static str>,
    /// The rate of each signal, in a second, over about the last ten seconds.
    pub rates: Vec<(&'static str, f32)>,
}

/// Selects the clients to be released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientSelector {
    /// The client with this key.
    One(ClientKey),
    /// The clients that send a value, as [`NoticedClient`] shows it.
    WithValue(String),
    /// All clients that are noticed.
    All,
}

/// Figures for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// The number of clients that are watched, slowed and refused.
    pub clients: [u64; 3],
    /// Bytes of memory.
    pub bytes: u64,
}

impl Abuse {
    /// No clients, for so many workers.
    pub fn new(workers: usize) -> Arc<Self> {
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
            value_hasher: std::hash::RandomState::new(),
            full: Mutex::default(),
            spare: Mutex::default(),
            generation: AtomicU64::new(0),
            ticks: AtomicU64::new(0),
        })
    }

    fn hash(&self, client: ClientKey) -> u64 {
        self.hasher.hash_one(client.bits())
    }

    /// Judges the counts of a window at its end, and returns the new figures then. One thread calls it, once
    /// a [`TICK`].
    pub fn tick(&self, now: Moment) -> Option<Figures> {
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
        // Twice: workers count in as many windows meanwhile.
        let windows = full.iter().map(Window::bytes).sum::<usize>() * 2;
        for window in &mut full {
            window.clear();
        }
        self.spare.lock().append(&mut full);
        self.publish(&judge, has_changed);
        let bytes = windows + judge.bytes() + self.verdicts.lock().bytes();
        Figures { clients: judge.count(), bytes: bytes as u64 }
    }

    /// Makes new verdicts for the workers, if anything has changed.
    fn publish(&self, judge: &Judge, has_changed: bool) {
        let overview = judge.overview();
        // With few clients, the busiest may itself be the median, and would go unnoticed.
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

    /// The clients that have been noticed: those under a verdict first, and then the busiest.
    pub fn list(&self, now: Moment) -> Vec<NoticedClient> {
        let judge = self.judge.lock();
        let mut clients: Vec<_> = judge.clients().map(|(client, record)| (client, *record)).collect();
        let values: HashMap<_, _> = clients
            .iter()
            .filter_map(|(client, _)| Some((*client, judge.value(*client)?.to_owned())))
            .collect();
        drop(judge);
        clients.sort_unstable_by(|(_, one), (_, other)| other.weight().total_cmp(&one.weight()));
        let noticed = clients.into_iter().map(|(client, record)| NoticedClient {
            client,
            value: values.get(&client).cloned(),
            treatment: match record.treatment {
                Treatment::Watched => "watched",
                Treatment::Slowed => "slowed",
                Treatment::Refused => "refused",
            },
            refused_for_s: match record.treatment {
                Treatment::Refused => record.until_s.saturating_sub(second(now)),
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
        noticed.collect()
    }

    /// Lifts the verdicts on clients, and forgets what they were based on. Returns how many clients were
    /// under a verdict.
    pub fn release(&self, clients: &ClientSelector) -> usize {
        let mut judge = self.judge.lock();
        let released = match clients {
            ClientSelector::One(client) => usize::from(judge.release(*client)),
            ClientSelector::WithValue(value) => {
                let clients = judge.with_value(&legible(value.as_bytes()));
                clients.into_iter().filter(|client| judge.release(*client)).count()
            }
            ClientSelector::All => judge.release_all(),
        };
        self.publish(&judge, true);
        released
    }
}

/// Whole seconds since the clock's start.
fn second(now: Moment) -> u32 {
    u32::try_from(now.since_begin().as_secs()).unwrap_or(u32::MAX)
}

/// The points within a window of one worker from which on a client is noticed: half of the lowest rate that
/// is far off, so that requests before do not matter; and twice the median at least, so that a busy proxy
/// does not count every client exactly.
#[expect(clippy::cast_sign_loss, reason = "no rate is below zero, and a cast saturates")]
fn threshold(workers: usize, median: f32) -> u16 {
    let whole = (ABUSE_RATE_MIN / 2.0).max(median * 2.0);
    ((whole / workers.max(1) as f32) as u16).max(THRESHOLD_MIN)
}

/// The lowest such threshold, however many workers there are.
const THRESHOLD_MIN: u16 = 4;

// === impl AbuseCounter ===

/// The requests of a connection within a tick, which are added to the window together: a connection that
/// sends many costs the sketch ten additions in a second at most.
#[derive(Default)]
pub struct Tally(Cell<Tallied>);

/// The contents of a [`Tally`].
#[derive(Clone, Copy, Default)]
struct Tallied {
    /// The tick that the requests came in.
    tick: u64,
    client: ClientKey,
    requests: u16,
    /// How many of them were errors.
    errors: u16,
}

/// One worker's counts, and its copy of the verdicts.
pub struct AbuseCounter {
    shared: Arc<Abuse>,
    window: RefCell<Window>,
    verdicts: RefCell<Arc<Verdicts>>,
    threshold: Cell<u16>,
    /// There are no verdicts.
    is_quiet: Cell<bool>,
    generation: Cell<u64>,
    ticks: Cell<u64>,
}

impl AbuseCounter {
    /// A worker's counter without counts.
    pub fn new(shared: &Arc<Abuse>) -> Self {
        let verdicts = Arc::clone(&shared.verdicts.lock());
        Self {
            window: RefCell::new(Window::new(shared.hasher.clone(), shared.workers)),
            threshold: Cell::new(verdicts.threshold),
            is_quiet: Cell::new(true),
            verdicts: RefCell::new(verdicts),
            generation: Cell::new(u64::MAX),
            ticks: Cell::new(0),
            shared: Arc::clone(shared),
        }
    }

    /// Counts requests, and how many of them were errors: `[requests, errors]`.
    pub fn count_requests(&self, client: ClientKey, counts: [u16; 2]) {
        let hash = self.shared.hash(client);
        self.window.borrow_mut().count_requests(client, hash, counts, self.threshold.get());
    }

    /// Counts a request of a connection, together with its other requests of the same client within a tick.
    #[inline]
    pub fn count_request(&self, tally: &Tally, client: ClientKey, is_error: bool) {
        let tick = self.ticks.get();
        let mut tallied = tally.0.get();
        if tallied.tick != tick || tallied.client != client {
            self.conclude(tally);
            tallied = Tallied { tick, client, requests: 0, errors: 0 };
        }
        tallied.requests = tallied.requests.saturating_add(1);
        tallied.errors = tallied.errors.saturating_add(is_error.into());
        tally.0.set(tallied);
    }

    /// Adds the requests of a connection that are not in the window yet. It is to be called when the
    /// connection ends.
    #[cold]
    pub fn conclude(&self, tally: &Tally) {
        let Tallied { client, requests, errors, .. } = tally.0.take();
        if requests > 0 {
            self.count_requests(client, [requests, errors]);
        }
    }

    /// Counts a signal other than requests.
    #[cold]
    pub fn count(&self, client: ClientKey, signal: Signal) {
        let hash = self.shared.hash(client);
        self.window.borrow_mut().count(client, hash, signal, self.threshold.get());
    }

    /// The client that is identified by a value within a zone.
    pub fn with_value(&self, zone: u64, value: &[u8]) -> ClientKey {
        ClientKey::of_hash(self.shared.value_hasher.hash_one((zone, value)))
    }

    /// Records the value of a client under a verdict, for operators.
    #[cold]
    pub fn note_value(&self, client: ClientKey, value: &[u8]) {
        self.window.borrow_mut().note_value(client, value);
    }

    /// Whether there are no verdicts at all.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.is_quiet.get()
    }

    /// The verdict on a client; none if it may do as it likes.
    pub fn verdict(&self, client: ClientKey) -> Option<Verdict> {
        self.verdicts.borrow().get(client, self.shared.hash(client))
    }

    /// Replaces the verdicts if there are new ones, and hands over the counts at the end of a window. The
    /// worker calls it once a [`TICK`].
    pub fn tick(&self) {
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

/// Seconds after which a refused client may try again: when its refusal ends, and up to a fifth later at
/// random, so that not all clients come back at once.
pub fn retry_after(until_s: u32, now: Moment, random: u64) -> u64 {
    let left = u64::from(until_s.saturating_sub(second(now))).max(1);
    left + random % (left / 5 + 2)
}

const _: () = assert!(TICK.as_millis() as u64 * ABUSE_TICKS_PER_WINDOW == 1000, "rates are of a second");
