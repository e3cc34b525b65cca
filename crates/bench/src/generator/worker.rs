//! One thread of the generator: starts what is due on what is free, and books what comes back.
//!
//! Must not be in here: when something is due, and what a connection does.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};
use std::{io, iter, thread};

use super::connection::{Connection, News, Requests, Turn};
use super::plan::{Plan, Share};
use super::response::Response;
use super::schedule::Schedule;
use super::{GeneratorError, Outcome};
use crate::cpu::CpuTime;
use crate::epoll::{Epoll, Events};
use crate::tls::Clients;

/// What one receive takes at most.
const BUFFER_BYTES: usize = 256 * 1024;

/// So many failures to connect in a row end the run: without an end, a closed port would merely burn CPU.
const CONNECT_FAILURES_MAX: usize = 100;

/// The nice value of those whom everybody else precedes.
const LOWEST_PRIORITY: i32 = 19;

pub(super) struct Worker<'p> {
    plan: &'p Plan,
    schedule: Schedule,
    start: Instant,
    epoll: Epoll,
    requests: Requests,
    connections: Vec<Connection>,
    /// The connections that have nothing to do, longest idle first, so that all of them are used.
    free: VecDeque<usize>,
    in_flight: usize,
    closing: usize,
    connect_failures: usize,
    buffer: Vec<u8>,
    outcome: Outcome,
}

impl<'p> Worker<'p> {
    pub(super) fn new(plan: &'p Plan, share: Share, start: Instant) -> Result<Worker<'p>, GeneratorError> {
        settle_thread(plan, share.index)?;
        let connections = share.part(plan.connections as u64) as usize;
        let requests = Requests {
            target: plan.target,
            tls: plan.tls.as_ref().map(|tls| Clients::new(tls, connections)).transpose()?,
            keeping: plan.request(false),
            closing: plan.request(true),
            per_connection: plan.requests_per_connection.unwrap_or(u64::MAX),
            is_head: plan.method == "HEAD",
        };
        Ok(Worker {
            plan,
            schedule: Schedule::new(plan, share),
            start,
            epoll: Epoll::new()?,
            requests,
            connections: iter::repeat_with(Connection::default).take(connections).collect(),
            free: (0..connections).collect(),
            in_flight: 0,
            closing: 0,
            connect_failures: 0,
            buffer: vec![0; BUFFER_BYTES],
            outcome: Outcome::new(Duration::ZERO),
        })
    }

    pub(super) fn run(mut self) -> Result<Outcome, GeneratorError> {
        let mut events = Events::default();
        self.start_due()?;
        while let Some(next) = self.schedule.next(self.now(), self.in_flight) {
            // What was due has just been started, but for what found no connection free.
            if self.now() >= self.plan.duration {
                break;
            }
            let until = if self.free.is_empty() { self.plan.duration } else { next.min(self.plan.duration) };
            self.turn(&mut events, until)?;
            self.start_due()?;
        }
        let end = self.now();
        self.outcome.unsent = self.schedule.close(end);
        while self.in_flight + self.closing > 0 && self.now() < end + self.plan.patience {
            self.turn(&mut events, end + self.plan.patience)?;
        }
        self.outcome.unfinished = self.in_flight as u64;
        self.outcome.cpu = CpuTime::of_thread()?;
        Ok(self.outcome)
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Starts the requests that are due, as long as connections are free.
    fn start_due(&mut self) -> Result<(), GeneratorError> {
        while let Some(&token) = self.free.front() {
            let Some(due) = self.schedule.take(self.now(), self.in_flight) else { return Ok(()) };
            self.free.pop_front();
            self.in_flight += 1;
            let turn = self.connections[token].start(due, &self.requests, &self.epoll, token);
            self.count(&turn);
            self.book(token, turn.news)?;
        }
        Ok(())
    }

    /// Waits for readiness until then at most, and lets the connections have it. The next request is not kept waiting for
    /// the rest of a batch.
    fn turn(&mut self, events: &mut Events, until: Duration) -> Result<(), GeneratorError> {
        let timeout = if self.plan.awake { Duration::ZERO } else { until.saturating_sub(self.now()) };
        self.epoll.wait(events, Some(timeout))?;
        if self.plan.awake && events.iter().next().is_none() {
            thread::yield_now();
        }
        for ready in events.iter() {
            let connection = &mut self.connections[ready.token];
            let turn = connection.advance(&self.requests, &mut self.buffer, ready.ending);
            self.count(&turn);
            if turn.news.is_some() {
                self.book(ready.token, turn.news)?;
                self.start_due()?;
            }
        }
        Ok(())
    }

    fn count(&mut self, turn: &Turn) {
        self.outcome.bytes += turn.bytes;
        self.outcome.connections_opened += u64::from(turn.connected);
        self.outcome.connections_resumed += u64::from(turn.resumed);
        self.outcome.sent += u64::from(turn.begun);
        self.outcome.errors.malformed += u64::from(turn.unsolicited);
    }

    fn book(&mut self, token: usize, news: Option<News>) -> Result<(), GeneratorError> {
        let Some(news) = news else { return Ok(()) };
        let still_closing = matches!(news, News::Answered { closing: true, .. });
        let errors = &mut self.outcome.errors;
        match news {
            News::Answered { due, response, .. } => self.check(due, response),
            News::NotConnected(error) => {
                errors.connect += 1;
                self.connect_failures += 1;
                if self.connect_failures >= CONNECT_FAILURES_MAX {
                    return Err(GeneratorError::Unreachable { target: self.plan.target, source: error });
                }
            }
            News::Lost => errors.closed += 1,
            News::Malformed => errors.malformed += 1,
            News::Closed => {
                self.closing -= 1;
                self.free.push_back(token);
                return Ok(());
            }
        }
        self.in_flight -= 1;
        if still_closing {
            self.closing += 1;
        } else {
            self.free.push_back(token);
        }
        Ok(())
    }

    fn check(&mut self, due: Duration, response: Response) {
        self.connect_failures = 0;
        let expect = self.plan.expect;
        if response.status != expect.status {
            self.outcome.errors.status += 1;
        } else if expect.body_bytes.is_some_and(|bytes| bytes != response.body_bytes) {
            self.outcome.errors.length += 1;
        } else {
            let now = self.now();
            self.outcome.answer(due, now);
        }
    }
}

/// Pins the thread where the plan says so, and lets it wake on time: the default slack of 50 us is as long as the pauses of
/// an open pace of 20,000 requests a second.
fn settle_thread(plan: &Plan, index: usize) -> io::Result<()> {
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
    if plan.yielding {
        // To Linux a priority is a thread's, and "the calling process" is the thread that calls (setpriority(2)).
        rustix::process::setpriority_process(None, LOWEST_PRIORITY)?;
    }
    if let Some(cpus) = plan.cpus.as_deref().filter(|cpus| !cpus.is_empty()) {
        let mut set = rustix::thread::CpuSet::new();
        set.set(cpus[index % cpus.len()]);
        rustix::thread::sched_setaffinity(None, &set)?;
    }
    Ok(())
}
