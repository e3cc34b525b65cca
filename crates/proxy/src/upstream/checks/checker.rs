//! The checks that a worker makes: one task for each endpoint of the clusters that fall to it.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use balance::checks::{self, Cause, CheckTally, Checked};
use clock::Moment;
use model::{EndpointState, HealthCheck};
use observe::CheckFault;
use reactor::JoinHandle;
use tokio::sync::Semaphore;

use super::board::{Board, Group};
use super::duty::{Duty, Turn};
use super::key::{CheckId, GroupKey};
use super::news::HealthChange;
use super::probe::{self, Probe};
use super::together::Report;
use super::traffic::Traffic;
use super::verdict::{Verdict, Woken};
use crate::limits::{
    HEALTH_CHECK_PROMPTED_GAP, HEALTH_CHECK_SLOTS, HEALTH_CHECKS_LEFT_OUT_MAX, HEALTH_CHECKS_MAX,
    HEALTH_CHECKS_REUSED_MAX, HEALTH_REPORT_DELAY_MAX, HEALTH_REPORT_SHARE, HEALTH_TRAFFIC_SHARE,
};
use crate::upstream::Endpoint;
use crate::worker::Worker;

/// The checks that a worker makes.
pub(crate) struct Checkers {
    groups: RefCell<HashMap<GroupKey, Running>>,
    /// Slots for checks at a time.
    slots: Semaphore,
}

/// The checks of one group.
struct Running {
    state: Rc<GroupState>,
    tasks: HashMap<SocketAddr, JoinHandle<()>>,
}

/// The state that the tasks of a group share.
struct GroupState {
    key: GroupKey,
    /// The Service's port as `namespace/service:port`.
    identity: Arc<str>,
    /// The verdicts that all workers see.
    group: Arc<Group>,
    endpoints: RefCell<HashMap<SocketAddr, Rc<CheckedEndpoint>>>,
    /// More than half of the endpoints fail, so that all are used.
    is_panic: Cell<bool>,
}

/// An endpoint that a task checks.
struct CheckedEndpoint {
    id: CheckId,
    endpoint: Rc<Endpoint>,
    probe: Probe,
    verdict: Arc<Verdict>,
    /// Whether the endpoint's metrics show that it fails, and that it is used all the same.
    shown: Cell<(bool, bool)>,
}

impl Default for Checkers {
    fn default() -> Self {
        Self { groups: RefCell::default(), slots: Semaphore::new(HEALTH_CHECKS_MAX) }
    }
}

impl Checkers {
    /// Begins the checks of a configuration that fall to this worker, and ends all others. Endpoints that
    /// were checked before are checked on, without a pause.
    #[expect(clippy::mutable_key_type, reason = "a TLS configuration is compared by its address")]
    pub(crate) fn follow<'c>(worker: &Rc<Worker>, clusters: impl Iterator<Item = &'c Arc<model::Cluster>>) {
        let this = &worker.checkers;
        let mut wanted: HashMap<GroupKey, (&str, Vec<SocketAddr>)> = HashMap::new();
        for cluster in clusters {
            let Some(key) = worker.pool.check_key(cluster) else { continue };
            if worker.has_share(&key) {
                let ready = cluster.endpoints.iter().filter(|one| one.state == EndpointState::Ready);
                let (_, addresses) =
                    wanted.entry(key).or_insert_with(|| (cluster.identity.as_str(), Vec::new()));
                addresses.extend(ready.map(|endpoint| endpoint.address));
            }
        }
        if wanted.is_empty() && this.groups.borrow().is_empty() {
            return;
        }
        for (key, (identity, addresses)) in &wanted {
            let mut groups = this.groups.borrow_mut();
            let running = groups.entry(key.clone()).or_insert_with(|| Running::new(key, identity, worker));
            running.follow(addresses, worker);
        }
        let is_over = |key: &GroupKey| !wanted.contains_key(key);
        for (_, running) in this.groups.borrow_mut().extract_if(|key, _| is_over(key)) {
            running.stop(worker);
        }
        worker.pool.board().sweep();
        worker.pool.board().publish();
    }

    /// Ends all checks.
    pub(crate) fn stop(&self, worker: &Worker) {
        for (_, running) in self.groups.borrow_mut().drain() {
            running.stop(worker);
        }
    }
}

impl Running {
    fn new(key: &GroupKey, identity: &str, worker: &Worker) -> Self {
        let state = GroupState {
            key: key.clone(),
            identity: identity.into(),
            group: worker.pool.board().group(key),
            endpoints: RefCell::default(),
            is_panic: Cell::new(false),
        };
        Self { state: Rc::new(state), tasks: HashMap::new() }
    }

    fn follow(&mut self, addresses: &[SocketAddr], worker: &Rc<Worker>) {
        let gone: Vec<_> = self.tasks.keys().copied().filter(|one| !addresses.contains(one)).collect();
        for address in gone {
            self.end(address, worker);
        }
        for &address in addresses {
            if self.tasks.contains_key(&address) {
                continue;
            }
            let state = &self.state;
            let endpoint = worker.pool.endpoint(address, &state.key.protocol);
            endpoint.join();
            let verdict = state.group.verdict(address);
            let id = CheckId::of(&state.key, address);
            worker.pool.board().together.add(id, &verdict);
            let probe = Probe::new(&endpoint, &state.key.check);
            let one = Rc::new(CheckedEndpoint { id, endpoint, probe, verdict, shown: Cell::default() });
            state.endpoints.borrow_mut().insert(address, Rc::clone(&one));
            let checking = Checking::new(Rc::clone(worker), Rc::clone(state), one);
            // Many checks begin at the same time, and requests go before them.
            let task = reactor::spawn(reactor::late(checking.run()));
            self.tasks.insert(address, task);
        }
        self.state.group.retain(|address| self.tasks.contains_key(address));
        self.state.settle();
    }

    fn end(&mut self, address: SocketAddr, worker: &Worker) {
        if let Some(task) = self.tasks.remove(&address) {
            task.abort();
        }
        if let Some(one) = self.state.endpoints.borrow_mut().remove(&address) {
            one.show(false, false);
            worker.pool.board().together.remove(one.id);
            worker.pool.leave(&one.endpoint);
        }
    }

    fn stop(mut self, worker: &Worker) {
        let addresses: Vec<_> = self.tasks.keys().copied().collect();
        for address in addresses {
            self.end(address, worker);
        }
    }
}

impl GroupState {
    /// Finds out whether too many endpoints fail, and shows the result in metrics and the log.
    fn settle(&self) {
        let endpoints = self.endpoints.borrow();
        let out = endpoints.values().filter(|one| one.verdict.is_out()).count();
        let is_panic = checks::is_panic(out, endpoints.len());
        for one in endpoints.values() {
            let is_out = one.verdict.is_out();
            one.show(is_out, is_out && is_panic);
        }
        if self.is_panic.replace(is_panic) != is_panic {
            let (upstream, count) = (&*self.key.cluster, endpoints.len());
            if is_panic {
                tracing::warn!(
                    upstream,
                    failing = out,
                    of = count,
                    "more than half of the endpoints fail their health checks: all of them get requests"
                );
            } else {
                tracing::info!(
                    upstream,
                    failing = out,
                    of = count,
                    "half of the endpoints pass their health checks again: those that fail get no requests"
                );
            }
        }
    }

    /// Tells the log, and those who watch the cluster, that an endpoint has begun or ceased to fail.
    fn tell(&self, one: &CheckedEndpoint, fault: Option<CheckFault>, board: &Board) {
        let (endpoint, upstream) = (one.endpoint.address, &*self.key.cluster);
        let endpoints = self.endpoints.borrow();
        let failing = endpoints.values().filter(|one| one.verdict.is_out()).count();
        board.news.add(HealthChange {
            upstream: Arc::clone(&self.identity),
            endpoint,
            fault,
            failing,
            of: endpoints.len(),
            all_are_used: checks::is_panic(failing, endpoints.len()),
        });
        if let Some(fault) = fault {
            tracing::warn!(%endpoint, upstream, reason = %fault, "an endpoint fails its health check");
        } else {
            tracing::info!(%endpoint, upstream, "an endpoint passes its health check again");
        }
    }
}

impl CheckedEndpoint {
    fn show(&self, is_out: bool, is_panic: bool) {
        let cells = &self.endpoint.cells;
        let (was_out, was_panic) = self.shown.replace((is_out, is_panic));
        for (cell, was, is) in
            [(&cells.check_failing, was_out, is_out), (&cells.check_panic, was_panic, is_panic)]
        {
            match (was, is) {
                (false, true) => cell.inc(),
                (true, false) => cell.dec(),
                _ => {}
            }
        }
    }
}

/// The checks of one endpoint, again and again until this is dropped.
struct Checking {
    worker: Rc<Worker>,
    state: Rc<GroupState>,
    one: Rc<CheckedEndpoint>,
    tally: CheckTally,
    passes: Passes,
    duty: Duty,
    /// This replica has the duty.
    is_ours: bool,
    /// When this replica checks next, as far as it checks.
    due: Moment,
    traffic: Traffic,
    /// Checks in a row that were left out, since the endpoint has answered requests.
    left_out: u32,
    /// Checks since the last one over a new connection.
    reused: u32,
    /// A connection has failed a check, and no check over a new one has passed since.
    doubts_connections: bool,
}

impl Checking {
    fn new(worker: Rc<Worker>, state: Rc<GroupState>, one: Rc<CheckedEndpoint>) -> Self {
        let now = worker.clock.now();
        Self {
            tally: CheckTally::new(one.verdict.is_out()),
            passes: Passes::default(),
            duty: Duty::new(one.id),
            is_ours: true,
            // The checks of endpoints that come together are spread over the interval.
            due: now.after(state.key.check.interval.mul_f64(worker.random.chance())),
            traffic: Traffic::begin(&one.endpoint, now),
            left_out: 0,
            reused: 0,
            doubts_connections: false,
            worker,
            state,
            one,
        }
    }

    async fn run(mut self) {
        loop {
            let due = self.turn().await;
            let may_leave_out = due == Cause::Due && self.may_leave_out();
            let cause = if may_leave_out { self.unless_answered().await } else { Some(due) };
            let Some(cause) = cause else {
                self.left_out += 1;
                self.traffic = Traffic::begin(&self.one.endpoint, self.worker.clock.now());
                self.due = self.after(self.tally.next_after(&self.state.key.check, &self.worker.random));
                self.report(false, true);
                continue;
            };
            let Ok(slot) = self.worker.checkers.slots.acquire().await else { return };
            let begin = self.worker.clock.now();
            let is_fresh = self.is_doubtful(cause);
            let Self { worker, one, state, .. } = &self;
            let outcome = probe::run(worker, &one.endpoint, &state.key.check, &one.probe, is_fresh).await;
            drop(slot);
            self.reused = if is_fresh { 0 } else { self.reused + 1 };
            match &outcome {
                Some(Err(fault)) => self.doubts_connections |= is_of_connection(*fault),
                Some(Ok(())) => self.doubts_connections &= !is_fresh,
                None => {}
            }
            self.due = self.after(self.state.key.check.interval);
            if let Some(outcome) = outcome {
                let is_passed = outcome.is_ok();
                self.conclude(outcome.err(), cause, begin);
                if is_passed && cause != Cause::Due {
                    // Requests that fail for their own reasons must not have the endpoint checked without a
                    // pause.
                    reactor::sleep(HEALTH_CHECK_PROMPTED_GAP.min(self.state.key.check.interval)).await;
                }
            }
        }
    }

    /// Waits until the endpoint has to be checked here. Returns why.
    async fn turn(&mut self) -> Cause {
        loop {
            let until = self.look();
            let pause = until.since(self.worker.clock.now());
            let woken = tokio::select! {
                woken = self.one.verdict.woken() => Some(woken),
                () = reactor::sleep(pause) => None,
            };
            let is_contradicted = !self.is_ours && self.is_contradicted();
            match woken {
                _ if is_contradicted => return Cause::Reported,
                Some(Woken::Prompted) => return Cause::Prompted,
                None if self.is_ours || self.tally.is_in_doubt() => return Cause::Due,
                // Another look shows whose turn it is, and whether the other replica has been silent.
                Some(Woken::News) | None => {}
            }
        }
    }

    /// Finds out whether this replica has the duty, and until when to wait.
    fn look(&mut self) -> Moment {
        let (check, now) = (&self.state.key.check, self.worker.clock.now());
        let together = &self.worker.pool.board().together;
        let heard = self.one.verdict.heard();
        let turn = self.duty.turn(&together.members(), heard, silence_max(check), now);
        let was_ours = std::mem::replace(&mut self.is_ours, turn == Turn::Own);
        self.one.verdict.set_ours(self.is_ours);
        match turn {
            Turn::Own => {
                if !was_ours {
                    let last = heard.map_or(now, |heard| heard.at);
                    self.due = self.due.min(last.after(check.interval)).max(now);
                }
                self.due
            }
            // A replica that has a reason to doubt the other's reports checks beside it.
            Turn::Other(until) if self.tally.is_in_doubt() || self.is_contradicted() => until.min(self.due),
            Turn::Other(until) => until,
        }
    }

    /// Whether the last report of another replica contradicts the state of the endpoint here.
    fn is_contradicted(&self) -> bool {
        let since = silence_max(&self.state.key.check);
        self.one.verdict.heard().is_some_and(|heard| {
            heard.is_out != self.tally.is_out() && heard.at.after(since) > self.worker.clock.now()
        })
    }

    /// Whether the check that is due may be left out if the endpoint has just answered requests.
    fn may_leave_out(&self) -> bool {
        !self.state.key.check.always
            && self.left_out < HEALTH_CHECKS_LEFT_OUT_MAX
            && !self.tally.is_out()
            && !self.tally.is_in_doubt()
    }

    /// The cause of a check that is due; none if the endpoint has just answered requests.
    async fn unless_answered(&self) -> Option<Cause> {
        let pause = self.state.key.check.interval / HEALTH_TRAFFIC_SHARE;
        tokio::select! {
            is_answered = self.traffic.is_answered(&self.worker.pool, &self.one.endpoint, pause) => {
                (!is_answered).then_some(Cause::Due)
            }
            () = self.one.verdict.prompted() => Some(Cause::Prompted),
        }
    }

    /// Whether a check is made over a new connection. One that is kept open tells nothing about an endpoint
    /// that accepts no others: after a failed request or connection, and now and then, it has to accept one.
    fn is_doubtful(&self, cause: Cause) -> bool {
        cause != Cause::Due || self.doubts_connections || self.reused >= HEALTH_CHECKS_REUSED_MAX
    }

    /// Draws the conclusions from a check that began at this time.
    fn conclude(&mut self, fault: Option<CheckFault>, cause: Cause, begin: Moment) {
        let (worker, state) = (Rc::clone(&self.worker), Rc::clone(&self.state));
        let one = Rc::clone(&self.one);
        let is_passed = fault.is_none();
        let cells = &one.endpoint.cells;
        cells.checks.inc();
        cells.checks_failed.add(u64::from(!is_passed));
        cells.set_check_fault(fault);
        one.verdict.note_passing(self.passes.note(is_passed, begin, state.key.check.rise));
        let has_changed = self.tally.note(Checked { is_passed, cause }, &state.key.check);
        if has_changed {
            one.verdict.set_out(self.tally.is_out());
            state.tell(&one, fault, worker.pool.board());
            state.settle();
            worker.pool.board().publish();
        }
        self.left_out = 0;
        self.traffic = Traffic::begin(&one.endpoint, worker.clock.now());
        self.due = self.after(self.tally.next_after(&state.key.check, &worker.random));
        self.report(has_changed, is_passed);
    }

    /// Tells the other replicas the state of the endpoint, or that it has failed a check where another one
    /// checks it for all.
    fn report(&self, has_changed: bool, is_passed: bool) {
        let Self { worker, state, one, .. } = self;
        let now = worker.clock.now();
        let report = if self.is_ours {
            let passing = one.verdict.passing_since().map(|since| now.since(since));
            Report::State { is_out: self.tally.is_out(), passing }
        } else if is_passed || (self.tally.is_out() && !has_changed) {
            // The other replica knows it already.
            return;
        } else {
            Report::Doubt
        };
        let is_urgent = has_changed || report == Report::Doubt;
        let by = if is_urgent { now } else { now.after(report_delay(&state.key.check)) };
        worker.pool.board().together.report(one.id, report, by);
    }

    /// When the next check is due, after this time: together with those of other endpoints, so that the
    /// worker wakes once for several.
    fn after(&self, time: Duration) -> Moment {
        aligned(self.worker.clock.now().after(time), self.state.key.check.interval / HEALTH_CHECK_SLOTS)
    }
}

/// Whether a check has failed before there was an answer, so that connections may be to blame.
fn is_of_connection(fault: CheckFault) -> bool {
    match fault {
        CheckFault::Unreachable | CheckFault::Timeout | CheckFault::Handshake | CheckFault::Broken => true,
        CheckFault::NotServing | CheckFault::GrpcStatus(_) | CheckFault::Status(_) => false,
    }
}

/// The first multiple of a step that is not before this moment.
fn aligned(moment: Moment, step: Duration) -> Moment {
    let step = step.as_nanos().max(1);
    let slots = moment.since_begin().as_nanos().div_ceil(step);
    Moment::BEGIN.after(Duration::from_nanos(u64::try_from(slots * step).unwrap_or(u64::MAX)))
}

/// Time for which a report that changes nothing waits for others.
fn report_delay(check: &HealthCheck) -> Duration {
    (check.interval / HEALTH_REPORT_SHARE).min(HEALTH_REPORT_DELAY_MAX)
}

/// Time without a report after which the replica that checks an endpoint counts as silent: two intervals,
/// and what a check and its report may take.
fn silence_max(check: &HealthCheck) -> Duration {
    2 * check.interval + check.timeout + report_delay(check)
}

/// When the last passed checks began.
#[derive(Default)]
struct Passes(VecDeque<Moment>);

impl Passes {
    /// Records a check. Returns the begin of the first of the last `rise` checks, if all of them have passed.
    fn note(&mut self, is_passed: bool, begin: Moment, rise: u32) -> Option<Moment> {
        if !is_passed {
            self.0.clear();
            return None;
        }
        self.0.push_back(begin);
        if self.0.len() > rise as usize {
            self.0.pop_front();
        }
        (self.0.len() == rise as usize).then(|| self.0[0])
    }
}

/// The check of a cluster in words, for those who want to know how its endpoints are picked.
pub(crate) fn in_words(check: &HealthCheck) -> String {
    format!("; those that fail their health check ({}) are left out", check.in_words())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_aligned_and_never_early() {
        let at = |millis| Moment::BEGIN.after(Duration::from_millis(millis));
        let step = Duration::from_millis(50);
        let aligned = [0, 1, 50, 51, 99].map(|millis| super::aligned(at(millis), step));
        assert_eq!(aligned, [0, 50, 50, 100, 100].map(at));
        assert_eq!(super::aligned(at(7), Duration::ZERO), at(7));
    }

    #[test]
    fn passes_count_from_the_first_of_the_last_ones() {
        let at = |seconds| Moment::BEGIN.after(Duration::from_secs(seconds));
        let mut passes = Passes::default();
        assert_eq!(passes.note(true, at(1), 2), None);
        assert_eq!(passes.note(true, at(2), 2), Some(at(1)));
        assert_eq!(passes.note(true, at(3), 2), Some(at(2)));
        assert_eq!(passes.note(false, at(4), 2), None);
        assert_eq!(passes.note(true, at(5), 2), None);
    }
}
