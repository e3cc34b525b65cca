//! A handle for the overload guard's thread: how late the workers' loops are, and orders of relief.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clock::{Clock, Start};
use model::ListenerId;
use model::overload::Mode;
use observe::Registry;
use tokio::sync::watch;

use super::Relief;
use crate::io::ticker::Tick;
use crate::worker::{Notices, Published};

/// Access to a running proxy for the thread that measures shortages.
#[derive(Clone)]
pub struct GuardHandle {
    /// The tick of each worker, whose lag is measured.
    ticks: Vec<Arc<Tick>>,
    clock: Clock,
    relief: watch::Sender<Relief>,
    published: watch::Receiver<Published>,
    registry: Arc<Registry>,
    /// Ports that were chosen when the proxy was started.
    first_ports: Vec<u16>,
    /// Notices for the log, limited in their rate.
    notices: Arc<Notices>,
}

impl GuardHandle {
    pub(crate) fn new(
        workers: usize,
        start: Start,
        registry: &Arc<Registry>,
        (published, addresses): (watch::Receiver<Published>, &[(ListenerId, SocketAddr)]),
    ) -> Self {
        Self {
            ticks: (0..workers).map(|_| Arc::default()).collect(),
            clock: Clock::new(start),
            relief: watch::Sender::default(),
            published,
            registry: Arc::clone(registry),
            first_ports: addresses.iter().map(|(_, address)| address.port()).collect(),
            notices: Arc::default(),
        }
    }

    /// The worst lag of a worker's loop since the last call: the time from a tick to its handling.
    pub fn worst_lag(&self) -> Duration {
        self.clock.update();
        let now = self.clock.now();
        self.ticks.iter().map(|tick| tick.take_lag(now)).max().unwrap_or_default()
    }

    /// Sets the relief that workers apply from now on.
    pub fn order(&self, relief: Relief) {
        // Workers are woken only by a change.
        self.relief.send_if_modified(|now| std::mem::replace(now, relief) != relief);
    }

    /// Whether shortages are measured, and whether relief is applied.
    pub fn mode(&self) -> Mode {
        self.published.borrow().snapshot.settings.guard
    }

    /// Ports of the listeners.
    pub fn ports(&self) -> Vec<u16> {
        let snapshot = Arc::clone(&self.published.borrow().snapshot);
        let configured = snapshot.listeners().iter().map(|listener| listener.id.port);
        self.first_ports.iter().copied().chain(configured).filter(|port| *port > 0).collect()
    }

    /// The registry where the results are shown.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Whether all workers have ended.
    pub fn is_over(&self) -> bool {
        self.relief.is_closed()
    }

    // The receiving end of the orders, for a worker.

    pub(crate) fn orders(&self) -> watch::Receiver<Relief> {
        self.relief.subscribe()
    }

    pub(crate) fn ticks(&self) -> Vec<Arc<Tick>> {
        self.ticks.clone()
    }

    pub(crate) fn tick(&self, worker: usize) -> Arc<Tick> {
        Arc::clone(&self.ticks[worker])
    }

    pub(crate) fn notices(&self) -> Arc<Notices> {
        Arc::clone(&self.notices)
    }
}
