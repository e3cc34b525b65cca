//! State that all parts of a soak share: the books, the report, the disturbances, and whether clients may go
//! on.
//!
//! Must not be in here: what any of them does.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::sync::watch;

use crate::effect::Effect;
use crate::exchange::Target;
use crate::ledger::Ledger;
use crate::lock::locked;
use crate::report::Report;
use crate::windows::{Kind, Windows};

/// Times that a percentile is made of.
const LATENCIES_MIN: usize = 300;

/// The order that clients follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Send requests without a pause.
    Go,
    /// Finish what was begun, and wait.
    Hold,
    /// Finish what was begun, and end.
    End,
}

/// A host that changes come and go for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extra {
    pub(crate) is_there: bool,
    /// The number of the change that made it come or go.
    pub(crate) change: u64,
}

/// Shared by all parts.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) seed: u64,
    /// Nothing is disturbed: nothing excuses an answer.
    pub(crate) is_quiet: bool,
    pub(crate) target: Target,
    pub(crate) ledger: Ledger,
    pub(crate) windows: Windows,
    pub(crate) effect: Effect,
    pub(crate) report: Report,
    /// True once somebody has interrupted the run, and all other processes were killed.
    pub(crate) is_interrupted: Arc<AtomicBool>,
    /// True once the proxy can neither be started nor replaced: nothing more can be learnt.
    pub(crate) has_given_up: AtomicBool,
    order: watch::Sender<Order>,
    /// Milliseconds that requests to the calm host took, since they were asked for.
    latencies: Mutex<Vec<f64>>,
    /// Numbers of what was done besides requests, for the report.
    counts: Mutex<BTreeMap<&'static str, u64>>,
    /// The hosts that come and go, by number.
    pub(crate) extras: Mutex<HashMap<usize, Extra>>,
}

impl Shared {
    pub(crate) fn new(
        seed: u64,
        is_quiet: bool,
        target: Target,
        report: Report,
        is_interrupted: Arc<AtomicBool>,
    ) -> Arc<Shared> {
        Arc::new(Shared {
            seed,
            is_quiet,
            target,
            ledger: Ledger::default(),
            windows: Windows::default(),
            effect: Effect::default(),
            report,
            is_interrupted,
            has_given_up: AtomicBool::new(false),
            order: watch::channel(Order::Go).0,
            latencies: Mutex::default(),
            counts: Mutex::default(),
            extras: Mutex::default(),
        })
    }

    /// Gives an order.
    pub(crate) fn order(&self, order: Order) {
        self.order.send_replace(order);
    }

    /// Waits until clients may go on. False if they are to end.
    pub(crate) async fn goes_on(&self) -> bool {
        let order = self.order.subscribe().wait_for(|order| *order != Order::Hold).await.map(|order| *order);
        matches!(order, Ok(Order::Go))
    }

    /// Whether the soak has not ended.
    pub(crate) fn is_running(&self) -> bool {
        *self.order.borrow() != Order::End
    }

    /// Notes the time that a request to the calm host took, unless the process was disturbed meanwhile: how
    /// long it stood still is not of interest.
    pub(crate) fn note_latency(&self, since: Instant) {
        let disturbs = [Kind::Kill, Kind::Restart, Kind::Descriptors, Kind::Pause, Kind::Memory];
        if disturbs.iter().any(|kind| self.windows.touches(*kind, since)) {
            return;
        }
        locked(&self.latencies).push(since.elapsed().as_secs_f64() * 1000.0);
    }

    /// The 99th percentile of these times since it was taken last. None while there are few.
    pub(crate) fn take_p99(&self) -> Option<f64> {
        let mut latencies = locked(&self.latencies);
        if latencies.len() < LATENCIES_MIN {
            return None;
        }
        let mut all = std::mem::take(&mut *latencies);
        drop(latencies);
        all.sort_unstable_by(f64::total_cmp);
        Some(all[all.len() * 99 / 100])
    }

    /// Counts something for the report.
    pub(crate) fn count(&self, what: &'static str) {
        *locked(&self.counts).entry(what).or_default() += 1;
    }

    pub(crate) fn counts(&self) -> BTreeMap<&'static str, u64> {
        locked(&self.counts).clone()
    }
}
