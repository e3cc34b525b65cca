//! A simulation, with seeds and a clock of its own, of replicas with common counts in Redis: the requests
//! that they admit together compared with the quota.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::ops::Range;
use std::time::Duration;

use clock::{Moment, Random};
use model::QuotaWindow;

use super::{Quotas, RedisReply, RedisState, RedisUpdate, Subject, Unavailable};
use crate::limits::LIMIT_REDIS_INTERVAL;

const SUBJECT: Subject = Subject(1);
/// The clock of Redis at the beginning.
const REDIS_CLOCK: Duration = Duration::from_millis(1_800_000_000_300);
/// Pause between tries to connect to a Redis that is gone.
const RECONNECT_PAUSE: Duration = Duration::from_millis(500);
const TIME: Duration = Duration::from_secs(10);
/// Excluded from the results: fixed windows follow the clock of Redis, so that a whole quota may be used up
/// in the rest of the first one.
const WARM_UP: Duration = Duration::from_secs(2);
const ALLOWED: f64 = 10_000.0;

struct World {
    random: Random,
    replicas: Vec<Replica>,
    /// Requests by fixed window.
    redis: HashMap<u64, u32>,
    /// The time for which Redis is gone; it has lost its data afterwards.
    gone: Range<Duration>,
    /// The longest round trip to Redis; the shortest is half of it.
    delay: Duration,
    window: QuotaWindow,
    admitted_times: Vec<Duration>,
}

struct Replica {
    quotas: Quotas,
    /// Requests in a second that it receives.
    rate: f64,
    next_request: Duration,
    next_exchange: Duration,
    /// Updates on their way to Redis, and when they arrive.
    sent: Option<(Duration, Vec<RedisUpdate>)>,
    /// Replies on their way back with their updates, and when they arrive.
    replied: Option<(Duration, Vec<RedisUpdate>, Vec<RedisReply>)>,
    /// When the last updates were sent.
    sent_at: Duration,
}

impl World {
    fn new(seed: u64, rates: &[f64]) -> Self {
        let random = Random::seeded(seed);
        let replica = |&rate: &f64| Replica {
            // Their own clocks are wrong, each by another time.
            quotas: Quotas::new(Some(RedisState::new(Duration::from_secs(random.below(100) as u64)))),
            rate,
            next_request: Duration::ZERO,
            next_exchange: LIMIT_REDIS_INTERVAL.mul_f64(random.chance()),
            sent: None,
            replied: None,
            sent_at: Duration::ZERO,
        };
        let replicas = rates.iter().map(replica).collect();
        let number = |number| NonZeroU32::new(number).unwrap();
        let window = QuotaWindow { requests: number(1000), seconds: number(1) };
        let (gone, delay) = (Duration::MAX..Duration::MAX, Duration::from_millis(5));
        Self { random, replicas, redis: HashMap::new(), gone, delay, window, admitted_times: Vec::new() }
    }

    /// Runs for the warm-up and so long, and returns the requests that all replicas have admitted after the
    /// warm-up.
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

    /// Requests arrive at random, at the replica's rate. None waits for Redis, as if it had replied for the
    /// counter before.
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
        let is_gone = self.gone.contains(&at);
        let replica = &mut self.replicas[number];
        if at >= replica.next_exchange {
            if is_gone {
                self.redis.clear();
                replica.quotas.redis().unwrap().set_unavailable(Some(Unavailable::Gone));
                replica.next_exchange += RECONNECT_PAUSE;
            } else {
                let updates = replica.quotas.redis_updates(100, moment(at));
                replica.sent = Some((at + half(&self.random, self.delay), updates));
                (replica.next_exchange, replica.sent_at) = (Duration::MAX, at);
            }
        }
        if let Some((_, updates)) = replica.sent.take_if(|(due, _)| *due <= at) {
            let redis = &mut self.redis;
            let replies = updates.iter().map(|update| apply(redis, update)).collect();
            replica.replied = Some((at + half(&self.random, self.delay), updates, replies));
            replica.quotas.redis().unwrap().set_clock(REDIS_CLOCK + at, moment(at));
        }
        if let Some((_, updates, replies)) = replica.replied.take_if(|(due, ..)| *due <= at) {
            let took = at.saturating_sub(replica.sent_at);
            replica.quotas.receive_redis(&updates, &replies, took, moment(at));
            replica.quotas.redis().unwrap().set_unavailable(None);
            replica.next_exchange = at + LIMIT_REDIS_INTERVAL;
        }
    }
}

/// The effect of the script in Redis.
fn apply(redis: &mut HashMap<u64, u32>, update: &RedisUpdate) -> RedisReply {
    let count = redis.entry(update.window).or_default();
    *count = (*count + update.add).max(update.known);
    let count = *count;
    RedisReply { count, before: redis.get(&(update.window - 1)).copied().unwrap_or(0) }
}

fn moment(at: Duration) -> Moment {
    Moment::BEGIN.after(at)
}

/// The fraction of the quota by which the replicas admit more, or less below zero.
fn error(admitted: usize) -> f64 {
    admitted as f64 / ALLOWED - 1.0
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
        for seed in 0..3 {
            let error = error(World::new(seed, &rates).run(TIME));
            println!("{name}, seed {seed}: {error:+.4}");
            assert!(error.abs() <= 0.05, "{name}, seed {seed}: {error:+.4}");
        }
    }
}

#[test]
fn with_ten_replicas_or_a_distant_redis_the_error_is_larger() {
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
fn a_redis_that_restarts_is_sent_the_known_requests() {
    for seed in 0..2 {
        let mut world = World::new(seed, &[1500.0, 1500.0, 1500.0]);
        world.gone = Duration::from_secs(4)..Duration::from_millis(4010);
        let error = error(world.run(TIME));
        println!("10 ms without redis, which loses its data, seed {seed}: {error:+.4}");
        assert!(error.abs() <= 0.10, "seed {seed}: {error:+.4}");
    }
}

#[test]
fn without_redis_each_replica_counts_alone_and_with_it_all_together_again() {
    let mut world = World::new(3, &[1500.0, 1500.0, 1500.0]);
    let second = Duration::from_secs(1);
    world.gone = second * 3..second * 6;
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
