//! A worker's counts within a window: all clients in a sketch of fixed size, and exact counts of those that
//! the sketch notices.
//!
//! It is a count-min sketch (Cormode and Muthukrishnan, "An improved data stream summary: the count-min
//! sketch and its applications", 2005): it never underestimates a client, and overestimates it only where
//! other clients share all of its counters. The positions in its rows are parts of one hash (Kirsch and
//! Mitzenmacher, "Less hashing, same performance", 2006). The estimate only decides from when on a client is
//! counted exactly, so that no client is judged by the requests of others.

use std::collections::HashMap;

use foldhash::fast::SeedableRandomState as RandomState;

use super::counts::{Counts, HIDDEN, Signal};
use super::key::ClientKey;
use super::value::legible;
use crate::limits::{ABUSE_SKETCH_CELLS, ABUSE_SKETCH_ROWS, ABUSE_TRACKED_MAX, ABUSE_VALUES_PER_WINDOW};

const MASK: usize = ABUSE_SKETCH_CELLS - 1;
const _: () = assert!(ABUSE_SKETCH_CELLS.is_power_of_two() && ABUSE_SKETCH_CELLS <= 1 << 16);

/// Clients with exact counts whose memory is kept from one window to the next.
const TRACKED_USUALLY: usize = 256;

/// A count-min sketch.
struct Sketch(Box<[[u16; ABUSE_SKETCH_CELLS]]>);

impl Sketch {
    fn new() -> Self {
        Self(vec![[0; ABUSE_SKETCH_CELLS]; ABUSE_SKETCH_ROWS].into())
    }

    /// Adds points to a client with this hash, and returns the estimate of its points.
    fn add(&mut self, hash: u64, points: u16) -> u16 {
        let mut least = u16::MAX;
        for (row, cells) in self.0.iter_mut().enumerate() {
            let cell = &mut cells[(hash >> (16 * (row + 1))) as usize & MASK];
            *cell = cell.saturating_add(points);
            least = least.min(*cell);
        }
        least
    }
}

/// A worker's counts since the window began.
pub(super) struct Window {
    sketch: Sketch,
    /// Requests by the lowest part of the client's hash. With fewer clients than counters, most counters are
    /// those of one client.
    pub(super) requests: Box<[u16; ABUSE_SKETCH_CELLS]>,
    /// Exact counts, since each client was noticed.
    pub(super) tracked: HashMap<ClientKey, Counts, RandomState>,
    tracked_max: usize,
    pub(super) totals: Counts,
    /// Values of clients under a verdict that are identified by one.
    pub(super) values: Vec<(ClientKey, Box<str>)>,
}

impl Window {
    /// An empty window of one of so many workers.
    pub(super) fn new(hasher: RandomState, workers: usize) -> Self {
        Self {
            sketch: Sketch::new(),
            requests: Box::new([0; ABUSE_SKETCH_CELLS]),
            tracked: HashMap::with_hasher(hasher),
            tracked_max: ABUSE_TRACKED_MAX / workers.max(1),
            totals: Counts::default(),
            values: Vec::new(),
        }
    }

    /// Records the value that identifies a client; of a few clients, since there is another window soon.
    #[cold]
    pub(super) fn note_value(&mut self, client: ClientKey, value: &[u8]) {
        if self.values.len() < ABUSE_VALUES_PER_WINDOW
            && !self.values.iter().any(|(known, _)| *known == client)
        {
            self.values.push((client, legible(value)));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.totals == Counts::default()
    }

    /// Counts `[requests, errors]`. A client with `threshold` points is noticed.
    pub(super) fn count_requests(
        &mut self,
        client: ClientKey,
        hash: u64,
        [requests, errors]: [u16; 2],
        threshold: u16,
    ) {
        let cell = &mut self.requests[hash as usize & MASK];
        *cell = cell.saturating_add(requests);
        self.totals[Signal::Requests as usize] += u32::from(requests);
        self.totals[Signal::Errors as usize] += u32::from(errors);
        let points = Signal::Requests.points().saturating_mul(requests);
        let points = points.saturating_add(Signal::Errors.points().saturating_mul(errors));
        let seen = self.sketch.add(hash, points);
        if seen >= threshold {
            let counts = [(Signal::Requests, requests), (Signal::Errors, errors)];
            self.track(client, &counts, seen.saturating_sub(points));
        }
    }

    /// Counts a signal other than requests.
    #[cold]
    pub(super) fn count(&mut self, client: ClientKey, hash: u64, signal: Signal, threshold: u16) {
        self.totals[signal as usize] += 1;
        let seen = self.sketch.add(hash, signal.points());
        if seen >= threshold {
            self.track(client, &[(signal, 1)], seen - signal.points());
        }
    }

    /// Adds to the exact counts of a client; `before` is the estimate of its points until then.
    #[cold]
    fn track(&mut self, client: ClientKey, signals: &[(Signal, u16)], before: u16) {
        let has_room = self.tracked.len() < self.tracked_max;
        let counts = match self.tracked.get_mut(&client) {
            Some(counts) => counts,
            None if has_room => {
                let counts = self.tracked.entry(client).or_default();
                counts[HIDDEN] = before.into();
                counts
            }
            None => return,
        };
        for (signal, count) in signals {
            counts[*signal as usize] += u32::from(*count);
        }
    }

    /// Clears all counts, and keeps the memory unless it has become large.
    pub(super) fn clear(&mut self) {
        self.sketch.0.iter_mut().for_each(|row| row.fill(0));
        self.requests.fill(0);
        self.tracked.clear();
        self.tracked.shrink_to(TRACKED_USUALLY);
        self.totals = Counts::default();
        self.values = Vec::new();
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        let fixed = (ABUSE_SKETCH_ROWS + 1) * ABUSE_SKETCH_CELLS * size_of::<u16>();
        // A table of the standard library has a control byte for each slot, and an eighth of its slots is
        // never used.
        let values = self.values.capacity() * size_of::<(ClientKey, Box<str>)>()
            + self.values.iter().map(|(_, value)| value.len()).sum::<usize>();
        fixed + values + self.tracked.capacity() * 8 / 7 * (size_of::<(ClientKey, Counts)>() + 1)
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;
    use std::net::Ipv4Addr;

    use super::*;

    fn client(number: u32) -> ClientKey {
        ClientKey::of(Ipv4Addr::from_bits(0x0a00_0000 + number).into())
    }

    #[test]
    fn the_sketch_never_underestimates_and_seldom_overestimates() {
        let hasher = super::super::simulation::seeded(7);
        let mut sketch = Sketch::new();
        let hash = |number| hasher.hash_one(client(number).bits());
        for number in 0..4000 {
            for _ in 0..=(number % 5) {
                sketch.add(hash(number), 1);
            }
        }
        let estimate = |sketch: &mut Sketch, number| sketch.add(hash(number), 0);
        let too_much = (0..4000).filter(|&number| {
            let (real, estimate) = (1 + (number % 5) as u16, estimate(&mut sketch, number));
            assert!(estimate >= real, "{number}: {estimate} of {real}");
            estimate > real
        });
        let too_much = too_much.count();
        assert!(too_much < 1600, "{too_much} of 4000 share a counter in each row");
    }

    #[test]
    fn a_client_that_is_noticed_is_counted_exactly_from_then_on() {
        let hasher = RandomState::random();
        let mut window = Window::new(hasher.clone(), 1);
        let (busy, other) = (client(1), client(2));
        for round in 0..30 {
            window.count_requests(busy, hasher.hash_one(busy.bits()), [1, u16::from(round % 2 == 0)], 61);
        }
        window.count_requests(other, hasher.hash_one(other.bits()), [1, 0], 61);
        // Two requests, of which one is an error, are seven points: the seventeenth reaches 62.
        assert_eq!(window.tracked[&busy], [14, 7, 0, 0, 0, 56]);
        assert!(!window.tracked.contains_key(&other));
        window.count(other, hasher.hash_one(other.bits()), Signal::Slow, 61);
        assert_eq!(window.tracked[&other], [0, 0, 0, 0, 1, 0], "once is enough");
        assert_eq!(window.totals, [31, 15, 0, 0, 1, 0]);
        window.clear();
        assert!(window.is_empty() && window.tracked.is_empty());
    }
}
