//! Reports about checked endpoints, from this replica to the others and from them.
//!
//! A report is about one endpoint. They wait here until the worker that has connections to the other
//! replicas sends them (`replicas::checks`), several in one message.
//!
//! Never in here: messages and their format, the replicas' connections.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use clock::Moment;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::duty::Members;
use super::key::CheckId;
use super::verdict::{Heard, Verdict};

/// A report about an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// The endpoint's state, by the replica that checks it for all.
    State {
        is_out: bool,
        /// Time since the last passed checks began, as many as make an endpoint healthy.
        passing: Option<Duration>,
    },
    /// The endpoint has failed a check of a replica that does not check it for all.
    Doubt,
}

/// The exchange of reports with the other replicas.
#[derive(Default)]
pub(crate) struct Together {
    state: Mutex<State>,
    /// Wakes the task that sends reports.
    waiting: Notify,
}

#[derive(Default)]
struct State {
    members: Members,
    /// The endpoints that are checked, by this replica or another.
    verdicts: HashMap<CheckId, Arc<Verdict>>,
    /// Reports to be sent: at most one for each endpoint.
    outbox: HashMap<CheckId, Report>,
    /// When they have to be sent.
    due: Option<Moment>,
}

impl Together {
    /// Records who the replicas are. Where they have changed, each endpoint may have another checker.
    pub(crate) fn follow(&self, members: Members) {
        let mut state = self.state.lock();
        if state.members == members {
            return;
        }
        state.members = members;
        state.verdicts.values().for_each(|verdict| verdict.notify());
    }

    /// The replicas that are live now.
    pub(super) fn members(&self) -> Members {
        self.state.lock().members.clone()
    }

    /// Begins to hear reports about an endpoint.
    pub(super) fn add(&self, id: CheckId, verdict: &Arc<Verdict>) {
        self.state.lock().verdicts.insert(id, Arc::clone(verdict));
    }

    /// Ceases to hear reports about an endpoint.
    pub(super) fn remove(&self, id: CheckId) {
        let mut state = self.state.lock();
        state.verdicts.remove(&id);
        state.outbox.remove(&id);
    }

    /// Has a report sent to the other replicas by this time at the latest.
    pub(super) fn report(&self, id: CheckId, report: Report, by: Moment) {
        let mut state = self.state.lock();
        if state.members.all.len() < 2 {
            return;
        }
        state.outbox.insert(id, report);
        if state.due.is_none_or(|due| by < due) {
            state.due = Some(by);
            self.waiting.notify_one();
        }
    }

    /// When the waiting reports have to be sent; none without one.
    pub(crate) fn due(&self) -> Option<Moment> {
        self.state.lock().due
    }

    /// Ends when reports have to be sent earlier than before.
    pub(crate) async fn changed(&self) {
        self.waiting.notified().await;
    }

    /// Takes the reports that wait.
    pub(crate) fn take(&self) -> Vec<(CheckId, Report)> {
        let mut state = self.state.lock();
        state.due = None;
        state.outbox.drain().collect()
    }

    /// Takes reports of another replica. Those about endpoints that are not checked here are passed over.
    pub(crate) fn hear(&self, from: IpAddr, reports: &[(CheckId, Report)], now: Moment) {
        let state = self.state.lock();
        for (id, report) in reports {
            let Some(verdict) = state.verdicts.get(id) else { continue };
            match *report {
                Report::State { is_out, passing } => {
                    let since = passing.and_then(|passing| before(now, passing));
                    verdict.hear(Heard { from, at: now, is_out }, since);
                }
                Report::Doubt if verdict.is_ours() => verdict.prompt(),
                Report::Doubt => {}
            }
        }
    }
}

/// The moment that was this long ago; none before the clock's begin.
fn before(now: Moment, time: Duration) -> Option<Moment> {
    now.since_begin().checked_sub(time).map(|since| Moment::BEGIN.after(since))
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::super::verdict::Woken;
    use super::*;

    const ID: CheckId = CheckId(1);

    fn at(seconds: u64) -> Moment {
        Moment::BEGIN.after(Duration::from_secs(seconds))
    }

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn state(is_out: bool) -> Report {
        Report::State { is_out, passing: None }
    }

    fn together(members: &[u8]) -> (Together, Arc<Verdict>) {
        let (together, verdict) = (Together::default(), Arc::default());
        together
            .follow(Members { own: Some(address(1)), all: members.iter().copied().map(address).collect() });
        together.add(ID, &verdict);
        (together, verdict)
    }

    fn woken(verdict: &Verdict) -> Option<Woken> {
        match pin!(verdict.woken()).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(woken) => Some(woken),
            Poll::Pending => None,
        }
    }

    #[test]
    fn reports_wait_for_the_earliest_and_only_the_last_of_each_is_sent() {
        let (together, _) = together(&[1, 2]);
        assert_eq!((together.due(), together.take()), (None, Vec::new()));
        together.report(ID, state(false), at(5));
        together.report(CheckId(2), state(false), at(9));
        together.report(ID, state(true), at(3));
        assert_eq!(together.due(), Some(at(3)));
        let mut taken = together.take();
        taken.sort_unstable_by_key(|(id, _)| *id);
        assert_eq!(taken, [(ID, state(true)), (CheckId(2), state(false))]);
        assert_eq!((together.due(), together.take()), (None, Vec::new()));
    }

    #[test]
    fn a_replica_alone_reports_nothing() {
        let (together, _) = together(&[1]);
        together.report(ID, state(true), at(5));
        assert_eq!((together.due(), together.take()), (None, Vec::new()));
    }

    #[test]
    fn only_what_contradicts_wakes_and_a_doubt_concerns_the_checker() {
        let (together, verdict) = together(&[1, 2]);
        let hear = |report| together.hear(address(2), &[(ID, report), (CheckId(9), report)], at(100));
        hear(Report::State { is_out: false, passing: Some(Duration::from_secs(7)) });
        assert_eq!((woken(&verdict), verdict.passing_since()), (None, Some(at(93))));
        hear(Report::Doubt);
        assert_eq!(woken(&verdict), None);
        hear(state(true));
        assert_eq!(woken(&verdict), Some(Woken::News));
        assert_eq!(verdict.heard(), Some(Heard { from: address(2), at: at(100), is_out: true }));
        verdict.set_ours(true);
        hear(Report::Doubt);
        assert_eq!(woken(&verdict), Some(Woken::Prompted));
        together.follow(Members::default());
        assert_eq!(woken(&verdict), Some(Woken::News));
        together.remove(ID);
        hear(state(false));
        assert_eq!(woken(&verdict), None);
    }
}
