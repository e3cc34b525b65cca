//! Who asks a cluster for most: how much each client has asked for of late beside the others, from a sketch of bounded memory.
//!
//! A count-min sketch, of which what the others have left in a cell is taken off (count-mean-min; Deng and Rafiei, "New estimation algorithms
//! for streaming data", 2007), so that many clients in one cell do not make each of them look busy. How many clients there are is known
//! from the empty cells of a row (linear counting; Whang et al., 1990). All counts are halved each second.
//!
//! Never in here: what is done with those who ask for most.

use std::net::IpAddr;
use std::time::Duration;

use crate::clock::Moment;
use crate::limits::{FAIR_ASKED_MIN, FAIR_CELLS, FAIR_FAR, FAIR_MUCH, FAIR_ROWS};

/// What clients have asked for.
pub(super) struct Fair {
    rows: Box<[[u16; FAIR_CELLS]; FAIR_ROWS]>,
    total: u32,
    halved: Moment,
    seed: u64,
}

/// How much a client asks for beside the mean of the others. Of those with the same priority, who asks for less is served first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Excess {
    /// As they do.
    #[default]
    None,
    /// Several times as much.
    Much,
    /// So much that it is the client's own excess that it is refused for.
    Far,
}

/// How many there are.
pub(crate) const EXCESSES: usize = 3;

/// Time in which what was asked for counts half.
const HALF_LIFE: Duration = Duration::from_secs(1);

impl Fair {
    pub(super) fn new(seed: u64, now: Moment) -> Self {
        Self { rows: Box::new([[0; FAIR_CELLS]; FAIR_ROWS]), total: 0, halved: now, seed }
    }

    /// Notes a request of a client.
    pub(super) fn note(&mut self, client: IpAddr, now: Moment) {
        self.age(now);
        for (row, cell) in self.rows.iter_mut().zip(cells(client, self.seed)) {
            row[cell] = row[cell].saturating_add(1);
        }
        self.total = self.total.saturating_add(1);
    }

    /// How much a client has asked for beside the others.
    pub(super) fn excess(&self, client: IpAddr) -> Excess {
        let asked = self.asked(client);
        let others = self.clients() - 1.0;
        if asked < FAIR_ASKED_MIN || others < 1.0 {
            return Excess::None;
        }
        let mean = ((f64::from(self.total) - asked) / others).max(0.5);
        match asked / mean {
            far if far >= FAIR_FAR => Excess::Far,
            much if much >= FAIR_MUCH => Excess::Much,
            _ => Excess::None,
        }
    }

    /// What it has asked for, probably.
    fn asked(&self, client: IpAddr) -> f64 {
        let of_row = |(row, cell): (&[u16; FAIR_CELLS], usize)| {
            let count = f64::from(row[cell]);
            count - (f64::from(self.total) - count) / (FAIR_CELLS - 1) as f64
        };
        self.rows.iter().zip(cells(client, self.seed)).map(of_row).fold(f64::INFINITY, f64::min)
    }

    /// How many clients have asked, probably.
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
        // What is less than half a request in its cell is gone, so that the sum is that of a row.
        self.total = self.rows[0].iter().map(|count| u32::from(*count)).sum();
    }
}

/// The cells of a client, one in each row. A client of IPv6 is a /64: it may have any address of it.
fn cells(client: IpAddr, seed: u64) -> [usize; FAIR_ROWS] {
    let bits = match client.to_canonical() {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => (address.to_bits() >> 64) as u64 ^ (1 << 63),
    };
    // SplitMix64's finaliser, of what nobody outside knows.
    let mixed = (bits ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let mixed = mixed ^ (mixed >> 31);
    std::array::from_fn(|row| (mixed >> (20 * row)) as usize % FAIR_CELLS)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::clock::Clock;
    use crate::random::Random;

    fn client(number: u32) -> IpAddr {
        Ipv4Addr::from(0x0a00_0000 + number).into()
    }

    /// Clients of which the first asks so many times as much as each of the others, for five seconds.
    fn asked(seed: u64, clients: u32, factor: u32, per_second: u32) -> Fair {
        let (random, begin) = (Random::seeded(seed), Clock::new(Clock::begin()).now());
        let mut fair = Fair::new(random.next(), begin);
        let step = Duration::from_secs(1) / per_second;
        for number in 0..5 * per_second {
            let drawn = random.below((clients - 1 + factor) as usize) as u32;
            fair.note(client(drawn.saturating_sub(factor - 1)), begin.after(step * number));
        }
        fair
    }

    #[test]
    fn one_of_a_thousand_that_asks_a_hundred_times_as_much_is_found_and_nobody_else() {
        for seed in 0..4 {
            let fair = asked(seed, 1000, 100, 20_000);
            assert_eq!(fair.excess(client(0)), Excess::Far, "seed {seed}");
            let accused = (1..1000).filter(|&number| fair.excess(client(number)) != Excess::None).count();
            assert!(accused <= 2, "seed {seed}: {accused}");
        }
    }

    #[test]
    fn who_asks_as_the_others_do_is_never_in_excess() {
        for (clients, rate) in [(2, 100), (10, 1000), (100, 5000), (5000, 20_000), (50_000, 20_000)] {
            let fair = asked(1, clients, 1, rate);
            let accused = (0..clients).filter(|&number| fair.excess(client(number)) != Excess::None).count();
            assert!(accused as u32 <= clients / 500, "{clients}: {accused}");
        }
    }

    #[test]
    fn one_alone_has_nobody_to_be_compared_with_and_one_of_two_has() {
        assert_eq!(asked(1, 1, 1, 1000).excess(client(0)), Excess::None);
        let fair = asked(1, 2, 100, 1000);
        assert_eq!((fair.excess(client(0)), fair.excess(client(1))), (Excess::Far, Excess::None));
        let fair = asked(1, 20, 8, 1000);
        assert_eq!((fair.excess(client(0)), fair.excess(client(1))), (Excess::Much, Excess::None));
    }

    #[test]
    fn it_is_forgotten_when_it_is_over() {
        let mut fair = asked(1, 100, 100, 5000);
        let much_later = fair.halved.after(Duration::from_secs(20));
        fair.note(client(1), much_later);
        assert_eq!((fair.excess(client(0)), fair.total), (Excess::None, 1));
    }

    #[test]
    fn addresses_of_one_network_of_ipv6_are_one_client() {
        let cells_of = |text: &str| cells(text.parse().unwrap(), 7);
        assert_eq!(cells_of("2001:db8::1"), cells_of("2001:db8::ffff:2"));
        assert_ne!(cells_of("2001:db8::1"), cells_of("2001:db8:0:1::1"));
        assert_eq!(cells_of("::ffff:192.0.2.1"), cells_of("192.0.2.1"));
    }
}
