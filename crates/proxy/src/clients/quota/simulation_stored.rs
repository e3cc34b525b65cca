//! Replicas whose counts are in one Redis, simulated with seeds and a clock of its own: what they admit together beside what the limit says.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::time::Duration;

use model::QuotaWindow;

use super::{Away, Quotas, Store, Stored, Subject, ToStore};
use crate::clock::Moment;
use crate::limits::{LIMIT_REDIS_INTERVAL, LIMIT_REDIS_PAUSE_MAX};
use crate::random::Random;

const SUBJECT: Subject = Subject(1);
/// What the clock of Redis says at the beginning.
const REDIS_CLOCK: Duration = Duration::from_millis(1_800_000_000_300);
const TIME: Duration = Duration::from_secs(10);
/// Fixed windows are those of Redis: a part of one may be used up at once at first, and then a whole one.
const WARM_UP: Duration = Duration::from_secs(2);
const ALLOWED: f64 = 10_000.0;

struct World {
    random: Random,
    replicas: Vec<Replica>,
    /// Requests by fixed window.
    redis: HashMap<u64, u32>,
    /// When Redis goes, and when it is back, without what it knew.
    gone: (Duration, Duration),
    /// The time from a replica to Redis and back, at most; it is half of that at least.
    delay: Duration,
    window: QuotaWindow,
    admitted_times: Vec<Duration>,
}

struct Replica {
    quotas: Quotas,
    /// Requests a second that come to it.
    rate: f64,
    next_request: Duration,
    next_exchange: Duration,
    /// What it has told, what is answered, and when each arrives.
    exchange: Option<(Duration, Vec<ToStore>)>,
    answer: Option<(Duration, Vec<ToStore>, Vec<Stored>)>,
    /// When it was told.
    told: Duration,
}

impl World {
    fn new(seed: u64, rates: &[f64]) -> Self {
        let random = Random::seeded(seed);
        let replica = |&rate: &f64| Replica {
            // Their own clocks are wrong, each by another time.
            quotas: Quotas::with_store(Some(Store::new(Duration::from_secs(random.below(100) as u64)))),
            rate,
            next_request: Duration::ZERO,
            next_exchange: LIMIT_REDIS_INTERVAL.mul_f64(random.chance()),
            exchange: None,
            answer: None,
            told: Duration::ZERO,
        };
        let replicas = rates.iter().map(replica).collect();
        let number = |number| NonZeroU32::new(number).unwrap();
        let window = QuotaWindow { requests: number(1000), seconds: number(1) };
        let (gone, delay) = ((Duration::MAX, Duration::MAX), Duration::from_millis(5));
        Self { random, replicas, redis: HashMap::new(), gone, delay, window, admitted_times: Vec::new() }
    }

    /// Runs for so long and a while before, and says how many requests all replicas have admitted in that time.
    fn run(&mut self, time: Duration) -> usize {
        let time = WARM_UP + time;
        let step = Duration::from_micros(100);
        let mut at = Duration::ZERO;
        while at < time {
            for number in 0..self.replicas.len() {
                self.ask(number, at);
                self.exchange(number, at);
            }
            at += step;
        }
        self.admitted_times.iter().filter(|&&at| at >= WARM_UP).count()
    }

    /// Requests come at random, as many as the rate says. None waits, as if Redis had said something of the counter before.
    fn ask(&mut self, number: usize, at: Duration) {
        let replica = &mut self.replicas[number];
        while replica.next_request <= at {
            if replica.quotas.take(SUBJECT, &[self.window], true, moment(at)).is_admitted {
                self.admitted_times.push(at);
            }
            let uniform = 1.0 - self.random.chance();
            replica.next_request += Duration::from_secs_f64(-uniform.ln() / replica.rate);
        }
    }

    fn exchange(&mut self, number: usize, at: Duration) {
        let half = |random: &Random, delay: Duration| delay.mul_f64(0.25 + random.chance() / 4.0);
        let is_gone = (self.gone.0..self.gone.1).contains(&at);
        let replica = &mut self.replicas[number];
        if at >= replica.next_exchange {
            if is_gone {
                self.redis.clear();
                replica.quotas.store().unwrap().set_away(Some(Away::Gone));
                replica.next_exchange += LIMIT_REDIS_PAUSE_MAX / 10;
            } else {
                let told = replica.quotas.to_store(100, moment(at));
                replica.exchange = Some((at + half(&self.random, self.delay), told));
                (replica.next_exchange, replica.told) = (Duration::MAX, at);
            }
        }
        if let Some((_, told)) = replica.exchange.take_if(|(due, _)| *due <= at) {
            let redis = &mut self.redis;
            let said = told.iter().map(|told| apply(redis, told)).collect();
            replica.answer = Some((at + half(&self.random, self.delay), told, said));
            let store = replica.quotas.store().unwrap();
            store.set_clock(REDIS_CLOCK + at, moment(at));
        }
        if let Some((_, told, said)) = replica.answer.take_if(|(due, ..)| *due <= at) {
            replica.quotas.stored(&told, &said, at.saturating_sub(replica.told), moment(at));
            replica.quotas.store().unwrap().set_away(None);
            replica.next_exchange = at + LIMIT_REDIS_INTERVAL;
        }
    }
}

/// What the script does.
fn apply(redis: &mut HashMap<u64, u32>, told: &ToStore) -> Stored {
    let count = redis.entry(told.slot).or_default();
    *count = (*count + told.add).max(told.known);
    let count = *count;
    Stored { count, before: redis.get(&(told.slot - 1)).copied().unwrap_or(0) }
}

fn moment(at: Duration) -> Moment {
    Moment::BEGIN.after(at)
}

/// By how much of what is allowed the replicas admit more (or less, below zero).
fn error(admitted: usize) -> f64 {
    admitted as f64 / ALLOWED - 1.0
}

#[test]
fn three_replicas_admit_what_the_limit_says_within_five_per_cent() {
    for (name, rates) in [
        ("evenly", [1000.0, 1000.0, 1000.0]),
        ("five times too much", [1700.0, 1700.0, 1700.0]),
        ("unevenly", [200.0, 800.0, 3000.0]),
        ("a little too much", [350.0, 350.0, 350.0]),
        ("one alone", [3000.0, 0.001, 0.001]),
    ] {
        for seed in 0..3 {
            let error = error(World::new(seed, &rates).run(TIME));
            println!("{name}, seed {seed}: {error:+.4}");
            assert!(error.abs() <= 0.05, "{name}, seed {seed}: {error:+.4}");
        }
    }
}

#[test]
fn ten_replicas_and_a_redis_that_is_far_away_differ_by_more() {
    for (name, rates, delay, bound) in [
        ("ten replicas", [600.0; 10].as_slice(), 5, 0.10),
        ("50 ms to redis and back", [1500.0; 3].as_slice(), 50, 0.10),
        ("200 ms to redis and back", [1500.0; 3].as_slice(), 200, 0.30),
    ] {
        for seed in 0..2 {
            let mut world = World::new(seed, rates);
            world.delay = Duration::from_millis(delay);
            let error = error(world.run(TIME));
            println!("{name}, seed {seed}: {error:+.4}");
            assert!(error.abs() <= bound, "{name}, seed {seed}: {error:+.4}");
        }
    }
}

#[test]
fn one_that_begins_anew_is_told_what_is_known() {
    for seed in 0..2 {
        let mut world = World::new(seed, &[1500.0, 1500.0, 1500.0]);
        world.gone = (Duration::from_secs(4), Duration::from_millis(4010));
        let error = error(world.run(TIME));
        println!("10 ms without redis, which forgets, seed {seed}: {error:+.4}");
        assert!(error.abs() <= 0.10, "seed {seed}: {error:+.4}");
    }
}

#[test]
fn without_it_each_replica_counts_alone_and_with_it_all_together_again() {
    let mut world = World::new(3, &[1500.0, 1500.0, 1500.0]);
    let second = Duration::from_secs(1);
    world.gone = (second * 3, second * 6);
    world.run(TIME);
    let between = |from: u32, until: u32| {
        let time = second * from..second * until;
        world.admitted_times.iter().filter(|&at| time.contains(at)).count()
    };
    let alone = between(4, 6);
    println!("alone: {alone} in 2 s");
    assert!((5400..=7000).contains(&alone), "three times as much: {alone}");
    let together = between(8, 10);
    assert!((1850..=2150).contains(&together), "{together}");
}

#[test]
fn below_the_limit_nobody_is_refused() {
    let mut world = World::new(7, &[200.0, 250.0, 300.0]);
    let error = error(world.run(TIME));
    assert!((-0.28..-0.22).contains(&error), "{error:+.4}");
}
