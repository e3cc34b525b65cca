//! One thread of the generator: sends due requests on free connections, and records the results.
//!
//! Must not be in here: when requests are due, and the protocol of connections.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, iter, mem, thread};

use super::clock::Clock;
use super::connection::{Around, Connection, News, Turn};
use super::h3::{self, ReceiveBuffer, Timers};
use super::plan::{Pace, Plan, Protocol, Share};
use super::progress::{Progress, SoFar};
use super::requests::Requests;
use super::response::Response;
use super::schedule::Schedule;
use super::session::{Report, Session};
use super::texts::Texts;
use super::{GeneratorError, Outcome};
use crate::cpu::CpuTime;
use crate::epoll::{Epoll, Events, Ready};

/// Size of the receive buffer.
const BUFFER_BYTES: usize = 256 * 1024;

/// Number of failures to connect that end a run in which no connection was ever opened. Without it, a closed
/// port would only use up CPU.
const CONNECT_FAILURES_MAX: u64 = 100;

/// Pause of a place after a failure to connect, if connections were opened before: a server that restarts is
/// counted as failing, and not flooded.
const CONNECT_REST: Duration = Duration::from_millis(10);

/// The nice value for [`Plan::yielding`].
const LOWEST_PRIORITY: i32 = 19;

pub(super) struct Worker<'p> {
    plan: &'p Plan,
    progress: &'p Progress,
    told: SoFar,
    schedule: Schedule,
    around: Around,
    connections: Connections,
    /// The free places, the longest idle first, so that all of them are used.
    free: VecDeque<usize>,
    /// Places that could not connect, and when they may try again.
    resting: VecDeque<(Duration, usize)>,
    in_flight: usize,
    closing: usize,
    outcome: Outcome,
}

/// Connections by protocol. Each request has a place: the number of its connection; with HTTP/2 and HTTP/3
/// plus the number of its stream times the number of connections.
enum Connections {
    Http1 { all: Vec<Connection>, buffer: Vec<u8> },
    Multiplexed(Sessions),
}

/// Connections with several requests in flight.
struct Sessions {
    all: Multiplexed,
    /// Connections that were given requests.
    to_drive: Vec<usize>,
    reports: Vec<Report>,
}

enum Multiplexed {
    Http2(Vec<Session>),
    Http3 { all: Vec<h3::Session>, buffer: ReceiveBuffer, timers: Timers },
}

impl<'p> Worker<'p> {
    pub(super) fn new(
        plan: &'p Plan,
        texts: &Arc<Texts>,
        progress: &'p Progress,
        share: Share,
        clock: Clock,
    ) -> Result<Worker<'p>, GeneratorError> {
        settle_thread(plan, share.index)?;
        let count = share.part(plan.connections as u64) as usize;
        let (connections, places) = match plan.protocol {
            Protocol::Http1 => {
                let all = iter::repeat_with(Connection::default).take(count).collect();
                (Connections::Http1 { all, buffer: vec![0; BUFFER_BYTES] }, count)
            }
            Protocol::Http2 { streams } => {
                let all = (0..count).map(|token| Session::new(token, streams)).collect();
                (Connections::of(Multiplexed::Http2(all)), count * streams.max(1))
            }
            Protocol::Http3 { streams } => {
                let all = (0..count).map(|token| h3::Session::new(token, streams)).collect();
                let buffer = ReceiveBuffer::default();
                let timers = Timers::default();
                (Connections::of(Multiplexed::Http3 { all, buffer, timers }), count * streams.max(1))
            }
        };
        let requests = Requests::new(plan, texts, share, count)?;
        Ok(Worker {
            plan,
            progress,
            told: SoFar::default(),
            schedule: Schedule::new(plan, share),
            around: Around { requests, epoll: Epoll::new()?, clock },
            connections,
            free: (0..places).collect(),
            resting: VecDeque::new(),
            in_flight: 0,
            closing: 0,
            outcome: Outcome::new(Duration::ZERO),
        })
    }

    pub(super) fn run(mut self) -> Result<Outcome, GeneratorError> {
        let mut events = Events::default();
        self.start_due()?;
        self.drive_started()?;
        while let Some(next) = self.schedule.next(self.now(), self.in_flight) {
            // All requests that were due have been started, except for those without a free connection.
            if self.now() >= self.plan.duration {
                break;
            }
            let until = if self.free.is_empty() { self.plan.duration } else { next.min(self.plan.duration) };
            self.turn(&mut events, self.resting.front().map_or(until, |(rested, _)| until.min(*rested)))?;
            self.end_rests();
            self.start_due()?;
            self.drive_started()?;
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
        self.around.clock.now()
    }

    fn end_rests(&mut self) {
        while let Some((_, place)) =
            self.resting.pop_front_if(|(rested, _)| *rested <= self.around.clock.now())
        {
            self.free.push_back(place);
        }
    }

    /// Starts the requests that are due, as long as places are free.
    fn start_due(&mut self) -> Result<(), GeneratorError> {
        while let Some(&place) = self.free.front() {
            let now = self.now();
            let Some(due) = self.schedule.take(now, self.in_flight) else { return Ok(()) };
            self.free.pop_front();
            self.in_flight += 1;
            match &mut self.connections {
                Connections::Http1 { all, .. } => {
                    let turn = all[place].start(due, now, &self.around, place);
                    self.settle(place, turn)?;
                }
                Connections::Multiplexed(sessions) => sessions.start(place, due),
            }
        }
        Ok(())
    }

    /// Has sessions send their queued requests. This may complete requests, and so start the next ones.
    fn drive_started(&mut self) -> Result<(), GeneratorError> {
        while let Connections::Multiplexed(sessions) = &mut self.connections
            && let Some(token) = sessions.to_drive.pop()
        {
            self.drive(token, false)?;
            self.start_due()?;
        }
        Ok(())
    }

    /// Waits for readiness, at most until then, and handles it. A request that becomes due is not delayed by
    /// the rest of a batch.
    fn turn(&mut self, events: &mut Events, until: Duration) -> Result<(), GeneratorError> {
        let until = self.connections.timer(self.around.clock).map_or(until, |due| until.min(due));
        let timeout = if self.plan.awake { Duration::ZERO } else { until.saturating_sub(self.now()) };
        match self.plan.pace {
            Pace::Open { .. } => self.around.epoll.wait_precisely(events, timeout)?,
            Pace::Closed | Pace::Bursts { .. } => self.around.epoll.wait(events, Some(timeout))?,
        }
        if self.plan.awake && events.iter().next().is_none() {
            thread::yield_now();
        }
        for ready in events.iter() {
            self.advance(ready)?;
        }
        self.end_timers()?;
        self.progress.tell(&self.outcome, &mut self.told);
        Ok(())
    }

    fn advance(&mut self, ready: Ready) -> Result<(), GeneratorError> {
        match &mut self.connections {
            Connections::Http1 { all, buffer } => {
                let turn = all[ready.token].advance(&self.around, buffer, ready.ending);
                let is_news = turn.news.is_some();
                self.settle(ready.token, turn)?;
                if is_news { self.start_due() } else { Ok(()) }
            }
            Connections::Multiplexed(_) => {
                self.drive(ready.token, true)?;
                self.start_due()?;
                self.drive_started()
            }
        }
    }

    /// Drives the connections whose timers are due.
    fn end_timers(&mut self) -> Result<(), GeneratorError> {
        while let Connections::Multiplexed(Sessions { all: Multiplexed::Http3 { timers, .. }, .. }) =
            &mut self.connections
            && let Some(token) = timers.due(Instant::now())
        {
            self.drive(token, false)?;
            self.start_due()?;
            self.drive_started()?;
        }
        Ok(())
    }

    fn drive(&mut self, token: usize, is_readable: bool) -> Result<(), GeneratorError> {
        let Connections::Multiplexed(sessions) = &mut self.connections else { return Ok(()) };
        let count = sessions.len();
        let mut reports = mem::take(&mut sessions.reports);
        match &mut sessions.all {
            Multiplexed::Http2(all) => all[token].drive(&self.around, &mut reports),
            Multiplexed::Http3 { all, buffer, timers } => {
                all[token].drive(&self.around, is_readable, buffer, &mut reports);
                timers.arm(token, all[token].next_timer());
            }
        }
        for (stream, turn) in reports.drain(..) {
            self.settle(stream * count + token, turn)?;
        }
        if let Connections::Multiplexed(sessions) = &mut self.connections {
            sessions.reports = reports;
        }
        Ok(())
    }

    /// Counts the results of a turn, and records the outcome of the request at `place`.
    fn settle(&mut self, place: usize, turn: Turn) -> Result<(), GeneratorError> {
        self.outcome.bytes += turn.bytes;
        self.outcome.body_bytes += turn.body_bytes;
        self.outcome.sent = self.outcome.sent + u64::from(turn.begun) - u64::from(turn.refused);
        self.outcome.errors.malformed += u64::from(turn.unsolicited);
        if let Some(opened) = turn.opened {
            self.outcome.open(opened);
        }
        match turn.news {
            Some(news) => self.book(place, news),
            None => Ok(()),
        }
    }

    fn book(&mut self, place: usize, news: News) -> Result<(), GeneratorError> {
        let still_closing = matches!(news, News::Answered { closing: true, .. });
        let is_no_connection = matches!(news, News::NotConnected(_) | News::NotSecured(_));
        match news {
            News::Answered { times, response, .. } if self.check(response) => self.outcome.answer(times),
            News::Answered { .. } => {}
            News::NotConnected(error) => {
                self.outcome.errors.connect += 1;
                self.note_failure(place, error, |target, source| GeneratorError::Unreachable {
                    target,
                    source,
                })?;
            }
            News::NotSecured(error) => {
                self.outcome.errors.tls += 1;
                self.note_failure(place, error, |target, source| GeneratorError::Handshake {
                    target,
                    source,
                })?;
            }
            News::Lost => self.outcome.errors.closed += 1,
            News::Malformed => self.outcome.errors.malformed += 1,
            News::Closed => {
                self.closing -= 1;
                self.free.push_back(place);
                return Ok(());
            }
        }
        self.in_flight -= 1;
        if still_closing {
            self.closing += 1;
        } else if is_no_connection && self.outcome.connections_opened > 0 {
            self.resting.push_back((self.now() + CONNECT_REST, place));
        } else {
            self.free.push_back(place);
        }
        Ok(())
    }

    /// Counts a failure to connect. Too many of them without a success end the run.
    fn note_failure(
        &mut self,
        place: usize,
        error: io::Error,
        kind: fn(SocketAddr, io::Error) -> GeneratorError,
    ) -> Result<(), GeneratorError> {
        let count = match &self.connections {
            Connections::Http1 { all, .. } => all.len(),
            Connections::Multiplexed(sessions) => sessions.len(),
        };
        let failure = kind(self.around.requests.target(place % count), error);
        let failures = self.outcome.errors.connect + self.outcome.errors.tls;
        if self.outcome.connections_opened == 0 && failures >= CONNECT_FAILURES_MAX {
            return Err(failure);
        }
        if self.outcome.connect_failure.is_none() {
            self.outcome.connect_failure = Some(Arc::new(failure));
        }
        Ok(())
    }

    /// Whether the response is as expected; if not, it is counted as an error.
    fn check(&mut self, response: Response) -> bool {
        let expect = self.plan.expect;
        if !expect.status.admits(response.status) {
            self.outcome.errors.status += 1;
            *self.outcome.statuses.entry(response.status).or_default() += 1;
            return false;
        }
        if expect.body_bytes.is_some_and(|bytes| bytes != response.body_bytes) {
            self.outcome.errors.length += 1;
            return false;
        }
        true
    }
}

impl Connections {
    fn of(all: Multiplexed) -> Connections {
        Connections::Multiplexed(Sessions { all, to_drive: Vec::new(), reports: Vec::new() })
    }

    /// When the first of the connections has something to do without a packet.
    fn timer(&self, clock: Clock) -> Option<Duration> {
        match self {
            Connections::Multiplexed(Sessions { all: Multiplexed::Http3 { timers, .. }, .. }) => {
                timers.next().map(|due| clock.at(due))
            }
            _ => None,
        }
    }
}

impl Sessions {
    fn len(&self) -> usize {
        match &self.all {
            Multiplexed::Http2(all) => all.len(),
            Multiplexed::Http3 { all, .. } => all.len(),
        }
    }

    fn start(&mut self, place: usize, due: Duration) {
        let count = self.len();
        let (token, stream) = (place % count, place / count);
        match &mut self.all {
            Multiplexed::Http2(all) => all[token].start(stream, due),
            Multiplexed::Http3 { all, .. } => all[token].start(stream, due),
        }
        self.to_drive.push(token);
    }
}

/// Pins the thread if the plan asks for it, and reduces its timer slack: the default of 50 us is as long as
/// the pauses of an open loop at 20,000 requests per second.
fn settle_thread(plan: &Plan, index: usize) -> io::Result<()> {
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
    if plan.yielding {
        // In Linux the priority is that of a thread, and "the calling process" is the calling thread
        // (setpriority(2)).
        rustix::process::setpriority_process(None, LOWEST_PRIORITY)?;
    }
    if let Some(cpus) = plan.cpus.as_deref().filter(|cpus| !cpus.is_empty()) {
        let mut set = rustix::thread::CpuSet::new();
        set.set(cpus[index % cpus.len()]);
        rustix::thread::sched_setaffinity(None, &set)?;
    }
    Ok(())
}
