//! A simulation, with seeds and a clock of its own, of replicas that report their counts to each other: the
//! requests that they admit together compared with the quota.

use std::num::NonZeroU32;
use std::time::Duration;

use aws_lc_rs::hmac::{HMAC_SHA256, Key};
use clients::limits::QUOTA_TELL_INTERVAL;
use clients::quota::{Quotas, Subject};
use clock::{Clock, Moment, Random};
use model::QuotaWindow;

use crate::datagram::Datagrams;

const NOW: u64 = 1_800_000_000;

/// Replicas, and datagrams in flight between them.
struct World {
    begin: Moment,
    random: Random,
    replicas: Vec<Replica>,
    /// Arrival, receiver and content of each datagram.
    on_the_way: Vec<(Duration, usize, Vec<u8>)>,
    /// One datagram in this many is lost; none where it is 0.
    lost: usize,
    window: QuotaWindow,
}

struct Replica {
    quotas: Quotas,
    exchange: Datagrams,
    /// Requests in a second that it receives.
    rate: f64,
    next_request: Duration,
    next_report: Duration,
    dies: Duration,
    admitted: u32,
    admitted_times: Vec<Duration>,
}

impl World {
    fn new(seed: u64, rates: &[f64]) -> Self {
        let random = Random::seeded(seed);
        let secret = Key::new(HMAC_SHA256, b"secret");
        let replica = |(number, &rate): (usize, &f64)| Replica {
            quotas: Quotas::new(None),
            exchange: Datagrams::new(secret.clone(), number as u64),
            rate,
            next_request: Duration::ZERO,
            // The replicas report at different times.
            next_report: QUOTA_TELL_INTERVAL.mul_f64(random.below(1000) as f64 / 1000.0),
            dies: Duration::MAX,
            admitted: 0,
            admitted_times: Vec::new(),
        };
        let replicas = rates.iter().enumerate().map(replica).collect();
        let number = |number| NonZeroU32::new(number).unwrap();
        let window = QuotaWindow { requests: number(1000), seconds: number(1) };
        let begin = Clock::new(Clock::begin()).now();
        Self { begin, random, replicas, on_the_way: Vec::new(), lost: 0, window }
    }

    /// Runs for this long, and returns the requests that all replicas have admitted.
    fn run(&mut self, time: Duration) -> u32 {
        let step = Duration::from_micros(100);
        let mut at = Duration::ZERO;
        while at < time {
            self.arrive(at);
            for number in 0..self.replicas.len() {
                self.ask(number, at);
                self.report(number, at);
            }
            at += step;
        }
        self.replicas.iter().map(|replica| replica.admitted).sum()
    }

    fn arrive(&mut self, at: Duration) {
        let now = self.begin.after(at);
        let mut waiting = std::mem::take(&mut self.on_the_way);
        for (_, to, datagram) in waiting.extract_if(.., |(due, ..)| *due <= at) {
            let replica = &mut self.replicas[to];
            // Datagrams that are too late are refused.
            if let Ok((from, counts)) = replica.exchange.read(&datagram, NOW) {
                replica.quotas.receive(from, &counts, now);
            }
        }
        self.on_the_way = waiting;
    }

    /// Requests arrive at random, at the replica's rate.
    fn ask(&mut self, number: usize, at: Duration) {
        let replica = &mut self.replicas[number];
        while replica.next_request <= at && at < replica.dies {
            let is_admitted =
                replica.quotas.take(subject(), &[self.window], true, self.begin.after(at)).is_admitted;
            if is_admitted {
                replica.admitted += 1;
                replica.admitted_times.push(at);
            }
            let uniform = (self.random.below(1 << 20) as f64 + 1.0) / f64::from(1 << 20);
            replica.next_request += Duration::from_secs_f64(-uniform.ln() / replica.rate);
        }
    }

    fn report(&mut self, number: usize, at: Duration) {
        let count = self.replicas.len();
        let replica = &mut self.replicas[number];
        if at < replica.next_report || at >= replica.dies {
            return;
        }
        replica.next_report += QUOTA_TELL_INTERVAL;
        let counts = replica.quotas.outgoing(100, self.begin.after(at));
        for datagram in replica.exchange.write(&counts, NOW) {
            for to in (0..count).filter(|to| *to != number) {
                if self.lost > 0 && self.random.below(self.lost) == 0 {
                    continue;
                }
                // A delay between 0.5 and 5 milliseconds.
                let delay = Duration::from_micros(500 + self.random.below(4500) as u64);
                self.on_the_way.push((at + delay, to, datagram.clone()));
            }
        }
    }
}

fn subject() -> Subject {
    Subject::of(1, true, b"client")
}

const TIME: Duration = Duration::from_secs(10);
const ALLOWED: f64 = 10_000.0;

/// The fraction of the quota by which the replicas admit more, or less below zero.
fn error(admitted: u32) -> f64 {
    f64::from(admitted) / ALLOWED - 1.0
}

#[test]
fn three_replicas_admit_the_quota_within_five_per_cent() {
    for (name, rates) in [
        ("evenly", [1000.0, 1000.0, 1000.0]),
        ("five times too much", [1700.0, 1700.0, 1700.0]),
        ("unevenly", [200.0, 800.0, 3000.0]),
        ("a little too much", [350.0, 350.0, 350.0]),
        ("one alone", [3000.0, 0.001, 0.001]),
    ] {
        for seed in 0..2 {
            let error = error(World::new(seed, &rates).run(TIME));
            println!("{name}, seed {seed}: {error:+.4}");
            assert!(error.abs() <= 0.05, "{name}, seed {seed}: {error:+.4}");
        }
    }
}

#[test]
fn a_replica_that_dies_costs_the_others_nothing() {
    for seed in 0..3 {
        let mut world = World::new(seed, &[1500.0, 1500.0, 1500.0]);
        world.replicas[2].dies = Duration::from_secs(4);
        let error = error(world.run(TIME));
        println!("one dies, seed {seed}: {error:+.4}");
        assert!(error.abs() <= 0.05, "seed {seed}: {error:+.4}");
        let since = |time: &Duration| *time >= Duration::from_secs(6);
        let late: usize = world
            .replicas
            .iter()
            .map(|replica| replica.admitted_times.iter().filter(|time| since(time)).count())
            .sum();
        assert!((3800..=4200).contains(&late), "seed {seed}: {late} in the last four seconds");
    }
}

#[test]
fn lost_datagrams_change_little() {
    for seed in 0..2 {
        let mut world = World::new(seed, &[1500.0, 1500.0, 1500.0]);
        world.lost = 5;
        let error = error(world.run(TIME));
        println!("one in five lost, seed {seed}: {error:+.4}");
        assert!(error.abs() <= 0.10, "seed {seed}: {error:+.4}");
    }
}

#[test]
fn below_the_quota_no_request_is_refused() {
    let mut world = World::new(7, &[200.0, 250.0, 300.0]);
    let error = error(world.run(TIME));
    assert!((-0.28..-0.22).contains(&error), "{error:+.4}");
}
