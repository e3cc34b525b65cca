//! A simulation, event by event, of the limiter and the queue in front of endpoints, with a seed and a clock
//! of its own. Each endpoint has a number of servers with a queue in front of them (M/G/c); requests arrive
//! at random, whether or not earlier ones are answered.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use clock::{Moment, Random, TICK};
use model::overload::Priority;

use super::fair::Overuse;
use super::limiter::{Limiter, Window};
use super::peers;
use super::queue::{Entry, Queue};

/// The parameters of a simulation.
#[derive(Clone, Copy)]
pub(super) struct Scene {
    /// Whether limits are enforced; otherwise each request goes to an endpoint at once.
    pub(super) is_enforced: bool,
    pub(super) seconds: f64,
    pub(super) workers: usize,
    pub(super) endpoints: usize,
    /// Servers of each endpoint.
    pub(super) servers: usize,
    /// Mean service time of a request, in seconds.
    pub(super) service: f64,
    /// Requests in a second at a time in seconds, as a multiple of the capacity.
    pub(super) load: fn(f64) -> f64,
    /// Factor on the service time of an endpoint, at a time in seconds.
    pub(super) slowdown: fn(f64, usize) -> f64,
}

/// The time after which clients give up, and the queue timeout.
const PATIENCE: Duration = Duration::from_secs(1);

/// The outcome of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    /// Arrival, in seconds.
    pub(super) begin: f64,
    /// Latency in seconds; none if the client had given up.
    pub(super) took: Option<f64>,
    /// The endpoint that it was sent to; none if to none.
    pub(super) endpoint: Option<usize>,
}

#[derive(Default)]
pub(super) struct Run {
    pub(super) records: Vec<Record>,
    /// Length of all queues at each tick.
    pub(super) queued: Vec<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrival,
    Done { endpoint: usize, job: Job },
    Tick,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Job {
    request: usize,
    worker: usize,
    sent: Moment,
}

struct Endpoint {
    busy: usize,
    waiting: VecDeque<Job>,
}

/// A worker's state of an endpoint.
struct Side {
    in_flight: u32,
    window: Window,
    limiter: Limiter,
}

struct Worker {
    sides: Vec<Side>,
    queue: Queue<usize>,
    cursor: usize,
}

struct Simulation {
    scene: Scene,
    random: Random,
    begin: Moment,
    now: Moment,
    events: BinaryHeap<Reverse<(Moment, u64, Event)>>,
    serial: u64,
    endpoints: Vec<Endpoint>,
    workers: Vec<Worker>,
    run: Run,
}

impl Scene {
    /// Requests in a second that all servers can answer.
    pub(super) fn capacity(&self) -> f64 {
        (self.endpoints * self.servers) as f64 / self.service
    }

    pub(super) fn play(self, seed: u64) -> Run {
        let begin = Moment::BEGIN;
        let side = |_| Side { in_flight: 0, window: Window::default(), limiter: Limiter::new(begin) };
        let worker = |_| Worker {
            sides: (0..self.endpoints).map(side).collect(),
            queue: Queue::new(begin),
            cursor: 0,
        };
        let endpoint = |_| Endpoint { busy: 0, waiting: VecDeque::new() };
        let mut simulation = Simulation {
            scene: self,
            random: Random::seeded(seed),
            begin,
            now: begin,
            events: BinaryHeap::new(),
            serial: 0,
            endpoints: (0..self.endpoints).map(endpoint).collect(),
            workers: (0..self.workers).map(worker).collect(),
            run: Run::default(),
        };
        simulation.at(begin, Event::Arrival);
        simulation.at(begin.after(TICK), Event::Tick);
        simulation.play();
        simulation.run
    }
}

impl Simulation {
    fn play(&mut self) {
        while let Some(Reverse((now, _, event))) = self.events.pop() {
            self.now = now;
            if self.elapsed(now) >= self.scene.seconds {
                break;
            }
            match event {
                Event::Arrival => self.arrive(),
                Event::Done { endpoint, job } => self.done(endpoint, job),
                Event::Tick => self.tick(),
            }
        }
    }

    fn at(&mut self, moment: Moment, event: Event) {
        self.serial += 1;
        self.events.push(Reverse((moment, self.serial, event)));
    }

    fn elapsed(&self, now: Moment) -> f64 {
        now.since(self.begin).as_secs_f64()
    }

    /// A number above 0 and at most 1.
    fn chance(&self) -> f64 {
        ((self.random.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    fn exponential(&self) -> f64 {
        -self.chance().ln()
    }

    fn arrive(&mut self) {
        let begin = self.elapsed(self.now);
        let rate = self.scene.capacity() * (self.scene.load)(begin);
        let next = self.now.after(Duration::from_secs_f64(self.exponential() / rate));
        self.at(next, Event::Arrival);
        let request = self.run.records.len();
        self.run.records.push(Record { begin, took: None, endpoint: None });
        let at = self.random.below(self.workers.len());
        if let Some(endpoint) = self.workers[at].pick(self.scene.is_enforced) {
            self.send(endpoint, at, request);
            return;
        }
        let deadline = self.now.after(PATIENCE);
        let entry = Entry { priority: Priority::Normal, overuse: Overuse::None, bytes: 0, deadline };
        self.workers[at].queue.push(request, entry, self.now, |_| ());
    }

    fn send(&mut self, endpoint: usize, worker: usize, request: usize) {
        let job = Job { request, worker, sent: self.now };
        self.run.records[request].endpoint = Some(endpoint);
        let side = &mut self.workers[worker].sides[endpoint];
        side.in_flight += 1;
        side.window.note_in_flight(side.in_flight);
        if self.endpoints[endpoint].busy < self.scene.servers {
            self.work(endpoint, job);
        } else {
            self.endpoints[endpoint].waiting.push_back(job);
        }
    }

    fn work(&mut self, endpoint: usize, job: Job) {
        self.endpoints[endpoint].busy += 1;
        let slowdown = (self.scene.slowdown)(self.elapsed(self.now), endpoint);
        let took = self.scene.service * slowdown * (0.5 + 0.5 * self.exponential());
        self.at(self.now.after(Duration::from_secs_f64(took)), Event::Done { endpoint, job });
    }

    fn done(&mut self, endpoint: usize, job: Job) {
        self.endpoints[endpoint].busy -= 1;
        if let Some(next) = self.endpoints[endpoint].waiting.pop_front() {
            self.work(endpoint, next);
        }
        let record = &mut self.run.records[job.request];
        let took = self.now.since(self.begin).as_secs_f64() - record.begin;
        record.took = (took <= PATIENCE.as_secs_f64()).then_some(took);
        let side = &mut self.workers[job.worker].sides[endpoint];
        side.window.note_response(self.now.since(job.sent), side.in_flight);
        side.in_flight -= 1;
        self.serve_queue(job.worker);
    }

    fn serve_queue(&mut self, worker: usize) {
        while !self.workers[worker].queue.is_empty() {
            let Some(endpoint) = self.workers[worker].pick(true) else { return };
            let Some(request) = self.workers[worker].queue.pop(self.now, |_| true, |_| ()) else { return };
            self.send(endpoint, worker, request);
        }
    }

    fn tick(&mut self) {
        self.at(self.now.after(TICK), Event::Tick);
        let mut queued = 0;
        for at in 0..self.workers.len() {
            let worker = &mut self.workers[at];
            let peers = peers(worker.sides.iter().map(|side| side.limiter.known()));
            for side in &mut worker.sides {
                let window = std::mem::take(&mut side.window);
                side.limiter.update(window, peers, self.scene.is_enforced, self.now);
                side.window.note_in_flight(side.in_flight);
            }
            worker.queue.expire(self.now, |_| ());
            queued += worker.queue.len();
            self.serve_queue(at);
        }
        self.run.queued.push(queued);
    }
}

impl Worker {
    fn pick(&mut self, is_enforced: bool) -> Option<usize> {
        (0..self.sides.len()).find_map(|_| {
            let at = self.cursor;
            self.cursor = (at + 1) % self.sides.len();
            let Side { in_flight, limiter, .. } = &self.sides[at];
            let is_free = limiter.limit().is_none_or(|limit| *in_flight < limit);
            (is_free || !is_enforced).then_some(at)
        })
    }
}

impl Run {
    pub(super) fn between(&self, from: f64, to: f64) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(move |record| record.begin >= from && record.begin < to)
    }

    /// Requests answered in time, in a second.
    pub(super) fn goodput(&self, from: f64, to: f64) -> f64 {
        self.between(from, to).filter(|record| record.took.is_some()).count() as f64 / (to - from)
    }

    /// The 99th percentile of the latency of requests that were answered in time, in seconds.
    pub(super) fn p99(&self, from: f64, to: f64) -> f64 {
        let mut all: Vec<_> = self.between(from, to).filter_map(|record| record.took).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() * 99 / 100).copied().unwrap_or(0.0)
    }

    /// The share of requests that were not answered in time.
    pub(super) fn failed(&self, from: f64, to: f64) -> f64 {
        let all = self.between(from, to).count();
        self.between(from, to).filter(|record| record.took.is_none()).count() as f64 / all as f64
    }

    /// The share of an endpoint in the requests that were sent.
    pub(super) fn share(&self, endpoint: usize, from: f64, to: f64) -> f64 {
        let sent = self.between(from, to).filter(|record| record.endpoint.is_some()).count();
        let own = self.between(from, to).filter(|record| record.endpoint == Some(endpoint)).count();
        own as f64 / sent as f64
    }
}
