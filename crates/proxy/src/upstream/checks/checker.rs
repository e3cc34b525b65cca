//! The checks that a worker makes: one task for each endpoint of the clusters that fall to it.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use balance::checks::{self, CheckTally, Checked};
use clock::Moment;
use model::{EndpointState, HealthCheck};
use observe::CheckFault;
use reactor::JoinHandle;
use tokio::sync::Semaphore;

use super::board::{Group, GroupKey, Verdict};
use super::probe;
use crate::limits::{HEALTH_CHECK_PROMPTED_GAP, HEALTH_CHECKS_MAX};
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
    /// The verdicts that all workers see.
    group: Arc<Group>,
    endpoints: RefCell<HashMap<SocketAddr, Rc<CheckedEndpoint>>>,
    /// More than half of the endpoints fail, so that all are used.
    is_panic: Cell<bool>,
}

/// An endpoint that a task checks.
struct CheckedEndpoint {
    endpoint: Rc<Endpoint>,
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
        let mut wanted: HashMap<GroupKey, Vec<SocketAddr>> = HashMap::new();
        for cluster in clusters {
            let Some(key) = worker.pool.check_key(cluster) else { continue };
            if worker.has_share(&key) {
                let ready = cluster.endpoints.iter().filter(|one| one.state == EndpointState::Ready);
                wanted.entry(key).or_default().extend(ready.map(|endpoint| endpoint.address));
            }
        }
        if wanted.is_empty() && this.groups.borrow().is_empty() {
            return;
        }
        for (key, addresses) in &wanted {
            let mut groups = this.groups.borrow_mut();
            let running = groups.entry(key.clone()).or_insert_with(|| Running::new(key, worker));
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
    fn new(key: &GroupKey, worker: &Worker) -> Self {
        let state = GroupState {
            key: key.clone(),
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
            let one = Rc::new(CheckedEndpoint { endpoint, verdict, shown: Cell::default() });
            state.endpoints.borrow_mut().insert(address, Rc::clone(&one));
            let task = reactor::spawn(check_on(Rc::clone(worker), Rc::clone(state), one));
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

    /// Logs that an endpoint has begun or ceased to fail.
    fn tell(&self, one: &CheckedEndpoint, fault: Option<CheckFault>) {
        let (endpoint, upstream) = (one.endpoint.address, &*self.key.cluster);
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

/// Checks an endpoint again and again, until this is dropped.
async fn check_on(worker: Rc<Worker>, state: Rc<GroupState>, one: Rc<CheckedEndpoint>) {
    let check = Arc::clone(&state.key.check);
    let mut tally = CheckTally::new(one.verdict.is_out());
    let mut passes = Passes::default();
    // The checks of endpoints that come together are spread over the interval.
    let mut pause = check.interval.mul_f64(worker.random.chance());
    loop {
        let is_prompted = await_turn(&one.verdict, pause).await;
        let Ok(slot) = worker.checkers.slots.acquire().await else { return };
        let begin = worker.clock.now();
        let outcome = probe::run(&worker, &one.endpoint, &check).await;
        drop(slot);
        pause = check.interval;
        let Some(outcome) = outcome else { continue };
        let fault = outcome.err();
        let cells = &one.endpoint.cells;
        cells.checks.inc();
        cells.checks_failed.add(u64::from(fault.is_some()));
        cells.set_check_fault(fault);
        one.verdict.note_passing(passes.note(fault.is_none(), begin, check.rise));
        if tally.note(Checked { is_passed: fault.is_none(), is_prompted }, &check) {
            one.verdict.set_out(tally.is_out());
            state.tell(&one, fault);
            state.settle();
            worker.pool.board().publish();
        }
        pause = tally.next_after(&check, &worker.random);
        if is_prompted && fault.is_none() {
            // Requests that fail for their own reasons must not have the endpoint checked without a pause.
            let gap = HEALTH_CHECK_PROMPTED_GAP.min(pause);
            reactor::sleep(gap).await;
            pause -= gap;
        }
    }
}

/// Waits for the next check; true where a request has prompted it.
async fn await_turn(verdict: &Verdict, pause: Duration) -> bool {
    tokio::select! {
        () = verdict.prompted() => true,
        () = reactor::sleep(pause) => false,
    }
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
