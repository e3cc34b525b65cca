//! The judgement: which clients are far off the others, each compared with all clients together.
//!
//! The clients that were noticed are kept like heavy hitters in Space-Saving (Metwally, Agrawal and El
//! Abbadi, "Efficient computation of frequent and top-k elements in data streams", 2005): in a table of fixed
//! size, from which the least busy are evicted; but a client begins with its own counts alone, and does not
//! inherit those of the one that it replaces.
//!
//! Must not be in here: requests.

use std::collections::HashMap;

use foldhash::fast::SeedableRandomState as RandomState;

use super::counts::{Rates, Signal};
use super::key::ClientKey;
use super::record::{DECAY, Record, Treatment};
use super::sketch::Window;
use super::verdicts::Verdict;
use crate::eviction;
use crate::limits::{
    ABUSE_ACTIVE_CLIENTS_MIN, ABUSE_CLIENTS_MAX, ABUSE_FAULTS_MIN, ABUSE_MEDIANS_MIN, ABUSE_OTHERS_MIN,
    ABUSE_PART_MIN, ABUSE_RATE_MIN, ABUSE_SHARE_FACTOR, ABUSE_SHARE_MIN, ABUSE_SKETCH_CELLS, ABUSE_SLOW_MIN,
    ABUSE_VALUES_MAX,
};

/// Judges clients by the counts of all workers, in windows of a second.
pub(super) struct Judge {
    clients: HashMap<ClientKey, Record, RandomState>,
    /// Requests by hash of the client, as sums that decay.
    requests: Box<[f32]>,
    /// Counts of all clients together, as sums that decay.
    totals: Rates,
    overview: Overview,
    /// Values of clients under a verdict that are identified by one.
    values: HashMap<ClientKey, Box<str>, RandomState>,
    /// A client under a verdict was evicted.
    has_forgotten: bool,
}

/// The behaviour of all clients together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Overview {
    /// Clients with recent requests; no more than there are counters.
    pub(super) active: usize,
    /// The median of their requests in a second.
    pub(super) median: f32,
    /// The rate of each signal in a second.
    pub(super) rates: Rates,
}

impl Judge {
    pub(super) fn new(hasher: RandomState) -> Self {
        Self {
            clients: HashMap::with_hasher(hasher.clone()),
            requests: vec![0.0; ABUSE_SKETCH_CELLS].into(),
            totals: Rates::default(),
            overview: Overview::default(),
            values: HashMap::with_hasher(hasher),
            has_forgotten: false,
        }
    }

    /// Begins the judgement of a window: older counts decay.
    pub(super) fn begin(&mut self) {
        self.requests.iter_mut().for_each(|sum| *sum *= DECAY);
        self.totals.iter_mut().for_each(|sum| *sum *= DECAY);
        self.clients.values_mut().for_each(Record::decay);
    }

    /// Adds the counts of one worker.
    pub(super) fn add(&mut self, window: &Window) {
        for (sum, &count) in self.requests.iter_mut().zip(window.requests.iter()) {
            *sum += f32::from(count);
        }
        for (sum, &count) in self.totals.iter_mut().zip(&window.totals) {
            *sum += count as f32;
        }
        for (client, counts) in &window.tracked {
            if !self.clients.contains_key(client) {
                self.has_forgotten |= make_room(&mut self.clients);
            }
            self.clients.entry(*client).or_default().add(counts);
        }
        for (client, value) in &window.values {
            if self.values.len() < ABUSE_VALUES_MAX {
                self.values.entry(*client).or_insert_with(|| value.clone());
            }
        }
    }

    /// Judges all clients, at a second since the clock's start. Returns whether the treatment of any has
    /// changed.
    pub(super) fn conclude(&mut self, now_s: u32) -> bool {
        let overview = self.new_overview();
        self.overview = overview;
        let mut has_changed = std::mem::take(&mut self.has_forgotten);
        self.clients.retain(|_, record| {
            has_changed |= record.conclude(offences(record, &overview), now_s);
            !record.is_spent()
        });
        if self.clients.len() < self.clients.capacity() / 4 {
            self.clients.shrink_to(self.clients.len() * 2);
        }
        self.values.retain(|client, _| self.clients.get(client).is_some_and(Record::is_held));
        self.values.shrink_to(self.values.len() * 2);
        has_changed
    }

    fn new_overview(&self) -> Overview {
        // A request's share of the sum stays above this for 30 seconds.
        let mut active: Vec<f32> = self.requests.iter().copied().filter(|&sum| sum > 0.05).collect();
        let count = active.len();
        let median = match count {
            0 => 0.0,
            _ => *active.select_nth_unstable_by(count / 2, f32::total_cmp).1,
        };
        let rates = self.totals.map(|sum| sum * (1.0 - DECAY));
        Overview { active: count, median: median * (1.0 - DECAY), rates }
    }

    /// The clients that are slowed or refused.
    pub(super) fn held(&self) -> impl Iterator<Item = (ClientKey, Verdict)> {
        self.clients.iter().filter_map(|(client, record)| Some((*client, record.verdict()?)))
    }

    pub(super) fn overview(&self) -> Overview {
        self.overview
    }

    pub(super) fn clients(&self) -> impl Iterator<Item = (ClientKey, &Record)> {
        self.clients.iter().map(|(client, record)| (*client, record))
    }

    /// The number of clients with each treatment.
    pub(super) fn count(&self) -> [u64; 3] {
        let mut counts = [0; 3];
        self.clients.values().for_each(|record| counts[record.treatment as usize] += 1);
        counts
    }

    /// The value that identifies a client, if it is known.
    pub(super) fn value(&self, client: ClientKey) -> Option<&str> {
        self.values.get(&client).map(|value| &**value)
    }

    /// The clients that send a value.
    pub(super) fn with_value(&self, value: &str) -> Vec<ClientKey> {
        self.values.iter().filter(|(_, known)| ***known == *value).map(|(client, _)| *client).collect()
    }

    /// Forgets a client. Returns whether it was slowed or refused.
    pub(super) fn release(&mut self, client: ClientKey) -> bool {
        self.values.remove(&client);
        self.clients.remove(&client).is_some_and(|record| record.treatment != Treatment::Watched)
    }

    /// Forgets all clients. Returns how many were slowed or refused.
    pub(super) fn release_all(&mut self) -> usize {
        let [_, slowed, refused] = self.count();
        self.clients.clear();
        self.values.clear();
        (slowed + refused) as usize
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        let of_requests = size_of_val(&*self.requests);
        let of_values = self.values.capacity() * 8 / 7 * (size_of::<(ClientKey, Box<str>)>() + 1)
            + self.values.values().map(|value| value.len()).sum::<usize>();
        of_requests + of_values + self.clients.capacity() * 8 / 7 * (size_of::<(ClientKey, Record)>() + 1)
    }
}

/// The signals by which a client is far off the others, as a set of bits.
fn offences(record: &Record, overview: &Overview) -> u8 {
    let mut offences = 0;
    for signal in Signal::ALL {
        // Both look at the last window too: a client that has stopped commits no offence.
        let is_offence = match signal {
            Signal::Requests => is_far_off_by_rate(record, overview),
            _ => is_far_off_by_share(record, signal, overview),
        };
        if is_offence {
            offences |= signal.bit();
        }
    }
    offences
}

fn is_far_off_by_rate(record: &Record, overview: &Overview) -> bool {
    let rate = record.rate(Signal::Requests);
    rate >= ABUSE_RATE_MIN
        && record.last_rate(Signal::Requests) >= ABUSE_RATE_MIN
        && overview.active >= ABUSE_ACTIVE_CLIENTS_MIN
        && rate >= overview.median * ABUSE_MEDIANS_MIN
        && rate >= overview.rates[Signal::Requests as usize] * ABUSE_PART_MIN
}

fn is_far_off_by_share(record: &Record, signal: Signal, overview: &Overview) -> bool {
    let (own, least) = (record.rate(signal), faults_min(signal));
    if own < least || record.last_rate(signal) < least.min(1.0) {
        return false;
    }
    let all = overview.rates[signal as usize];
    let of = |rates: &dyn Fn(Signal) -> f32| match signal {
        // Errors are part of the requests; the other signals are not.
        Signal::Requests | Signal::Errors => rates(Signal::Requests),
        _ => rates(Signal::Requests) + rates(signal),
    };
    let own_whole = of(&|signal| record.rate(signal));
    // Its counts from before it was noticed are not part of the others'.
    let hidden = record.hidden_rate(signal).min(all - own);
    let others_whole = of(&|signal| overview.rates[signal as usize]) - own_whole - hidden;
    let share = own / own_whole.max(own);
    let others_share = (all - own - hidden).max(0.0) / others_whole.max(ABUSE_OTHERS_MIN);
    others_whole >= ABUSE_OTHERS_MIN
        && share >= ABUSE_SHARE_MIN
        && share >= others_share * ABUSE_SHARE_FACTOR
        && own >= all * ABUSE_PART_MIN
}

fn faults_min(signal: Signal) -> f32 {
    if signal == Signal::Slow { ABUSE_SLOW_MIN } else { ABUSE_FAULTS_MIN }
}

/// Evicts clients where the table is full, those with the lowest weight first. Returns whether one of them
/// was under a verdict, which ends with that.
fn make_room(clients: &mut HashMap<ClientKey, Record, RandomState>) -> bool {
    let mut has_forgotten = false;
    // The bits of numbers that are not negative have the order of the numbers.
    let weight = |record: &Record| record.weight().to_bits();
    eviction::make_room(clients, ABUSE_CLIENTS_MAX, weight, |record| {
        has_forgotten |= record.verdict().is_some();
    });
    has_forgotten
}

#[cfg(test)]
mod tests {
    use super::super::simulation::seeded;
    use super::*;

    fn client(number: usize) -> ClientKey {
        ClientKey::of(std::net::Ipv4Addr::from_bits(0x0a00_0000 + number as u32).into())
    }

    #[test]
    fn the_verdict_on_a_client_that_is_evicted_ends() {
        let (mut judge, mut window) = (Judge::new(seeded(1)), Window::new(seeded(1), 1));
        let refused = Record::refused_until(600);
        for number in 0..ABUSE_CLIENTS_MAX {
            judge.clients.insert(client(number), refused);
        }
        assert!(!judge.conclude(1), "all stay as they are");
        window.count(client(ABUSE_CLIENTS_MAX), 7, Signal::Slow, 1);
        judge.begin();
        judge.add(&window);
        assert!(judge.conclude(2), "there are new verdicts");
        assert_eq!(judge.held().count(), ABUSE_CLIENTS_MAX - ABUSE_CLIENTS_MAX / 8);
    }

    #[test]
    fn only_values_of_clients_under_a_verdict_are_kept() {
        let (mut judge, mut window) = (Judge::new(seeded(2)), Window::new(seeded(2), 1));
        let [refused, other] = [1 << 20, 2 << 20].map(ClientKey::of_hash);
        judge.clients.insert(refused, Record::refused_until(60));
        for client in [refused, other] {
            window.note_value(client, b"key of mine");
        }
        judge.add(&window);
        judge.conclude(1);
        assert_eq!((judge.value(refused), judge.value(other)), (Some("key of mine"), None));
        assert_eq!(judge.with_value("key of mine"), [refused]);
        assert!(judge.release(refused) && judge.with_value("key of mine").is_empty());
    }
}
