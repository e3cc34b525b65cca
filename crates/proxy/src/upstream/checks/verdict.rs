//! The verdict on one endpoint, as all workers share it, and what another replica has reported about it.
//!
//! Never in here: what follows from a report, which is `checker`'s.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use clock::Moment;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The verdict on one endpoint.
#[derive(Default)]
pub(crate) struct Verdict {
    is_out: AtomicBool,
    /// Wakes the checker of the endpoint before its time.
    prompt: Notify,
    /// When the first of the last passed checks that make the endpoint healthy began, in nanoseconds of the
    /// clock; 0 where there are not enough of them in a row.
    passing_since: AtomicU64,
    /// This replica checks the endpoint for all.
    is_ours: AtomicBool,
    /// The last report of another replica.
    heard: Mutex<Option<Heard>>,
    /// Wakes the checker because of what other replicas report, or because there are others than before.
    news: Notify,
}

/// A report of another replica about an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Heard {
    pub(super) from: IpAddr,
    pub(super) at: Moment,
    /// The endpoint fails its checks there.
    pub(super) is_out: bool,
}

/// A thing that a checker is woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// A request to the endpoint has failed, or waits in vain.
    Prompted,
    /// Another replica has reported something, or the replicas have changed.
    News,
}

impl Verdict {
    /// The verdict on an endpoint in this state.
    pub(super) fn new(is_out: bool) -> Self {
        Self { is_out: AtomicBool::new(is_out), ..Self::default() }
    }

    /// Whether the endpoint fails its checks.
    pub(crate) fn is_out(&self) -> bool {
        self.is_out.load(Ordering::Relaxed)
    }

    /// Records whether the endpoint fails its checks.
    pub(super) fn set_out(&self, is_out: bool) {
        self.is_out.store(is_out, Ordering::Relaxed);
    }

    /// Has the endpoint checked at once: a request to it has failed, or waits in vain.
    pub(crate) fn prompt(&self) {
        self.prompt.notify_one();
    }

    /// Has the checker look at reports and replicas again.
    pub(super) fn notify(&self) {
        self.news.notify_one();
    }

    /// Ends when a check has been prompted since the last call.
    pub(super) async fn prompted(&self) {
        self.prompt.notified().await;
    }

    /// Ends when there is something to do since the last call.
    pub(super) async fn woken(&self) -> Woken {
        tokio::select! {
            () = self.prompted() => Woken::Prompted,
            () = self.news.notified() => Woken::News,
        }
    }

    /// Records when the last passed checks began, as many as make an endpoint healthy; none where the last
    /// ones have not all passed.
    pub(super) fn note_passing(&self, since: Option<Moment>) {
        let nanos = since.map_or(0, |since| since.since_begin().as_nanos() as u64);
        self.passing_since.store(nanos, Ordering::Relaxed);
    }

    /// When the last passed checks began; none where the last ones have not all passed.
    pub(crate) fn passing_since(&self) -> Option<Moment> {
        let nanos = self.passing_since.load(Ordering::Relaxed);
        (nanos > 0).then(|| Moment::BEGIN.after(Duration::from_nanos(nanos)))
    }

    /// Records whether this replica checks the endpoint for all.
    pub(super) fn set_ours(&self, is_ours: bool) {
        self.is_ours.store(is_ours, Ordering::Relaxed);
    }

    /// Whether this replica checks the endpoint for all.
    pub(super) fn is_ours(&self) -> bool {
        self.is_ours.load(Ordering::Relaxed)
    }

    /// The last report of another replica.
    pub(super) fn heard(&self) -> Option<Heard> {
        *self.heard.lock()
    }

    /// Takes the report of another replica on the endpoint's state. Reports that agree with the verdict wake
    /// nobody, unless the endpoint is checked here for all.
    pub(super) fn hear(&self, heard: Heard, passing_since: Option<Moment>) {
        *self.heard.lock() = Some(heard);
        if heard.is_out != self.is_out() || self.is_ours() {
            self.notify();
        } else {
            self.note_passing(passing_since);
        }
    }
}
