//! Fairness between clients: how many requests each client has sent lately compared with the others, in a
//! sketch of bounded memory.
//!
//! A count-mean-min sketch: a count-min sketch from whose cells the estimated share of other clients is
//! subtracted (Deng and Rafiei, "New estimation algorithms for streaming data", 2007), so that many clients
//! in one cell do not make each of them look busy. The number of clients is estimated from the empty cells of
//! a row (linear counting; Whang et al., 1990). All counts are halved each second.
//!
//! Must not be in here: the consequences for clients that send more than others.

use std::net::IpAddr;
use std::time::Duration;

use clock::Moment;

use crate::limits::{FAIR_ASKED_MIN, FAIR_CELLS, FAIR_FAR, FAIR_MUCH, FAIR_ROWS};

/// Recent requests of all clients.
pub(super) struct Fairness {
    /// Requests by cell.
    rows: Box<[[u16; FAIR_CELLS]; FAIR_ROWS]>,
    /// The sum of a row.
    total: u32,
    /// When the counts were last halved.
    halved: Moment,
    seed: u64,
}

/// A client's share of the recent requests compared with the mean of the others. Of two requests with the
/// same priority, the one with the lower overuse is served first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Overuse {
    /// About as many as the others.
    #[default]
    None,
    /// Several times as many.
    Much,
    /// So many that the client has caused the overload itself.
    Far,
}

/// Variants of [`Overuse`].
pub(crate) const EXCESSES: usize = 3;

/// Interval at which counts are halved.
const HALF_LIFE: Duration = Duration::from_secs(1);

impl Fairness {
    /// No requests yet. `seed` decides which clients share cells, and must be unknown to clients.
    pub(super) fn new(seed: u64, now: Moment) -> Self {
        Self { rows: Box::new([[0; FAIR_CELLS]; FAIR_ROWS]), total: 0, halved: now, seed }
    }

    /// Counts a request of a client.
    pub(super) fn note(&mut self, client: IpAddr, now: Moment) {
        self.age(now);
        for (row, cell) in self.rows.iter_mut().zip(cells(client, self.seed)) {
            row[cell] = row[cell].saturating_add(1);
        }
        self.total = self.total.saturating_add(1);
    }

    /// A client's recent load compared with the others'.
    pub(super) fn overuse(&self, client: IpAddr) -> Overuse {
        let asked = self.asked(client);
        let others = self.clients() - 1.0;
        if asked < FAIR_ASKED_MIN || others < 1.0 {
            return Overuse::None;
        }
        let mean = ((f64::from(self.total) - asked) / others).max(0.5);
        match asked / mean {
            far if far >= FAIR_FAR => Overuse::Far,
            much if much >= FAIR_MUCH => Overuse::Much,
            _ => Overuse::None,
        }
    }

    /// Estimated requests of a client.
    fn asked(&self, client: IpAddr) -> f64 {
        let of_row = |(row, cell): (&[u16; FAIR_CELLS], usize)| {
            let count = f64::from(row[cell]);
            count - (f64::from(self.total) - count) / (FAIR_CELLS - 1) as f64
        };
        self.rows.iter().zip(cells(client, self.seed)).map(of_row).fold(f64::INFINITY, f64::min)
    }

    /// Estimated number of clients.
    fn clients(&self) -> f64 {
        let empty = self.rows[0].iter().filter(|count| **count == 0).count().max(1);
        let cells = FAIR_CELLS as f64;
        cells * (cells / empty as f64).ln()
    }

    fn age(&mut self, now: Moment) {
        let passed = now.since(self.halved).as_secs() / HALF_LIFE.as_secs();
        if passed == 0 {
            return;
        }
        self.halved = now;
        let halvings = passed.min(16) as u32;
        for count in self.rows.iter_mut().flatten() {
            *count = count.checked_shr(halvings).unwrap_or(0);
        }
        // Halving rounds down, so that the total is summed up again.
        self.total = self.rows[0].iter().map(|count| u32::from(*count)).sum();
    }
}

/// The cells of a client, one in each row. A client of IPv6 is a /64, since it may use any address of it.
fn cells(client: IpAddr, seed: u64) -> [usize; FAIR_ROWS] {
    let bits = match client.to_canonical() {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => (address.to_bits() >> 64) as u64 ^ (1 << 63),
    };
    // SplitMix64's finaliser, over a seed that clients do not know.
    let mixed = (bits ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let mixed = mixed ^ (mixed >> 31);
    std::array::from_fn(|row| (mixed >> (20 * row)) as usize % FAIR_CELLS)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use clock::{Clock, Random};

    use super::*;

    fn client(number: u32) -> IpAddr {
        Ipv4Addr::from(0x0a00_0000 + number).into()
    }

    /// Five seconds of clients of which the first sends `factor` times as many requests as each of the
    /// others.
    fn asked(seed: u64, clients: u32, factor: u32, per_second: u32) -> Fairness {
        let (random, begin) = (Random::seeded(seed), Clock::new(Clock::begin()).now());
        let mut fair = Fairness::new(random.next(), begin);
        let step = Duration::from_secs(1) / per_second;
        for number in 0..5 * per_second {
            let drawn = random.below((clients - 1 + factor) as usize) as u32;
            fair.note(client(drawn.saturating_sub(factor - 1)), begin.after(step * number));
        }
        fair
    }

    #[test]
    fn one_of_a_thousand_that_sends_a_hundred_times_as_much_is_found_alone() {
        for seed in 0..4 {
            let fair = asked(seed, 1000, 100, 20_000);
            assert_eq!(fair.overuse(client(0)), Overuse::Far, "seed {seed}");
            let accused = (1..1000).filter(|&number| fair.overuse(client(number)) != Overuse::None).count();
            assert!(accused <= 2, "seed {seed}: {accused}");
        }
    }

    #[test]
    fn clients_with_the_same_load_are_not_in_excess() {
        for (clients, rate) in [(2, 100), (10, 1000), (100, 5000), (5000, 20_000), (50_000, 20_000)] {
            let fair = asked(1, clients, 1, rate);
            let accused =
                (0..clients).filter(|&number| fair.overuse(client(number)) != Overuse::None).count();
            assert!(accused as u32 <= clients / 500, "{clients}: {accused}");
        }
    }

    #[test]
    fn a_single_client_is_not_in_excess_and_one_of_two_may_be() {
        assert_eq!(asked(1, 1, 1, 1000).overuse(client(0)), Overuse::None);
        let fair = asked(1, 2, 100, 1000);
        assert_eq!((fair.overuse(client(0)), fair.overuse(client(1))), (Overuse::Far, Overuse::None));
        let fair = asked(1, 20, 8, 1000);
        assert_eq!((fair.overuse(client(0)), fair.overuse(client(1))), (Overuse::Much, Overuse::None));
    }

    #[test]
    fn load_is_forgotten() {
        let mut fair = asked(1, 100, 100, 5000);
        let much_later = fair.halved.after(Duration::from_secs(20));
        fair.note(client(1), much_later);
        assert_eq!((fair.overuse(client(0)), fair.total), (Overuse::None, 1));
    }

    #[test]
    fn addresses_of_one_network_of_ipv6_are_one_client() {
        let cells_of = |text: &str| cells(text.parse().unwrap(), 7);
        assert_eq!(cells_of("2001:db8::1"), cells_of("2001:db8::ffff:2"));
        assert_ne!(cells_of("2001:db8::1"), cells_of("2001:db8:0:1::1"));
        assert_eq!(cells_of("::ffff:192.0.2.1"), cells_of("192.0.2.1"));
    }
}
