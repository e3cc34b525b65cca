//! Simulations with seeds: clients with rates of their own, workers among which their requests are spread,
//! and a clock that advances in windows.

use std::net::{IpAddr, Ipv4Addr};

use clock::{Clock, Random};
use foldhash::SharedSeed;
use foldhash::fast::SeedableRandomState as RandomState;

use super::*;
use crate::limits::{ABUSE_VALUE_CHARS_MAX, ABUSE_VALUES_MAX};

pub(super) fn seeded(seed: u64) -> RandomState {
    RandomState::with_seed(seed, SharedSeed::global_fixed())
}

/// A number with the Poisson distribution of this mean.
#[expect(clippy::cast_sign_loss, reason = "it is never below zero")]
fn poisson(random: &Random, mean: f64) -> u32 {
    if mean > 30.0 {
        // The normal distribution is near enough: the sum of twelve uniform numbers has the variance 1.
        let sum: f64 = (0..12).map(|_| random.chance()).sum();
        return (mean + (sum - 6.0) * mean.sqrt()).max(0.0) as u32;
    }
    let limit = (-mean).exp();
    let mut product = random.chance();
    let mut count = 0;
    while product > limit {
        product *= random.chance();
        count += 1;
    }
    count
}

struct World {
    shared: Arc<Abuse>,
    workers: Vec<AbuseCounter>,
    clock: Clock,
    random: Random,
    figures: Figures,
}

fn client(number: u32) -> ClientKey {
    ClientKey::of(IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0001 + number)))
}

impl World {
    fn new(seed: u64, workers: usize) -> Self {
        let shared = Abuse::with(workers, seeded(seed));
        let workers = (0..workers).map(|_| AbuseCounter::new(&shared)).collect();
        let clock = Clock::new(Clock::begin());
        Self { shared, workers, clock, random: Random::seeded(seed), figures: Figures::default() }
    }

    /// Requests of a client in this second at a mean rate, of which a share fails.
    fn ask(&mut self, number: u32, rate: f64, error_share: f64) {
        for _ in 0..poisson(&self.random, rate) {
            let is_error = self.random.chance() < error_share;
            self.worker().count_requests(client(number), [1, is_error.into()]);
        }
    }

    fn note(&mut self, number: u32, signal: Signal, rate: f64) {
        for _ in 0..poisson(&self.random, rate) {
            self.worker().count(client(number), signal);
        }
    }

    fn worker(&mut self) -> &AbuseCounter {
        let at = self.random.next() as usize % self.workers.len();
        &self.workers[at]
    }

    /// Ends the second.
    fn pass(&mut self) {
        for _ in 0..ABUSE_TICKS_PER_WINDOW {
            self.clock.advance(TICK);
            self.workers.iter().for_each(AbuseCounter::tick);
            if let Some(figures) = self.shared.tick(self.clock.now()) {
                self.figures = figures;
            }
        }
        self.workers.iter().for_each(AbuseCounter::tick);
    }

    fn verdict(&self, number: u32) -> Option<Verdict> {
        self.workers[0].verdict(client(number))
    }

    fn is_refused(&self, number: u32) -> bool {
        matches!(self.verdict(number), Some(Verdict::Refuse { .. }))
    }

    fn held(&self) -> u64 {
        self.figures.clients[1] + self.figures.clients[2]
    }
}

#[test]
fn one_client_of_a_thousand_that_asks_a_hundred_times_as_much_is_hit_alone() {
    for (seed, workers) in [(1, 1), (2, 4), (3, 16)] {
        let mut world = World::new(seed, workers);
        let mut refused_at = None;
        for second in 0..15 {
            (0..1000).for_each(|number| world.ask(number, 1.5, 0.02));
            world.ask(1000, 150.0, 0.02);
            world.pass();
            assert!(world.held() == u64::from(world.verdict(1000).is_some()), "{second}");
            refused_at = refused_at.or(world.is_refused(1000).then_some(second));
        }
        assert!(refused_at.is_some_and(|second| (6..=13).contains(&second)), "{refused_at:?}");
        let noticed = &world.shared.list(world.clock.now())[0];
        assert_eq!((noticed.client, &noticed.signals[..]), (client(1000), &["requests"][..]));
    }
}

#[test]
fn a_slow_ramp_is_found_when_it_is_far_off_and_not_before() {
    let mut world = World::new(4, 2);
    let mut hit_at = None;
    for second in 0..120 {
        (0..400).for_each(|number| world.ask(number, 2.0, 0.0));
        world.ask(1000, 2.0 + f64::from(second), 0.0);
        world.pass();
        hit_at = hit_at.or(world.verdict(1000).map(|_| second));
    }
    // Rates lag by some ten seconds.
    assert!(hit_at.is_some_and(|second| (45..85).contains(&second)), "{hit_at:?}");
}

/// Each of these clients behaves like any other; against them, there are limits on routes and protection in
/// front of the proxy.
#[test]
fn a_botnet_of_clients_near_the_median_is_not_hit() {
    let mut world = World::new(5, 4);
    for second in 0..20 {
        (0..300).for_each(|number| world.ask(number, 2.0, 0.02));
        if second > 5 {
            (1000..6000).for_each(|number| world.ask(number, 6.0, 0.02));
        }
        world.pass();
        assert_eq!(world.held(), 0, "{second}");
    }
}

#[test]
fn a_gateway_with_many_well_behaved_users_is_hit_neither_by_errors_nor_by_connections() {
    let mut world = World::new(6, 2);
    for _ in 0..30 {
        (0..400).for_each(|number| world.ask(number, 2.0, 0.03));
        world.ask(1000, 35.0, 0.1);
        world.note(1000, Signal::Unused, 12.0);
        world.note(1000, Signal::Slow, 0.2);
        world.pass();
        assert_eq!(world.held(), 0);
    }
}

#[test]
fn each_kind_of_fault_is_found_and_a_failing_backend_is_no_clients_fault() {
    let faults = [Signal::Errors, Signal::Unused, Signal::Handshakes, Signal::Slow];
    for signal in faults {
        let mut world = World::new(7, 4);
        for second in 0..15 {
            // While all clients have errors, none is far off.
            let share = if second < 5 && signal == Signal::Errors { 0.9 } else { 0.02 };
            (0..200).for_each(|number| world.ask(number, 2.0, share));
            match signal {
                Signal::Errors => world.ask(1000, 40.0, 0.95),
                signal => world.note(1000, signal, 40.0),
            }
            world.pass();
            let first = if signal == Signal::Errors { 6 } else { 0 };
            assert!(second > first || world.held() == 0, "{signal:?} at {second}");
        }
        let Some(Verdict::Refuse { closes_connections, .. }) = world.verdict(1000) else {
            assert_eq!((signal, world.verdict(1000)), (Signal::Errors, Some(Verdict::Slow)));
            continue;
        };
        assert_eq!((closes_connections, world.held()), (signal.is_of_connections(), 1), "{signal:?}");
    }
}

#[test]
fn refusals_grow_while_a_client_goes_on_and_end_when_it_stops() {
    let mut world = World::new(8, 2);
    let mut refused = Vec::new();
    let mut run = |world: &mut World, seconds: u32, rate: f64| {
        for _ in 0..seconds {
            (0..100).for_each(|number| world.ask(number, 1.0, 0.0));
            world.ask(1000, rate, 0.0);
            world.pass();
            refused.push(world.is_refused(1000));
        }
    };
    run(&mut world, 100, 300.0);
    run(&mut world, 120, 1.0);
    let runs: Vec<usize> = refused.chunk_by(PartialEq::eq).filter(|run| run[0]).map(<[bool]>::len).collect();
    assert_eq!(runs[..3], [10, 20, 40], "{runs:?}");
    assert_eq!(world.verdict(1000), None, "it is served again");
}

#[test]
fn a_client_on_and_off_is_found_and_one_burst_is_forgiven() {
    let mut world = World::new(9, 2);
    let mut hit = [false; 2];
    for second in 0..60 {
        (0..100).for_each(|number| world.ask(number, 1.0, 0.0));
        world.ask(1000, if second % 2 == 0 { 400.0 } else { 0.0 }, 0.0);
        // A page with three hundred pictures, once.
        world.ask(1001, if second == 10 { 300.0 } else { 1.0 }, 0.0);
        world.pass();
        hit[0] |= world.is_refused(1000);
        hit[1] |= world.verdict(1001).is_some();
    }
    assert_eq!(hit, [true, false]);
}

#[test]
fn a_client_that_is_released_begins_anew() {
    let mut world = World::new(10, 1);
    let go_on = |world: &mut World, seconds| {
        for _ in 0..seconds {
            (0..50).for_each(|number| world.ask(number, 1.0, 0.0));
            world.ask(1000, 300.0, 0.0);
            world.pass();
        }
    };
    go_on(&mut world, 12);
    assert!(world.is_refused(1000));
    assert_eq!(
        (
            world.shared.release(&ClientSelector::One(client(1))),
            world.shared.release(&ClientSelector::One(client(1000)))
        ),
        (0, 1)
    );
    world.workers[0].tick();
    assert_eq!(world.verdict(1000), None);
    go_on(&mut world, 12);
    assert!(world.is_refused(1000));
    assert_eq!(world.shared.release(&ClientSelector::All), 1);
}

#[test]
fn few_clients_are_not_compared_by_their_rates() {
    let mut world = World::new(11, 1);
    for _ in 0..15 {
        (0..5).for_each(|number| world.ask(number, 1.0, 0.0));
        world.ask(1000, 1000.0, 0.0);
        world.pass();
    }
    assert_eq!(world.held(), 0);
}

/// More clients than the table holds, at eight workers, each noticed by one of them; and then the most
/// verdicts that there can be, in a table that is made while the one before is still in use.
#[test]
fn a_hundred_thousand_abusive_addresses_are_held_in_16_mb() {
    const ALL: u32 = 120_000;
    let mut world = World::new(12, 8);
    let mut bytes = 0;
    for second in 0..12 {
        for number in 0..ALL {
            // No worker has exact counts of all of them: other clients come first each time.
            let client = client((number + second * 17_000) % ALL);
            world.workers[number as usize % 8].count(client, Signal::Slow);
        }
        world.pass();
        bytes = bytes.max(world.figures.bytes);
    }
    let noticed: u64 = world.figures.clients.iter().sum();
    assert!((87_500..=100_000).contains(&noticed), "{noticed}");
    let held = (0..100_000).map(|number| (client(number), Verdict::Slow));
    let verdicts = Verdicts::new(100_000, held, 4, |client| world.shared.hash(client));
    // Of values that identify clients only the beginning is kept, in characters of four bytes at most.
    let values = ABUSE_VALUES_MAX * (4 * ABUSE_VALUE_CHARS_MAX + 2 * size_of::<(ClientKey, Box<str>)>());
    let whole = bytes + 2 * verdicts.bytes() as u64 + values as u64;
    assert!(whole <= 16 << 20, "{whole} bytes");
}
