//! Simulations, event by event, of endpoints that fail and become slow, with a seed and a clock of their own.
//! Requests arrive at random, whether or not earlier ones are answered; each worker sends them to its
//! endpoints in turn, and judges these by its own observations.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use clock::Clock;
use observe::EndpointCells;

use super::*;

/// The parameters of a simulation.
#[derive(Clone, Copy)]
struct Scene {
    seconds: f64,
    workers: usize,
    endpoints: usize,
    /// Requests in a second.
    rate: f64,
    /// Latency in seconds at a healthy endpoint, for a random number from 0 to 1.
    service: fn(f64) -> f64,
    /// Factor on the latency of an endpoint, at a time in seconds.
    slowdown: fn(f64, usize) -> f64,
    /// Share of the requests that fail at an endpoint, at a time in seconds.
    failing: fn(f64, usize) -> f64,
    /// The outcome of those that fail.
    outcome: Outcome,
    /// Seconds after which clients give up; their requests have failed then.
    patience: f64,
    is_enforced: bool,
}

/// The outcome of a request.
struct Record {
    begin: f64,
    endpoint: usize,
    is_failed: bool,
}

struct Run {
    records: Vec<Record>,
    /// The most endpoints that a worker had ejected at a time.
    most_ejected: usize,
    /// Ejections of each endpoint, by all workers.
    ejections: Vec<u64>,
    /// Workers that have each endpoint ejected in the end.
    ejected: Vec<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrival,
    Done { worker: usize, endpoint: usize, sent: Moment, is_failed: bool, is_given_up: bool },
}

struct Worker {
    outliers: Outliers,
    healths: Vec<HealthRecord>,
    cursor: Cell<usize>,
}

impl Worker {
    fn pick(&self, is_enforced: bool, now: Moment) -> usize {
        let next = || {
            let at = self.cursor.get();
            self.cursor.set((at + 1) % self.healths.len());
            at
        };
        let is_in = |at: &usize| !self.healths[*at].is_ejected() || self.healths[*at].is_probe_due(now);
        let is_heard_of =
            |at: &usize| self.healths[*at].is_ejected() || !self.outliers.is_silent(&self.healths[*at], now);
        let turns = || (0..self.healths.len()).map(|_| next());
        let best = turns().find(|at| !is_enforced || (is_in(at) && is_heard_of(at)));
        let picked = best.or_else(|| turns().find(is_in)).expect("half of them are not ejected");
        let health = &self.healths[picked];
        health.note_sent(now);
        if health.is_ejected() {
            health.begin_probe(now);
        }
        picked
    }

    fn ejected(&self) -> usize {
        self.healths.iter().filter(|one| one.is_ejected()).count()
    }
}

impl Scene {
    fn play(self, seed: u64) -> Run {
        let (random, begin) = (Random::seeded(seed), Clock::new(Clock::begin()).now());
        let cells: Vec<Vec<_>> = (0..self.endpoints)
            .map(|_| (0..self.workers).map(|_| Arc::<EndpointCells>::default()).collect())
            .collect();
        let worker = |at: usize| Worker {
            outliers: Outliers::default(),
            healths: cells.iter().map(|cells| HealthRecord::new(Arc::clone(&cells[at]))).collect(),
            cursor: Cell::new(at % self.endpoints),
        };
        let workers: Vec<Worker> = (0..self.workers).map(worker).collect();
        let mut run =
            Run { records: Vec::new(), most_ejected: 0, ejections: Vec::new(), ejected: Vec::new() };
        let mut events = BinaryHeap::from([Reverse((begin, 0, Event::Arrival))]);
        let mut serial = 0;
        while let Some(Reverse((now, _, event))) = events.pop() {
            let at = now.since(begin).as_secs_f64();
            if at >= self.seconds {
                break;
            }
            let mut plan = |after: f64, event| {
                serial += 1;
                events.push(Reverse((now.after(Duration::from_secs_f64(after)), serial, event)));
            };
            match event {
                Event::Arrival => {
                    plan(-(1.0 - random.chance()).ln() / self.rate, Event::Arrival);
                    let worker = random.below(self.workers);
                    let endpoint = workers[worker].pick(self.is_enforced, now);
                    let is_failed = random.chance() < (self.failing)(at, endpoint);
                    let took = (self.service)(random.chance()) * (self.slowdown)(at, endpoint);
                    let took = if is_failed { took.min(0.001) } else { took };
                    let is_given_up = took > self.patience;
                    let took = took.min(self.patience);
                    run.records.push(Record { begin: at, endpoint, is_failed: is_failed || is_given_up });
                    plan(took, Event::Done { worker, endpoint, sent: now, is_failed, is_given_up });
                }
                Event::Done { worker, endpoint, sent, is_failed, is_given_up } => {
                    let Worker { outliers, healths, .. } = &workers[worker];
                    let (of, took) = (&healths[endpoint], now.since(sent));
                    if is_given_up {
                        of.note_left();
                        if of.note_given_up(took, now) {
                            let observed = Observed { outcome: Outcome::Good, took, is_comparable: true };
                            outliers.evaluate(of, observed, &healths.iter(), now, &random);
                        }
                        continue;
                    }
                    of.note_heard();
                    let outcome = if is_failed { self.outcome } else { Outcome::Good };
                    let is_comparable = outcome != Outcome::Fault;
                    let observed = Observed { outcome, took, is_comparable };
                    if of.note(observed, now) {
                        outliers.evaluate(of, observed, &healths.iter(), now, &random);
                    }
                    run.most_ejected = run.most_ejected.max(workers[worker].ejected());
                }
            }
        }
        let sum = |count: fn(&EndpointCells) -> u64| {
            cells.iter().map(|cells| cells.iter().map(|cells| count(cells)).sum()).collect()
        };
        run.ejections = sum(|cells| cells.ejections.get());
        run.ejected = sum(|cells| cells.ejected.get());
        run
    }
}

impl Run {
    fn share(&self, endpoint: usize, from: f64, to: f64) -> f64 {
        let all = self.between(from, to).count();
        self.between(from, to).filter(|record| record.endpoint == endpoint).count() as f64 / all as f64
    }

    fn failed(&self, from: f64, to: f64) -> f64 {
        let all = self.between(from, to).count();
        self.between(from, to).filter(|record| record.is_failed).count() as f64 / all as f64
    }

    fn between(&self, from: f64, to: f64) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(move |record| record.begin >= from && record.begin < to)
    }
}

fn seconds(at: f64) -> usize {
    std::time::Duration::from_secs_f64(at).as_secs() as usize
}

fn usual() -> Scene {
    Scene {
        seconds: 60.0,
        workers: 2,
        endpoints: 4,
        rate: 500.0,
        service: |chance| 0.01 * (0.5 - 0.5 * (1.0 - chance).ln()),
        slowdown: |_, _| 1.0,
        failing: |_, _| 0.0,
        outcome: Outcome::Error,
        patience: f64::INFINITY,
        is_enforced: true,
    }
}

const SEEDS: std::ops::Range<u64> = 1..4;

#[test]
fn no_endpoint_is_ejected_while_all_are_alike() {
    let pages_of_all_kinds = |chance: f64| 0.001 * 1000_f64.powf(chance);
    let two_kinds = |chance: f64| if chance < 0.5 { 0.001 } else { 0.3 };
    for seed in SEEDS {
        for service in [usual().service, pages_of_all_kinds, two_kinds] {
            for failing in [|_, _| 0.0, |_, _| 0.1, |_, _| 0.6] {
                for outcome in [Outcome::Error, Outcome::Fault] {
                    let run = Scene { service, failing, outcome, seconds: 20.0, ..usual() }.play(seed);
                    assert_eq!(run.ejections, [0; 4], "seed {seed}, {outcome:?}");
                }
            }
        }
    }
}

#[test]
fn an_endpoint_that_becomes_slow_has_no_requests_until_it_is_healthy() {
    for seed in SEEDS {
        let slowdown = |at, endpoint| if endpoint == 1 && (10.0..40.0).contains(&at) { 20.0 } else { 1.0 };
        let run = Scene { slowdown, ..usual() }.play(seed);
        let share = run.share(1, 12.0, 40.0);
        assert!(share <= 0.03, "seed {seed}: {share}");
        let share = run.share(1, 50.0, 60.0);
        assert!((0.2..0.3).contains(&share), "seed {seed}: {share}");
        assert!(
            run.ejections.iter().enumerate().all(|(at, count)| at == 1 || *count == 0),
            "{:?}",
            run.ejections
        );
    }
}

/// The endpoint is ejected long before the first client gives up, and only a few requests at the beginning
/// and probes wait for it.
#[test]
fn an_endpoint_that_hangs_is_found_by_its_silence() {
    for seed in SEEDS {
        for (rate, patience, failed_max) in [(500.0, 10.0, 0.005), (500.0, 1.0, 0.005), (40.0, 10.0, 0.03)] {
            let slowdown = |at, endpoint| if endpoint == 1 && (10.0..40.0).contains(&at) { 1e9 } else { 1.0 };
            let scene = Scene { rate, slowdown, patience, ..usual() };
            let run = scene.play(seed);
            let (failed, share) = (run.failed(10.0, 40.0), run.share(1, 12.0, 40.0));
            assert!(failed <= failed_max && share <= 0.03, "seed {seed}, {rate}/s: {failed}, {share}");
            let share = run.share(1, 52.0, 60.0);
            assert!((0.15..0.35).contains(&share), "seed {seed}, {rate}/s: {share}");
            assert!([0, 2, 3].iter().all(|&at| run.ejections[at] == 0), "{:?}", run.ejections);
        }
    }
}

/// One page takes a thousand times as long as the others, at every endpoint.
#[test]
fn single_slow_requests_keep_no_endpoint_from_others() {
    let one_page = |chance: f64| if chance < 0.002 { 20.0 } else { 0.01 * (0.5 + chance) };
    for seed in SEEDS {
        for rate in [10.0, 100.0, 500.0] {
            let run = Scene { service: one_page, rate, workers: 1, ..usual() }.play(seed);
            assert_eq!(run.ejections, [0; 4], "seed {seed}, {rate}/s");
            for endpoint in 0..4 {
                let share = run.share(endpoint, 5.0, 60.0);
                assert!((0.15..0.35).contains(&share), "seed {seed}, {rate}/s: {share}");
            }
        }
    }
}

#[test]
fn an_endpoint_that_fails_at_once_fails_few_requests() {
    for outcome in [Outcome::Error, Outcome::Fault] {
        for seed in SEEDS {
            let failing = |at, endpoint| if endpoint == 1 && (10.0..40.0).contains(&at) { 1.0 } else { 0.0 };
            let run = Scene { failing, outcome, ..usual() }.play(seed);
            let (failed, share) = (run.failed(10.0, 40.0), run.share(1, 12.0, 40.0));
            assert!(failed <= 0.005 && share <= 0.03, "seed {seed}, {outcome:?}: {failed}, {share}");
            let share = run.share(1, 50.0, 60.0);
            assert!((0.2..0.3).contains(&share), "seed {seed}, {outcome:?}: {share}");
        }
    }
}

#[test]
fn an_endpoint_with_errors_between_good_answers_is_found_by_their_share() {
    for seed in SEEDS {
        let failing = |at, endpoint| if endpoint == 2 && at >= 10.0 { 0.4 } else { 0.01 };
        let run = Scene { failing, ..usual() }.play(seed);
        let share = run.share(2, 15.0, 60.0);
        assert!(share <= 0.1, "seed {seed}: {share}");
        assert!([0, 1, 3].iter().all(|&at| run.ejections[at] == 0), "{:?}", run.ejections);
    }
}

#[test]
fn half_of_the_endpoints_are_never_ejected() {
    for seed in SEEDS {
        for endpoints in 1..8 {
            for outcome in [Outcome::Error, Outcome::Fault] {
                let all_fail = |at, _| if at >= 5.0 { 1.0 } else { 0.0 };
                let one_stays = |at, endpoint| if endpoint > 0 && at >= 5.0 { 1.0 } else { 0.0 };
                let chaos = |at: f64, endpoint: usize| f64::from((seconds(at) + endpoint).is_multiple_of(3));
                for failing in [all_fail, one_stays, chaos] {
                    let slowdown = |at: f64, endpoint: usize| {
                        if seconds(at * 0.7) % 5 == endpoint { 50.0 } else { 1.0 }
                    };
                    let run =
                        Scene { endpoints, failing, outcome, slowdown, seconds: 10.0, ..usual() }.play(seed);
                    assert!(
                        2 * run.most_ejected <= endpoints,
                        "seed {seed}: {} of {endpoints}",
                        run.most_ejected
                    );
                }
            }
        }
    }
}

#[test]
fn endpoints_that_all_fail_at_once_stay() {
    for seed in SEEDS {
        let failing = |at, _| if at >= 10.0 { 0.95 } else { 0.0 };
        let run = Scene { failing, ..usual() }.play(seed);
        assert!(run.ejections.iter().sum::<u64>() <= 4, "seed {seed}: {:?}", run.ejections);
        assert_eq!(run.ejected, [0; 4], "seed {seed}");
    }
}

#[test]
fn an_endpoint_that_fails_now_and_then_is_ejected_for_longer_each_time() {
    for seed in SEEDS {
        let failing = |at: f64, endpoint| f64::from(endpoint == 3 && at % 3.7 < 1.5);
        let watched = Scene { failing, is_enforced: false, ..usual() }.play(seed).failed(10.0, 60.0);
        let run = Scene { failing, ..usual() }.play(seed);
        let failed = run.failed(10.0, 60.0);
        assert!(failed < 0.1 * watched, "seed {seed}: {failed} of {watched}");
        assert!((4..60).contains(&run.ejections[3]), "seed {seed}: {:?}", run.ejections);
    }
}

#[test]
fn an_endpoint_that_becomes_slower_and_slower_is_found_and_no_other_is() {
    for seed in SEEDS {
        // Twice as slow every five seconds, up to 64 times.
        let slowdown = |at: f64, endpoint| if endpoint == 0 { 2_f64.powf((at / 5.0).min(6.0)) } else { 1.0 };
        let run = Scene { slowdown, ..usual() }.play(seed);
        assert!(run.share(0, 0.0, 5.0) > 0.2, "seed {seed}");
        let share = run.share(0, 25.0, 60.0);
        assert!(share <= 0.03, "seed {seed}: {share}");
        assert_eq!(run.ejections[1..], [0; 3], "seed {seed}");
    }
}

#[test]
fn without_enforcement_ejections_are_counted_and_no_request_goes_elsewhere() {
    for seed in SEEDS {
        let failing = |at, endpoint| if endpoint == 1 && (10.0..40.0).contains(&at) { 1.0 } else { 0.0 };
        let run = Scene { failing, is_enforced: false, ..usual() }.play(seed);
        let share = run.share(1, 10.0, 40.0);
        assert!((0.24..0.26).contains(&share), "seed {seed}: {share}");
        assert_eq!(
            (run.ejections[1], run.ejected[1]),
            (2, 0),
            "once for each worker, and no more in the end"
        );
    }
}

#[test]
fn an_endpoint_that_is_removed_while_it_is_ejected_is_counted_no_longer() {
    let (cells, now) = (Arc::<EndpointCells>::default(), Clock::new(Clock::begin()).now());
    let health = HealthRecord::new(Arc::clone(&cells));
    health.eject(now, &Random::seeded(1));
    assert_eq!(cells.ejected.get(), 1);
    drop(health);
    assert_eq!((cells.ejected.get(), cells.ejections.get()), (0, 1));
}

#[test]
fn statuses_count_against_endpoints_as_far_as_these_are_the_cause() {
    for (status, outcome) in [
        (200, Outcome::Good),
        (404, Outcome::Good),
        (429, Outcome::Good),
        (500, Outcome::Error),
        (501, Outcome::Good),
        (503, Outcome::Fault),
        (505, Outcome::Good),
        (507, Outcome::Error),
    ] {
        assert_eq!(Outcome::of_status(status), outcome, "{status}");
    }
}

#[test]
fn health_checks_and_ejections_leave_half_of_the_endpoints_together() {
    let (clock, random) = (Clock::new(Clock::begin()), Random::seeded(1));
    let records: Vec<_> = (0..4).map(|_| HealthRecord::new(Arc::default())).collect();
    let (outliers, all) = (Outliers::default(), records.iter());
    let ejected = || records.iter().filter(|record| record.is_ejected()).count();
    records[0].eject(clock.now(), &random);
    records[1].eject(clock.now(), &random);
    // Four endpoints beside one that is out by its checks: two ejected ones leave two of five.
    outliers.note_checked_out(1, &all, clock.now());
    assert_eq!(ejected(), 1);
    assert!(!outliers.has_room(records.iter()));
    outliers.note_checked_out(0, &all, clock.now());
    assert!(outliers.has_room(records.iter()) && ejected() == 1);
}

#[test]
fn passed_health_checks_end_the_time_of_an_ejection_that_began_before_them() {
    let (clock, random) = (Clock::new(Clock::begin()), Random::seeded(1));
    let record = HealthRecord::new(Arc::default());
    let long_before = clock.now();
    clock.advance(Duration::from_secs(1));
    record.eject(clock.now(), &random);
    record.note_checks_passed(long_before, clock.now());
    assert!(!record.is_probe_due(clock.now()), "it passed before it was ejected");
    clock.advance(Duration::from_millis(100));
    record.note_checks_passed(clock.now(), clock.now());
    assert!(record.is_ejected() && record.is_probe_due(clock.now()), "requests decide whether it returns");
}

#[test]
fn a_silence_is_announced_from_the_first_request_without_an_answer() {
    let clock = Clock::new(Clock::begin());
    let record = HealthRecord::new(Arc::default());
    let [tick, max] = [100, 250].map(Duration::from_millis);
    let silent_in = || record.is_silent_in(max, clock.now());
    assert_eq!(silent_in(), None);
    for rest in [250, 150, 50, 0, 0] {
        record.note_sent(clock.now());
        assert_eq!(silent_in(), Some(Duration::from_millis(rest)));
        clock.advance(tick);
    }
    record.note_heard();
    assert_eq!(silent_in(), None);
    record.note_sent(clock.now());
    assert_eq!(silent_in(), Some(max), "the time begins anew");
}
